# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Decisions that are compared: figures of a recording, whoever made it."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import tomllib

from .. import events
from ..events import EXIT, SWITCH, fields
from .load import BEGIN_NS, END_NS, groups, load_toml
from .machines import TICK_NS, Machine, cluster_of


@dataclass(frozen=True)
class Figures:
    """Figures of a stretch of a recording: counts are a second's, shares are in percent.

    Wake-ups are those of the load's tasks: how often to an idle CPU, to the task's last CPU, and to
    each cluster. Sleeps are all CPUs': with the tick stopped, by state, and by what ended them: one
    of the load's tasks, another task, or none, after another CPU's call or after a timer. `moved`
    tasks run on another CPU than they were woken on. `mhz` is each cluster's mean frequency, and
    `ticks` are each CPU's. `cpu` is the CPU time of each task, in percent of one CPU, and
    `throttled` the counters of each control group with a quota over the whole load: periods,
    throttled ones, and throttled time in ms. `start_us` is the time from a tick to the start of
    the load, on which it depends what coincides.
    """

    wakeups: float
    to_idle: float
    to_last: float
    to_cluster: dict[str, float]
    moved: float
    preempted: float
    sleeps: float
    tick_stopped: float
    above: float
    below: float
    state: dict[str, float]
    ended_by: dict[str, float]
    mhz: dict[str, float] = field(default_factory=dict)
    start_us: float = 0.0
    #: How often clock event devices were set; None where that was not recorded.
    programmings: float | None = None
    ticks: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    throttled: dict[str, list[float]] = field(default_factory=dict)


@dataclass
class _Cpu:
    running: int = 0
    is_tick_stopped: bool = False
    sleeps: bool = False
    #: Event that woke it up, if it has not run a task since. An x86 guest takes the interrupt
    #: first, and then leaves the state.
    woke_by: str | None = None
    is_counted: bool = False


