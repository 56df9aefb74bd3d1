# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Verifies a recording without timers or switches by the outcomes of its sleeps."""

import os
from collections.abc import Callable, Iterator
from typing import Any

from torpor import _engine
from torpor.machine.counters import diff
from torpor.results.cells import total
from torpor.results.record import Record
from torpor.run import recordings

_Path = str | os.PathLike[str]
#: Without these no decision can be rebuilt; by `carries`, the events in words.
_REQUIRED = {
    "switches": "sched:sched_switch",
    "hrtimers": "timer:hrtimer_start, hrtimer_cancel, hrtimer_expire_entry",
}


def outcomes(
    trace: _Path,
    *,
    platform: _Path,
    dumps: tuple[str, str] | None,
    progress: Callable[[str, int, int], None] | None,
) -> Record | None:
    """Compare the outcomes of a recording's sleeps with other counts of them.

    None for a recording that has all events with which a governor can be asked again. The keys are
    those that :func:`torpor.fidelity` lists.

    Raises:
        EngineError: The recording has no sleeps, or states that the platform lacks.
    """
    counts: dict[str, Any] = recordings.trace_stats(
        trace,
        platform=platform,
        before=dumps[0] if dumps else None,
        after=dumps[1] if dumps else None,
        progress=progress,
    )
    carries = counts["trace"]["carries"]
    lacks = [events for key, events in _REQUIRED.items() if not carries[key]]
    if not lacks:
        return None
    if not counts["sleeps"]:
        raise _engine.EngineError(
            f"verify `{os.fspath(trace)}`: it has no whole sleep, so nothing to compare\n"
            "hint: record power:cpu_idle"
        )
    for one in counts["states"]:
        if one["name"] is None:
            raise _engine.EngineError(
                f"verify `{os.fspath(trace)}`: CPU {one['cpu']} enters state {one['state']}, which "
                f"platform `{counts['platform']}` does not have\n"
                "hint: name the recorded machine"
            )
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for one in counts["states"]:
        groups.setdefault((one["cluster"] or "all", one["state"]), []).append(one)
    between = None if dumps is None else diff(*dumps, by="cpu")["groups"]
    rows = []
    for (cluster, state), of in sorted(groups.items()):
        row = {"cluster": cluster, "state": state, "name": of[0]["name"]}
        row |= {key: total(of, key) for key in ("usage", "time_ns", "above", "below")}
        row["sysfs"] = None
        if between is not None:
            cpus = {one["cpu"] for one in counts["states"] if (one["cluster"] or "all") == cluster}
            counted = list(_between(between, cpus, state))
            keys = ("usage", "above", "below", "rejected")
            row["sysfs"] = {key: total(counted, key) for key in keys}
        rows.append(row)
    return Record(
        {key: counts[key] for key in ("format", "torpor", "trace", "platform", "sleeps")}
        | {"verdict_source": counts["verdict_source"], "verdicts": counts["verdicts"]}
        | {"kind": "outcomes", "lacks": lacks, "states": rows}
    )


def _between(groups: list[Any], cpus: set[int], state: int) -> Iterator[dict[str, Any]]:
    """Yield a state's counters, of each of these CPUs."""
    for group in groups:
        if cpus.intersection(group["cpus"]):
            counted = group["columns"][0]["states"]
            yield from (
                counts
                for known, counts in zip(group["states"], counted, strict=True)
                if known["index"] == state
            )
