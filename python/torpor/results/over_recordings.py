# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Several recordings as one question: means over recordings, their spread, and a sign test."""

import math
from collections.abc import Sequence
from typing import Any, TypedDict

from torpor.results import types as results
from torpor.results.comparison import fill


class OverCell(TypedDict):
    """A governor's metric over recordings; None means unknown."""

    mean: float | None
    #: Standard deviation over recordings.
    spread: float | None
    #: Recordings in which it is below the first governor's, above it, and alike.
    lower: int
    higher: int
    alike: int
    #: Chance of so uneven a split if either way were as likely (two-sided); of the base, None.
    sign_p: float | None


class OverRow(TypedDict):
    """A metric."""

    key: str
    cells: list[OverCell]


class Over(TypedDict):
    """Result of :func:`over_recordings`."""

    recordings: int
    comparison: "results.Comparison"
    rows: list[OverRow]


def over_recordings(result: Any) -> Over | None:
    """Compare governors over the recordings of a replay; None for less than two.

    A recording is a draw: ``comparison`` has means over recordings, with 95 % intervals of the
    differences paired by recording. ``rows`` are the same metrics, each governor with its
    ``spread`` (standard deviation) and the sign test: in how many recordings it is ``lower`` or
    ``higher`` than the first, and the chance ``sign_p`` of that were both as likely. Recordings on
    which a governor failed are left out.

    >>> result = torpor.replay([recording] * 3, platform="i5-10600k", governors=["menu", "teo"])
    >>> over = torpor.over_recordings(result)
    >>> over["recordings"], over["rows"][0]["key"], over["rows"][0]["cells"][1]["higher"]
    (3, 'wakeups', 0)
    """
    data = result.to_dict() if hasattr(result, "to_dict") else result
    traces = [trace for trace in data.get("traces", ()) if not _has_failed(trace)]
    if len(traces) < 2:
        return None
    columns = [
        {
            "label": run["governor"],
            "competes": run["kind"] == "governor",
            "samples": [
                {"number": number, "values": trace["runs"][place]["metrics"]}
                for number, trace in enumerate(traces)
            ],
        }
        for place, run in enumerate(traces[0]["runs"])
    ]
    compared = fill(data["catalogue"], columns, is_paired=True)
    rows: list[OverRow] = []
    for row in compared["rows"]:
        values = [
            [t["runs"][p]["metrics"].get(row["key"]) for t in traces] for p in range(len(columns))
        ]
        rows.append({"key": row["key"], "cells": [_cell(values[0], own) for own in values]})
    return {"recordings": len(traces), "comparison": compared, "rows": rows}


def _has_failed(trace: Any) -> bool:
    return any(run["error"] for run in trace["runs"])


def _cell(base: Sequence[float | None], own: Sequence[float | None]) -> OverCell:
    known = [value for value in own if value is not None]
    mean = sum(known) / len(known) if known else None
    spread = None
    if mean is not None and len(known) > 1:
        spread = math.sqrt(sum((value - mean) ** 2 for value in known) / (len(known) - 1))
    pairs = [(a, b) for a, b in zip(base, own, strict=True) if a is not None and b is not None]
    lower, higher = sum(b < a for a, b in pairs), sum(b > a for a, b in pairs)
    return {
        "mean": mean,
        "spread": spread,
        "lower": lower,
        "higher": higher,
        "alike": len(pairs) - lower - higher,
        "sign_p": None if own is base else sign_p(lower, higher),
    }


def sign_p(lower: int, higher: int) -> float:
    """Return the two-sided chance of a split at least as uneven, were both ways as likely.

    >>> sign_p(0, 5), sign_p(3, 3), sign_p(0, 0)
    (0.0625, 1.0, 1.0)
    """
    count, least = lower + higher, min(lower, higher)
    tail = sum(math.comb(count, k) for k in range(least + 1))
    return min(1.0, 2.0 * tail / 2.0**count)


def sign_text(cell: OverCell) -> str:
    """Say the split: ``lower in 9 of 10``."""
    if cell["sign_p"] is None:
        return ""
    count = cell["lower"] + cell["higher"] + cell["alike"]
    side = "lower" if cell["lower"] >= cell["higher"] else "higher"
    most = max(cell["lower"], cell["higher"])
    if not most:
        return f"alike in {count}"
    return f"{side} in {most} of {count}"
