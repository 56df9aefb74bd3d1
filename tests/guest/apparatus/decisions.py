# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Compares the decisions of a kernel in a guest with those of the same kernel hosted, under one
load.

    PYTHONPATH=tests/guest build/venv/bin/python -m apparatus.decisions [--record] KERNEL

prints the table of docs/concepts/simulation.md: the guests of tests/data/decisions.json, or new
ones that are then kept there, beside KERNEL hosted, as `torpor simulate --kernel` takes it.
"""

import argparse
import json
import math
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

import tomllib

import torpor

from . import build, cases, events, machine, packages, recording
from .events import EXIT, SWITCH, fields
from .packages import ROOT, Kernel

CORPUS = ROOT / "tests" / "data" / "decisions.json"

#: Duration of a load, and of the part that is compared: until then utilization is that of the
#: start.
DURATION_S = 4
_BEGIN_NS, _END_NS = 500_000_000, 3_500_000_000

HZ = cases.HZ


@dataclass(frozen=True)
class Machine:
    """A guest: its kernel, and the platform whose clusters it has; without, equal CPUs.

    `arguments` are added to both kernels' command lines. `settings` are those of the guest's
    configuration that they need.
    """

    arch: str
    series: str
    cpus: int
    platform: str | None = None
    settings: tuple[str, ...] = ()
    arguments: str = ""
    loads: tuple[str, ...] = ("periodic", "frames")

    @property
    def clusters(self) -> list[dict]:
        """As in a platform's file."""
        if self.platform is None:
            return [{"name": "all", "cpus": f"0-{self.cpus - 1}", "capacity": 1024, "opp": []}]
        text = (ROOT / "platforms" / f"{self.platform}.toml").read_text(encoding="utf-8")
        return tomllib.loads(text)["cluster"]


#: As Debian configures linux-image-amd64.
DEBIAN = (
    "CONFIG_PREEMPT_VOLUNTARY=y",
    "CONFIG_PREEMPT_DYNAMIC=y",
    "CONFIG_NO_HZ_FULL=y",
    "CONFIG_RCU_LAZY=y",
    "CONFIG_SCHED_HRTICK=y",
    "CONFIG_UCLAMP_TASK=n",
)

MACHINES = {
    "pixel6": Machine("arm64", "6.12-cpufreq", 8, "pixel6"),
    "equal": Machine("amd64", "6.12", 4),
    "tickless": Machine(
        "amd64",
        "6.12",
        4,
        settings=DEBIAN,
        arguments="isolcpus=nohz,domain,managed_irq,2-3 nohz_full=2-3 rcu_nocbs=2-3",
        loads=("isolated",),
    ),
}

CASES = [(name, load) for name, machine in MACHINES.items() for load in machine.loads]

#: The least time between two of schedutil's requests is one and a half of that (Linux 6.12).
CLOCK_LATENCY_US = 500


def _cpus(cluster: dict) -> range:
    first, _, last = cluster["cpus"].partition("-")
    return range(int(first), int(last or first) + 1)


def _cluster_of(one: Machine) -> dict[int, str]:
    return {cpu: cluster["name"] for cluster in one.clusters for cpu in _cpus(cluster)}


# The load, twice.


def load_toml(name: str) -> str:
    """The load as a workload."""
    return (cases.TEMPLATES / f"{name}.toml").read_text(encoding="utf-8")


def load_command(name: str) -> str:
    """The load as a guest's program runs it."""
    tasks = tomllib.loads(load_toml(name))["task"]
    waits = {
        step["wait"]: task["name"] for task in tasks for step in task["phase"] if "wait" in step
    }
    letters = {"run_us": "r", "sleep_us": "s", "period_us": "p"}

    def word(key: str, value: float | str) -> str:
        if key == "wait":
            return "b"
        return f"w{waits[value]}" if key == "wake" else f"{letters[key]}{value}"

    threads = (
        ":".join(
            [
                task["name"],
                *(f"c{cpu}" for cpu in [task.get("cpus")] if cpu),
                *(word(*item) for step in task["phase"] for item in step.items()),
            ]
        )
        for task in tasks
    )
    return " ".join(["steps", str(DURATION_S), *threads])


# The machine, twice.


def _capacities(one: Machine) -> tuple[int, ...]:
    """Return each CPU's capacity in the device tree, in DMIPS for each MHz, rounded up."""
    if one.platform is None:
        return ()
    khz = {c["name"]: c["opp"][-1]["freq_khz"] for c in one.clusters}
    fastest_khz = next(khz[c["name"]] for c in one.clusters if c["capacity"] == 1024)
    return tuple(
        math.ceil(cluster["capacity"] * fastest_khz / khz[cluster["name"]])
        for cluster in one.clusters
        for _ in _cpus(cluster)
    )


