# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The comparison table: one row a metric, one column a governor, changes against the first."""

from __future__ import annotations

from typing import Any

from ..comparison import is_left_out
from .numbers import change, number


def comparison(catalogue: list[dict[str, Any]], runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows of cells for the template. The base is the first run that finished."""
    base = next((run for run in runs if not run["error"]), None)
    rows = []
    for metric in catalogue:
        values = [None if r["error"] else r["metrics"].get(metric["key"]) for r in runs]
        if is_left_out(metric, values):
            continue
        if not metric["unit"]:
            # A metric without unit is a count.
            values = [None if v is None else round(v) for v in values]
        best = _best(metric, runs, values)
        base_value = base["metrics"].get(metric["key"]) if base else None
        rows.append(
            {
                "metric": metric,
                "cells": [
                    {
                        "failed": bool(run["error"]),
                        "value": value,
                        "text": number(value),
                        "is_base": run is base,
                        "change": change(value, base_value, metric["unit"]),
                        "best": run in best,
                    }
                    for run, value in zip(runs, values, strict=True)
                ],
            }
        )
    return {"base": base, "rows": rows}


def _best(
    metric: dict[str, Any], runs: list[dict[str, Any]], values: list[float | None]
) -> list[dict[str, Any]]:
    """Governors with the row's best value as printed. The oracle is no competitor: it knows the
    future. A row in which all are equal has no best."""
    if metric["direction"] not in ("lower", "higher"):
        return []
    known = [
        (run, value)
        for run, value in zip(runs, values, strict=True)
        if value is not None and run["kind"] == "governor"
    ]
    if len({number(value) for _, value in known}) < 2:
        return []
    pick = min if metric["direction"] == "lower" else max
    text = number(pick(value for _, value in known))
    return [run for run, value in known if number(value) == text]
