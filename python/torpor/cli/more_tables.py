# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tables below a replay's comparison: who ended sleeps, and several recordings as one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torpor.cli.console import bare_table, render, text_width, wrap
from torpor.results.comparison import (
    format_number,
    needed_text,
    rows,
    section_name,
    sections,
    short_labels,
)
from torpor.results.over_recordings import over_recordings, sign_text

if TYPE_CHECKING:
    from rich.table import Table

#: More recordings than these are shown in a line each.
FULL_TABLES = 4
_TOP = 8
_BY = {"task": "first task afterwards", "irq": "interrupt", "timer": "timer"}
#: Metrics in the line of each of many recordings.
_SHORT = ("sleeps", "above_pct", "below_pct", "latency_mean_us", "idle_power_mw")


def causes_text(result: Any, section: Any, width: int) -> str:
    """Return who ended each governor's sleeps, those of a wrong depth first."""
    causes = section.get("causes")
    if causes is None:
        return ""
    names = [run["governor"] for run in section["runs"] if not run["error"]]
    table = bare_table()
    for heading in ("governor", "ended by", _BY[result["options"]["by"]]):
        table.add_column(heading, overflow="fold")
    for heading in ("sleeps", "too deep", "too shallow", "woken", "mean µs", "max µs"):
        table.add_column(heading, justify="right")
    for name, short in zip(names, short_labels(names), strict=True):
        own = [cause for cause in causes if cause["governor"] == name]
        for place, cause in enumerate(own[:_TOP]):
            table.add_row("" if place else short, cause["kind"], cause["name"], *_cells(cause))
        if len(own) > _TOP:
            table.add_row("", f"and {len(own) - _TOP} more (--json)")
    return f"\n{render(table, width=width)}\n"


def _cells(cause: Any) -> Sequence[str]:
    woken = cause["woken"]
    mean = f"{cause['latency_ns'] / woken / 1e3:.1f}" if woken else "-"
    most = f"{cause['latency_max_ns'] / 1e3:.1f}" if woken else "-"
    return [*(str(cause[key]) for key in ("sleeps", "above", "below", "woken")), mean, most]


def lines_text(result: Any, width: int) -> str:
    """Return a line for each recording and governor."""
    known = {metric["key"]: metric for metric in result["catalogue"]}
    keys = [key for key in _SHORT if key != "idle_power_mw" or result["platform"]["has_power"]]
    table = bare_table()
    table.add_column("recording", overflow="fold")
    table.add_column("governor", overflow="fold")
    for key in keys:
        unit = known[key]["unit"].replace("us", "µs")
        table.add_column(f"{known[key]['title']} {unit}".rstrip(), justify="right")
    for section in sections(result):
        labels = short_labels([run["governor"] for run in section["runs"]])
        for place, (run, label) in enumerate(zip(section["runs"], labels, strict=True)):
            values = [run["metrics"].get(key) for key in keys]
            cells = [
                "failed" if run["error"] else "-" if v is None else format_number(v) for v in values
            ]
            table.add_row("" if place else section_name(section), label, *cells)
    return render(table, width=width) + "\n"


def over_text(result: Any, width: int) -> str:
    """Return means over recordings, their spread, and the sign test."""
    over = over_recordings(result)
    if over is None:
        return ""
    compared = over["comparison"]
    labels = short_labels(compared["labels"])
    head = (
        f"Over {over['recordings']} recordings: mean, spread between recordings (one standard "
        f"deviation), change from {labels[0]} with its 95 % interval paired by recording, and in "
        "how many recordings it is so, with the chance of that (sign test)."
    )
    if needed := needed_text(compared, "recordings"):
        head += f" {needed}"
    table: Table = bare_table()
    table.add_column("", overflow="fold")
    table.add_column("governor")
    for heading in ("mean", "spread", "change"):
        table.add_column(heading, justify="right")
    table.add_column("sign test")
    for row, more in zip(rows(compared), over["rows"], strict=True):
        for place, (cell, own) in enumerate(zip(row.cells, more["cells"], strict=True)):
            spread = "-" if own["spread"] is None else format_number(own["spread"])
            title = "" if place else row.heading
            table.add_row(title, labels[place], cell.text, spread, cell.change, sign_text(own))
    return f"{wrap(head, text_width(width))}\n{render(table, width=width)}\n"
