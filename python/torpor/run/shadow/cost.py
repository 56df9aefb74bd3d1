# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""CPU time, memory and wake-ups that Torpor itself costs the machine."""

import os
import time
from pathlib import Path
from typing import NamedTuple

from torpor.machine.record.machine import read

_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Usage(NamedTuple):
    """Sums over this process and those that it started, perf and isolated governors."""

    at_ns: int
    cpu_ns: int
    memory_bytes: int
    #: Times that a thread of these slept, and had to be woken.
    wakeups: int


def usage(proc: Path = Path("/proc")) -> Usage:
    """Return the sums up to now, of the processes that run now."""
    cpu_ns = memory_bytes = wakeups = 0
    for pid in _family(proc, os.getpid()):
        # After the command's name, which may have any character.
        fields = (read(proc / str(pid) / "stat") or "").rpartition(")")[2].split()
        if len(fields) > 12:
            cpu_ns += (int(fields[11]) + int(fields[12])) * _TICK_NS
        pages = (read(proc / str(pid) / "statm") or "").split()
        memory_bytes += int(pages[1]) * _PAGE_BYTES if len(pages) > 1 else 0
        for status in (proc / str(pid) / "task").glob("*/status"):
            text = (read(status) or "").partition("\nvoluntary_ctxt_switches:")[2].split()
            wakeups += int(text[0]) if text else 0
    return Usage(time.monotonic_ns(), cpu_ns, memory_bytes, wakeups)


def _family(proc: Path, pid: int) -> list[int]:
    """Return a process and all below it. Without CONFIG_PROC_CHILDREN, the process alone."""
    found = [pid]
    for parent in found:
        for listed in (proc / str(parent) / "task").glob("*/children"):
            found += [int(child) for child in (read(listed) or "").split()]
    return found


class Meter:
    """Usage since it was made. Processes that have ended keep what they had at the last reading."""

    def __init__(self) -> None:
        """Begin now."""
        self._last = usage()
        self._from_ns = self._last.at_ns
        self.memory_bytes = self._last.memory_bytes
        self.cpu_ns = self.wakeups = 0

    def read(self) -> None:
        """Take what came since the last reading."""
        now = usage()
        # A process that ended takes its count along.
        self.cpu_ns += max(0, now.cpu_ns - self._last.cpu_ns)
        self.wakeups += max(0, now.wakeups - self._last.wakeups)
        self.memory_bytes = now.memory_bytes
        self._last = now

    @property
    def seconds(self) -> float:
        """Time up to the last reading."""
        return max(1, self._last.at_ns - self._from_ns) / 1e9
