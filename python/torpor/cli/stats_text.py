# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Statistics of a recorded machine, on a terminal: a table a question, the most frequent first."""

from collections import defaultdict
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from torpor.cli.console import render, text_width, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.results import types as results

_UNKNOWN = "–"
_SOURCES = {
    "cpu_idle_miss": "above and below: the kernel's own, from cpu_idle_miss",
    "platform": "above and below: by the states of {platform}, from the recorded lengths",
    None: "above and below are not known: the recording has no cpu_idle_miss; "
    "name the machine with --platform",
}


def stats_text(stats: "results.TraceStats", top: int, is_each_cpu: bool, width: int) -> str:
    """Return the tables; ``top`` rows of those that may be long."""
    trace = stats["trace"]
    seconds = trace["duration_ns"] / 1e9
    count = trace["cpu_count"]
    asleep = len({state["cpu"] for state in stats["states"]})
    share = f" ({asleep} of them asleep at times)" if 0 < asleep < count else ""
    facts = [f"{count} CPUs{share}", f"{seconds:.2f} s"]
    facts += [f"Linux {trace['kernel_release']}"] if trace["kernel_release"] else []
    cut = f"; {stats['cut_sleeps']} cut by an edge are left out" if stats["cut_sleeps"] else ""
    source = _SOURCES[stats["verdict_source"]].format(platform=stats["platform"])
    per_s = 1 / seconds if seconds else 0.0
    tables = [
        _states(stats, is_each_cpu),
        _wakeups(stats, top, per_s),
        _tasks(stats, top, per_s),
        _interrupts(stats, top, per_s),
        _latency(stats),
    ]
    lines = [
        wrap(f"{trace['path']}: {', '.join(facts)}", width),
        wrap(f"{stats['sleeps']} sleeps{cut}; {source}", text_width(width)),
        _tick(stats),
    ]
    if (verdicts := stats["verdicts"]) is not None:
        lines.append(
            f"by its rule on the recorded lengths the kernel judged {verdicts['agreeing']} of "
            f"{verdicts['compared']} sleeps as it did"
        )
    if not stats["sleeps"]:
        count = trace["event_counts"].get("cpu_idle", 0)
        lines.append(
            f"no sleeps: the recording has {count} cpu_idle events; record `power:cpu_idle` "
            "(torpor record --print perf)"
        )
    shown = [table for table in tables if table is not None and table.row_count]
    body = "\n".join(render(table, width=width) for table in shown)
    return "\n".join(lines) + "\n\n" + body


def _tick(stats: "results.TraceStats") -> str:
    tick = stats["tick"]
    facts = []
    if tick["wakeups"] is not None:
        facts.append(f"alone ended {tick['wakeups']} sleeps")
    if tick["stopped"] is not None:
        facts.append(f"was stopped {tick['stopped']} times, kept {tick['refused']} times")
    if not facts:
        return "the tick is not known: the recording has neither hrtimers nor tick_stop"
    return f"the tick {' and '.join(facts)}"


def _states(stats: "results.TraceStats", is_each_cpu: bool) -> Table:
    """Each cluster's states, or each CPU's; without a platform all CPUs are one cluster."""
    duration_ns = stats["trace"]["duration_ns"]
    groups: dict[str, dict[int, list[results.StateStats]]] = defaultdict(lambda: defaultdict(list))
    cpus: dict[str, set[int]] = defaultdict(set)
    for row in stats["states"]:
        group = f"CPU {row['cpu']}" if is_each_cpu else row["cluster"] or "all"
        groups[group][row["state"]].append(row)
        cpus[group].add(row["cpu"])
    table = _table("CPU" if is_each_cpu else "cluster", "state")
    is_refusal_known = any(row["rejected"] is not None for row in stats["states"])
    _counted(table, ("usage", "time s", "time %", "mean µs"), stats)
    if is_refusal_known:
        table.add_column("rejected", justify="right")
    for group, states in groups.items():
        for state, rows in sorted(states.items()):
            usage, time_ns = (sum(row[key] for row in rows) for key in ("usage", "time_ns"))
            whole_ns = duration_ns * len(cpus[group])
            above, below, rejected = (
                _sum([row[key] for row in rows]) for key in ("above", "below", "rejected")
            )
            refusals = [_UNKNOWN if rejected is None else str(rejected)]
            table.add_row(
                group,
                f"{state} {rows[0]['name'] or ''}".rstrip(),
                str(usage),
                f"{time_ns / 1e9:.3f}",
                f"{100 * time_ns / whole_ns:.2f}" if whole_ns else _UNKNOWN,
                f"{time_ns / usage / 1e3:.1f}" if usage else _UNKNOWN,
                *_wrong(above, below, usage),
                *(refusals if is_refusal_known else []),
            )
    return table


