# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A sweep as one page: pictures of fronts and curves, a heat map, ranks, each point's command.

Of many points, the page has ranks over all of them and the scenarios with the largest changes.
"""

from __future__ import annotations

import heapq
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any

from torpor.results.catalogue import RUNS, leading, metrics, unit_text
from torpor.run.sweeps.columns import LABEL, SCENARIO, Points
from torpor.run.sweeps.ranks import (
    Cells,
    change_of,
    failures,
    governors_of,
    is_known,
    labels,
    varied,
    verdict,
)
from torpor.view.report.environment import page
from torpor.view.report.parts import drawn
from torpor.view.report.sweep_summaries import Summaries, axis_text

#: Digits of a number in the page's data: more than are shown.
_DIGITS = 6
#: A page of more points has some of their scenarios: each point takes some 400 bytes.
_POINTS_MAX = 20_000
#: Scenarios of such a page.
_EXTREMES_MAX = 500
#: Failed points that a page names.
_FAILURES_MAX = 200


def render(points: Points, title: str) -> str:
    """Return the page of a sweep's points as HTML text.

    Raises :class:`torpor.SweepError` if there are none.
    """
    cells = Cells(points, governors_of(points, None))
    every, numbers = points.scenarios
    label_of = labels(every)
    is_whole = len(points) <= _POINTS_MAX
    shown: Sequence[int] = range(len(every))
    axes = varied(every) if is_whole else []
    if is_whole:
        known = [metric for metric in metrics(*RUNS).values() if is_known(points[metric["key"]])]
        summaries = Summaries(cells, list(map(label_of, every)), axes, len(known))
        for metric in known:
            summaries.add(metric, cells.means(points[metric["key"]]))
    else:
        summaries = Summaries(cells, [], axes, 0)
        shown, known = _extreme(points, cells, summaries)
    scenarios = [every[number] for number in shown]
    data = {
        "metrics": [
            {key: metric[key] for key in ("key", "title", "kind", "direction", "definition")}
            | {"unit": unit_text(metric["unit"])}
            for metric in known
        ],
        #: The first of these that points have is chosen at first.
        "leading": leading("cost", "replay"),
        "governors": cells.governors,
        #: As commands name them.
        "specs": [points.named[label] for label in cells.governors],
        #: Axes by which scenarios can be chosen.
        "axes": axes,
        "is_whole": is_whole,
        #: Figures of each metric over the scenarios of a choice (:class:`Summaries`).
        "summaries": summaries.found,
        "scenarios": [
            {"label": label_of(scenario), **found}
            for scenario, found in zip(
                scenarios, _scenarios(points, cells, shown, [m["key"] for m in known]), strict=True
            )
        ],
    }
    failed, governors, errors = failures(points), points[LABEL], points["error"]
    said, certainty = _headline(points, cells)
    return page(
        "sweep.html.j2",
        styles=("sweep.css",),
        scripts=("sweep.js",),
        title=title,
        verdict=said,
        certainty=" ".join([certainty, *(f"{note}." for note in cells.paired.notes)]).strip(),
        counts={
            "points": len(points),
            "governors": len(cells.governors),
            "scenarios": len(every),
            "failed": len(failed),
        },
        shown=len(scenarios),
        is_whole=is_whole,
        builds=sorted(
            {f"{of} ({by})" for of, by in set(zip(points["torpor"], points["engine"], strict=True))}
        ),
        failures=[
            (governors[at], label_of(every[numbers[at]]), errors[at])
            for at in failed[:_FAILURES_MAX]
        ],
        pictures=[(name, drawn(charts)) for name, charts in summaries.pictures()],
        data=data,
    )


def _headline(points: Points, cells: Cells) -> tuple[str, str]:
    """Return the verdict, and its certainty as a sentence of its own."""
    found = verdict(points, cells)
    if found is None:
        return "", ""
    certainty = f"{found.certainty[:1].upper()}{found.certainty[1:]}."
    return str(found._replace(certainty="")), certainty


def _extreme(
    points: Points, cells: Cells, summaries: Summaries
) -> tuple[list[int], list[dict[str, Any]]]:
    """Return the scenarios with the largest changes from the base, and the metrics of any point.

    Every metric and governor has its extremes in turn, until there are so many.
    """
    ranked = [name for name in cells.governors if name != "oracle"]
    most = max(1, min(_EXTREMES_MAX, _POINTS_MAX // len(cells.governors)))
    each = max(1, most // (2 * len(cells.governors)))
    known: list[dict[str, Any]] = []
    extremes: list[list[int]] = []
    for metric in metrics(*RUNS).values():
        column = points[metric["key"]]
        if not is_known(column):
            continue
        means = cells.means(column)
        known.append(metric)
        summaries.add(metric, means)
        for governor in ranked[1:]:
            changes = [
                (change, number)
                for number, (before, after) in enumerate(
                    zip(means[ranked[0]], means[governor], strict=True)
                )
                if before is not None
                and after is not None
                and (change := change_of(metric, before, after))
            ]
            for find in (heapq.nlargest, heapq.nsmallest):
                extremes.append([number for _, number in find(each, changes)])
    turns = chain.from_iterable(zip_longest(*extremes))
    found = list(dict.fromkeys(number for number in turns if number is not None))
    return sorted(found[:most]), known


def _scenarios(
    points: Points, cells: Cells, shown: Sequence[int], keys: Sequence[str]
) -> list[dict[str, Any]]:
    kinds = dict(zip(points.scenarios[1], points["kind"], strict=True))
    found: list[dict[str, Any]] = []
    rows: list[list[list[int] | None]] = []
    for number in shown:
        runs = cells.of(number)
        present = [run.keys() for run in runs if run]
        # Seeds that all have, so that cells may be compared.
        shared = sorted(set.intersection(*map(set, present))) if present else []
        rows.append([[run[seed] for seed in shared] if run else None for run in runs])
        of = dict(zip(SCENARIO, cells.scenarios[number], strict=True))
        seeds = [seed for seed in shared if seed >= 0]
        found.append(
            {
                "source": str(of["source"]),
                "platform": str(of["platform"]),
                "at": {column: axis_text(value) for column, value in of.items()},
                "seeds": len(seeds),
                "cells": [[] if own is not None else None for own in rows[-1]],
                "command": command(kinds[number], of, seeds),
            }
        )
    for key in keys:
        column = points[key]
        for scenario, every in zip(found, rows, strict=True):
            for cell, own in zip(scenario["cells"], every, strict=True):
                if own is not None:
                    cell.append(_mean([column[row] for row in own]))
    return found


def _mean(several: Iterable[float | None]) -> float | None:
    values = [value for value in several if value is not None]
    return float(f"{sum(values) / len(values):.{_DIGITS}g}") if values else None


def command(kind: str, scenario: Mapping[str, Any], seeds: Sequence[int]) -> str:
    """Return the command that repeats a scenario; the page puts governors for ``GOVERNORS``.

    >>> command("replay", {"source": "a b.dat", "platform": "pixel6", "hz": 1000}, [])
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
        "kernel_args": scenario.get("kernel_args"),
        "cpufreq": scenario.get("cpufreq"),
        "io_boosts": scenario.get("io_boost"),
        "schedulers": scenario.get("scheduler"),
        "hz": scenario.get("hz"),
        "latency_limit": scenario.get("latency_limit"),
        **json.loads(scenario.get("options") or "{}"),
    }
    if seeds:
        given |= {"seed": min(seeds), "seeds": max(seeds) - min(seeds) + 1}
    for name, value in given.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None and flags.get(name):
                words += [flags[name][0], str(each)]
    return shlex.join(words)
