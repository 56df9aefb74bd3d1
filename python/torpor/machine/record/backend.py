# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Interface between a session and a way to record."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Saved:
    """Counts of the kernel about its recording; None if it has none."""

    events_count: int | None = None
    lost_count: int | None = None


class Backend(Protocol):
    """Set up on entry, taken down on exit; what is recorded lies between start and stop."""

    name: str
    #: Requests that could not be met, as sentences.
    notes: list[str]

    def __enter__(self) -> "Backend": ...

    def __exit__(self, *_: object) -> None: ...

    def start(self) -> None:
        """Start recording; it has started when this returns."""

    def mark(self, text: str) -> None:
        """Write a marker into the recording, if it supports any."""

    def tend(self) -> int:
        """Do what is due every second or so; return the bytes on disk."""
        ...

    def stop(self) -> None:
        """Stop recording."""

    def save(self) -> Saved:
        """Complete the file."""
        ...
