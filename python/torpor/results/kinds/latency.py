# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Wake-up latencies and refills of idle states, as recordings show them."""

from collections.abc import Mapping, Sequence
from typing import Any

from torpor.results import types as results
from torpor.results.kind import Kind, saved_by
from torpor.results.sentences import cannot_show, count_text, sentence, state_text
from torpor.results.table import Cell, Post, Table, Verdict, counted, number, word

_LINES = "Lines for the platform's file"
_CAUSES = {
    "timer": "timer",
    "ipi": "IPI",
    "waking": "sched_waking",
    "interrupt": "≥ interrupt",
}
_REASONS = {
    "before_entry": "its cause came before the entry",
    "during_entry": "its cause came within the advertised latency after the entry",
    "several_causes": "several causes",
    "unknown": "no event shows when its cause came",
}
_VERDICTS = {
    "measured": "measured",
    "not_separable": "not separable from 0",
    "confounded": "no: other work",
    "too_few": "too few pairs",
}
_TIMES = ("min_ns", "p10_ns", "p50_ns", "p90_ns", "p99_ns", "mean_ns")
_ENTRY = "the entry latency: 0 events mark the moment at which a CPU has reached its state"


def table(rows: "Sequence[results.LatencyStats]") -> Table:
    """Return latencies by state and cause."""
    headings = ["cluster", "state", "cause", "advertised µs", "count"]
    headings += ["min µs", "p10", "median", "p90", "p99", "mean"]
    cells = [
        [
            *(*_state(row), word(_CAUSES[row["cause"]]), _us(row["advertised_ns"], 0)),
            *(number(row["count"]), *(_us(row[key]) for key in _TIMES)),  # type: ignore[literal-required]
        ]
        for row in rows
    ]
    return Table("latency", "From the cause to the cpu_idle exit", headings, cells, keys=3)


def refill_table(rows: "Sequence[results.RefillStats]") -> Table:
    """Return what bursts of tasks lose after each state, by pairs of bursts."""
    headings = ["cluster", "state", "bursts after it", "pairs", "longer by µs", "from", "to"]
    headings += ["before: pairs", "longer by µs", "from", "to", "refill"]
    cells = [
        [
            *_state(row),
            *(number(row["bursts"]), number(row["pairs"])),
            *(_us(time_ns, 1) for time_ns in (row["refill_ns"], row["low_ns"], row["high_ns"])),
            number(row["before_pairs"]),
            *(_us(row["before_ns"], 1), _us(row["before_low_ns"], 1)),
            _us(row["before_high_ns"], 1),
            word(_VERDICTS[row["verdict"]]),
        ]
        for row in rows
    ]
    title = "Bursts of work after it, against those of the same task after a shallow state"
    return Table("refill", title, headings, cells, keys=2)


def post(result: "results.Measurement") -> Post:
    """Return latencies, what shows none, refills, and lines for a platform's file."""
    traces, rows = result["recordings"], result["latency"]
    measured = sum(row["count"] for row in rows if row["cause"] != "interrupt")
    left_out = [
        [*_state(row), word(_REASONS[row["reason"]]), number(row["count"])]
        for row in result["left_out"]
    ]
    headings = ["cluster", "state", "sleeps of which", "count"]
    machine = result["platform"] or "not named, so no sleep is left out as too short for its state"
    facts = [
        *(
            f"{x['path']}: {counted(x['cpu_count'], 'CPU')}, {x['duration_ns'] / 1e9:.2f} s"
            for x in traces
        ),
        f"machine: {machine}",
        f"{count_text(measured)} wake-ups with a known time of their cause; "
        f"{count_text(result['cut_sleeps'])} sleeps without a recorded begin or end",
    ]
    notes = [cannot_show([_ENTRY])]
    if any(row["cause"] == "interrupt" for row in rows):
        notes.append(
            "≥ interrupt: the handler is entered after the exit, so the exit less its entry only "
            "bounds the latency from below. It is no latency."
        )
    if any(row["cause"] == "waking" for row in rows):
        notes.append(
            "sched_waking: the waker selects a CPU afterwards, and that time is included, so it "
            "bounds the latency from above, and makes no line for a platform."
        )
    if any(row["pairs"] and not row["has_frequency"] for row in result["refill"]):
        notes.append("No cpu_frequency: bursts are compared as if all ran at one frequency.")
    if any(row["verdict"] == "confounded" for row in result["refill"]):
        notes.append(
            "no: other work: tasks worked longer before these sleeps, too, or less after them."
        )
    notes += [f"{x['count']} × {x['advice']}" for trace in traces for x in trace["losses"]]
    lines = [[*_state(row), word(line)] for row in result["lines"] for line in row["toml"]]
    tables = [
        table(rows),
        Table("left_out", "Left out", headings, left_out, keys=3),
        refill_table(result["refill"]),
        # A terminal shows them ready to paste.
        Table("lines", _LINES, ["cluster", "state", "TOML"], lines, keys=3, is_detail=True),
    ]
    return Post("Wake-up latencies", facts, [each for each in tables if each.rows], notes)


def toml(result: "results.Measurement") -> str:
    """Return the lines that a platform's file can take over, by state."""
    parts = []
    for row in result["lines"]:
        place = ", ".join(cell.text for cell in _state(row))
        parts.append("\n".join([f"# {place}", *row["toml"]]))
    return "\n\n".join(parts)


def _state(row: Mapping[str, Any]) -> list[Cell]:
    name = f"{row['state']} {row['name'] or ''}".rstrip()
    return [word(row["cluster"] or "all"), word(name)]


def _named(row: Mapping[str, Any]) -> str:
    """Return a state for a sentence."""
    return state_text((row["cluster"] or "", row["state"], _state(row)[1].text))


def _us(time_ns: int | None, digits: int = 2) -> Cell:
    return number(None if time_ns is None else time_ns / 1e3, digits)


def explain(result: "results.Measurement", _governor: str | None) -> list[str]:
    return [*_said(result)[1:], cannot_show([_ENTRY])]


def verdict(result: "results.Measurement", _governor: str | None) -> Verdict:
    """Return the latency of the first state that shows one."""
    said = _said(result)
    return Verdict("", said[0] if said else "No sleep shows a wake-up latency")


def _said(result: "results.Measurement") -> list[str]:
    """Return a sentence for each state that shows a latency or a refill."""
    said: list[str] = []
    for row in result["latency"]:
        if row["cause"] != "interrupt" and len(said) < 5:
            advertised = row["advertised_ns"]
            against = "" if advertised is None else f", advertised {advertised / 1e3:,.0f} µs"
            text = f"{_named(row)}: median {row['p50_ns'] / 1e3:,.2f} µs after "
            text += f"{count_text(row['count'])} wake-ups by {_CAUSES[row['cause']]}{against}"
            said.append(sentence(text))
    said += [
        sentence(
            f"{_named(row)}: tasks work {row['refill_ns'] / 1e3:,.1f} "
            f"µs longer after it, by {count_text(row['pairs'])} pairs of bursts"
        )
        for row in result["refill"]
        if row["verdict"] == "measured" and row["refill_ns"] is not None
    ]
    return said


KIND = Kind("latency", post, saved_by("platform measure"), explain, verdict=verdict)
