# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor workload extract`: a recording as a workload."""

import json
from pathlib import Path
from typing import Annotated

import click

from torpor.cli import options
from torpor.cli.console import fail, print_note, table_text, write_stdout
from torpor.cli.deliver import write_toml
from torpor.cli.exits import EXIT_FINDING
from torpor.cli.options import argument, option
from torpor.machine import catalog as library
from torpor.results.table import Table, word

# Tolerances of a simulation on the recorded machine.
_CPU_SHARE = 0.02
_WAKEUP_SHARE = 0.05


def extract(
    trace: Annotated[Path, argument("TRACE", "A recording, of any format.")],
    output: Annotated[Path | None, option("--output -o FILE", "Default: stdout.")] = None,
    platform: Annotated[
        str | None,
        options.machine(
            "Recorded machine: a name, or a .toml file. Without it, all CPUs are assumed to "
            "be equal."
        ),
    ] = None,
    background: Annotated[
        list[str] | None,
        option(
            "--background NAME",
            "Only the tasks of this name, such as 'kworker*', repeated without end: a "
            "background for other simulations.",
        ),
    ] = None,
    is_check: Annotated[
        bool, option("--check", "Write nothing; simulate it on that machine and compare.")
    ] = False,
    governor: Annotated[str, option("--governor -g G", "Governor for --check.")] = "menu",
    form: options.TextOrJson = "text",
) -> None:
    """Extract a workload from a recording: how much each task worked, and what woke it.

    With --check, the exit status is 1 if a task's CPU time is more than 2 % off, or its wake-ups
    more than 5 %.
    """
    if is_check:
        if platform is None:
            fail("--check requires the recorded machine", hint="--platform pixel6")
        check = library.check_extraction(trace, platform=platform, governor=governor)
        off = [task for task in check["tasks"] if not _is_near(task)]
        write_stdout(json.dumps(check) if form == "json" else _check_text(check, off))
        raise click.exceptions.Exit(EXIT_FINDING if off else 0)
    name = "recording" if output is None else output.stem
    toml, summary = library.extract_workload(
        trace, platform=platform, name=name, background=background or None
    )
    seconds = summary["duration_ns"] / 1e9
    write_toml("workload", toml, output, f", {summary['tasks']} tasks, --duration {seconds:.3f}s")
    print_note(
        f"waits ended by tasks: {summary['woken_by_tasks']}, by timers: "
        f"{summary['woken_by_timers']} ({summary['timers_guessed']} of them guessed), "
        f"by interrupts: {summary['woken_by_interrupts']}, unseen: {summary['wakings_unseen']}"
    )
    sections = summary["sections"]
    if len(sections) > 1:
        parts = [
            f"from {part['begin_ns'] / 1e9:.2f} s {part['busy_cpus']:.2f} CPUs busy and "
            f"{part['switches_per_s']:,.0f} switches/s"
            for part in sections
        ]
        print_note(f"{len(sections)} sections, by their load: {'; '.join(parts)}")
    activity = summary["activity"]
    if activity is not None:
        print_note(
            f"activity: {100 * activity['share']:.0f} % of the variance of sleep lengths (as "
            f"logarithms) is common for {activity['mean_ns'] / 1e6:.0f} ms: sd {activity['sd']:.2f}"
        )


def _is_near(task: "library.ExtractedTask") -> bool:
    cpu, wakeups = task["recorded_cpu_ns"], task["recorded_wakeups"]
    return bool(
        abs(task["simulated_cpu_ns"] - cpu) <= _CPU_SHARE * cpu
        and abs(task["simulated_wakeups"] - wakeups) <= _WAKEUP_SHARE * wakeups
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _check_text(check: "library.ExtractionCheck", off: "list[library.ExtractedTask]") -> str:
    tasks, idle = check["tasks"], check["idle"]
    recorded_ms = sum(task["recorded_cpu_ns"] for task in tasks) / 1e6
    simulated_ms = sum(task["simulated_cpu_ns"] for task in tasks) / 1e6
    recorded = sum(task["recorded_wakeups"] for task in tasks)
    simulated = sum(task["simulated_wakeups"] for task in tasks)
    lines = [
        f"tasks: {len(tasks) - len(off)} of {len(tasks)} within 2 % of the CPU time and 5 % of the "
        "wake-ups",
        f"CPU time at full capacity: {recorded_ms:.1f} ms recorded, "
        f"{simulated_ms:.1f} ms simulated",
        f"wake-ups: {recorded} recorded, {simulated} simulated",
        f"idle lengths: {idle['recorded']} recorded, {idle['simulated']} simulated; Kolmogorov-"
        f"Smirnov {idle['ks']:.3f}, {idle['decades']:.2f} decades on average",
    ]
    headings = ["Autocorrelation, by the time between two sleeps"]
    for title in ("recorded", "simulated"):
        headings += [f"{what}, {title}" for what in ("sleep length", "timer distance")]
    rows = []
    both = (check["recorded_autocorrelation"], check["simulated_autocorrelation"])
    for pair in zip(*(one["lags"] for one in both), strict=True):
        ms = [pair[0][key] // 1_000_000 for key in ("from_ns", "to_ns")]
        found = [_share(lag[key]) for lag in pair for key in ("sleep_length", "timer_distance")]
        rows.append([word(text) for text in (f"{ms[0]} to {ms[1]} ms", *found)])
    lines += ["", table_text(Table("", "", headings, rows)).rstrip("\n")]
    for task in off:
        lines.append(
            f"  {task['name']}: {task['recorded_cpu_ns'] / 1e3:.1f} us, now "
            f"{task['simulated_cpu_ns'] / 1e3:.1f}; {task['recorded_wakeups']} wake-ups, now "
            f"{task['simulated_wakeups']}"
        )
    return "\n".join(lines) + "\n"
