# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""How a predicted cell is judged: by sign, by order and by size, or by the range it should be in.

Everything is said of one row: a metric's values by column, the first column being the base.
Differences below ``noise_pct`` count as none, in the published row as in the simulated one. What
was published as a range or a bound is a list of two numbers, and asks for no more than to be in
there. What was published without a number is ``more`` or ``less`` than the first column, and has
only a sign.
"""

from collections.abc import Mapping
from typing import Any

#: A size is right when it is within this factor of the published one.
SIZE_FACTOR = 2.0

#: Signs without a number.
DIRECTIONS = {"more": 1, "less": -1}

ASPECTS = ("sign", "order", "size", "range")


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


def count(verdicts: list[dict[str, bool]]) -> dict[str, dict[str, int]]:
    """Return by aspect how many were judged and how many are right."""
    judged: dict[str, dict[str, int]] = {}
    for aspect in ASPECTS:
        found = [verdict[aspect] for verdict in verdicts if aspect in verdict]
        judged[aspect] = {"right": sum(found), "of": len(found)}
    return judged


def summary(counts: Mapping[str, Mapping[str, Any]]) -> str:
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
    """How many columns are lower, and not only by noise."""
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
