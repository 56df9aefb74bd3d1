# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A command's finished runs: kept until its result is delivered."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from torpor.cli.console import print_note
from torpor.run.finished import folder_of_command
from torpor.run.simulations import Simulation
from torpor.run.sweeps.store import Store


class Finished:
    """The store of a command; ``path`` is None without a store."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        # A study may run one simulation for several tables: that is not an earlier command's work.
        self._has_earlier_runs = path is not None and not _is_empty(path)
        self.is_partial = False

    def report(self, simulation: Simulation) -> None:
        """Print once that runs are not repeated, and that the store keeps no more runs."""
        self.is_partial |= simulation.interrupted
        if simulation.resumed_runs and self._has_earlier_runs:
            self._has_earlier_runs = False
            print_note(f"resumed: finished runs are taken from `{self.path}`")
        if failure := simulation.store_failure:
            print_note(f"finished runs are no longer kept: {failure}")


@contextlib.contextmanager
def finished_runs(asked: Path | None, *words: object) -> Iterator[Finished]:
    """Open the store that the user named, or one for these words in the user's cache.

    The latter is removed when the block ends, unless an exception or a signal ends it.
    """
    store = Finished(asked or folder_of_command(*words))
    is_delivered = False
    try:
        yield store
        is_delivered = not store.is_partial
    finally:
        path = store.path
        if path is not None and asked is None and (is_delivered or _is_empty(path)):
            shutil.rmtree(path, ignore_errors=True)
        elif path is not None and not is_delivered and not _is_empty(path):
            print_note(f"finished runs are kept in `{path}`: the same command continues from there")


def _is_empty(store: Path) -> bool:
    try:
        return Store(store).is_empty
    except OSError:
        return True
