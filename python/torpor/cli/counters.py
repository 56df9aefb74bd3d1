# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor snapshot`, `torpor diff`: the kernel's own counters of idle states."""

from pathlib import Path
from typing import Annotated

import click

from torpor.cli import options
from torpor.cli.console import print_note, write_stdout
from torpor.cli.deliver import check, print_result, write_report
from torpor.cli.exits import EXIT_FINDING
from torpor.cli.options import argument, option
from torpor.machine import counters


def snapshot(
    source: Annotated[
        str | None, argument("DUMP", "Convert this dump; default: this machine's counters.")
    ] = None,
    output: Annotated[Path | None, option("--output -o FILE", "Default: stdout.")] = None,
    root: Annotated[str, option("DIR", "The folder of the machine's CPUs.")] = counters.SYSFS,
) -> None:
    """Save the idle states and their counters, of this machine or from a dump of any form."""
    taken = counters.snapshot(source, root=root)
    if output is None:
        write_stdout(taken.to_json())
    else:
        taken.write(output)
        print_note(f"snapshot: {output}")


def diff(
    dumps: Annotated[
        list[str],
        argument(
            "BEFORE AFTER...",
            "Saved snapshots, or dumps: text of grep, head, cat or cpupower; tar files; "
            "directories. Each one after the first ends an interval. A single one counts from "
            "boot. Or logs of turbostat, each an interval.",
        ),
    ],
    labels: Annotated[
        list[str] | None,
        option(
            "--label NAME",
            "Names of the intervals, in order; intervals with the same name are counted together.",
        ),
    ] = None,
    is_paired: Annotated[
        bool, option("--pairs", "Use each pair of dumps as a separate interval.")
    ] = False,
    by: Annotated[
        str, option("WHAT", "table: one table for CPUs with the same states; or cpu.")
    ] = "table",
    form: options.Form = "text",
    report: options.ReportPath = None,
) -> None:
    """Count what happened between snapshots: usage, time, above, below, for each idle state."""
    check(folder=None, files=(), page=report)
    result = counters.diff(*dumps, labels=labels, by=by, is_paired=is_paired)
    write_report(result, report)
    print_result(result, form)
    if any(note["kind"] == "damage" for i in result["intervals"] for note in i["notes"]):
        raise click.exceptions.Exit(EXIT_FINDING)
