# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Finds parts of a result that contradict one another, in a result of the right shape.

What renders or compares a result relies on its columns, states and strips fitting together.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from torpor.results.kinds import KINDS


def first(result: Mapping[str, Any]) -> str | None:
    """Return the first contradiction in words, or None."""
    return next(_all(result), None)


def _all(result: Mapping[str, Any]) -> Iterator[str]:
    sections = result["traces"] if result["kind"] == "replay" else [result]
    if not sections:
        yield "`traces` is empty: expected a recording"
    if result["kind"] == "diff":
        yield from _of_counters(result)
    if (own := KINDS[result["kind"]].contradictions) is not None:
        yield from own(result)
    if result["kind"] == "fidelity":
        yield from _of_decisions(result)
    for section in sections:
        for comparison in _comparisons(section):
            yield from _of_columns(comparison)
        if result["kind"] in ("replay", "simulation"):
            runs, columns = len(section["runs"]), len(section["comparison"]["labels"])
            if runs != columns:
                yield f"{runs} runs for {columns} columns"
            yield from _of_states(result["platform"], section)
            yield from _of_strips(section)


def _of_counters(result: Mapping[str, Any]) -> Iterator[str]:
    labels = {interval["label"] for interval in result["intervals"]}
    for number, group in enumerate(result["groups"]):
        for column in group["columns"]:
            if len(column["states"]) != len(group["states"]):
                yield (
                    f"group {number} has {len(group['states'])} states, and its column "
                    f"`{column['label']}` {len(column['states'])}"
                )
            if column["label"] not in labels:
                yield f"`{column['label']}` is a column of no interval"


def _of_decisions(result: Mapping[str, Any]) -> Iterator[str]:
    """Check that each decision is for a state there is."""
    cells = [cell for governor in result["governors"] for cell in governor["confusion"]]
    count = len(result["states"])
    for decision in (*result["disagreements"], *cells):
        for key in ("recorded", "chosen"):
            if decision[key] >= count:
                yield f"`{key}` is state {decision[key]}: expected one of {count} states"


def _comparisons(section: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if found := section.get("comparison"):
        yield found
    for key in ("task_comparisons", "flow_comparisons"):
        for named in section.get(key, ()):
            yield named["comparison"]


def _of_columns(comparison: Mapping[str, Any]) -> Iterator[str]:
    columns, base = len(comparison["labels"]), comparison["base"]
    if base is not None and not 0 <= base < columns:
        yield f"`base` is {base}: expected one of {columns} columns"
    for row in comparison["rows"]:
        if len(row["cells"]) != columns:
            yield f"`{row['key']}` has {len(row['cells'])} cells for {columns} columns"


def _of_states(platform: Mapping[str, Any], section: Mapping[str, Any]) -> Iterator[str]:
    """Compare each column's clusters and states with the platform's."""
    counts = {cluster["name"]: len(cluster["states"]) for cluster in platform["clusters"]}
    if len(counts) != len(platform["clusters"]):
        yield "two clusters of the platform have one name"
    for run in section["runs"]:
        named = [("name", cluster) for cluster in run["clusters"]]
        named += [("cluster", cpu) for cpu in run["cpus"]]
        for key, part in named:
            count = counts.get(part[key])
            if count is None:
                yield f"`{run['governor']}` has a cluster `{part[key]}`, the platform has none"
            elif [state["index"] for state in part["states"]] != list(range(count)):
                yield (
                    f"the states of `{part[key]}` under `{run['governor']}` are not "
                    f"the platform's 0 to {count - 1}"
                )


def _of_strips(section: Mapping[str, Any]) -> Iterator[str]:
    """Check that sleeps lie within their strip, one after the other, in states there are."""
    state_counts = {
        cpu: len(cluster["states"])
        for run in section["runs"]
        for cluster in run["clusters"]
        for cpu in cluster["cpus"]
    }
    drawn: list[str] | None = None
    for strip in section.get("strips", ()):
        start, end, cpu = strip["start_ns"], strip["end_ns"], strip["cpu"]
        names = [row["governor"] for row in strip["rows"]]
        if drawn not in (None, names):
            yield f"the strip of CPU {cpu} does not have the columns of the one before"
        drawn = names
        for row in strip["rows"]:
            edges = [edge for begin, until, _ in row["segments"] for edge in (begin, until)]
            # The last sleep may end after the window, by the exit latency.
            if any(a > b for a, b in pairwise([start, *edges])) or edges[-2:-1] > [end]:
                yield f"the sleeps of CPU {cpu} under `{row['governor']}` are out of order"
            deepest = max((state for _, _, state in row["segments"]), default=-1)
            if deepest >= state_counts.get(cpu, deepest + 1):
                yield f"CPU {cpu} sleeps in state {deepest}, which its cluster does not have"
