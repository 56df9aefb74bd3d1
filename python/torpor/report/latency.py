# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Wake-up latency: one step histogram a governor on a shared logarithmic axis."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any

from .numbers import duration, share

# The histogram is drawn in a box of this size, stretched to the page by the browser.
_WIDTH, _HEIGHT = 1000, 40
# Room left and right of the outermost bins, as a factor: markers there keep their labels.
_MARGIN = 1.5


def latency(runs: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What the template draws and what the slider reads; None if no run has a histogram."""
    drawn = [r for r in runs if not r["error"] and r.get("latency") and r["latency"]["count"]]
    drawn = [r for r in drawn if r["latency"]["histogram"]]
    if not drawn:
        return None
    bounds = sorted({bound for r in drawn for bound, _ in r["latency"]["histogram"]})
    lows = _lower_bounds(bounds)
    axis = _Axis(lows[bounds[0]], bounds[-1])
    tallest = max(n / r["latency"]["count"] for r in drawn for _, n in r["latency"]["histogram"])
    # The slider starts where the first governor has 99 % of its wake-ups behind it.
    start = min(bisect_right(bounds, drawn[0]["latency"]["p99_ns"]), len(bounds) - 1)
    rows = []
    for run in drawn:
        own = run["latency"]
        totals = _cumulative(own["histogram"], bounds)
        rows.append(
            {
                "governor": run["governor"],
                "path": _path(own["histogram"], lows, axis, tallest * own["count"]),
                "p50": duration(own["p50_ns"]),
                "p99": duration(own["p99_ns"]),
                "max": duration(own["max_ns"]),
                "p50_left": f"{axis.percent(own['p50_ns']):.2f}",
                "p99_left": f"{axis.percent(own['p99_ns']):.2f}",
                "within": share(totals[start], own["count"]),
                "totals": totals,
                "count": own["count"],
            }
        )
    return {
        "rows": rows,
        "ticks": axis.ticks(),
        "bounds": bounds,
        "bound_texts": [duration(bound) for bound in bounds],
        "bound_lefts": [round(axis.percent(bound), 2) for bound in bounds],
        "start": start,
        "tallest": share(tallest, 1),
        "viewbox": f"0 0 {_WIDTH} {_HEIGHT}",
    }


class _Axis:
    def __init__(self, low_ns: float, high_ns: float) -> None:
        self.low = math.log10(max(low_ns, 1) / _MARGIN)
        self.high = math.log10(max(high_ns, 10) * _MARGIN)

    def percent(self, value_ns: float) -> float:
        part = (math.log10(max(value_ns, 1)) - self.low) / (self.high - self.low)
        return 100 * min(max(part, 0.0), 1.0)

    def ticks(self) -> list[dict[str, str]]:
        """The powers of ten on the axis."""
        powers = range(math.ceil(self.low), math.floor(self.high) + 1)
        return [
            {"left": f"{self.percent(10**k):.2f}", "text": duration(10**k).replace(".00", "")
             .replace(".0", "")}
            for k in powers
        ]  # fmt: skip


def _lower_bounds(bounds: list[int]) -> dict[int, float]:
    """Where each bin begins. Empty bins may be left out of a histogram, so a bin begins at the
    bound before it, but reaches down no farther than the usual ratio of two neighbours."""
    ratios = sorted(b / a for a, b in zip(bounds, bounds[1:]) if a > 0)
    usual = ratios[len(ratios) // 2] if ratios else 2.0
    lows = {bounds[0]: bounds[0] / usual}
    for before, bound in zip(bounds, bounds[1:]):
        lows[bound] = max(before, bound / usual)
    return lows


def _cumulative(histogram: list[list[int]], bounds: list[int]) -> list[int]:
    counts = dict((bound, n) for bound, n in histogram)
    totals, total = [], 0
    for bound in bounds:
        total += counts.get(bound, 0)
        totals.append(total)
    return totals


def _path(
    histogram: list[list[int]], lows: dict[int, float], axis: _Axis, full: float
) -> str:
    """SVG path of the steps; a bin of `full` counts fills the height."""
    parts = [f"M0 {_HEIGHT}"]
    for bound, n in sorted(histogram):
        left = axis.percent(lows[bound]) * _WIDTH / 100
        right = axis.percent(bound) * _WIDTH / 100
        top = _HEIGHT * (1 - n / full) if full else _HEIGHT
        parts.append(f"H{left:.1f}V{top:.1f}H{right:.1f}V{_HEIGHT}")
    return "".join(parts) + f"H{_WIDTH}"
