# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Errors of the running kernel."""

from torpor._engine import TorporError


class KernelError(TorporError):
    """The kernel could not be changed as requested; the message gives the obstacle."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)


class KilledError(KernelError):
    """A program that was to change something, and was killed while it did."""
