# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A progress bar on stderr, for work that is long and has someone watching."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from torpor.cli.console import print_note
from torpor.results.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Beginning of the work that takes long the first time.
_LONG = "compiling "
# Work shorter than this is over before a bar could be read.
_PATIENCE_S = 0.4


#: Takes what is done, how much of it, and of how much.
Bar: TypeAlias = Callable[[str, int, int], None]


class ProgressBar:
    """Takes the engine's reports; shows itself once the work turns out to be long."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take a report: ``done`` of ``total`` units of ``what``."""
        if self._bar is None or self._task is None:
            if time.monotonic() - self._started_s < _PATIENCE_S:
                return
            self._bar = _start()
            self._task = self._bar.add_task(printable(what))
        # Recordings follow one another: one bar serves them all.
        what = printable(what)
        self._bar.update(self._task, description=what, completed=done, total=total or None)

    def stop(self) -> None:
        """Remove the bar, so that only the result stays on the screen."""
        if self._bar is not None:
            self._bar.stop()


def of_several(names: Sequence[str], bar: Bar) -> Bar:
    """Say in front of what is done which of several recordings it is done with: ``3 of 60``."""
    if len(names) < 2:
        return bar

    def tell(what: str, done: int, total: int) -> None:
        # The longest, as one may be the beginning of another.
        named = [name for name in names if name in what]
        place = names.index(max(named, key=len)) + 1 if named else None
        bar(f"{place} of {len(names)}: {what}" if place else what, done, total)

    return tell


class OneLine:
    """Says once, where nobody watches, that a kernel is compiled: that takes a minute and more."""

    def __init__(self) -> None:
        self._is_said = False

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take a report."""
        if not self._is_said and what.startswith(_LONG):
            self._is_said = True
            print_note(f"{what}: {total} files, once; images are kept")

    def stop(self) -> None:
        """Leave the line."""


@contextlib.contextmanager
def if_watched() -> Iterator[ProgressBar | OneLine]:
    """Give a progress bar if stderr is a terminal, and take it away however the work ends."""
    bar = ProgressBar() if sys.stderr.isatty() else OneLine()
    try:
        yield bar
    finally:
        bar.stop()


def _start() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    bar.start()
    return bar
