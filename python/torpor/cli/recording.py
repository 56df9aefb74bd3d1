# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor trace`: what a recording contains, and what the recorded machine did."""

import json
from pathlib import Path
from typing import Annotated, Any, cast

import click

from torpor.cli import options, progress
from torpor.cli.console import print_note, stdout_width, text_width, wrap, write_post, write_stdout
from torpor.cli.deliver import check, damage_status, trace_of, write_report
from torpor.cli.options import argument, option
from torpor.results import types as results
from torpor.run import recordings
from torpor.view.post import post


def info(
    trace: Annotated[str, argument("TRACE", "A recording.")], form: options.TextOrJson = "text"
) -> None:
    """Report what a recording contains, what it lacks, and what was lost.

    Exit status 1 if it is damaged.
    """
    with progress.if_watched() as bar:
        found = recordings.trace_info(trace, progress=bar)
    if form == "json":
        write_stdout(json.dumps(found, indent=1))
    else:
        write_stdout(_text(found, text_width(stdout_width())))
    raise click.exceptions.Exit(damage_status(found["losses"]))


def convert(
    trace: Annotated[str, argument("TRACE", "A recording.")],
    out: Annotated[
        Path,
        argument(
            "OUT",
            "The file to write: for Perfetto if it ends in .perfetto-trace, else ftrace text.",
        ),
    ],
) -> None:
    """Write a recording in another format, without what Torpor does not use of it."""
    check(folder=None, files=(out,))
    recordings.convert_trace(trace, out)
    print_note(f"trace: {out}")


def stats(
    trace: Annotated[str, argument("TRACE", "A recording.")],
    platform: options.RecordedMachine = None,
    before: options.Before = None,
    after: options.After = None,
    top: Annotated[
        int, option("N", "Number of rows for wake-ups, tasks and interrupts.", least=1)
    ] = 10,
    is_each_cpu: Annotated[
        bool, option("--each-cpu", "Show the states of each CPU, not of each cluster.")
    ] = False,
    report: options.ReportPath = None,
    form: options.Form = "text",
) -> None:
    """Show what the recorded machine did: idle states, what woke it, tasks, interrupts, latency.

    Exit status 1 if the recording is damaged.
    """
    check(folder=None, files=(), page=report)
    with progress.if_watched() as bar:
        found = recordings.trace_stats(
            trace, platform=platform, before=before, after=after, progress=bar
        )
    write_report(found, report, trace_of(trace, report))
    if form == "text":
        from torpor.results.kinds import trace_stats

        counted = cast("results.TraceStats", found)
        shown = trace_stats.post(counted, top=top, is_each_cpu=is_each_cpu)
        write_post(shown._replace(verdict=trace_stats.verdict(counted, None)))
    else:
        write_stdout(post(found, form))
    raise click.exceptions.Exit(damage_status(found["trace"]["losses"]))


def _text(found: recordings.Recorded, width: int) -> str:
    facts = cast("Any", found).facts()
    lines = [found["path"]]
    lines += [wrap(f"  {name:<9} {text}", width, indent=" " * 12) for name, text in facts]
    lines += ["", f"  {'events':<32} {'count':>10}"]
    by_count = sorted(found["event_counts"].items(), key=lambda e: (-e[1], e[0]))
    lines += [f"  {name:<32} {count:>10}" for name, count in by_count]
    lines += ["", f"  {'CPU':>5} {'sleeps':>10} {'from s':>16} {'to s':>16}"]
    lines += [
        f"  {c['cpu']:>5} {c['sleeps']:>10} {_seconds(c['first_ns'])} {_seconds(c['last_ns'])}"
        for c in found["cpus"]
    ]
    lines += ["", *_usage(found)]
    if found["losses"]:
        lines.append("")
    for loss in found["losses"]:
        lines.append(wrap(f"{loss['severity']}: {loss['count']} × {loss['advice']}", width))
    return "\n".join(lines)


def _usage(found: recordings.Recorded) -> list[str]:
    """Return what the recorded machine did: each state on all CPUs, and on each CPU."""
    duration_ns = found["duration_ns"]
    sums: dict[int, tuple[int, int]] = {}
    rows: list[tuple[str, int, int, int, int]] = []
    for cpu in found["cpus"]:
        for state in cpu["states"]:
            index, usage, time_ns = state["index"], state["usage"], state["time_ns"]
            usage_before, time_before_ns = sums.get(index, (0, 0))
            sums[index] = (usage_before + usage, time_before_ns + time_ns)
            rows.append((str(cpu["cpu"]), index, usage, time_ns, 1))
    sleeping = sum(bool(cpu["states"]) for cpu in found["cpus"])
    if sleeping > 1:
        every = sorted(sums.items())
        rows = [
            ("all", index, usage, time_ns, sleeping) for index, (usage, time_ns) in every
        ] + rows
    headings = f"{'sleeps':>10} {'asleep s':>16} {'share %':>8} {'mean µs':>12}"
    lines = [f"  {'CPU':>5} {'state':>5} {headings}"]
    for shown, index, usage, time_ns, cpus in rows:
        share = f"{100 * time_ns / (duration_ns * cpus):.2f}" if duration_ns else "-"
        mean_us = f"{time_ns / usage / 1e3:,.1f}"
        lines.append(
            f"  {shown:>5} {index:>5} {usage:>10} {_seconds(time_ns)} {share:>8} {mean_us:>12}"
        )
    cut = sum(cpu["cut_sleeps"] for cpu in found["cpus"])
    if cut:
        lines.append(f"  {cut} more sleeps are left out, because one end is not recorded")
    return lines


def _seconds(time_ns: int | None) -> str:
    # Integer arithmetic: a double cannot hold the nanoseconds of a long uptime.
    if time_ns is None:
        return f"{'-':>16}"
    sign, ns = ("-" if time_ns < 0 else ""), abs(time_ns)
    return f"{sign}{ns // 10**9}.{ns % 10**9:09d}".rjust(16)
