# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A verification on a terminal: who the machine behaves like, by how much, and where not."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torpor.cli.console import bare_table, render, text_width, wrap
from torpor.cli.table import listed_text
from torpor.results.comparison import not_verified, percent, rows

if TYPE_CHECKING:
    from rich.table import Table

    from torpor.results import types as results

#: The keys of ``by_source``, in words.
_SOURCES = {
    "probe": "the kernel's own value, by a probe",
    "timers": "timers",
    "tick": "timers: the tick, kept by a timer due before it",
    "rcu_stand_in": "the tick, kept by RCU (approximated)",
    "tick_went_on": "the tick, which continued although it was to stop",
    "stopped_tick": "the expiry of the stopped tick",
}


def fidelity_text(result: "results.Fidelity", width: int) -> str:
    """Return the verdict, its tables, and notes."""
    narrow = text_width(width)
    parts = [wrap(line, narrow) + "\n" for line in _heading(result)]
    compared = result["comparison"]
    parts += ["\n", listed_text("governor", compared["labels"], rows(compared), width)]
    failed = [g for g in result["governors"] if g["error"] is not None]
    parts += [wrap(f"{g['governor']} failed: {g['error']}", narrow) + "\n" for g in failed]
    best = result["governors"][0]
    if best["error"] is None:
        parts += [f"\nBy source of the time to the next timer, {best['governor']}:\n"]
        parts += [render(_sources(best), width=width)]
        if best["agreeing"] < result["decisions"]["compared"]:
            parts += [f"\nRecorded states, and what {best['governor']} chose:\n"]
            parts += [render(_confusion(result, best), width=width)]
    if result["disagreements"]:
        parts += ["\nThe first disagreements:\n"]
        parts += [wrap(line, width, indent="    ") + "\n" for line in _disagreements(result)]
    if result["assumptions"]:
        parts += ["\nAssumptions tried, and decisions that then agree:\n"]
        parts += [render(_assumptions(result), width=width)]
    parts += ["\nSleeps by Torpor's rule, by the kernel's cpu_idle_miss events, and by sysfs:\n"]
    parts += [render(_counters(result), width=width)]
    parts += [wrap(f"Note: {note}", narrow) + "\n" for note in result["notes"]]
    return "".join(parts)


def _heading(result: "results.Fidelity") -> list[str]:
    trace, decisions, verdict = result["trace"], result["decisions"], result["verdict"]
    facts = [trace["format"], f"{trace['duration_ns'] / 1e9:.2f} s"]
    if trace["kernel_release"]:
        facts.append(f"Linux {trace['kernel_release']}")
    lines = [
        f"{trace['path']}: {', '.join(facts)}",
        f"on {result['platform']}, tick {result['hz']} Hz",
    ]
    compared = f"{decisions['compared']:,} decisions"
    if decisions["hidden"]:
        compared += f", {decisions['hidden']} of them without an idle entry"
    if decisions["before_reset"]:
        compared += f"; {decisions['before_reset']} before the governor was reset left out"
    lines.append(compared)
    best = " or ".join(verdict["best"]) or "no governor"
    commonest = decisions["commonest"] / max(decisions["compared"], 1)
    if decisions["commonest"] == decisions["compared"]:
        line = (
            "NOT verified: all decisions are for one state, which shows neither governor nor "
            f"machine; nearest is {best}"
        )
    elif not verdict["is_verified"]:
        # As where no governor was asked: with at most one state, or with no idle driver.
        line = f"{not_verified('--platform')} The nearest governor is {best}"
    elif verdict["hangs_on_history"]:
        line = (
            f"This machine behaves like {best}, which this recording cannot distinguish: that "
            f"would require the governor's history before it. The highest agreement"
        )
    else:
        line = f"This machine behaves like {best}"
    line += f": {percent(verdict['agreement'])}"
    if verdict["next_agreement"] is not None:
        others = ", ".join(verdict["next_best"])
        line += f"; next best {others}: {percent(verdict['next_agreement'])}"
    lines.append(line)
    if verdict["control"] is not None:
        share = percent(verdict["control_agreement"])
        lines.append(f"Control, the best of another family: {verdict['control']}: {share}")
    lines.append(f"Control, always the commonest state: {percent(commonest)}")
    return lines


