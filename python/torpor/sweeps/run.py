# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs the points of a sweep that its store does not have."""

import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import Any

from torpor import _engine
from torpor._engine import TorporError
from torpor.replays import Trace, load_trace
from torpor.simulations import simulate
from torpor.sweeps.axes import Axes, Point, SweepError
from torpor.sweeps.identity import Identities, engine_id
from torpor.sweeps.store import Row, Store, open_store

#: More points than this are a mistake more often than a plan.
POINTS_MAX = 1_000_000

_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Progress:
    """How far a sweep is."""

    done: int
    #: Points to run: those that the store has are not among them.
    total: int
    failed: int


@dataclass(frozen=True)
class Swept:
    """What came of a sweep."""

    store: Store
    #: All points of the sweep, by name.
    points: dict[str, Point]
    done: int
    failed: int
    #: How many the store had.
    known: int
    is_interrupted: bool = False


class _Stopped(Exception):  # noqa: N818
    """Ends a run from its progress callback."""


def plan(axes: Axes, identities: Identities | None = None) -> dict[str, Point]:
    """Return the points of a sweep by name.

    Raises :class:`SweepError` for axes that make no point, and :class:`torpor.TorporError` for a
    governor, parameter, platform or workload that is unknown.
    """
    identities = identities or Identities()
    return {identities.key(point): point for point in axes.points()}


def shard(points: dict[str, Point], index: int, count: int) -> dict[str, Point]:
    """Return the part of the points that shard ``index`` of ``count`` runs; 0 is the first.

    Which shard a point belongs to depends on its name alone, so parts run anywhere are disjoint.
    """
    return {name: point for name, point in points.items() if int(name[:8], 16) % count == index}


def sweep(
    axes: Axes,
    store: _Path,
    *,
    threads: int | None = None,
    retry: bool = False,
    part: tuple[int, int] = (0, 1),
    points_max: int = POINTS_MAX,
    progress: Callable[[Progress], None] | None = None,
    compiling: Callable[[str, int, int], None] | None = None,
) -> Swept:
    """Run every point of the axes that the store does not have.

    Args:
        axes: What varies.
        store: The folder; made if it is not there.
        threads: Points that run at a time; default: one a core.
        retry: Run points again that ended in an error.
        part: Index and count: run only this share of the points, 0 of 1 being all.
        points_max: Refuse more points than this.
        progress: Called after each point.
        compiling: Called while kernels to host are compiled.

    Ctrl-C keeps what is finished. Raises :class:`SweepError` before anything runs; what goes wrong
    in a point is in its row.
    """
    points = axes.points()
    if len(points) > points_max:
        raise SweepError(f"{len(points):,} points, and {points_max:,} are the most")
    identities = Identities(compiling)
    planned = shard({identities.key(point): point for point in points}, *part)
    opened = open_store(store, create=True)
    known = opened.names()
    wanted = {
        name: point
        for name, point in planned.items()
        if name not in known or (retry and known[name])
    }
    done = failed = 0
    is_interrupted = False
    runner = _Runner(wanted)
    with opened.writer() as writer:
        try:
            for row in runner.rows(threads or os.cpu_count() or 1):
                writer.add(row)
                done += 1
                failed += row["error"] is not None
                if progress is not None:
                    progress(Progress(done, len(wanted), failed))
        except KeyboardInterrupt:
            is_interrupted = True
    return Swept(opened, planned, done, failed, len(planned) - len(wanted), is_interrupted)


class _Runner:
    """Runs points on threads, those of a recording one after the other: it is read once."""

    def __init__(self, points: dict[str, Point]) -> None:
        # Replays first, by recording: two recordings are in memory at most.
        self._points = sorted(points.items(), key=lambda item: (item[1].kind, item[1].source))
        self._is_stopped = False
        self._traces: dict[str, Future[Trace]] = {}

    def rows(self, threads: int) -> Iterator[Row]:
        """Yield rows as they are finished."""
        waiting = iter(self._points)
        with ThreadPoolExecutor(threads) as pool:
            running: set[Future[Row]] = set()
            try:
                while True:
                    # A sweep of a million points holds no million futures.
                    for name, point in islice(waiting, 2 * threads - len(running)):
                        running.add(pool.submit(self._run, name, point))
                    if not running:
                        return
                    finished, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in finished:
                        yield future.result()
            finally:
                # After an interrupt or a full disk, runs end at their next report.
                self._is_stopped = True
                for future in running:
                    future.cancel()

    def _run(self, name: str, point: Point) -> Row:
        started_ns = time.perf_counter_ns()
        metrics: dict[str, float | None] = {}
        error = None
        try:
            metrics, error = (
                self._replay(point) if point.kind == "replay" else self._simulate(point)
            )
        except (TorporError, OSError) as failure:
            error = str(failure)
        return {
            "point": name,
            "kind": point.kind,
            "source": point.source,
            "platform": point.platform,
            "governor": point.governor,
            "kernel": point.kernel,
            "cpufreq": point.cpufreq,
            "io_boost": point.io_boost,
            "hz": point.hz,
            "latency_limit": point.latency_limit,
            "seed": point.seed,
            "options": point.options,
            "error": error,
            "run_ms": (time.perf_counter_ns() - started_ns) / 1e6,
            "torpor": _engine.__version__,
            "engine": engine_id(),
            "metrics": {key: value for key, value in metrics.items() if value is not None},
        }

    def _replay(self, point: Point) -> tuple[dict[str, float | None], str | None]:
        given: dict[str, Any] = {"threads": 1, "decisions": False, "strip": False}
        result = self._trace(point.source).replay(
            platform=point.platform,
            governors=[point.governor],
            progress=self._report,
            **given,
            **_settings(point),
        )
        run = result.runs[0]
        return dict(run["metrics"]), run["error"]

    def _simulate(self, point: Point) -> tuple[dict[str, float | None], str | None]:
        given: dict[str, Any] = {"threads": 1, "seeds": 1, "seed": point.seed, "strip": False}
        for name, value in (
            ("kernels", point.kernel),
            ("cpufreq", point.cpufreq),
            ("io_boosts", point.io_boost),
        ):
            if value is not None:
                given[name] = [value]
        result = simulate(
            point.source,
            platform=point.platform,
            governors=[point.governor, *["oracle"] * point.has_oracle],
            progress=self._report,
            **given,
            **_settings(point),
            **json.loads(point.options),
        )
        run = result.to_dict()["runs"][0]
        seeds = run["seeds"]
        return (dict(seeds[0]["metrics"]) if seeds else {}), run["error"]

    def _trace(self, path: str) -> Trace:
        """Return a recording, which the first point that asks for it reads."""
        mine: Future[Trace] = Future()
        found = self._traces.setdefault(path, mine)
        if found is mine:
            # Points come by recording: of those before it, only the last may still be in use.
            for old in list(self._traces)[:-2]:
                self._traces.pop(old, None)
            try:
                mine.set_result(load_trace(path))
            except BaseException as error:
                mine.set_exception(error)
        return found.result()

    def _report(self, _what: str, _done: int, _total: int) -> None:
        if self._is_stopped:
            raise _Stopped


def _settings(point: Point) -> dict[str, Any]:
    found = {"hz": point.hz, "latency_limit": point.latency_limit}
    return {name: value for name, value in found.items() if value is not None}
