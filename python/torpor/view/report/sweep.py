# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A sweep as one page: a heat map, a scatter with its front, ranks, and each point's command.

Of many points, the page has ranks over all of them and the scenarios with the largest changes.
"""

from __future__ import annotations

import glob
import heapq
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any

from torpor._engine import student_95
from torpor.results.comparison import unit_text
from torpor.results.sentences import REFERENCES
from torpor.results.table import counted, minus
from torpor.run.sweeps.parts import Row, catalogue
from torpor.run.sweeps.ranks import (
    SCENARIO,
    Scenario,
    change_of,
    governors_of,
    labels,
    metric_info,
    scenario_of,
    summed,
    values_of,
    varied,
)
from torpor.view.report.environment import page
from torpor.view.report.summary import POWERS

#: From so many degrees of freedom, Student's quantile is the normal one but for 0.1 %.
_FREEDOM = 1000
#: Digits of a number in the page's data: more than are shown.
_DIGITS = 6
#: A page of more points has some of their scenarios: each point takes some 400 bytes.
_POINTS_MAX = 20_000
#: Scenarios of such a page.
_EXTREMES_MAX = 500


def render(rows: Iterable[Row], title: str, *, is_served: bool = False) -> str:
    """Return the page of a sweep's points as HTML text.

    One that ``torpor serve`` shows can ask it for a part of a sweep that is large.

    Raises :class:`torpor.SweepError` if there are none.
    """
    points = list(rows)
    names = governors_of(points, None)
    known = [m for m in catalogue() if any(row[m["key"]] is not None for row in points)]
    every = sorted({scenario_of(row) for row in points}, key=lambda s: [str(x) for x in s])
    label_of = labels(every)
    is_whole = len(points) <= _POINTS_MAX
    scenarios, summaries = (every, None) if is_whole else _summed(points, every, names, known)
    shown = set(scenarios)
    kept = points if is_whole else [row for row in points if scenario_of(row) in shown]
    data = {
        "metrics": [
            {key: metric[key] for key in ("key", "title", "kind", "direction", "definition")}
            | {"unit": unit_text(metric["unit"])}
            for metric in known
        ],
        "governors": names,
        #: Quantiles by degrees of freedom, from 1; the last one holds for all beyond it.
        "student_95": [round(student_95(n), 5) for n in range(1, min(len(scenarios), _FREEDOM))],
        #: Axes by which scenarios can be chosen.
        "axes": varied(every) if is_whole else [],
        "summaries": summaries,
        "scenarios": [
            {"label": label_of(scenario), **cells}
            for scenario, cells in zip(
                scenarios,
                _scenarios(kept, scenarios, names, [m["key"] for m in known]),
                strict=True,
            )
        ],
    }
    failed = [row for row in points if row["error"]]
    said, certainty = verdict(points, names[0])
    return page(
        "sweep.html.j2",
        styles=("sweep.css",),
        scripts=("sweep-curves.js", "sweep.js"),
        title=title,
        verdict=said,
        certainty=certainty,
        counts={"points": len(points), "governors": len(names), "scenarios": len(every)},
        shown=len(scenarios),
        is_whole=is_whole,
        asked=_choices(every, varied(every)) if is_served and not is_whole else [],
        builds=sorted({f"{row['torpor']} ({row['engine']})" for row in points}),
        failures=[(row["governor"], label_of(scenario_of(row)), row["error"]) for row in failed],
        data=data,
    )


def verdict(points: Sequence[Row], base: str) -> tuple[str, str]:
    """Return which governor takes the least idle power over scenarios, and how certain that is.

    Idle power is what the page shows first.
    """
    key = next((k for k in POWERS[1:] if any(row.get(k) is not None for row in points)), None)
    if key is None:
        return "", ""
    metric = metric_info(key)
    scenarios = {scenario_of(row) for row in points}
    count, lines = summed(metric, values_of(points, key), governors_of(points, base), scenarios)
    known = [
        (mean, name, low, high)
        for name, (mean, low, high), _ in lines[1:]
        if mean is not None and name.partition(",")[0] not in REFERENCES
    ]
    if not known:
        return "", ""
    title = metric["title"].partition(",")[0]
    mean, name, low, high = min(known)
    change = f"{abs(mean):.2g} % {'less' if mean < 0 else 'more'} {title}"
    said = f"{name} takes {change} than {base}, on average over {counted(count, 'scenario')}."
    if low is None or high is None:
        return said, "One scenario has no measure of chance."
    ends = minus(f"95 % interval of the change over scenarios: {low:+.1f} to {high:+.1f} %")
    return said, ends + (", so it may be chance." if low < 0 < high else ".")


def _summed(
    points: Sequence[Row],
    scenarios: Sequence[Scenario],
    names: Sequence[str],
    metrics: Sequence[Mapping[str, Any]],
) -> tuple[list[Scenario], list[dict[str, Any]]]:
    """Return the scenarios with the largest changes from the base, and each metric's summary.

    Every metric and governor has its extremes in turn, until there are so many.
    """
    number_of = {scenario: number for number, scenario in enumerate(scenarios)}
    cells = [(number_of[scenario_of(row)], row) for row in points if row["error"] is None]
    ranked = [name for name in names if name != "oracle"]
    each = max(1, _EXTREMES_MAX // max(1, 2 * len(metrics) * (len(ranked) - 1)))
    summaries, extremes = [], []
    for metric in metrics:
        key = metric["key"]
        values: dict[tuple[int, str], dict[int | None, float]] = {}
        for number, row in cells:
            if row[key] is not None:
                values.setdefault((number, row["governor"]), {})[row["seed"]] = row[key]
        means: dict[str, dict[int, float]] = {name: {} for name in names}
        for (number, governor), seeds in values.items():
            means[governor][number] = sum(seeds.values()) / len(seeds)
        count, lines = summed(metric, values, names, range(len(scenarios)))
        summaries.append({"count": count, "lines": lines})
        for governor in ranked[1:]:
            changes = [
                (change, number)
                for number, before in means[ranked[0]].items()
                if (after := means[governor].get(number)) is not None
                and (change := change_of(metric, before, after))
            ]
            for find in (heapq.nlargest, heapq.nsmallest):
                extremes.append([number for _, number in find(each, changes)])
    turns = chain.from_iterable(zip_longest(*extremes))
    found = list(dict.fromkeys(number for number in turns if number is not None))
    return [scenarios[number] for number in sorted(found[:_EXTREMES_MAX])], summaries


def _choices(
    scenarios: Sequence[Scenario], axes: Iterable[str]
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the axes by which a part can be asked for, each with its values, if not too many.

    With each value goes the pattern that it alone matches.
    """
    found = []
    for axis in axes:
        values = sorted({str(scenario[SCENARIO.index(axis)]) for scenario in scenarios})
        few = values if len(values) <= _EXTREMES_MAX else []
        found.append((axis, [(glob.escape(value), value) for value in few]))
    return found


