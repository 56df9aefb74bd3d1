# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Reads a store: governors against scenarios, and ranks over scenarios with their uncertainty."""

import json
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from statistics import fmean
from typing import Any, TypeVar

from torpor._engine import unknown_name
from torpor.results.comparison import interval
from torpor.results.table import Cell, Post, Table, Value, counted, number, word
from torpor.results.text import distinct_names
from torpor.run.sweeps.axes import SweepError
from torpor.run.sweeps.parts import Row, catalogue

#: Fields of a point that distinguish scenarios.
SCENARIO = (
    *("source", "platform", "kernel", "cpufreq", "io_boost", "hz", "latency_limit", "options"),
)
#: More scenarios than this are no table to read.
_EACH_MAX = 30

Scenario = tuple[Value, ...]
#: A value of each seed (replays have one, None); of a governor in a scenario.
_Values = dict[tuple[Scenario, str], dict[int | None, float]]
#: A mean, and the ends of its 95 % interval.
_Interval = tuple[float | None, float | None, float | None]
_S = TypeVar("_S")


def view(
    rows: Iterable[Row],
    *,
    metrics: Sequence[str] = ("idle_power_mw",),
    base: str | None = None,
    filters: Mapping[str, Sequence[str]] | None = None,
    each: bool | None = None,
) -> Post:
    """Return tables of governors against scenarios, and of ranks over scenarios.

    Args:
        rows: Points, as :meth:`Store.rows` returns them.
        metrics: Keys of the catalogue.
        base: The governor that the others are compared with; default: that of the first row, the
            first one that a sweep named.
        filters: Patterns by column: only points that match one of each column's are shown.
        each: Show every scenario; default: if there are no more than can be read.

    A cell is a mean over seeds, and its change from the base in the same scenario. The summary has
    the geometric mean of ratios to the base, and the mean rank, each with Student's 95 % interval
    over scenarios. Only scenarios that every governor finished count there.

    Raises :class:`SweepError` for an unknown metric, base or column, and where no point is left.
    """
    # Before the filters: they may leave the oracle out.
    found = filtered(against_oracle(rows), filters or {})
    infos = [metric_info(key) for key in metrics]
    governors = governors_of(found, base)
    base = governors[0]
    scenarios = sorted({scenario_of(row) for row in found}, key=lambda s: [str(part) for part in s])
    label = labels(scenarios)
    shows_each = len(scenarios) <= _EACH_MAX if each is None else each
    tables = []
    for info in infos:
        values = values_of(found, info["key"])
        if not values:
            continue
        if shows_each:
            tables.append(_against(info, values, governors, scenarios, label))
        tables.append(_summary(info, values, governors, scenarios))
    failed = [row for row in found if row["error"]]
    notes = [
        f"{row['governor']} in {label(scenario_of(row))}: {row['error']}" for row in failed[:10]
    ]
    if len(failed) > 10:
        notes.append(f"{len(failed) - 10} more points have an error")
    if len(builds := {row["engine"] for row in found}) > 1:
        notes.append(
            f"points of {len(builds)} builds of Torpor: `torpor store gc --this-build` drops the "
            "others'"
        )
    if not shows_each and each is None:
        notes.append("--each shows every scenario, --only some of them")
    if not tables:
        notes.append("no point has a value of this metric")
    title = (
        f"{counted(len(found), 'point')}: {counted(len(governors), 'governor')}, "
        f"{counted(len(scenarios), 'scenario')}"
    )
    return Post(title, [f"changes are from {base}"], tables, notes)


#: An energy, and the metric of its distance to the oracle's. Machines without known power have the
#: second one, by CPU time: that of two governors differs by their last wake-ups.
_DISTANCES = (
    ("idle_energy_uj", "over_oracle_pct"),
    ("relative_idle_power_pct", "relative_over_oracle_pct"),
)


