# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The inputs of a replay: the recording's contents, its gaps, where sleep lengths came from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from torpor.results import types as results
from torpor.results.comparison import SLEEP_CLASSES, agreement_text
from torpor.results.numbers import number_text, share_text
from torpor.results.table import Table, word
from torpor.view.report.environment import prose, table_html

# Said in full once, here; the engine's keys stay short.
_SLEEP_LENGTH = {
    "probe": "the kernel's value, by a probe",
    "timer_events": "events of the armed timers",
    "waking_timer": "an interrupt that woke a task counts as its timer",
    "tick_only": "no timer",
}
_WAKE_STAMP = {
    "waking_event": "the waking event of a task",
    "interrupt_event": "the interrupt",
    "timer_expiry": "the timer's expiry",
    "exit_stamp": "the exit from idle, for want of the event",
}
_SEVERITY_ORDER = {"damage": 0, "loss": 1, "info": 2}
_COUNTS = {
    "spans": "idle spans",
    "merged_ticks": "recorded ticks merged away",
    "merged_poll_timeouts": "recorded poll time-outs merged away",
    "cut_sleeps": "recorded sleeps left out, cut by the recording's edge",
    "unclosed_entries": "idle entries without an exit",
    "tick_hz_recorded": "tick of the recording, Hz",
}


def tables(own: results.TraceOutcome) -> Markup:
    """Return the section of a recording's contents."""
    raw, trace, agreement = own["inputs"], own["trace"], own.get("agreement")
    said = prose(agreement_text(agreement, raw["recorded_on"])) if agreement else ""
    carried = sorted(trace["carries"].items(), key=lambda item: (not item[1], item[0]))
    events = sorted(trace["event_counts"].items(), key=lambda item: (-item[1], item[0]))
    counts: Any = raw
    losses = sorted(
        trace["losses"], key=lambda loss: (_SEVERITY_ORDER.get(loss["severity"], 3), loss["key"])
    )
    lost = [(of["key"], of["severity"], of["count"], of["advice"]) for of in losses]
    columns = {"the recording": _counts(raw["sleep_length_sources"])}
    columns |= {
        run["governor"]: given
        for run in own["runs"]
        if not run["error"] and any((given := _counts(run["sleep_length_sources"])).values())
    }
    title = "Time to the next timer that a governor was given, by source"
    return Markup('<p>{}</p>{}<div class="columns">{}{}{}{}</div>{}').format(
        said,
        _table("Losses", ["What", "severity", "count", "advice"], lost),
        _table("What the recording carries", ["Kind of event", "recorded"], carried),
        _table("Events read", ["Event", "count"], events),
        _table("Idle spans", ["", "count"], [(_COUNTS[key], counts[key]) for key in _COUNTS]),
        _sources("When a wake-up came, by", _WAKE_STAMP, {"": raw["wake_stamp_sources"]}),
        _sources(title, {}, columns),
    )


def _counts(sources: results.SleepLengthSources) -> dict[str, int]:
    """Return the decisions of each source, its class before it, the best first."""
    by_class: Any = sources
    return {
        f"{words}: {_SLEEP_LENGTH.get(key, key)}": count
        for name, words in SLEEP_CLASSES.items()
        for key, count in by_class.get(name, {}).items()
    }


def _table(title: str, headings: list[str], rows: Iterable[Iterable[object]]) -> Markup:
    cells = [[word(_text(value)) for value in row] for row in rows]
    drawn = table_html(Table("inputs", title, headings, cells)) if cells else "None."
    return Markup("<div><h4>{}</h4>{}</div>").format(title, drawn)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number_text(value)


def _sources(title: str, names: dict[str, str], columns: dict[str, dict[str, int]]) -> Markup:
    """Return the share of each source, known ones first, in our order; of one column the count."""
    first = next(iter(columns.values()))
    is_counted = list(columns) == [""]
    keys = [*(key for key in names if key in first), *(key for key in first if key not in names)]
    rows = [
        (
            names.get(key, key),
            *((first[key],) if is_counted else ()),
            *(share_text(counts.get(key, 0), sum(counts.values())) for counts in columns.values()),
        )
        for key in keys
    ]
    heads = ["count", "share"] if is_counted else list(columns)
    return _table(title, ["Source", *heads], rows)
