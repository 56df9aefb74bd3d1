# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor sweep`, `torpor store`: many points, and the folder that keeps them."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from torpor.cli import EXIT_FINDING, options, progress
from torpor.cli.console import fail, print_note, write_stdout
from torpor.sweeps.axes import Axes, SweepError, read_toml
from torpor.sweeps.store import open_store

_STORE = typer.Argument(metavar="STORE", help="The folder of a sweep's points.")

#: Index and count of an array's jobs, as batch systems set them. Slurm's counts from what the user
#: chose, LSF's from 1, Kubernetes' from 0.
_ARRAYS = (
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT"),
    ("LSB_JOBINDEX", None, "LSB_JOBINDEX_END"),
    ("JOB_COMPLETION_INDEX", None, "JOB_COMPLETIONS"),
)


def sweep(
    spec: Annotated[
        Path | None,
        typer.Argument(metavar="[SPEC.toml]", help="Axes, options, ties and exclusions."),
    ] = None,
    store: Annotated[
        Path,
        typer.Option("--store", "-o", metavar="DIR", help="Where points are kept."),
    ] = Path("sweep"),
    traces: Annotated[
        list[str] | None,
        typer.Option("--trace", "-t", metavar="FILE", help="Recordings: paths or patterns."),
    ] = None,
    workloads: Annotated[
        list[str] | None,
        typer.Option("--workload", "-w", metavar="WORKLOAD", help="Workloads: names or files."),
    ] = None,
    platforms: Annotated[
        list[str] | None,
        typer.Option("--platform", "-p", metavar="P", help="Machines: names, patterns or files."),
    ] = None,
    governors: Annotated[
        list[str] | None,
        typer.Option(
            "--governor",
            "-g",
            metavar="G",
            help="As everywhere; a parameter may be a range or a list: ./my.c,shift=1..10, "
            "teo,util_shift=4|6.",
        ),
    ] = None,
    kernels: Annotated[
        list[str] | None,
        typer.Option("--kernel", "-k", metavar="K", help="Kernels to host (simulations)."),
    ] = None,
    cpufreq: Annotated[
        list[str] | None,
        typer.Option("--cpufreq", metavar="POLICY", help="Frequency policies (simulations)."),
    ] = None,
    io_boosts: Annotated[
        list[str] | None,
        typer.Option("--io-boost", metavar="B", help="IO boosts (simulations)."),
    ] = None,
    hz: Annotated[list[int] | None, typer.Option("--hz", metavar="N", help="Tick rates.")] = None,
    latency_limits: Annotated[
        list[str] | None,
        typer.Option("--latency-limit", metavar="TIME", help="PM QoS bounds."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Seeds of a simulation; default: 10.")
    ] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="Simulated time a run; default: 10s.")
    ] = None,
    excluded: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="AXIS=PATTERN,...",
            help="Leave out the points that match all of these.",
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Run the share I of N, from 1; default: that of Slurm's, LSF's or Kubernetes' "
            "array, or all.",
        ),
    ] = None,
    threads: options.Threads = None,
    is_retry: Annotated[
        bool, typer.Option("--retry", help="Run points again that ended in an error.")
    ] = False,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would run, and for about how long.")
    ] = False,
    is_sure: Annotated[bool, typer.Option("--yes", help="Run more than a million points.")] = False,
) -> None:
    """Run every combination of governors, recordings, workloads, machines and settings.

    Points that the store has are not run again, whichever sweep made them. Ctrl-C, SIGTERM and
    kill -9 lose only the points under way: the same command goes on from there.
    """
    from torpor.sweeps import run

    axes = Axes() if spec is None else read_toml(spec)
    given: dict[str, Any] = {
        "trace": traces,
        "workload": workloads,
        "platform": platforms,
        "governor": governors,
        "kernel": kernels,
        "cpufreq": cpufreq,
        "io_boost": io_boosts,
        "hz": hz,
        "latency_limit": latency_limits,
    }
    for name, value in given.items():
        if value:
            setattr(axes, name, value)
    if seeds is not None:
        axes.seeds = seeds
    if duration is not None:
        axes.options["duration"] = duration
    axes.excluded += [_exclusion(text) for text in excluded or []]
    part = _part(shard)
    points_max = sys.maxsize if is_sure else run.POINTS_MAX
    if is_dry_run:
        _tell_plan(axes, store, part)
        return
    with ExitStack() as stack:
        bar = stack.enter_context(progress.if_watched())

        def show(state: "run.Progress") -> None:
            if bar is not None:
                failed = f", {state.failed} failed" if state.failed else ""
                bar(f"points{failed}", state.done, state.total)

        done = run.sweep(
            axes,
            store,
            threads=threads,
            retry=is_retry,
            part=part,
            points_max=points_max,
            progress=show,
            compiling=bar,
        )
    print_note(
        f"{done.done} points done, {done.failed} of them failed; {done.known} were known: {store}"
    )
    if done.is_interrupted:
        print_note("interrupted: the same command goes on from there")
    raise typer.Exit(EXIT_FINDING if done.failed or done.is_interrupted else 0)