class _Reader:
    """Takes events one by one, each in the method with its name."""

    def __init__(self, names: set[str], clusters: dict[int, str]) -> None:
        self.names, self.clusters = names, clusters
        self.cpus = {cpu: _Cpu() for cpu in clusters}
        self.own: set[int] = set()
        self.begin_ns: int | None = None
        self.counts: Counter = Counter()
        self.last_cpu: dict[int, int] = {}
        self.woken_on: dict[int, int] = {}
        self.khz: dict[str, tuple[int, int]] = {}
        self.khz_time: Counter = Counter()
        self.now_ns = 0
        #: The task that runs on each CPU, with the time since which it is counted.
        self.on: dict[int, tuple[str, int]] = {}
        self.cpu_time: Counter = Counter()

    @property
    def _counts(self) -> bool:
        begin_ns = self.begin_ns
        return begin_ns is not None and BEGIN_NS <= self.now_ns - begin_ns < END_NS

    def count(self, key: object) -> None:
        if self._counts:
            self.counts[key] += 1

    def cpu_idle(self, number: int, text: str) -> None:
        cpu = self.cpus[number]
        state = int(fields(text)["state"])
        if state == EXIT:
            cpu.sleeps, cpu.woke_by = False, cpu.woke_by or "timer"
            cpu.is_counted = self._counts
            return
        self._ended(cpu)
        cpu.sleeps = True
        self.count("sleeps")
        self.count(("state", str(state)))
        if cpu.is_tick_stopped:
            self.count("tick_stopped")

    def cpu_idle_miss(self, _number: int, text: str) -> None:
        self.count(fields(text)["type"])

    def tick_stop(self, number: int, text: str) -> None:
        if "success=1" in text:
            self.cpus[number].is_tick_stopped = True

    def ipi(self, number: int, _text: str) -> None:
        if self.cpus[number].sleeps or self.cpus[number].woke_by:
            self.cpus[number].woke_by = "ipi"

    #: arm64 recordings do not show the cause.
    x86_platform_ipi_entry = call_function_single_entry = ipi
    call_function_entry = reschedule_entry = ipi

    def _ended(self, cpu: _Cpu, by: str | None = None) -> None:
        if cpu.woke_by and cpu.is_counted:
            self.counts["ended_by", by or cpu.woke_by] += 1
        cpu.woke_by = None

    def sched_waking(self, _number: int, text: str) -> None:
        found = fields(text)
        self.last_cpu[int(found["pid"])] = int(found["target_cpu"])

    def sched_wakeup(self, _number: int, text: str) -> None:
        found = fields(text)
        pid, chosen = int(found["pid"]), int(found["target_cpu"])
        last = self.last_cpu.pop(pid, None)
        self.woken_on[pid] = chosen
        if pid not in self.own or last is None:
            return
        self.count("wakeups")
        self.count(("to_cluster", self.clusters[chosen]))
        if self.cpus[chosen].running == 0:
            self.count("to_idle")
        if chosen == last:
            self.count("to_last")

    def sched_switch(self, number: int, text: str) -> None:
        cpu = self.cpus[number]
        leaving, state, name, coming = SWITCH.match(text).group(2, 3, 4, 5)
        leaving, coming = int(leaving), int(coming)
        cpu.running = coming
        self._runs(number, name)
        if leaving in self.own and state.startswith("R"):
            self.count("preempted")
        if not coming:
            return
        cpu.is_tick_stopped = False
        if name in self.names:
            self.own.add(coming)
            if self.begin_ns is None:
                self.begin_ns = self.now_ns
        self._ended(cpu, "own" if coming in self.own else "other")
        if coming in self.own and self.woken_on.setdefault(coming, number) != number:
            self.count("moved")
            self.woken_on[coming] = number

    def hrtimer_expire_entry(self, number: int, text: str) -> None:
        if fields(text)["function"].startswith(("tick_nohz_handler", "tick_sched_timer")):
            self.count(("ticks", str(number)))

    def _runs(self, number: int, name: str) -> None:
        """Count the time of the CPU's last task, as that of the next one begins."""
        before, since_ns = self.on.get(number, ("", 0))
        if self.begin_ns is not None and before in self.names:
            begin_ns, end_ns = self.begin_ns + BEGIN_NS, self.begin_ns + END_NS
            inside_ns = min(self.now_ns, end_ns) - max(since_ns, begin_ns)
            self.cpu_time[before] += max(0, inside_ns)
        self.on[number] = name, self.now_ns

    def cpu_frequency(self, number: int, text: str) -> None:
        found = fields(text)
        cluster = self.clusters[int(found["cpu_id"])]
        self._pass(cluster)
        self.khz[cluster] = (self.now_ns, int(found["state"]))

    def _pass(self, cluster: str) -> None:
        """The cluster's frequency until now."""
        if cluster not in self.khz or self.begin_ns is None:
            return
        since_ns, khz = self.khz[cluster]
        begin_ns, end_ns = self.begin_ns + BEGIN_NS, self.begin_ns + END_NS
        inside_ns = min(self.now_ns, end_ns) - max(since_ns, begin_ns)
        self.khz_time[cluster] += max(0, inside_ns) * khz

    def figures(self) -> Figures:
        seconds = (END_NS - BEGIN_NS) / 1e9
        for cluster in self.khz:
            self._pass(cluster)
        for cpu in list(self.on):
            self._runs(cpu, "")
        counts = self.counts

        def rate(key: object) -> float:
            return round(counts[key] / seconds, 1)

        def share(key: object, of: str) -> float:
            return round(100 * counts[key] / counts[of], 1)

        def each(kind: str) -> list[str]:
            return sorted(key[1] for key in counts if isinstance(key, tuple) and key[0] == kind)

        return Figures(
            wakeups=rate("wakeups"),
            to_idle=share("to_idle", "wakeups"),
            to_last=share("to_last", "wakeups"),
            to_cluster={k: share(("to_cluster", k), "wakeups") for k in each("to_cluster")},
            moved=rate("moved"),
            preempted=rate("preempted"),
            sleeps=rate("sleeps"),
            tick_stopped=share("tick_stopped", "sleeps"),
            above=share("above", "sleeps"),
            below=share("below", "sleeps"),
            state={k: share(("state", k), "sleeps") for k in each("state")},
            ended_by={k: rate(("ended_by", k)) for k in each("ended_by")},
            ticks={k: rate(("ticks", k)) for k in map(str, sorted(self.cpus))},
            mhz={
                cluster: round(total / (END_NS - BEGIN_NS) / 1000)
                for cluster, total in sorted(self.khz_time.items())
            },
            cpu={
                name: round(100 * total / (END_NS - BEGIN_NS), 1)
                for name, total in sorted(self.cpu_time.items())
            },
            start_us=(self.begin_ns or 0) % TICK_NS / 1000,
        )


