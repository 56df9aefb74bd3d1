# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Rules of the kernel that a governor breaks: ``torpor governor check``."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from torpor.results import types as results
from torpor.results.kind import Input, Kind
from torpor.results.table import Post, Table, Verdict, counted, number, word

#: Values for no limit, and for a timer that never expires.
_NO_LIMIT_NS = 2_000_000_000_000
_INFINITE_NS = 2**62
#: Tick rate of `torpor governor check` without `--hz`.
DEFAULT_HZ = 250


def post(result: results.Check) -> Post:
    """Return a line for each finding; :func:`finding_text` has the rest."""
    rows = [
        [word(f["kind"]), number(f["count"]), number(f["call"]), number(f["seed"]), word(f["what"])]
        for f in result["findings"]
    ]
    headings = ["finding", "decisions", "call", "seed", "what"]
    title = (
        f"{result['governor']}: {result['decisions']} decisions, {counted(len(rows), 'finding')}"
    )
    facts = [
        f"{counted(result['sequences'], 'sequence')}, seed {result['seed']}, {result['hz']} Hz"
    ]
    if timing := result["timing"]:
        median, most = timing["p50_ns"], timing["p99_ns"]
        facts.append(
            f"time per decision: median {median} ns, p99 {most} ns, worst {timing['worst_ns']} ns"
        )
    if result["percpu_bytes"] is not None:
        facts.append(f"memory per CPU: {result['percpu_bytes']} bytes")
    notes = [f"ended early: {result['ended_early']}"] if result["ended_early"] else []
    return Post(title, facts, [Table("findings", "", headings, rows)] if rows else [], notes)


def verdict(result: results.Check, _governor: str | None) -> Verdict:
    """Return the rules that the governor breaks."""
    kinds = [finding["kind"] for finding in result["findings"]]
    broken = f"breaks {', '.join(kinds)}" if kinds else "breaks no rule"
    certainty = f"{result['decisions']:,} decisions, seed {result['seed']}"
    return Verdict(result["governor"], broken, certainty)


def finding_text(finding: results.Finding, report: results.Check, width: int = 100) -> str:
    """Return what happened, on which machine, after which calls, and how to repeat it."""
    where = f"call {finding['call']} of {len(finding['calls'])}" if finding["call"] else "the start"
    times = "once" if finding["count"] == 1 else f"{finding['count']:,} times"
    command = ["torpor", "governor", "check", report["governor"], "--seed", str(finding["seed"])]
    command += ["--decisions", "1"]
    if report["hz"] != DEFAULT_HZ:
        command += ["--hz", str(report["hz"])]
    lines = textwrap.wrap(
        f"  {finding['kind']}: {finding['what']}",
        width,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    lines += [f"    {line}" for line in finding["words"].splitlines()]
    lines.append(f"    on CPU {finding['cpu']}, at {where}; seen {times}")
    lines += [f"    {line}" for line in _machine_lines(finding)]
    lines += [f"    {line}" for line in _call_table(finding)]
    return "\n".join([*lines, f"    repeat: {shlex.join(command)}"])


def _machine_lines(finding: results.Finding) -> list[str]:
    rows = [["state", "exit latency", "residency", ""]]
    for index, state in enumerate(finding["states"]):
        off = [str(c["cpu"]) for c in finding["cpus"] if index in c["disabled"]]
        notes = ["polls"] if state["is_polling"] else []
        if off and len(finding["cpus"]) == 1:
            notes.append("disabled")
        elif off:
            notes.append(f"disabled on CPU {', '.join(off)}")
        latency, residency = state["exit_latency_ns"], state["target_residency_ns"]
        rows.append([str(index), _time(latency), _time(residency), ", ".join(notes)])
    return _aligned(rows)


def _call_table(finding: results.Finding) -> list[str]:
    """Columns with the same ordinary value in each line are left out."""
    calls = finding["calls"]
    idle: list[Mapping[str, Any]] = [call for call in calls if call["does"] == "idle"]

    def differs(key: str, usual: object) -> bool:
        return any(call[key] != usual for call in idle)

    columns: list[tuple[str, Callable[[int, results.CallRow], str]]] = [
        ("call", lambda i, c: str(i + 1)),
        ("CPU", lambda i, c: str(c["cpu"])),
    ]
    if len(idle) < len(calls):
        columns.append(("does", lambda i, c: c["does"]))
    if finding["clock_ns"]:
        columns.append(("clock", lambda i, c: f"{c['now_ns']} ns"))
    columns += [
        ("timer in", _of_idle("sleep_length_ns", _time)),
        ("event in", _of_idle("delta_next_ns", _time)),
        ("limit", _of_idle("latency_req_ns", lambda v: "-" if v >= _NO_LIMIT_NS else _time(v))),
    ]
    if differs("nr_iowait", 0):
        columns.append(("iowait", _of_idle("nr_iowait", str)))
    if differs("util", 0):
        columns.append(("util", _of_idle("util", str)))
    columns.append(("tick", _of_idle("tick_stopped", lambda v: "stopped" if v else "runs")))
    columns.append(("->", _answer))
    columns.append(("slept", _slept))
    rows = [[heading for heading, _ in columns]]
    rows += [[cell(i, call) for _, cell in columns] for i, call in enumerate(calls)]
    return _aligned(rows)


def _of_idle(key: str, write: Any) -> Any:
    return lambda _i, call: write(call[key]) if call["does"] == "idle" else ""


def _answer(_i: int, call: results.CallRow) -> str:
    if call["does"] != "idle":
        return ""
    if call["state"] is None:
        return "no answer"
    return f"state {call['state']}, {'stop' if call['stop_tick'] else 'keep'} tick"


def _slept(_i: int, call: results.CallRow) -> str:
    if call["residency_ns"] is None:
        return "" if call["state"] is None else "not entered"
    notes = [_time(call["residency_ns"])]
    if call["entered"] != call["state"]:
        notes.append(f"in state {call['entered']}")
    notes += ["tick" for _ in [0] if call["got_tick"]]
    notes += ["poll limit" for _ in [0] if call["poll_timed_out"]]
    notes += ["then busy" for _ in [0] if call["goes_busy"]]
    return ", ".join(notes)


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _time(time_ns: int) -> str:
    """Exact, in the largest unit that has no fraction."""
    if time_ns >= _INFINITE_NS:
        return "never"
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if time_ns and time_ns % size == 0:
            return f"{time_ns // size} {unit}"
    return f"{time_ns} ns"


def inputs(result: results.Check) -> list[Input]:
    """Return the governor's source, if it has one."""
    sha256 = result["source_sha256"]
    return [Input("governor", result["governor"], sha256)] if sha256 else []


KIND = Kind(
    "check", post, "the calls were random, and no machine ran.", verdict=verdict, inputs=inputs
)
