# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A small result in the engine's JSON shape, its numbers chosen to be checked by hand.

Too deep, too shallow, power and latency are those of the published PCMark table (LKML, 15 Sep
2022, Pixel 6), so that the printed changes can be held against the printed ones.
"""

from typing import Any

from torpor.results.comparison import fill, sections

_CATALOGUE = (
    # key, title, unit, kind, direction, definition
    ("wakeups", "wake-ups", "", "count", "none", "Times an idle CPU was woken."),
    ("above_pct", "too deep", "%", "share", "lower", "Shorter than the target residency."),
    ("below_pct", "too shallow", "%", "share", "lower", "Long enough for a deeper state."),
    ("latency_mean_us", "mean wake-up latency", "us", "time", "lower", "Event to running."),
    ("idle_power_mw", "idle power", "mW", "power", "lower", "Power of idle CPUs."),
)
_FIELDS = ("key", "title", "unit", "kind", "direction", "definition")

_VALUES = {
    "menu": (6809, 24.15, 2.81, 204.6, 209.1),
    "teo": (6809, 10.32, 7.68, 184.39, 187.8),
    "shallowest": (6809, 0.0, 27.69, 95.55, 205.5),
}


def result(
    governors: tuple[str, ...] = ("menu", "teo", "shallowest"),
    *,
    has_power: bool = True,
    failed: str | None = None,
) -> dict[str, Any]:
    """Return a result for these governors; the one called ``failed`` has crashed."""
    found = {
        "format": 1,
        "kind": "replay",
        "torpor": {"version": "0.0.0"},
        "platform": {
            "name": "pixel6",
            "title": "Google Pixel 6",
            "sha256": "0" * 64,
            "hz": 250,
            "sources": [],
            "has_power": has_power,
            "clusters": [],
        },
        "options": {
            "hz": 250,
            "latency_limit_ns": None,
            "disabled_states": [],
            "recorded_on": None,
        },
        "catalogue": [dict(zip(_FIELDS, row, strict=True)) for row in _CATALOGUE],
        "notes": ["Open loop: a slower wake-up does not change the work that follows."],
        "traces": [_trace(governors, has_power, failed)],
    }
    refill(found)
    return found


def _trace(governors: tuple[str, ...], has_power: bool, failed: str | None) -> dict[str, Any]:
    return {
        "trace": {
            "path": "web.perf.data",
            "sha256": "1" * 64,
            "format": "perf.data",
            "clock": "mono",
            "kernel_release": "6.12.0",
            "machine": "x86_64",
            "cpu_count": 8,
            "duration_ns": 12_500_000_000,
            "carries": {"cpu_idle": True},
            "event_counts": {"cpu_idle": 13618},
            "losses": [
                {
                    "key": "lost_events",
                    "severity": "loss",
                    "count": 12,
                    "advice": "events lost while recording: record with a larger buffer",
                }
            ],
        },
        "inputs": {
            "spans": 6809,
            "merged_ticks": 0,
            "merged_poll_timeouts": 0,
            "cut_sleeps": 0,
            "unclosed_entries": 0,
            "tick_hz": 250,
            "tick_hz_recorded": 250,
            "recorded_on": None,
            "sleep_length_sources": {
                "recorded": {"probe": 0, "timer_events": 3000},
                "guessed": {"waking_timer": 0},
                "none": {"tick_only": 1000},
            },
            "wake_stamp_sources": {},
        },
        "runs": [_run(name, has_power, name == failed) for name in governors],
        "strips": [],
    }


def _run(name: str, has_power: bool, has_failed: bool) -> dict[str, Any]:
    values = _VALUES.get(name.partition("@")[0], _VALUES["menu"])
    keys = [row[0] for row in _CATALOGUE]
    metrics: dict[str, float | None] = dict(zip(keys, values, strict=True))
    if not has_power:
        metrics["idle_power_mw"] = None
    if has_failed:
        metrics = dict.fromkeys(keys)
    return {
        "governor": name,
        "name": name,
        "kind": "governor",
        "origin": "built in",
        "source_sha256": "2" * 64,
        "params": {},
        "error": "crashed in select() on CPU 3" if has_failed else None,
        "metrics": metrics,
        "clusters": [],
        "sleep_length_sources": {"recorded": {}, "guessed": {}, "none": {}},
    }


def refill(result: Any) -> None:
    """Have the engine compare the runs of each section again, from their ``metrics`` or seeds."""
    section: Any
    for section in sections(result):
        columns = [
            {
                "label": run["governor"],
                "has_failed": bool(run["error"]),
                "competes": run["kind"] == "governor",
                "samples": [
                    {"number": seed["seed"], "values": seed["metrics"]}
                    for seed in run.get("seeds", [{"seed": 0, "metrics": run["metrics"]}])
                ],
            }
            for run in section["runs"]
        ]
        is_paired = any("seeds" in run for run in section["runs"])
        section["comparison"] = fill(result["catalogue"], columns, is_paired=is_paired)
