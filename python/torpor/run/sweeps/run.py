# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs the points of a sweep that its store does not have."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from torpor.results.files import read_text
from torpor.run.sweeps.axes import Axes, Point, SweepError
from torpor.run.sweeps.batches import Batch, Waiting
from torpor.run.sweeps.columns import Points
from torpor.run.sweeps.identity import Identities
from torpor.run.sweeps.parts import Line, Row, named
from torpor.run.sweeps.points import Recordings, run_batch
from torpor.run.sweeps.ranks import against_oracle
from torpor.run.sweeps.store import Store, open_store

#: More points than this are a mistake more often than a plan.
POINTS_MAX = 1_000_000

#: Time that a thread runs between two handovers, which take some 0.1 ms.
_BATCH_MS = 10.0

_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Progress:
    """Progress of a sweep."""

    done: int
    #: Points to run: those that the store has are not among them.
    total: int
    failed: int


@dataclass(frozen=True)
class Swept:
    """Result of a sweep."""

    store: Store
    #: The name of each point.
    names: dict[Point, str] = field(repr=False)
    done: int
    failed: int
    #: Number of points that the store had.
    known: int
    is_interrupted: bool = False

    def rows(self) -> dict[str, Row]:
        """Return the rows of the sweep's points by their names, with the distance to the oracle.

        A point is known by its content: what the store calls otherwise, a recording from another
        folder say, is called as here.
        """
        point_of = {name: point for point, name in self.names.items()}
        kept = self.store.points()
        places = [at for at, name in enumerate(kept["point"]) if name in point_of]
        mine = [row | named(point_of[row["point"]]) for row in kept.at(places).rows()]
        return {row["point"]: row for row in against_oracle(Points.of(mine)).rows()}


class _Stopped(Exception):  # noqa: N818
    """Ends a run from its progress callback."""


def plan(points: Iterable[Point], identities: Identities | None = None) -> dict[Point, str]:
    """Return the name of each point.

    Raises :class:`torpor.TorporError` for a governor, parameter, platform or workload that is
    unknown.
    """
    identities = identities or Identities()
    return {point: identities.key(point) for point in points}


def shard(names: dict[Point, str], index: int, count: int) -> dict[Point, str]:
    """Return the part of the points that shard ``index`` of ``count`` runs; 0 is the first.

    Which shard a point belongs to depends on its name alone, so parts run anywhere are disjoint.
    """
    return {point: name for point, name in names.items() if int(name[:8], 16) % count == index}


def sweep(
    axes: Axes | Iterable[Point],
    store: _Path,
    *,
    threads: int | None = None,
    dask: str | None = None,
    memory: int | None = None,
    retry: bool = False,
    part: tuple[int, int] = (0, 1),
    points_max: int = POINTS_MAX,
    progress: Callable[[Progress], None] | None = None,
    compiling: Callable[[str, int, int], None] | None = None,
) -> Swept:
    """Run every point of the axes that the store does not have.

    Args:
        axes: What varies, or the points themselves.
        store: The folder; made if it is not there.
        threads: Points that run at a time; default: one a core.
        dask: The address of a Dask scheduler, whose workers run the points.
        memory: Bytes that recordings and points in progress may hold together.
        retry: Run points again that ended in an error.
        part: Index and count: run only this share of the points, 0 of 1 being all.
        points_max: Refuse more points than this.
        progress: Called after each point.
        compiling: Called while kernels to host are compiled.

    Ctrl-C keeps what is finished. Raises :class:`SweepError` before anything runs, and for a
    recording that alone is larger than ``memory``; what goes wrong in a point is in its row.
    """
    points = axes.points() if isinstance(axes, Axes) else list(axes)
    if len(points) > points_max:
        raise SweepError(f"{len(points):,} points, and {points_max:,} are the most")
    names = shard(plan(points, Identities(compiling)), *part)
    if memory is not None:
        _check_room(names, memory)
    runner = _runner(dask, threads, memory)
    opened = open_store(store, create=True)
    opened.name_governors(point.governor for point in points)
    known = opened.names()
    wanted = {
        name: point for point, name in names.items() if name not in known or (retry and known[name])
    }
    # Replays first, by recording: two recordings are in memory at most.
    ordered = sorted(wanted.items(), key=lambda item: (item[1].kind, item[1].source))
    done = failed = 0
    is_interrupted = False
    with opened.writer() as writer:
        try:
            for lines in runner(ordered):
                writer.add_lines([line.text for line in lines])
                for line in lines:
                    done += 1
                    failed += line.has_error
                    if progress is not None:
                        progress(Progress(done, len(wanted), failed))
        except KeyboardInterrupt:
            is_interrupted = True
    count = len(set(names.values()))
    return Swept(opened, names, done, failed, count - len(wanted), is_interrupted)


def _check_room(points: Iterable[Point], room_bytes: int) -> None:
    """Refuse what cannot fit, before anything is read: a recording is no smaller in memory."""
    for path in {point.source for point in points if point.kind == "replay"}:
        size_bytes = os.path.getsize(path)
        if size_bytes > room_bytes:
            raise SweepError(
                f"`{path}` has {size_bytes / 1e6:.3g} MB, and --memory is {room_bytes / 1e6:.3g} MB"
            )


def _runner(
    dask: str | None, threads: int | None, memory: int | None
) -> Callable[[list[tuple[str, Point]]], Iterator[list[Line]]]:
    if dask is None:
        return _Threads(threads or os.cpu_count() or 1, memory).lines
    from torpor.run.sweeps.cluster import Cluster

    return Cluster(dask, memory).lines


class _Threads:
    """Runs points on threads, those of a recording one after the other: it is read once."""

    def __init__(self, count: int, room_bytes: int | None) -> None:
        self._count = count
        self._room_bytes = room_bytes
        self._base_bytes = _resident_bytes()
        self._recordings = Recordings(room_bytes)
        self._is_stopped = False

    def lines(self, points: list[tuple[str, Point]]) -> Iterator[list[Line]]:
        """Yield lines as their points are finished."""
        waiting = Waiting(points, _BATCH_MS)
        with ThreadPoolExecutor(self._count) as pool:
            running: dict[Future[list[Line]], Batch] = {}
            try:
                while True:
                    # A sweep of a million points holds no million futures.
                    for _ in range(self._free(len(running))):
                        if batch := waiting.take(2 * self._count):
                            running[self._begun(pool, batch)] = batch
                    if not running:
                        return
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        lines = future.result()
                        waiting.give_back(running.pop(future)[len(lines) :])
                        waiting.learn(lines)
                        yield lines
            finally:
                # After an interrupt or a full disk, runs end at their next report.
                self._is_stopped = True
                for future in running:
                    future.cancel()

    def _begun(self, pool: ThreadPoolExecutor, batch: Batch) -> Future[list[Line]]:
        return pool.submit(run_batch, batch, self._recordings, self._report, _BATCH_MS)

    def _free(self, running: int) -> int:
        """Return how many batches to begin: under a memory bound one at a time."""
        if self._room_bytes is None:
            return 2 * self._count - running
        if running == 0:
            return 1
        held_bytes = _resident_bytes() - self._base_bytes
        fits = held_bytes * (running + 1) <= self._room_bytes * running
        return int(fits and running < self._count)

    def _report(self, _what: str, _done: int, _total: int) -> None:
        if self._is_stopped:
            raise _Stopped


def _resident_bytes() -> int:
    return int(read_text("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
