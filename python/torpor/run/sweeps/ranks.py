# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Reads a store: governors against scenarios, and ranks over scenarios with their uncertainty.

A *scenario* is all that a point has besides its governor and seed: input, machine, options. A
governor in a scenario is a *cell*, whose value is the mean over its seeds. Only cells of one
scenario are compared, by the seeds that all of them have, because scenarios differ by more than
governors do:

    idle power, mW        menu    teo   ladder
    video.dat, pixel6      100     90     120       ranks  2  1  3
    idle.dat, pixel6         4      5       6       ranks  1  2  3
    game.dat, pixel6       300    270  crashed      no ranks: not all finished

The summary is over the first two scenarios. teo's change from menu is the geometric mean of
90/100 and 5/4, which is +6.1 %: twice as much here and half as much there cancel out. Its mean
rank is 1.5. Of a share, which may be 0, the change is the mean difference in percentage points.
Each has Student's 95 % interval over scenarios, from three of them on.

:class:`Cells` sorts points into cells, :func:`summed` computes the summary, and :func:`view` makes
tables of both. Columns stay columns, as a store may have a million points.
"""

import functools
import json
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import groupby, pairwise
from statistics import fmean
from typing import Any

from torpor._engine import Moments, unknown_name
from torpor.results.catalogue import RUNS, distances, leading
from torpor.results.catalogue import metrics as catalogue
from torpor.results.sentences import is_reference
from torpor.results.table import Cell, Post, Table, Value, Verdict, counted, minus, number, word
from torpor.results.text import distinct_names
from torpor.run.sweeps.axes import SweepError
from torpor.run.sweeps.columns import LABEL, SCENARIO, Points, Scenario, unknown_governor
from torpor.run.sweeps.parts import Row

#: More scenarios than this are no table to read.
_EACH_MAX = 30

#: What a machine without work takes.
DEFAULT_METRICS = leading("cost", "replay")[:1]

#: A mean, and the ends of its 95 % interval.
_Interval = tuple[float | None, float | None, float | None]
#: Means over seeds of each governor, by the scenarios' numbers.
_Means = Mapping[str, Sequence[float | None]]


class Cells:
    """Points without an error as cells: a governor in a scenario, with its seeds."""

    def __init__(self, points: Points, governors: Sequence[str]) -> None:
        """Sort the points that may be compared (:attr:`Points.paired`) into cells."""
        self.governors, (self.scenarios, numbers) = governors, points.scenarios
        place, width = {g: number for number, g in enumerate(governors)}, len(governors)
        cell_of = [
            number * width + place[governor]
            for number, governor in zip(numbers, points[LABEL], strict=True)
        ]
        # Replays have one seed, None.
        seeds = [-1 if seed is None else seed for seed in points["seed"]]
        self.paired = points.paired
        # Stable: within a cell they stay in order of their seeds.
        rows = sorted(self.paired.places, key=cell_of.__getitem__)
        #: Places of the points by cell and seed; the cells that have any, and where each begins.
        self._rows = rows
        own = [cell_of[row] for row in rows]
        self._starts = [at for at, cell in enumerate(own) if not at or cell != own[at - 1]]
        self._cells = [own[at] for at in self._starts]
        self._starts.append(len(rows))
        self._seeds = [seeds[row] for row in rows]
        self._partial = self._partial_rows(numbers, points[LABEL], seeds)

    def _partial_rows(
        self, numbers: Sequence[int], governors: Sequence[str], seeds: Sequence[int]
    ) -> set[int]:
        """Return the places of the points with seeds that not all governors of a scenario have."""
        found: set[int] = set()
        for _, places in groupby(self.paired.places, numbers.__getitem__):
            own = [at for at in places if governors[at] != "oracle"]
            width, runs = len({governors[at] for at in own}), Counter(seeds[at] for at in own)
            if len(own) < width * len(runs):
                found.update(at for at in own if runs[seeds[at]] < width)
        return found

    def means(self, column: Sequence[float | None]) -> _Means:
        """Return a metric's means over the seeds that all governors of a scenario have."""
        values = [column[row] for row in self._rows]
        if self._partial:
            lacking = (row in self._partial for row in self._rows)
            values = [
                None if is_partial else v for v, is_partial in zip(values, lacking, strict=True)
            ]
        if len(self._cells) < len(values):
            values = [_mean(values[start:end]) for start, end in pairwise(self._starts)]
        dense = values
        if len(values) < (size := len(self.scenarios) * len(self.governors)):
            dense = [None] * size
            for cell, value in zip(self._cells, values, strict=True):
                dense[cell] = value
        return {g: dense[at :: len(self.governors)] for at, g in enumerate(self.governors)}

    def of(self, scenario: int) -> list[dict[int, int]]:
        """Return the places of a scenario's points, by seed, of each governor."""
        width = len(self.governors)
        found: list[dict[int, int]] = [{} for _ in self.governors]
        at = bisect_left(self._cells, scenario * width)
        while at < len(self._cells) and self._cells[at] < (scenario + 1) * width:
            own = slice(self._starts[at], self._starts[at + 1])
            found[self._cells[at] % width] = dict(
                zip(self._seeds[own], self._rows[own], strict=True)
            )
            at += 1
        return found


