# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Cells and tables that several kinds of result share."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from torpor.results.comparison import short_labels, unit_text
from torpor.results.table import Cell, Table, number, share, word

if TYPE_CHECKING:
    from torpor.results import types as results

#: Columns of a state, after its name.
COUNTED = ("time", "time%", "usage", "above", "above%", "below", "below%")
COUNTERS = ("usage", "time_us", "above", "below", "rejected")
#: Columns of a run, before and after its share of misses.
RUN = ("idles", "idle_miss")
SIDES = ("belows", "aboves")


def compared(comparison: "results.Comparison", title: str = "") -> Table:
    """Return the engine's comparison: a row a metric, a column with its change a governor."""
    labels, base = short_labels(comparison["labels"]), comparison["base"]
    headings = ["metric"]
    with_change = [place for place in range(len(labels)) if place != base]
    order = [*([] if base is None else [base]), *with_change]
    for place in order:
        headings += [labels[place], *([] if place == base else [f"change: {labels[place]}"])]
    rows = []
    for row in comparison["rows"]:
        unit = unit_text(row["unit"])
        cells = [word(f"{row['title']} {unit}".rstrip())]
        for place in order:
            cell = row["cells"][place]
            cells.append(Cell(cell["value"], cell["text"]))
            if place != base:
                change = cell["change"]
                cells.append(word(change["text"] if change else ""))
        rows.append(cells)
    # The base is in each part of a table that is folded.
    keys = 1 if base is None else 2
    return Table("comparison", title, headings, rows, keys=keys, together=2)


def states_table(title: str, keys: list[str], rows: list[list[Cell]]) -> Table:
    """States and their counts; a column of refusals where there are any."""
    if not any(row[-1].value for row in rows):
        return Table("states", title, [*keys, *COUNTED], [row[:-1] for row in rows], len(keys))
    return Table("states", title, [*keys, *COUNTED, "rejected"], rows, len(keys))


def missed_cells(metrics: Mapping[str, float | None]) -> list[Cell]:
    """Idles, misses, their ratio, belows and aboves, from shares of all sleeps."""
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
    """The cells of one state or of all: time (ms) and its share, usage, above, below, rejected."""
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
    """A sum; half a sum would be a wrong figure."""
    counts = [each.get(key) for each in of]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None
