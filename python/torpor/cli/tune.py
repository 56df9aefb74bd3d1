# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor governor tune`: searches a governor's parameters."""

from pathlib import Path
from typing import Annotated, Any

from torpor.ask import tuning
from torpor.cli import options, progress, sweeping
from torpor.cli.console import write_post
from torpor.cli.deliver import check, write_page
from torpor.cli.options import argument, option
from torpor.run.sweeps.axes import Axes


@sweeping.many("governor", "param")
def tune(
    governor: Annotated[
        str, argument("GOVERNOR", "NAME, PATH.c, FOLDER/, NAME@TREE or NAME@TREE:REV.")
    ],
    params: Annotated[
        list[str],
        option(
            "--param NAME=VALUES",
            "A parameter and what to try: A..B, log:A..B, or X|Y; also a number of all "
            "platforms or workloads: platform.ipi_delivery_us=0.5..5. Repeat it for several.",
        ),
    ],
    objectives: Annotated[
        list[str] | None,
        option(
            "--objective KEY[=TARGET][@AXIS=PATTERN]",
            "A metric to improve, or a target value for it, optionally in some scenarios only: "
            "throughput=11233@cpufreq=performance. Repeat it for several. Default: "
            f"{' and '.join(tuning.OBJECTIVES)}.",
        ),
    ] = None,
    held_traces: Annotated[
        list[str] | None, option("--holdout FILE", "Recordings that judge the front alone.")
    ] = None,
    held_workloads: Annotated[
        list[str] | None,
        option("--holdout-workload WORKLOAD", "Workloads that judge the front alone."),
    ] = None,
    trials: Annotated[int, option("N", "Settings to try.", least=1)] = 100,
    seed: Annotated[int, option("N", "Of the search.", least=0)] = 0,
    store: sweeping.StorePath = Path("sweep"),
    form: options.Form = "text",
    report: options.ReportPath = None,
    *,
    typed: dict[str, Any],
    how: dict[str, Any],
) -> None:
    """Search for settings that no other beats in all objectives, and judge them on held-out data.

    Needs Optuna: pip install 'torpor[tune]'. Every run is kept in the store: the same command goes
    on where it was, and more --trials go on from fewer.
    """
    check(folder=None, files=(), page=report)
    wanted = [tuning.read_param(text) for text in params]
    train = sweeping.filled(Axes(), typed)
    sweeping.obtain_kernels(train)
    held = None
    if held_traces or held_workloads:
        held = sweeping.filled(Axes(), typed | {"trace": None, "workload": None})
        held = sweeping.filled(held, {"trace": held_traces, "workload": held_workloads})
    with progress.if_watched() as bar:
        found = tuning.tune(
            governor,
            wanted,
            train,
            store,
            objectives=objectives or tuning.OBJECTIVES,
            holdout=held,
            trials=trials,
            seed=seed,
            **how,
            tell=lambda done, total: bar("settings", done, total),
        )
    shown = tuning.tuned_post(found)
    if report is not None:
        write_page(shown, report, tuning.tuned_sentences(found))
    write_post(shown, form)
