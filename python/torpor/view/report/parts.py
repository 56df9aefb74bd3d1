# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Parts of a page: each kind of result contributes some, and one template draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from torpor.results.kind import Input
from torpor.results.picture import Chart, Picture, Rows
from torpor.results.table import Cell, Table, counted, word
from torpor.view.chart import inline_both
from torpor.view.report.environment import figure, prose, table_html

#: Rows of a part's first table that are open at once.
_OPEN = 8
#: A table of so many rows is shown whole.
_WHOLE = 24


class Chip(NamedTuple):
    """A fact on how certain a verdict is."""

    text: str
    is_warning: bool = False


class Fold(NamedTuple):
    """A section that its reader opens."""

    title: str
    body: Markup
    note: str = ""


class Part(NamedTuple):
    """A result in a page, or a recording of one."""

    title: str
    verdict: str = ""
    facts: Sequence[str] = ()
    chips: Sequence[Chip] = ()
    #: Verdict in full, where the title has a part of it.
    finding: str = ""
    sentences: Sequence[str] = ()
    #: First picture, with its caption.
    picture: Markup = Markup("")
    #: Open below the sentences.
    body: Markup = Markup("")
    folds: Sequence[Fold] = ()


def drawn(charts: Sequence[Chart | Rows]) -> Markup:
    """Return the charts of a picture; rows have their numbers below."""
    return figure("panels", [(chart, inline_both(chart)) for chart in charts])


def first(picture: Picture) -> Markup:
    """Return the picture with which a part begins."""
    if not picture.title and not picture.lead:
        return drawn(picture.charts)
    title = Markup("<b>{}.</b> ").format(picture.title) if picture.title else ""
    return Markup('<div>{}<p class="caption">{}{}</p></div>').format(
        drawn(picture.charts), title, prose(picture.lead)
    )


def picture_fold(picture: Picture) -> Fold:
    """Return the section that has a picture."""
    lead = Markup('<p class="lead">{}</p>\n').format(prose(picture.lead))
    return Fold(picture.title, lead + drawn(picture.charts), picture.note)


def table_folds(tables: Sequence[Table]) -> list[Fold]:
    """Return a section for each table."""
    return [
        Fold(
            table.title
            or (table.headings[0] if table.name == "study" else table.name.capitalize()),
            table_html(table),
            counted(len(table.rows), "row"),
        )
        for table in tables
    ]


def opened(table: Table) -> tuple[Markup, list[Fold]]:
    """Return the first rows of a table, and the section of the others."""
    title = Markup("<h2>{}</h2>").format(table.title) if table.title else Markup("")
    size = len(table.rows) if len(table.rows) <= _WHOLE else _OPEN
    # Rows of one key are read together.
    while table.keys > 1 and 0 < size < len(table.rows) and _is_one(table.rows, size):
        size += 1
    rows, more = table.rows[:size], table.rows[size:]
    first = title + table_html(table, [("", rows)])
    if not more:
        return first, []
    return first, [Fold(f"{counted(len(more), 'more row')}", table_html(table, [("", more)]))]


def _is_one(rows: Sequence[Sequence[Cell]], at: int) -> bool:
    """Whether a row has the first key of the one before it."""
    return bool(rows[at][0].text == rows[at - 1][0].text)


def notes(texts: Sequence[str]) -> list[Fold]:
    """Return the section of notes, if there are any."""
    body = figure("listing", texts)
    return [Fold("Notes and limits", body, str(len(texts)))] if texts else []


def definitions(results: Sequence[Any]) -> list[Fold]:
    """Return the section that defines the results' metrics, each once."""
    found: dict[str, Mapping[str, Any]] = {}
    for result in results:
        compared = (result.get("comparison") or {}).get("rows", ())
        for metric in (*result.get("catalogue", ()), *compared):
            found.setdefault(metric["key"], metric)
    body = figure("definitions", list(found.values()))
    return [Fold("Definitions of all metrics", body)] if found else []


def provenance(version: str, inputs: Sequence[Input], more: Sequence[Markup]) -> list[Fold]:
    """Return the section of a page's inputs, with what else made its numbers."""
    if not inputs:
        return []
    rows = [[word(one.name), word(one.description), _hash(one.sha256)] for one in inputs]
    rows.insert(0, [word("Torpor"), word(version), word("")])
    table = table_html(Table("Inputs", "", ["input", "", "SHA-256"], rows, keys=2))
    if more:
        said = "The same inputs, options and version give the same bytes."
        table = Markup('<p class="lead">{}</p>\n').format(said) + table
    return [Fold("Provenance", table + Markup("").join(more), "SHA-256 of each input")]


def _hash(sha256: str | None) -> Any:
    return word(f"`{sha256}`" if sha256 else "")
