# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Saved results side by side, whatever made them: the same metric in the same row."""

from collections.abc import Mapping
from typing import Any

from torpor._engine import TorporError
from torpor.results.catalogue import common_key, counts, metrics
from torpor.results.comparison import fill, not_verified
from torpor.results.kind import Column
from torpor.results.kinds import KINDS, unverified
from torpor.results.record import Record, headed


def compare(*results: Any, labels: list[str] | None = None) -> Record:
    """Put results side by side, and compare the others with the first.

    Args:
        results: What any call returned, or :func:`torpor.load` has read: replays, simulations,
            differences of counters, recordings' statistics, comparisons on a live machine.
        labels: What to call them, one each; numbers without.

    Returns a result of kind ``beside``: ``sources`` (``label``, ``kind``, ``what``), ``comparison``
    with a row for each metric that two columns have, and ``notes`` on other differences and
    metrics without a counterpart. Columns are compared as they are: without common seeds no change
    has an interval.

    Raises TorporError where nothing can be compared, or a kind has no metrics.
    """
    parsed = [one.to_dict() if hasattr(one, "to_dict") else one for one in results]
    names = labels or [str(number) for number in range(1, len(parsed) + 1)]
    if len(names) != len(parsed):
        raise TorporError(f"{len(names)} labels for {len(parsed)} results: expected one for each")
    sources, columns = [], []
    for name, result in zip(names, parsed, strict=True):
        kind = result.get("kind") if isinstance(result, Mapping) else None
        columns_of = KINDS[kind].columns if kind in KINDS else None
        if columns_of is None:
            expected = ", ".join(name for name, of in KINDS.items() if of.columns)
            raise TorporError(
                f"{name}: kind `{kind}` has no metrics to compare: expected {expected}"
            )
        found = list(columns_of(result))
        alone = len(found) == 1
        columns += [c._replace(label=name if alone else f"{name}: {c.label}") for c in found]
        what = "; ".join(dict.fromkeys(v for c in found[:1] for v in c.of.values()))
        sources.append({"label": name, "kind": kind, "what": what})
    if len(columns) < 2:
        raise TorporError("there is one column: compare two results, or one with two governors")
    metrics, lonely = _metrics(columns)
    if not metrics:
        raise TorporError("no metric is known in two columns, so there is nothing to compare")
    table = [
        {
            "label": column.label,
            "samples": [{"number": 0, "values": column.values}],
        }
        for column in columns
    ]
    return headed(
        "beside",
        {
            "sources": sources,
            "comparison": fill(metrics, table, is_paired=False),
            "notes": [*_unverified(names, parsed), *_notes(columns, lonely)],
        },
    )


def _metrics(columns: list[Column]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the metrics that two columns have, in the catalogue's order; and the titles of the
    others."""
    known: dict[str, dict[str, Any]] = {}
    for metric in metrics().values():
        key = common_key(metric["key"])
        if key in counts():
            key = f"{key}_per_s"
            metric = metric | {"unit": "1/s", "kind": "rate"}
        known.setdefault(key, metric | {"key": key})
    having = {key: sum(c.values.get(key) is not None for c in columns) for key in known}
    sums = {key for key, metric in known.items() if metric["lead"]["is_sum"]}
    shared = [m for key, m in known.items() if having[key] > 1 and key not in sums]
    lonely = [
        m["title"] for key, m in known.items() if having[key] == 1 or (having[key] and key in sums)
    ]
    return shared, list(dict.fromkeys(lonely))


def _unverified(names: list[str], parsed: list[Any]) -> list[str]:
    return [
        f"{name}: {path}: the recorded decisions are "
        f"{not_verified(result.get('options', {}).get('recorded_on') or result.get('platform'))}"
        for name, result in zip(names, parsed, strict=True)
        for path in unverified(result)
    ]


def _notes(columns: list[Column], lonely: list[str]) -> list[str]:
    notes = []
    for name in dict.fromkeys(name for column in columns for name in column.of):
        found = list(dict.fromkeys(column.of.get(name, "unknown") for column in columns))
        if len(found) > 1:
            notes.append(f"Besides the column, the {name} differs: {', '.join(found)}.")
    if lonely:
        notes.append(f"In one column alone, or a sum, so not compared: {', '.join(lonely)}.")
    notes.append("No interval: the columns share no seeds or rounds that pair them.")
    return notes
