# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Files of the running machine, and the facts about it that no trace holds."""

import gzip
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from torpor.results.files import read_bytes, read_text

#: Files in a CPU's folder about its place and its settings: JSON key and file.
_CPU_FILES = {
    "online": "online",
    "core_id": "topology/core_id",
    "cluster_id": "topology/cluster_id",
    "die_id": "topology/die_id",
    "package_id": "topology/physical_package_id",
    "capacity": "cpu_capacity",
    "resume_latency_limit_us": "power/pm_qos_resume_latency_us",
    "cpufreq_governor": "cpufreq/scaling_governor",
    "cpufreq_driver": "cpufreq/scaling_driver",
    "freq_min_khz": "cpufreq/scaling_min_freq",
    "freq_max_khz": "cpufreq/scaling_max_freq",
    "freq_domain": "cpufreq/related_cpus",
}


def read(path: Path) -> str | None:
    """Return a small file's text without its last newline, or None."""
    try:
        return read_text(path, errors="replace").rstrip("\n\0")
    except OSError:
        # Besides files that are not there, sysfs has some that cannot be read at the moment.
        return None


@dataclass(frozen=True)
class Machine:
    """The running machine, or a folder that stands for it."""

    root: Path = Path("/")

    def path(self, absolute: str) -> Path:
        return self.root / absolute.lstrip("/")

    @property
    def cpu_dir(self) -> Path:
        return self.path("/sys/devices/system/cpu")

    def cpus(self) -> list[int]:
        """Return the CPUs that are present, whether online or not."""
        names = (re.fullmatch(r"cpu(\d+)", path.name) for path in self.cpu_dir.glob("cpu*"))
        return sorted(int(name[1]) for name in names if name)

    def online_cpus(self) -> list[int]:
        # Without hot-plug, and for the boot CPU of most machines, there is no such file.
        return [c for c in self.cpus() if read(self.cpu_dir / f"cpu{c}/online") != "0"]

    def idle_driver(self) -> str | None:
        """Return the idle driver; None where there is none, as on most virtual machines."""
        name = read(self.cpu_dir / "cpuidle/current_driver")
        return None if name in (None, "", "none") else name

    def tracefs(self) -> Path | None:
        """Return where tracefs is mounted, directly or by way of debugfs."""
        lines = (read(self.path("/proc/self/mounts")) or "").splitlines()
        # The first mount of a kind counts: debugfs mounts another tracefs below itself.
        mounts = {kind: self.path(where) for _, where, kind, *_ in map(str.split, lines[::-1])}
        if "tracefs" in mounts:
            return mounts["tracefs"]
        if "debugfs" in mounts and os.path.isdir(mounts["debugfs"] / "tracing"):
            return mounts["debugfs"] / "tracing"
        return None

    def release(self) -> str:
        return read(self.path("/proc/sys/kernel/osrelease")) or os.uname().release

    def memory_available_kb(self) -> int | None:
        found = re.search(r"^MemAvailable:\s+(\d+)", read(self.path("/proc/meminfo")) or "", re.M)
        return int(found[1]) if found else None


class Kernel(TypedDict):
    """Identity of the running kernel."""

    release: str
    version: str | None
    architecture: str
    cmdline: str | None


class Cpuidle(TypedDict):
    """Current idle governor, and those available."""

    driver: str | None
    governor: str | None
    available_governors: list[str]


class Facts(TypedDict):
    """Result of :func:`facts`; None is unknown."""

    kernel: Kernel
    hz: int | None
    hz_source: str | None
    cpuidle: Cpuidle
    latency_limit_us: int | None
    timer_migration: int | str | None
    clocksource: str | None
    smt: str | None
    isolated_cpus: str | None
    nohz_full_cpus: str
    hardware: str | None
    cpus: list[dict[str, int | str | None]]


def idle_governor(machine: Machine) -> str | None:
    """Return the idle governor that decides now."""
    idle = machine.cpu_dir / "cpuidle"
    return read(idle / "current_governor") or read(idle / "current_governor_ro")


def facts(machine: Machine) -> Facts:
    """Return facts about the machine that a replay or its reader may need later."""
    idle = machine.cpu_dir / "cpuidle"
    hz, hz_source = tick_rate(machine)
    return {
        "kernel": {
            "release": machine.release(),
            "version": read(machine.path("/proc/sys/kernel/version")),
            "architecture": os.uname().machine,
            "cmdline": read(machine.path("/proc/cmdline")),
        },
        "hz": hz,
        "hz_source": hz_source,
        "cpuidle": {
            "driver": read(idle / "current_driver"),
            "governor": idle_governor(machine),
            "available_governors": (read(idle / "available_governors") or "").split(),
        },
        "latency_limit_us": _latency_limit_us(machine),
        "timer_migration": _number(read(machine.path("/proc/sys/kernel/timer_migration"))),
        "clocksource": read(
            machine.path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        ),
        "smt": read(machine.cpu_dir / "smt/control"),
        "isolated_cpus": read(machine.cpu_dir / "isolated"),
        # The kernel prints its null pointer if the parameter was not given.
        "nohz_full_cpus": (read(machine.cpu_dir / "nohz_full") or "").replace("(null)", ""),
        "hardware": _hardware(machine),
        "cpus": [_cpu(machine, cpu) for cpu in machine.cpus()],
    }


def tick_rate(machine: Machine) -> tuple[int | None, str | None]:
    """Return CONFIG_HZ and the file that has it."""
    release = machine.release()
    for name in (
        "/proc/config.gz",
        f"/boot/config-{release}",
        f"/lib/modules/{release}/config",
        f"/lib/modules/{release}/build/.config",
    ):
        try:
            data = read_bytes(machine.path(name))
            text = gzip.decompress(data) if name.endswith(".gz") else data
        except (OSError, EOFError):
            continue
        found = re.search(rb"^CONFIG_HZ=(\d+)$", text, re.M)
        if found:
            return int(found[1]), name
    return None, None


def text_symbols(machine: Machine) -> bytes | None:
    """Return the functions of /proc/kallsyms, or None if their addresses are hidden.

    They name the functions of timers, by which a replay knows the tick's own.
    """
    try:
        lines = read_bytes(machine.path("/proc/kallsyms")).splitlines(keepends=True)
    except OSError:
        return None
    functions = [line for line in lines if re.match(rb"[0-9a-f]+ [tTwW] ", line)]
    is_hidden = all(re.match(rb"0+ ", line) for line in functions)
    return None if is_hidden else b"".join(functions)


def _cpu(machine: Machine, cpu: int) -> dict[str, int | str | None]:
    folder = machine.cpu_dir / f"cpu{cpu}"
    found = {key: read(folder / name) for key, name in _CPU_FILES.items()}
    return {"cpu": cpu} | {k: _number(text) for k, text in found.items() if text is not None}


def _number(text: str | None) -> int | str | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else text


def _latency_limit_us(machine: Machine) -> int | None:
    """Return the CPU latency limit that all of user space's requests amount to.

    An open file is a request by itself: one for the default, which is no limit.
    """
    try:
        with open(machine.path("/dev/cpu_dma_latency"), "rb", buffering=0) as file:
            (limit_us,) = struct.unpack("=i", file.read(4))
            return int(limit_us)
    except (OSError, struct.error):
        return None


def _hardware(machine: Machine) -> str | None:
    for name in ("/proc/device-tree/model", "/sys/class/dmi/id/product_name"):
        if text := read(machine.path(name)):
            return text
    found = re.search(r"^model name\s*: (.*)$", read(machine.path("/proc/cpuinfo")) or "", re.M)
    return found[1] if found else None