def _wakeups(stats: "results.TraceStats", top: int, per_s: float) -> Table:
    table = _table("woken by", "")
    _counted(table, ("wake-ups", "1/s", "%", "mean sleep µs"), stats)
    rows = stats["wakeups"]
    for row in rows[:top]:
        table.add_row(
            row["kind"],
            row["name"],
            str(row["count"]),
            f"{row['count'] * per_s:.1f}",
            f"{100 * row['count'] / stats['sleeps']:.1f}",
            f"{row['slept_ns'] / row['count'] / 1e3:.1f}",
            *_wrong(row["above"], row["below"], row["count"]),
        )
    return _with_rest(table, rows, top)


def _tasks(stats: "results.TraceStats", top: int, per_s: float) -> Table:
    table = _table("task")
    _counted(table, ("first after a sleep", "1/s", "switches", "ran ms"), stats)
    rows = stats["tasks"]
    for row in rows[:top]:
        table.add_row(
            row["comm"],
            str(row["wakeups"]),
            f"{row['wakeups'] * per_s:.1f}",
            str(row["switches"]),
            f"{row['run_ns'] / 1e6:.2f}",
            *_wrong(row["above"], row["below"], row["wakeups"]),
        )
    return _with_rest(table, rows, top)


def _interrupts(stats: "results.TraceStats", top: int, per_s: float) -> Table:
    table = _table("interrupt", "")
    _counted(table, ("count", "1/s", "handler mean µs"))
    rows = stats["interrupts"]
    for row in rows[:top]:
        handler_ns = row["handler_ns"]
        mean = _UNKNOWN if handler_ns is None else f"{handler_ns / row['count'] / 1e3:.2f}"
        table.add_row(
            row["kind"], row["name"], str(row["count"]), f"{row['count'] * per_s:.1f}", mean
        )
    return _with_rest(table, rows, top)


def _latency(stats: "results.TraceStats") -> Table:
    table = _table("from the event to the cpu_idle exit")
    _counted(table, ("wake-ups", "mean µs", "p50 µs", "p99 µs", "max µs"))
    for row in stats["latency"]:
        times = (row[key] for key in ("mean_ns", "p50_ns", "p99_ns", "max_ns"))
        table.add_row(
            f"state {row['state']} {row['name'] or ''}".rstrip(),
            str(row["count"]),
            *(f"{ns / 1e3:.2f}" for ns in times),
        )
    return table


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _counted(
    table: Table, headings: "Sequence[str]", judged: "results.TraceStats | None" = None
) -> None:
    """Add columns of numbers, and those of wrong-depth sleeps if something tells of them."""
    is_judged = judged is not None and judged["verdict_source"] is not None
    for heading in (*headings, *(("above", "%", "below", "%") if is_judged else ())):
        table.add_column(heading, justify="right")


def _wrong(above: int | None, below: int | None, of: int) -> list[str]:
    """Return the cells of above and below with their shares; none where they are not known."""
    known = [count for count in (above, below) if count is not None]
    pairs = ((str(count), f"{100 * count / of:.1f}" if of else _UNKNOWN) for count in known)
    return [cell for pair in pairs for cell in pair]


def _with_rest(table: Table, rows: "Sequence[object]", top: int) -> Table:
    """Say how many rows are not shown."""
    if len(rows) > top:
        table.add_row(f"and {len(rows) - top} more (--top)")
    return table


def _sum(counts: "Sequence[int | None]") -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
