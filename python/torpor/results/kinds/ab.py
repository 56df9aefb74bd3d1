# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Governors in turn on a live machine, under a command: ``torpor ab``."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from torpor import _engine
from torpor._engine import TorporError
from torpor.results import comparison
from torpor.results.catalogue import first_of, metrics
from torpor.results.cells import (
    COUNTERS,
    RUN,
    SIDES,
    change_cell,
    compared,
    count_cells,
    mean,
    miss_cells,
    states_table,
    sum_or_none,
    total,
)
from torpor.results.comparison import base_text, short_labels
from torpor.results.kind import COUNTED, Clusters, Column, Growing, Input, Kind, cluster
from torpor.results.kinds.diff import Counts
from torpor.results.picture import COLOURS, POINTED, Chart, Picture, Point, Series, of_states
from torpor.results.sentences import Counts as Sums
from torpor.results.sentences import (
    Side,
    add,
    alone,
    cannot_show,
    changed,
    counts_of,
    differences,
    known_row,
    none,
    other_of,
    where,
)
from torpor.results.shapes import CpuNumber, Some
from torpor.results.table import Brief, Post, Table, Verdict, counted, number, share, word
from torpor.results.types import Comparison, Version

#: Rows that a terminal shows.
_ROWS = 8


class AbGovernor(TypedDict):
    """A governor as requested, and as the kernel offers it."""

    label: str
    name: str
    #: The module that provides it; null for one of the kernel's own.
    module: str | None
    parameters: list[str]


class AbState(Counts):
    """Counters of one state over one run."""

    name: str


class AbGroup(TypedDict):
    """CPUs that share their idle states."""

    cpus: list[CpuNumber]
    states: Annotated[list[AbState], Some]


class AbCounters(TypedDict):
    """Counts during one run."""

    elapsed_ns: int | None
    notes: list[str]
    groups: list[AbGroup]


class AbRun(TypedDict):
    """The command once, under one governor."""

    round: int
    governor: str
    began_at_ns: int
    duration_ns: int
    #: Figure that the command itself printed.
    figure: float | None
    #: By kind of zone: ``package``, ``dram``, ``platform``.
    energy_uj: dict[str, int]
    counters: AbCounters
    output: str


class AbHead(TypedDict):
    """Conditions of the comparison."""

    torpor: Version
    kernel: str
    driver: str | None
    cpu_count: int
    governors: Annotated[list[AbGovernor], Some]
    command: Annotated[list[str], Some]
    rounds: int
    metric: str | None
    seed: int | None
    warm_up: int
    energy_zones_unreadable: list[str]


class Ab(AbHead):
    """Result of ``torpor ab``."""

    format: int
    kind: Literal["ab"]
    finished_rounds: int
    runs: list[AbRun]
    #: Null if no round was finished.
    comparison: Comparison | None


def post(result: Ab) -> Post:
    """Return the comparison, every run, and the states of each governor."""
    labels = [governor["label"] for governor in result["governors"]]
    short = dict(zip(labels, short_labels(labels), strict=True))
    found = result["comparison"]
    tables = []
    if found is not None:
        rows = sorted(found["rows"], key=lambda row: first_of(row["key"]))
        tables.append(compared({**found, "rows": rows}))
    tables += [_runs(result, short), *(_states(result, label, short) for label in labels)]
    rounds = f"{result['finished_rounds']} of {counted(result['rounds'], 'round')}"
    cpus = counted(result["cpu_count"], "CPU")
    machine = f"Linux {result['kernel']}, driver {result['driver']}, {cpus}"
    offered = [
        f"{g['label']} is {g['name']}" if g["module"] else f"{g['label']} is the kernel's own"
        for g in result["governors"]
    ]
    facts = [machine, f"Governors: {', '.join(offered)}"]
    title = f"{shlex.join(result['command'])}: {rounds}"
    brief = Brief([], _urgent(result), [f"{title}, {machine}"])
    if found is not None:
        brief.tables.append(tables[0]._replace(rows=tables[0].rows[:_ROWS]))
    return Post(title, facts, tables, _notes(result), brief=brief)


