# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor replay`: the main job."""

from pathlib import Path
from typing import Annotated, Any

import typer

from torpor import replay as run_replay
from torpor.cli import EXIT_FAILURE, EXIT_FINDING, options, progress, values
from torpor.cli.console import fail, print_note, stdout_width, write_stdout
from torpor.replays import DEFAULT_GOVERNORS

_DECISION_FORMATS = (".parquet", ".arrow")


def replay(
    traces: Annotated[list[str], typer.Argument(metavar="TRACE", help="Recordings to replay.")],
    platform: Annotated[
        str,
        typer.Option(
            "--platform", "-p", metavar="P", help="Machine: a name, a .toml file, or a dump."
        ),
    ],
    governors: Annotated[list[str] | None, options.governor(DEFAULT_GOVERNORS)] = None,
    latency_limit: options.LatencyLimit = None,
    hz: options.Hz = None,
    disable_state: options.DisableState = None,
    enable_state: options.EnableState = None,
    recorded_on: Annotated[
        str | None,
        typer.Option(
            metavar="P",
            help="Machine of the recording, if known: its exit latencies place the wake-ups.",
        ),
    ] = None,
    cpus: Annotated[
        str | None,
        typer.Option("--cpu", "-C", metavar="LIST", help="Recorded CPUs to replay: 0-3,7."),
    ] = None,
    cpu_map: Annotated[
        str | None,
        typer.Option(
            metavar="A:B,...",
            help="Recorded CPU A runs as CPU B of the machine; several may share one.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Leave out what comes sooner: 1500ms."),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="Leave out what comes later: 3s."),
    ] = None,
    threads: options.Threads = None,
    isolate: options.Isolate = None,
    is_json: options.WholeAsJson = False,
    is_csv: Annotated[
        bool, typer.Option("--csv", help="Print a line a trace and governor.")
    ] = False,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write every table as Parquet, and the result."),
    ] = None,
    decisions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every decision, as .parquet or .arrow."),
    ] = None,
    report: options.ReportPath = None,
) -> None:
    """Replay recordings against governors on a machine, and compare them."""
    if is_json and is_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    if decisions is not None and decisions.suffix not in _DECISION_FORMATS:
        fail(
            f"`{decisions}`: decisions are written as {' or '.join(_DECISION_FORMATS)}",
            f"try `--decisions {decisions.with_suffix('.parquet')}`",
        )
    limit_ns = values.duration_ns(latency_limit)
    # A path that cannot be written is told before the work, not after it.
    if parquet is not None:
        parquet.mkdir(parents=True, exist_ok=True)
    for path in (decisions, report):
        if path is not None and not path.parent.is_dir():
            fail(f"`{path}`: there is no folder `{path.parent}`")
    bar = progress.if_watched()
    try:
        outcome = run_replay(
            traces,
            platform=platform,
            governors=governors or DEFAULT_GOVERNORS,
            latency_limit=None if limit_ns is None else f"{limit_ns}ns",
            hz=hz,
            disabled_states=[values.disabled_state(text) for text in disable_state or ()],
            enabled_states=enable_state or (),
            recorded_on=recorded_on,
            cpus=values.cpu_list(cpus),
            cpu_map=values.cpu_map(cpu_map),
            start=values.duration(start),
            end=values.duration(end),
            threads=threads,
            isolate=isolate,
            decisions=decisions is not None or parquet is not None,
            strip=report is not None or is_json,
            progress=bar,
        )
    finally:
        if bar is not None:
            bar.stop()
    if parquet is not None:
        outcome.write_tables(parquet)
        print_note(f"tables: {parquet}")
    if decisions is not None:
        outcome.write_table("decisions", decisions)
        print_note(f"decisions: {decisions}")
    if report is not None:
        outcome.write_report(report)
        print_note(f"report: {report}")
    result = outcome.to_dict()
    if is_json:
        write_stdout(outcome.to_json())
    elif is_csv:
        write_stdout(outcome.to_csv())
    else:
        from torpor.cli.table import comparison_text

        write_stdout(comparison_text(result, stdout_width()))
    raise typer.Exit(_status(result))


def _status(result: dict[str, Any]) -> int:
    runs = [run for trace in result["traces"] for run in trace["runs"]]
    if runs and all(run["error"] for run in runs):
        return EXIT_FAILURE
    is_damaged = any(
        loss["severity"] == "damage"
        for trace in result["traces"]
        for loss in trace["trace"]["losses"]
    )
    return EXIT_FINDING if is_damaged or any(run["error"] for run in runs) else 0
