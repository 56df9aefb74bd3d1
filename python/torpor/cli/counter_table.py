# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Counters on a terminal: the table that maintainers build by hand."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torpor import _engine
from torpor.cli.columns import columns_text
from torpor.cli.console import text_width, wrap
from torpor.results.text import printable

if TYPE_CHECKING:
    from torpor.results import schema as shapes

#: Headings, and rows of as many cells.
_Table = tuple[list[str], list[list[str]]]

_UNKNOWN = "-"


def diff_text(result: "shapes.Diff", width: int) -> str:
    """Return what was compared, a table a group of CPUs, and what a reader must know."""
    narrow = text_width(width)
    parts = [wrap(_heading(interval), narrow) + "\n" for interval in result["intervals"]]
    for group in result["groups"]:
        if len(group["columns"]) > 1:
            parts.append(f"\n{_title(group)}\n")
            parts.append(columns_text(*_comparison(group), width))
        for column in group["columns"]:
            parts.append(f"\n{_title(column)}{_label(group, column)}\n")
            parts.append(columns_text(*_table(group, column), width))
            if column.get("got"):
                parts += ["\n", columns_text(*_got(group, column), width)]
    notes = [wrap(note, narrow) + "\n" for note in _notes(result)]
    return "".join([*parts, "\n" if notes else "", *notes])


def _heading(interval: "shapes.Interval") -> str:
    facts = [f"{interval['before'] or 'boot'} to {interval['after']}"]
    if interval["elapsed_ns"] is not None:
        facts.append(f"{interval['elapsed_ns'] / 1e9:.2f} s")
    of = interval["governor"], interval["driver"], interval["kernel_release"]
    words = zip(("", "driver ", "Linux "), of, strict=True)
    facts += [word + name for word, name in words if name]
    return f"{interval['label']}: {', '.join(facts)}"


def _title(part: "shapes.DiffGroup | shapes.DiffColumn") -> str:
    cpus = part["cpus"]
    return f"CPU{'s' * (len(cpus) > 1)} {_engine.format_cpu_list(cpus)}"


def _label(group: "shapes.DiffGroup", column: "shapes.DiffColumn") -> str:
    if len(group["columns"]) == 1:
        return ""
    rounds = f", {column['rounds']} rounds" if column["rounds"] > 1 else ""
    return f": {column['label']}{rounds}"


def _table(group: "shapes.DiffGroup", column: "shapes.DiffColumn") -> _Table:
    share = "time %" if column["residency_of"] == "elapsed" else "of idle %"
    headings = [
        *("state", "latency µs", "residency µs", "usage", "time ms", share, "mean µs"),
        *("above", "above %", "below", "below %", "rejected"),
    ]
    rows = []
    for state, counts in zip(group["states"], column["states"], strict=True):
        off = " (off)" if counts["is_off"] else ""
        limits = [_count(state["latency_us"]), _count(state["residency_us"])]
        rows.append([f"{state['index']} {state['name']}{off}", *limits, *_cells(counts)])
    rows.append(["all", "", "", *_cells(column["total"])])
    return headings, rows


def _got(group: "shapes.DiffGroup", column: "shapes.DiffColumn") -> _Table:
    rows = []
    for got in column["got"]:
        names = [group["states"][place]["name"] for place in got["states"]]
        cells = [_pct(got["requested_ratio"]), _pct(got["got_ratio"])]
        rows.append([printable(got["counter"]), ", ".join(names) or _UNKNOWN, *cells])
    return ["hardware's counter", "requested by", "requested %", "got %"], rows


def _cells(counts: "shapes.DiffCounts") -> list[str]:
    time_us = counts["time_us"]
    return [
        _count(counts["usage"]),
        _UNKNOWN if time_us is None else f"{time_us / 1e3:,.1f}",
        _pct(counts["residency_ratio"]),
        _mean(counts["mean_sleep_us"]),
        *(_count(counts["above"]), _pct(counts["above_ratio"])),
        *(_count(counts["below"]), _pct(counts["below_ratio"])),
        _count(counts["rejected"]),
    ]


def _comparison(group: "shapes.DiffGroup") -> _Table:
    columns = group["columns"]
    totals: list[Mapping[str, Any]] = [column["total"] for column in columns]
    rows = [
        ["usage per s", *map(_per_second, columns)],
        ["mean sleep µs", *(_mean(total["mean_sleep_us"]) for total in totals)],
    ]
    for place, state in enumerate(group["states"]):
        cells = (_pct(column["states"][place]["residency_ratio"]) for column in columns)
        rows.append([f"time in {state['name']} %", *cells])
    for key, words in (("above", "too deep (above) %"), ("below", "too shallow (below) %")):
        rows.append([words, *(_pct(total[f"{key}_ratio"]) for total in totals)])
        rows.append(["  change, points", *(_change(column, key) for column in columns)])
    rows.append(["rejected", *(_count(total["rejected"]) for total in totals)])
    return ["", *(column["label"] for column in columns)], rows


def _per_second(column: "shapes.DiffColumn") -> str:
    usage, elapsed_ns = column["total"]["usage"], column["elapsed_ns"]
    return f"{usage / elapsed_ns * 1e9:,.1f}" if usage is not None and elapsed_ns else _UNKNOWN


def _change(column: "shapes.DiffColumn", key: str) -> str:
    change = column["changes"] and column["changes"][key]
    if not change:
        return ""
    low, high = change["low"] * 100, change["high"] * 100
    verdict = "" if change["is_significant"] else " n.s."
    return f"{change['difference'] * 100:+.2f} [{low:+.2f}, {high:+.2f}]{verdict}"


def _notes(result: "shapes.Diff") -> list[str]:
    columns = [column for group in result["groups"] for column in group["columns"]]
    notes = []
    for interval in result["intervals"]:
        for note in interval["notes"]:
            where = f"CPU {_engine.format_cpu_list(note['cpus'])}: " if note["cpus"] else ""
            which = f"{interval['label']}: " if len(result["intervals"]) > 1 else ""
            notes.append(f"Note: {which}{where}{note['text']}.")
    if any(column["residency_of"] == "idle" for column in columns):
        notes.append(
            "Note: the dumps have no clock, so time is shown as a share of all time in idle states."
        )
    if any(column["changes"] for column in columns):
        notes.append(
            "Changes are against the first column, with 95 % intervals; n.s.: 0 is among them."
        )
    return list(dict.fromkeys(notes))


def _count(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _pct(ratio: float | None) -> str:
    return _UNKNOWN if ratio is None else f"{ratio * 100:.2f}"


def _mean(value_us: float | None) -> str:
    return _UNKNOWN if value_us is None else f"{value_us:,.1f}"
