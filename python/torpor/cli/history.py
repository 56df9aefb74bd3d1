# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor governor history`, `torpor governor bisect`."""

from pathlib import Path
from typing import Annotated, Any

import click

from torpor.ask import history as histories
from torpor.cli import options, progress, sweeping
from torpor.cli.console import print_note, write_post, write_stdout
from torpor.cli.deliver import check, write_page
from torpor.cli.exits import EXIT_FINDING
from torpor.cli.options import argument, option
from torpor.results.table import minus
from torpor.run.sweeps import ranks, run
from torpor.run.sweeps.axes import Axes
from torpor.run.sweeps.ranks import change_unit, metric_info

_Spec = Annotated[str, argument("NAME@TREE", "A governor of a git tree: teo@../linux.")]
_FileInTree = Annotated[
    str | None, option("--path FILE", "Its file in the tree, if not the usual one.")
]


@sweeping.many("governor")
def history(
    spec: _Spec,
    first: Annotated[str, option("--from REV", "The oldest revision.")],
    last: Annotated[str, option("--to REV", "The newest.")] = "HEAD",
    path: _FileInTree = None,
    store: sweeping.StorePath = Path("sweep"),
    metrics: sweeping.Metrics = None,
    form: options.Form = "text",
    report: options.ReportPath = None,
    *,
    typed: dict[str, Any],
    how: dict[str, Any],
) -> None:
    """Run every revision that changed a governor, once, and show the effect of each change.

    A revision that does not compile or run says why; the others go on.
    """
    check(folder=None, files=(report,))
    steps = histories.revisions(spec, first, last, path=path)
    axes = sweeping.filled(Axes(governor=[step.governor for step in steps]), typed)
    with progress.if_watched() as bar:
        done = run.sweep(axes, store, progress=sweeping.shown_by(bar), **how)
    rows = list(done.rows().values())
    shown = histories.ladder_post(rows, steps, metrics or ranks.DEFAULT_METRICS)
    write_page(shown, report, histories.ladder_sentences(shown))
    write_post(shown, form)
    if done.is_interrupted:
        raise KeyboardInterrupt
    raise click.exceptions.Exit(EXIT_FINDING if any(row["error"] for row in rows) else 0)


@sweeping.many("governor")
def bisect(
    spec: _Spec,
    good: Annotated[str, option("REV", "A revision that is not worse.")],
    bad: Annotated[str, option("REV", "A later one that is.")],
    metric: Annotated[str, option("--metric -m KEY", "A metric's key.")],
    worse_than: Annotated[
        str,
        option(
            "N%|Npp", "How much worse, over all scenarios: 2%; of a share, percentage points: 1pp."
        ),
    ],
    path: _FileInTree = None,
    store: sweeping.StorePath = Path("sweep"),
    *,
    typed: dict[str, Any],
    how: dict[str, Any],
) -> None:
    """Find the first revision that made a governor worse, as `git bisect run` would.

    Skips revisions that do not compile or run. The store keeps every run.
    """
    limit = _limit(metric, worse_than)
    steps = histories.revisions(spec, good, bad, path=path)
    print_note(f"{len(steps) - 1} revisions changed it")
    with progress.if_watched() as bar:
        found = histories.bisect(
            steps,
            sweeping.filled(Axes(), typed),
            store,
            metric=metric,
            worse_than=limit,
            tell=print_note,
            progress=sweeping.shown_by(bar),
            **how,
        )
    if found.first_bad is None:
        write_stdout("the first bad revision is one of:")
        for step in found.suspects:
            write_stdout(f"{step.commit} {step.date} {step.subject}")
        raise click.exceptions.Exit(EXIT_FINDING)
    step = found.first_bad
    change = found.changes[step.commit]
    unit = change_unit(metric_info(metric))
    write_stdout(f"{step.commit} is the first bad revision\n{step.date} {step.subject}")
    write_stdout(f"{metric}: {minus(f'{change:+.2f}')} {unit} from {good}, over all scenarios")


def _limit(metric: str, text: str) -> float:
    """Read a limit in the unit of the metric's changes."""
    unit = change_unit(metric_info(metric, is_judged=True))
    number = text.strip().removesuffix(unit)
    try:
        return float(number)
    except ValueError:
        raise click.BadParameter(
            f"--worse-than {text}: expected a number of {unit}, in which `{metric}` changes: "
            f"2{unit}"
        ) from None
