# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor governor check`: how a governor responds to legal but adversarial calls."""

import json
from pathlib import Path
from typing import Annotated, cast

import click

from torpor import TorporError
from torpor.cli import deliver, options, progress
from torpor.cli.console import fail, print_error, stdout_width, text_width, wrap, write_stdout
from torpor.cli.exits import EXIT_FAILURE, EXIT_FINDING
from torpor.cli.options import argument, option
from torpor.results import types as results
from torpor.results.kinds.check import DEFAULT_HZ, finding_text
from torpor.run import checks


def check(
    governors: Annotated[
        list[str] | None,
        argument("GOVERNOR...", "NAME, PATH.c, FOLDER/, NAME@TREE or NAME@TREE:REV."),
    ] = None,
    seed: Annotated[
        int, option("N", "The first seed of the sequences.", least=0, most=2**64 - 1)
    ] = checks.DEFAULT_SEED,
    decisions: Annotated[
        int, option("N", "The lowest number of decisions.", least=1)
    ] = checks.DEFAULT_DECISIONS,
    hz: Annotated[int, option("N", "Tick rate: 100, 250, 300 or 1000.")] = DEFAULT_HZ,
    form: options.TextOrJson = "text",
    report_path: Annotated[
        Path | None, option("--report FILE", "Write the result as one HTML page.")
    ] = None,
    is_list: Annotated[
        bool, option("--list", "Print what counts as a violation, and check nothing.")
    ] = False,
) -> None:
    """Drive governors with random and adversarial legal calls, and shrink each violation.

    Compiles each with AddressSanitizer and UndefinedBehaviorSanitizer; requires a C compiler.
    Exit status: 0 clean; 1 findings; 2 a governor could not be checked.
    """
    width = text_width(stdout_width())
    if is_list:
        kinds = checks.check_kinds()
        write_stdout(json.dumps(kinds, indent=1) if form == "json" else _kinds_text(kinds, width))
        return
    if not governors:
        fail(
            "no governor to check",
            "name one: `torpor governor check menu`; `--list` lists the checks",
        )
    deliver.check(folder=None, files=(), page=report_path)
    reports, has_failed = [], False
    for governor in governors:
        try:
            with progress.if_watched() as bar:
                bar_of_one = _Progress(bar, governor, decisions)
                report = checks.check(
                    governor, seed=seed, decisions=decisions, hz=hz, progress=bar_of_one
                )
        except TorporError as error:
            # The others are checked all the same.
            print_error(str(error))
            has_failed = True
            continue
        reports.append(report)
        if form != "json":
            write_stdout(_text(cast("results.Check", report), width))
    if reports:
        deliver.write_report(reports, report_path)
    if form == "json":
        write_stdout(json.dumps(reports, indent=1))
    if has_failed:
        raise click.exceptions.Exit(EXIT_FAILURE)
    if any(report["findings"] for report in reports):
        raise click.exceptions.Exit(EXIT_FINDING)


class _Progress:
    """Passes decisions on to a bar."""

    def __init__(self, bar: progress.Bar, governor: str, total: int) -> None:
        self._bar, self._governor, self._total = bar, governor, total

    def __call__(self, made: int) -> None:
        self._bar(self._governor, min(made, self._total), self._total)


def _kinds_text(kinds: "list[checks.CheckKind]", width: int) -> str:
    lines = []
    for kind in kinds:
        lines.append(f"{kind['name']}: {kind['title']}")
        lines += [wrap(f"  {kind['definition']}", width), ""]
    return "\n".join(lines[:-1])


def _text(report: "results.Check", width: int) -> str:
    count = len(report["findings"])
    verdict = {0: "no breach", 1: "1 breach"}.get(count, f"{count} breaches")
    made = f"{report['decisions']:,} decisions, {report['sequences']:,} sequences"
    lines = [f"{report['governor']}: {verdict} in {made} (seed {report['seed']})"]
    if timing := report["timing"]:
        lines.append(
            f"  time per decision: median {timing['p50_ns']} ns, p99 {timing['p99_ns']} ns, "
            f"worst {timing['worst_ns']} ns"
        )
    if report["percpu_bytes"] is not None:
        lines.append(f"  memory per CPU: {report['percpu_bytes']:,} bytes")
    if report["ended_early"]:
        lines.append(f"  ended early: {report['ended_early']}")
    for finding in report["findings"]:
        lines += ["", finding_text(finding, report, width)]
    return "\n".join(lines) + "\n"
