# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Statistics of a recorded machine: states, wake-ups, tasks, interrupts, latency."""

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from torpor.results import types as results
from torpor.results.cells import (
    COUNTED,
    count_cells,
    rate_cell,
    states_table,
    sum_or_none,
    total,
    wrong_cells,
)
from torpor.results.comparison import percent
from torpor.results.kind import Clusters, Column, Kind, cluster, saved_by
from torpor.results.kinds import latency
from torpor.results.picture import of_states
from torpor.results.sentences import (
    WRONG,
    Side,
    add,
    cannot_show,
    count_text,
    counts_of,
    none,
    state_text,
)
from torpor.results.sentences import total as side_total
from torpor.results.table import Post, Table, Verdict, counted, number, share, word

#: Rows that a terminal shows of the tables that may be long.
_TOP = 10


def post(result: "results.TraceStats", *, top: int = _TOP, is_each_cpu: bool = False) -> Post:
    """Return a table for each question, the most frequent rows first.

    ``top``: number of rows that a terminal shows. ``is_each_cpu``: states of each CPU, not of each
    cluster.
    """
    tables = [_states(result, is_each_cpu), *_events(result, top), latency.table(result["latency"])]
    shown = [table for table in tables if table.rows]
    title = f"{result['trace']['path']}: what the machine did"
    losses = result["trace"]["losses"]
    return Post(title, _facts(result), shown, [f"{x['count']} × {x['advice']}" for x in losses])


def _facts(result: "results.TraceStats") -> list[str]:
    trace, source = result["trace"], result["verdict_source"]
    asleep = len({state["cpu"] for state in result["states"]})
    part = f" ({asleep} of them asleep at times)" if 0 < asleep < trace["cpu_count"] else ""
    kernel = f", Linux {trace['kernel_release']}" if trace["kernel_release"] else ""
    cut = f"; {result['cut_sleeps']} cut by an edge are left out" if result["cut_sleeps"] else ""
    seconds = trace["duration_ns"] / 1e9
    judged = {
        "cpu_idle_miss": "the kernel's own, from cpu_idle_miss",
        None: "not known: the recording has no cpu_idle_miss; name the machine with --platform",
    }.get(source, f"by the states of {result['platform']}, from the recorded lengths")
    facts = [
        f"{counted(trace['cpu_count'], 'CPU')}{part}, {seconds:.2f} s{kernel}",
        f"{counted(result['sleeps'], 'sleep')}{cut}",
        f"above and below: {judged}",
        _tick(result),
    ]
    if (verdicts := result["verdicts"]) is not None:
        facts.append(
            f"the kernel's verdicts match its rule on the recorded lengths in "
            f"{verdicts['agreeing']} of {verdicts['compared']} sleeps"
        )
    if not result["sleeps"]:
        count = trace["event_counts"].get("cpu_idle", 0)
        facts.append(
            f"no sleeps: the recording has {count} cpu_idle events; record `power:cpu_idle` "
            "(torpor record --print perf)"
        )
    return facts


def _tick(result: "results.TraceStats") -> str:
    tick = result["tick"]
    facts = []
    if tick["wakeups"] is not None:
        facts.append(f"alone ended {tick['wakeups']} sleeps")
    if tick["stopped"] is not None:
        facts.append(f"was stopped {tick['stopped']} times, kept {tick['refused']} times")
    if not facts:
        return "the tick is not known: the recording has neither hrtimers nor tick_stop"
    return f"the tick {' and '.join(facts)}"


