# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Guests beside simulations of them: how far apart the same load is in both.

    PYTHONPATH=tests/guest build/venv/bin/python -m apparatus.compare [FOLDER]

prints the table of docs/concepts/simulation.md from the recordings of tests/data/guest, or from
those of another folder.
"""

import argparse
import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import log10
from pathlib import Path

import torpor

from . import cases, corpus, events
from .events import Story

KERNELS = tuple(corpus.COMPARED)

#: The release that the guests have.
RELEASE = "6.12"

#: Governors by their names in the guest and in a simulated kernel. The first calibrates.
GOVERNORS = {"menu": "menu", "t-teo-6.12": "teo"}


@dataclass(frozen=True)
class Figures:
    """Figures of a stretch of a recording, all CPUs together; shares are in percent.

    `own` are the wake-ups from which a task of the case went on; `residency` is by state, of all
    CPUs' time; `above` and `below` are of the sleeps. Lateness is from the moment for which a task
    had set its timer, or from its waking, to the switch to it.
    """

    own_per_s: float
    residency: dict[int, float]
    above: float
    below: float
    late_p50_us: float
    late_p99_us: float
    lengths_ns: list[int]


def figures(story: Story, pids: list[int], cpus: int) -> Figures:
    """Measure from the first time that one of these tasks sleeps until they run no more."""
    first_ns = story.first_sleep_ns
    turns = [t for pid in pids for t in story.turns.get(pid, []) if t.event_ns >= first_ns[pid]]
    begin = min(first_ns[pid] for pid in pids)
    end = max(turn.end_ns for turn in turns)
    sleeps = [s for s in story.sleeps if begin <= s.begin_ns and s.end_ns <= end]
    residency = {state: 0.0 for state in sorted({s.state for s in story.sleeps})}
    for sleep in story.sleeps:
        inside_ns = min(sleep.end_ns, end) - max(sleep.begin_ns, begin)
        residency[sleep.state] += max(0, inside_ns) * 100 / (cpus * (end - begin))
    late = sorted((turn.begin_ns - turn.event_ns) / 1000 for turn in turns)
    of_all = 100 / len(sleeps)
    return Figures(
        own_per_s=sum(t.slept_in is not None for t in turns) * 1e9 / (end - begin),
        residency=residency,
        above=of_all * sum(s.miss == "above" for s in sleeps),
        below=of_all * sum(s.miss == "below" for s in sleeps),
        late_p50_us=late[len(late) // 2],
        late_p99_us=late[len(late) * 99 // 100],
        lengths_ns=sorted(s.end_ns - s.begin_ns for s in sleeps),
    )


@dataclass(frozen=True)
class Distance:
    """Distance of a simulation from its guest.

    Shares in points, residency that of the state that is farthest off. `decades` is how far a
    sleep's length is off on average (Wasserstein's distance).
    """

    own_per_s: float
    residency: float
    above: float
    below: float
    late_p50_us: float
    late_p99_us: float
    decades: float


def distance(guest: Figures, simulated: Figures) -> Distance:
    """Everything as simulated less guest."""
    return Distance(
        own_per_s=simulated.own_per_s - guest.own_per_s,
        residency=max(_residency_gaps(guest, simulated).values(), key=abs),
        above=simulated.above - guest.above,
        below=simulated.below - guest.below,
        late_p50_us=simulated.late_p50_us - guest.late_p50_us,
        late_p99_us=simulated.late_p99_us - guest.late_p99_us,
        decades=sum(w * gap for w, gap in _gaps(guest.lengths_ns, simulated.lengths_ns)),
    )


def _residency_gaps(guest: Figures, simulated: Figures) -> dict[int, float]:
    states = sorted(guest.residency.keys() | simulated.residency.keys())
    return {s: simulated.residency.get(s, 0) - guest.residency.get(s, 0) for s in states}


def _gaps(one: list[int], other: list[int]) -> Iterator[tuple[float, float]]:
    """Return the width of each stretch between two lengths, in decades, and the gap there."""
    lengths = sorted({*one, *other})
    for low, high in pairwise([*lengths, lengths[-1]]):
        gap = bisect_right(one, low) / len(one) - bisect_right(other, low) / len(other)
        yield log10(high / low), abs(gap)


@dataclass(frozen=True)
class Row:
    """A stretch of a case on a kernel under a governor: in the guest, and simulated."""

    case: str
    kernel: str
    governor: str
    guest: Figures
    simulated: Figures

    @property
    def distance(self) -> Distance:
        """The simulation's from the guest."""
        return distance(self.guest, self.simulated)

    @property
    def farthest_state(self) -> int:
        """The state whose residency is farthest off."""
        gaps = _residency_gaps(self.guest, self.simulated)
        return max(gaps, key=lambda state: abs(gaps[state]))


