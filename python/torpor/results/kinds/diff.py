# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Counters of idle states between snapshots: ``torpor diff`` and ``torpor stat``."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, TypedDict

from torpor import _engine
from torpor._engine import TorporError
from torpor.results.cells import count_cells, states_table, sum_or_none
from torpor.results.comparison import percent
from torpor.results.kind import COUNTED, Clusters, Column, Growing, Kind, Sample, cluster
from torpor.results.picture import of_states
from torpor.results.sentences import (
    WRONG,
    Side,
    cannot_show,
    count_text,
    counts_of,
    other_of,
    state_text,
    where,
)
from torpor.results.shapes import CpuNumber, Some
from torpor.results.table import (
    CHANGE,
    UNKNOWN,
    Brief,
    Cell,
    Post,
    Table,
    Verdict,
    counted,
    minus,
    number,
    share,
    word,
)
from torpor.results.types import Version

_CHANCE = "n.s.: not significant, 0 is in the 95 % interval"


class Counts(TypedDict):
    """Counters of some states; null if the kernel lacks one."""

    usage: int | None
    time_us: int | None
    above: int | None
    below: int | None
    rejected: int | None


class DiffCounts(Counts):
    """The same, and what follows from them."""

    mean_sleep_us: float | None
    #: Share of ``usage``.
    above_ratio: float | None
    below_ratio: float | None
    residency_ratio: float | None


class DiffStateCounts(DiffCounts):
    """Counts of one state."""

    is_off: bool


class DiffState(TypedDict):
    """An idle state of a group."""

    index: int
    name: str
    latency_us: int | None
    residency_us: int | None


class ShareChange(TypedDict):
    """Difference of a share from the first column's, with its 95 % interval."""

    difference: float
    low: float
    high: float
    is_significant: bool


class DiffGot(TypedDict):
    """A hardware state by its own counter, and the idle states that request it."""

    counter: str
    #: Indices of the states that request it, and their combined share of time.
    states: list[int]
    requested_ratio: float | None
    got_ratio: float


class DiffColumn(TypedDict):
    """Counts of a group of CPUs over the intervals of one label."""

    label: str
    rounds: int
    cpus: list[CpuNumber]
    elapsed_ns: int | None
    #: Base of ``residency_ratio``: elapsed time, or all idle time.
    residency_of: Literal["elapsed", "idle"]
    states: list[DiffStateCounts]
    total: DiffCounts
    #: Changes of ``above`` and ``below``; null in the first column.
    changes: Annotated[dict[str, ShareChange | None], ("required", ("above", "below"))] | None
    #: Hardware's residency; empty if it was not counted.
    got: list[DiffGot]


class DiffGroup(TypedDict):
    """CPUs that share their idle states."""

    cpus: list[CpuNumber]
    states: Annotated[list[DiffState], Some]
    columns: Annotated[list[DiffColumn], Some]


class Note(TypedDict):
    """Note that a reader of the counts must know."""

    kind: str
    #: Empty if it applies to the whole machine.
    cpus: list[CpuNumber]
    text: str


class Interval(TypedDict):
    """Between two snapshots, or from boot to one."""

    label: str
    before: str | None
    after: str
    governor: str | None
    driver: str | None
    kernel_release: str | None
    elapsed_ns: int | None
    clock: str | None
    is_since_boot: bool
    notes: list[Note]


class Diff(TypedDict):
    """Result of ``torpor diff`` and ``torpor stat``."""

    format: int
    kind: Literal["diff"]
    torpor: Version
    intervals: list[Interval]
    groups: list[DiffGroup]


class StateDelta(DiffState, Counts):
    """Counts of a CPU's state between two snapshots."""

    is_off: bool


class CpuDelta(TypedDict):
    """Counts of a CPU."""

    cpu: CpuNumber
    states: list[StateDelta]


class Delta(TypedDict):
    """Counts between two snapshots, before a result groups them."""

    elapsed_ns: int | None
    clock: str | None
    is_since_boot: bool
    cpus: list[CpuDelta]
    notes: list[Note]