def view(
    points: Points,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    base: str | None = None,
    filters: Mapping[str, Sequence[str]] | None = None,
    each: bool | None = None,
) -> Post:
    """Return tables of governors against scenarios, and of ranks over scenarios.

    Args:
        points: Points, as :meth:`Store.points` returns them.
        metrics: Keys of the catalogue.
        base: The governor that the others are compared with; default: the first one that a sweep
            named.
        filters: Patterns by column: only points that match one of each column's are shown.
        each: Show every scenario; default: if there are no more than can be read.

    A cell is a mean over seeds, and its change from the base in the same scenario. The summary has
    the geometric mean of ratios to the base, and the mean rank, each with Student's 95 % interval
    over scenarios. Only scenarios that every governor finished count there.

    Raises :class:`SweepError` for an unknown metric, base or column, and where no point is left.
    """
    # Before the filters: they may leave the oracle out.
    found = filtered(against_oracle(points), filters or {})
    infos = [metric_info(key) for key in metrics]
    cells = Cells(found, governors_of(found, base))
    scenarios, numbers = found.scenarios
    label = labels(scenarios)
    shows_each = len(scenarios) <= _EACH_MAX if each is None else each
    tables = []
    for info in infos:
        column = found[info["key"]]
        if not is_known(column):
            continue
        if shows_each:
            tables.append(_against(info, column, cells, label))
        tables.append(_summary(info, cells.means(column)))
    failed = failures(found)
    governors, errors = found[LABEL], found["error"]
    notes = [
        f"{governors[at]} in {label(scenarios[numbers[at]])}: {errors[at]}" for at in failed[:10]
    ]
    if len(failed) > 10:
        notes.append(f"{len(failed) - 10} more points have an error")
    notes += cells.paired.notes
    if len(builds := set(found["engine"])) > 1:
        notes.append(
            f"points of {len(builds)} builds of Torpor: `torpor store gc --this-build` drops the "
            "others'"
        )
    if not shows_each and each is None:
        notes.append("--each shows every scenario, --only some of them")
    if not tables:
        notes.append("no point has a value of this metric")
    title = (
        f"{counted(len(found), 'point')}: {counted(len(cells.governors), 'governor')}, "
        f"{counted(len(scenarios), 'scenario')}"
    )
    facts = [f"changes are from {cells.governors[0]}"]
    return Post(title, facts, tables, notes, verdict=verdict(found, cells))


def verdict(points: Points, cells: Cells) -> Verdict | None:
    """Return which governor takes the least power over scenarios, and how certain that is.

    A change that may be chance is no verdict. None where no power is known.
    """
    for key in leading("cost", "replay"):
        column = points[key]
        if is_known(column):
            break
    else:
        return None
    metric = metric_info(key)
    count, lines = summed(metric, cells.means(column))
    known = [
        (mean, name, low, high)
        for name, (mean, low, high), _ in lines[1:]
        if mean is not None and not is_reference(name)
    ]
    if not known:
        return None
    title = metric["noun"]
    base, over = cells.governors[0], counted(count, "scenario")
    certain = [each for each in known if each[3] is not None and each[3] < 0]
    mean, name, low, high = min(certain or known)
    certainty = "one scenario has no measure of chance"
    if low is not None and high is not None:
        certainty = minus(f"95 % interval {low:+.1f} to {high:+.1f} %")
        if low < 0 < high:
            figure = f"takes less {title} than {base} beyond chance, over {over}"
            certainty = minus(f"the nearest is {name}, {mean:+.2g} %; {certainty}")
            return Verdict("No governor", figure, certainty)
    change = f"{float(f'{abs(mean):.2g}'):g} % {'less' if mean < 0 else 'more'} {title}"
    return Verdict(name, f"takes {change} than {base}, on average over {over}", certainty)


