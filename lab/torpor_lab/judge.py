# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Judgement of a predicted cell: by sign, by order and by size, or by the range it should be in.

Everything is said of one row: a metric's values by column, the first column being the base.
Differences below ``noise_pct`` count as none, in the published row as in the simulated one. What
was published as a range or a bound is a list of two numbers, and asks for no more than to be in
there. What was published without a number is ``more`` or ``less`` than the first column, and has
only a sign.

Counts alone flatter: a study is shown with what predictors get that know nothing
of governors, and by how much levels and changes are off.
"""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from torpor_lab import reproduction as shapes

#: A size is right when it is within this factor of the published one.
SIZE_FACTOR = 2.0

#: Signs without a number.
DIRECTIONS = {"more": 1, "less": -1}

Aspect = Literal["sign", "order", "size", "range"]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)

#: Governors whose change serves as a naive prediction for every column.
REFERENCES = ("shallowest", "deepest")

#: The predictor that has every column do as the first.
NO_CHANGE = "no change"


def key_of(reference: str) -> str:
    """Return what the values of a reference are called among those of columns."""
    return f"as {reference}"


_Off = list[float]


@dataclass(frozen=True)
class Row:
    """A row of a table: what was published, and what is predicted."""

    base: str
    #: The table's, in its order.
    columns: list[str]
    published: "Mapping[str, float | list[float] | str]"
    #: Over all seeds, and of each; by column, and those of references by :func:`key_of`.
    ours: Mapping[str, float]
    seeds: Mapping[str, tuple[float, ...]]
    #: Columns that are calibrated, or do not count for another reason.
    skipped: list[str]
    noise_pct: float
    #: The simulated value is scaled to the base: there is no level.
    is_relative: bool = False
    #: Published runs by column, each with the published value as its median.
    runs: Mapping[str, list[float]] = field(default_factory=dict)

    def right(
        self, ours: Mapping[str, float] | None = None, base: str | None = None
    ) -> dict[str, dict[str, bool]]:
        """Judge Torpor's, or another's values, by column: against the first column or another."""
        base = base or self.base
        known = self.ours if ours is None else ours
        columns = {name: known[name] for name in self.columns if name in known}
        return judge_row(self.published, columns, base, self.skipped, self.noise_pct)

    def by(self, predictor: str) -> dict[str, float] | None:
        """Return the prediction of a predictor that knows the base alone, or how a reference
        changes it."""
        if self.base not in self.ours:
            return None
        says = self.ours.get(self.base if predictor == NO_CHANGE else predictor)
        if says is None:
            return None
        return {
            name: self.ours[name] if name == self.base else says
            for name in self.columns
            if name in self.ours
        }

    def of_seed(self, index: int) -> dict[str, float]:
        """Torpor's of one seed, without what is not known of each."""
        return {name: seeds[index] for name, seeds in self.seeds.items() if index < len(seeds)}

    def levels_off(self, ours: Mapping[str, float]) -> dict[str, float]:
        """By how many per cent each level is off."""
        return {
            name: 100 * abs(ours[name] / value - 1)
            for name, value in self._numbers(ours).items()
            if value and not self.is_relative
        }

    def changes_off(self, ours: Mapping[str, float], base: str) -> dict[str, float]:
        """By how many percentage points each change from a base is off."""
        there, here = self.published.get(base), ours.get(base)
        if not isinstance(there, int | float) or not there or not here:
            return {}
        return {
            name: 100 * abs(ours[name] / here - value / there)
            for name, value in self._numbers(ours).items()
            if name != base
        }

    def _numbers(self, ours: Mapping[str, float]) -> dict[str, float]:
        return {
            name: value
            for name, value in self.published.items()
            if isinstance(value, int | float) and name in ours and name not in self.skipped
        }


@dataclass
class _Column:
    """Sums of a column over all rows."""

    verdicts: list[dict[str, bool]] = field(default_factory=list)
    level: _Off = field(default_factory=list)
    change: _Off = field(default_factory=list)
    no_change: _Off = field(default_factory=list)


