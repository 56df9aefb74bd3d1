# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Logs of turbostat: idle states as requested, by the kernel's counters, and as got."""

import re
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from torpor.results.text import printable

if TYPE_CHECKING:
    from torpor.results.kinds.diff import CpuDelta, StateDelta

#: Core state that a name requests: C6 and C6N are core state 6.
_ASKS_FOR = re.compile(r"C(\d+)")
#: A core counts nothing deeper.
_CORE_DEEPEST = 7
#: ACPI numbers its own states, so only the hint to MWAIT says what C2 is.
_MWAIT = re.compile(r"MWAIT 0x([0-9a-fA-F]+)")
#: Core states of the hint's upper bits, in Intel's processors but the first Atoms.
_CORE_OF_HINT = {0: 1, 1: 3, 2: 6}


class _Got(TypedDict):
    counter: str
    percent: float


class _CpuLog(TypedDict):
    cpu: int
    states: "list[StateDelta]"
    #: Share of time in each state, 0 to 1; None if no line has one.
    shares: list[float | None]
    got: list[_Got]


class _Data(TypedDict):
    """A log as the engine reads it."""

    driver: str | None
    governor: str | None
    intervals: int
    elapsed_ns: int | None
    is_first_assumed: bool
    cpus: list[_CpuLog]
    got: list[_Got]
    descs: list[str | None]
    notes: list[str]


class Log(NamedTuple):
    """All intervals of a log, together."""

    path: str
    data: _Data

    @property
    def cpus(self) -> "list[CpuDelta]":
        """Counts of each CPU."""
        return [{"cpu": of["cpu"], "states": of["states"]} for of in self.data["cpus"]]

    @property
    def shares(self) -> dict[int, list[float | None]]:
        """Share of each CPU's time in each state."""
        return {of["cpu"]: of["shares"] for of in self.data["cpus"]}

    @property
    def got_of(self) -> dict[int, dict[str, float]]:
        """Hardware's counters of each CPU, in percent of time."""
        return {of["cpu"]: _by_name(of["got"]) for of in self.data["cpus"]}

    @property
    def descs(self) -> dict[str, str | None]:
        """The ``desc`` of each state, by its name."""
        states = self.data["cpus"][0]["states"]
        return dict(zip((state["name"] for state in states), self.data["descs"], strict=True))


def counter_of(state: str, desc: str | None = None) -> str | None:
    """Return the column of the core state that an idle state requests.

    >>> counter_of("C1E"), counter_of("C10"), counter_of("POLL")
    ('CPU%c1', 'CPU%c7', None)
    >>> counter_of("C2_ACPI", "ACPI FFH MWAIT 0x30"), counter_of("C2", "ACPI IOPORT 0x414")
    ('CPU%c7', None)
    """
    if "ACPI" in state or (desc or "").startswith("ACPI"):
        hint = _MWAIT.search(desc or "")
        core = None if hint is None else _CORE_OF_HINT.get(int(hint[1], 16) >> 4, _CORE_DEEPEST)
    else:
        found = _ASKS_FOR.match(state)
        core = None if found is None else min(int(found[1]), _CORE_DEEPEST)
    return None if core is None else f"CPU%c{core}"


def notes(log: Log) -> list[str]:
    """Return notes on what the counts are, and on what the log lacks."""
    data = log.data
    notes = [f"a log of turbostat, {data['intervals']} intervals as one: states are as requested"]
    if data["got"]:
        got = _by_name(data["got"]).items()
        shown = ", ".join(f"{printable(name)} {value:.2f} %" for name, value in got)
        notes.append(f"got, by the hardware's counters: {shown}")
    if data["elapsed_ns"] is None:
        notes.append(
            "the log has no length of its intervals, so only shares of time are known: record two "
            "or more with `turbostat --enable Time_Of_Day_Seconds`, or a command's run"
        )
    elif data["is_first_assumed"]:
        notes.append(
            "the begin of the first interval is not in the log: its length is the mean of the "
            "others'"
        )
    return notes + [printable(note) for note in data["notes"]]


def _by_name(got: "list[_Got]") -> dict[str, float]:
    return {of["counter"]: of["percent"] for of in got}