def against_oracle(rows: Iterable[Row]) -> list[Row]:
    """Return the points, replays with their distance to the oracle where the store has its point.

    A replay of one governor does not know the oracle of the same scenario; the engine would give
    the same figure if it had run both.
    """
    found = list(rows)
    best = {
        scenario_of(row): row
        for row in found
        if row["kind"] == "replay" and row["governor"] == "oracle"
    }

    def least(oracle: Row, energy: str, distance: str) -> float | None:
        # The oracle's own run can cost more than its bound.
        value = oracle.get(energy)
        return value and value / (1 + (oracle.get(distance) or 0) / 100)

    def filled(row: Row) -> Row:
        oracle = best.get(scenario_of(row))
        if row["kind"] != "replay" or row["governor"] == "oracle" or oracle is None:
            return row
        return row | {
            distance: 100 * (row[energy] / bound - 1)
            for energy, distance in _DISTANCES
            if row.get(energy) is not None and (bound := least(oracle, energy, distance))
        }

    return [filled(row) for row in found]


def metric_info(key: str, *, is_judged: bool = False) -> dict[str, Any]:
    """Return a metric of the catalogue.

    Raises :class:`SweepError` if there is none of that name, or if a change of it is neither
    better nor worse and ``is_judged``.
    """
    known = {metric["key"]: metric for metric in catalogue()}
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
    whole = [(before, after) for before, after in pairs if before is not None and after is not None]
    if metric["kind"] == "share":
        return [after - before for before, after in whole]
    return [math.log(after / before) for before, after in whole if before > 0 and after > 0]


def mean_change(metric: Mapping[str, Any], parts: Sequence[float]) -> float | None:
    """Return the mean of :func:`change_parts` in :func:`change_unit`; None without parts."""
    if not parts:
        return None
    return fmean(parts) if metric["kind"] == "share" else 100 * math.expm1(fmean(parts))


def governors_of(rows: Sequence[Row], base: str | None) -> list[str]:
    """Return the governors in the order of their rows, the base first and the oracle last.

    The base is the first one unless it is named. Raises :class:`SweepError` for a base that is
    none of them, and without any.
    """
    if not rows:
        raise SweepError("the store has no points")
    names = sorted(dict.fromkeys(row["governor"] for row in rows), key=lambda n: n == "oracle")
    base = base or names[0]
    if base not in names:
        raise SweepError(unknown_name("governor", base, names, ""))
    return [base, *(name for name in names if name != base)]


def filtered(rows: Iterable[Row], filters: Mapping[str, Sequence[str]]) -> list[Row]:
    """Return the points that match one pattern of each column.

    Raises :class:`SweepError` for an unknown column, and where no point is left.
    """
    columns = ("kind", "governor", "seed", *SCENARIO)
    for column in filters:
        if column not in columns:
            raise SweepError(unknown_name("column", column, list(columns), ""))

    def matches(row: Row) -> bool:
        return all(
            any(fnmatchcase(str(row[column]), pattern) for pattern in patterns)
            for column, patterns in filters.items()
        )

    found = [row for row in rows if matches(row)]
    if not found:
        raise SweepError("no point is left" if filters else "the store has no points")
    return found


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


def values_of(rows: Iterable[Row], key: str) -> _Values:
    """Return the values of a metric, by scenario, governor and seed."""
    found: _Values = {}
    for row in rows:
        if row["error"] is None and row[key] is not None:
            found.setdefault((scenario_of(row), row["governor"]), {})[row["seed"]] = row[key]
    return found


