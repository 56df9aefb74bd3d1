# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tables of recordings: the machine's behavior, and agreement with governors."""

from typing import TYPE_CHECKING, Any

from torpor.results.comparison import agreement_text
from torpor.results.kinds.cells import (
    COUNTED,
    compared,
    count_cells,
    rate_cell,
    states_table,
    total,
    wrong_cells,
)
from torpor.results.table import Cell, Post, Table, number, share, word

if TYPE_CHECKING:
    from torpor.results import types as results


def fidelity(result: "results.Fidelity") -> Post:
    decisions = result["decisions"]
    counters = [
        [word(str(c["cpu"])), word(f"{c['state']} {c['name']}"), *_counter(c)]
        for c in result["counters"]
    ]
    headings = [
        "CPU",
        "state",
        "usage",
        "sysfs usage",
        "above",
        "miss above",
        "below",
        "miss below",
    ]
    tables = [
        compared(result["comparison"]),
        Table("counters", "Counters: of the sleeps, and the kernel's", headings, counters, keys=2),
    ]
    title = f"{result['trace']['path']}: {decisions['compared']} decisions on {result['platform']}"
    facts = [agreement_text(result, "--platform")]
    return Post(title, facts, tables, list(result["notes"]))


def _counter(counter: "results.Counter") -> list[Cell]:
    sysfs = counter["sysfs"]
    usage = None if sysfs is None else sysfs["usage"]
    counts = (counter["above"], counter["miss_above"], counter["below"], counter["miss_below"])
    return [number(counter["usage"]), number(usage), *map(number, counts)]


def outcomes(result: dict[str, Any]) -> Post:
    """Return the table of a recording without timers or switches."""
    has_sysfs = any(state["sysfs"] for state in result["states"])
    keys = ("usage", "above", "below", "rejected")
    rows = []
    for state in result["states"]:
        row = [word(state["cluster"]), word(f"{state['state']} {state['name'] or ''}".rstrip())]
        row += [number(state["usage"]), *wrong_cells(state, state["usage"])]
        if has_sysfs:
            sysfs = state["sysfs"] or dict.fromkeys(keys)
            row += [number(sysfs["usage"]), *wrong_cells(sysfs, sysfs["usage"])]
            row.append(number(sysfs["rejected"]))
        rows.append(row)
    headings = ["cluster", "state", "usage", *COUNTED[3:]]
    if has_sysfs:
        headings += ["sysfs", *COUNTED[3:], "rejected"]
    lacks, source = " and no ".join(result["lacks"]), result["verdict_source"]
    facts = [
        f"It has no {lacks}: no governor can be asked what it would have done (`torpor record` "
        "records what is required). What its sleeps came to can be held against what else "
        "counted them."
    ]
    if (verdicts := result["verdicts"]) is not None:
        agreeing, compared_ = verdicts["agreeing"], verdicts["compared"]
        rejected = verdicts.get("rejected", 0)
        facts.append(
            f"By the kernel's rule on the recorded lengths, {agreeing} of {compared_} sleeps "
            f"({100 * agreeing / max(compared_, 1):.2f} %) are what its cpu_idle_miss says"
            + (f"; {rejected} that the driver refused are left out" if rejected else "")
        )
    elif source is not None:
        facts.append("above and below: by the kernel's rule, on the recorded lengths")
    notes = ["sysfs counts from dump to dump, which is longer than the recording"] * has_sysfs
    table = Table("states", "Sleeps as recorded, and by sysfs", headings, rows, keys=2, together=5)
    title = f"{result['trace']['path']}: {result['sleeps']} sleeps on {result['platform']}"
    return Post(title, facts, [table], notes)


def trace_stats(result: "results.TraceStats") -> Post:
    trace, source = result["trace"], result["verdict_source"]
    span_ns = trace["duration_ns"]
    per_s = 1e9 / span_ns if span_ns else None
    groups: dict[tuple[str, int, str], list[results.StateStats]] = {}
    cpus: dict[str, set[int]] = {}
    for state in result["states"]:
        cluster = state["cluster"] or "all"
        key = (cluster, state["state"], state["name"] or "")
        groups.setdefault(key, []).append(state)
        cpus.setdefault(cluster, set()).add(state["cpu"])
    rows = []
    for (cluster, index, name), of in sorted(groups.items()):
        sums: dict[str, Any] = {key: total(of, key) for key in ("above", "below", "rejected")}
        sums["usage"] = sum(state["usage"] for state in of)
        time_ns = sum(state["time_ns"] for state in of)
        sums["time_us"] = time_ns / 1e3
        sums["residency_ratio"] = share(time_ns, span_ns * len(cpus[cluster]), 1)
        rows.append([word(cluster), word(f"{index} {name}".rstrip()), *count_cells(sums)])
    tables = [states_table("", ["cluster", "state"], rows)]
    rows = [
        [
            *(word(row["kind"]), word(row["name"]), number(row["count"])),
            *(number(share(row["count"], result["sleeps"]), 1), rate_cell(row["count"], per_s)),
            *(
                number(share(row["slept_ns"], row["count"], 1e-3), 1),
                *wrong_cells(row, row["count"]),
            ),
        ]
        for row in result["wakeups"]
    ]
    headings = ["woken by", "", "wake-ups", "%", "1/s", "mean µs", *COUNTED[3:]]
    tables.append(Table("wakeups", "What ended sleeps", headings, rows, keys=2))
    rows = [
        [
            *(word(row["comm"]), number(row["wakeups"]), rate_cell(row["wakeups"], per_s)),
            *(number(row["switches"]), number(row["run_ns"] / 1e6, 2)),
            *wrong_cells(row, row["wakeups"]),
        ]
        for row in result["tasks"]
    ]
    headings = ["task", "first", "1/s", "switches", "ran ms", *COUNTED[3:]]
    tables.append(Table("tasks", "Tasks, and how often first after a sleep", headings, rows))
    rows = [
        [
            *(word(row["kind"]), word(row["name"]), number(row["count"])),
            *(
                rate_cell(row["count"], per_s),
                number(share(row["handler_ns"], row["count"], 1e-3), 2),
            ),
        ]
        for row in result["interrupts"]
    ]
    headings = ["interrupt", "", "count", "1/s", "handler µs"]
    tables.append(Table("interrupts", "Interrupts, asleep or awake", headings, rows, keys=2))
    rows = [
        [
            *(word(f"{row['state']} {row['name'] or ''}".rstrip()), number(row["count"])),
            *(number(row[key] / 1e3, 2) for key in ("mean_ns", "p50_ns", "p99_ns", "max_ns")),
        ]
        for row in result["latency"]
    ]
    headings = ["state", "count", "mean µs", "p50 µs", "p99 µs", "max µs"]
    tables.append(Table("latency", "From the event to the cpu_idle exit", headings, rows))
    kernel = f", Linux {trace['kernel_release']}" if trace["kernel_release"] else ""
    facts = [f"{trace['cpu_count']} CPUs, {span_ns / 1e9:.2f} s{kernel}, {result['sleeps']} sleeps"]
    words = {"cpu_idle_miss": "the kernel's own, from cpu_idle_miss", None: "not known"}
    judged = words.get(source, f"by the states of {result['platform']}")
    facts.append(f"above and below: {judged}")
    shown = [table for table in tables if table.rows]
    notes = [f"{loss['count']} x {loss['advice']}" for loss in trace["losses"]]
    return Post(f"{trace['path']}: what the machine did", facts, shown, notes)
