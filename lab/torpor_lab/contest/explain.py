# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Explains where one governor beats another: the scenarios, and the moments of recordings."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torpor import SweepError, replay
from torpor.plugin import Cell as Value
from torpor.plugin import Post, Table, number, word
from torpor_lab.contest.corpus import RELATIVE, Scenario
from torpor_lab.contest.run import Contest
from torpor_lab.contest.score import Cell

#: Scenarios shown for each side.
_SCENARIOS = 5
#: Moments shown for each scenario that is a recording.
_MOMENTS = 3


def explain_post(found: Contest, first: str, second: str) -> Post:
    """Return where each of two governors uses less energy than the other, and when.

    The moments are idle spans of the recordings in which the two differ most: all their sleeps
    between one event and the next. Raises :class:`SweepError` for one that did not take part.
    """
    by: dict[str, dict[tuple[str, str], Cell]] = {}
    for cell in found.cells:
        if cell.energy_pct is not None and cell.group != RELATIVE:
            by.setdefault(cell.governor, {})[cell.scenario, cell.machine] = cell
    for name in (first, second):
        if name not in by:
            raise SweepError(f"`{name}` did not take part: expected one of {', '.join(sorted(by))}")
    pairs = [
        (_log(by[first][place]) - _log(by[second][place]), place)
        for place in by[first]
        if place in by[second]
    ]
    pairs.sort()
    tables: list[Table] = []
    notes: list[str] = []
    for name, other, side in (
        (first, second, [pair for pair in pairs if pair[0] < 0][:_SCENARIOS]),
        (second, first, [pair for pair in pairs[::-1] if pair[0] > 0][:_SCENARIOS]),
    ):
        if not side:
            notes.append(f"{name} uses less in no scenario")
            continue
        lines = [_line(place, by[name][place], by[other][place]) for _, place in side]
        headings = ["scenario", "machine", "energy %", "delay %", "energy %", "delay %"]
        title = f"Where {name} uses less: {name}, then {other}, each from teo"
        tables.append(Table(f"less of {name}", title, headings, lines, 2))
        recorded = [s for _, place in side for s in found.scenarios if _is_recorded(s, place)]
        try:
            tables += [_moments(scenario, name, other) for scenario in recorded[:1]]
        except ImportError:
            notes += ["moments of recordings require polars: pip install polars"]
    return Post(f"{first} against {second}, corpus {found.corpus.title}", [], tables, notes)


def _log(cell: Cell) -> float:
    return math.log1p((cell.energy_pct or 0) / 100)


def _is_recorded(scenario: Scenario, place: tuple[str, str]) -> bool:
    return scenario.kind == "replay" and (scenario.name, scenario.machine.name) == place


def _line(place: tuple[str, str], mine: Cell, others: Cell) -> list[Value]:
    figures = (mine.energy_pct, mine.delay_pct, others.energy_pct, others.delay_pct)
    return [*map(word, place), *(number(value, 1, is_signed=True) for value in figures)]


def _moments(scenario: Scenario, name: str, other: str) -> Table:
    result = replay(
        scenario.source,
        platform=scenario.machine.platform,
        governors=[name, other],
        latency_limit=scenario.machine.latency_limit or None,
        disabled_states=list(scenario.machine.disabled_states),
        threads=1,
        strip=False,
    )
    spans = {run: _spans(result, run) for run in (name, other)}
    shared = spans[name].keys() & spans[other].keys()
    costs = sorted(
        (math.fsum(spans[name][key]["energy"]) - math.fsum(spans[other][key]["energy"]), key)
        for key in shared
    )
    lines = []
    for difference, (cpu, span) in costs[:_MOMENTS]:
        mine, others = spans[name][cpu, span], spans[other][cpu, span]
        lines.append(
            [
                number(cpu),
                number(mine["time_ns"] / 1e9, 6),
                number(mine["sleep_length_ns"] / 1e3, 0),
                word(_states(mine["states"])),
                word(_states(others["states"])),
                number(difference, 2, is_signed=True),
            ]
        )
    title = f"{scenario.name} on {scenario.machine.name}: where {name} saves most, states by sleep"
    headings = ["CPU", "time s", "timer in µs", name, other, "µJ"]
    return Table(f"moments of {scenario.name}", title, headings, lines, 2)


def _states(states: Sequence[int]) -> str:
    """Spell the states of a span's sleeps, runs of one state as a count.

    >>> _states([0, 0, 0, 2])
    '0 x3, 2'
    """
    said: list[list[int]] = []
    for state in states:
        if said and said[-1][0] == state:
            said[-1][1] += 1
        else:
            said.append([state, 1])
    return ", ".join(f"{state} x{count}" if count > 1 else f"{state}" for state, count in said)


def _spans(result: Any, governor: str) -> Mapping[tuple[int, int], dict[str, Any]]:
    found: dict[tuple[int, int], dict[str, Any]] = {}
    decided = result.decisions.to_polars()
    columns = ("cpu", "span", "time_ns", "sleep_length_ns", "state", "energy_uj")
    mine = decided.filter(decided["governor"].cast(str) == governor).select(columns)
    for row in mine.iter_rows(named=True):
        span = found.setdefault(
            (row["cpu"], row["span"]),
            {
                "time_ns": row["time_ns"],
                "sleep_length_ns": row["sleep_length_ns"] or 0,
                "states": [],
                "energy": [],
            },
        )
        span["states"].append(row["state"])
        span["energy"].append(row["energy_uj"] or 0.0)
    return found