def _against(
    metric: Mapping[str, Any],
    values: _Values,
    governors: Sequence[str],
    scenarios: Sequence[Scenario],
    label: Callable[[Scenario], str],
) -> Table:
    base = governors[0]
    headings = ["scenario", base]
    for governor in governors[1:]:
        headings += [governor, f"change {change_unit(metric)}"]
    lines: list[list[Cell]] = []
    for scenario in scenarios:
        of_base = values.get((scenario, base), {})
        cells = [word(label(scenario)), _significant(of_base.values())]
        for governor in governors[1:]:
            mine = values.get((scenario, governor), {})
            shared = sorted(mine.keys() & of_base.keys(), key=str)
            change = None
            if shared:
                before = fmean(of_base[seed] for seed in shared)
                change = change_of(metric, before, fmean(mine[seed] for seed in shared))
            cells += [_significant(mine.values()), number(change, 1, is_signed=True)]
        if any(cell.value is not None for cell in cells[1:]):
            lines.append(cells)
    unit = f", {metric['unit']}" if metric["unit"] else ""
    # A folded table keeps a governor's value and change together; the base stands alone.
    return Table(metric["key"], f"{metric['title']}{unit}", headings, lines, 1)


def _significant(values: Iterable[float]) -> Cell:
    several = list(values)
    if not several:
        return number(None)
    mean = fmean(several)
    return Cell(mean, f"{mean:.4g}" if abs(mean) < 1e4 else f"{mean:.0f}")


def _summary(
    metric: Mapping[str, Any],
    values: _Values,
    governors: Sequence[str],
    scenarios: Sequence[Scenario],
) -> Table:
    """Change from the base and mean rank, over scenarios that all finished.

    The change is the geometric mean of ratios, or the mean difference of a share.
    """
    count, found = summed(metric, values, governors, scenarios)
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
    metric: Mapping[str, Any],
    values: Mapping[tuple[_S, str], Mapping[int | None, float]],
    governors: Sequence[str],
    scenarios: Iterable[_S],
) -> tuple[int, list[tuple[str, _Interval, _Interval | None]]]:
    """Return how many scenarios all finished, and each governor's change and rank over them.

    The oracle has no rank, and no governor has one where neither direction is better.
    """
    ranked = [g for g in governors if g != "oracle"]
    finished = Counter(s for s, governor in values if governor in ranked)
    whole = [s for s in scenarios if finished[s] == len(ranked)]
    means = {governor: [_mean(values[s, governor].values()) for s in whole] for governor in ranked}
    is_ranked = metric["direction"] != "none"
    ranks = _ranks(means, is_higher_better=metric["direction"] == "higher") if is_ranked else {}
    lines = []
    for governor in ranked:
        parts = change_parts(metric, zip(means[ranked[0]], means[governor], strict=True))
        mean, low, high = (
            mean_change(metric, [] if end is None else [end]) for end in _interval(parts)
        )
        rank = None
        if is_ranked:
            # No rank is better than the first one or worse than the last.
            at, first, last = (
                end and min(max(end, 1.0), float(len(ranked))) for end in _interval(ranks[governor])
            )
            rank = (at, first, last)
        lines.append((governor, (mean, low, high), rank))
    return len(whole), lines


def _mean(several: Collection[float]) -> float:
    # Replays have one seed.
    return fmean(several) if len(several) > 1 else next(iter(several))


def _ranks(
    means: Mapping[str, Sequence[float]], *, is_higher_better: bool
) -> dict[str, list[float]]:
    """Rank governors in each scenario, 1 being best; equal ones share the mean of their ranks."""
    found: dict[str, list[float]] = {governor: [] for governor in means}
    count = len(next(iter(means.values()), []))
    for index in range(count):
        column = {g: -v[index] if is_higher_better else v[index] for g, v in means.items()}
        ordered = sorted(column.values())
        for governor, value in column.items():
            below, up_to = bisect_left(ordered, value), bisect_right(ordered, value)
            found[governor].append((below + up_to + 1) / 2)
    return found


def _interval(sample: Sequence[float]) -> _Interval:
    """Return the mean and Student's 95 % interval of it.

    Two values have none: it would be 13 times as wide as their distance.
    """
    if len(sample) < 3:
        return (fmean(sample) if sample else None), None, None
    return interval(sample)