def is_known(column: Sequence[float | None]) -> bool:
    """Return whether any point has a metric."""
    return column.count(None) < len(column)


def failures(points: Points) -> list[int]:
    """Return the places of the points with an error, in order."""
    return points.in_order([at for at, error in enumerate(points["error"]) if error])


def against_oracle(points: Points) -> Points:
    """Return the points, replays with their distance to the oracle where the store has its point.

    A replay of one governor does not know the oracle of the same scenario; the engine would give
    the same figure if it had run both.
    """
    governors, kinds = points["governor"], points["kind"]
    is_replay = [kind == "replay" for kind in kinds]
    if not any(g == "oracle" and is_replay[at] for at, g in enumerate(governors)):
        return points
    _, numbers = points.scenarios
    # A replay has one seed, so that a scenario has one oracle at most.
    best = {
        numbers[at]: at
        for at in points.paired.places
        if governors[at] == "oracle" and is_replay[at]
    }

    def over(energy: str, distance: str) -> list[float | None]:
        energies, known = points[energy], points[distance]
        # The oracle's own run can cost more than its bound.
        least = {
            number: energies[at] and energies[at] / (1 + (known[at] or 0) / 100)
            for number, at in best.items()
        }
        return [
            100 * (value / bound - 1)
            if value is not None
            and is_replay[at]
            and governors[at] != "oracle"
            and (bound := least.get(numbers[at]))
            else known[at]
            for at, value in enumerate(energies)
        ]

    return points.changed({pair[1]: functools.partial(over, *pair) for pair in distances().items()})


def metric_info(key: str, *, is_judged: bool = False) -> dict[str, Any]:
    """Return a metric of the catalogue.

    Raises :class:`SweepError` if there is none of that name, or if a change of it is neither
    better nor worse and ``is_judged``.
    """
    known = catalogue(*RUNS)
    if key not in known:
        raise SweepError(unknown_name("metric", key, list(known), ""))
    if is_judged and known[key]["direction"] == "none":
        raise SweepError(f"`{key}` is neither better nor worse when it changes")
    return known[key]


def change_unit(metric: Mapping[str, Any]) -> str:
    """Return the unit of a metric's changes: percent, percentage points of a share."""
    return "pp" if metric["kind"] == "share" else "%"


def change_of(metric: Mapping[str, Any], before: float, after: float) -> float | None:
    """Return one change in :func:`change_unit`; None if the divisor is 0."""
    if metric["kind"] == "share":
        return after - before
    return 100 * (after - before) / before if before else None


def change_parts(
    metric: Mapping[str, Any], pairs: Iterable[tuple[float | None, float | None]]
) -> list[float]:
    """Return the change of each pair, before and after, so that their mean can be taken.

    That is the difference of a share, and the logarithm of the ratio of all else. Pairs of which
    one is missing, or that have no ratio, are left out.
    """
    is_share = metric["kind"] == "share"
    return [
        after - before if is_share else math.log(after / before)
        for before, after in pairs
        if before is not None and after is not None and (is_share or (before > 0 and after > 0))
    ]


def mean_change(metric: Mapping[str, Any], parts: Sequence[float]) -> float | None:
    """Return the mean of :func:`change_parts` in :func:`change_unit`; None without parts."""
    if not parts:
        return None
    return fmean(parts) if metric["kind"] == "share" else 100 * math.expm1(fmean(parts))