def _opp(opp: dict) -> str:
    return f"{opp['freq_khz']}:{round(1000 * opp['active_power_mw'])}"


def _setup(one: Machine) -> str:
    lines = [f"insmod /mod/torpor_idle.ko states={machine.STATES[one.arch]} serve=count"]
    if one.platform:
        domains = "/".join(f"{c['cpus']}@{','.join(map(_opp, c['opp']))}" for c in one.clusters)
        delay_us = CLOCK_LATENCY_US * 3 // 2
        lines += [
            f"insmod /mod/torpor_cpufreq.ko policies={domains} delay_us={delay_us}",
            "for policy in /sys/devices/system/cpu/cpufreq/policy*; do",
            "	echo schedutil > $policy/scaling_governor",
            "done",
        ]
    return "\n".join(lines)


def platform_toml(one: Machine) -> str:
    """The guest as a platform, without what its kernel takes: some microseconds on any CPU."""
    states = [state.split(":") for state in machine.STATES[one.arch].split(",")]
    state_text = "".join(
        f'[[cluster.idle_state]]\nname = "{name}"\ndesc = "{name}"\n'
        + (
            f"latency_us = {numbers[0]}\ntarget_residency_us = {numbers[1]}\n"
            if numbers
            else "polling = true\nlatency_us = 0\ntarget_residency_us = 0\n"
        )
        for name, *numbers in states
    )
    text = f"""name = "guest"
title = "a guest"
source = "tests/guest/apparatus/decisions.py"
hz = {HZ}
tick_handling_us = 0
tick_handling_source = "left out"
ipi_delivery_us = 0
ipi_handling_us = 0
overhead_source = "left out"
"""
    if one.platform:
        text += 'cpufreq_governor = "schedutil"\n'
    for cluster in one.clusters:
        text += f'[[cluster]]\nname = "{cluster["name"]}"\ncpus = "{cluster["cpus"]}"\n'
        text += f'capacity = {cluster["capacity"]}\ncapacity_source = "{one.platform}"\n'
        text += 'idle_state_source = "machine.py"\n'
        if cluster["opp"]:
            text += f"clock_latency_ns = {1000 * CLOCK_LATENCY_US}\n"
            text += "fast_switch = true\n"
            text += f'opp_source = "{one.platform}"\npower_source = "{one.platform}"\n'
        text += state_text
        for opp in cluster["opp"]:
            text += f"[[cluster.opp]]\nfreq_khz = {opp['freq_khz']}\n"
            text += f"active_power_mw = {opp['active_power_mw']}\n"
    return text


# Decisions that are compared.


