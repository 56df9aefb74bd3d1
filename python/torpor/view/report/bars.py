# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Residency per cluster (stacked bars) and wrong depth per state (diverging bars)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from torpor.results import types as results
from torpor.results.numbers import cpu_list, duration, listing, number_text, share_text
from torpor.view.report.palette import state_class

#: What a picture of wrong depths shows, of a governor or a column.
DEPTH_LEAD = (
    "In percent of the {}'s sleeps on all CPUs: left, sleeps that ended before the state's target "
    "residency (too deep, above); right, sleeps long enough for the next deeper state (too "
    "shallow, below). One scale for all."
)
# The longest diverging bar leaves this part of its track to its own number.
_DEPTH_TRACK_PCT = 64.0


def finished(runs: Sequence[results.RunOutcome]) -> list[results.RunOutcome]:
    """Runs that have clusters to draw."""
    return [run for run in runs if not run["error"] and run["clusters"]]


def classes(platform: results.PlatformInfo) -> dict[tuple[str, int], str]:
    """(cluster name, state index) -> CSS class."""
    return {
        (cluster["name"], index): state_class(index, len(cluster["states"]), state["polling"])
        for cluster in platform["clusters"]
        for index, state in enumerate(cluster["states"])
    }


def residency(
    platform: results.PlatformInfo, runs: Sequence[results.RunOutcome]
) -> list[dict[str, object]]:
    """One panel a cluster: where each governor's CPU time went."""
    colour = classes(platform)
    panels: list[dict[str, object]] = []
    for cluster in platform["clusters"]:
        bars = []
        cpus: list[int] = []
        for run in finished(runs):
            own = next((c for c in run["clusters"] if c["name"] == cluster["name"]), None)
            if own is None:
                # No CPU of the recording was replayed on this cluster.
                continue
            cpus = own["cpus"]
            times = [("running", "run", own["running_ns"])] + [
                (state["name"], colour[cluster["name"], state["index"]], state["time_ns"])
                for state in own["states"]
            ]
            power = own.get("idle_power_mw")
            bars.append(stacked(run["governor"], times, duration) | {"power": number_text(power)})
        if not bars:
            continue
        panels.append(
            {
                "name": cluster["name"],
                # As the recording numbers them.
                "cpus": cpu_list(cpus),
                "key": [("running", "run")]
                + [
                    (state["name"], colour[cluster["name"], i])
                    for i, state in enumerate(cluster["states"])
                ],
                "bars": bars,
            }
        )
    return panels


def stacked(
    label: str, parts: Sequence[tuple[str, str, int]], write: Callable[[int], str]
) -> dict[str, Any]:
    """Return a stacked bar; a part has a name, a CSS class and a size, which ``write`` spells."""
    whole = sum(size for _, _, size in parts)
    segments = [
        {
            "name": name,
            "class": css,
            "width": f"{100 * size / whole if whole else 0:.3f}",
            "share": share_text(size, whole),
            "time": write(size),
            "drawn": size > 0,
        }
        for name, css, size in parts
    ]
    return {"governor": label, "segments": segments}


class Depth(NamedTuple):
    """Shares of a state's sleeps, in percent of all of the governor's."""

    cluster: str
    place: int
    state: str
    above: float
    below: float


def depths(run: results.RunOutcome) -> list[Depth]:
    """Shares of each state of each cluster."""
    sleeps = sum(s["usage"] for c in run["clusters"] for s in c["states"]) or 1
    return [
        Depth(
            *(cluster["name"], state["index"], state["name"]),
            *(100 * state["above"] / sleeps, 100 * state["below"] / sleeps),
        )
        for cluster in run["clusters"]
        for state in cluster["states"]
    ]


def wrong_depth(
    platform: results.PlatformInfo, runs: Sequence[results.RunOutcome]
) -> dict[str, object]:
    """One panel a governor; bars in percent of that governor's sleeps on all CPUs together, so
    that a panel's bars sum to the shares its heading names."""
    found = [(run["governor"], depths(run)) for run in finished(runs)]
    faulty = [(name, rows) for name, rows in found if any(r.above or r.below for r in rows)]
    largest = max((max(r.above, r.below) for _, rows in faulty for r in rows), default=0)

    def bar(share: float) -> dict[str, str]:
        width = _DEPTH_TRACK_PCT * share / largest if largest else 0
        return {"text": f"{share:.2f}" if share else "0", "width": f"{width:.2f}"}

    panels = [
        {
            "governor": governor,
            "groups": [
                {
                    "name": cluster,
                    "rows": [
                        {"name": row.state, "above": bar(row.above), "below": bar(row.below)}
                        for row in group
                    ],
                }
                for cluster, group in groupby(rows, key=lambda row: row.cluster)
            ],
            "above": number_text(sum(row.above for row in rows)),
            "below": number_text(sum(row.below for row in rows)),
        }
        for governor, rows in faulty
    ]
    return {
        "panels": panels,
        "faultless": listing(
            [name for name, rows in found if not any(r.above or r.below for r in rows)]
        ),
        "many_clusters": len(platform["clusters"]) > 1,
    }