def study(rows: list[Row], ceiling: "shapes.Ceiling | None" = None) -> "shapes.StudyJudged":
    """Judge a study's rows: by column, for naive predictors, and from a second base."""
    columns: dict[str, _Column] = {}
    for row in rows:
        for name, verdict in row.right().items():
            columns.setdefault(name, _Column()).verdicts.append(verdict)
        for name, off in row.levels_off(row.ours).items():
            columns.setdefault(name, _Column()).level.append(off)
        flat = row.by(NO_CHANGE)
        if flat is None:
            continue
        otherwise = row.changes_off(flat, row.base)
        for name, off in row.changes_off(row.ours, row.base).items():
            columns[name].change.append(off)
            columns[name].no_change.append(otherwise[name])
    return {
        "columns": [_judged_column(name, column) for name, column in columns.items()],
        "level_off_pct": _median(rows, lambda row, ours: row.levels_off(ours)),
        "change_off_pp": _median(rows, lambda row, ours: row.changes_off(ours, row.base)),
        "predictors": [_predictor(rows, name) for name in (NO_CHANGE, *map(key_of, REFERENCES))],
        "second_base": _second_base(rows),
        "ceiling": ceiling,
    }


def _judged_column(name: str, column: _Column) -> "shapes.JudgedColumn":
    change, no_change = _middle(column.change), _middle(column.no_change)
    beats = None if change is None or no_change is None else change < no_change
    return {
        "column": name,
        "counts": count(column.verdicts),
        "level_off_pct": _middle(column.level),
        "change_off_pp": change,
        "no_change_off_pp": no_change,
        "beats_no_change": beats,
    }


def _predictor(rows: list[Row], name: str) -> "shapes.Predictor":
    verdicts: list[dict[str, bool]] = []
    off: _Off = []
    for row in rows:
        says = row.by(name)
        if says is None:
            continue
        # A predictor makes no prediction about the base.
        verdicts += [right for column, right in row.right(says).items() if column != row.base]
        off += row.changes_off(says, row.base).values()
    return {"name": name, "counts": count(verdicts), "change_off_pp": _middle(off)}


def _second_base(rows: list[Row]) -> "shapes.SecondBase | None":
    """Changes from each table's second column, of those after it."""
    verdicts: list[dict[str, bool]] = []
    names: dict[str, None] = {}
    kept = [row for row in rows if len(row.columns) > 2 and row.columns[1] in row.ours]
    for row in kept:
        base = row.columns[1]
        for column, right in row.right(base=base).items():
            # Ranks and ranges do not depend on the base, a sign without a number refers to the
            # first, and the first is back where it was.
            is_number = isinstance(row.published[column], int | float)
            if column not in (row.base, base) and is_number and "sign" in right:
                verdicts.append({key: right[key] for key in ("sign", "size") if key in right})
                names[base] = None

    def off(row: Row, ours: Mapping[str, float]) -> dict[str, float]:
        changes = row.changes_off(ours, row.columns[1])
        return {name: value for name, value in changes.items() if name != row.base}

    if not verdicts:
        return None
    return {
        "columns": list(names),
        "counts": count(verdicts),
        "change_off_pp": _median(kept, off),
    }


def _median(rows: list[Row], off: Any) -> "shapes.Off | None":
    """The median over all cells, and the least and greatest that one seed alone would have had."""
    middle = _middle(value for row in rows for value in off(row, row.ours).values())
    if middle is None:
        return None
    cells = sum(len(off(row, row.ours)) for row in rows)
    seeds = max((len(values) for row in rows for values in row.seeds.values()), default=0)
    alone = [[v for row in rows for v in off(row, row.of_seed(n)).values()] for n in range(seeds)]
    ends = [_middle(values) for values in alone if len(values) == cells]
    known = [end for end in ends if end is not None] if seeds > 1 and len(ends) == seeds else []
    spread = [min(known), max(known)] if known else None
    return {"median": middle, "spread": spread, "of": cells}


def _middle(values: Iterable[float]) -> float | None:
    known = list(values)
    return statistics.median(known) if known else None