def _sources(governor: "results.GovernorFidelity") -> "Table":
    table = _table("source", "decisions", "agree", "")
    for row in governor["by_source"]:
        share = percent(row["agreeing"] / max(row["decisions"], 1))
        name = _SOURCES[row["source"]]
        table.add_row(name, f"{row['decisions']:,}", f"{row['agreeing']:,}", share)
    return table


def _confusion(result: "results.Fidelity", governor: "results.GovernorFidelity") -> "Table":
    names = result["states"]
    counts = {(c["recorded"], c["chosen"]): c["count"] for c in governor["confusion"]}
    table = _table("recorded", *names)
    for recorded, name in enumerate(names):
        row = [counts.get((recorded, chosen), 0) for chosen in range(len(names))]
        table.add_row(name, *(f"{count:,}" if count else "-" for count in row))
    return table


def _disagreements(result: "results.Fidelity") -> list[str]:
    names = result["states"]
    return [
        f"  {d['time_ns'] / 1e9:.9f} CPU {d['cpu']}: recorded {names[d['recorded']]}"
        f"{'' if d['entered'] else ' (not entered)'}, chosen {names[d['chosen']]}; "
        f"sleep length {_time(d['sleep_length_ns'])} ({d['source']}), "
        f"next event {_time(d['delta_next_ns'])}, hrtimer {_time(d['next_hrtimer_ns'])}, "
        f"wheel {_time(d['next_wheel_ns'])}, tick {_time(d['tick_ns'])} "
        f"({_tick(d)}); idle since {d['idle_entry_ns'] / 1e9:.9f}, "
        f"local clock {d['local_clock_ns'] / 1e9:.9f}, util {d['util']}, "
        f"iowait {d['nr_iowait']}; slept {_time(d['residency_ns'])}"
        f"{', tick' if d['got_tick'] else ''}"
        for d in result["disagreements"]
    ]


def _tick(disagreement: "results.Disagreement") -> str:
    if disagreement["tick_was_stopped"]:
        return "stopped before"
    recorded = "stopped" if disagreement["tick_is_stopped"] else "went on"
    return f"{recorded}; the answer was to {'stop' if disagreement['stop_tick'] else 'keep'} it"


def _assumptions(result: "results.Fidelity") -> "Table":
    table = _table("idle entry after the switch", "RCU assumed", "agree", "")
    for tried in result["assumptions"]:
        table.add_row(
            _time(tried["entry_delay_ns"]),
            "yes" if tried["rcu_stand_in"] else "no",
            f"{tried['agreeing']:,}",
            "chosen" if tried["is_chosen"] else "",
        )
    return table


def _counters(result: "results.Fidelity") -> "Table":
    has_sysfs = any(counter["sysfs"] for counter in result["counters"])
    sysfs_names = ("sysfs usage", "above", "below") if has_sysfs else ()
    table = _table("CPU", "state", "usage", "above", "below", "event above", "below", *sysfs_names)
    counters: Sequence[Mapping[str, Any]] = result["counters"]
    for counter in counters:
        row: list[int | None] = [
            counter[key] for key in ("usage", "above", "below", "miss_above", "miss_below")
        ]
        if has_sysfs:
            sysfs: Mapping[str, Any] = counter["sysfs"] or {}
            row += [sysfs.get(key) for key in ("usage", "above", "below")]
        cells = ["-" if value is None else f"{value:,}" for value in row]
        table.add_row(str(counter["cpu"]), counter["name"], *cells)
    return table


def _table(first: str, *others: str) -> "Table":
    table = bare_table()
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _time(time_ns: int | None) -> str:
    if time_ns is None:
        return "none"
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if abs(time_ns) >= size:
            return f"{time_ns / size:.6g} {unit}"
    return f"{time_ns / 1e3:g} µs"
