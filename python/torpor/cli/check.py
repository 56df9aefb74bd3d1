# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor check`: how a governor responds to legal but adversarial calls."""

import json
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from torpor import TorporError, checks
from torpor.cli import EXIT_FAILURE, EXIT_FINDING, progress
from torpor.cli.console import fail, print_error, stdout_width, wrap, write_stdout

if TYPE_CHECKING:
    from torpor import results

_TEXT_WIDTH = 100
#: What stands for no limit, and for a timer that never comes.
_NO_LIMIT_NS = 2_000_000_000_000
_INFINITE_NS = 2**62


def check(
    governors: Annotated[
        list[str] | None,
        typer.Argument(metavar="GOVERNOR...", help="NAME, PATH.c, NAME@TREE or NAME@TREE:REV."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=2**64 - 1, help="The first seed of the sequences."),
    ] = checks.DEFAULT_SEED,
    decisions: Annotated[
        int, typer.Option(metavar="N", min=1, help="The lowest number of decisions.")
    ] = checks.DEFAULT_DECISIONS,
    hz: Annotated[
        int, typer.Option(metavar="N", help="Tick rate: 100, 250, 300 or 1000.")
    ] = checks.DEFAULT_HZ,
    is_json: Annotated[bool, typer.Option("--json", help="Print the reports as JSON.")] = False,
    is_list: Annotated[
        bool, typer.Option("--list", help="Print what counts as a violation, and check nothing.")
    ] = False,
) -> None:
    """Drive governors with random and adversarial legal calls, and shrink each violation.

    Compiles each with AddressSanitizer and UndefinedBehaviorSanitizer; requires a C compiler.
    Exit status: 0 clean; 1 findings; 2 a governor could not be checked.
    """
    width = min(stdout_width(), _TEXT_WIDTH)
    if is_list:
        kinds = checks.check_kinds()
        write_stdout(json.dumps(kinds, indent=1) if is_json else _kinds_text(kinds, width))
        return
    if not governors:
        fail("no governor to check", "name one: `torpor check menu`; `--list` lists the checks")
    reports, has_failed = [], False
    for governor in governors:
        try:
            with progress.if_watched() as bar:
                told = None if bar is None else _Told(bar, governor, decisions)
                report = checks.check(
                    governor, seed=seed, decisions=decisions, hz=hz, progress=told
                )
        except TorporError as error:
            # The others are checked all the same.
            print_error(str(error))
            has_failed = True
            continue
        reports.append(report)
        if not is_json:
            write_stdout(_text(cast("results.Check", report), width))
    if is_json:
        write_stdout(json.dumps(reports, indent=1))
    if has_failed:
        raise typer.Exit(EXIT_FAILURE)
    if any(report["findings"] for report in reports):
        raise typer.Exit(EXIT_FINDING)


class _Told:
    """Passes decisions on to a bar."""

    def __init__(self, bar: progress.ProgressBar, governor: str, total: int) -> None:
        self._bar, self._governor, self._total = bar, governor, total

    def __call__(self, made: int) -> None:
        self._bar(self._governor, min(made, self._total), self._total)


def _kinds_text(kinds: "list[checks.CheckKind]", width: int) -> str:
    lines = []
    for kind in kinds:
        lines.append(f"{kind['name']}: {kind['title']}")
        lines += [wrap(f"  {kind['definition']}", width), ""]
    return "\n".join(lines[:-1])


def _text(report: "results.Check", width: int) -> str:
    count = len(report["findings"])
    verdict = {0: "no breach", 1: "1 breach"}.get(count, f"{count} breaches")
    made = f"{report['decisions']:,} decisions, {report['sequences']:,} sequences"
    lines = [f"{report['governor']}: {verdict} in {made} (seed {report['seed']})"]
    if timing := report["timing"]:
        lines.append(
            f"  time per decision: median {timing['p50_ns']} ns, p99 {timing['p99_ns']} ns, "
            f"worst {timing['worst_ns']} ns"
        )
    if report["percpu_bytes"] is not None:
        lines.append(f"  memory per CPU: {report['percpu_bytes']:,} bytes")
    if report["ended_early"]:
        lines.append(f"  ended early: {report['ended_early']}")
    for finding in report["findings"]:
        lines += ["", *_finding_lines(finding, report, width)]
    return "\n".join(lines) + "\n"


def _finding_lines(finding: "results.Finding", report: "results.Check", width: int) -> list[str]:
    where = f"call {finding['call']} of {len(finding['calls'])}" if finding["call"] else "the start"
    times = "once" if finding["count"] == 1 else f"{finding['count']:,} times"
    command = ["torpor", "check", report["governor"], "--seed", str(finding["seed"])]
    command += ["--decisions", "1"]
    if report["hz"] != checks.DEFAULT_HZ:
        command += ["--hz", str(report["hz"])]
    lines = [wrap(f"  {finding['kind']}: {finding['what']}", width, indent="    ")]
    lines += [f"    {line}" for line in finding["words"].splitlines()]
    lines.append(f"    on CPU {finding['cpu']}, at {where}; seen {times}")
    lines += [f"    {line}" for line in _machine_lines(finding)]
    lines += [f"    {line}" for line in _call_table(finding)]
    lines.append(f"    repeat: {shlex.join(command)}")
    return lines


def _machine_lines(finding: "results.Finding") -> list[str]:
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


def _call_table(finding: "results.Finding") -> list[str]:
    """Columns that say the same in each line, and nothing special, are left out."""
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


def _answer(_i: int, call: "results.CallRow") -> str:
    if call["does"] != "idle":
        return ""
    if call["state"] is None:
        return "no answer"
    return f"state {call['state']}, {'stop' if call['stop_tick'] else 'keep'} tick"


def _slept(_i: int, call: "results.CallRow") -> str:
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
