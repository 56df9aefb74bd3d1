# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The counts that the same board would reach, measured once more: a bootstrap of published runs.

A repeat draws each column's median from its published runs, with replacement, and is judged as a
simulation is, against the same table and with the same threshold. Columns whose runs were not
published stay as published, so that the ceiling is rather too high than too low.
"""

import random
import statistics
from collections import Counter
from typing import TYPE_CHECKING

from torpor_lab import judge

if TYPE_CHECKING:
    from torpor_lab import reproduction as shapes

REPEATS = 1000


def scaled(runs: dict[str, list[float]], published: dict[str, float]) -> dict[str, list[float]]:
    """Return runs with the published value as their median, by column.

    Runs of one row stand for those of others of the same device, which have other levels.

    >>> scaled({"a": [9, 10, 12]}, {"a": 20})
    {'a': [18.0, 20.0, 24.0]}
    """
    found = {}
    for name, values in runs.items():
        if name in published:
            scale = published[name] / statistics.median(values)
            found[name] = [value * scale for value in values]
    return found


def is_in_spread(row: judge.Row, column: str) -> bool:
    """Whether a simulated value is among the published runs, as a repeat of them would be."""
    runs, ours = row.runs.get(column, []), row.ours.get(column)
    return bool(runs) and ours is not None and min(runs) <= ours <= max(runs)


def ceiling(rows: list[judge.Row]) -> "shapes.Ceiling | None":
    """Return the mean counts of repeats in the cells of rows with published runs, and ours."""
    known = [row for row in rows if row.runs and row.right()]
    if not known:
        return None
    sums: Counter[judge.Aspect] = Counter()
    draws = random.Random(0)
    for _ in range(REPEATS):
        right = [cell for row in known for cell in row.right(_repeat(row, draws)).values()]
        for aspect, counted in judge.count(right).items():
            sums[aspect] += counted["right"]
    here = judge.count([cell for row in known for cell in row.right().values()])
    return {"mean_right": {a: sums[a] / REPEATS for a in judge.ASPECTS}, "here": here}


def _repeat(row: judge.Row, draws: random.Random) -> dict[str, float]:
    """Return the values of a repeat, of the columns that were simulated."""
    found = {}
    for name in row.ours:
        value = row.published.get(name)
        runs = row.runs.get(name)
        if runs:
            found[name] = statistics.median(draws.choices(runs, k=len(runs)))
        elif isinstance(value, int | float):
            found[name] = value
    return found
