# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Choices of one CPU over time, a row for each governor, and where they differ from one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torpor.results.numbers import duration, number_text, share_text
from torpor.results.picture import Block, Picture, Row, Rows, state_colour
from torpor.results.table import Table, word

#: Columns of the whole in a page of one recording; those of several recordings share them.
COLUMNS = 160
#: Sleeps of a row in the close-up, at most.
_CLOSE = 30
#: Steps of a column's mean depth: columns of the same step are one block.
_DEPTHS = 24

#: From, to (ns), and the index of an idle state, or of one of two signs.
Segment = tuple[int, int, int]
_SIGNS = (("deeper", "--above"), ("shallower", "--below"))


def picture(strips: Sequence[Strip], columns: int) -> Picture:
    """Return the picture of strips, each whole in so many columns."""
    lead = (
        "Blocks hang deeper for deeper states; gaps are running. Below a row: where its state is "
        f"deeper or shallower than that of {strips[0].base} while both sleep. The whole is in "
        f"{columns} columns, each with the mean depth of its sleeps and the colour of the "
        "commonest state. A trace for Perfetto has every sleep of every CPU."
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
        self._differences = [
            [
                (a, b, int(mine < its))
                for a, b, mine, its in both(row, self._rows[self._base])
                if mine != its
            ]
            for row in self._rows
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
            self._drawn(close, start, end, 0),
        ]

    def _agreement(self) -> Table:
        """Return how each row agrees with the one that it is compared with."""
        lines = []
        for place, row in enumerate(self._rows):
            shares = ["–"] * 3
            if place != self._base:
                whole = sum(b - a for a, b, *_ in both(row, self._rows[self._base]))
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
        start, end = spans[found.index(max(found))]
        later = [[b for _, b, _ in row if b > start] for row in self._rows]
        return start, min([end, *(ends[_CLOSE] for ends in later if len(ends) > _CLOSE)])

    def _drawn(self, title: str, start: int, end: int, columns: int) -> Rows:
        """Return a time of the strip in so many columns, or sleep by sleep."""
        unit, size = next(
            (unit for unit in (("s", 1e9), ("ms", 1e6)) if end - start >= unit[1]), ("µs", 1e3)
        )

        def depth(state: int) -> float:
            return (state + 1) / len(self._states)

        rows = []
        for place, (name, row) in enumerate(zip(self.names, self._rows, strict=True)):
            scale = (self._start, size, start, end)
            if columns:
                sleeps = _in_columns(row, self._states, depth, columns, scale)
            else:
                sleeps = _one_by_one(row, self._states, depth, scale)
            rows.append(Row(name, sleeps))
            if place != self._base:
                signs = self._differences[place]
                rows.append(
                    Row(
                        "",
                        _in_columns(signs, _SIGNS, lambda _: 1.0, columns or COLUMNS, scale),
                        height=5,
                    )
                )
        ends = (start - self._start) / size, (end - self._start) / size
        return Rows(
            title, "", rows, ends, f"{unit} from the start", legend=[*self._states, *_SIGNS]
        )


_Scale = tuple[int, float, int, int]
_Looks = Sequence[tuple[str, str]]


def _one_by_one(
    row: list[Segment], looks: _Looks, depth: Callable[[int], float], scale: _Scale
) -> list[Block]:
    origin, size, start, end = scale
    return [
        Block(
            looks[state][0],
            (max(a, start) - origin) / size,
            (min(b, end) - origin) / size,
            looks[state][1],
            hint=f"{looks[state][0]} {duration(b - a)}",
            depth=depth(state),
        )
        for a, b, state in row
        if a < end and b > start
    ]


def _in_columns(
    row: list[Segment], looks: _Looks, depth: Callable[[int], float], count: int, scale: _Scale
) -> list[Block]:
    """Return a block for each run of columns alike."""
    origin, size, start, end = scale
    width = (end - start) / count
    sums = [[0.0] * len(looks) for _ in range(count)]
    for a, b, state in row:
        if b <= start or a >= end:
            continue
        low, high = (max(a, start) - start) / width, (min(b, end) - start) / width
        for at in range(int(low), min(math.ceil(high), count)):
            sums[at][state] += min(high, at + 1) - max(low, at)
    blocks: list[Block] = []
    for at, parts in enumerate(sums):
        mean = sum(part * depth(state) for state, part in enumerate(parts))
        if not mean:
            continue
        name, colour = looks[parts.index(max(parts))]
        from_, to = ((start - origin + width * place) / size for place in (at, at + 1))
        block = Block(name, from_, to, colour, depth=max(1, round(mean * _DEPTHS)) / _DEPTHS)
        last = blocks[-1] if blocks else None
        if (
            last
            and last._replace(start=0, end=from_) == block._replace(start=0, end=from_)
            and math.isclose(last.end, from_)
        ):
            blocks[-1] = last._replace(end=to)
        else:
            blocks.append(block)
    return blocks


def both(row: list[Segment], other: list[Segment]) -> Iterator[tuple[int, int, int, int]]:
    """Yield from, to, and both states of each time in which both rows sleep."""
    i = j = 0
    while i < len(row) and j < len(other):
        (a1, b1, s1), (a2, b2, s2) = row[i], other[j]
        if max(a1, a2) < min(b1, b2):
            yield max(a1, a2), min(b1, b2), s1, s2
        if b1 <= b2:
            i += 1
        else:
            j += 1