def judge_row(
    published: Mapping[str, float | list[float] | str],
    ours: Mapping[str, float],
    base: str,
    calibrated: list[str],
    noise_pct: float,
) -> dict[str, dict[str, bool]]:
    """Return what is right of each predicted cell that both sides have, by column.

    Of the base there is no sign and no order, only whether its level is right.

    >>> judge_row({"a": 10, "b": 5}, {"a": 20, "b": 19}, "a", ["a"], 1.0)
    {'b': {'sign': True, 'order': True, 'size': False}}
    >>> judge_row({"a": [70, 99]}, {"a": 84}, "a", [], 1.0)
    {'a': {'range': True}}
    >>> judge_row({"c": [1, 2], "b": [1, 2], "a": [1, 2]}, {"a": 1, "b": 2, "c": 3}, "a", [], 1.0)
    {'c': {'range': False}, 'b': {'range': True}, 'a': {'range': True}}
    >>> judge_row({"b": "less"}, {"a": 84, "b": 90}, "a", [], 1.0)
    {'b': {'sign': False}}
    """
    noise = noise_pct / 100
    verdicts = {}
    for name, value in published.items():
        if name in calibrated or name not in ours:
            continue
        if isinstance(value, list):
            verdicts[name] = {"range": value[0] <= ours[name] <= value[1]}
        elif isinstance(value, str) and base in ours:
            verdicts[name] = {"sign": _sign(ours[name], ours[base], noise) == DIRECTIONS[value]}
    numbers = {n: v for n, v in published.items() if not isinstance(v, list | str)}
    shared = [name for name in numbers if name in ours]
    for name in shared:
        if name in calibrated:
            continue
        if name == base:
            verdicts[name] = {"size": _is_alike(numbers[name], ours[name])}
        elif base in shared:
            there, here = ({n: row[n] for n in shared} for row in (numbers, ours))
            verdicts[name] = {
                "sign": _sign(there[name], there[base], noise)
                == _sign(here[name], here[base], noise),
                "order": _rank(there, name, noise) == _rank(here, name, noise),
                "size": _is_size_right(there, here, name, base, noise),
            }
    return verdicts


def count(verdicts: list[dict[str, bool]]) -> "dict[Aspect, shapes.Judged]":
    """Return by aspect how many were judged and how many are right."""
    judged: dict[Aspect, shapes.Judged] = {}
    for aspect in ASPECTS:
        found = [verdict[aspect] for verdict in verdicts if aspect in verdict]
        judged[aspect] = {"right": sum(found), "of": len(found)}
    return judged


def summary(counts: "Mapping[Aspect, shapes.Judged]") -> str:
    """Return the counts as a sentence.

    >>> summary(count([{"sign": True, "order": True, "size": False}, {"size": True}]))
    '1 of 1 signs right, 1 of 1 orders, 1 of 2 sizes'
    """
    judged = [(aspect, counts[aspect]) for aspect in ASPECTS if counts[aspect]["of"]]
    if not judged:
        return "nothing to judge"
    first, *others = [f"{found['right']} of {found['of']} {aspect}s" for aspect, found in judged]
    return ", ".join([f"{first} right", *others])


def _sign(value: float, other: float, noise: float) -> int:
    difference = value - other
    if abs(difference) <= noise * max(abs(value), abs(other)):
        return 0
    return 1 if difference > 0 else -1


def _rank(row: dict[str, float], name: str, noise: float) -> int:
    """Return how many columns are lower by more than noise."""
    return sum(_sign(row[name], other, noise) > 0 for other in row.values())


def _is_size_right(
    there: dict[str, float], here: dict[str, float], name: str, base: str, noise: float
) -> bool:
    signs = [_sign(row[name], row[base], noise) for row in (there, here)]
    if 0 in signs or 0 in (there[base], here[base]):
        return signs == [0, 0]
    changes = [row[name] / row[base] - 1 for row in (there, here)]
    return _is_alike(*changes)


def _is_alike(published: float, ours: float) -> bool:
    if published == 0 or ours == 0:
        return published == ours
    return 1 / SIZE_FACTOR <= ours / published <= SIZE_FACTOR
