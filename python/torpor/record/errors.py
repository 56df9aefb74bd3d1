# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What goes wrong while recording."""

from pathlib import Path

from torpor._engine import TorporError

NEEDS_ROOT = (
    "recording the kernel takes root (sudo) or the capabilities CAP_PERFMON and CAP_DAC_OVERRIDE; "
    "a kernel in lockdown refuses it to all"
)


class RecordError(TorporError):
    """A recording could not be made; the message says what is in the way."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)


def write(path: Path, value: str, mode: str = "w") -> None:
    """Write to a file of the kernel's, naming it in the error if that fails."""
    try:
        with open(path, mode, encoding="utf-8") as file:
            file.write(value)
    except OSError as error:
        hint = NEEDS_ROOT if isinstance(error, PermissionError) else None
        raise RecordError(f"write `{value.strip()}` to `{path}`: {error.strerror}", hint) from error
