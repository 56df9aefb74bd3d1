# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor replay`: the main job."""

from pathlib import Path
from typing import Annotated, Any

import click

from torpor import replay as run_replay
from torpor.cli import options, progress
from torpor.cli.console import fail, print_note
from torpor.cli.deliver import Parquet, Trace, check, deliver, known_metrics, trace_of
from torpor.cli.options import argument, option
from torpor.run.options import ReplayOptions
from torpor.run.replays import DEFAULT_GOVERNORS

_DECISION_FORMATS = (".parquet", ".arrow")


@options.of(ReplayOptions, after="governors")
def replay(
    traces: Annotated[list[str], argument("TRACE", "Recordings to replay.")],
    platform: Annotated[
        str | None,
        options.machine(
            "Machine: a name, a .toml file, or a dump. Default: the dump that was saved with "
            "the recording, or the machine that it names."
        ),
    ] = None,
    governors: Annotated[list[str] | None, options.governor(DEFAULT_GOVERNORS)] = None,
    metrics: options.Metrics = None,
    form: options.Form = "text",
    parquet: Parquet = None,
    decisions: Annotated[
        Path | None, option("FILE", "Write every decision, as .parquet or .arrow.")
    ] = None,
    trace: Annotated[
        Path | None,
        option(
            "--trace FILE",
            "Write the recording for ui.perfetto.dev, with a track of choices for each "
            "governor and CPU.",
        ),
    ] = None,
    report: options.ReportPath = None,
    **given: Any,
) -> None:
    """Replay recordings against governors on a machine, and compare them."""
    if decisions is not None and decisions.suffix not in _DECISION_FORMATS:
        fail(
            f"`{decisions}`: the file name must end in {' or '.join(_DECISION_FORMATS)}",
            f"try `--decisions {decisions.with_suffix('.parquet')}`",
        )
    shown = known_metrics("replay", metrics)
    check(folder=parquet, files=(decisions, trace), page=report)
    # The page of one recording has its trace, with a track of choices for each governor.
    handed: Trace = (
        trace_of(traces[0], report, len(governors or DEFAULT_GOVERNORS))
        if len(traces) == 1
        else "This page has no trace for Perfetto, because it is of several recordings: replay one "
        "alone, with `--report` or `--trace FILE`."
    )
    is_handed = callable(handed)
    with progress.if_watched() as watching:
        bar = progress.of_several(traces, watching)
        outcome = run_replay(
            traces,
            platform=platform,
            governors=governors or DEFAULT_GOVERNORS,
            decisions=any((decisions, parquet, trace, is_handed)),
            strip=report is not None or form == "json",
            progress=bar,
            **given,
        )
    if decisions is not None:
        outcome.write_table("decisions", decisions)
        print_note(f"decisions: {decisions}")
    if trace is not None:
        outcome.write_trace(trace)
        print_note(f"trace: {trace}")
    if is_handed:
        handed = outcome.write_trace
    raise click.exceptions.Exit(
        deliver(outcome, form=form, parquet=parquet, report=report, handed=handed, metrics=shown)
    )
