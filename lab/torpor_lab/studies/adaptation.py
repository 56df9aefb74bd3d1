# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Cost of a change of load for a governor that learns: idle energy after the change, by window."""

import itertools
import math
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypedDict

from torpor import EngineError, GovernorError, replay, simulate
from torpor_lab.idle_spans import spans

_Path = str | os.PathLike[str]

DEFAULT_GOVERNORS = ("tide", "teo", "menu")
#: The two loads, by their name and the mean wait for a device; none of the waits is a timer's.
LOADS = (("short waits", 500), ("long waits", 8_000))
#: Duration of each load before the other takes over, in ms.
PHASE_MS = 3_000
WINDOW_MS = 100
#: Work this long is between two loads, and nowhere else.
_MARK_US = 20_000
#: A window is steady that costs this much more than the steady state, at most.
STEADY_PCT = 10.0


class Curve(TypedDict):
    """A governor after the changes to one load."""

    governor: str
    load: str
    #: Mean over the changes, from the change on: idle energy in percent of the oracle's.
    windows_pct: list[float]
    #: Mean over the second half of the windows.
    steady_pct: float
    #: The mean over the first so many windows is within STEADY_PCT of the steady state from there.
    settled_ms: float | None
    #: Energy above the steady state's in the first half, as so much time of the steady state.
    lost_ms: float


class Adaptation(TypedDict):
    """Result of an adaptation study."""

    platform: str
    changes: int
    window_ms: int
    curves: list[Curve]


def adaptation(
    *,
    platform: _Path,
    governors: Iterable[str] = DEFAULT_GOVERNORS,
    changes: int = 20,
) -> Adaptation:
    """Simulate a job that alternates between two loads, and replay governors on its spans.

    The run is that of ``teo``; all governors and the oracle meet its idle spans.

    Args:
        platform: A machine of known power.
        governors: Governors to compare.
        changes: Number of changes between the loads.

    Raises ImportError where polars is not installed, and EngineError where no power is known.
    """
    import polars as pl

    names = list(governors)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "run.perfetto-trace"
        # A load takes longer than its waits: the governor's exits count, too.
        duration = f"{(changes + 2) * PHASE_MS * 4 // 3}ms"
        simulate(
            _workload(), platform=platform, governors="teo", seeds=1, duration=duration, trace=trace
        )
        found = pl.DataFrame(spans(trace, platform=platform, cpus=[0]))
        # A cluster that never rests leaves the oracle each CPU's own energy to minimise.
        ran = replay(
            trace,
            platform=platform,
            governors=[*names, "oracle"],
            cpus=[0],
            strip=False,
            others="busy",
        )
        decided = ran.decisions.to_polars()
    for run in ran.runs:
        if run["error"]:
            raise GovernorError(run["error"])
    if decided["energy_uj"].null_count():
        raise EngineError("windows are compared by energy: the machine's power is not known")
    marks = found.filter(pl.col("busy_ns") > _MARK_US * 900)["time_ns"].to_list()
    phases = list(itertools.pairwise(marks))[:changes]
    energies = {
        name: _windows(decided.filter(pl.col("governor").cast(pl.String) == name), phases)
        for name in [*names, "oracle"]
    }
    curves = []
    for parity, (load, _) in enumerate(reversed(LOADS)):
        least = _together(energies["oracle"], parity)
        for name in names:
            curves.append(_curve(name, load, _together(energies[name], parity), least))
    return Adaptation(
        platform=os.fspath(platform), changes=len(phases), window_ms=WINDOW_MS, curves=curves
    )


def _workload() -> dict[str, Any]:
    phases: list[dict[str, Any]] = []
    devices = []
    for number, (_, mean) in enumerate(LOADS):
        work_us = 30
        count = PHASE_MS * 1000 // (mean + work_us)
        phases.append({"repeat": count, "do": [{"io": f"d{number}"}, {"run_us": work_us}]})
        phases.append({"run_us": _MARK_US})
        service = {"dist": "exponential", "mean": mean}
        devices.append({"name": f"d{number}", "service_us": service, "servers": 1})
    return {
        "name": "two-loads",
        "title": "A job whose waits are short for a while, then long for a while",
        "source": "made for this study",
        "task": [{"name": "job", "cpus": "0", "phase": phases}],
        "device": devices,
    }


def _windows(decided: Any, phases: list[tuple[int, int]]) -> list[list[float]]:
    """Energy by phase and window; what is beyond PHASE_MS is left out."""
    count = PHASE_MS // WINDOW_MS
    sums = [[0.0] * count for _ in phases]
    starts = [start for start, _ in phases]
    at = 0
    for time_ns, energy in decided.sort("time_ns").select("time_ns", "energy_uj").iter_rows():
        while at + 1 < len(starts) and time_ns >= starts[at + 1]:
            at += 1
        window = (time_ns - starts[at]) // (WINDOW_MS * 1_000_000)
        if time_ns < phases[at][1] and 0 <= window < count:
            sums[at][window] += energy
    return sums


def _together(by_phase: list[list[float]], parity: int) -> list[float]:
    """Over all changes to one load: the marks alternate, and the first load leads to the first."""
    return [math.fsum(window) for window in zip(*by_phase[parity::2], strict=True)]


def _curve(governor: str, load: str, energies: list[float], least: list[float]) -> Curve:
    # The last windows may be beyond a phase that ended early.
    whole = [(e, best) for e, best in zip(energies, least, strict=True) if best > 0]
    whole = whole[: len(whole) * 9 // 10]
    half = len(whole) // 2
    ratio = math.fsum(e for e, _ in whole[half:]) / math.fsum(best for _, best in whole[half:])
    windows = [e / best for e, best in whole]
    bound = ratio * (1 + STEADY_PCT / 100)
    late = [n for n in range(half) if windows[n] > bound]
    excess = math.fsum(e - ratio * best for e, best in whole[:half])
    a_ms = math.fsum(ratio * best for _, best in whole) / (len(whole) * WINDOW_MS)
    return Curve(
        governor=governor,
        load=load,
        windows_pct=[100 * value for value in windows],
        steady_pct=100 * ratio,
        settled_ms=float((late[-1] + 1) * WINDOW_MS) if late else 0.0,
        lost_ms=excess / a_ms,
    )
