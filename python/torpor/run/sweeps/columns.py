# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Points of a store as columns, so that a million of them need no million dictionaries."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from torpor.results.table import Value
from torpor.run.sweeps.parts import Row, columns

#: Fields of a point that distinguish scenarios.
SCENARIO = (
    *("source", "platform", "kernel", "cpufreq", "io_boost", "hz", "latency_limit", "options"),
)

Scenario = tuple[Value, ...]
_Read = Callable[[str], list[Any]]


class Points:
    """Points by columns. A column is decoded when it is asked for, and not kept."""

    def __init__(self, count: int, read: _Read, order: Sequence[str]) -> None:
        """Hold what reads a column, and the governors in the order in which they were named."""
        self._count, self._read = count, read
        self._order = order
        self._places = {label: number for number, label in enumerate(order)}

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Points":
        """Return rows as columns."""
        order = list(dict.fromkeys(row["governor"] for row in rows))
        return cls(len(rows), lambda name: [row[name] for row in rows], order)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: str) -> list[Any]:
        return self._read(name)

    def at(self, places: Sequence[int]) -> "Points":
        """Return the points at these places."""
        return Points(
            len(places), lambda name: list(map(self[name].__getitem__, places)), self._order
        )

    def changed(self, made: Mapping[str, Callable[[], list[Any]]]) -> "Points":
        """Return the points with other columns in the place of these, none of a scenario's."""
        found = Points(
            self._count, lambda name: made[name]() if name in made else self[name], self._order
        )
        found.scenarios = self.scenarios
        return found

    def _place(self, governor: str) -> int:
        """Return the place among those that sweeps named; those that none named follow."""
        return self._places.get(governor, len(self._places))

    @property
    def governors(self) -> list[str]:
        """Governors as sweeps named them; those that none named follow."""
        return sorted(set(self["governor"]), key=lambda name: (self._place(name), name))

    @cached_property
    def scenarios(self) -> tuple[list[Scenario], list[int]]:
        """The scenarios in order, and the number of each point's."""
        number_of: dict[Scenario, int] = {}
        cells = zip(*map(self._read, SCENARIO), strict=True)
        numbers = [number_of.setdefault(cell, len(number_of)) for cell in cells]
        ordered = sorted(number_of, key=lambda scenario: [str(part) for part in scenario])
        place = {number_of[scenario]: index for index, scenario in enumerate(ordered)}
        return ordered, [place[number] for number in numbers]

    def in_order(self, places: Sequence[int]) -> list[int]:
        """Return places of points by governor, then by the points' names."""
        names, governors = self["point"], self["governor"]
        return sorted(places, key=lambda at: (self._place(governors[at]), names[at]))

    def rows(self) -> list[Row]:
        """Return every point with all columns, in order."""
        names = list(columns())
        whole = [self._read(name) for name in names]
        return [
            {name: column[at] for name, column in zip(names, whole, strict=True)}
            for at in self.in_order(range(self._count))
        ]
