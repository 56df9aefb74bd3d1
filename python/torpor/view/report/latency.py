# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Wake-up latency: the share of wake-ups within a latency, a curve for each governor."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from torpor.results import types as results
from torpor.results.numbers import duration, share_text
from torpor.results.picture import Chart, Point, Series
from torpor.results.table import Table, word
from torpor.view.chart import inline_both, places, sizes
from torpor.view.report.summary import Style, styles

# The engine's buckets are 1 % wide; drawn and read out are bins wide enough to see.
_BINS_PER_DECADE = 20
# All that is faster falls into one bin: it would stretch the axis to show nothing.
_FLOOR_NS = 100


def latency(
    runs: Sequence[results.RunOutcome], style: Mapping[str, Style] | None = None
) -> dict[str, Any] | None:
    """Return the data of the latency chart and its slider; None if no run has a histogram."""
    drawn = [r for r in runs if not r["error"] and r.get("latency") and r["latency"]["count"]]
    drawn = [r for r in drawn if r["latency"]["histogram"]]
    if not drawn:
        return None
    looks = styles(runs) if style is None else style
    histograms = [_histogram(r["latency"]) for r in drawn]
    bounds = _grid([bound for h in histograms for bound, _ in h])
    counts = [_counts(h, bounds) for h in histograms]
    # The slider starts where the first governor has 99 % of its wake-ups before it.
    start = min(bisect_left(bounds, drawn[0]["latency"]["p99_ns"] or 0), len(bounds) - 1)
    rows, series, all_totals = [], [], []
    for run, bins in zip(drawn, counts, strict=True):
        own, totals = run["latency"], list(accumulate(bins))
        shares = [100 * total / own["count"] for total in totals]
        points = [Point(bound / 1e3, y, "") for bound, y in zip(bounds, shares, strict=True)]
        of = looks[run["governor"]]
        series.append(Series("", points, of.colour, 0.0, is_line=True, dashes=of.dashes))
        all_totals.append(totals)
        known = [duration(own[key]) for key in ("p50_ns", "p99_ns", "max_ns")]
        known.append(share_text(totals[start], own["count"]))
        rows.append(list(map(word, (run["governor"], *known))))
    chart = Chart(
        "Share of wake-ups within a latency",
        "wake-up latency, µs (log)",
        "wake-ups within, %",
        series,
        is_log_x=True,
        y_ends=(0.0, 100.0),
    )
    cuts = {
        css: places(chart._replace(size=size), [b / 1e3 for b in bounds])
        for css, size in sizes(chart).items()
    }
    bound_texts = [duration(bound) for bound in bounds]
    headings = ["Governor", "p50", "p99", "max", "within"]
    return {
        "table": Table("latency", "Wake-up latency", headings, rows),
        "charts": inline_both(chart),
        "bounds": bounds,
        "bound_texts": bound_texts,
        "data": {
            "texts": bound_texts,
            "cuts": {
                css: {"x": [round(x, 1) for x in xs], "top": round(top), "bottom": round(bottom)}
                for css, (xs, top, bottom) in cuts.items()
            },
            "rows": all_totals,
            "counts": [run["latency"]["count"] for run in drawn],
        },
        "start": start,
    }


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