def post(result: Diff) -> Post:
    """Return a table for each group of CPUs and label, and the changes between labels."""
    tables = []
    for group in result["groups"]:
        cpus = f"CPU {_engine.format_cpu_list(group['cpus'])}"
        if len(group["columns"]) > 1:
            tables.append(_comparison(group, cpus))
        for column in group["columns"]:
            tables.append(_states(group, column, cpus))
            if column.get("got"):
                tables.append(_got(group, column))
    label = ", ".join(dict.fromkeys(interval["label"] for interval in result["intervals"]))
    facts = [_fact(interval) for interval in result["intervals"]]
    title = f"idle counters: {label}"
    notes = _notes(result)
    brief = None
    if compared := [table for table in tables if table.name == "totals"]:
        brief = Brief(
            compared, [note for note in notes if note != _CHANCE], [f"{title}; {facts[-1]}"]
        )
    return Post(title, facts, tables, notes, brief=brief)


def _fact(interval: Interval) -> str:
    ends = interval["before"] or "boot", interval["after"]
    # `torpor stat` compares the running machine with itself.
    facts = [] if ends == ("now", "now") else [" to ".join(ends)]
    if interval["elapsed_ns"]:
        facts.append(f"{interval['elapsed_ns'] / 1e9:.2f} s")
    of = interval["governor"], interval["driver"], interval["kernel_release"]
    facts += [kind + name for kind, name in zip(("", "driver ", "Linux "), of, strict=True) if name]
    return f"{interval['label']}: {', '.join(facts)}"


def _states(group: DiffGroup, column: DiffColumn, cpus: str) -> Table:
    has_limits = any(s["latency_us"] is not None for s in group["states"])
    rows = []
    for state, counts in zip(group["states"], column["states"], strict=True):
        off = " (off)" if counts["is_off"] else ""
        limits = [number(state["latency_us"]), number(state["residency_us"])] * has_limits
        own = [*count_cells(counts), number(counts["mean_sleep_us"], 1), *limits]
        rows.append([word(f"{state['index']} {state['name']}{off}"), *own])
    total = column["total"]
    own = [*count_cells(total), number(total["mean_sleep_us"], 1), *[word("")] * (2 * has_limits)]
    rows.append([word("all"), *own])
    several = len(group["columns"]) > 1
    title = f"{cpus}, {column['label']}" if several else cpus
    title += f", {column['rounds']} rounds" if column["rounds"] > 1 else ""
    title += "" if column["residency_of"] == "elapsed" else "; time% of all idle time"
    return states_table(
        title, ["state"], rows, ["mean µs", *["latency µs", "residency µs"] * has_limits]
    )


def _got(group: DiffGroup, column: DiffColumn) -> Table:
    rows = []
    for got in column["got"]:
        names = [group["states"][place]["name"] for place in got["states"]]
        ratios = [number(share(got[key], 1), 2) for key in ("requested_ratio", "got_ratio")]
        rows.append([word(got["counter"]), word(", ".join(names) or UNKNOWN), *ratios])
    headings = ["hardware's counter", "requested by", "requested%", "got%"]
    return Table("got", f"{column['label']}, requested and got", headings, rows, keys=2)


def _comparison(group: DiffGroup, cpus: str) -> Table:
    """Return a row for each figure, and for each label its value and change from the first's."""
    columns = group["columns"]
    rows = [
        _figures("usage per s", [_per_second(column) for column in columns], 1),
        _figures("mean sleep µs", [column["total"]["mean_sleep_us"] for column in columns], 1),
    ]
    for place, state in enumerate(group["states"]):
        shares = [share(column["states"][place]["residency_ratio"], 1) for column in columns]
        rows.append(_figures(f"time in {state['name']} %", shares, 2, is_share=True))
    for key, words in (("above", "too deep %"), ("below", "too shallow %")):
        ratios: list[Any] = [column["total"][f"{key}_ratio"] for column in columns]  # type: ignore[literal-required]
        first, *cells = [number(share(ratio, 1), 2) for ratio in ratios]
        row = [word(words), first]
        for column, cell in zip(columns[1:], cells, strict=True):
            row += [cell, _change(column, key)]
        rows.append(row)
    rows.append(_figures("rejected", [column["total"]["rejected"] for column in columns], 0))
    headings = ["", columns[0]["label"]]
    for column in columns[1:]:
        headings += [column["label"], f"{CHANGE}{column['label']}"]
    title = f"{cpus}: changes from {columns[0]['label']}, in percentage points with 95 % intervals"
    return Table("totals", title, headings, rows, keys=2, together=2)