def _urgent(result: Ab) -> list[str]:
    """Return what a reader must know of a comparison."""
    found, notes = result["comparison"], []
    if found is None:
        return []
    if result["rounds"] > result["finished_rounds"]:
        notes.append(
            f"It ended early, after {result['finished_rounds']} of {result['rounds']} rounds."
        )
    if found["samples"] < 2:
        notes.append("One round cannot show what differs by chance: run at least --rounds 2.")
    elif (row := known_row(found, "figure", "wall_s")) is not None:
        needed = [cell["change"]["pairs_needed"] for cell in row["cells"] if cell["change"]]
        if most := max((count for count in needed if count), default=0):
            notes.append(
                f"To confirm the difference in {row['title']} you need {most:,} rounds "
                "(80 % power)."
            )
    if not any(row["key"] == "figure" for row in found["rows"]):
        notes.append("No figure: the command did not print a number in every run (--metric).")
    return notes


def _runs(result: Ab, short: Mapping[str, str]) -> Table:
    test = result["command"][0].rpartition("/")[2]
    first = result["governors"][0]["label"]
    base = mean([run["figure"] for run in result["runs"] if run["governor"] == first])
    rows = []
    for run in result["runs"]:
        states = [state for group in run["counters"]["groups"] for state in group["states"]]
        above, below, usage = (total(states, key) for key in ("above", "below", "usage"))
        figure = [number(run["figure"], 2), change_cell(run["figure"], base)]
        head = [word(test), word(short[run["governor"]]), number(run["round"])]
        rows.append([*head, *figure, *miss_cells(usage, above, below)])
    headings = ["test", "gov", "i", "score", "%change", *RUN, "miss_rt", *SIDES]
    title = "%change against the first's mean"
    return Table("runs", title, headings, rows, keys=3, is_detail=True)


def _states(result: Ab, label: str, short: Mapping[str, str]) -> Table:
    of = [run["counters"] for run in result["runs"] if run["governor"] == label]
    rows = []
    for place, group in enumerate(of[0]["groups"] if of else []):
        cpus = _engine.format_cpu_list(group["cpus"])
        elapsed = total(of, "elapsed_ns")
        whole_us = None if elapsed is None else elapsed / 1e3 * len(group["cpus"])
        for index, state in enumerate(group["states"]):
            each = [counters["groups"][place]["states"][index] for counters in of]
            sums: dict[str, Any] = {key: total(each, key) for key in COUNTERS}
            sums["residency_ratio"] = share(sums["time_us"], whole_us, 1)
            rows.append([word(cpus), word(f"{index} {state['name']}"), *count_cells(sums)])
    found = states_table(f"{short[label]}, all rounds", ["CPUs", "state"], rows)
    return found._replace(is_detail=True)


def _notes(result: Ab) -> list[str]:
    found = result["comparison"]
    if found is None:
        return []
    notes = []
    if found["samples"] < 2:
        notes.append("one round cannot show what differs by chance: run at least --rounds 2")
    elif found["base"] is not None:
        others = [place for place in range(len(found["labels"])) if place != found["base"]]
        notes += [differences(found, found["base"], place, len(found["rows"])) for place in others]
        notes.append("±: 95 % interval of the mean difference, paired by round")
        notes += [text for text in [base_text(found, "rounds")] if text]
    if result["rounds"] > result["finished_rounds"]:
        notes.append(f"ended early, after {result['finished_rounds']} of {result['rounds']} rounds")
    keys = [row["key"] for row in found["rows"]]
    if "figure" not in keys:
        notes.append("no figure: the command did not print a number in every run")
    if not any(key.endswith("_j") for key in keys):
        notes.append("no energy: this machine has no RAPL counters that may be read")
    notes += [note for run in result["runs"] for note in run["counters"]["notes"]]
    return list(dict.fromkeys(notes))


