# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Whether two governors differ over rounds that both of them ran.

What a round has in common (a warm machine, a busy neighbour) is in both values and drops out of
their difference. The interval is Student's, for the mean of those differences.
"""

import math
import statistics
from collections.abc import Sequence
from functools import cache
from typing import Any


def change(first: Sequence[float], second: Sequence[float]) -> dict[str, Any] | None:
    """Return second - first with its 95 % interval; None for less than two rounds.

    Student's own example, ten patients and two drugs (Biometrika 6, 1908, 1-25):

    >>> first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    >>> second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    >>> found = change(first, second)
    >>> f"{found['difference']:.2f} {found['low']:.4f} {found['high']:.4f}"
    '1.58 0.7001 2.4599'
    >>> found["is_significant"]
    True
    """
    differences = [b - a for a, b in zip(first, second, strict=True)]
    if len(differences) < 2:
        return None
    middle = statistics.fmean(differences)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    half = t_95(len(differences) - 1) * error
    low, high = middle - half, middle + half
    return {
        "difference": middle,
        "low": low,
        "high": high,
        "is_significant": low > 0 or high < 0,
    }


@cache
def t_95(degrees: int) -> float:
    """Return the two-sided 95 % point of Student's distribution.

    >>> [round(t_95(n), 3) for n in (1, 2, 9, 30, 1000)]
    [12.706, 4.303, 2.262, 2.042, 1.962]
    """
    low, high = 0.0, 16.0
    # A double has no more digits than this halves.
    for _ in range(60):
        middle = (low + high) / 2
        if _within(middle, degrees) < 0.95:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _within(t: float, degrees: int) -> float:
    """The share of Student's distribution in [-t, t]: Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = degrees % 2 == 1
    term = cosine if is_odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 if is_odd else 1, degrees - 1, 2):
        term *= cosine * cosine * k / (k + 1)
        total += term
    return 2 / math.pi * (angle + sine * total) if is_odd else sine * total
