# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Packs files into an initramfs, the same ones always into the same bytes.

Where a guest counts instructions, every byte that the kernel unpacks moves all that comes after.
"""

import gzip
import stat
from pathlib import Path

#: Compressing harder would cost more here than the guest gains by it.
GZIP_LEVEL = 1

DIRECTORY = stat.S_IFDIR | 0o755
PROGRAM = stat.S_IFREG | 0o755
CONSOLE = stat.S_IFCHR | 0o600


def pack(files: dict[str, bytes | Path]) -> bytes:
    """A compressed initramfs of these files, by their path in it; all of them are executable."""
    entries = {"dev/console": (CONSOLE, b"")}
    for name, content in files.items():
        data = content.read_bytes() if isinstance(content, Path) else content
        entries[name] = (PROGRAM, data)
    for name in list(entries):
        for parent in Path(name).parents:
            if parent.name:
                entries[str(parent)] = (DIRECTORY, b"")
    archive = b"".join(
        _entry(inode, name, *entries[name]) for inode, name in enumerate(sorted(entries), 1)
    )
    return gzip.compress(archive + _entry(0, "TRAILER!!!", 0, b""), GZIP_LEVEL, mtime=0)


def _entry(inode: int, name: str, mode: int, data: bytes) -> bytes:
    """One entry of a `newc` archive, Documentation/driver-api/early-userspace/buffer-format.rst.

    Its times are 0, and its owner is root. Character devices are the console, 5:1.
    """
    device = (5, 1) if stat.S_ISCHR(mode) else (0, 0)
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0)
    header = "070701" + "".join(f"{field:08X}" for field in fields) + name + "\0"
    return _padded(header.encode()) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
