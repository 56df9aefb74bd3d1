# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Choices of one CPU over time, a row for each governor, and where they differ from one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from torpor.results.numbers import duration, number_text, share_text
from torpor.results.picture import Block, Picture, Row, Rows, state_colour
from torpor.results.runs import Segment, both_asleep
from torpor.results.table import Table, word

#: Columns of the whole in a page of one recording; those of several recordings share them.
COLUMNS = 120
#: Sleeps of the row that others are compared with in the close-up; one with more than twice as many
#: is in columns.
_CLOSE = 30
#: Steps of a column's mean depth: columns of the same step are one block.
_DEPTHS = 24

#: What a segment of a row of differences stands for, by its index.
_SIGNS = (("deeper", "--above"), ("shallower", "--below"))


def picture(strips: Sequence[Strip], columns: int) -> Picture:
    """Return the picture of strips, each whole in so many columns."""
    lead = (
        "Blocks hang deeper for deeper states; gaps are running. Below a row: where its state is "
        f"deeper or shallower than that of {strips[0].base} while both sleep. The whole is in "
        f"{columns} columns, each with the mean depth of its sleeps and the colour of the "
        "commonest state, as are rows of many sleeps in a close-up. A trace for Perfetto has every "
        "sleep of every CPU."
    )
    charts = [chart for strip in strips for chart in strip.charts(columns)]
    note = f"busiest CPU{' of each cluster' * (len(strips) > 1)}"
    return Picture("Choice by choice", lead, charts, note)


class Strip:
    """One CPU's sleeps under every governor."""

    def __init__(self, raw: Any, title: str, states: Sequence[str], oracle: str | None) -> None:
        """Compare with the oracle, or else with the first governor."""
        self.names: list[str] = [row["governor"] for row in raw["rows"]]
        self.title, self._start, self._end = title, raw["start_ns"], raw["end_ns"]
        self._rows: list[list[Segment]] = [
            [tuple(segment) for segment in row["segments"] if segment[2] >= 0]
            for row in raw["rows"]
        ]
        self._base = self.names.index(oracle) if oracle in self.names else 0
        self._states = [
            (name, state_colour(index, len(states), name)) for index, name in enumerate(states)
        ]
        base = self._rows[self._base]
        together = [[] if row is base else list(both_asleep(row, base)) for row in self._rows]
        self._together_ns = [sum(b - a for a, b, *_ in times) for times in together]
        self._differences = [
            [(a, b, int(mine < its)) for a, b, mine, its in times if mine != its]
            for times in together
        ]

    @property
    def base(self) -> str:
        """Name of the row with which the others are compared."""
        return self.names[self._base]

    def charts(self, columns: int) -> list[Rows]:
        """Return the whole strip, and the sleeps of the time in which governors differ most."""
        start, end = self._close()
        whole = f"{self.title}: {duration(self._end - self._start)}"
        close = f"{self.title}: {duration(end - start)}, in which the governors differ most"
        return [
            self._drawn(whole, self._start, self._end, columns)._replace(table=self._agreement()),
            self._drawn(close, start, end, columns, 2 * _CLOSE),
        ]

    def _agreement(self) -> Table:
        """Return how each row agrees with the one that it is compared with."""
        lines = []
        for place, row in enumerate(self._rows):
            shares = ["–"] * 3
            if place != self._base:
                whole = self._together_ns[place]
                times = [
                    sum(b - a for a, b, sign in self._differences[place] if sign == of)
                    for of in (0, 1)
                ]
                shares = [share_text(time, whole) for time in (whole - sum(times), *times)]
            lines.append(list(map(word, (self.names[place], number_text(len(row)), *shares))))
        headings = ["Governor", "sleeps", "same state", "deeper", "shallower"]
        title = f"{self.title}: agreement with {self.base} while both sleep"
        return Table("strip", title, headings, lines)

    def _close(self) -> tuple[int, int]:
        """Return the time with so many sleeps in which the rows differ most."""
        base = self._rows[self._base]
        spans = [
            (base[at][0], base[min(at + _CLOSE, len(base)) - 1][1])
            for at in range(0, len(base), _CLOSE)
        ] or [(self._start, self._end)]
        found = [0] * len(spans)
        for own in self._differences:
            at = 0
            for a, b, _ in own:
                while at + 1 < len(spans) and spans[at + 1][0] <= a:
                    at += 1
                found[at] += b - a
        return spans[found.index(max(found))]

    def _drawn(self, title: str, start: int, end: int, columns: int, most: int = 0) -> Rows:
        """Return a time of the strip; a row of more sleeps than ``most`` is in columns."""
        unit, unit_ns = next(
            (unit for unit in (("s", 1e9), ("ms", 1e6)) if end - start >= unit[1]), ("µs", 1e3)
        )
        window = _Window(start, end, self._start, unit_ns, columns)

        def depth(state: int) -> float:
            return (state + 1) / len(self._states)

        rows = []
        for place, (name, row) in enumerate(zip(self.names, self._rows, strict=True)):
            sleeps = [segment for segment in row if segment[0] < end and segment[1] > start]
            draw = window.in_columns if len(sleeps) > most else window.one_by_one
            rows.append(Row(name, draw(sleeps, self._states, depth)))
            if place != self._base:
                signs = window.in_columns(self._differences[place], _SIGNS, lambda _: 1.0)
                rows.append(Row("", signs, height=5.0))
        ends, across = (window.at(start), window.at(end)), f"{unit} from the start"
        return Rows(title, "", rows, ends, across, legend=[*self._states, *_SIGNS])


_Looks = Sequence[tuple[str, str]]


class _Window(NamedTuple):
    """A time of a strip, drawn in a unit from the strip's start."""

    start: int
    end: int
    origin: int
    unit_ns: float
    columns: int

    def at(self, time: float) -> float:
        return (time - self.origin) / self.unit_ns

    def one_by_one(
        self, row: Sequence[Segment], looks: _Looks, depth: Callable[[int], float]
    ) -> list[Block]:
        return [
            Block(
                looks[state][0],
                self.at(max(a, self.start)),
                self.at(min(b, self.end)),
                looks[state][1],
                hint=f"{looks[state][0]} {duration(b - a)}",
                depth=depth(state),
            )
            for a, b, state in row
        ]

    def in_columns(
        self, row: Sequence[Segment], looks: _Looks, depth: Callable[[int], float]
    ) -> list[Block]:
        """Return a block for each run of columns alike."""
        start, end = self.start, self.end
        width = (end - start) / self.columns
        sums = [[0.0] * len(looks) for _ in range(self.columns)]
        for a, b, state in row:
            if b <= start or a >= end:
                continue
            # Hundreds of thousands of times: a comparison takes a third of a call of max.
            low = (a - start) / width if a > start else 0.0
            high = ((b if b < end else end) - start) / width
            first = int(low)
            # Most sleeps are in one column.
            if high <= first + 1 <= self.columns:
                sums[first][state] += high - low
                continue
            for at in range(first, min(math.ceil(high), self.columns)):
                sums[at][state] += min(high, at + 1) - max(low, at)
        alike = [
            (parts.index(max(parts)), max(1, round(mean * _DEPTHS)) / _DEPTHS) if mean else None
            for parts in sums
            for mean in (sum(part * depth(state) for state, part in enumerate(parts)),)
        ]
        blocks, first = [], 0
        for look, columns in groupby(alike):
            last = first + len(list(columns))
            if look is not None:
                name, colour = looks[look[0]]
                from_, to = self.at(start + first * width), self.at(start + last * width)
                blocks.append(Block(name, from_, to, colour, depth=look[1]))
            first = last
        return blocks
