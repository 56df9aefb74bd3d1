# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The inputs of a replay: the recording's contents, its gaps, where sleep lengths came from."""

from __future__ import annotations

from collections.abc import Iterable

from torpor.results import types as results
from torpor.results.comparison import agreement_text
from torpor.results.numbers import number, share

# Best first. Said in full once, here; the engine's keys stay short.
_SLEEP_LENGTH = {
    "probe": ("kernel's own answer", "a probe on tick_nohz_get_sleep_length"),
    "timer_events": ("timer events", "the timers armed in the recording"),
    "waking_timer": ("the waking timer", "the timer that did end the sleep"),
    "tick_only": ("tick only", "no timer is known: the next tick bounds the sleep"),
}
_WAKE_STAMP = {
    "waking_event": "the waking event of a task",
    "interrupt_event": "the interrupt",
    "timer_expiry": "the timer's expiry",
    "exit_stamp": "the exit from idle, for want of the event",
}
_SEVERITY_ORDER = {"damage": 0, "loss": 1, "info": 2}


def tables(own: results.TraceOutcome) -> dict[str, object]:
    """The tables of the section "Inputs" for one trace."""
    raw = own["inputs"]
    columns = [("the recording", raw["sleep_length_sources"])]
    columns += [
        (run["governor"], run["sleep_length_sources"])
        for run in own["runs"]
        if not run["error"] and any(run["sleep_length_sources"].values())
    ]
    agreement = own.get("agreement")
    return {
        "agreement": agreement_text(agreement, "--recorded-on") if agreement else None,
        "carries": sorted(own["trace"]["carries"].items(), key=lambda item: (not item[1], item[0])),
        "events": sorted(own["trace"]["event_counts"].items(), key=lambda i: (-i[1], i[0])),
        "losses": sorted(
            own["trace"]["losses"],
            key=lambda loss: (_SEVERITY_ORDER.get(loss["severity"], 3), loss["key"]),
        ),
        "sleep_columns": [name for name, _ in columns],
        "sleep_rows": [
            {
                "name": _SLEEP_LENGTH.get(key, (key, ""))[0],
                "meaning": _SLEEP_LENGTH.get(key, (key, ""))[1],
                "shares": [share(c.get(key, 0), sum(c.values())) for _, c in columns],
            }
            for key in _ordered(raw["sleep_length_sources"], _SLEEP_LENGTH)
        ],
        "wake_rows": [
            {
                "name": _WAKE_STAMP.get(key, key),
                "count": number(count),
                "share": share(count, sum(raw["wake_stamp_sources"].values())),
            }
            for key in _ordered(raw["wake_stamp_sources"], _WAKE_STAMP)
            for count in [raw["wake_stamp_sources"][key]]
        ],
    }


def _ordered(counts: dict[str, int], known: Iterable[str]) -> list[str]:
    """The keys of `counts`, those we know first and in our order."""
    return [key for key in known if key in counts] + [key for key in counts if key not in known]
