# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Packs the starts of texts in every supported compression, as seeds.

usage: make_packed.py CORPUS_DIR RECORDING...
"""

import bz2
import gzip
import io
import lzma
import pathlib
import sys
import zipfile

PIECE_BYTES = 2_000


def archive(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as written:
        for name, content in members:
            written.writestr(name, content)
    return out.getvalue()


def main(folder, *recordings):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for path in map(pathlib.Path, recordings):
        piece = path.read_bytes()[:PIECE_BYTES]
        packed = {
            "gz": gzip.compress(piece, mtime=0),
            "bz2": bz2.compress(piece),
            "xz": lzma.compress(piece),
            "zip": archive([("notes", b"none"), ("trace", piece)]),
            "xz.zip": archive([("trace.xz", lzma.compress(piece))]),
        }
        for end, content in packed.items():
            (folder / f"{path.stem}.{end}").write_bytes(content)


if __name__ == "__main__":
    main(*sys.argv[1:])