def compare(folder: Path, kernel: str) -> list[Row]:
    """Simulate all that was recorded of a kernel, in folders named as those of the corpus."""
    stories = {
        (governor, case): events.read(folder / f"{kernel}-{governor}-{case}" / "trace.dat.gz")
        for governor in GOVERNORS
        for case in cases.CASES
    }
    own = next(iter(GOVERNORS))
    states, _ = torpor.import_platform(folder / f"{kernel}-{own}-rates" / "sysfs-before.txt")
    costs, steps = cases.measure(
        {case: stories[own, case] for case in cases.CASES}, cases.exit_latencies_us(states)
    )
    rows: list[Row] = []
    for (governor, case), story in stories.items():
        sysfs = folder / f"{kernel}-{governor}-{case}" / "sysfs-before.txt"
        platform = cases.platform_toml(sysfs, costs, corpus.COMPARED[kernel].icount_shift)
        workload = cases.workload_toml(case, story, steps)
        simulated = _simulate(case, story, workload, platform, GOVERNORS[governor])
        rows += _rows(kernel, governor, case, story, simulated)
    return rows


def _simulate(case: str, story: Story, text: str, platform: str, governor: str) -> Story:
    pids = story.pids(cases.CASES[case].program)
    end_ns = max(turn.end_ns for pid in pids for turn in story.turns.get(pid, []))
    with tempfile.TemporaryDirectory(prefix="compare-") as name:
        folder = Path(name)
        (folder / "guest.toml").write_text(platform, encoding="utf-8")
        workload = folder / f"{case}.toml"
        workload.write_text(text, encoding="utf-8")
        simulated = torpor.simulate(
            workload,
            platform=folder / "guest.toml",
            # A slower simulation must finish, too.
            duration=f"{2 * (end_ns - cases.begin_ns(case, story))}ns",
            seeds=1,
            trace=folder / "trace.txt",
            governors=governor,
            kernels=RELEASE,
        )
        assert not simulated.failures, f"{case}: {simulated.failures}"
        return events.read(folder / "trace.txt")


def _rows(kernel: str, governor: str, case: str, guest: Story, simulated: Story) -> list[Row]:
    one = cases.CASES[case]
    ours, theirs = (story.pids(one.program) for story in (simulated, guest))
    stretches = {case: (theirs, ours)}
    if case == "rates":
        by_rate = zip(cases.RATES_HZ, theirs, ours, strict=True)
        stretches = {f"{hz} Hz": ([a], [b]) for hz, a, b in by_rate}
    return [
        Row(name, kernel, governor, figures(guest, a, one.cpus), figures(simulated, b, one.cpus))
        for name, (a, b) in stretches.items()
    ]


#: Causes of a difference, by case: the letters of docs/concepts/simulation.md.
CAUSES = {
    "rates": "a b",
    "predict": "a d",
    "predict-smp": "a c d",
    "pingpong": "c e",
    "ipi": "c",
}

HEADS = [
    *("case", "CPUs", "own wake-ups/s", "residency %", "too deep %", "too shallow %"),
    *("late p50 µs", "late p99 µs", "why"),
]


def table(rows: list[Row]) -> str:
    """Return the furthest pairs of each case on each kernel, guest / simulated, in Markdown."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        case = "rates" if row.case.endswith(" Hz") else row.case
        groups.setdefault((case, row.kernel), []).append(row)
    lines = [HEADS, ["---"] * len(HEADS), *(_cells(*key, of) for key, of in groups.items())]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _cells(case: str, kernel: str, rows: list[Row]) -> list[str]:
    def both(name: str, digits: int) -> str:
        row = max(rows, key=lambda row: abs(getattr(row.distance, name)))
        return f"{getattr(row.guest, name):.{digits}f} / {getattr(row.simulated, name):.{digits}f}"

    row = max(rows, key=lambda row: abs(row.distance.residency))
    state = row.farthest_state
    one, other = (of.residency.get(state, 0) for of in (row.guest, row.simulated))
    return [
        *(case, kernel.partition("-")[0], both("own_per_s", 0), f"{one:.1f} / {other:.1f}"),
        *(both("above", 1), both("below", 1), both("late_p50_us", 0), both("late_p99_us", 0)),
        CAUSES[case],
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?", default=corpus.CORPUS)
    given = parser.parse_args()
    rows = [row for kernel in KERNELS for row in compare(given.folder, kernel)]
    print(table(rows))


if __name__ == "__main__":
    main()
