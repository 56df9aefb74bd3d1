# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Errors of a calibration."""

from torpor._engine import TorporError


class CalibrationError(TorporError):
    """The machine's power cannot be measured, or the measurement does not determine it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)