def figures(trace: Path, load: str, one: Machine) -> Figures:
    """Read a recording, in any format that Torpor reads."""
    names = {task["name"] for task in tomllib.loads(load_toml(load))["task"]}
    reader = _Reader(names, cluster_of(one))
    for name, reader.now_ns, cpu, _, text in events.each(trace):
        if handler := getattr(reader, name, None):
            handler(cpu, text)
    return reader.figures()


#: Rows of the table: what they are called, what they are of, and the share or cluster in that.
ROWS = (
    ("wake-ups/s of the load's tasks", "wakeups", None),
    ("of them to an idle CPU %", "to_idle", None),
    ("of them to the last CPU %", "to_last", None),
    ("of them to the mid cluster %", "to_cluster", "mid"),
    ("of them to the big cluster %", "to_cluster", "big"),
    ("preemptions/s", "preempted", None),
    ("sleeps/s", "sleeps", None),
    ("of them with the tick stopped %", "tick_stopped", None),
    ("of them too deep %", "above", None),
    ("of them too shallow %", "below", None),
    ("of them in the deepest state %", "state", "deepest"),
    ("ended by a task of the load, 1/s", "ended_by", "own"),
    ("ended by an IPI without a task, 1/s", "ended_by", "ipi"),
    ("ended by a timer without a task, 1/s", "ended_by", "timer"),
    ("ended by a task of the kernel's, 1/s", "ended_by", "other"),
    ("timer programmings/s", "programmings", None),
    *((f"ticks of CPU {cpu}, 1/s", "ticks", str(cpu)) for cpu in range(4)),
    ("mean frequency, mid, MHz", "mhz", "mid"),
    ("mean frequency, big, MHz", "mhz", "big"),
)


#: Counters of a group with a quota, in the order of `Figures.throttled`.
COUNTERS = ("periods", "throttled periods", "throttled ms")


def rows(load: str, guest: Figures) -> list[tuple[str, str, str | None]]:
    """Return the rows of a load: ROWS, or some of them and those of its control groups."""
    # Ticks of each CPU say something where some CPUs have none.
    found = [row for row in ROWS if row[1] != "ticks" or load == "isolated"]
    if groups(load):
        found = [*ROWS[:3], *ROWS[5:7]]
        found += [(f"CPU time of {task}, %", "cpu", task) for task in guest.cpu]
    for path in guest.throttled:
        found += [(f"{path}: {name}", "throttled", f"{path}:{name}") for name in COUNTERS]
    return found


def value(of: Figures, name: str, part: str | None) -> float | None:
    """One row of a table; None where the machine has no such cluster."""
    found = getattr(of, name)
    if part is None:
        return found
    if part == "deepest":
        part = max(found, default=part)
    if name == "throttled":
        path, _, counter = part.rpartition(":")
        return found[path][COUNTERS.index(counter)] if path in found else None
    return found.get(part, None if name in ("mhz", "to_cluster", "ticks", "cpu") else 0.0)
