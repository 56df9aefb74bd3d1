# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor store`: shows and looks after the points of sweeps."""

from collections import Counter
from itertools import compress
from pathlib import Path
from typing import Annotated

from torpor.cli import options, sweeping
from torpor.cli.console import fail, print_note, write_post
from torpor.cli.deliver import check, print_post, write_page
from torpor.cli.options import argument, option
from torpor.results.files import write_whole
from torpor.results.record import view
from torpor.results.table import Cell, Post, Table, counted, word
from torpor.run.sweeps import ranks
from torpor.run.sweeps.columns import LABEL
from torpor.run.sweeps.identity import engine_id
from torpor.run.sweeps.store import open_store

_Only = Annotated[
    list[str] | None, option("--only AXIS=PATTERN", "These points only: platform=pixel6.")
]


def list_points(store: options.StoreFolder) -> None:
    """Show what a store holds."""
    opened = open_store(store)
    points = opened.points()
    own = list(zip(points["kind"], points["source"], points["platform"], strict=True))
    sizes = Counter(own)
    failed = Counter(compress(own, (error is not None for error in points["error"])))
    governors = Counter(group for group, _ in set(zip(own, points[LABEL], strict=True)))
    lines = [
        [
            *map(word, group),
            *(Cell(n[group], str(n[group])) for n in (sizes, governors, failed)),
        ]
        for group in sorted(sizes)
    ]
    headings = ["kind", "source", "platform", "points", "governors", "failed"]
    size = sum(path.stat().st_size for path in (*opened.shards, *opened.open_files))
    facts = [
        f"{len(opened.shards)} shards, {len(opened.open_files)} open files, {size / 1e6:.1f} MB; "
        f"builds of Torpor: {', '.join(sorted(set(points['engine']))) or 'none'}"
    ]
    post = Post(
        f"{store}: {counted(len(points), 'point')}", facts, [Table("", "", headings, lines, 3)], []
    )
    write_post(post)


def show(
    store: options.StoreFolder,
    metrics: sweeping.Metrics = None,
    base: Annotated[
        str | None,
        option("G", "Compare with this governor; default: the first one that was named."),
    ] = None,
    only: _Only = None,
    each: Annotated[
        bool | None,
        option("--each/--no-each", "A row for each scenario; default: for up to 30, and in CSV."),
    ] = None,
    form: options.Form = "text",
    report: options.ReportPath = None,
) -> None:
    """Show governors against scenarios, and ranks over scenarios with their uncertainty."""
    check(folder=None, files=(report,))
    points = open_store(store).points()
    post = ranks.view(
        points,
        metrics=metrics or ranks.DEFAULT_METRICS,
        base=base,
        filters=_filters(only),
        each=True if form == "csv" and each is None else each,
    )
    said: tuple[str, ...] = ()
    if report is not None and not metrics:
        own = ranks.filtered(points, _filters(only))
        said = view("report.sweep").verdict(own, ranks.Cells(own, ranks.governors_of(own, base)))
    write_page(post, report, said)
    print_post(post, form, points.rows() if form == "json" else None)


def page(
    store: options.StoreFolder,
    output: Annotated[Path, option("--output -o FILE", "The page, as HTML.")],
    only: _Only = None,
) -> None:
    """Write a sweep as one page: heat map, front, ranks, and the command of each cell."""
    points = ranks.filtered(ranks.against_oracle(open_store(store).points()), _filters(only))
    write_whole(output, view("report.sweep").render(points, store.resolve().name))
    print_note(f"page: {output}")


def _filters(texts: list[str] | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in texts or []:
        for axis, pattern in sweeping.patterns(text).items():
            found.setdefault(axis, []).append(pattern)
    return found


def gc(
    store: options.StoreFolder,
    is_this_build: Annotated[
        bool, option("--this-build", "Drop the points of other builds of Torpor.")
    ] = False,
) -> None:
    """Join small files, with what killed sweeps left. Running sweeps are left alone."""
    gone, dropped = open_store(store).gc(engine_id() if is_this_build else None)
    print_note(f"{gone} files are joined; {dropped} points dropped")


def merge(
    store: Annotated[Path, argument("STORE", "Where the points go.")],
    others: Annotated[list[Path], argument("OTHER...", "Where they are.")],
) -> None:
    """Add the points of other stores to one."""
    sources = [open_store(other) for other in others]
    print_note(f"{open_store(store, create=True).merge(sources)} points added")


def export(
    store: options.StoreFolder,
    output: Annotated[Path, option("--output -o FILE", "A .parquet, .arrow or .csv file.")],
) -> None:
    """Write all points to one file."""
    if output.suffix not in (".parquet", ".arrow", ".csv"):
        fail(f"`{output}`: expected a name that ends in .parquet, .arrow or .csv")
    print_note(f"{open_store(store).export(output)} points: {output}")