def _states(result: "results.TraceStats", is_each_cpu: bool) -> Table:
    groups: dict[tuple[str, int, str], list[results.StateStats]] = {}
    cpus: dict[str, set[int]] = {}
    for state in result["states"]:
        group = f"CPU {state['cpu']}" if is_each_cpu else state["cluster"] or "all"
        key = (group, state["state"], state["name"] or "")
        groups.setdefault(key, []).append(state)
        cpus.setdefault(group, set()).add(state["cpu"])
    span_ns = result["trace"]["duration_ns"]
    rows = []
    places = {group: place for place, group in enumerate(cpus)}
    order = sorted(groups, key=lambda key: (places[key[0]] if is_each_cpu else 0, key))
    for group, index, name in order:
        of = groups[group, index, name]
        sums: dict[str, Any] = {key: total(of, key) for key in ("above", "below", "rejected")}
        sums["usage"] = sum(state["usage"] for state in of)
        time_ns = sum(state["time_ns"] for state in of)
        sums["time_us"] = time_ns / 1e3
        sums["residency_ratio"] = share(time_ns, span_ns * len(cpus[group]), 1)
        mean = number(share(time_ns, sums["usage"], 1e-3), 1)
        head = [word(group), word(f"{index} {name}".rstrip())]
        rows.append([*head, *count_cells(sums), mean])
    first = "CPU" if is_each_cpu else "cluster"
    return states_table("", [first, "state"], rows, ["mean µs"])


def _events(result: "results.TraceStats", top: int) -> list[Table]:
    """Return what ended sleeps, tasks and interrupts."""
    span_ns = result["trace"]["duration_ns"]
    per_s = 1e9 / span_ns if span_ns else None
    wakeups = [
        [
            *(word(row["kind"]), word(row["name"]), number(row["count"])),
            *(number(share(row["count"], result["sleeps"]), 1), rate_cell(row["count"], per_s)),
            number(share(row["slept_ns"], row["count"], 1e-3), 1),
            *wrong_cells(row, row["count"]),
        ]
        for row in result["wakeups"]
    ]
    tasks = [
        [
            *(word(row["comm"]), number(row["wakeups"]), rate_cell(row["wakeups"], per_s)),
            *(number(row["switches"]), number(row["run_ns"] / 1e6, 2)),
            *wrong_cells(row, row["wakeups"]),
        ]
        for row in result["tasks"]
    ]
    interrupts = [
        [
            *(word(row["kind"]), word(row["name"]), number(row["count"])),
            rate_cell(row["count"], per_s),
            number(share(row["handler_ns"], row["count"], 1e-3), 2),
        ]
        for row in result["interrupts"]
    ]

    woken = ["woken by", "", "wake-ups", "%", "1/s", "mean µs", *COUNTED[3:]]
    ran = ["task", "first", "1/s", "switches", "ran ms", *COUNTED[3:]]
    handled = ["interrupt", "", "count", "1/s", "handler µs"]
    tables = [
        Table("wakeups", "What ended sleeps", woken, wakeups, 2),
        Table("tasks", "Tasks, and how often first after a sleep", ran, tasks),
        Table("interrupts", "Interrupts, asleep or awake", handled, interrupts, 2),
    ]
    return [table._replace(most=top, more="--top") for table in tables]


def verdict(result: "results.TraceStats", _governor: str | None) -> Verdict:
    """Return how many sleeps the machine had, the shares of a wrong depth or what ended most."""
    name = PurePath(result["trace"]["path"]).name
    seconds = result["trace"]["duration_ns"] / 1e9
    figure = f"{count_text(result['sleeps'])} sleeps in {seconds:.2f} s"
    if result["sleeps"] and result["verdict_source"] is not None:
        shares = [
            percent(sum(state[side] or 0 for state in result["states"]) / result["sleeps"])
            for side in ("above", "below")
        ]
        figure += f", {shares[0]} too deep and {shares[1]} too shallow"
    elif result["sleeps"] and result["wakeups"]:
        first = result["wakeups"][0]
        ended = percent(first["count"] / result["sleeps"])
        figure += f"; {first['kind']} {first['name']}".rstrip() + f" ended {ended} of them"
    return Verdict(f"{name}:", figure)


