# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The figures over scenarios of a sweep's page, for each choice that its reader has.

A choice is a base, and one value of one axis or all scenarios. A page has those of them for which
it has room; for the others, ``torpor show STORE --only`` makes tables.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from torpor.run.sweeps.columns import SCENARIO
from torpor.run.sweeps.ranks import Cells, change_parts, interval_of_changes, summed

#: Lines of a governor and metric that a page has at most.
_LINES_MAX = 10_000
#: Values of a parameter that make a curve.
_CURVE_MIN = 3
#: A number in a name.
_PARAM = re.compile(r",([^,=]+)=(-?\d*\.?\d+(?:e-?\d+)?)(?=,|$)")

_Column = Sequence[float | None]
#: Parts of mean changes: by parameter, then by line of the picture, then by value.
_Parts = dict[str, dict[str, dict[float, list[float]]]]


class Summaries:
    """Mean changes, ranks and curves of each metric, by choice."""

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
            self.found[name].append(self._summary(metric, label, own, numbers))

    def _summary(
        self,
        metric: Mapping[str, Any],
        base: str,
        means: Mapping[str, _Column],
        numbers: Sequence[int],
    ) -> dict[str, Any]:
        count, lines = summed(metric, means)
        found: dict[str, Any] = {"count": count, "lines": lines}
        if "oracle" in means:
            # It knows the future, and has a place in the picture alone.
            both, (_, (_, change, _)) = summed(metric, {base: means[base], "": means["oracle"]})
            found["oracle"] = change[0] if both >= count else None
        if self._is_whole and (curves := self._curves(metric, base, means, numbers)):
            found["curves"] = curves
        return found

    def _curves(
        self,
        metric: Mapping[str, Any],
        base: str,
        means: Mapping[str, _Column],
        numbers: Sequence[int],
    ) -> dict[str, dict[str, list[list[float | None]]]]:
        """Return the lines of each parameter with several values: its changes at each of them."""
        parts: _Parts = {}

        def add(param: str, line: str, value: float, pairs: Iterable[Any]) -> None:
            own = parts.setdefault(param, {}).setdefault(line, {}).setdefault(value, [])
            own += change_parts(metric, pairs)

        for name in means:
            for key, value, text in _params(name):
                pairs = zip(means[base], means[name], strict=True)
                add(f"{key}, change from {base}", name.replace(text, "", 1), value, pairs)
        self._against_least(means, numbers, add)
        return {
            param: {
                line: [
                    [value, *interval_of_changes(metric, own)]
                    for value, own in sorted(values.items())
                    if own
                ]
                for line, values in lines.items()
            }
            for param, lines in parts.items()
            if len({value for values in lines.values() for value in values}) >= _CURVE_MIN
        }

    def _against_least(
        self,
        means: Mapping[str, _Column],
        numbers: Sequence[int],
        add: Callable[[str, str, float, Iterable[Any]], None],
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
                    add(f"{param}, change from {least:g}", governor, value, [pair])


def axis_text(value: object) -> str:
    """Return a value of an axis as the page's reader chooses it."""
    return "none" if value in (None, "{}") else str(value)


def _params(name: str) -> Iterator[tuple[str, float, str]]:
    """Yield the parameters after a name that are numbers, each with its text."""
    for found in _PARAM.finditer(name):
        yield found[1], float(found[2]), found[0]
