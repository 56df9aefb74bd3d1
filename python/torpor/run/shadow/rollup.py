# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Minutes of a shadow as the points of a store: one a minute and governor.

All that reads a store reads them: ``torpor store``, ``torpor gate``, polars. The source is
the host. The seed identifies the window, so that governors pair by window: its begin in
milliseconds since 1970, then 20 bits of a hash of the exact begin and of all that was measured.
Two windows of a minute, of two shadows or of a clock that was set back, have two seeds; a window
that is stored twice has one.
"""

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from torpor.results.catalogue import RUNS, metrics
from torpor.run.shadow.live import Window
from torpor.run.sweeps.axes import Point
from torpor.run.sweeps.identity import content_of, name_of
from torpor.run.sweeps.parts import Row, named, read_columns, row_of
from torpor.run.sweeps.store import Writer, open_store

MINUTE_NS = 60 * 10**9
#: Minutes of a shard.
_SHARD_MINUTES = 60
#: Bits of a seed that distinguish windows of a millisecond; the others last until the year 2248.
_HASH_BITS = 20
#: Seeds below it are minutes since 1970, which earlier versions wrote.
_MINUTES = 1 << 40
#: Switches of the machine's governor that are remembered until the minutes they lie in are over.
_SWITCHES = 64


def seed_of(window: Window) -> int:
    """Return the number that identifies a window."""
    text = json.dumps([window.begin_ns, window.duration_ns, window.values], sort_keys=True)
    digest = int(hashlib.sha256(text.encode()).hexdigest(), 16)
    return window.begin_ns // 10**6 << _HASH_BITS | digest % (1 << _HASH_BITS)


def begin_ns(seed: int) -> int:
    """Return when a window began, to the millisecond."""
    return seed * MINUTE_NS if seed < _MINUTES else (seed >> _HASH_BITS) * 10**6


class Under:
    """The governors that decided on the machine, by when they were seen."""

    def __init__(self, read: Callable[[], str | None]) -> None:
        """Look for the first time."""
        self._read = read
        #: Since when each may have decided, and since when it surely does.
        self._seen = [(0, 0, read())]
        self._looked_ns = time.time_ns()

    @property
    def now(self) -> str | None:
        """The governor seen last."""
        return self._seen[-1][2]

    def look(self) -> None:
        """Notice a switch."""
        name, now_ns = self._read(), time.time_ns()
        if name != self.now:
            self._seen = [*self._seen[-_SWITCHES:], (self._looked_ns, now_ns, name)]
        self._looked_ns = now_ns

    def during(self, window: Window) -> set[str | None]:
        """Return those that may have decided in a window."""
        end_ns = window.begin_ns + window.duration_ns
        ends = [*(surely for _, surely, _ in self._seen[1:]), math.inf]
        return {
            name
            for (maybe, _, name), end in zip(self._seen, ends, strict=True)
            if maybe < end_ns and end > window.begin_ns
        }


class Rollup:
    """Writes the minutes of one machine. A disk that is full costs the minutes meanwhile."""

    def __init__(
        self, folder: Path, point: Point, governors: Iterable[str], keep_ns: int | None = None
    ) -> None:
        """Open or make the store; ``point`` has what all minutes have in common.

        Raises SweepError if the folder is not a store, OSError if it cannot be made.
        """
        self._store = open_store(folder, create=True)
        self._point, self._governors = point, list(governors)
        self._contents = {governor: content_of(governor) for governor in self._governors}
        self._keep_ns = keep_ns
        #: When the first of this host's minutes in each shard began; shards never change.
        self._first_ns: dict[Path, float] = {}
        self._stack = contextlib.ExitStack()
        self._writer: Writer | None = None
        #: Minutes that could not be written, and why.
        self.unwritten = 0
        self.failure: str | None = None

    def __enter__(self) -> "Rollup":
        self._store.name_governors(self._governors)
        self._writer = self._stack.enter_context(
            self._store.writer(_SHARD_MINUTES * len(self._governors))
        )
        self._prune()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stack.close()
        except OSError as error:
            # The lines are on the disk, and become a shard the next time.
            self.failure = str(error)

    def add(self, windows: Iterable[Window], under: Under | None = None) -> None:
        """Write the minutes that have no losses and, if it is known, one governor that decided."""
        assert self._writer is not None
        for window in windows:
            names = {None} if under is None else under.during(window)
            if not window.is_sample or len(names) > 1:
                continue
            try:
                for row in self._rows(window, names.pop()):
                    self._writer.add(row)
                self.failure = None
            except OSError as error:
                self.unwritten += 1
                self.failure = f"{error.filename}: {error.strerror}"
            if window.begin_ns // MINUTE_NS % _SHARD_MINUTES == 0:
                self._prune()

    def _rows(self, window: Window, under: str | None) -> Iterator[Row]:
        known = metrics(*RUNS)
        seed = seed_of(window)
        for governor in self._governors:
            found = window.values.get(governor)
            error = "the governor has failed" if found is None else None
            values: dict[str, float | None] = {k: v for k, v in (found or {}).items() if k in known}
            point = replace(self._point, governor=governor, seed=seed)
            if under is not None:
                point = replace(point, options=json.dumps({"under": under}))
            name = name_of(named(point), self._contents[governor])
            yield row_of(name, point, values, error, window.duration_ns / 1e6)

    def _prune(self) -> None:
        """Delete this host's minutes that are older than minutes are kept, and no other point."""
        if self._keep_ns is None:
            return
        least_ns = time.time_ns() - self._keep_ns
        # A disk that is full, or a `store gc` at this moment: they go the next time.
        with contextlib.suppress(OSError):
            self._first_ns = {
                path: self._first_ns.get(path)
                or min(self._begins(read_columns(path).read), default=math.inf)
                for path in self._store.shards
            }
            over = [path for path, first_ns in self._first_ns.items() if first_ns < least_ns]
            self._store.drop(over, lambda read: [at < least_ns for at in self._begins(read)])

    def _begins(self, read: Callable[[str], list[Any]]) -> list[float]:
        """Return when each point's window began; infinity if it is not one of this host's."""
        own = ("shadow", self._point.source)
        return [
            begin_ns(seed) if (kind, source) == own and seed is not None else math.inf
            for kind, source, seed in zip(*map(read, ("kind", "source", "seed")), strict=True)
        ]
