# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Sleeps of CPUs and turns of tasks in a recording, be it a guest's or a simulation's."""

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torpor

_LINE = re.compile(r" *.*?-(\d+) +\[(\d+)\] \S+ +(\d+)\.(\d{9}): (\w+): (.*)")
_FIELD = re.compile(r"(\w+)=(\S*)")
SWITCH = re.compile(
    r"prev_comm=(.*) prev_pid=(\d+) .*prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+)"
)

#: Value of cpu_idle at the end of a sleep: -1 in 32 bits.
EXIT = 0xFFFFFFFF


@dataclass
class Sleep:
    """A stay in an idle state; `miss` is "above", "below" or None."""

    state: int
    begin_ns: int
    end_ns: int
    miss: str | None = None


@dataclass
class Turn:
    """A task's time on a CPU, from the switch to it until it sleeps again.

    `event_ns` is when it was to wake up: its timer's own time, or the waking; `fires_ns` when its
    timer was to interrupt the CPU, slack included. `slept_in` is what the CPU left for it.
    `wakes_ns` is when it first woke another task, and `idle_ns` when its CPU then entered an idle
    state, if it came to that at once.
    """

    event_ns: int
    fires_ns: int | None
    begin_ns: int
    slept_in: Sleep | None
    end_ns: int = 0
    wakes_ns: int | None = None
    idle_ns: int | None = None


@dataclass
class Story:
    """A whole recording: sleeps in the order of their ends, and tasks by pid."""

    sleeps: list[Sleep] = field(default_factory=list)
    turns: dict[int, list[Turn]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    first_sleep_ns: dict[int, int] = field(default_factory=dict)

    def pids(self, name: str) -> list[int]:
        """Tasks whose name begins so and that slept, in the order in which they first did."""
        found = [pid for pid in self.first_sleep_ns if self.names[pid].startswith(name)]
        return sorted(found, key=self.first_sleep_ns.__getitem__)


def each(path: Path) -> Iterator[tuple[str, int, int, int, str]]:
    """Yield name, time in ns, CPU, pid and text of a recording's events."""
    with tempfile.TemporaryDirectory(prefix="events-") as folder:
        text = Path(folder, "trace.txt")
        torpor.convert_trace(path, text)
        with open(text, encoding="utf-8") as file:
            for found in filter(None, map(_LINE.match, file)):
                pid, cpu, seconds, ns, name, rest = found.groups()
                yield name, int(seconds) * 10**9 + int(ns), int(cpu), int(pid), rest


def read(path: Path) -> Story:
    """Read a recording in any format that Torpor reads."""
    reader = _Reader()
    for name, now_ns, cpu, pid, text in each(path):
        if handler := getattr(reader, name, None):
            handler(now_ns, reader.cpus.setdefault(cpu, _Cpu()), pid, text)
    return reader.story


@dataclass
class _Cpu:
    """State of a CPU: its task, its current or last sleep, and the task whose turn is over."""

    running: int = 0
    sleep: Sleep | None = None
    left: Sleep | None = None
    last: Turn | None = None


class _Reader:
    """Takes events one by one, each in the method with its name."""

    def __init__(self) -> None:
        self.story = Story()
        self.cpus: dict[int, _Cpu] = {}
        # Owner and expiry of timers; of woken tasks, see Turn.
        self.timers: dict[str, tuple[int, int, int]] = {}
        self.woken: dict[int, tuple[int, int | None]] = {}
        # Turns that are not over, by pid.
        self.turns: dict[int, Turn] = {}

    def cpu_idle(self, now_ns: int, cpu: _Cpu, _pid: int, text: str) -> None:
        state = int(fields(text)["state"])
        if state != EXIT:
            cpu.sleep = Sleep(state, now_ns, now_ns)
            if cpu.last:
                cpu.last.idle_ns = now_ns
                cpu.last = None
        elif cpu.sleep:
            cpu.sleep.end_ns = now_ns
            self.story.sleeps.append(cpu.sleep)
            cpu.sleep, cpu.left = None, cpu.sleep

    def cpu_idle_miss(self, _now_ns: int, cpu: _Cpu, _pid: int, text: str) -> None:
        if cpu.left:
            cpu.left.miss = fields(text)["type"]

    def hrtimer_start(self, _now_ns: int, _cpu: _Cpu, pid: int, text: str) -> None:
        found = fields(text)
        if found["function"] == "hrtimer_wakeup":
            times = int(found["softexpires"]), int(found["expires"])
            self.timers[found["hrtimer"]] = (pid, *times)

    def hrtimer_expire_entry(self, _now_ns: int, _cpu: _Cpu, _pid: int, text: str) -> None:
        if started := self.timers.pop(fields(text)["hrtimer"], None):
            pid, soft_ns, hard_ns = started
            self.woken[pid] = (soft_ns, hard_ns)

    def sched_waking(self, now_ns: int, cpu: _Cpu, _pid: int, text: str) -> None:
        self.woken.setdefault(int(fields(text)["pid"]), (now_ns, None))
        waker = self.turns.get(cpu.running)
        if waker and waker.wakes_ns is None:
            waker.wakes_ns = now_ns

    def sched_switch(self, now_ns: int, cpu: _Cpu, _pid: int, text: str) -> None:
        leaving, state, name, coming = SWITCH.match(text).group(2, 3, 4, 5)
        leaving, coming = int(leaving), int(coming)
        cpu.last = None
        # The first in a recording may have no name yet.
        if leaving in self.story.names and not state.startswith("R"):
            self.story.first_sleep_ns.setdefault(leaving, now_ns)
            if turn := self.turns.pop(leaving, None):
                turn.end_ns = now_ns
                self.story.turns.setdefault(leaving, []).append(turn)
                cpu.last = turn
        if coming:
            self.story.names[coming] = name
            if woken := self.woken.pop(coming, None):
                self.turns[coming] = Turn(*woken, begin_ns=now_ns, slept_in=cpu.left)
        cpu.running, cpu.left = coming, None


def fields(text: str) -> dict[str, str]:
    """Return the fields of an event, by name."""
    return dict(_FIELD.findall(text))
