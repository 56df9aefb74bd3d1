# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Two sides of a sweep, paired by all else, and their change over machines.

A side is the points that match a pattern in each of some columns, such as ``{"governor": "teo"}``;
of a list of patterns one has to match, and ``!`` negates one. A point of one side pairs with the
point of the other that is the same in every column which neither side names. Without a base the
change is from 0, which only shares have.

``params``, the numbers after a machine's name, is a column here: ``{"params": "*latency_us=*"}`` is
a machine with another latency, ``{"params": ""}`` the same machine as it ships.

A machine is a draw: its change is the mean over its scenarios, and an interval is Student's over
machines. Ten more workloads on one machine make no interval narrower.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import fmean
from typing import Any, NamedTuple

from torpor._engine import unknown_name
from torpor.run.sweeps.axes import SweepError, split_numbers
from torpor.run.sweeps.columns import SCENARIO
from torpor.run.sweeps.parts import Row
from torpor.run.sweeps.ranks import change_parts, interval_of_changes, mean_change

#: Columns that a side can name.
COLUMNS = (*SCENARIO, "kind", "governor", "seed", "params")

#: A machine and, of what else a scenario has, what neither side names.
_Scenario = tuple[Any, ...]


class Change(NamedTuple):
    """A metric's change in one scenario, from one side to the other."""

    machine: str
    source: str
    #: What else distinguishes it from the scenarios of this machine and source.
    scenario: _Scenario
    #: By seed: logarithm of the ratio, or the difference of a share.
    parts: tuple[float, ...]

    @property
    def part(self) -> float:
        """The mean over seeds."""
        return fmean(self.parts)

    def is_against(self, sign: float, least: float) -> bool:
        """Whether every seed changes the other way than ``sign``, by ``least`` at least."""
        return all(part * sign <= -least for part in self.parts)


class OverMachines(NamedTuple):
    """Mean change over machines, with its interval if there are three or more."""

    machines: int
    mean: float | None
    low: float | None
    high: float | None

    @property
    def is_certain(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Contrast:
    """Pairs of rows by scenario, and what could not be paired."""

    pairs: Mapping[_Scenario, Sequence[tuple[Row, Row]]]
    #: Points of either side that ended in an error.
    failed: int
    #: Points of either side without a partner.
    alone: int

    def changes(self, metric: Mapping[str, Any]) -> list[Change]:
        """Return the change in each scenario in which both sides have the metric."""
        found = []
        for scenario, rows in self.pairs.items():
            values = [(before[metric["key"]], after[metric["key"]]) for before, after in rows]
            if parts := change_parts(metric, values):
                machine, source, *rest = scenario
                found.append(Change(str(machine), str(source), tuple(rest), tuple(parts)))
        return found


#: Patterns by column.
Side = Mapping[str, str | Sequence[str]]


def contrast(rows: Iterable[Row], base: Side | None, other: Side) -> Contrast:
    """Pair the rows of two sides, or of one with nothing.

    Raises :class:`SweepError` for an unknown column, and for sides that share a point.
    """
    for name in (*(base or ()), *other):
        if name not in COLUMNS:
            raise SweepError(unknown_name("column", name, list(COLUMNS), ""))
    free = [c for c in (*SCENARIO, "kind", "governor") if c not in (base or ()) and c not in other]
    has_params = "params" in (base or ()) or "params" in other
    sides: tuple[dict[Any, Row], dict[Any, Row]] = ({}, {})
    failed = 0
    for row in rows:
        of = [
            side
            for side, given in zip(sides, (base, other), strict=True)
            if given is not None and _is_in(row, given)
        ]
        if len(of) > 1:
            raise SweepError(f"`{row['governor']}` on `{row['platform']}` is on both sides")
        if row["error"]:
            failed += len(of)
            continue
        machine, params = split_numbers(str(row["platform"]))
        rest = [row[c] for c in free if c not in ("source", "platform")]
        rest += [] if has_params else [params]
        scenario = (machine, row["source"], *rest, row["seed"])
        for side in of:
            side[scenario] = row
    if base is None:
        sides[0].update(dict.fromkeys(sides[1], _NOTHING))
    both = sides[0].keys() & sides[1].keys()
    pairs: dict[_Scenario, list[tuple[Row, Row]]] = {}
    for key in sorted(both, key=str):
        pairs.setdefault(key[:-1], []).append((sides[0][key], sides[1][key]))
    return Contrast(pairs, failed, len(sides[0]) + len(sides[1]) - 2 * len(both))


#: Before any change: nothing of each metric.
_NOTHING: Row = defaultdict(float)


def _is_in(row: Row, side: Side) -> bool:
    return all(
        any(_fits(_value(row, name), p) for p in ([given] if isinstance(given, str) else given))
        for name, given in side.items()
    )


def _fits(value: str, pattern: str) -> bool:
    if pattern.startswith("!"):
        return not fnmatchcase(value, pattern[1:])
    return fnmatchcase(value, pattern)


def _value(row: Row, name: str) -> str:
    if name == "params":
        return split_numbers(str(row["platform"]))[1].removeprefix(",")
    return str(row[name])


def over_machines(metric: Mapping[str, Any], changes: Iterable[Change]) -> OverMachines:
    """Return the mean change over machines, each the mean of its own scenarios."""
    own: dict[str, list[float]] = {}
    for change in changes:
        own.setdefault(change.machine, []).append(change.part)
    parts = [fmean(several) for several in own.values()]
    return OverMachines(len(parts), *interval_of_changes(metric, parts))


def in_unit(metric: Mapping[str, Any], part: float) -> float:
    """Return a change's part in percent, or in percentage points of a share."""
    found = mean_change(metric, [part])
    assert found is not None
    return found
