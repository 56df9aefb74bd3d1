# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Wake-up latency: one step histogram a governor on a shared logarithmic axis."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from torpor.results.numbers import duration, share

if TYPE_CHECKING:
    from torpor.results import types as results

# The histogram is drawn in a box of this size, stretched to the page by the browser.
_WIDTH, _HEIGHT = 1000, 40
# Space left and right of the outermost bins, as a share of the axis: markers there keep their
# labels on a phone, too.
_MARGIN = 0.1
# The engine's buckets are 1 % wide; drawn and read out are bins wide enough to see.
_BINS_PER_DECADE = 20
# All that is faster falls into one bin: it would stretch the axis to show nothing.
_FLOOR_NS = 100


def latency(runs: Sequence[results.RunOutcome]) -> dict[str, object] | None:
    """Return the data of the latency chart and its slider; None if no run has a histogram."""
    drawn = [r for r in runs if not r["error"] and r.get("latency") and r["latency"]["count"]]
    drawn = [r for r in drawn if r["latency"]["histogram"]]
    if not drawn:
        return None
    histograms = [_histogram(r["latency"]) for r in drawn]
    bounds = _grid([bound for h in histograms for bound, _ in h])
    axis = _Axis(bounds[0], bounds[-1])
    counts = [_counts(h, bounds) for h in histograms]
    tallest = max(max(c) / r["latency"]["count"] for r, c in zip(drawn, counts, strict=True))
    # The slider starts where the first governor has 99 % of its wake-ups before it.
    start = min(bisect_left(bounds, drawn[0]["latency"]["p99_ns"] or 0), len(bounds) - 1)
    rows = []
    for run, bins in zip(drawn, counts, strict=True):
        own = run["latency"]
        totals = list(accumulate(bins))
        rows.append(
            {
                "governor": run["governor"],
                "path": _path(bins, bounds, axis, tallest * own["count"]),
                "p50": duration(own["p50_ns"]),
                "p99": duration(own["p99_ns"]),
                "max": duration(own["max_ns"]),
                "p50_left": f"{axis.percent(own['p50_ns'] or 0):.2f}",
                "p99_left": f"{axis.percent(own['p99_ns'] or 0):.2f}",
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
        "bins_per_decade": _BINS_PER_DECADE,
        "viewbox": f"0 0 {_WIDTH} {_HEIGHT}",
    }


class _Axis:
    def __init__(self, low_ns: float, high_ns: float) -> None:
        low, high = math.log10(low_ns), math.log10(high_ns)
        room = _MARGIN * (high - low)
        self.low, self.high = low - room, high + room

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


def _histogram(own: results.LatencyOutcome) -> list[tuple[int, int]]:
    """The engine's buckets; none reaches beyond the slowest wake-up, though its bound may."""
    largest = own["max_ns"] or 0
    return [(min(bound, largest), n) for bound, n in own["histogram"]]


def _grid(values: list[int]) -> list[int]:
    """Upper bounds of bins, evenly apart on a logarithmic axis, that hold all `values`; one more
    below them, so that each bin has a beginning."""
    # Round numbers (1 us, 10 us) are typical latencies: the middle of a bin, not its bound.
    first = math.floor(math.log10(max(min(values), _FLOOR_NS)) * _BINS_PER_DECADE) - 1
    bounds = [round(10 ** ((first + 0.5) / _BINS_PER_DECADE))]
    while len(bounds) < 2 or bounds[-1] < max(values):
        bounds.append(round(10 ** ((first + len(bounds) + 0.5) / _BINS_PER_DECADE)))
    return bounds


def _counts(histogram: list[tuple[int, int]], bounds: list[int]) -> list[int]:
    """Counts per bin of `bounds`; a bucket belongs to the bin that holds its upper bound.

    Bin 0 stays empty: it only is where bin 1 begins, which holds all that is faster, too.
    """
    counts = [0] * len(bounds)
    for bound, n in histogram:
        counts[max(bisect_left(bounds, bound), 1)] += n
    return counts


def _path(counts: list[int], bounds: list[int], axis: _Axis, full: float) -> str:
    """SVG path of the steps; a bin of `full` counts fills the height, one of any is seen."""
    parts = [f"M0 {_HEIGHT}"]
    for index, n in enumerate(counts):
        if n:
            left = axis.percent(bounds[index - 1]) * _WIDTH / 100
            right = axis.percent(bounds[index]) * _WIDTH / 100
            top = min(_HEIGHT * (1 - n / full), _HEIGHT - 0.8)
            parts.append(f"H{left:.1f}V{top:.1f}H{right:.1f}V{_HEIGHT}")
    return "".join(parts) + f"H{_WIDTH}"
