# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor ladder`, `torpor bisect`: a governor's history."""

from pathlib import Path
from typing import Annotated

import typer

from torpor.cli import EXIT_FINDING, options, progress, sweeping
from torpor.cli.console import print_note, write_stdout
from torpor.sweeps.axes import Axes

_Spec = Annotated[
    str, typer.Argument(metavar="NAME@TREE", help="A governor of a git tree: teo@../linux.")
]
_FileInTree = Annotated[
    str | None,
    typer.Option("--path", metavar="FILE", help="Its file in the tree, if not the usual one."),
]


def ladder(
    spec: _Spec,
    first: Annotated[str, typer.Option("--from", metavar="REV", help="The oldest revision.")],
    last: Annotated[str, typer.Option("--to", metavar="REV", help="The newest.")] = "HEAD",
    path: _FileInTree = None,
    store: sweeping.StorePath = Path("sweep"),
    traces: sweeping.Traces = None,
    workloads: sweeping.Workloads = None,
    platforms: sweeping.Platforms = None,
    hz: sweeping.TickRates = None,
    seeds: sweeping.Seeds = None,
    duration: sweeping.RunDuration = None,
    metrics: sweeping.Metrics = None,
    threads: options.Threads = None,
    form: options.Form = None,
) -> None:
    """Run every revision that changed a governor, once, and show what each change did.

    A revision that does not compile or run says why; the others go on.
    """
    from torpor.posting import post_text
    from torpor.sweeps import history, run

    steps = history.revisions(spec, first, last, path=path)
    axes = Axes(governor=[step.governor for step in steps])
    sweeping.fill(
        axes, seeds, duration, trace=traces, workload=workloads, platform=platforms, hz=hz
    )
    with progress.if_watched() as bar:
        done = run.sweep(axes, store, threads=threads, progress=sweeping.shown_by(bar))
    rows = [row for row in done.store.rows() if row["point"] in done.points]
    shown = history.ladder_post(rows, steps, metrics or sweeping.DEFAULT_METRICS)
    write_stdout(post_text(shown, form))
    has_failed = any(row["error"] for row in rows)
    raise typer.Exit(EXIT_FINDING if has_failed or done.is_interrupted else 0)


def bisect(
    spec: _Spec,
    good: Annotated[str, typer.Option(metavar="REV", help="A revision that is not worse.")],
    bad: Annotated[str, typer.Option(metavar="REV", help="A later one that is.")],
    metric: Annotated[str, typer.Option("--metric", "-m", metavar="KEY", help="A metric's key.")],
    worse_than: Annotated[
        str, typer.Option(metavar="N%", help="How much worse, over all scenarios: 2%.")
    ],
    path: _FileInTree = None,
    store: sweeping.StorePath = Path("sweep"),
    traces: sweeping.Traces = None,
    workloads: sweeping.Workloads = None,
    platforms: sweeping.Platforms = None,
    hz: sweeping.TickRates = None,
    seeds: sweeping.Seeds = None,
    duration: sweeping.RunDuration = None,
    threads: options.Threads = None,
) -> None:
    """Find the first revision that made a governor worse, as `git bisect run` would.

    Revisions that do not compile or run are passed over. Every run is kept in the store.
    """
    from torpor.sweeps import history

    try:
        worse_than_pct = float(worse_than.rstrip().removesuffix("%"))
    except ValueError:
        raise typer.BadParameter(f"--worse-than {worse_than}: expected per cent: 2%") from None
    steps = history.revisions(spec, good, bad, path=path)
    axes = Axes()
    sweeping.fill(
        axes, seeds, duration, trace=traces, workload=workloads, platform=platforms, hz=hz
    )
    print_note(f"{len(steps) - 1} revisions changed it")
    with progress.if_watched() as bar:
        found = history.bisect(
            steps,
            axes,
            store,
            metric=metric,
            worse_than_pct=worse_than_pct,
            tell=print_note,
            threads=threads,
            progress=sweeping.shown_by(bar),
        )
    if found.first_bad is None:
        write_stdout("the first bad revision is one of:")
        for step in found.suspects:
            write_stdout(f"{step.commit} {step.date} {step.subject}")
        raise typer.Exit(EXIT_FINDING)
    step = found.first_bad
    change = found.changes[step.commit]
    write_stdout(f"{step.commit} is the first bad revision\n{step.date} {step.subject}")
    write_stdout(f"{metric}: {change:+.2f} % from {good}, over all scenarios")
