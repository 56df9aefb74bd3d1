# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor sweep`: many points."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import click

from torpor.cli import progress, sweeping
from torpor.cli.console import print_note, write_stdout
from torpor.cli.exits import EXIT_FINDING
from torpor.cli.options import argument, option
from torpor.run.sweeps import run
from torpor.run.sweeps.axes import Axes, SweepError, read_toml
from torpor.run.sweeps.columns import Points
from torpor.run.sweeps.store import open_store

#: Index and count of an array's jobs, as batch systems set them. Slurm's counts from what the user
#: chose, LSF's from 1, Kubernetes' from 0.
_ARRAYS = (
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT"),
    ("LSB_JOBINDEX", None, "LSB_JOBINDEX_END"),
    ("JOB_COMPLETION_INDEX", None, "JOB_COMPLETIONS"),
)


@sweeping.many()
def sweep(
    spec: Annotated[
        Path | None, argument("[SPEC.toml]", "Axes, options, ties and exclusions.")
    ] = None,
    store: sweeping.StorePath = Path("sweep"),
    excluded: Annotated[
        list[str] | None,
        option("--exclude AXIS=PATTERN,...", "Leave out the points that match all of these."),
    ] = None,
    shard: Annotated[
        str | None,
        option(
            "I/N",
            "Run the share I of N, from 1; default: that of Slurm's, LSF's or Kubernetes' "
            "array, or all.",
        ),
    ] = None,
    is_retry: Annotated[
        bool, option("--retry", "Run points again that ended in an error.")
    ] = False,
    is_dry_run: Annotated[
        bool, option("--dry-run -n", "Say what would run, and for about how long.")
    ] = False,
    is_sure: Annotated[bool, option("--yes", "Run more than a million points.")] = False,
    *,
    typed: dict[str, Any],
    how: dict[str, Any],
) -> None:
    """Run every combination of governors, recordings, workloads, machines and settings.

    Points that the store has are not run again, whichever sweep made them. Ctrl-C, SIGTERM and
    kill -9 lose only the points under way: the same command continues from there.
    """
    axes = sweeping.filled(Axes() if spec is None else read_toml(spec), typed)
    axes.excluded += [sweeping.patterns(text) for text in excluded or []]
    part = _part(shard)
    points_max = sys.maxsize if is_sure else run.POINTS_MAX
    if is_dry_run:
        _print_plan(axes, store, part)
        return
    sweeping.obtain_kernels(axes)
    with progress.if_watched() as bar:
        done = run.sweep(
            axes,
            store,
            **how,
            retry=is_retry,
            part=part,
            points_max=points_max,
            progress=sweeping.shown_by(bar),
            compiling=bar,
        )
    print_note(
        f"{done.done} points done, {done.failed} of them failed; {done.known} were known: {store}"
    )
    if done.is_interrupted:
        raise KeyboardInterrupt
    raise click.exceptions.Exit(EXIT_FINDING if done.failed else 0)


def _part(text: str | None) -> tuple[int, int]:
    """Return this job's index, from 0, and how many there are."""
    if text is not None:
        index, _, count = text.partition("/")
        if not index.isdigit() or not count.isdigit() or not 1 <= int(index) <= int(count):
            raise click.BadParameter(f"--shard {text}: expected I/N with I from 1 to N, as 1/8")
        return int(index) - 1, int(count)
    for index_name, first_name, count_name in _ARRAYS:
        index, count = os.environ.get(index_name, ""), os.environ.get(count_name, "")
        if not (index.isdigit() and count.isdigit() and int(count) > 0):
            continue
        first = os.environ.get(first_name, "0") if first_name else None
        start = int(first) if first is not None else int(index_name == "LSB_JOBINDEX")
        # LSF sets its index to 0 in a job that is no array.
        if int(index) >= start:
            part = (int(index) - start) % int(count)
            print_note(f"share {part + 1} of {count}, by {index_name}")
            return part, int(count)
    return 0, 1


def _print_plan(axes: Axes, store: Path, part: tuple[int, int]) -> None:
    planned = run.shard(run.plan(axes.points()), *part)
    try:
        kept = open_store(store).points()
    except SweepError:
        if store.exists():
            raise
        kept = Points.of([])
    known = set(kept["point"])
    wanted = [point for point, name in planned.items() if name not in known]
    took: dict[tuple[str, str], list[float]] = {}
    for kind, source, run_ms in zip(kept["kind"], kept["source"], kept["run_ms"], strict=True):
        took.setdefault((kind, source), []).append(run_ms)
    means = [took.get((point.kind, point.source)) for point in wanted]
    write_stdout(f"{len(planned)} points, {len(planned) - len(wanted)} known, {len(wanted)} to run")
    if wanted and all(means):
        total_ms = sum(sum(each) / len(each) for each in means if each)
        write_stdout(f"about {total_ms / 1000:.1f} s of CPU time, by points of the same sources")
    elif wanted:
        write_stdout("how long is not known: the store has no point of some of these sources")
