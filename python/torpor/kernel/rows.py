# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A comparison as rows: what each governor came to, and whether it differs from the first."""

import statistics
from typing import Any, NamedTuple

from torpor.kernel import paired


class Metric(NamedTuple):
    """What is measured; ``direction`` says which is better: lower, higher, or none."""

    key: str
    title: str
    unit: str
    direction: str


_METRICS = [
    Metric("figure", "figure", "", "none"),
    Metric("wall_s", "wall time", "s", "none"),
    Metric("wakeups_per_s", "wake-ups", "1/s", "none"),
    Metric("above_pct", "too deep (above)", "%", "lower"),
    Metric("below_pct", "too shallow (below)", "%", "lower"),
    Metric("deepest_pct", "time in the deepest state", "%", "none"),
    Metric("idle_pct", "time in all idle states", "%", "none"),
    *(
        Metric(f"{kind}_{key}", f"{kind} {title}", unit, "lower")
        for kind in ("package", "dram", "platform")
        for key, title, unit in (("w", "power", "W"), ("j", "energy", "J"))
    ),
]


def rows(runs: list[dict[str, Any]], labels: list[str]) -> list[dict[str, Any]]:
    """Return each metric that all runs have: the catalogue's fields, and ``values``.

    ``values`` has a ``mean`` over the rounds for each label, and ``change``: against the first
    label, paired by round, with its 95 % interval; None for the first, or for a single round.
    """
    measured = [(run["governor"], values(run)) for run in runs]
    table = []
    for metric in _METRICS:
        known = [(label, found.get(metric.key)) for label, found in measured]
        columns = [[v for name, v in known if name == label and v is not None] for label in labels]
        if sum(map(len, columns)) < len(known):
            continue
        changes = [None, *(paired.change(columns[0], column) for column in columns[1:])]
        entries = [
            {"mean": statistics.fmean(column), "change": change}
            for column, change in zip(columns, changes, strict=True)
        ]
        table.append(metric._asdict() | {"values": entries})
    return table


def values(run: dict[str, Any]) -> dict[str, float | None]:
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


def _sum(states: list[dict[str, Any]], key: str) -> int | None:
    """Half a sum would be a wrong figure."""
    counts = [state[key] for state in states]
    return None if None in counts else sum(counts)


def _ratio(part: float | None, whole: float | None, scale: float = 1) -> float | None:
    return scale * part / whole if part is not None and whole else None
