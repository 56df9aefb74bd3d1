# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The hardware's own residency counters of this machine, as ``perf stat`` reads them.

Intel's drivers export them as the event sources ``cstate_core`` and ``cstate_pkg``. A counter runs
at the rate of the TSC while a core or the package is in the state, so its share of ``msr/tsc/`` is
the share of time.
"""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

#: Folder of event sources, from the folder of the machine's CPUs.
_SOURCES = Path("bus/event_source/devices")
_EVENT = re.compile(r"(c\d+)-residency")
_LINE = re.compile(r"CPU(\d+),([\d.]+),[^,]*,(cstate_core|cstate_pkg|msr)/([^/,]+)/")
_END_S = 10


class Got(NamedTuple):
    """Hardware's residency counters, in percent of time, by turbostat's names of the counters."""

    #: Counters of each core, under its first CPU.
    of_cpus: dict[int, dict[str, float]]
    #: Counters of the package, the mean if there are several.
    of_package: dict[str, float]
    #: The reason if nothing is known.
    note: str | None


def events(cpus: str) -> list[str]:
    """Return the events of a machine's residency counters; ``cpus`` is the folder of its CPUs.

    >>> events("/nowhere/devices/system/cpu")
    []
    """
    sources = Path(cpus).absolute().parents[2] / _SOURCES
    found = []
    for source in ("cstate_core", "cstate_pkg"):
        names = (path.name for path in (sources / source / "events").glob("c*-residency"))
        found += [f"{source}/{name}/" for name in sorted(names) if _EVENT.fullmatch(name)]
    return found


class Watch:
    """``perf stat`` at work, on a machine that has such counters."""

    def __init__(self, cpus: str) -> None:
        """Begin to count; ``cpus`` is the folder of the machine's CPUs."""
        self._events = events(cpus)
        self._why: str | None = None
        self._process: subprocess.Popen[str] | None = None
        if not self._events:
            return
        names = ",".join([*self._events, "msr/tsc/"])
        # It ends with its input, which ends with Torpor, however that ends.
        options = ["-a", "-A", "-x", ",", "--log-fd", "1", "-e", names]
        command = ["perf", "stat", *options, "cat"]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                # Ctrl-C is for Torpor.
                start_new_session=True,
            )
        except OSError as error:
            self._why = f"`perf` cannot be run: {error.strerror}"

    def end(self) -> Got:
        """Stop counting, and return the counts; nothing if there are no counters."""
        process, self._process = self._process, None
        if process is not None:
            try:
                text, errors = process.communicate(timeout=_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                text, errors = process.communicate()
            got = read(text)
            if got.of_cpus or got.of_package:
                return got
            lines = [line.strip() for line in errors.splitlines() if line.strip()]
            # The first line may be the heading of the second.
            said = " ".join(lines[:2]).rstrip(".")
            self._why = f"perf: {said}" if said else "perf counted none of them"
        if self._why is None:
            return Got({}, {}, None)
        names = ", ".join(self._events)
        note = f"the hardware's residency counters ({names}) were not read: {self._why}"
        return Got({}, {}, note)


def read(text: str) -> Got:
    """Read what ``perf stat -a -A -x ,`` has printed.

    >>> read("CPU0,30,,cstate_core/c6-residency/,1,100,,\\nCPU0,40,,msr/tsc/,1,100,,\\n").of_cpus
    {0: {'CPU%c6': 75.0}}
    """
    counts: dict[tuple[str, str], dict[int, float]] = {}
    for line in text.splitlines():
        if (found := _LINE.match(line)) is not None:
            cpu, value, source, event = found.groups()
            counts.setdefault((source, event), {})[int(cpu)] = float(value)
    ticks = counts.pop(("msr", "tsc"), {})
    of_cpus: dict[int, dict[str, float]] = {}
    of_package: dict[str, float] = {}
    for (source, event), by_cpu in counts.items():
        state = event.removesuffix("-residency")
        shares = {cpu: 100 * value / ticks[cpu] for cpu, value in by_cpu.items() if ticks.get(cpu)}
        if source == "cstate_core":
            for cpu, share in shares.items():
                of_cpus.setdefault(cpu, {})[f"CPU%{state}"] = share
        elif shares:
            of_package[f"Pkg%p{state}"] = sum(shares.values()) / len(shares)
    return Got(of_cpus, of_package, None)
