# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Decisions that are compared: figures of a recording, whoever made it."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import tomllib

from .. import events
from ..events import EXIT, SWITCH, fields
from .load import Section, changes, groups, load_toml, sections
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
    the load, on which it depends what coincides. `busy` is each CPU's time with a task in percent,
    and `deepest` the share of its sleeps in the deepest state.
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
    busy: dict[str, float] = field(default_factory=dict)
    deepest: dict[str, float] = field(default_factory=dict)
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
    counted_in: int | None = None


class _Reader:
    """Takes events one by one, each in the method with its name."""

    def __init__(self, names: set[str], clusters: dict[int, str], parts: list[Section]) -> None:
        self.names, self.clusters, self.parts = names, clusters, parts
        self.cpus = {cpu: _Cpu() for cpu in clusters}
        self.own: set[int] = set()
        self.states: set[str] = set()
        self.begin_ns: int | None = None
        #: Of each part.
        self.counts: list[Counter] = [Counter() for _ in parts]
        self.times_ns: list[Counter] = [Counter() for _ in parts]
        self.last_cpu: dict[int, int] = {}
        self.woken_on: dict[int, int] = {}
        self.khz: dict[str, tuple[int, int]] = {}
        self.now_ns = 0
        #: The task that runs on each CPU, with the time since which it is counted.
        self.on: dict[int, tuple[str, int]] = {}

    @property
    def _part(self) -> int | None:
        """The part that it is the time of."""
        if self.begin_ns is None:
            return None
        at_ns = self.now_ns - self.begin_ns
        inside = (n for n, part in enumerate(self.parts) if part.begin_ns <= at_ns < part.end_ns)
        return next(inside, None)

    def count(self, key: object) -> None:
        if (part := self._part) is not None:
            self.counts[part][key] += 1

    def spend(self, key: object, since_ns: int, weight: int = 1) -> None:
        """Add the time from then until now to each part that it is in."""
        if self.begin_ns is None:
            return
        for part, times_ns in zip(self.parts, self.times_ns, strict=True):
            begin_ns = max(since_ns, self.begin_ns + part.begin_ns)
            inside_ns = min(self.now_ns, self.begin_ns + part.end_ns) - begin_ns
            times_ns[key] += max(0, inside_ns) * weight

    def cpu_idle(self, number: int, text: str) -> None:
        cpu = self.cpus[number]
        state = int(fields(text)["state"])
        if state == EXIT:
            cpu.sleeps, cpu.woke_by = False, cpu.woke_by or "timer"
            cpu.counted_in = self._part
            return
        self._ended(cpu)
        cpu.sleeps = True
        self.count("sleeps")
        self.count(("state", str(state)))
        self.count(("state of", str(number), str(state)))
        self.states.add(str(state))
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
        if cpu.woke_by and cpu.counted_in is not None:
            self.counts[cpu.counted_in]["ended_by", by or cpu.woke_by] += 1
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
        self._runs(number, leaving, name)
        cpu.running = coming
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

    def _runs(self, number: int, leaving: int, name: str) -> None:
        """Count the time of the CPU's last task, as that of the next one begins."""
        before, since_ns = self.on.get(number, ("", 0))
        if before in self.names:
            self.spend(("cpu", before), since_ns)
        # A CPU that goes offline does not show how its last task ends.
        if leaving and leaving == self.cpus[number].running:
            self.spend(("busy", str(number)), since_ns)
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
        self.spend(("mhz", cluster), since_ns, khz)

    def figures(self) -> dict[str, Figures]:
        """Return those of each part, by its title."""
        for cluster in self.khz:
            self._pass(cluster)
        for cpu in list(self.on):
            self._runs(cpu, self.cpus[cpu].running, "")
        found = zip(self.parts, self.counts, self.times_ns, strict=True)
        return {part.title: self._figures(part, *of) for part, *of in found}

    def _figures(self, part: Section, counts: Counter, times_ns: Counter) -> Figures:
        length_ns = part.end_ns - part.begin_ns

        def rate(key: object) -> float:
            return round(counts[key] * 1e9 / length_ns, 1)

        def share(key: object, of: str) -> float:
            return round(100 * counts[key] / (counts[of] or 1), 1)

        def each(kind: str) -> list[str]:
            return sorted(key[1] for key in counts if isinstance(key, tuple) and key[0] == kind)

        def spent(kind: str) -> dict[str, float]:
            found = sorted((key[1], time) for key, time in times_ns.items() if key[0] == kind)
            return {name: round(100 * time / length_ns, 1) for name, time in found}

        def deepest() -> dict[str, float]:
            found = {}
            for cpu in map(str, sorted(self.cpus)):
                slept = {state: counts["state of", cpu, state] for state in self.states}
                if total := sum(slept.values()):
                    found[cpu] = round(100 * slept[max(slept)] / total, 1)
            return found

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
            state={k: share(("state", k), "sleeps") for k in sorted(self.states)},
            ended_by={k: rate(("ended_by", k)) for k in each("ended_by")},
            ticks={k: rate(("ticks", k)) for k in map(str, sorted(self.cpus))},
            # The times are those of kHz, in percent.
            mhz={name: round(khz / 1e5) for name, khz in spent("mhz").items()},
            cpu=spent("cpu"),
            busy=spent("busy"),
            deepest=deepest(),
            start_us=(self.begin_ns or 0) % TICK_NS / 1000,
        )


