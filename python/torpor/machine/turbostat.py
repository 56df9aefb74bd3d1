# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Logs of turbostat: idle states as requested, by the kernel's counters, and as got.

turbostat prints a table an interval: a line a CPU, after a line of sums whose CPU is ``-``. Of a
state C1 it has ``C1`` (how often it was requested), ``C1%`` (share of time), and in newer versions
``C1-`` (too deep) and ``C1+`` (too shallow). ``CPU%c1`` and ``Pkg%pc2`` are the hardware's.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from torpor._engine import CountersError
from torpor.results.files import open_regular, read_text
from torpor.results.kinds.diff import CpuDelta, StateDelta
from torpor.results.text import printable

#: Columns of shares that are no idle state.
_NO_STATES = ("Busy", "CPUGFX", "PKG_", "RAM_")
_GOT = re.compile(r"(CPU%c|Mod%c|Pkg%pc)\w+")
_GOT_BY_CORE = re.compile(r"CPU%c\w+")
#: Hardware state that a name requests: C6, C6N and C6_ACPI are core state 6. A core counts nothing
#: deeper than 7.
_ASKS_FOR = re.compile(r"C(\d+)")
_CORE_DEEPEST = 7
#: A command's run ends with its length.
_LENGTH = re.compile(r"\s*([0-9.]+) sec\s*")
#: Bytes that identify a log; topology and features may come first.
_HEAD_BYTES = 1 << 18


class Log(NamedTuple):
    """All intervals of a log, together."""

    cpus: "list[CpuDelta]"
    #: None if the log lacks it.
    elapsed_ns: int | None
    #: Share of each CPU's time in each state, 0 to 1; None if a line has none.
    shares: dict[int, list[float | None]]
    #: Hardware's counters, by column: percent of time, of all and of each CPU with a line.
    got: dict[str, float]
    got_of: dict[int, dict[str, float]]
    intervals: int


class _Sums:
    """Sums of a CPU's lines."""

    def __init__(self, count: int) -> None:
        self.usage: list[int | None] = [None] * count
        self.above: list[int | None] = [None] * count
        self.below: list[int | None] = [None] * count
        self.percents: list[list[float]] = [[] for _ in range(count)]
        self.got: dict[str, list[float]] = {}


def is_log(path: Path) -> bool:
    """Whether a file is a log of turbostat. A pipe is a dump: it can be read only once."""
    try:
        with open_regular(path) as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return any(_is_header(line) for line in head.decode(errors="replace").splitlines())


def _is_header(line: str) -> bool:
    columns = line.split()
    return "Busy%" in columns and "Bzy_MHz" in columns


def read(path: Path) -> Log:
    """Read a log.

    Raises :class:`torpor.CountersError` if it has no lines of CPUs, or no idle states.
    """
    columns: list[str] = []
    states: list[str] = []
    sums: dict[int, _Sums] = {}
    got: dict[str, list[float]] = {}
    lengths_us: list[float] = []
    length_s: float | None = None
    tables = 0
    for number, line in enumerate(read_text(path, errors="replace").splitlines(), 1):
        if _is_header(line):
            found = _cells(line)
            if columns and _states(found) != states:
                raise CountersError(
                    f"`{path}`: line {number}: other idle states than before: "
                    f"{', '.join(_states(found))}, expected {', '.join(states)}"
                )
            columns, states, tables = found, _states(found), tables + 1
            continue
        if (length := _LENGTH.fullmatch(line)) is not None:
            length_s = _number(length[1])
            continue
        cells = dict(zip(columns, _cells(line), strict=False))
        cpu = cells.get("CPU", "")
        if cpu == "-":
            for name, value in _known(cells, _GOT):
                got.setdefault(name, []).append(value)
            usec = _number(cells.get("usec", ""))
            lengths_us += [] if usec is None else [usec]
        elif cpu.isdigit():
            of = sums.setdefault(int(cpu), _Sums(len(states)))
            _add(of, states, cells)
            for name, value in _known(cells, _GOT_BY_CORE):
                of.got.setdefault(name, []).append(value)
    if not sums:
        raise CountersError(
            f"`{path}`: a log of turbostat without a line of a CPU: expected a column `CPU`\n"
            "hint: run `turbostat` without --Summary"
        )
    if not states:
        raise CountersError(
            f"`{path}`: a log of turbostat without idle states: expected columns such as `C1` and "
            "`C1%`\nhint: run `turbostat --show CPU,cpuidle --show sysfs`, or without --show"
        )
    # A line of sums ends each table; only with all of them is the whole known.
    whole_us = sum(lengths_us) if lengths_us and len(lengths_us) == tables else None
    elapsed_us = whole_us if length_s is None else length_s * 1e6
    return Log(
        [_cpu(cpu, states, of, elapsed_us) for cpu, of in sorted(sums.items())],
        None if elapsed_us is None else round(elapsed_us * 1e3),
        {cpu: [_mean(percents, 100) for percents in of.percents] for cpu, of in sums.items()},
        _means(got),
        {cpu: _means(of.got) for cpu, of in sums.items()},
        tables,
    )