def show(
    store: Annotated[Path, _STORE],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", metavar="KEY", help="A metric's key; default: idle_power_mw."
        ),
    ] = None,
    base: Annotated[
        str | None, typer.Option(metavar="G", help="Compare with this governor; default: menu.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="AXIS=PATTERN", help="Show these points only: platform=pixel6."
        ),
    ] = None,
    form: options.Form = None,
    is_json: Annotated[bool, typer.Option("--json", help="Print the points as JSON.")] = False,
) -> None:
    """Show governors against scenarios, and ranks over scenarios with their uncertainty."""
    import json

    from torpor.posting import paint
    from torpor.sweeps.view import view

    form = options.form(form, is_json=is_json)
    rows = open_store(store).rows()
    filters: dict[str, list[str]] = {}
    for text in only or []:
        for axis, pattern in _exclusion(text).items():
            filters.setdefault(axis, []).append(pattern)
    post = view(rows, metrics=metrics or ["idle_power_mw"], base=base, filters=filters)
    if form == "json":
        write_stdout(json.dumps(rows, indent=1))
    else:
        painters = {"markdown": paint.markdown, "csv": paint.csv, "html": paint.html}
        write_stdout(painters.get(form, paint.lkml)([post]))


def store_ls(store: Annotated[Path, _STORE]) -> None:
    """Say what a store holds."""
    from torpor.posting import paint
    from torpor.posting.model import Cell, Post, Table, word

    opened = open_store(store)
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    rows = opened.rows()
    for row in rows:
        groups.setdefault((row["kind"], row["source"], row["platform"]), []).append(row)
    lines = [
        [
            *map(word, group),
            *(
                Cell(value, str(value))
                for value in (
                    len(points),
                    len({point["governor"] for point in points}),
                    sum(point["error"] is not None for point in points),
                )
            ),
        ]
        for group, points in sorted(groups.items())
    ]
    headings = ["kind", "source", "platform", "points", "governors", "failed"]
    size = sum(path.stat().st_size for path in (*opened.shards, *opened.open_files))
    facts = [
        f"{len(opened.shards)} shards, {len(opened.open_files)} open files, {size / 1e6:.1f} MB; "
        f"builds of Torpor: {', '.join(sorted({row['engine'] for row in rows})) or 'none'}"
    ]
    post = Post(f"{store}: {len(rows)} points", facts, [Table("", "", headings, lines, 3)], [])
    write_stdout(paint.lkml([post]))


def store_gc(
    store: Annotated[Path, _STORE],
    is_this_build: Annotated[
        bool, typer.Option("--this-build", help="Drop the points of other builds of Torpor.")
    ] = False,
) -> None:
    """Make one shard of all, with what killed sweeps left. Running sweeps are left alone."""
    from torpor.sweeps.identity import engine_id

    gone, dropped = open_store(store).gc(engine_id() if is_this_build else None)
    print_note(f"{gone} files are in one shard now; {dropped} points dropped")


def store_merge(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Where the points go.")],
    others: Annotated[list[Path], typer.Argument(metavar="OTHER...", help="Where they are.")],
) -> None:
    """Add the points of other stores to one."""
    sources = [open_store(other) for other in others]
    print_note(f"{open_store(store, create=True).merge(sources)} points added")


def store_export(
    store: Annotated[Path, _STORE],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="A .parquet, .arrow or .csv file."),
    ],
) -> None:
    """Write all points to one file."""
    if output.suffix not in (".parquet", ".arrow", ".csv"):
        fail(f"`{output}`: expected a name that ends in .parquet, .arrow or .csv")
    print_note(f"{open_store(store).export(output)} points: {output}")


def _exclusion(text: str) -> dict[str, str]:
    found = {}
    for part in text.split(","):
        axis, equals, pattern = part.partition("=")
        if not equals or not axis or not pattern:
            raise typer.BadParameter(f"`{text}`: expected AXIS=PATTERN, such as platform=pixel6")
        found[axis] = pattern
    return found


def _part(text: str | None) -> tuple[int, int]:
    """Return this job's index, from 0, and how many there are."""
    if text is not None:
        index, _, count = text.partition("/")
        if not index.isdigit() or not count.isdigit() or not 1 <= int(index) <= int(count):
            raise typer.BadParameter(f"--shard {text}: expected I/N with I from 1 to N, as 1/8")
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


def _tell_plan(axes: Axes, store: Path, part: tuple[int, int]) -> None:
    from torpor.sweeps import run

    planned = run.shard(run.plan(axes), *part)
    try:
        rows = open_store(store).rows()
    except SweepError:
        if store.exists():
            raise
        rows = []
    known = {row["point"] for row in rows}
    wanted = [point for name, point in planned.items() if name not in known]
    took: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        took.setdefault((row["kind"], row["source"]), []).append(row["run_ms"])
    means = [took.get((point.kind, point.source)) for point in wanted]
    write_stdout(f"{len(planned)} points, {len(planned) - len(wanted)} known, {len(wanted)} to run")
    if wanted and all(means):
        total_ms = sum(sum(each) / len(each) for each in means if each)
        write_stdout(f"about {total_ms / 1000:.1f} s of CPU time, by points of the same sources")
    elif wanted:
        write_stdout("how long is not known: the store has no point of some of these sources")
