# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Counters on a terminal: the table that maintainers build by hand."""

from typing import TYPE_CHECKING, Any

from torpor import _engine
from torpor.cli.console import render, wrap

if TYPE_CHECKING:
    from rich.table import Table

_TEXT_WIDTH = 100
_UNKNOWN = "-"


def diff_text(result: dict[str, Any], width: int) -> str:
    """Return what was compared, a table a group of CPUs, and what a reader must know."""
    text_width = min(width, _TEXT_WIDTH)
    parts = [wrap(_heading(interval), text_width) + "\n" for interval in result["intervals"]]
    for group in result["groups"]:
        if len(group["columns"]) > 1:
            parts.append(f"\n{_title(group)}\n")
            parts.append(render(_comparison(group), width=width))
        for column in group["columns"]:
            parts.append(f"\n{_title(column)}{_label(group, column)}\n")
            parts.append(render(_table(group, column), width=width))
    notes = [wrap(note, text_width) + "\n" for note in _notes(result)]
    return "".join([*parts, "\n" if notes else "", *notes])


def _heading(interval: dict[str, Any]) -> str:
    facts = [f"{interval['before'] or 'boot'} to {interval['after']}"]
    if interval["elapsed_ns"] is not None:
        facts.append(f"{interval['elapsed_ns'] / 1e9:.2f} s")
    for key, word in (("governor", ""), ("driver", "driver "), ("kernel_release", "Linux ")):
        if interval[key]:
            facts.append(word + interval[key])
    return f"{interval['label']}: {', '.join(facts)}"


def _title(part: dict[str, Any]) -> str:
    cpus = part["cpus"]
    return f"CPU{'s' * (len(cpus) > 1)} {_engine.format_cpu_list(cpus)}"


def _label(group: dict[str, Any], column: dict[str, Any]) -> str:
    if len(group["columns"]) == 1:
        return ""
    rounds = f", {column['rounds']} rounds" if column["rounds"] > 1 else ""
    return f": {column['label']}{rounds}"


def _table(group: dict[str, Any], column: dict[str, Any]) -> "Table":
    share = "time %" if column["residency_of"] == "elapsed" else "of idle %"
    headings = [
        *("latency µs", "residency µs", "usage", "time ms", share, "mean µs"),
        *("above", "above %", "below", "below %", "rejected"),
    ]
    table = _new_table(["state", *headings])
    for state, counts in zip(group["states"], column["states"], strict=True):
        off = " (off)" if counts["is_off"] else ""
        limits = [_count(state["latency_us"]), _count(state["residency_us"])]
        table.add_row(f"{state['index']} {state['name']}{off}", *limits, *_cells(counts))
    table.add_row("all", "", "", *_cells(column["total"]))
    return table


def _cells(counts: dict[str, Any]) -> list[str]:
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


def _comparison(group: dict[str, Any]) -> "Table":
    columns = group["columns"]
    totals = [column["total"] for column in columns]
    table = _new_table(["", *(column["label"] for column in columns)])
    table.add_row("usage per s", *map(_per_second, columns))
    table.add_row("mean sleep µs", *(_mean(total["mean_sleep_us"]) for total in totals))
    for place, state in enumerate(group["states"]):
        cells = (_pct(column["states"][place]["residency_ratio"]) for column in columns)
        table.add_row(f"time in {state['name']} %", *cells)
    for key, words in (("above", "too deep (above) %"), ("below", "too shallow (below) %")):
        table.add_row(words, *(_pct(total[f"{key}_ratio"]) for total in totals))
        table.add_row("  change, points", *(_change(column, key) for column in columns))
    table.add_row("rejected", *(_count(total["rejected"]) for total in totals))
    return table


def _per_second(column: dict[str, Any]) -> str:
    usage, elapsed_ns = column["total"]["usage"], column["elapsed_ns"]
    return f"{usage / elapsed_ns * 1e9:,.1f}" if usage is not None and elapsed_ns else _UNKNOWN


def _change(column: dict[str, Any], key: str) -> str:
    change = column["changes"] and column["changes"][key]
    if not change:
        return ""
    low, high = change["low"] * 100, change["high"] * 100
    verdict = "" if change["is_significant"] else " n.s."
    return f"{change['difference'] * 100:+.2f} [{low:+.2f}, {high:+.2f}]{verdict}"


def _notes(result: dict[str, Any]) -> list[str]:
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


def _new_table(headings: list[str]) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=not number)
    return table


def _count(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _pct(ratio: float | None) -> str:
    return _UNKNOWN if ratio is None else f"{ratio * 100:.2f}"


def _mean(value_us: float | None) -> str:
    return _UNKNOWN if value_us is None else f"{value_us:,.1f}"
