# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Whether two shares differ by more than chance.

A share is a count of a count: 120 of 4,000 sleeps too deep. Sleeps of one CPU resemble each other,
so 4,000 of them say less than 4,000 draws of a coin would. How much less shows in how far the CPUs
(or the CPUs of several rounds) lie apart: their share's variance, over that of independent draws,
is the design effect, and both counts are divided by it (Rao and Scott, Biometrics 48, 1992,
577-585). The interval of one share is Wilson's, that of the difference Newcombe's method 10
(Statistics in Medicine 17, 1998, 873-890): closed forms that hold for small shares and counts.
"""

import math
from collections.abc import Sequence
from typing import Any

#: Two-sided 95 % of the normal distribution.
Z_95 = 1.959963984540054

#: Hits and tries of one CPU in one round.
Cluster = tuple[int, int]


def compare(first: Sequence[Cluster], second: Sequence[Cluster]) -> dict[str, Any] | None:
    """Return second - first with its 95 % interval; None where one of them has no tries.

    >>> change = compare([(48, 80)], [(56, 70)])  # Newcombe 1998, example (a)
    >>> f"{change['difference']:.4f} {change['low']:.4f} {change['high']:.4f}"
    '0.2000 0.0524 0.3339'
    >>> change["is_significant"]
    True
    """
    if not all(sum(tries for _, tries in clusters) for clusters in (first, second)):
        return None
    p1, low1, high1 = interval(first)
    p2, low2, high2 = interval(second)
    difference = p2 - p1
    low = difference - math.hypot(p2 - low2, high1 - p1)
    high = difference + math.hypot(high2 - p2, p1 - low1)
    return {
        "difference": difference,
        "low": low,
        "high": high,
        "is_significant": low > 0 or high < 0,
    }


def interval(clusters: Sequence[Cluster]) -> tuple[float, float, float]:
    """Return the share and its 95 % interval.

    >>> [round(x, 4) for x in interval([(15, 148)])]
    [0.1014, 0.0624, 0.1605]
    """
    counted = sum(n for _, n in clusters)
    share = sum(x for x, _ in clusters) / counted
    tries = counted / design_effect(clusters)
    square = Z_95 * Z_95
    middle = share + square / (2 * tries)
    half = Z_95 * math.sqrt(share * (1 - share) / tries + square / (4 * tries * tries))
    scale = 1 + square / tries
    return share, max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def design_effect(clusters: Sequence[Cluster]) -> float:
    """Return by how much the clusters vary more than independent tries would; 1 at least.

    >>> design_effect([(30, 100), (30, 100)])
    1.0
    >>> round(design_effect([(10, 100), (50, 100)]), 1)
    38.1
    """
    used = [(x, n) for x, n in clusters if n]
    tries = sum(n for _, n in used)
    share = sum(x for x, _ in used) / tries
    independent = share * (1 - share) / tries
    if len(used) < 2 or independent <= 0:
        return 1.0
    spread = sum((x - share * n) ** 2 for x, n in used)
    variance = len(used) / (len(used) - 1) * spread / tries**2
    return max(1.0, variance / independent)