def figures(trace: Path, load: str, one: Machine) -> dict[str, Figures]:
    """Read a recording, in any format that Torpor reads: figures by section."""
    names = {task["name"] for task in tomllib.loads(load_toml(load))["task"]}
    reader = _Reader(names, cluster_of(one), sections(load))
    for name, reader.now_ns, cpu, _, text in events.each(trace):
        if handler := getattr(reader, name, None):
            handler(cpu, text)
    return reader.figures()


#: Rows that are compared: title, field of `Figures`, and the share or cluster in that. No task runs
#: after a sleep that counts as ended by an IPI or by a timer.
ROWS = (
    ("wake-ups/s", "wakeups", None),
    ("on an idle CPU %", "to_idle", None),
    ("on the last CPU %", "to_last", None),
    ("on the mid cluster %", "to_cluster", "mid"),
    ("on the big cluster %", "to_cluster", "big"),
    ("preemptions/s", "preempted", None),
    ("sleeps/s", "sleeps", None),
    ("tick stopped %", "tick_stopped", None),
    ("too deep %", "above", None),
    ("too shallow %", "below", None),
    ("deepest state %", "state", "deepest"),
    ("ended by the load/s", "ended_by", "own"),
    ("ended by an IPI/s", "ended_by", "ipi"),
    ("ended by a timer/s", "ended_by", "timer"),
    ("ended by the kernel/s", "ended_by", "other"),
    ("timer programmings/s", "programmings", None),
    *((f"ticks of CPU {cpu}/s", "ticks", str(cpu)) for cpu in range(4)),
    ("mid MHz", "mhz", "mid"),
    ("big MHz", "mhz", "big"),
)

#: Columns of the printed tables, by title without the group's name.
SHOWN = ("sleeps/s", "too deep %", "too shallow %", "deepest state %")
SHOWN_OF_GROUPS = ("preemptions/s", "sleeps/s", "throttled periods", "throttled ms")
SHOWN_OF_CHANGES = ("sleeps/s", "deepest state %", "big MHz")

#: The most that a CPU without the load is busy.
IDLE_PCT = 2

#: Counters of a group with a quota, in the order of `Figures.throttled`.
COUNTERS = ("periods", "throttled periods", "throttled ms")


def rows(load: str, guest: Figures) -> list[tuple[str, str, str | None]]:
    """Return the rows of a load: ROWS, or some of them and those of what the load is for."""
    # Ticks of each CPU say something where some CPUs have none.
    found = [row for row in ROWS if row[1] != "ticks" or load == "isolated"]
    if changes(load):
        # How many ticks are stopped depends on where a short section's tasks are against the tick.
        found = [*ROWS[:2], *ROWS[5:7], *ROWS[8:11], ROWS[-1]]
        ran = [cpu for cpu, pct in guest.busy.items() if pct > IDLE_PCT]
        # Tasks with CPUs of their own show states, others where they run.
        if groups(load):
            found += [(f"CPU {cpu} busy %", "busy", cpu) for cpu in guest.busy]
        else:
            text = "deepest state of CPU {} %"
            found += [(text.format(cpu), "deepest", cpu) for cpu in ran]
    elif groups(load):
        found = [*ROWS[:3], *ROWS[5:7]]
    if changes(load) or groups(load):
        found += [(f"CPU time of {task} %", "cpu", task) for task in guest.cpu]
    for path in guest.throttled:
        found += [(f"{path}: {name}", "throttled", f"{path}:{name}") for name in COUNTERS]
    return found


def shown(load: str) -> tuple[str, ...]:
    """Return the titles of a load's columns."""
    if changes(load):
        return SHOWN_OF_CHANGES
    return SHOWN_OF_GROUPS if groups(load) else SHOWN


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
    has_none = name in ("mhz", "to_cluster", "ticks", "cpu", "deepest")
    return found.get(part, None if has_none else 0.0)
