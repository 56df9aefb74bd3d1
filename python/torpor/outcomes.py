# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What a recording without timers or switches verifies: what its sleeps came to."""

import os
from collections.abc import Callable
from typing import Any

from torpor import recordings
from torpor.counters import diff
from torpor.records import Record

_Path = str | os.PathLike[str]
_COUNTS = ("usage", "time_ns", "above", "below")
#: Without these no governor can be asked again; by `carries`, the events in words.
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
    """Hold what a recording's sleeps came to against what else counted them.

    None for a recording that has all events with which a governor can be asked again. The keys are
    those that :func:`torpor.fidelity` lists.
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
    states: dict[tuple[str, int], dict[str, Any]] = {}
    cpus: dict[str, list[int]] = {}
    for one in counts["states"]:
        cluster = one["cluster"] or "all"
        cpus.setdefault(cluster, []).append(one["cpu"])
        key = (cluster, one["state"])
        of = states.setdefault(key, {"cluster": cluster, "state": one["state"]})
        of["name"] = one["name"]
        for count in _COUNTS:
            known = (of.get(count, 0), one[count])
            of[count] = None if None in known else sum(known)
    between = None if dumps is None else diff(*dumps, by="cpu")["groups"]
    rows = []
    for cluster, state in sorted(states):
        of = states[cluster, state]
        of["sysfs"] = None if between is None else _between(between, set(cpus[cluster]), state)
        rows.append(of)
    return Record(
        {key: counts[key] for key in ("format", "torpor", "trace", "platform", "sleeps")}
        | {"verdict_source": counts["verdict_source"], "verdicts": counts["verdicts"]}
        | {"kind": "outcomes", "lacks": lacks, "states": rows}
    )


def _between(groups: list[Any], cpus: set[int], state: int) -> dict[str, int | None]:
    """Sum a state's counters over these CPUs."""
    found: dict[str, int | None] = {}
    for group in groups:
        if not cpus.intersection(group["cpus"]):
            continue
        counted = group["columns"][0]["states"][state]
        for key in ("usage", "above", "below", "rejected"):
            known = (found.get(key, 0), counted[key])
            found[key] = None if None in known else sum(known)
    return found
