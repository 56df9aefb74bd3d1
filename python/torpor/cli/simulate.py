# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor simulate`: a workload in closed loop."""

from pathlib import Path
from typing import Annotated, Any

import typer

from torpor import ioboosts
from torpor import simulate as run_simulation
from torpor.cli import EXIT_FAILURE, EXIT_FINDING, journaled, options, progress, values
from torpor.cli.console import fail, print_note, stdout_width, write_stdout
from torpor.simulations import DEFAULT_GOVERNORS


def simulate(
    platform: Annotated[
        str, typer.Option("--platform", "-p", metavar="P", help="Machine: a name, or a .toml file.")
    ],
    workload: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKLOAD",
            help="A workload: a name, a .toml file, rt-app's .json, fio's .fio, or a command line "
            "such as 'perf bench sched pipe -l 1000000'.",
            show_default=False,
        ),
    ] = None,
    fio: Annotated[
        str | None,
        typer.Option(
            metavar="ARGS",
            help="In place of WORKLOAD: what stands behind `fio` on its command line.",
        ),
    ] = None,
    governors: Annotated[list[str] | None, options.governor(DEFAULT_GOVERNORS)] = None,
    duration: Annotated[
        str, typer.Option(metavar="TIME", help="Simulated time a run, such as 10s.")
    ] = "10s",
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, help="Runs a governor; all meet the same seeds.")
    ] = 10,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The first seed.")] = 1,
    latency_limit: options.LatencyLimit = None,
    hz: options.Hz = None,
    cpufreq: Annotated[
        list[str] | None,
        typer.Option(
            metavar="P",
            help="Frequency policy: performance, powersave, userspace,freq_khz=N or "
            "schedutil[@6.1|@6.12][,rate_limit_us=N]; repeat it. Each governor runs under each of "
            "them. Default: the machine's.",
        ),
    ] = None,
    io_boost: Annotated[
        list[str] | None,
        typer.Option(
            metavar="B",
            help=f"IO boost: {', '.join(boost['name'] for boost in ioboosts())} or PATH.c, each "
            "with ,param=value; repeat it. Each governor runs with each of them. Default: iowait "
            "under schedutil, as in the kernel.",
        ),
    ] = None,
    disable_state: options.DisableState = None,
    enable_state: options.EnableState = None,
    threads: options.Threads = None,
    isolate: options.Isolate = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the first governor's first run as a recording: .perfetto-trace, else "
            "ftrace text.",
        ),
    ] = None,
    is_json: options.WholeAsJson = False,
    is_csv: Annotated[bool, typer.Option("--csv", help="Print a line a governor.")] = False,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write every table as Parquet, and the result."),
    ] = None,
    report: options.ReportPath = None,
    journal: options.JournalPath = None,
) -> None:
    """Simulate a workload on a machine under each governor, and compare them.

    Ctrl-C and SIGTERM end it with the seeds that are finished. Those need not be run again: the
    same command goes on from its journal, also after SIGKILL.
    """
    if is_json and is_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    named = workload if fio is None else f"fio {fio}"
    if named is None or (workload is not None and fio is not None):
        raise typer.BadParameter("name a WORKLOAD, or give --fio ARGS")
    limit_ns = values.duration_ns(latency_limit)
    duration_ns = values.duration_ns(duration)
    for path in (trace, report):
        if path is not None and not path.parent.is_dir():
            fail(f"`{path}`: there is no folder `{path.parent}`")
    request: dict[str, Any] = {
        "platform": platform,
        "governors": governors or DEFAULT_GOVERNORS,
        "duration": f"{duration_ns}ns",
        "seeds": seeds,
        "seed": seed,
        "latency_limit": None if limit_ns is None else f"{limit_ns}ns",
        "hz": hz,
        "cpufreq": cpufreq or (),
        "io_boosts": io_boost or (),
        "disabled_states": [values.disabled_state(text) for text in disable_state or ()],
        "enabled_states": enable_state or (),
    }
    with journaled.journal(journal, report or trace, "simulate", named, request) as kept:
        bar = progress.if_watched()
        try:
            outcome = run_simulation(
                named,
                **request,
                threads=threads,
                isolate=isolate,
                trace=trace,
                strip=report is not None or is_json,
                journal=kept.path,
                progress=bar,
            )
        finally:
            if bar is not None:
                bar.stop()
        kept.tell(outcome)
        if trace is not None and not outcome.interrupted:
            print_note(f"trace: {trace}")
        if parquet is not None:
            outcome.write_tables(parquet)
            print_note(f"tables: {parquet}")
        if report is not None:
            outcome.write_report(report)
            print_note(f"report: {report}")
        result = outcome.to_dict()
        if is_json:
            write_stdout(outcome.to_json())
        elif is_csv:
            write_stdout(outcome.to_csv())
        else:
            from torpor.cli.table import comparison_text, tasks_text

            width = stdout_width()
            write_stdout(comparison_text(result, width) + tasks_text(result, width))
        if not outcome.interrupted:
            kept.done()
    raise typer.Exit(_status(result))


def _status(result: dict[str, Any]) -> int:
    runs = result["runs"]
    if runs and all(run["error"] for run in runs):
        return EXIT_FAILURE
    is_partial = result["interrupted"] or any(run["error"] for run in runs)
    return EXIT_FINDING if is_partial else 0
