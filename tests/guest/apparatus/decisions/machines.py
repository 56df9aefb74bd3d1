# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The machines of these comparisons, twice: as guests, and as platforms of a simulation."""

import math
from dataclasses import dataclass

import tomllib

from .. import cases, machine
from ..cases import Costs
from ..packages import ROOT
from .load import group_script, sections

HZ = cases.HZ
TICK_NS = 10**9 // HZ


@dataclass(frozen=True)
class Machine:
    """A guest: its kernel, its loads, and the platform whose clusters it has; without, equal CPUs.

    Its idle driver serves exit latencies as `serve` says. By `count`, a latency grows by what
    other CPUs execute meanwhile. Each guest has its own turns, so that two of them differ.
    `arguments` are added to both kernels' command lines. `settings` are those of the guest's
    configuration that they need.
    """

    arch: str
    series: str
    cpus: int
    loads: tuple[str, ...]
    platform: str | None = None
    icount_shift: int = machine.ICOUNT_SHIFT
    serve: str = "count"
    turns_us: tuple[int, ...] = (machine.TURN_US,)
    #: Without an idle driver, CPUs enter the default idle of their architecture.
    has_idle_driver: bool = True
    settings: tuple[str, ...] = ()
    arguments: str = ""
    #: Of the kernel's own tools/sched_ext.
    scheduler: str = ""
    #: Capacity of the CPUs on which the hosted kernel's paths take as long as the guest's, whose
    #: CPUs are equally fast: those of most of the load.
    measured_capacity: int = 1024

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

#: Equal CPUs, and the emulation of several CPUs that comes nearest to them.
EQUAL = ("amd64", "6.12", 4)
EXACT = {"icount_shift": 0, "serve": "time", "turns_us": (5, 4)}

#: Clamps, control groups and frequencies: no kernel of Debian's has all three.
CHANGED = ("arm64", "6.12-changes", 6)
#: Its little CPUs have nearly all of the load.
RK3399 = {"platform": "rk3399", "measured_capacity": 381, **EXACT}

MACHINES = {
    "pixel6": Machine("arm64", "6.12-cpufreq", 8, ("periodic", "frames"), "pixel6"),
    "equal": Machine(*EQUAL, ("periodic", "frames", "chains", "chains-io"), **EXACT),
    "no-driver": Machine("amd64", "6.12", 4, ("periodic", "frames"), has_idle_driver=False),
    "tickless": Machine(
        *("amd64", "6.12", 4, ("isolated",)),
        settings=DEBIAN,
        arguments="isolcpus=nohz,domain,managed_irq,2-3 nohz_full=2-3 rcu_nocbs=2-3",
    ),
    "groups": Machine(*EQUAL, ("shares", "nested", "quota"), **EXACT),
    # The kernel of `groups` starts with preempt=voluntary.
    "preempt-none": Machine(*EQUAL, ("shares",), arguments="preempt=none", **EXACT),
    "preempt-full": Machine(*EQUAL, ("shares",), arguments="preempt=full", **EXACT),
    "limits": Machine(*CHANGED, ("limits",), **RK3399),
    "shifts": Machine(*CHANGED, ("shifts",), **RK3399),
    "sched-ext": Machine(
        *("amd64", "6.12-sched-ext", 4, ("frames", "chains")), scheduler="scx_simple", **EXACT
    ),
}

#: Machines by the table that has them, in the documents' order.
TABLES = (
    ("pixel6", "equal", "no-driver", "tickless"),
    ("groups",),
    ("preempt-none", "preempt-full"),
    ("limits",),
    ("shifts",),
    ("sched-ext",),
)

#: Each machine's loads by section.
CASES = [
    (name, load, part.title)
    for name, one in MACHINES.items()
    for load in one.loads
    for part in sections(load)
]

#: Counts how often clock event devices are set while a load runs.
COUNTED = """
tracing=/sys/kernel/tracing
echo p:count/programmings clockevents_program_event >> $tracing/kprobe_events
echo 1 > $tracing/events/count/programmings/enable
counted() {
	cat $tracing/kprobe_profile
	"$@"
	cat $tracing/kprobe_profile
}"""

#: The least time between two of schedutil's requests is one and a half of that (Linux 6.12).
CLOCK_LATENCY_US = 500


def cpus_of(cluster: dict) -> range:
    first, _, last = cluster["cpus"].partition("-")
    return range(int(first), int(last or first) + 1)


def cluster_of(one: Machine) -> dict[int, str]:
    return {cpu: cluster["name"] for cluster in one.clusters for cpu in cpus_of(cluster)}


def capacities(one: Machine) -> tuple[int, ...]:
    """Return each CPU's capacity in the device tree, in DMIPS for each MHz, rounded up."""
    if one.platform is None:
        return ()
    khz = {c["name"]: c["opp"][-1]["freq_khz"] for c in one.clusters}
    fastest_khz = next(khz[c["name"]] for c in one.clusters if c["capacity"] == 1024)
    return tuple(
        math.ceil(cluster["capacity"] * fastest_khz / khz[cluster["name"]])
        for cluster in one.clusters
        for _ in cpus_of(cluster)
    )


def _opp(opp: dict) -> str:
    return f"{opp['freq_khz']}:{round(1000 * opp['active_power_mw'])}"


def setup(one: Machine) -> str:
    count_ps = 2000 << one.icount_shift
    idle = f"states={machine.STATES[one.arch]} serve={one.serve} count_ps={count_ps}"
    lines = [f"insmod /mod/torpor_idle.ko {idle}"] if one.has_idle_driver else [COUNTED]
    if one.platform:
        domains = "/".join(f"{c['cpus']}@{','.join(map(_opp, c['opp']))}" for c in one.clusters)
        delay_us = CLOCK_LATENCY_US * 3 // 2
        lines += [
            f"insmod /mod/torpor_cpufreq.ko policies={domains} delay_us={delay_us}",
            "for policy in /sys/devices/system/cpu/cpufreq/policy*; do",
            "	echo schedutil > $policy/scaling_governor",
            "done",
        ]
    lines.append(group_script(one.loads))
    if one.scheduler:
        lines += [f"/bin/{one.scheduler} > /out/scheduler.txt 2>&1 &", "sleep 3"]
        lines.append("cat /sys/kernel/sched_ext/root/ops > /out/scheduler-ops.txt")
    return "\n".join(lines)


def platform_toml(one: Machine, costs: Costs) -> str:
    """The guest as a platform; its kernel takes these times on any CPU."""
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
{costs.toml(one.measured_capacity / 1024)}"""
    if one.platform:
        text += 'cpufreq_governor = "schedutil"\n'
    if not one.has_idle_driver:
        text += "idle_driver = false\n"
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