def governors_of(points: Points, base: str | None) -> list[str]:
    """Return the governors as sweeps named them, the base first and the oracle last.

    The base is the first one unless it is named. Raises :class:`SweepError` for a base that is
    none of them, and without any.
    """
    if not len(points):
        raise SweepError("the store has no points")
    names = sorted(points.governors, key=lambda name: name == "oracle")
    base = base or names[0]
    if base not in names:
        raise SweepError(unknown_governor(base, names))
    return [base, *(name for name in names if name != base)]


def filtered(points: Points, filters: Mapping[str, Sequence[str]]) -> Points:
    """Return the points that match one pattern of each column; a governor's label may match, too.

    Raises :class:`SweepError` for an unknown column, and where no point is left.
    """
    names = ("kind", "governor", "seed", *SCENARIO)
    found: Sequence[int] = range(len(points))
    for name, patterns in filters.items():
        if name not in names:
            raise SweepError(unknown_name("column", name, list(names), ""))
        matched: set[int] = set()
        for column in (points[each] for each in (name, LABEL)[: 1 + (name == "governor")]):
            fits = {v for v in set(column) if any(fnmatchcase(str(v), each) for each in patterns)}
            matched.update(at for at in found if column[at] in fits)
        found = sorted(matched)
    if not found:
        raise SweepError("no point is left" if filters else "the store has no points")
    return points.at(found) if filters else points


def scenario_of(row: Row) -> Scenario:
    """Return all that a point has in common with those it is compared with."""
    return tuple(row[column] for column in SCENARIO)


def label_of(scenario: Scenario, columns: Iterable[str] = SCENARIO) -> str:
    """Name a scenario by its source and the given columns."""
    parts = [str(scenario[0])]
    for column, value in zip(SCENARIO[1:], scenario[1:], strict=True):
        if column not in columns or value is None or value == "{}":
            continue
        if column == "options":
            given = json.loads(str(value))
            parts.append(",".join(f"{name}={text}" for name, text in sorted(given.items())))
        else:
            parts.append(str(value) if column == "platform" else f"{column} {value}")
    return ", ".join(parts)


def varied(scenarios: Sequence[Scenario]) -> list[str]:
    """Return the columns that distinguish scenarios: source, machine, and others that vary for a
    source."""
    of_source: dict[Value, list[Scenario]] = {}
    for scenario in scenarios:
        of_source.setdefault(scenario[0], []).append(scenario)
    return [
        column
        for index, column in enumerate(SCENARIO)
        if column in ("source", "platform")
        or any(len({s[index] for s in several}) > 1 for several in of_source.values())
    ]


def labels(scenarios: Sequence[Scenario]) -> Callable[[Scenario], str]:
    """Return the names of scenarios, by the columns that distinguish them."""
    columns = varied(scenarios)
    short = distinct_names(str(scenario[0]) for scenario in scenarios)
    return lambda scenario: label_of((short[str(scenario[0])], *scenario[1:]), columns)


def _against(
    metric: Mapping[str, Any],
    column: Sequence[float | None],
    cells: Cells,
    label: Callable[[Scenario], str],
) -> Table:
    base, *others = cells.governors
    headings = ["scenario", base]
    for governor in others:
        headings += [governor, f"change {change_unit(metric)}"]
    lines: list[list[Cell]] = []
    for place, scenario in enumerate(cells.scenarios):
        of_base, *rest = (
            {seed: value for seed, row in own.items() if (value := column[row]) is not None}
            for own in cells.of(place)
        )
        line = [word(label(scenario)), _significant(of_base.values())]
        for mine in rest:
            shared = sorted(mine.keys() & of_base.keys())
            change = None
            if shared:
                before = fmean(of_base[seed] for seed in shared)
                change = change_of(metric, before, fmean(mine[seed] for seed in shared))
            line += [_significant(mine.values()), number(change, 1, is_signed=True)]
        if any(cell.value is not None for cell in line[1:]):
            lines.append(line)
    unit = f", {metric['unit']}" if metric["unit"] else ""
    # A folded table keeps a governor's value and change together; the base stands alone.
    return Table(metric["key"], f"{metric['title']}{unit}", headings, lines, 1)


def _significant(values: Iterable[float]) -> Cell:
    several = list(values)
    if not several:
        return number(None)
    mean = fmean(several)
    return Cell(mean, f"{mean:.4g}" if abs(mean) < 1e4 else f"{mean:.0f}")


