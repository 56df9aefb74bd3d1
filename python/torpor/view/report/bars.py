# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Residency per cluster (stacked bars) and wrong depth per state (diverging bars)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from torpor.results.numbers import cpu_list, duration, listing, number, share
from torpor.view.report.palette import state_class

if TYPE_CHECKING:
    from torpor.results import types as results

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
            total = sum(time for _, _, time in times)
            segments = [
                {
                    "name": name,
                    "class": css,
                    "width": f"{100 * time / total if total else 0:.3f}",
                    "share": share(time, total),
                    "time": duration(time),
                    "drawn": time > 0,
                }
                for name, css, time in times
            ]
            power = own.get("idle_power_mw")
            bars.append({"governor": run["governor"], "segments": segments, "power": number(power)})
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


class _Depth(NamedTuple):
    """Shares of a state's sleeps, in percent of all of the governor's."""

    state: str
    above: float
    below: float


def wrong_depth(
    platform: results.PlatformInfo, runs: Sequence[results.RunOutcome]
) -> dict[str, object]:
    """One panel a governor; bars in percent of that governor's sleeps on all CPUs together, so
    that a panel's bars sum to the shares its heading names."""
    drawn = finished(runs)
    # Clusters of each governor with wrong-depth sleeps, each with the shares of its states.
    faulty: list[tuple[str, list[tuple[str, list[_Depth]]]]] = []
    faultless: list[str] = []
    largest = 0.0
    for run in drawn:
        sleeps = sum(s["usage"] for c in run["clusters"] for s in c["states"])
        groups: list[tuple[str, list[_Depth]]] = []
        for cluster in run["clusters"]:
            rows = []
            for state in cluster["states"]:
                above = 100 * state["above"] / sleeps if sleeps else 0.0
                below = 100 * state["below"] / sleeps if sleeps else 0.0
                largest = max(largest, above, below)
                rows.append(_Depth(state["name"], above, below))
            groups.append((cluster["name"], rows))
        if any(row.above or row.below for _, rows in groups for row in rows):
            faulty.append((run["governor"], groups))
        else:
            faultless.append(run["governor"])

    def bar(share: float) -> dict[str, str]:
        width = _DEPTH_TRACK_PCT * share / largest if largest else 0
        return {"text": f"{share:.2f}" if share else "0", "width": f"{width:.2f}"}

    panels = [
        {
            "governor": governor,
            "groups": [
                {
                    "name": name,
                    "rows": [
                        {"name": row.state, "above": bar(row.above), "below": bar(row.below)}
                        for row in rows
                    ],
                }
                for name, rows in groups
            ],
            "above": number(sum(row.above for _, rows in groups for row in rows)),
            "below": number(sum(row.below for _, rows in groups for row in rows)),
        }
        for governor, groups in faulty
    ]
    return {
        "panels": panels,
        "faultless": listing(faultless),
        "many_clusters": len(platform["clusters"]) > 1,
    }
