# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The figures over scenarios of a sweep's page, for each choice that its reader has.

A choice is a base, and one value of one axis or all scenarios. A page has those of them for which
it has room; for the others, ``torpor show STORE --only`` makes tables.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from torpor.results.catalogue import RUNS, leading
from torpor.results.numbers import signed
from torpor.results.picture import COLOURS, SMALL, Chart, Point, Series
from torpor.results.table import counted
from torpor.run.sweeps.columns import SCENARIO
from torpor.run.sweeps.ranks import (
    Cells,
    change_parts,
    change_unit,
    front_of,
    interval_of_changes,
    summed,
)

#: Lines of a governor and metric that a page has at most.
_LINES_MAX = 10_000
#: Values of a parameter that make a curve.
_CURVE_MIN = 3
#: A number in a name.
_PARAM = re.compile(r",([^,=]+)=(-?\d*\.?\d+(?:e-?\d+)?)(?=,|$)")

#: Choices of which a page has pictures at most; of a part, with the first base alone.
_PICTURES_MAX = 400
#: Places whose first metrics are in pictures: cost against each of the others.
_PLACES = ("cost", "delay", "work", "depth")
_LEADS = {
    key: (place, rank)
    for place, of in enumerate(_PLACES)
    for rank, key in enumerate(leading(of, "replay") or leading(of, *RUNS))
}
#: Those whose metrics have curves.
_CURVES = (0, 1)
#: Governors off the front, and lines of a curve, that a picture has at most.
_OTHERS_MAX = 30
_LINES_OF_CURVE_MAX = 12
#: Governors of a picture that all have their names.
_NAMED_MAX = 12

_Column = Sequence[float | None]
#: A parameter, and the base of changes over it.
_Param = tuple[str, str]
#: Value of a parameter, mean change, and the ends of its interval, by line.
_Curves = Mapping[str, Sequence[Sequence[Any]]]
_SIZE = (SMALL, 340.0)
#: Parts of mean changes: by parameter, then by line of the picture, then by value.
_Parts = dict[_Param, dict[str, dict[float, list[float]]]]


class _Changes(NamedTuple):
    """Mean change of each governor from a base."""

    metric: Mapping[str, Any]
    base: str
    #: Its place of :data:`_PLACES`, and its rank there.
    lead: tuple[int, int]
    #: Scenarios that all finished.
    scenarios: int
    of: dict[str, float]
    curves: list[Chart]

    @property
    def title(self) -> str:
        """The metric with the unit of its changes."""
        return _title(self.metric, self.base)

    @property
    def sign(self) -> int:
        """1 where less is better."""
        return -1 if self.metric["direction"] == "higher" else 1


def _scatter(across: _Changes, up: _Changes) -> Chart | None:
    """Return the changes of two metrics, with the front; None without a governor."""
    at = {name: (x, up.of[name]) for name, x in across.of.items() if name in up.of}
    if not at or "none" in (across.metric["direction"], up.metric["direction"]):
        return None
    front = front_of(at, (across.sign, up.sign))
    others = [name for name in at if name not in front]

    def points(names: Iterable[str], is_named: bool, is_hollow: bool = False) -> list[Point]:
        found = []
        for name in names:
            x, y = at[name]
            hint = f"{name}: {_change(x, across.metric)}, {_change(y, up.metric)}"
            label = name if is_named or name == up.base else ""
            found.append(Point(x, y, hint, label, is_hollow))
        return found

    drawn = others[:_OTHERS_MAX]
    series = [
        Series("", points(drawn, len(at) <= _NAMED_MAX, True), "--muted", 4.0),
        Series("", points(front, True), "--link", 4.0, is_line=True),
    ]
    facts = [f"{counted(across.scenarios, 'scenario')} across, {up.scenarios} up"]
    if len(others) > len(drawn):
        facts.append(f"{len(others) - len(drawn)} more governors off the front are not drawn")
    title = f"{up.title}, over {across.title}"
    return Chart(title, across.title, up.title, series, tuple(facts), size=_SIZE)


def _change(value: float, metric: Mapping[str, Any]) -> str:
    return f"{signed(value)} {change_unit(metric)}"


def _title(metric: Mapping[str, Any], base: str) -> str:
    return f"{metric['title']}, {change_unit(metric)} from {base}"


def _curve(metric: Mapping[str, Any], param: str, base: str, curves: _Curves) -> Chart:
    """Return a metric over a parameter, a line for each governor or variant."""
    series = []
    for place, (line, values) in enumerate(list(curves.items())[:_LINES_OF_CURVE_MAX]):
        points = []
        for x, y, low, high in values:
            ends = (y if low is None else low, y if high is None else high)
            at, low, high = (_change(end, metric) for end in (y, *ends))
            hint = f"{line}, {x:g}: {at} ({low} to {high})"
            points.append(Point(x, y, hint, line if x == values[-1][0] else "", y_ends=ends))
        series.append(Series("", points, COLOURS[place % len(COLOURS)], 3.0, is_line=True))
    more = len(curves) - len(series)
    facts = (f"{more} more lines are not drawn",) if more > 0 else ()
    up = _title(metric, base)
    return Chart(f"{up}, over {param}", param, up, series, facts, size=_SIZE)


