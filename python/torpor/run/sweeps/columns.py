# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Points of a store as columns, so that a million of them need no million dictionaries."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import groupby
from typing import Any, NamedTuple

from torpor._engine import unknown_name
from torpor.results.table import Value, counted
from torpor.run.sweeps.identity import content_in, is_shipped
from torpor.run.sweeps.parts import COUNTS, Row, columns

#: Fields of a point that distinguish scenarios.
SCENARIO = (
    *("source", "platform", "kernel", "kernel_args", "cpufreq", "io_boost", "scheduler", "hz"),
    *("latency_limit", "options"),
)

#: The column that tells a store's governors apart: the name, and the content where a name had
#: several.
LABEL = "label"
#: The name of a governor, its file's content if the store has several, and its parameters.
_LABEL = r"(?s)([^,]*) \((?:[0-9a-f]{6}|unknown)\)((?:,.*)?)"

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


def unlabelled(label: str) -> str:
    """Return a governor's name from its label."""
    parts = re.fullmatch(_LABEL, label)
    return parts[1] + parts[2] if parts else label


def unknown_governor(governor: str, labels: Iterable[str]) -> str:
    """Say that no governor has this label, or that several could be meant."""
    known = list(dict.fromkeys(labels))
    if several := sorted(label for label in known if unlabelled(label) == governor):
        return (
            f"`{governor}` is ambiguous, because its file was edited: expected "
            f"{' or '.join(f'`{label}`' for label in several)}\nhint: name one of them"
        )
    return unknown_name("governor", governor, known, "")


class Points:
    """Points by columns. A column is decoded when it is asked for, and not kept."""

    def __init__(
        self,
        count: int,
        read: _Read,
        order: Sequence[str],
        label: Callable[[], list[str]] | None = None,
    ) -> None:
        """Hold what reads a column, and the governors in the order in which they were named.

        ``label`` returns the column :data:`LABEL`; default: the points are all that a store has.
        """
        self._count, self._read, self._order = count, read, order
        # Kept, as a hash of each name takes time.
        self._label = label or cache(lambda: _labels(read("governor"), read("point")))
        self._places = {label: number for number, label in enumerate(order)}

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Points":
        """Return rows as columns."""
        order = list(dict.fromkeys(row["governor"] for row in rows))
        return cls(len(rows), lambda name: [row[name] for row in rows], order)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: str) -> list[Any]:
        return self._label() if name == LABEL else self._read(name)

    def at(self, places: Sequence[int]) -> "Points":
        """Return the points at these places."""

        def read(name: str) -> list[Any]:
            return list(map(self[name].__getitem__, places))

        return Points(len(places), read, self._order, partial(read, LABEL))

    def changed(self, made: Mapping[str, Callable[[], list[Any]]]) -> "Points":
        """Return the points with other metrics in the place of these."""

        def read(name: str) -> list[Any]:
            return made[name]() if name in made else self[name]

        found = Points(self._count, read, self._order, self._label)
        found.scenarios, found.paired = self.scenarios, self.paired
        return found

    def _place(self, governor: str) -> int:
        """Return the place among those that sweeps named; those that none named follow."""
        return self._places.get(governor, len(self._places))

    @property
    def governors(self) -> list[str]:
        """Labels of the governors as sweeps named them; those that none named follow."""
        return sorted(self.named, key=lambda label: (self._place(self.named[label]), label))

    @cached_property
    def named(self) -> dict[str, str]:
        """Names of the governors by their labels."""
        return dict(zip(self[LABEL], self["governor"], strict=True))

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
        one build, whose recordings had the same name and other content say, no one knows
        which belongs to the other governors: neither counts. Points with an error are no samples.

        For example, of (teo, seed 1, build x), (menu, 1, x), (menu, 1, y), (menu, 2, x) and
        (menu, 2, x), the first two count.
        """
        (_, scenario_of), governors = self.scenarios, self[LABEL]
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

    def rows(self, names: Sequence[str] | None = None) -> list[Row]:
        """Return every point in order, with these columns; default: all but :data:`COUNTS`."""
        names = names or [name for name in columns() if name != COUNTS]
        whole = [self._read(name) for name in names]
        return [
            {name: column[at] for name, column in zip(names, whole, strict=True)}
            for at in self.in_order(range(self._count))
        ]


def _labels(governors: list[str], names: list[str]) -> list[str]:
    """Return names of governors, with a hash of the file's content where a file had several.

    Points of earlier versions do not tell the content: they are `unknown` next to several others.
    """
    files = {governor: not is_shipped(governor) for governor in set(governors)}
    if not any(files.values()):
        return governors
    contents = [
        content_in(name) if files[governor] else None
        for governor, name in zip(governors, names, strict=True)
    ]
    of_file: dict[str, set[str]] = {}
    for governor, content in set(zip(governors, contents, strict=True)):
        if content is not None:
            of_file.setdefault(governor.partition(",")[0], set()).add(content)

    @cache
    def label(governor: str, content: str | None) -> str:
        file, comma, params = governor.partition(",")
        if len(of_file.get(file, ())) < 2:
            return governor
        return f"{file} ({content or 'unknown'}){comma}{params}"

    return list(map(label, governors, contents))


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
