# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A recording's own page: what the machine did, drawn as the report draws a governor's run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from torpor.explanation import explain
from torpor.posting import posted

from . import bars, palette
from .environment import TEMPLATES, environment

if TYPE_CHECKING:
    from torpor import results

#: Rows of a table that are open at once.
_OPEN = 25


def render(stats: results.TraceStats) -> str:
    """The page for what `torpor.trace_stats` returned, as HTML text."""
    platform, run = _as_run(stats)
    made = environment()
    counts = {len(cluster["states"]) for cluster in platform["clusters"]}
    is_judged = stats["verdict_source"] is not None
    return made.get_template("recorded.html.j2").render(
        stats=stats,
        post=posted(stats),
        sentences=explain(stats),
        style=Markup((TEMPLATES / "report.css").read_text("utf-8") + palette.css(counts)),
        residency=bars.residency(platform, [run]),
        depth=bars.wrong_depth(platform, [run]) if is_judged else None,
        open_rows=_OPEN,
    )


def _as_run(stats: results.TraceStats) -> tuple[Any, Any]:
    """The machine and its states as far as the recording tells, and its run on it."""
    clusters: dict[str, dict[int, dict[str, Any]]] = {}
    cpus: dict[str, set[int]] = {}
    for state in stats["states"]:
        name = state["cluster"] or "all CPUs"
        cpus.setdefault(name, set()).add(state["cpu"])
        sums = clusters.setdefault(name, {}).setdefault(
            state["state"],
            {"name": state["name"] or f"state {state['state']}", "time_ns": 0, "usage": 0}
            | {"above": 0, "below": 0},
        )
        for key in ("time_ns", "usage", "above", "below"):
            sums[key] += state[key] or 0
    machine, run = [], []
    for name, found in clusters.items():
        # States are distinguished by their place, which one that was never entered has, too.
        states = [
            found.get(index)
            or {"name": f"state {index}", "time_ns": 0, "usage": 0, "above": 0, "below": 0}
            for index in range(max(found) + 1)
        ]
        for index, one in enumerate(states):
            one["index"] = index
        slept_ns = sum(one["time_ns"] for one in states)
        whole_ns = stats["trace"]["duration_ns"] * len(cpus[name])
        of = sorted(cpus[name])
        running_ns = max(0, whole_ns - slept_ns)
        run.append({"name": name, "cpus": of, "running_ns": running_ns, "states": states})
        table = [{"name": one["name"], "polling": one["name"] == "POLL"} for one in states]
        machine.append({"name": name, "cpus": of, "states": table})
    return {"clusters": machine}, {"governor": "recorded", "error": None, "clusters": run}
