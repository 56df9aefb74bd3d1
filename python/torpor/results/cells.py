# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Cells and tables that several kinds of result share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torpor.results import types as results
from torpor.results.catalogue import unit_text
from torpor.results.comparison import short_labels
from torpor.results.table import CHANGE, Cell, Table, number, share

#: Columns of a state, after its name.
COUNTED = ("time", "time%", "usage", "above", "above%", "below", "below%")
COUNTERS = ("usage", "time_us", "above", "below", "rejected")
#: Columns of a run, before and after its share of misses.
RUN = ("idles", "idle_miss")
SIDES = ("belows", "aboves")


def compared(comparison: "results.Comparison", title: str = "") -> Table:
    """Return the engine's comparison: rows are metrics, columns values and changes."""
    labels, base = short_labels(comparison["labels"]), comparison["base"]
    headings = ["metric"]
    with_change = [place for place in range(len(labels)) if place != base]
    order = [*([] if base is None else [base]), *with_change]
    for place in order:
        headings += [labels[place], *([] if place == base else [CHANGE + labels[place]])]
    rows = []
    for row in comparison["rows"]:
        unit = unit_text(row["unit"])
        text = f"{row['title']} {unit}".rstrip()
        cells = [Cell(row["title"], text, hint=row["definition"], term=row["key"])]
        for place in order:
            cell = row["cells"][place]
            cells += _pair(cell, place == base)
        rows.append(cells)
    # The base is in each part of a table that is folded.
    keys = 1 if base is None else 2
    return Table("comparison", title, headings, rows, keys=keys, together=2)


def _pair(cell: "results.Cell", is_base: bool) -> list[Cell]:
    """Return a value and, except in the base's column, its change."""
    change = cell["change"]
    is_better = change["is_better"] if change else None
    value = Cell(cell["value"], cell["text"], is_better, cell["is_best"])
    if is_base:
        return [value]
    text = change["text"] if change else ""
    return [value, Cell(text, text, is_better)]


def states_table(
    title: str, keys: list[str], rows: list[list[Cell]], more: Sequence[str] = ()
) -> Table:
    """Return states and their counts; with refusals only where there are any.

    A row has its keys, its :func:`count_cells`, and cells of the columns ``more``.
    """
    headings = [*keys, *COUNTED, "rejected", *more]
    at = headings.index("rejected")
    if not any(row[at].value for row in rows):
        headings.pop(at)
        rows = [[*row[:at], *row[at + 1 :]] for row in rows]
    return Table("states", title, headings, rows, len(keys))


def missed_cells(metrics: Mapping[str, float | None]) -> list[Cell]:
    """Return idles, misses, their ratio, belows and aboves, from shares of all sleeps."""
    sleeps = metrics.get("sleeps")

    def count(key: str) -> int | None:
        percent = metrics.get(key)
        return None if sleeps is None or percent is None else round(sleeps * percent / 100)

    return miss_cells(sleeps, count("above_pct"), count("below_pct"))


def miss_cells(idles: float | None, above: int | None, below: int | None) -> list[Cell]:
    both = None if above is None or below is None else above + below
    counts = [number(None if idles is None else round(idles)), number(both)]
    return [*counts, number(share(both, idles, 1), 3), number(below), number(above)]


def count_cells(counts: Mapping[str, Any]) -> list[Cell]:
    """Return the cells of one state or of all, in the order of :data:`COUNTED`."""
    time_us, ratio = counts["time_us"], counts.get("residency_ratio")
    return [
        number(None if time_us is None else time_us / 1e3, 1),
        number(share(ratio, 1), 2),
        number(counts["usage"]),
        *wrong_cells(counts, counts["usage"]),
        number(counts.get("rejected")),
    ]


def wrong_cells(counts: Mapping[str, Any], of: int | None) -> list[Cell]:
    pairs = [(counts["above"], of), (counts["below"], of)]
    return [c for part, all_ in pairs for c in (number(part), number(share(part, all_), 2))]


def rate_cell(count: int, per_s: float | None) -> Cell:
    return number(None if per_s is None else count * per_s, 1)


def change_cell(value: float | None, base: float | None) -> Cell:
    change = None if value is None or not base else 100 * (value / base - 1)
    return number(change, 2, is_signed=True)


def total(of: Iterable[Mapping[str, Any]], key: str) -> int | None:
    """Return the sum of a count; None if any is not known."""
    found = sum_or_none([each.get(key) for each in of])
    return None if found is None else int(found)


def sum_or_none(values: Iterable[float | None]) -> float | None:
    """Return the sum; None if any value is not known, or there is none."""
    known = list(values)
    return None if None in known or not known else sum(filter(None, known))


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean; None if any value is not known, or there is none."""
    found = sum_or_none(values)
    return None if found is None else found / len(values)
