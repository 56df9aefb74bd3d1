# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Points of a store as columns, so that a million of them need no million dictionaries."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from torpor.results.table import Value, counted
from torpor.run.sweeps.parts import Row, columns

#: Fields of a point that distinguish scenarios.
SCENARIO = (
    *("source", "platform", "kernel", "cpufreq", "io_boost", "hz", "latency_limit", "options"),
)

Scenario = tuple[Value, ...]
_Read = Callable[[str], list[Any]]


class Paired(NamedTuple):
    """Points of which no two have the same governor, scenario and seed."""

    #: Their places, in order of scenario and seed.
    places: list[int]
    #: The number of other points without an error, which do not count.
    left_out: int

    @property
    def notes(self) -> list[str]:
        """A sentence on the points that do not count, if there are any."""
        if not self.left_out:
            return []
        return [
            f"{counted(self.left_out, 'point')} left out: the store has others of the same "
            "governor, scenario and seed"
        ]


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
        """Return the points with other metrics in the place of these."""
        found = Points(
            self._count, lambda name: made[name]() if name in made else self[name], self._order
        )
        found.scenarios, found.paired = self.scenarios, self.paired
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

    @cached_property
    def paired(self) -> Paired:
        """The points that may be compared: governors pair by scenario and seed.

        A sample is a scenario with a seed: in each, a governor counts once. Points of one build
        come before those of another, the build that has the most governors first. Of two points of
        one build, whose files had the same names and other content say, no one knows which
        belongs to the other governors: neither counts. Points with an error are no samples.

        For example, of (teo, seed 1, build x), (menu, 1, x), (menu, 1, y), (menu, 2, x) and
        (menu, 2, x), the first two count.
        """
        (_, scenario_of), governors = self.scenarios, self["governor"]
        # Replays have one seed, None.
        seeds = [-1 if seed is None else seed for seed in self["seed"]]
        every = [at for at, error in enumerate(self["error"]) if error is None]
        every.sort(key=seeds.__getitem__)
        every.sort(key=scenario_of.__getitem__)
        engines = self["engine"]
        places: list[int] = []
        for _, sample in groupby(every, lambda at: (scenario_of[at], seeds[at])):
            own = list(sample)
            if len({governors[at] for at in own}) < len(own):
                own = _distinct(own, governors, engines)
            places += own
        return Paired(places, len(every) - len(places))

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


def _distinct(places: Iterable[int], governors: Sequence[str], engines: Sequence[str]) -> list[int]:
    """Return the points of a sample that count, one of each governor at most."""
    of_build = Counter((engines[at], governors[at]) for at in places)
    single = [at for at in places if of_build[engines[at], governors[at]] == 1]
    size = Counter(engines[at] for at in single)
    single.sort(key=lambda at: (-size[engines[at]], engines[at]))
    found: dict[str, int] = {}
    for at in single:
        found.setdefault(governors[at], at)
    return list(found.values())
