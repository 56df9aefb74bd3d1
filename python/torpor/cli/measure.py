# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor platform measure`: wake-up latencies and refills of idle states, from recordings."""

from typing import Annotated, cast

import click

from torpor.cli import options, progress
from torpor.cli.console import write_stdout
from torpor.cli.deliver import check, damage_status, print_result, trace_of, write_report
from torpor.cli.options import argument
from torpor.results import types as results
from torpor.results.kinds import latency
from torpor.run import recordings


def measure(
    traces: Annotated[list[str], argument("RECORDING...", "Recordings of one machine.")],
    platform: options.RecordedMachine = None,
    report: options.ReportPath = None,
    form: options.Form = "text",
) -> None:
    """Measure how long CPUs take to leave idle states: from a wake-up's cause to the exit.

    By state, and by what shows the time of the cause: the expiry of a timer, an IPI, a waking. If
    the machine is known, also how much longer tasks work after a deep state (its refill_us). The
    last lines can be pasted into the machine's TOML.

    Exit status 1 if a recording is damaged.
    """
    check(folder=None, files=(), page=report)
    with progress.if_watched() as bar:
        found = recordings.measure_latency(*traces, platform=platform, progress=bar)
    write_report(found, report, trace_of(traces[0], report) if len(traces) == 1 else None)
    print_result(found, form)
    if form == "text" and found["lines"]:
        write_stdout(f"\n{latency.toml(cast('results.Measurement', found))}")
    raise click.exceptions.Exit(
        damage_status(loss for trace in found["recordings"] for loss in trace["losses"])
    )
