# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor store`: looks after the folder of a sweep's points."""

from pathlib import Path
from typing import Annotated, Any

import typer

from torpor.cli import options
from torpor.cli.console import fail, print_note, write_post
from torpor.run.sweeps.store import open_store


def ls(store: options.StoreFolder) -> None:
    """Say what a store holds."""
    from torpor.results.table import Cell, Post, Table, word

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
    write_post(post)


def gc(
    store: options.StoreFolder,
    is_this_build: Annotated[
        bool, typer.Option("--this-build", help="Drop the points of other builds of Torpor.")
    ] = False,
) -> None:
    """Make one shard of all, with what killed sweeps left. Running sweeps are left alone."""
    from torpor.run.sweeps.identity import engine_id

    gone, dropped = open_store(store).gc(engine_id() if is_this_build else None)
    print_note(f"{gone} files are in one shard now; {dropped} points dropped")


def merge(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Where the points go.")],
    others: Annotated[list[Path], typer.Argument(metavar="OTHER...", help="Where they are.")],
) -> None:
    """Add the points of other stores to one."""
    sources = [open_store(other) for other in others]
    print_note(f"{open_store(store, create=True).merge(sources)} points added")


def export(
    store: options.StoreFolder,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="A .parquet, .arrow or .csv file."),
    ],
) -> None:
    """Write all points to one file."""
    if output.suffix not in (".parquet", ".arrow", ".csv"):
        fail(f"`{output}`: expected a name that ends in .parquet, .arrow or .csv")
    print_note(f"{open_store(store).export(output)} points: {output}")