def _scenarios(
    points: Sequence[Row], scenarios: Sequence[Scenario], names: Sequence[str], keys: Sequence[str]
) -> list[dict[str, Any]]:
    by_cell: dict[tuple[Scenario, str], dict[int | None, Row]] = {}
    for row in points:
        if row["error"] is None:
            by_cell.setdefault((scenario_of(row), row["governor"]), {})[row["seed"]] = row
    kinds = {scenario_of(row): row["kind"] for row in points}
    found = []
    for scenario in scenarios:
        runs = [by_cell.get((scenario, name), {}) for name in names]
        present = [set(run) for run in runs if run]
        # Seeds that all have, so that cells may be compared.
        shared = sorted(set.intersection(*present), key=str) if present else []
        cells = [[_mean(run, shared, key) for key in keys] if run else None for run in runs]
        source, platform = str(scenario[0]), str(scenario[1])
        found.append(
            {
                "source": source,
                "platform": platform,
                "at": {
                    column: "none" if value in (None, "{}") else str(value)
                    for column, value in zip(SCENARIO, scenario, strict=True)
                },
                "seeds": len(shared) if shared != [None] else 0,
                "cells": cells,
                "command": command(
                    kinds[scenario], dict(zip(SCENARIO, scenario, strict=True)), shared
                ),
            }
        )
    return found


def _mean(run: Mapping[int | None, Row], seeds: Sequence[int | None], key: str) -> float | None:
    values = [run[seed][key] for seed in seeds if run[seed][key] is not None]
    return float(f"{sum(values) / len(values):.{_DIGITS}g}") if values else None


def command(kind: str, scenario: Mapping[str, Any], seeds: Sequence[int | None]) -> str:
    """Return the command that repeats a scenario; the page puts governors for ``GOVERNORS``.

    >>> command("replay", {"source": "a b.dat", "platform": "pixel6", "hz": 1000}, [None])
    "torpor replay 'a b.dat' -p pixel6 GOVERNORS --hz 1000"
    """
    from torpor.run import options

    if kind == "shadow":
        # A minute of a machine, which does not come again; its class is a name of its owner's.
        return "torpor shadow GOVERNORS"
    of = options.ReplayOptions if kind == "replay" else options.SimulateOptions
    flags = {name: option.flags for name, (_, option) in options.fields(of).items()}
    words = ["torpor", "replay" if kind == "replay" else "simulate", str(scenario["source"])]
    words += ["-p", str(scenario["platform"]), "GOVERNORS"]
    given = {
        "kernels": scenario.get("kernel"),
        "cpufreq": scenario.get("cpufreq"),
        "io_boosts": scenario.get("io_boost"),
        "hz": scenario.get("hz"),
        "latency_limit": scenario.get("latency_limit"),
        **json.loads(scenario.get("options") or "{}"),
    }
    numbers = [seed for seed in seeds if seed is not None]
    if numbers:
        given |= {"seed": min(numbers), "seeds": max(numbers) - min(numbers) + 1}
    for name, value in given.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None and flags.get(name):
                words += [flags[name][0], str(each)]
    return shlex.join(words)
