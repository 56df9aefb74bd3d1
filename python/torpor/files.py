# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Output files, which appear whole or not at all."""

import os

from torpor import _engine


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a temporary file in the same folder, flush it to the disk, then rename it.

    Whatever fails, a full disk for one, what stood there stays. Raises OSError, which names
    ``path``.
    """
    with _engine.WholeFile(os.fspath(path)) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)
