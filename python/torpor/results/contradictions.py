# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Finds parts of a result that contradict one another, in a result of the right shape.

What renders or compares a result relies on its columns, states and strips fitting together.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from torpor.results.comparison import sections
from torpor.results.kinds import KINDS


def first(result: Mapping[str, Any]) -> str | None:
    """Return the first contradiction in words, or None."""
    return next(_all(result), None)


def _all(result: Any) -> Iterator[str]:
    parts = sections(result)
    if not parts:
        yield "`traces` is empty: expected a recording"
    for section in parts:
        for comparison in _comparisons(section):
            yield from _of_columns(comparison)
    yield from KINDS[result["kind"]].contradictions(result)


def _comparisons(section: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if found := section.get("comparison"):
        yield found
    for key in ("task_comparisons", "flow_comparisons", "cgroup_comparisons"):
        for named in section.get(key, ()):
            yield named["comparison"]


def _of_columns(comparison: Mapping[str, Any]) -> Iterator[str]:
    columns, base = len(comparison["labels"]), comparison["base"]
    if base is not None and not 0 <= base < columns:
        yield f"`base` is {base}: expected one of {columns} columns"
    for row in comparison["rows"]:
        if len(row["cells"]) != columns:
            yield f"`{row['key']}` has {len(row['cells'])} cells for {columns} columns"
