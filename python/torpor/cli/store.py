# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor store`: looks after the points of sweeps."""

from collections import Counter
from itertools import compress
from pathlib import Path
from typing import Annotated

from torpor.cli import options
from torpor.cli.console import fail, print_note, write_post
from torpor.cli.options import argument, option
from torpor.results.table import Cell, Post, Table, counted, word
from torpor.run.sweeps.columns import LABEL
from torpor.run.sweeps.identity import engine_id
from torpor.run.sweeps.store import open_store


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
