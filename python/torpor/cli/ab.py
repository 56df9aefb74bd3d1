# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor ab`: governors in turn on this machine, under a command."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from torpor.cli import kernel, options
from torpor.cli.console import fail, note_if_never_idle, print_note
from torpor.cli.deliver import check, check_new, print_result, write_report
from torpor.cli.exits import leave_if
from torpor.cli.options import argument, like
from torpor.machine import running
from torpor.machine.kernel import ab as comparing
from torpor.machine.kernel import governors as kernel_governors
from torpor.machine.kernel import journal
from torpor.machine.kernel.build import Builder

if TYPE_CHECKING:
    from torpor.results.kinds import ab as shapes


def ab(
    command: Annotated[list[str], argument("-- COMMAND...", "What runs under each governor.")],
    governors: Annotated[list[str], like(running.ab, "governors", "--governor -g GOV")],
    rounds: Annotated[int, like(running.ab, "rounds", "N", least=1)] = 10,
    metric: Annotated[str | None, like(running.ab, "metric", "REGEX")] = None,
    seed: Annotated[int | None, like(running.ab, "seed", "N")] = None,
    warm_up: Annotated[int, like(running.ab, "warm_up", "--warm-up N", least=0)] = 1,
    modules: Annotated[Path | None, like(running.ab, "modules", "DIR")] = None,
    output: Annotated[Path | None, like(running.ab, "output", "--output -o FILE")] = None,
    form: options.Form = "text",
    report: options.ReportPath = None,
    is_dry_run: options.DryRun = False,
    force: options.Force = False,
) -> None:
    """Compare governors on this machine: run COMMAND under each, in turn, round by round.

    Loads the modules it needs, reads counters, RAPL and the command's own figure, and restores
    governor and modules. Prints means, and differences with 95 % intervals. Requires root.

    Exit status: 2 if nothing was compared; ended by a signal, 128 and its number.
    """
    if output is not None:
        check_new(output, force=force)
    check(folder=None, files=(), page=report)
    plan = comparing.Plan(
        governors, command, rounds, _pattern(metric), seed, warm_up, None if is_dry_run else output
    )
    system = kernel.make_system(is_dry_run=is_dry_run)
    _offer_to_restore(system)
    if not is_dry_run:
        note_if_never_idle(system.machine, needs_driver=True)
    made = comparing.compare(plan, system, Builder(system, out=modules), _tell)
    if not is_dry_run:
        _print(made, form, report)
    if system.unrestored:
        fail(f"not restored: {', '.join(system.unrestored)}")
    leave_if(made.stopped_by)


def _offer_to_restore(system: Any) -> None:
    """Offer to undo a comparison that was killed; without a terminal, the error says how."""
    left = journal.read(system)
    if left is None or not (system.is_root and _can_ask()):
        return
    print_note(f"`{left.command}` (process {left.pid}) was killed: {left.described()}")
    if click.confirm("Restore that first?", default=True, err=True):
        with journal.locked(system, "torpor ab"):
            kernel_governors.restore(system)


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _print(made: comparing.Comparison, form: str, report: Path | None) -> None:
    result = comparing.result(made)
    finished = result["finished_rounds"]
    if finished:
        write_report(result, report)
    if finished or form == "json":
        print_result(result, form)
    else:
        print_note("no round was finished, so there is nothing to compare")


def _pattern(text: str | None) -> "re.Pattern[str] | None":
    if text is None:
        return None
    try:
        pattern = re.compile(text, re.M)
    except re.error as error:
        raise click.BadParameter(f"`{text}` is no regular expression: {error}") from None
    if pattern.groups != 1:
        raise click.BadParameter(
            f"`{text}` has {pattern.groups} groups: expected one, such as `([0-9.]+) ms`"
        )
    return pattern


def _tell(run: "shapes.AbRun") -> None:
    figure = "" if run["figure"] is None else f", figure {run['figure']:g}"
    seconds = run["duration_ns"] / 1e9
    print_note(f"round {run['round']}, {run['governor']}: {seconds:.2f} s{figure}")
