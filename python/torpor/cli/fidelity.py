# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor fidelity`: can the replay be trusted?"""

from typing import Annotated, Any

import click

from torpor.cli import options, progress
from torpor.cli.deliver import check, print_result, trace_of, write_report
from torpor.cli.exits import EXIT_FINDING
from torpor.cli.options import argument, option
from torpor.results.kinds import unverified
from torpor.run import verification
from torpor.run.options import FidelityOptions


@options.of(FidelityOptions, after="after")
def fidelity(
    trace: Annotated[str, argument("TRACE", "Recording to verify.")],
    platform: options.RecordedMachine = None,
    governors: Annotated[
        list[str] | None,
        option(
            "--governor -g G",
            "NAME, PATH.c, FOLDER/, NAME@TREE or NAME@TREE:REV, in addition to all "
            "built-in ones but tide; can be repeated.",
        ),
    ] = None,
    before: options.Before = None,
    after: options.After = None,
    at_least: Annotated[
        float | None,
        option(
            "PCT", "Exit with status 1 if no governor reaches this agreement.", least=0, most=100
        ),
    ] = None,
    form: options.Form = "text",
    report: options.ReportPath = None,
    **given: Any,
) -> None:
    """Verify a recording: ask governors the questions of the recorded governor, and compare.

    Exit status 1 if no governor explains the decisions: the machine may not be the recorded one.
    A recording without timers or task switches cannot be asked: of such a one, hold what its sleeps
    came to against the kernel's cpu_idle_miss and the counters.
    """
    check(folder=None, files=(), page=report)
    with progress.if_watched() as bar:
        result = verification.fidelity(
            trace,
            platform=platform,
            governors=governors or (),
            before=before,
            after=after,
            progress=bar,
            **given,
        )
    write_report(result, report, trace_of(trace, report))
    print_result(result, form)
    if result["kind"] == "outcomes":
        raise click.exceptions.Exit(0 if at_least is None else EXIT_FINDING)
    is_low = at_least is not None and 100 * result["verdict"]["agreement"] < at_least
    raise click.exceptions.Exit(EXIT_FINDING if is_low or unverified(result) else 0)
