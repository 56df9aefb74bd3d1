# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A command's journal: opened with it, gone once the result is delivered."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from torpor.cli.console import fail, print_note
from torpor.run import journals
from torpor.run.simulations import Simulation


class Journal:
    """The file where a command keeps its finished runs; `path` is None where there is none."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        # A study may run one simulation for several tables: that is no earlier command's work.
        self._has_earlier_runs = path is not None and not _is_empty(path)

    def tell(self, simulation: Simulation) -> None:
        """Say once that runs are not run again, and when the journal takes no more."""
        if simulation.resumed_runs and self._has_earlier_runs:
            self._has_earlier_runs = False
            print_note(f"resumed: finished runs are taken from `{self.path}`")
        failure = simulation.journal_failure
        if failure is not None:
            print_note(f"finished runs are no longer kept: {failure}")

    def done(self) -> None:
        """Remove it: what it held is where the user wanted it."""
        if self.path is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
        self.path = None


@contextlib.contextmanager
def journal(asked: Path | None, output: Path | None, *words: object) -> Iterator[Journal]:
    """Open the journal that was asked for, or the one next to `output`, or that of `words`.

    What ends the command before `done` leaves it, and says where.
    """
    if asked is not None and not asked.parent.is_dir():
        fail(f"`{asked}`: there is no folder `{asked.parent}`")
    if asked is None:
        asked = journals.of_command(*words) if output is None else journals.beside(output)
    kept = Journal(asked)
    try:
        yield kept
    finally:
        if kept.path is not None and _is_empty(kept.path):
            kept.done()
        if kept.path is not None:
            print_note(
                f"finished runs are kept in `{kept.path}`: the same command continues from there"
            )


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except OSError:
        return True
