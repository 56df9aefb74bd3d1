# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs one point, and keeps the recordings that points share."""

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from torpor import _engine
from torpor._engine import TorporError
from torpor.run.replays import Trace, load_trace, measured
from torpor.run.simulations import simulate
from torpor.run.sweeps.axes import Point, SweepError
from torpor.run.sweeps.batches import Batch
from torpor.run.sweeps.parts import Line, line_of, row_of

_Report = Callable[[str, int, int], None]


class Recordings:
    """Recordings in memory, each read once, by the first point that needs it."""

    def __init__(self, room_bytes: int | None = None) -> None:
        """Hold two at most: points come by recording, so that older ones are done with.

        With ``room_bytes``, one that alone is larger raises :class:`SweepError`.
        """
        self._room_bytes = room_bytes
        self._found: dict[str, Future[Trace]] = {}
        self._lock = threading.Lock()

    def get(self, path: str) -> Trace:
        """Return a recording. Raises what reading it raised, to each point that asks."""
        mine: Future[Trace] = Future()
        with self._lock:
            found = self._found.setdefault(path, mine)
            if found is mine:
                for old in list(self._found)[:-2]:
                    del self._found[old]
        if found is mine:
            try:
                mine.set_result(self._read(path))
            except BaseException as error:
                mine.set_exception(error)
        return found.result()

    def _read(self, path: str) -> Trace:
        try:
            return load_trace(path, memory=self._room_bytes)
        except _engine.MemoryBoundError as error:
            raise SweepError(str(error)) from None


def run_point(
    name: str,
    point: Point,
    recordings: Recordings,
    report: _Report,
    here: Point | None = None,
) -> Line:
    """Run a point and return its line, which has the error if it failed.

    ``here`` is the point with the paths of this machine, if they are others. Raises
    :class:`SweepError` for what ends the whole sweep.
    """
    here = here or point
    started_ns = time.perf_counter_ns()
    metrics: dict[str, float | None] = {}
    error = None
    try:
        if point.kind == "replay":
            metrics, error = _replay(here, recordings, report)
        else:
            metrics, error = _simulate(here, report)
    except SweepError:
        raise
    except (TorporError, OSError) as failure:
        error = str(failure)
    run_ms = (time.perf_counter_ns() - started_ns) / 1e6
    return Line(line_of(row_of(name, point, metrics, error, run_ms)), error is not None, run_ms)


def run_batch(batch: Batch, recordings: Recordings, report: _Report, most_ms: float) -> list[Line]:
    """Run points one after the other, until that has taken so long. Raises as :func:`run_point`."""
    ends_s = time.perf_counter() + most_ms / 1e3
    lines: list[Line] = []
    for name, point in batch:
        lines.append(run_point(name, point, recordings, report))
        if time.perf_counter() >= ends_s:
            break
    return lines


def _replay(
    point: Point, recordings: Recordings, report: _Report
) -> tuple[dict[str, float | None], str | None]:
    given: Any = {"threads": 1, "decisions": False, "strip": False}
    given |= _settings(point) | json.loads(point.options)
    trace = recordings.get(point.source)
    return measured(trace, point.platform, point.governor, report, given)


def _simulate(point: Point, report: _Report) -> tuple[dict[str, float | None], str | None]:
    given: dict[str, Any] = {"threads": 1, "seeds": 1, "seed": point.seed, "strip": False}
    for name, value in (
        ("kernels", point.kernel),
        ("cpufreq", point.cpufreq),
        ("io_boosts", point.io_boost),
        ("schedulers", point.scheduler),
    ):
        if value is not None:
            given[name] = [value]
    result = simulate(
        point.source,
        platform=point.platform,
        governors=[point.governor, *["oracle"] * point.has_oracle],
        progress=report,
        **given,
        **_settings(point),
        **json.loads(point.options),
    )
    run = result.to_dict()["runs"][0]
    seeds = run["seeds"]
    return (dict(seeds[0]["metrics"]) if seeds else {}), run["error"]


def _settings(point: Point) -> dict[str, Any]:
    found = {
        "hz": point.hz,
        "latency_limit": point.latency_limit,
        "kernel_args": point.kernel_args,
    }
    return {name: value for name, value in found.items() if value is not None}
