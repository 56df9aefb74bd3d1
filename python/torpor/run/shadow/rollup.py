# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Minutes of a shadow as the points of a store: one a minute and governor.

All that reads a store reads them: ``torpor store``, ``torpor gate``, polars. The
source is the host, the seed the minute (since 1970, UTC), so that governors pair by minute.
"""

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from torpor.run.shadow.live import Window
from torpor.run.sweeps.axes import Point
from torpor.run.sweeps.parts import Row, catalogue, read_part, row_of, warn
from torpor.run.sweeps.store import Store, Writer, open_store

MINUTE_NS = 60 * 10**9
#: Minutes of a shard.
_SHARD_MINUTES = 60
#: Switches of the machine's governor that are remembered until the minutes they lie in are over.
_SWITCHES = 64


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
        self._keep_ns = keep_ns
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
        known = {metric["key"] for metric in catalogue()}
        for governor in self._governors:
            values = window.values.get(governor)
            error = "the governor has failed" if values is None else None
            metrics: dict[str, float | None] = {
                k: v for k, v in (values or {}).items() if k in known
            }
            seed = round(window.begin_ns / MINUTE_NS)
            point = replace(self._point, governor=governor, seed=seed)
            if under is not None:
                point = replace(point, options=json.dumps({"under": under}))
            identity = json.dumps([point.source, point.options, governor, window.begin_ns])
            name = hashlib.sha256(identity.encode()).hexdigest()[:32]
            yield row_of(name, point, metrics, error, window.duration_ns / 1e6)

    def _prune(self) -> None:
        """Delete the shards that were written longer ago than minutes are kept."""
        if self._keep_ns is None:
            return
        for path in self._store.shards:
            with contextlib.suppress(OSError):
                if path.stat().st_mtime_ns < time.time_ns() - self._keep_ns:
                    path.unlink()


def parts(store: Store) -> Iterator[list[Row]]:
    """Yield every minute once, a file at a time: a year of them has no room in memory.

    All governors of a minute are in one file. Warns of what is damaged (:class:`StoreWarning`).
    """
    met: set[bytes] = set()
    for path in (*store.open_files, *store.shards):
        try:
            part = read_part(path)
        except FileNotFoundError:
            # It has become a part of another one, which is listed.
            continue
        warn([part.damage])
        names = [bytes.fromhex(row["point"]) for row in part.records]
        yield [
            row
            for name, row in zip(names, part.records, strict=True)
            if row["kind"] == "shadow" and name not in met
        ]
        met.update(names)