def _figures(
    title: str, values: Sequence[float | None], digits: int, *, is_share: bool = False
) -> list[Cell]:
    """Return the first value, and others with their changes: in percent, of shares in points."""
    first, *others = values
    row = [word(title), number(first, digits)]
    for value in others:
        if value is None or first is None or (not is_share and not first):
            row += [number(value, digits), word("")]
            continue
        size = value - first if is_share else 100 * (value / first - 1)
        text = minus(f"{size:+.2f} {'pp' if is_share else '%'}") if round(size, 2) else ""
        row += [number(value, digits), Cell(size, text)]
    return row


def _per_second(column: DiffColumn) -> float | None:
    usage, elapsed_ns = column["total"]["usage"], column["elapsed_ns"]
    return usage / elapsed_ns * 1e9 if usage is not None and elapsed_ns else None


def _change(column: DiffColumn, key: str) -> Cell:
    change = column["changes"] and column["changes"][key]
    if not change:
        return word("")
    points, low, high = (100 * change[k] for k in ("difference", "low", "high"))
    verdict = "" if change["is_significant"] else " n.s."
    is_better = points < 0 if change["is_significant"] else None
    text = minus(f"{points:+.2f} pp [{low:+.2f}, {high:+.2f}]") + verdict
    return Cell(points, text, is_better)


def _notes(result: Diff) -> list[str]:
    columns = [column for group in result["groups"] for column in group["columns"]]
    notes = []
    for interval in result["intervals"]:
        for note in interval["notes"]:
            cpus = f"CPU {_engine.format_cpu_list(note['cpus'])}: " if note["cpus"] else ""
            which = f"{interval['label']}: " if len(result["intervals"]) > 1 else ""
            notes.append(f"{which}{cpus}{note['text']}")
    if any(column["residency_of"] == "idle" for column in columns):
        notes.append("the dumps have no clock, so time% is a share of all time in idle states")
    if any(column["changes"] for column in columns):
        notes.append(_CHANCE)
    return list(dict.fromkeys(notes))


def verdict(result: Diff, governor: str | None) -> Verdict:
    """Return the change of the shares of a wrong depth, over all CPUs."""
    labels = list(dict.fromkeys(i["label"] for i in result["intervals"]))
    sums = {label: _sums(result, label) for label in labels}
    first = sums[labels[0]]
    if len(labels) == 1:
        said = [f"{_pct(first[key])} {words}" for key, words in WRONG.items() if key in first]
        depth = f", {' and '.join(said)}" if said else ""
        cpus = counted(sum(len(group["cpus"]) for group in result["groups"]), "CPU")
        return Verdict(f"{labels[0]}:", f"{count_text(first['usage'])} sleeps on {cpus}{depth}")
    other = labels[other_of(labels, 0, range(len(labels)), governor) or 1]
    parts = [
        f"{words} {'more' if sums[other][key] > first[key] else 'less'} often{{}}, "
        f"{_pct(sums[other][key])} for {_pct(first[key])}"
        for key, words in WRONG.items()
        if key in first and key in sums[other] and _pct(sums[other][key]) != _pct(first[key])
    ]
    if not parts:
        return Verdict(other, f"shows no difference from {labels[0]} in depth of sleeps")
    # The base is named once.
    than = [f" than {labels[0]}", ""]
    said = [part.format(base) for part, base in zip(parts, than, strict=False)]
    return Verdict(other, f"sleeps {', and '.join(said)}", _certainty(result, other))