def _summary(metric: Mapping[str, Any], means: _Means) -> Table:
    """Change from the base and mean rank, over scenarios that all finished.

    The change is the geometric mean of ratios, or the mean difference of a share.
    """
    count, found = summed(metric, means)
    lines = []
    for governor, change, rank in found:
        cells = [word(governor), number(float(count))]
        cells += [number(end, 2, is_signed=True) for end in change]
        cells += [number(end, 2) for end in rank or ()]
        lines.append(cells)
    unit = change_unit(metric)
    mean = f"{'mean' if unit == 'pp' else 'geomean'} change {unit}"
    headings = ["governor", "scenarios", mean, "low", "high"]
    if metric["direction"] != "none":
        headings += ["mean rank", "rank low", "rank high"]
    return Table(f"{metric['key']} summary", f"{metric['title']}, over scenarios", headings, lines)


def summed(
    metric: Mapping[str, Any], means: _Means
) -> tuple[int, list[tuple[str, _Interval, _Interval | None]]]:
    """Return how many scenarios all finished, and each governor's change and rank over them.

    The first governor is the base. The oracle has no rank, and no governor has one where neither
    direction is better.
    """
    ranked = [governor for governor in means if governor != "oracle"]
    whole = [line for line in zip(*(means[g] for g in ranked), strict=True) if None not in line]
    values = list(zip(*whole, strict=True)) or [()] * len(ranked)
    is_ranked = metric["direction"] != "none"
    ranks = _ranks(whole, is_higher_better=metric["direction"] == "higher") if is_ranked else []
    lines = []
    for place, governor in enumerate(ranked):
        parts = change_parts(metric, zip(values[0], values[place], strict=True))
        rank = None
        if is_ranked:
            own = [line[place] for line in ranks]
            # No rank is better than the first one or worse than the last.
            at, first, last = (
                end and min(max(end, 1.0), float(len(ranked))) for end in _interval(own)
            )
            rank = (at, first, last)
        lines.append((governor, interval_of_changes(metric, parts), rank))
    return len(whole), lines


def interval_of_changes(metric: Mapping[str, Any], parts: Sequence[float]) -> _Interval:
    """Return the mean of :func:`change_parts` with its interval, in :func:`change_unit`."""
    mean, low, high = (
        mean_change(metric, [] if end is None else [end]) for end in _interval(parts)
    )
    return mean, low, high


def front_of(found: Mapping[str, tuple[float | None, ...]], signs: Sequence[int]) -> list[str]:
    """Return those that no other beats in all objectives, in the order of the first one.

    A sign is 1 where less is better, and −1 where more is.
    """
    costs = {
        name: tuple(
            sign * value for sign, value in zip(signs, values, strict=True) if value is not None
        )
        for name, values in found.items()
    }
    whole = {name: cost for name, cost in costs.items() if len(cost) == len(signs)}

    def is_beaten(name: str) -> bool:
        mine = whole[name]
        return any(
            other != mine and all(o <= m for o, m in zip(other, mine, strict=True))
            for other in whole.values()
        )

    # First of settings with equal outcomes: parameters without effect make many.
    seen: dict[tuple[float, ...], str] = {}
    for name in whole:
        if not is_beaten(name):
            seen.setdefault(whole[name], name)
    return [seen[cost] for cost in sorted(seen)]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _ranks(lines: Iterable[Sequence[float]], *, is_higher_better: bool) -> list[list[float]]:
    """Rank governors in each scenario, 1 being best; equal ones share the mean of their ranks."""
    found = []
    for line in lines:
        ordered = sorted(line)
        ranks = [(bisect_left(ordered, v) + bisect_right(ordered, v) + 1) / 2 for v in line]
        found.append([len(line) + 1 - rank for rank in ranks] if is_higher_better else ranks)
    return found


def _interval(sample: Sequence[float]) -> _Interval:
    """Return the mean and Student's 95 % interval of it.

    Two values have none: it would be 13 times as wide as their distance.
    """
    if len(sample) < 3:
        return (fmean(sample) if sample else None), None, None
    return Moments(sample).interval()
