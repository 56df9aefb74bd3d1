# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Shadows of many machines: which governor for which class of machine and hour."""

import json
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torpor._engine import TorporError
from torpor.results import comparison
from torpor.results.catalogue import leading, wrong_pct
from torpor.results.catalogue import metrics as catalogue
from torpor.results.record import Record, headed
from torpor.run.shadow.rollup import MINUTE_NS, begin_ns
from torpor.run.sweeps.columns import LABEL, SCENARIO, Points, unknown_governor
from torpor.run.sweeps.store import open_store, points_of

if TYPE_CHECKING:
    from torpor.results.kinds import shadow as shapes

#: Catalogues of a minute's metrics.
_KINDS = ("replay", "shadow")
#: Metrics of a comparison, in this order; the first that all have judges the governors.
_METRICS = leading("shadow", *_KINDS)
#: With fewer machine-hours, minutes are the samples.
_HOURS_MIN = 3
_HOUR_NS = 60 * MINUTE_NS

#: Values of a minute or means of an hour: by governor, then by metric.
_Values = dict[str, dict[str, float]]


class _Hour:
    """An hour of a machine: sums over its minutes, and a few single values."""

    def __init__(self) -> None:
        # By the governors that a minute has: (minutes, sum) by governor and metric.
        self._sums: dict[frozenset[str], tuple[int, _Values]] = {}
        self.minutes: list[_Values] | None = []

    def add(self, values: _Values) -> None:
        """Take a minute."""
        count, sums = self._sums.get(frozenset(values), (0, {}))
        for governor, own in values.items():
            before = sums.get(governor)
            sums[governor] = (
                own if before is None else {k: before[k] + own[k] for k in before if k in own}
            )
        self._sums[frozenset(values)] = count + 1, sums
        if self.minutes is not None:
            self.minutes.append(values)

    @property
    def count(self) -> int:
        """The number of minutes."""
        return sum(count for count, _ in self._sums.values())

    @property
    def governors(self) -> set[str]:
        """All that any minute has."""
        return {governor for of in self._sums for governor in of}

    def mean(self, governors: Sequence[str]) -> tuple[int, _Values]:
        """Return how many minutes have all governors, and the means over these."""
        of = [found for names, found in self._sums.items() if names >= set(governors)]
        count = sum(number for number, _ in of)
        means = {
            governor: {
                key: sum(sums[governor][key] for _, sums in of) / count
                for key in _METRICS
                if all(key in sums[governor] for _, sums in of)
            }
            for governor in governors
            if count
        }
        return count, means


@dataclass
class _Machine:
    """A machine's minutes."""

    machine_class: str
    under: str | None
    hours: dict[int, _Hour] = field(default_factory=dict)
    first_ns: int = 1 << 62
    last_ns: int = 0


def fleet(stores: Iterable[str | Path], *, base: str | None = None) -> "Record":
    """Merge the minutes of shadows into one result.

    Args:
        stores: Folders that ``torpor shadow --store`` has filled, one or more machines in each.
        base: The governor that the others are compared with; default: the first that was named.

    Raises:
        TorporError: A folder is not a store, or no store has minutes that every governor has.
    """
    opened = [open_store(path) for path in stores]
    every = points_of(opened)
    known = enumerate(zip(every["kind"], every["seed"], strict=True))
    points = every.at([at for at, (kind, seed) in known if kind == "shadow" and seed is not None])
    failed = Counter(compress(points[LABEL], (e is not None for e in points["error"])))
    machines = _machines(points)
    governors, left_out = _governors(points, machines, base)
    groups = _groups(machines, governors)
    if not groups:
        raise TorporError(
            "the stores have no minute that every governor has\n"
            "hint: `torpor shadow --store DIR` writes one a minute"
        )
    notes = [
        f"{governor} has failed in {count} minutes, which are left out"
        for governor, count in sorted(failed.items())
    ]
    notes += left_out + points.paired.notes
    result = {
        "governors": governors,
        "hosts": [
            {
                "host": host,
                "machine_class": machine.machine_class,
                "under": machine.under,
                "minutes": sum(hour.count for hour in machine.hours.values()),
                "first_ns": machine.first_ns,
                "last_ns": machine.last_ns + MINUTE_NS,
            }
            for (host, *_), machine in machines.items()
        ],
        "groups": groups,
        "notes": notes,
    }
    return headed("shadow", result)


def _machines(points: Points) -> dict[tuple[str, str, str], _Machine]:
    """Return the minutes by host, class and what else it ran under."""
    machines: dict[tuple[str, str, str], _Machine] = {}
    #: Hours of a class at a time of day, to know when its minutes are no longer needed.
    met: dict[tuple[str, int], list[_Hour]] = {}
    for key, began_ns, values in _minutes(points):
        if key not in machines:
            machines[key] = _Machine(key[1], json.loads(key[2]).get("under"))
        machine, number = machines[key], began_ns // _HOUR_NS
        machine.first_ns = min(machine.first_ns, began_ns)
        machine.last_ns = max(machine.last_ns, began_ns)
        if number not in machine.hours:
            machine.hours[number] = _Hour()
            of = met.setdefault((machine.machine_class, number % 24), [])
            of.append(machine.hours[number])
            if len(of) >= _HOURS_MIN and len(machine.hours) >= _HOURS_MIN:
                for hour in of:
                    hour.minutes = None
        machine.hours[number].add(values)
    return machines


