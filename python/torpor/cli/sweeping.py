# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What the commands that run many points have in common."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.progress import ProgressBar
from torpor.sweeps.axes import Axes

if TYPE_CHECKING:
    from torpor.sweeps.run import Progress

Traces = Annotated[
    list[str] | None,
    typer.Option("--trace", "-t", metavar="FILE", help="Recordings: paths or patterns."),
]
Workloads = Annotated[
    list[str] | None,
    typer.Option("--workload", "-w", metavar="WORKLOAD", help="Workloads: names or files."),
]
Platforms = Annotated[
    list[str] | None,
    typer.Option("--platform", "-p", metavar="P", help="Machines: names, patterns or files."),
]
TickRates = Annotated[list[int] | None, typer.Option("--hz", metavar="N", help="Tick rates.")]
Seeds = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Seeds of a simulation; default: 10.")
]
RunDuration = Annotated[
    str | None, typer.Option(metavar="TIME", help="Simulated time a run; default: 10s.")
]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", "-m", metavar="KEY", help="A metric's key; default: idle_power_mw."),
]
StorePath = Annotated[
    Path, typer.Option("--store", "-o", metavar="DIR", help="Where points are kept.")
]

#: Shown where no metric is named.
DEFAULT_METRICS = ("idle_power_mw",)


def fill(
    axes: Axes, seeds: int | None, duration: str | None, **given: list[str] | list[int] | None
) -> None:
    """Put what was typed into the axes, in place of what a file has there."""
    for name, value in given.items():
        if value:
            setattr(axes, name, value)
    if seeds is not None:
        axes.seeds = seeds
    if duration is not None:
        axes.options["duration"] = duration


def shown_by(bar: ProgressBar | None) -> "Callable[[Progress], None] | None":
    """Return what shows a sweep's progress on a bar, if there is one."""
    if bar is None:
        return None

    def show(state: "Progress") -> None:
        failed = f", {state.failed} failed" if state.failed else ""
        bar(f"points{failed}", state.done, state.total)

    return show
