# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What governors came to on the live machine: the metrics of a run, for the engine to compare."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor import comparison

if TYPE_CHECKING:
    from torpor import results, shapes


class Metric(NamedTuple):
    """What is measured; ``direction`` says which is better: lower, higher, or none."""

    key: str
    title: str
    unit: str
    direction: str
    kind: str


METRICS = [
    Metric("figure", "figure", "", "none", "figure"),
    Metric("wall_s", "wall time", "s", "none", "time"),
    Metric("wakeups_per_s", "wake-ups", "1/s", "none", "rate"),
    Metric("above_pct", "too deep (above)", "%", "lower", "share"),
    Metric("below_pct", "too shallow (below)", "%", "lower", "share"),
    Metric("deepest_pct", "time in the deepest state", "%", "none", "share"),
    Metric("idle_pct", "time in all idle states", "%", "none", "share"),
    *(
        Metric(f"{kind}_{key}", f"{kind} {title}", unit, "lower", title)
        for kind in ("package", "dram", "platform")
        for key, title, unit in (("w", "power", "W"), ("j", "energy", "J"))
    ),
]


def compare(runs: list["shapes.AbRun"], labels: list[str]) -> "results.Comparison":
    """Return the comparison by those metrics that all runs have, paired by round."""
    measured = [(run["governor"], run["round"], values(run)) for run in runs]
    metrics = [
        metric._asdict()
        for metric in METRICS
        if all(found.get(metric.key) is not None for _, _, found in measured)
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
    """Return the metrics of one run; what cannot be told is None or missing."""
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
