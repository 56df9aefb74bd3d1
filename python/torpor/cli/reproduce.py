# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor reproduce`: published and simulated tables, side by side."""

from typing import TYPE_CHECKING, Annotated, cast

import typer

from torpor import studies
from torpor.cli import EXIT_FINDING, journaled, options, values
from torpor.cli.console import bare_table, render, stdout_width, wrap, write_stdout
from torpor.comparison import format_number
from torpor.posting import post
from torpor.studies import judge

if TYPE_CHECKING:
    from rich.table import Table

    from torpor import shapes

_NONE = "-"
_TEXT_WIDTH = 100


def reproduce(
    study: Annotated[
        str | None,
        typer.Argument(metavar="STUDY", help="A study: a name, or a .toml file. Default: all."),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Simulated time per run, instead of the study's."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Runs per governor, instead of the study's."),
    ] = None,
    threads: options.Threads = None,
    form: options.Form = None,
    is_json: Annotated[
        bool, typer.Option("--json", help="Print as JSON: a list of studies.")
    ] = False,
    journal: options.JournalPath = None,
) -> None:
    """Simulate what a published table measured, and judge the simulation's predictions.

    Cells that the workload was calibrated on are marked. Each other cell is judged by sign (of the
    change from the first column), order (its rank among the columns) and size (its change within a
    factor of 2 of the published one). Where a range was published, the mean has to be in it.

    What ends it early loses no finished run: the same command goes on from its journal.
    """
    # Refused here, it is a wrong option and not a wrong study.
    values.duration_ns(duration)
    form = options.form(form, is_json=is_json)
    results = []
    with journaled.journal(journal, None, "reproduce", study, duration, seeds) as kept:
        for name in [study] if study is not None else studies.names():
            found = studies.reproduce(
                name,
                duration=duration,
                seeds=seeds,
                threads=threads,
                journal=kept.path,
                watch=kept.tell,
            )
            results.append(found)
            if form == "text":
                if len(results) > 1:
                    write_stdout("")
                write_stdout(_text(cast("shapes.Reproduction", found), stdout_width()))
        if form != "text":
            write_stdout(post(results, form))
        kept.done()
    raise typer.Exit(EXIT_FINDING if any(r["failures"] for r in results) else 0)


def _text(result: "shapes.Reproduction", width: int) -> str:
    folded = min(width, _TEXT_WIDTH)
    parts = [f"{result['study']}: {result['title']}"]
    parts += [wrap(f"Source: {source}", folded) for source in result["source"]]
    seeds = "1 seed" if result["seeds"] == 1 else f"{result['seeds']} seeds"
    ran = (
        f"Simulated on {', '.join(result['platforms'])}, {' or '.join(result['durations'])} a run, "
        f"{seeds}; * calibrated"
    )
    parts.append(wrap(ran, folded))
    for table in result["tables"]:
        parts.append("\n" + render(_table(table), width=width).rstrip("\n"))
        for column, title in table["most"].items():
            parts.append(wrap(f"{column}: most with {title}", folded))
        for row in table["rows"]:
            if row["not_modelled"]:
                parts.append(wrap(f"{row['title']}: not modelled: {row['not_modelled']}", folded))
    parts.append(f"\n{result['study']}: {judge.summary(result['counts'])}")
    parts.append(wrap(f"Calibration: {result['calibration']}", folded))
    parts += [wrap(f"Note: {note}", folded) for note in result["notes"]]
    parts += [f"Failed: {failure}" for failure in result["failures"]]
    return "\n".join(parts)


def _table(table: "shapes.StudyTable") -> "Table":
    drawn = bare_table()
    drawn.add_column(table["title"], overflow="fold")
    drawn.add_column("")
    columns = list(table["rows"][0]["cells"])
    for column in columns:
        drawn.add_column(column, justify="right", overflow="fold")
    for row in table["rows"]:
        cells = [row["cells"][column] for column in columns]
        published = [_published(cell["published"]) for cell in cells]
        ours = [_number(c["ours"]) + ("*" if c["is_calibrated"] else "") for c in cells]
        right = [_right(cell) for cell in cells]
        if any(cell["published"] is not None for cell in cells):
            drawn.add_row(row["title"], "published", *published)
            drawn.add_row("", "here", *ours)
        else:
            drawn.add_row(row["title"], "here", *ours)
        if any(isinstance(cell["published"], list) for cell in cells):
            drawn.add_row("", "seeds", *(_published(cell["spread"]) for cell in cells))
        if any(right):
            drawn.add_row("", "right", *right)
    return drawn


def _published(value: float | list[float] | str | None) -> str:
    """A number, a range, or a sign."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "–".join(format_number(end) for end in value)
    return _number(value)


def _number(value: float | None) -> str:
    return _NONE if value is None else format_number(value)


def _right(cell: "shapes.StudyCell") -> str:
    """The aspects that are right, of those that were judged."""
    right = cell["right"]
    if right is None:
        return ""
    found = [aspect for aspect in judge.ASPECTS if right.get(aspect)]
    if len(right) > 1 and len(found) == len(right):
        return "all"
    return " ".join(found) or "nothing"
