# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Input files that cannot block, and output files, which appear whole or not at all."""

import errno
import os
import stat
from typing import BinaryIO

from torpor import _engine


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a temporary file in the same folder, flush it to the disk, then rename it.

    Whatever fails, a full disk for one, what stood there stays. Raises OSError, which names
    ``path``.
    """
    with _engine.WholeFile(os.fspath(path)) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


class NotRegularError(OSError):
    """A FIFO, a device or a folder where a file was expected."""


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file of a folder that somebody else filled. A FIFO there would block its reader.

    Raises OSError, :class:`NotRegularError` for what is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError(errno.EINVAL, "not a regular file", os.fspath(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