def explain(result: "results.TraceStats", _governor: str | None) -> list[str]:
    side = Side("the machine", {}, {})
    for state in result["states"]:
        counts = counts_of(state) | {"time_ns": state["time_ns"]}
        name = f"{state['state']} {state['name'] or ''}".rstrip()
        key = (state["cluster"] or "", state["state"], name)
        add(side.states.setdefault(key, none()), counts)
        add(side.cpus.setdefault(state["cpu"], none()), counts)
    said, reasons = list[str](), list[str]()
    if not result["sleeps"]:
        return [*said, cannot_show(["anything about idle states, with 0 sleeps"])]
    if result["verdict_source"] is None:
        reasons.append("depth: the recording has no cpu_idle_miss, and no platform was named")
    else:
        sums = {s: side_total(side, s) for s in WRONG}
        worse = max(sums, key=lambda s: sums[s])
        worst = max(side.states, key=lambda k: side.states[k][worse])
        said.append(
            f"{count_text(side.states[worst][worse])} of {count_text(sums[worse])} sleeps "
            f"{WRONG[worse]} were in {state_text(worst)}."
        )
        wakers = [w for w in result["wakeups"] if w.get(worse)]
        if wakers:
            top: dict[str, Any] = dict(max(wakers, key=lambda w: w[worse] or 0))  # type: ignore[literal-required]
            name = f"{top['kind']} {top['name']}".rstrip()
            mean_us = top["slept_ns"] / top["count"] / 1e3
            said.append(
                f"{name} ended {count_text(top[worse])} of these, among "
                f"{count_text(top['count'])} sleeps of {mean_us:,.1f} µs on average that it ended."
            )
    tick = result["tick"]
    if tick["wakeups"] is not None:
        said.append(f"The tick alone ended {count_text(tick['wakeups'])} sleeps.")
    else:
        reasons.append("the tick's part: the recording has 0 timer events")
    if not result["latency"]:
        reasons.append("wake-up latency, for which 0 causes are recorded")
    lost = sum(x["count"] for x in result["trace"]["losses"] if x["severity"] != "info")
    if lost:
        reasons.append(f"what was in {count_text(lost)} lost pieces")
    return [*said, cannot_show(reasons)]


def columns(result: Any) -> Iterator[Column]:
    """Return the metrics of the recorded machine."""
    states, trace = result["states"], result["trace"]
    usage, above, below, time_ns = (
        sum_or_none([state[key] for state in states])
        for key in ("usage", "above", "below", "time_ns")
    )
    seconds = trace["duration_ns"] / 1e9
    cpus = len({state["cpu"] for state in states})
    values = {
        "sleeps_per_s": share(usage, seconds, 1),
        "above_pct": share(above, usage),
        "below_pct": share(below, usage),
        "idle_residency_pct": share(time_ns, trace["duration_ns"] * cpus),
        "tick_wakeups_per_s": share(result["tick"]["wakeups"], seconds, 1),
    }
    of = {"kind": "trace_stats", "recording": trace["path"], "duration": f"{seconds:.2f} s"}
    of |= {"machine": result["platform"]} if result["platform"] else {}
    yield Column("recorded", values, of)


def states(stats: Any) -> list[tuple[str, Clusters]]:
    """Return the recorded machine's states, as far as the recording shows them."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    cpus: dict[str, set[int]] = {}
    is_judged = stats["verdict_source"] is not None
    for state in stats["states"]:
        name = state["cluster"] or "all CPUs"
        cpus.setdefault(name, set()).add(state["cpu"])
        sums = found.setdefault(name, {}).setdefault(state["state"], _empty(state, is_judged))
        for key in ("time_ns", "usage", *("above", "below") * is_judged):
            sums[key] += state[key] or 0
    clusters = []
    for name, states in found.items():
        # States are distinguished by their place, which one that was never entered has, too.
        every = [
            states.get(index) or _empty({"name": None, "state": index}, is_judged)
            for index in range(max(states) + 1)
        ]
        whole_ns = stats["trace"]["duration_ns"] * len(cpus[name])
        clusters.append(cluster(name, sorted(cpus[name]), every, whole_ns))
    return [("recorded", clusters)]


def _empty(state: Mapping[str, Any], is_judged: bool) -> dict[str, Any]:
    none = 0 if is_judged else None
    name = state["name"] or f"state {state['state']}"
    return {"name": name, "time_ns": 0, "usage": 0, "above": none, "below": none}


KIND = Kind(
    "trace_stats",
    post,
    saved_by("trace stats"),
    explain,
    verdict=verdict,
    columns=columns,
    pictures=lambda result: of_states(states(result)),
)