def made(head: AbHead, runs: list[AbRun]) -> Ab:
    """Return a comparison as a result; without a finished round, nothing in it is compared."""
    labels = [governor["label"] for governor in head["governors"]]
    return {
        "format": _engine.FORMAT,
        "kind": "ab",
        **head,
        "finished_rounds": len({run["round"] for run in runs}),
        "comparison": compare(runs, labels) if runs else None,
        "runs": runs,
    }


def compare(runs: list[AbRun], labels: list[str]) -> Comparison:
    """Return the comparison by those metrics that all runs have, paired by round."""
    measured = [(run["governor"], run["round"], values(run)) for run in runs]
    known = [
        metric
        for metric in metrics("ab").values()
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
    return comparison.fill(known, columns, is_paired=True)


def values(run: AbRun) -> dict[str, float | None]:
    """Return the metrics of one run; unknown ones are None or missing."""
    wall_s = run["duration_ns"] / 1e9
    groups = run["counters"]["groups"]
    states = [state for group in groups for state in group["states"]]
    usage = _sum(states, "usage")
    elapsed_us = (run["counters"]["elapsed_ns"] or 0) / 1e3
    cpu_us = elapsed_us * sum(len(group["cpus"]) for group in groups)
    found = {
        "figure": run["figure"],
        "wall_s": wall_s,
        "wakeups_per_s": share(usage, elapsed_us / 1e6, 1),
        "above_pct": share(_sum(states, "above"), usage),
        "below_pct": share(_sum(states, "below"), usage),
        "deepest_pct": share(_sum([g["states"][-1] for g in groups], "time_us"), cpu_us),
        "idle_pct": share(_sum(states, "time_us"), cpu_us),
    }
    for kind, energy_uj in run["energy_uj"].items():
        found[f"{kind}_j"] = energy_uj / 1e6
        found[f"{kind}_w"] = share(energy_uj / 1e6, wall_s, 1)
    return found


def _sum(states: Iterable[Mapping[str, Any]], key: str) -> float | None:
    return sum_or_none([state[key] for state in states])


def verdict(result: Ab, governor: str | None) -> Verdict:
    """Return what the other governor does to the command's own figure, and to what else."""
    found = result["comparison"]
    if found is None or found["base"] is None:
        text = f"No round of {result['rounds']} was finished, so nothing is compared"
        return Verdict("", text)
    other = other_of(found["labels"], found["base"], range(len(found["labels"])), governor)
    if other is None:
        return Verdict("", alone(_side(result, found["labels"][found["base"]])))
    return changed(found, found["base"], other, "round", known_row(found, "figure", "wall_s"))


def explain(result: Ab, governor: str | None) -> list[str]:
    found = result["comparison"]
    if found is None or found["base"] is None:
        return []
    labels = found["labels"]
    other = other_of(labels, found["base"], range(len(labels)), governor)
    reasons = [f"other machines and loads: this is 1 machine, {result['finished_rounds']} rounds"]
    if not any(row["kind"] in ("energy", "power") for row in found["rows"]):
        reasons.append("energy, with 0 counters of it that may be read")
    limits = cannot_show(reasons)
    sides = [_side(result, label) for label in labels]
    if other is None:
        return [alone(sides[0]), limits]
    return [
        differences(found, found["base"], other),
        where(sides[found["base"]], sides[other]),
        limits,
    ]


def _side(result: Ab, label: str) -> Side:
    states: dict[tuple[str, int, str], Sums] = {}
    for run in result["runs"]:
        for group in run["counters"]["groups"] if run["governor"] == label else ():
            cpus = f"CPU {_engine.format_cpu_list(group['cpus'])}"
            for place, state in enumerate(group["states"]):
                key = (cpus, place, f"{place} {state['name']}")
                add(states.setdefault(key, none()), counts_of(state))
    return Side(label, states, {})


def columns(result: Ab) -> Iterator[Column]:
    """Return the means of each governor's runs."""
    of = {"kind": "ab", "workload": " ".join(result["command"]), "machine": result["kernel"]}
    for governor in result["governors"]:
        runs = [values(run) for run in result["runs"] if run["governor"] == governor["label"]]
        keys = dict.fromkeys(key for run in runs for key in run)
        means = {key: mean([run.get(key) for run in runs]) for key in keys}
        # Its wake-ups are sleeps in the catalogue's words.
        means["sleeps_per_s"] = means.pop("wakeups_per_s", None)
        yield Column(governor["label"], means, of)


def states(result: Ab) -> list[tuple[str, Clusters]]:
    """Return the states of each governor, all rounds together."""
    runs = []
    for governor in result["governors"]:
        of = [run["counters"] for run in result["runs"] if run["governor"] == governor["label"]]
        clusters = []
        for place, group in enumerate(of[0]["groups"] if of else ()):
            each = [counters["groups"][place]["states"] for counters in of]
            states = [
                {
                    "name": state["name"],
                    "time_ns": 1000 * (_sum((states[index] for states in each), "time_us") or 0),
                    **{
                        key: _sum((states[index] for states in each), key)
                        for key in ("usage", "above", "below")
                    },
                }
                for index, state in enumerate(group["states"])
            ]
            elapsed_ns = sum_or_none(counters["elapsed_ns"] for counters in of)
            whole_ns = None if elapsed_ns is None else elapsed_ns * len(group["cpus"])
            name = f"CPU {_engine.format_cpu_list(group['cpus'])}"
            clusters.append(cluster(name, [], states, whole_ns))
        runs.append((governor["label"], clusters))
    return runs


def pictures(result: Ab) -> list[Picture]:
    """Return the command's figure by round, and the states of each governor."""
    labels = [governor["label"] for governor in result["governors"]]
    series = []
    for place, label in enumerate(labels):
        runs = [(run["round"], run["figure"]) for run in result["runs"] if run["governor"] == label]
        points = [
            Point(float(number), value, f"{label}, round {number}: {value:g}")
            for number, value in sorted(runs, key=lambda run: run[0])
            if value is not None
        ]
        series.append(Series(label, points, COLOURS[place % len(COLOURS)], 3.0, is_line=True))
    others = of_states(states(result))
    if any(len(one.points) < 2 for one in series):
        return others
    lead = f"What the command printed in each round. {POINTED}"
    chart = Chart("figure by round", "round", "figure", series, size=(620.0, 300.0))
    return [Picture("The command's figure", lead, [chart]), *others]


def inputs(result: Ab) -> list[Input]:
    """Return the kernel and the governors."""
    named = ", ".join(" ".join([g["name"], *g["parameters"]]) for g in result["governors"])
    return [Input("kernel", result["kernel"], None), Input("governors", named, None)]


def _finished(lines: Sequence[Any], check: Callable[[Any, Any], None]) -> Ab:
    """Return the comparison of the rounds that `torpor ab -o` has finished."""
    head, *runs = lines or [None]
    check(head, AbHead)
    for run in runs:
        check(run, AbRun)
    finished = Counter(run["round"] for run in runs)
    count = len(head["governors"])
    whole = [run for run in runs if run["round"] > 0 and finished[run["round"]] == count]
    if not whole:
        raise TorporError("no round is finished yet")
    return made(head, whole)


KIND = Kind(
    "ab",
    post,
    COUNTED,
    explain,
    verdict=verdict,
    shape=Ab,
    columns=columns,
    inputs=inputs,
    pictures=pictures,
    growing=Growing(
        lambda first: {"governors", "command", "rounds"} <= set(first), _finished, (AbHead,)
    ),
)