def counter_of(state: str) -> str | None:
    """Return the column of the core state that an idle state requests.

    >>> counter_of("C1E"), counter_of("C10"), counter_of("POLL")
    ('CPU%c1', 'CPU%c7', None)
    """
    found = _ASKS_FOR.match(state)
    return None if found is None else f"CPU%c{min(int(found[1]), _CORE_DEEPEST)}"


def notes(log: Log) -> list[str]:
    """Return notes on what the counts are, and on what the log lacks."""
    notes = [f"a log of turbostat, {log.intervals} intervals as one: states are as requested"]
    if log.got:
        shown = ", ".join(f"{printable(name)} {value:.2f} %" for name, value in log.got.items())
        notes.append(f"got, by the hardware's counters: {shown}")
    if log.elapsed_ns is None:
        notes.append(
            "the log has no length of its intervals, so only shares of time are known: "
            "record with `turbostat --enable usec`"
        )
    return notes


def _cells(line: str) -> list[str]:
    # Between tabs a cell may be empty: a core's columns are in its first CPU's line alone.
    return [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()


def _states(columns: list[str]) -> list[str]:
    names = [column[:-1] for column in columns if column.endswith("%")]
    return [name for name in names if name and name not in _NO_STATES]


def _known(cells: dict[str, str], pattern: "re.Pattern[str]") -> Iterator[tuple[str, float]]:
    for name, text in cells.items():
        value = _number(text)
        if pattern.fullmatch(name) and value is not None:
            yield name, value


def _add(sums: _Sums, states: list[str], cells: dict[str, str]) -> None:
    for place, state in enumerate(states):
        for counts, suffix in ((sums.usage, ""), (sums.above, "-"), (sums.below, "+")):
            value = _number(cells.get(f"{state}{suffix}", ""))
            if value is not None:
                counts[place] = (counts[place] or 0) + int(value)
        share = _number(cells.get(f"{state}%", ""))
        sums.percents[place] += [] if share is None else [share]


def _cpu(cpu: int, states: list[str], of: _Sums, elapsed_us: float | None) -> "CpuDelta":
    found: list[StateDelta] = []
    for place, name in enumerate(states):
        share = _mean(of.percents[place], 100)
        timed = share is not None and elapsed_us is not None
        found.append(
            {
                "index": place,
                "name": name,
                "latency_us": None,
                "residency_us": None,
                "usage": of.usage[place],
                "time_us": round((share or 0) * (elapsed_us or 0)) if timed else None,
                "above": of.above[place],
                "below": of.below[place],
                "rejected": None,
                "is_off": False,
            }
        )
    return {"cpu": cpu, "states": found}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < 2**63 else None


def _means(found: dict[str, list[float]]) -> dict[str, float]:
    return {name: mean for name, of in found.items() if (mean := _mean(of)) is not None}


def _mean(values: list[float], scale: float = 1) -> float | None:
    return sum(values) / len(values) / scale if values else None
