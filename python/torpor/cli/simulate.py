# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor simulate`: a workload in closed loop."""

from pathlib import Path
from typing import Annotated, Any

import click

from torpor.cli import options, progress
from torpor.cli.console import print_note
from torpor.cli.deliver import Parquet, Trace, check, deliver, known_metrics
from torpor.cli.finished import finished_runs
from torpor.cli.options import argument, option
from torpor.cli.sources import obtain
from torpor.run.options import SimulateOptions, decisive
from torpor.run.simulations import DEFAULT_GOVERNORS, Simulation
from torpor.run.simulations import simulate as run_simulation

#: The most wake-ups of a run whose trace a page contains.
_HANDED_WAKEUPS = 200_000


@options.of(SimulateOptions, after="governors")
def simulate(
    platform: Annotated[str, options.machine("Machine: a name, or a .toml file.")],
    workload: Annotated[
        str | None,
        argument(
            "WORKLOAD",
            "A workload: a name, a .toml file, rt-app's .json, fio's .fio, or a command line "
            "such as 'perf bench sched pipe -l 1000000'.",
        ),
    ] = None,
    fio: Annotated[
        str | None, option("ARGS", "Instead of WORKLOAD: the arguments of a fio command line.")
    ] = None,
    governors: Annotated[list[str] | None, options.governor(DEFAULT_GOVERNORS)] = None,
    metrics: options.Metrics = None,
    form: options.Form = "text",
    parquet: Parquet = None,
    report: options.ReportPath = None,
    store: options.RunsPath = None,
    **given: Any,
) -> None:
    """Simulate a workload on a machine under each governor, and compare them.

    Ctrl-C and SIGTERM end it with the seeds that are finished. Finished runs are not repeated: the
    same command continues from there, also after SIGKILL.
    """
    named = workload if fio is None else f"fio {fio}"
    if named is None or (workload is not None and fio is not None):
        raise click.BadParameter("name a WORKLOAD, or give --fio ARGS")
    trace = Path(given["trace"]) if "trace" in given else None
    shown = known_metrics("simulation", metrics)
    check(folder=parquet, files=(trace,), page=report)
    governors = governors or list(DEFAULT_GOVERNORS)
    obtain(given.get("kernels") or ())
    words = ("simulate", named, platform, governors, decisive(SimulateOptions, given))
    with finished_runs(store, *words) as finished:
        with progress.if_watched() as bar:
            outcome = run_simulation(
                named,
                platform=platform,
                governors=governors,
                strip=report is not None or form == "json",
                store=finished.path,
                progress=bar,
                **given,
            )
        finished.report(outcome)
        if trace is not None and not outcome.interrupted and not outcome.runs[0]["error"]:
            print_note(f"trace: {trace}")
        again = {**given, "platform": platform, "governors": governors[:1]}
        handed = _trace_of(outcome, named, again)
        status = deliver(
            outcome, form=form, parquet=parquet, report=report, handed=handed, metrics=shown
        )
    raise click.exceptions.Exit(status)


def _trace_of(outcome: Simulation, workload: str, given: dict[str, Any]) -> Trace:
    """Return a writer of the first run's trace, or the reason why a page has none."""
    first = outcome.runs[0]["metrics"] if outcome.runs else {}
    if (first.get("wakeups") or float("inf")) > _HANDED_WAKEUPS:
        return (
            "This page has no trace for Perfetto: the first run has more than "
            f"{_HANDED_WAKEUPS:,} wake-ups. Write it with `--trace FILE.perfetto-trace`, or "
            "hand over the page of a shorter `--duration`."
        )
    once = {"seeds": 1, "strip": False}
    return lambda file: run_simulation(workload, **given | once | {"trace": file})
