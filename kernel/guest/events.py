# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What happened in a recording, a guest's or a simulation's, as far as both can be measured by it."""

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torpor

_LINE = re.compile(r" *(.*?)-(\d+) +\[(\d+)\] \S+ +(\d+)\.(\d{9}): (\w+): (.*)")
_FIELD = re.compile(r"(\w+)=(\S*)")

_EXIT = 0xFFFFFFFF


@dataclass(frozen=True)
class Sleep:
    """A stay in an idle state; `miss` is "above", "below" or None."""

    cpu: int
    state: int
    begin_ns: int
    end_ns: int
    miss: str | None


@dataclass(frozen=True)
class Turn:
    """A task's time on a CPU after it was woken.

    `event_ns` is when it was to wake up: its timer's own time, or the waking; `fires_ns`, when the
    timer interrupted the CPU at the latest. `wakes_ns` is when it woke the first other task, and
    `idle_ns` when its CPU then entered an idle state, if nothing else ran there meanwhile.
    """

    pid: int
    cpu: int
    event_ns: int
    fires_ns: int | None
    begin_ns: int
    end_ns: int
    wakes_ns: int | None
    idle_ns: int | None
    slept_in: Sleep | None


@dataclass
class Story:
    """Of a whole recording: sleeps in order of their ends, and the turns of each task by pid."""

    sleeps: list[Sleep] = field(default_factory=list)
    turns: dict[int, list[Turn]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    first_sleep_ns: dict[int, int] = field(default_factory=dict)

    def pids(self, name: str) -> list[int]:
        """Tasks whose name begins so and that slept, in the order in which they first did."""
        found = [pid for pid in self.first_sleep_ns if self.names[pid].startswith(name)]
        return sorted(found, key=self.first_sleep_ns.__getitem__)


def read(path: Path) -> Story:
    """Read a recording in any format that Torpor reads."""
    with tempfile.TemporaryDirectory(prefix="events-") as folder:
        text = Path(folder, "trace.txt")
        torpor.convert_trace(path, text)
        with open(text, encoding="utf-8") as file:
            return _Follower().follow(file)


@dataclass
class _Cpu:
    state: int = -1
    since_ns: int = 0
    running: int = 0
    slept: Sleep | None = None


class _Follower:
    def __init__(self) -> None:
        self.story = Story()
        self.cpus: dict[int, _Cpu] = {}
        self.armed: dict[str, tuple[int, int, int]] = {}
        self.woken: dict[int, tuple[int, int | None]] = {}
        self.open: dict[int, dict] = {}
        self.left: dict[int, dict] = {}

    def follow(self, lines: Iterator[str]) -> Story:
        for line in lines:
            found = _LINE.match(line)
            if not found:
                continue
            _, pid, cpu, seconds, ns, name, text = found.groups()
            handler = getattr(self, f"_{name}", None)
            if handler:
                number = int(cpu)
                one = self.cpus.setdefault(number, _Cpu())
                handler(int(seconds) * 10**9 + int(ns), number, one, int(pid), text)
        for turn in self.left.values():
            self._close(turn)
        return self.story

    def _cpu_idle(self, now: int, number: int, cpu: _Cpu, _pid: int, text: str) -> None:
        state = int(_FIELD.search(text)[2])
        if state != _EXIT:
            cpu.state, cpu.since_ns = state, now
            if turn := self.left.pop(number, None):
                self._close(turn | {"idle_ns": now})
        elif cpu.state >= 0:
            cpu.slept = Sleep(number, cpu.state, cpu.since_ns, now, None)
            self.story.sleeps.append(cpu.slept)
            cpu.state = -1

    def _cpu_idle_miss(self, _now: int, _number: int, cpu: _Cpu, _pid: int, text: str) -> None:
        last = cpu.slept
        missed = Sleep(last.cpu, last.state, last.begin_ns, last.end_ns, text.split("type=")[1])
        at = next(i for i in range(len(self.story.sleeps) - 1, -1, -1)
                  if self.story.sleeps[i] is last)
        self.story.sleeps[at] = cpu.slept = missed

    def _hrtimer_start(self, _now: int, _number: int, _cpu: _Cpu, pid: int, text: str) -> None:
        fields = dict(_FIELD.findall(text))
        if fields["function"] == "hrtimer_wakeup":
            soft, hard = int(fields["softexpires"]), int(fields["expires"])
            self.armed[fields["hrtimer"]] = (pid, soft, hard)

    def _hrtimer_expire_entry(self, _now: int, _number: int, _cpu: _Cpu, _pid: int, text: str) -> None:
        pid, soft, hard = self.armed.pop(_FIELD.search(text)[2], (0, 0, 0))
        if pid:
            self.woken[pid] = (soft, hard)

    def _sched_waking(self, now: int, number: int, cpu: _Cpu, _pid: int, text: str) -> None:
        pid = int(dict(_FIELD.findall(text))["pid"])
        self.woken.setdefault(pid, (now, None))
        waker = self.open.get(cpu.running)
        if waker and waker["wakes_ns"] is None:
            waker["wakes_ns"] = now

    def _sched_switch(self, now: int, number: int, cpu: _Cpu, _pid: int, text: str) -> None:
        before, after = text.split(" ==> next_comm=")
        name, rest = after.rsplit(" next_pid=", 1)
        following = int(rest.split()[0])
        leaving = int(re.search(r"prev_pid=(\d+)", before)[1])
        if (turn := self.left.pop(number, None)) is not None:
            self._close(turn)
        if leaving and "prev_state=R" not in before:
            if leaving in self.story.names:
                self.story.first_sleep_ns.setdefault(leaving, now)
            if turn := self.open.pop(leaving, None):
                self.left[number] = turn | {"end_ns": now}
        if following:
            self.story.names[following] = name
            if woken := self.woken.pop(following, None):
                self.open[following] = {
                    "pid": following, "cpu": number, "event_ns": woken[0], "fires_ns": woken[1],
                    "begin_ns": now, "wakes_ns": None, "idle_ns": None, "slept_in": cpu.slept,
                }  # fmt: skip
        cpu.running, cpu.slept = following, None

    def _close(self, turn: dict) -> None:
        self.story.turns.setdefault(turn["pid"], []).append(Turn(**turn))