@dataclass(frozen=True)
class Figures:
    """Figures of a stretch of a recording: counts are a second's, shares are in percent.

    Wake-ups are those of the load's tasks: how often to an idle CPU, to the task's last CPU, and to
    each cluster. Sleeps are all CPUs': with the tick stopped, by state, and by what ended them: one
    of the load's tasks, another task, or none, after another CPU's call or after a timer. `moved`
    tasks run on another CPU than they were woken on. `mhz` is each cluster's mean frequency, and
    `ticks` are each CPU's.
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
    ticks: dict[str, float] = field(default_factory=dict)


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

    @property
    def _counts(self) -> bool:
        begin_ns = self.begin_ns
        return begin_ns is not None and _BEGIN_NS <= self.now_ns - begin_ns < _END_NS

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
        begin_ns, end_ns = self.begin_ns + _BEGIN_NS, self.begin_ns + _END_NS
        inside_ns = min(self.now_ns, end_ns) - max(since_ns, begin_ns)
        self.khz_time[cluster] += max(0, inside_ns) * khz

    def figures(self) -> Figures:
        seconds = (_END_NS - _BEGIN_NS) / 1e9
        for cluster in self.khz:
            self._pass(cluster)
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
                cluster: round(total / (_END_NS - _BEGIN_NS) / 1000)
                for cluster, total in sorted(self.khz_time.items())
            },
        )


def figures(trace: Path, load: str, one: Machine) -> Figures:
    """Read a recording, in any format that Torpor reads."""
    names = {task["name"] for task in tomllib.loads(load_toml(load))["task"]}
    reader = _Reader(names, _cluster_of(one))
    for name, reader.now_ns, cpu, _, text in events.each(trace):
        if handler := getattr(reader, name, None):
            handler(cpu, text)
    return reader.figures()


def record(one: Machine, kernel: Kernel, loads: tuple[str, ...] | None = None) -> dict[str, bytes]:
    """Boot the guest once, with its loads or others: each trace.dat, by load.

    Raises GuestError if the kernel complained, and NotHereError where guests cannot be.
    """
    jobs = [recording.Job(load, "menu", load_command(load)) for load in loads or one.loads]
    files = {
        **{f"mod/{name}.ko": path for name, path in build.modules(kernel).items()},
        **{f"mod/{name}.ko": kernel.module(name) for name in ("configfs", "null_blk")},
        **{f"bin/{name}": path for name, path in build.programs(one.arch).items()},
    }
    result = machine.run(
        kernel,
        recording.script(_setup(one), jobs, has_probes=False),
        files,
        cpus=one.cpus,
        memory_mb=1024,
        capacities=_capacities(one),
        arguments=f"sched_verbose mitigations=off {one.arguments}",
        timeout_s=1200,
        turn_us=machine.TURN_US,
    )
    if result.status != 0 or result.complaints:
        raise machine.GuestError(f"{result.complaints}\n{result.console[-2000:]}")
    if one.platform and "starting EAS" not in result.text("dmesg"):
        raise machine.GuestError("tasks are not placed by energy")
    return {load: made.trace for load, made in recording.collect(kernel, result).items()}


def in_guest(one: Machine) -> dict[str, Figures]:
    """The figures of a new guest, by load; raises as :func:`record`."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="decisions-") as folder:
        for load, trace in record(one, packages.fetch(one.arch, one.series)).items():
            path = Path(folder, f"{load}.dat")
            path.write_bytes(trace)
            found[load] = figures(path, load, one)
    return found


def kept() -> dict[tuple[str, str], Figures]:
    """The figures of the guests in CORPUS, by machine and load."""
    text = json.loads(CORPUS.read_text(encoding="utf-8"))
    return {(name, load): Figures(**text[name][load]) for name, load in CASES}


def hosted(one: Machine, load: str, tree: str) -> Figures:
    """The same load on the same machine under a hosted kernel."""
    with tempfile.TemporaryDirectory(prefix="decisions-") as name:
        folder = Path(name)
        (folder / "guest.toml").write_text(platform_toml(one), encoding="utf-8")
        (folder / f"{load}.toml").write_text(load_toml(load), encoding="utf-8")
        result = torpor.simulate(
            folder / f"{load}.toml",
            platform=folder / "guest.toml",
            governors="menu",
            kernels=",".join([tree, *one.settings]),
            kernel_args=one.arguments or None,
            duration=f"{DURATION_S}s",
            seeds=1,
            trace=folder / "trace.txt",
        )
        assert not result.failures, f"{load}: {result.failures}"
        return figures(folder / "trace.txt", load, one)


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
    *((f"ticks of CPU {cpu}, 1/s", "ticks", str(cpu)) for cpu in range(4)),
    ("mean frequency, mid, MHz", "mhz", "mid"),
    ("mean frequency, big, MHz", "mhz", "big"),
)


def value(of: Figures, name: str, part: str | None) -> float | None:
    """One row of a table; None where the machine has no such cluster."""
    found = getattr(of, name)
    if part is None:
        return found
    if part == "deepest":
        part = max(found)
    return found.get(part, None if name in ("mhz", "to_cluster", "ticks") else 0.0)


def table(guests: dict[tuple[str, str], Figures], simulated: dict[tuple[str, str], Figures]) -> str:
    """Guest and hosted kernel side by side, in Markdown."""
    lines = [
        "| | " + " | ".join(f"{name}, `{load}`" for name, load in guests) + " |",
        "|---" * (1 + len(guests)) + "|",
    ]
    for title, name, part in ROWS:
        cells = []
        for key, guest in guests.items():
            both = value(guest, name, part), value(simulated[key], name, part)
            cells.append("" if both[0] is None else " / ".join(f"{v or 0:.1f}" for v in both))
        lines.append("| " + " | ".join([title, *cells]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", action="store_true")
    parser.add_argument("kernel")
    given = parser.parse_args()
    if given.record:
        new = {name: in_guest(one) for name, one in MACHINES.items()}
        text = {
            name: {load: asdict(of) for load, of in loads.items()} for name, loads in new.items()
        }
        CORPUS.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
    guests = kept()
    print(table(guests, {key: hosted(MACHINES[key[0]], key[1], given.kernel) for key in guests}))


if __name__ == "__main__":
    main()
