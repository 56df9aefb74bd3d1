# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A governor in another one's shadow, beside the same governor at work: guests under the same load.

    PYTHONPATH=tests/guest build/venv/bin/python -m apparatus.shadows

prints each load, and the summary in docs/guides/shadow.md, from the recordings of tests/data/guest.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torpor

from . import corpus

LOADS = ("rates", "predict", "predict-smp", "pingpong", "ipi")
#: Governors by their names in the guests.
GOVERNORS = {"menu": "menu-6.12", "t-teo-6.12": "teo-6.12"}
#: Metrics, with the heading of their columns.
METRICS = {
    "above_pct": "too deep %",
    "below_pct": "too shallow %",
    "relative_idle_power_pct": "relative idle power %",
}


@dataclass(frozen=True)
class Row:
    """Metrics of a guest's load: of A at work, of B in its shadow, and of B at work."""

    arch: str
    load: str
    #: Names in the guests: the one that decided, and the other.
    a: str
    b: str
    at_work: dict[str, float]
    shadow: dict[str, float]
    actual: dict[str, float]

    def errors(self, metric: str) -> tuple[float, float]:
        """Return the shadow's distance from B at work, and that of A: nothing predicted."""
        actual = self.actual[metric]
        return abs(self.shadow[metric] - actual), abs(self.at_work[metric] - actual)

    def has_sign(self, metric: str) -> bool | None:
        """Whether the shadow differs from A as B at work does; none where B is within a point."""
        change = self.actual[metric] - self.at_work[metric]
        if abs(change) < 1:
            return None
        return change * (self.shadow[metric] - self.at_work[metric]) > 0


def compare() -> list[Row]:
    """Replay both governors on each load's recordings, which one of them made each."""
    return [row for kernel in corpus.COMPARED for load in LOADS for row in _rows(kernel, load)]


def _rows(kernel: str, load: str) -> Iterator[Row]:
    made = {own: _replayed(corpus.CORPUS / f"{kernel}-{own}-{load}") for own in GOVERNORS}
    arch = corpus.COMPARED[kernel].arch
    for a in GOVERNORS:
        for b in GOVERNORS:
            if a != b:
                yield Row(arch, load, a, b, made[a][a], made[a][b], made[b][b])


def _replayed(folder: Path) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="shadows-") as name:
        platform = Path(name, "guest.toml")
        platform.write_text(torpor.import_platform(folder / "sysfs-before.txt", name="guest")[0])
        result = torpor.replay(
            folder / "trace.dat.gz", platform=platform, governors=list(GOVERNORS.values())
        )
    runs = {run["governor"]: run["metrics"] for run in result.to_dict()["traces"][0]["runs"]}
    return {own: runs[name] for own, name in GOVERNORS.items()}


def table(rows: list[Row]) -> str:
    """The rows in Markdown: each cell A at work, B in its shadow, and B at work."""
    lines = [["guest", "load", "A", "B", *METRICS.values()]]
    lines.append(["---"] * len(lines[0]))
    for row in rows:
        cells = [
            row.arch,
            f"`{row.load}`",
            *(f"`{each.removeprefix('t-')}`" for each in (row.a, row.b)),
        ]
        for metric in METRICS:
            values = (row.at_work[metric], row.shadow[metric], row.actual[metric])
            cells.append(" / ".join(f"{value:.1f}" for value in values))
        lines.append(cells)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def summary(rows: list[Row]) -> str:
    """Median errors and signs of each metric, in Markdown."""
    lines = [["", *METRICS.values()], ["---", *("---:" for _ in METRICS)]]
    errors = {metric: [row.errors(metric) for row in rows] for metric in METRICS}
    for name, part in (("shadow's error, median", 0), ("if nothing is predicted", 1)):
        found = (median(error[part] for error in errors[metric]) for metric in METRICS)
        lines.append([name, *(f"{value:.1f} points" for value in found)])
    signs = {m: [s for row in rows if (s := row.has_sign(m)) is not None] for m in METRICS}
    lines.append(["right signs", *(f"{sum(s)} of {len(s)}" for s in signs.values())])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


if __name__ == "__main__":
    found = compare()
    print(table(found), "", summary(found), sep="\n")
