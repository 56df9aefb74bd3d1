# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Cuts recordings into small seeds.

usage: make_seeds.py CORPUS_DIR RECORDING...

A Perfetto trace becomes one file per kind and size class of packets, and a few with packets in a
row; a text or web page becomes pieces of whole lines; any other file under 64 kB is copied.
"""

import pathlib
import sys

PACKET_MAX_BYTES = 24_000
TEXT_PIECE_BYTES = 4_000
TEXT_PIECES = 12
PAGE_START = b'<html><script class="trace-data" type="application/text">\n'


def varint(data, pos):
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, pos


def packets(data):
    """Yield the packets of a trace, each with its tag and length."""
    pos = 0
    while pos < len(data):
        start = pos
        tag, pos = varint(data, pos)
        length, pos = varint(data, pos)
        pos += length
        if tag == 0x0A:
            yield data[start:pos]


def kinds(packet):
    """Return the field numbers of a packet."""
    _, pos = varint(packet, 1)
    numbers = []
    while pos < len(packet):
        tag, pos = varint(packet, pos)
        numbers.append(tag >> 3)
        if tag & 7 == 2:
            length, pos = varint(packet, pos)
            pos += length
        elif tag & 7 == 0:
            _, pos = varint(packet, pos)
        else:
            pos += 8 if tag & 7 == 1 else 4
    return tuple(sorted(set(numbers)))


def pieces(name, data):
    """Yield pieces of whole lines; those of a page are pages again."""
    for index in range(TEXT_PIECES):
        start = data.find(b"\n", len(data) * index // TEXT_PIECES) + 1
        end = data.rfind(b"\n", start, start + TEXT_PIECE_BYTES) + 1
        piece = data[start:end]
        if name.suffix == ".html":
            piece = PAGE_START + piece + b"</script></html>"
        yield index, piece


def main():
    corpus = pathlib.Path(sys.argv[1])
    corpus.mkdir(parents=True, exist_ok=True)
    for name in map(pathlib.Path, sys.argv[2:]):
        data = name.read_bytes()
        if name.suffix in (".txt", ".html"):
            for index, piece in pieces(name, data):
                (corpus / f"{name.parent.name}-{name.stem}-{index}").write_bytes(piece)
            continue
        if not data.startswith(b"\n"):
            if len(data) < 64_000:
                (corpus / name.name).write_bytes(data)
            continue
        small = [packet for packet in packets(data) if len(packet) < PACKET_MAX_BYTES]
        seen = set()
        for packet in small:
            key = (kinds(packet), len(packet).bit_length())
            if key not in seen:
                seen.add(key)
                (corpus / f"{name.stem}-{len(seen)}").write_bytes(packet)
        for row in range(0, len(small), max(1, len(small) // 8)):
            (corpus / f"{name.stem}-row-{row}").write_bytes(b"".join(small[row : row + 3]))


if __name__ == "__main__":
    main()
