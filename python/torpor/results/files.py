# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Input files that cannot block, and output files, which appear whole or not at all."""

import errno
import os
import stat
from typing import BinaryIO

from torpor import _engine
from torpor._engine import TorporError


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a temporary file in the same folder, flush it to the disk, then rename it.

    Whatever fails, a full disk for one, what stood there stays. Raises OSError, which names
    ``path``.
    """
    with _engine.WholeFile(os.fspath(path)) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


class MissingFileError(TorporError, FileNotFoundError):
    """A missing file: both Torpor's error and Python's."""

    def __str__(self) -> str:
        """Name the file as Torpor's other errors do."""
        return f"`{self.filename}`: {_engine.missing_file(self.filename)}"


def cause(error: OSError) -> str:
    """Say why a file cannot be read or written; for a missing one, what exists instead."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return _engine.missing_file(os.fsdecode(error.filename))
    return error.strerror or str(error)


class NotRegularError(OSError):
    """A FIFO, a device or a folder instead of a file."""


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file of a folder that somebody else filled. A FIFO there would block its reader.

    Raises OSError: :class:`MissingFileError`, or :class:`NotRegularError` for what is no regular
    file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise MissingFileError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError(errno.EINVAL, "not a regular file", os.fspath(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read a whole regular file. Raises what :func:`open_regular` does."""
    with open_regular(path) as file:
        return file.read()


def read_text(path: str | os.PathLike[str], errors: str = "strict") -> str:
    """Read a whole regular file as UTF-8. Raises what :func:`open_regular` does, and ValueError."""
    return read_bytes(path).decode("utf-8", errors).replace("\r\n", "\n")