def _certainty(result: Diff, label: str) -> str:
    """Say in how many groups of CPUs the changes are beyond chance."""
    columns = [c for group in result["groups"] for c in group["columns"] if c["label"] == label]
    known = [c for c in columns if c["changes"] and any(c["changes"].values())]
    sure = [
        c for c in known if any(x and x["is_significant"] for x in (c["changes"] or {}).values())
    ]
    rounds = min((column["rounds"] for column in columns), default=0)
    repeated = counted(rounds, "round") if rounds > 1 else "one interval each"
    if not sure:
        return f"{repeated}; may be chance"
    of = f" on {len(sure)} of {len(known)} kinds of CPU" if len(known) > 1 else ""
    return f"{repeated}; beyond chance{of}"


def _sums(result: Diff, label: str) -> dict[str, float]:
    """Return a label's sleeps over all CPUs, and the known shares of a wrong depth."""
    totals = [
        column["total"]
        for group in result["groups"]
        for column in group["columns"]
        if column["label"] == label
    ]
    usage = sum_or_none([total["usage"] for total in totals]) or 0.0
    found = {"usage": usage}
    for key in WRONG:
        count = sum_or_none([total[key] for total in totals])  # type: ignore[literal-required]
        if count is not None and usage:
            found[key] = count / usage
    return found


def _pct(ratio: float) -> str:
    return f"{100 * ratio:.2f} %"


def explain(result: Diff, governor: str | None) -> list[str]:
    said = []
    for group in result["groups"]:
        cpus = _engine.format_cpu_list(group["cpus"])
        names = [f"{state['index']} {state['name']}" for state in group["states"]]
        sides = [
            Side(
                column["label"],
                {
                    ("", place, name): counts_of(counts)
                    for place, (name, counts) in enumerate(
                        zip(names, column["states"], strict=True)
                    )
                },
                {},
            )
            for column in group["columns"]
        ]
        if len(sides) == 1:
            total = group["columns"][0]["total"]
            worst = max(sides[0].states, key=lambda k: sides[0].states[k]["above"])
            said.append(
                f"CPU {cpus}: {count_text(total['usage'] or 0)} sleeps, "
                f"{percent(total['above_ratio'])} too deep and {percent(total['below_ratio'])} too "
                f"shallow; {state_text(worst)} has {count_text(sides[0].states[worst]['above'])} "
                "of the sleeps too deep."
            )
            continue
        labels = [side.label for side in sides]
        other = other_of(labels, 0, range(len(labels)), governor)
        assert other is not None, "there are two columns"
        column, base = group["columns"][other], group["columns"][0]
        said += [
            f"CPU {cpus}: {_share_changes(base, column)}",
            where(sides[0], sides[other]),
            _work(base, column),
        ]
    reasons = [
        "what ran in the intervals, and what woke the CPUs, which 5 counters a state do not hold"
    ]
    if any(c["residency_of"] == "idle" for g in result["groups"] for c in g["columns"]):
        reasons.append("shares of all time, since the dumps have no clock")
    rounds = min((c["rounds"] for g in result["groups"] for c in g["columns"]), default=0)
    if rounds < 2:
        reasons.append(
            "what repeats: a column has 1 interval, so its spread is that over CPUs alone"
        )
    return [*said, cannot_show(reasons)]


def _share_changes(base: DiffColumn, column: DiffColumn) -> str:
    parts = []
    for key, words in WRONG.items():
        change = (column["changes"] or {}).get(key)
        if change is None:
            continue
        ends = [minus(f"{100 * change[end]:+.2f}") for end in ("low", "high")]
        verdict = "" if change["is_significant"] else ", which may be chance"
        moved = minus(f"{100 * change['difference']:+.2f}")
        parts.append(
            f"{words} {percent(column['total'][f'{key}_ratio'])}, "  # type: ignore[literal-required]
            f"{moved} points ({ends[0]} to {ends[1]}, 95 %){verdict}"
        )
    said = "; ".join(parts) or "neither has counters of wrong depth"
    return f"{column['label']} against {base['label']}: {said}."


def _work(base: DiffColumn, column: DiffColumn) -> str:
    before, after = base["total"]["usage"], column["total"]["usage"]
    if not before or after is None:
        return ""
    means = [c["total"]["mean_sleep_us"] for c in (column, base)]
    slept = ""
    if None not in means:
        slept = f", of {means[0]:,.1f} µs on average against {means[1]:,.1f} µs"
    return (
        f"{column['label']} has {count_text(after)} sleeps "
        f"({minus(f'{100 * (after / before - 1):+.2f}')} %){slept}: "
        "shares are compared, counts are not."
    )


