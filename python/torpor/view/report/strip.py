# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The strips of the CPUs' choices: packed for the page, and compared with the oracle's.

A row is base64 of varints (7 bits a byte, low first, top bit: more follow), two a sleep: the gap
since the sleep before ended, then length * state count + state. Both count a quantum of time.
"""

from __future__ import annotations

from base64 import b64encode
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import TypedDict

from torpor.results import types as results

# Finest first: rounding comes before cutting, since a reader sees pixels but misses seconds.
_QUANTA_NS = (1, 10, 100, 1000)

#: Rows are packed up to this part of their length first, then up to twice that, and so on: a page
#: has space for the beginning of many rows.
_FIRST_PART = 256

Segment = tuple[int, int, int]


class Packed(TypedDict):
    """A strip's rows, whole and as text for the page."""

    quantum_ns: int
    shown_ns: int
    whole_ns: int
    rows: list[list[Segment]]
    packed: list[str]


class Strip:
    """One CPU's sleeps under every governor, which can be packed."""

    def __init__(self, raw: results.Strip, state_count: int) -> None:
        self.raw = raw
        self.state_count = state_count
        start = raw["start_ns"]
        self._rows = [
            [(a - start, b - start, s) for a, b, s in row["segments"] if s >= 0]
            for row in raw["rows"]
        ]
        self._begun: dict[int, list[_Coded]] = {}

    def size(self, budget_bytes: int) -> int:
        """Return the size of the whole strip in the page, which may exceed the budget."""
        least = self._least()
        return least if least > budget_bytes else _size(self._coded(_QUANTA_NS[0], budget_bytes))

    def _least(self) -> int:
        """The size of the whole strip if every number had a byte."""
        return _base64_size(2 * len(row) for row in self._rows)

    def pack(self, budget_bytes: int) -> Packed:
        """Rows for the page within so much of base64, and how they were rounded and cut."""
        rows = self._rows
        shown = whole = self.raw["end_ns"] - self.raw["start_ns"]
        # Strips that cannot fit are rounded most.
        fits = self._least() <= budget_bytes
        for quantum in _QUANTA_NS if fits else _QUANTA_NS[-1:]:
            coded = self._coded(quantum, budget_bytes)
            if _size(coded) <= budget_bytes:
                break
        else:
            shown = _longest(coded, rows, coded[0].until, budget_bytes)
            rows = [[(a, min(b, shown), s) for a, b, s in row if a < shown] for row in rows]
            coded = [_Coded(row, quantum, self.state_count).extend(whole) for row in rows]
        return {
            "quantum_ns": quantum,
            "shown_ns": shown,
            "whole_ns": whole,
            "rows": rows,
            "packed": [b64encode(c.data).decode() for c in coded],
        }

    def _coded(self, quantum: int, budget_bytes: int) -> list[_Coded]:
        """The rows, or so much of them from the start that they exceed the budget."""
        whole = self.raw["end_ns"] - self.raw["start_ns"]
        if quantum not in self._begun:
            self._begun[quantum] = [_Coded(row, quantum, self.state_count) for row in self._rows]
        coded = self._begun[quantum]
        until = coded[0].until or whole // _FIRST_PART
        while coded[0].until < whole and _size(coded) <= budget_bytes:
            until = min(2 * until + 1, whole)
            for row in coded:
                row.extend(until)
        return coded


def shares(sizes: list[int], budget: int) -> list[int]:
    """Return each strip's share of the page: the first, half; the others, equal parts.

    What one does not need goes to those that need more.
    """
    if not sizes:
        return []
    given = [0] * len(sizes)
    given[0] = min(sizes[0], max(budget // 2, budget - sum(sizes[1:])))
    left = budget - given[0]
    others = sorted(range(1, len(sizes)), key=lambda index: (sizes[index], index))
    for done, index in enumerate(others):
        given[index] = min(sizes[index], left // (len(others) - done))
        left -= given[index]
    return given


class _Coded:
    """One packed row; `marks[i]` is the number of bytes up to and with segment i."""

    def __init__(self, row: list[Segment], quantum: int, state_count: int) -> None:
        self.data = bytearray()
        self.marks: list[int] = []
        #: It has the segments that begin before.
        self.until = 0
        self._row, self._quantum, self._state_count = row, quantum, state_count
        self._before = 0

    def extend(self, until: int) -> _Coded:
        """Pack the segments that begin before `until`, the end of all included."""
        quantum, state_count, before = self._quantum, self._state_count, self._before
        end = bisect_left(self._row, until, key=_start)
        data, marks = self.data, self.marks
        for a, b, state in islice(self._row, len(marks), end):
            first, last = (a + quantum // 2) // quantum, (b + quantum // 2) // quantum
            if first < before or last < first or state >= state_count:
                raise ValueError(f"strip: sleep {a}..{b} ns in state {state} is out of order")
            for value in (first - before, (last - first) * state_count + state):
                while value > 0x7F:
                    data.append(value & 0x7F | 0x80)
                    value >>= 7
                data.append(value)
            marks.append(len(data))
            before = last
        self._before, self.until = before, until
        return self


def _start(segment: Segment) -> int:
    return segment[0]


def _size(coded: list[_Coded]) -> int:
    return _base64_size(len(c.data) for c in coded)


def _base64_size(lengths: Iterator[int]) -> int:
    return sum((n + 2) // 3 * 4 for n in lengths)


def _longest(coded: list[_Coded], rows: list[list[Segment]], whole: int, budget: int) -> int:
    """The longest time from the start whose sleeps fit the budget in every row together."""
    starts = [[segment[0] for segment in row] for row in rows]
    low, high = 0, whole
    while low < high:
        middle = (low + high + 1) // 2
        counts = [bisect_left(row, middle) for row in starts]
        size = _base64_size(c.marks[n - 1] if n else 0 for c, n in zip(coded, counts, strict=True))
        low, high = (middle, high) if size <= budget else (low, middle - 1)
    return low


def against_oracle(row: list[Segment], oracle: list[Segment]) -> dict[str, int]:
    """Time in ns that both sleep, and of it the time the row is deeper, or shallower."""
    both = deeper = shallower = i = j = 0
    while i < len(row) and j < len(oracle):
        (a1, b1, s1), (a2, b2, s2) = row[i], oracle[j]
        overlap = min(b1, b2) - max(a1, a2)
        if overlap > 0:
            both += overlap
            deeper += overlap if s1 > s2 else 0
            shallower += overlap if s1 < s2 else 0
        if b1 <= b2:
            i += 1
        else:
            j += 1
    return {"both_ns": both, "deeper_ns": deeper, "shallower_ns": shallower}
