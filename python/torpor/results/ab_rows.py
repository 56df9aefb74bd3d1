# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Metrics of governors on the live machine, for the engine to compare."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from torpor import _engine
from torpor.results import comparison

if TYPE_CHECKING:
    from torpor.results import schema as shapes
    from torpor.results import types as results


def compare(runs: list["shapes.AbRun"], labels: list[str]) -> "results.Comparison":
    """Return the comparison by those metrics that all runs have, paired by round."""
    measured = [(run["governor"], run["round"], values(run)) for run in runs]
    metrics = [
        metric
        for metric in json.loads(_engine.metrics())["ab"]
        if all(found.get(metric["key"]) is not None for _, _, found in measured)
    ]
    columns = [
        {
            "label": label,
            "samples": [
                {"number": number, "values": found}
                for governor, number, found in measured
                if governor == label
            ],
        }
        for label in labels
    ]
    return comparison.fill(metrics, columns, is_paired=True)


def values(run: "shapes.AbRun") -> dict[str, float | None]:
    """Return the metrics of one run; what is not known is None or missing."""
    wall_s = run["duration_ns"] / 1e9
    groups = run["counters"]["groups"]
    states = [state for group in groups for state in group["states"]]
    usage = _sum(states, "usage")
    elapsed_us = (run["counters"]["elapsed_ns"] or 0) / 1e3
    cpu_us = elapsed_us * sum(len(group["cpus"]) for group in groups)
    found = {
        "figure": run["figure"],
        "wall_s": wall_s,
        "wakeups_per_s": _ratio(usage, elapsed_us / 1e6),
        "above_pct": _ratio(_sum(states, "above"), usage, 100),
        "below_pct": _ratio(_sum(states, "below"), usage, 100),
        "deepest_pct": _ratio(_sum([g["states"][-1] for g in groups], "time_us"), cpu_us, 100),
        "idle_pct": _ratio(_sum(states, "time_us"), cpu_us, 100),
    }
    for kind, energy_uj in run["energy_uj"].items():
        found[f"{kind}_j"] = energy_uj / 1e6
        found[f"{kind}_w"] = _ratio(energy_uj / 1e6, wall_s)
    return found


def _sum(states: Iterable[Mapping[str, Any]], key: str) -> int | None:
    """Half a sum would be a wrong figure."""
    counts = [state[key] for state in states]
    return None if None in counts else sum(counts)


def _ratio(part: float | None, whole: float | None, scale: float = 1) -> float | None:
    return scale * part / whole if part is not None and whole else None