def columns(result: Diff) -> Iterator[Column]:
    labels = dict.fromkeys(i["label"] for i in result["intervals"])
    for label in labels:
        columns = [
            (group, column)
            for group in result["groups"]
            for column in group["columns"]
            if column["label"] == label
        ]
        sums = {
            key: sum_or_none([column["total"][key] for _, column in columns])
            for key in ("usage", "above", "below", "time_us")
        }
        spans = [(c["elapsed_ns"], len(c["cpus"]), c["rounds"]) for _, c in columns]
        whole_us = sum_or_none([None if ns is None else ns / 1e3 * cpus for ns, cpus, _ in spans])
        seconds = max((ns / 1e9 for ns, _, _ in spans if ns is not None), default=0)
        deepest = sum_or_none([c["states"][-1]["time_us"] for _, c in columns])
        values = {
            "sleeps_per_s": share(sums["usage"], seconds, 1),
            "above_pct": share(sums["above"], sums["usage"]),
            "below_pct": share(sums["below"], sums["usage"]),
            "idle_residency_pct": share(sums["time_us"], whole_us),
            "deepest_residency_pct": share(deepest, whole_us),
        }
        interval = next(i for i in result["intervals"] if i["label"] == label)
        of = {"kind": "diff", "machine": interval["driver"] or "unknown"}
        if interval["kernel_release"]:
            of["kernel"] = interval["kernel_release"]
        yield Column(label, values, of)


def states(result: Diff) -> list[tuple[str, Clusters]]:
    """Return the states of each label's groups of CPUs."""
    runs: dict[str, Clusters] = {}
    for group in result["groups"]:
        name = f"CPU {_engine.format_cpu_list(group['cpus'])}"
        for column in group["columns"]:
            states = [
                {**counts, "name": state["name"], "time_ns": 1000 * (counts["time_us"] or 0)}
                for state, counts in zip(group["states"], column["states"], strict=True)
            ]
            elapsed_ns = column["elapsed_ns"] if column["residency_of"] == "elapsed" else None
            whole_ns = None if elapsed_ns is None else elapsed_ns * len(column["cpus"])
            runs.setdefault(column["label"], []).append(cluster(name, [], states, whole_ns))
    return list(runs.items())


def samples(result: Diff) -> Iterator[Sample]:
    """Return the shares of sleeps of a wrong depth: what test suites of distributions look at."""
    for group in result["groups"]:
        scenario = f"CPUs {_engine.format_cpu_list(group['cpus'])}"
        for column in group["columns"]:
            total = column["total"]
            shares = {
                "above_pct": share(total["above_ratio"], 1),
                "below_pct": share(total["below_ratio"], 1),
            }
            yield Sample(scenario, column["label"], 0, shares)


def contradictions(result: Diff) -> Iterator[str]:
    """Compare each group's columns with its states and with the intervals."""
    labels = {interval["label"] for interval in result["intervals"]}
    for place, group in enumerate(result["groups"]):
        for column in group["columns"]:
            if len(column["states"]) != len(group["states"]):
                yield (
                    f"group {place} has {len(group['states'])} states, and its column "
                    f"`{column['label']}` {len(column['states'])}"
                )
            if column["label"] not in labels:
                yield f"`{column['label']}` is a column of no interval"


def _last(lines: Sequence[Any], _check: Callable[[Any, Any], None]) -> Any:
    """Return the last line of `torpor stat --format json`: each has all counts since the first."""
    if not lines:
        raise TorporError("no line is finished yet")
    return lines[-1]


KIND = Kind(
    "diff",
    post,
    COUNTED,
    explain,
    verdict=verdict,
    shape=Diff,
    columns=columns,
    samples=samples,
    # The verdict is on the depth.
    pictures=lambda result: of_states(states(result))[::-1],
    growing=Growing(lambda first: first.get("kind") == "diff", _last),
    contradictions=contradictions,
)