class Summaries:
    """Mean changes and ranks of each metric, by choice, and pictures of those that lead."""

    def __init__(
        self, cells: Cells, labels: Sequence[str], axes: Sequence[str], metrics: int
    ) -> None:
        """List the choices; a page that does not have all scenarios has one."""
        self._cells, self._labels, self._is_whole = cells, labels, bool(axes)
        self._columns = {name: place for place, name in enumerate(SCENARIO)}
        bases = [n for n, name in enumerate(cells.governors) if name != "oracle"]
        every = [
            (f"{base}{name}", base, own)
            for name, own in self._chosen(axes)
            for base in (bases if axes else bases[:1])
        ]
        room = _LINES_MAX // max(1, metrics * len(cells.governors))
        self._choices = every[: max(1, room)]
        #: Figures of each metric, by choice.
        self.found: dict[str, list[Any]] = {name: [] for name, *_ in self._choices}
        self._changes: dict[str, list[_Changes]] = {
            name: []
            for name, base, own in self._choices[:_PICTURES_MAX]
            if base == bases[0] or len(own) == len(cells.scenarios)
        }

    def pictures(self) -> list[tuple[str, list[Chart]]]:
        """Return the pictures of each choice that has some."""
        found = []
        for name, every in self._changes.items():
            firsts: dict[int, _Changes] = {}
            for own in sorted(every, key=lambda changes: changes.lead):
                firsts.setdefault(own.lead[0], own)
            ups = [up for place, up in firsts.items() if place and 0 in firsts]
            charts = [chart for up in ups if (chart := _scatter(firsts[0], up))]
            charts += [chart for own in firsts.values() for chart in own.curves]
            if charts:
                found.append((name, charts))
        return found

    def _chosen(self, axes: Sequence[str]) -> Iterator[tuple[str, Sequence[int]]]:
        scenarios = self._cells.scenarios
        yield "", range(len(scenarios))
        for axis in axes:
            of: dict[str, list[int]] = {}
            for number, scenario in enumerate(scenarios):
                value = axis_text(scenario[self._columns[axis]])
                of.setdefault(f" {axis}={value}", []).append(number)
            yield from of.items()

    def add(self, metric: Mapping[str, Any], means: Mapping[str, _Column]) -> None:
        """Add the figures of a metric, from its means by governor and scenario."""
        for name, base, numbers in self._choices:
            label = self._cells.governors[base]
            own = {g: [means[g][n] for n in numbers] for g in (label, *means)}
            count, lines = summed(metric, own)
            self.found[name].append({"count": count, "lines": lines})
            lead = _LEADS.get(metric["key"])
            if name not in self._changes or lead is None:
                continue
            changes = {line: change[0] for line, change, _ in lines if change[0] is not None}
            if "oracle" in own:
                # It knows the future, and has a place in the picture alone.
                both, (_, (_, (at, *_), _)) = summed(metric, {label: own[label], "": own["oracle"]})
                changes |= {"oracle": at} if at is not None and both >= count else {}
            has_curves = self._is_whole and lead[0] in _CURVES
            found = self._curves(metric, label, own, numbers) if has_curves else {}
            curves = [_curve(metric, *of, curve) for of, curve in found.items()]
            self._changes[name].append(_Changes(metric, label, lead, count, changes, curves))

    def _curves(
        self,
        metric: Mapping[str, Any],
        base: str,
        means: Mapping[str, _Column],
        numbers: Sequence[int],
    ) -> dict[_Param, _Curves]:
        """Return the lines of each parameter with several values: its changes at each of them."""
        parts: _Parts = {}

        def add(param: _Param, line: str, value: float, pairs: Iterable[Any]) -> None:
            own = parts.setdefault(param, {}).setdefault(line, {}).setdefault(value, [])
            own += change_parts(metric, pairs)

        for name in means:
            for key, value, text in _params(name):
                pairs = zip(means[base], means[name], strict=True)
                add((key, base), name.replace(text, "", 1), value, pairs)
        self._against_least(means, numbers, add)
        found: dict[_Param, _Curves] = {
            param: {
                line: [
                    (value, *interval_of_changes(metric, own))
                    for value, own in sorted(values.items())
                    if own
                ]
                for line, values in lines.items()
                if any(values.values())
            }
            for param, lines in parts.items()
        }
        return {
            param: lines
            for param, lines in found.items()
            if len({value for values in lines.values() for value, *_ in values}) >= _CURVE_MIN
        }

    def _against_least(
        self,
        means: Mapping[str, _Column],
        numbers: Sequence[int],
        add: Callable[[_Param, str, float, Iterable[Any]], None],
    ) -> None:
        """Add a machine's or a workload's number: each scenario against that with the least."""
        groups: dict[tuple[str, str], list[tuple[float, int]]] = {}
        for place, number in enumerate(numbers):
            for axis in ("platform", "source"):
                name = str(self._cells.scenarios[number][self._columns[axis]])
                for key, value, text in _params(name):
                    of = f"{axis} {key}", self._labels[number].replace(text, "", 1)
                    groups.setdefault(of, []).append((value, place))
        for (param, _), several in groups.items():
            (least, first), *_ = several = sorted(several)
            for governor, column in means.items():
                for value, place in several if governor != "oracle" else ():
                    pair = column[first], column[place]
                    add((param, f"{least:g}"), governor, value, [pair])


def axis_text(value: object) -> str:
    """Return a value of an axis as the page's reader chooses it."""
    return "none" if value in (None, "{}") else str(value)


def _params(name: str) -> Iterator[tuple[str, float, str]]:
    """Yield the parameters after a name that are numbers, each with its text."""
    for found in _PARAM.finditer(name):
        yield found[1], float(found[2]), found[0]