def _minutes(points: Points) -> Iterator[tuple[tuple[str, str, str], int, _Values]]:
    """Yield each minute's machine, begin and values, a machine after the other."""
    scenarios, number_of = points.scenarios
    governors, seeds = points[LABEL], points["seed"]
    # As numbers, of which a year of minutes has room in memory.
    columns = {
        key: array("d", (math.nan if value is None else value for value in points[key]))
        for key in _METRICS
        if key != "wrong_pct"
    }
    minutes = groupby(points.paired.places, lambda at: (number_of[at], seeds[at]))
    for (number, seed), places in minutes:
        values: _Values = {}
        for at in places:
            own = {k: column[at] for k, column in columns.items() if not math.isnan(column[at])}
            if (wrong := wrong_pct(own)) is not None:
                own["wrong_pct"] = wrong
            values[governors[at]] = own
        of = dict(zip(SCENARIO, map(str, scenarios[number]), strict=True))
        yield (of["source"], of["platform"], of["options"]), begin_ns(seed), values


def _governors(
    points: Points, machines: Mapping[Any, _Machine], base: str | None
) -> tuple[list[str], list[str]]:
    """Return the governors that every machine has, the base first, and notes on edited files.

    No minute has two contents of a file: the one that was seen last counts, unless the other is the
    base.
    """
    each = [
        {governor for hour in machine.hours.values() for governor in hour.governors}
        for machine in machines.values()
    ]
    every = [name for name in points.governors if each and all(name in of for of in each)]
    if base is not None and base not in every:
        raise TorporError(unknown_governor(base, every))
    last_ns: dict[str, int] = {}
    for name, seed in zip(points[LABEL], points["seed"], strict=True):
        last_ns[name] = max(last_ns.get(name, 0), begin_ns(seed))
    of = points.named
    counts = {of[name]: name for name in sorted(every, key=last_ns.__getitem__)}
    if base is not None:
        counts[of[base]] = base
    found = [name for name in every if counts[of[name]] == name]
    notes = [
        f"{name} is left out: its file was edited, and "
        + (f"{counts[of[name]]} counts" if name in every else "not every machine has this content")
        for name in points.governors
        if name not in found and of[name] != name
    ]
    found.sort(key=lambda name: name != base)
    return found, notes


def _groups(
    machines: Mapping[tuple[str, str, str], _Machine], governors: Sequence[str]
) -> "list[shapes.ShadowGroup]":
    """Return classes, then their hours, then machines where a class has several."""
    classes = sorted({machine.machine_class for machine in machines.values()})
    groups = []
    for name in classes:
        of = {key: m for key, m in machines.items() if m.machine_class == name}
        hours = sorted({hour % 24 for machine in of.values() for hour in machine.hours})
        groups.append(_group(name, of, governors, None, None))
        groups += [_group(name, of, governors, hour, None) for hour in hours]
        hosts = sorted({host for host, *_ in of})
        for host in hosts if len(hosts) > 1 else ():
            own = {key: m for key, m in of.items() if key[0] == host}
            groups.append(_group(name, own, governors, None, host))
    return [group for group in groups if group is not None]


def _group(
    name: str,
    machines: Mapping[tuple[str, str, str], _Machine],
    governors: Sequence[str],
    hour: int | None,
    host: str | None,
) -> "shapes.ShadowGroup | None":
    chosen = {
        label: [h for n, h in sorted(m.hours.items()) if hour is None or n % 24 == hour]
        for label, m in machines.items()
    }
    hours = [h for of in chosen.values() for h in of]
    means = [found for h in hours if (found := h.mean(governors))[0]]
    drawn = [values for _, values in means]
    minutes = [v for h in hours for v in h.minutes or () if v.keys() >= set(governors)]
    count = sum(number for number, _ in means)
    is_few = len(drawn) < _HOURS_MIN and len(minutes) == count
    drawn = minutes if is_few else drawn
    if not drawn:
        return None
    compared = _compared(drawn, governors)
    group = {
        "machine_class": name,
        "hour": hour,
        "host": host,
        "hosts": len({host for (host, *_), of in chosen.items() if of}),
        "minutes": count,
        "draw": "minute" if is_few else "machine-hour",
        "judged": compared["rows"][0]["key"],
        "comparison": compared,
    }
    return cast("shapes.ShadowGroup", group)


def _compared(drawn: Sequence[_Values], governors: Sequence[str]) -> Any:
    known = catalogue(*_KINDS)
    metrics = [known[key] for key in _METRICS if all(key in v[g] for v in drawn for g in governors)]
    columns = [
        {
            "label": governor,
            "samples": [{"number": n, "values": v[governor]} for n, v in enumerate(drawn)],
        }
        for governor in governors
    ]
    return comparison.fill(metrics, columns, is_paired=True)
