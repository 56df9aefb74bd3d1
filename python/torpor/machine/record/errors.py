# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Errors of a recording."""

import os
from pathlib import Path

from torpor._engine import TorporError

NEEDS_ROOT = (
    "recording the kernel requires root (sudo) or the capabilities CAP_PERFMON and "
    "CAP_DAC_OVERRIDE; "
    "a kernel in lockdown refuses it to all"
)


class RecordError(TorporError):
    """A recording could not be made; the message gives the obstacle."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)


class WriteError(RecordError):
    """The kernel refused a value."""

    def __init__(self, message: str, hint: str | None, reason: str) -> None:
        super().__init__(message, hint)
        self.reason = reason


def write(path: Path, value: str, flags: int = os.O_TRUNC) -> None:
    """Write to a file of the kernel's in one piece, naming it in the error if that fails.

    Not by ``open``: to append, it seeks to the file's end first, which tracefs refuses.
    """
    try:
        file = os.open(path, os.O_WRONLY | flags)
        try:
            os.write(file, value.encode())
        finally:
            os.close(file)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = NEEDS_ROOT if isinstance(error, PermissionError) else None
        raise WriteError(f"write `{value.strip()}` to `{path}`: {reason}", hint, reason) from error
