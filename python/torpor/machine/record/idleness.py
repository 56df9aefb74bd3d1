# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Whether this machine sleeps at all: without sleeps there is nothing to record or compare."""

import time

from torpor.machine.record.machine import Machine, read

#: What no machine without an idle driver can show, and what helps.
NO_DRIVER = (
    "this machine has no idle driver, as most virtual ones, so no governor decides anything",
    "`torpor record` works, and `torpor replay` and `torpor shadow` take another machine's idle "
    "states by `-p` (`torpor platform list`); haltpoll or torpor_idle gives a guest states of its "
    'own: see the guide "In a real kernel"',
)

#: Between two looks at the idle times, which the kernel counts by ticks of 10 ms.
_LOOK_EVERY_S = 0.05


def why_never_idle(machine: Machine, patience_s: float = 1.0) -> tuple[str, str] | None:
    """Return why no governor has anything to decide here, and a hint; None as soon as a CPU idles.

    Takes ``patience_s`` at most, on a machine that is busy all the time.
    """
    if machine.idle_driver() is None:
        return NO_DRIVER
    before, until_s = _idle_ticks(machine), time.monotonic() + patience_s
    while before is not None and time.monotonic() < until_s:
        time.sleep(_LOOK_EVERY_S)
        if _idle_ticks(machine) != before:
            return None
    if before is None:
        return None
    return (
        f"no CPU was idle for {patience_s:g} s: a governor is asked only when one is",
        "end the load, leave it fewer CPUs (taskset), or go on until it pauses",
    )


def _idle_ticks(machine: Machine) -> list[str] | None:
    """Return the idle time of each CPU, also while it waits for IO, as /proc/stat has it."""
    lines = (read(machine.path("/proc/stat")) or "").splitlines()
    found = [" ".join(line.split()[4:6]) for line in lines if line.startswith("cpu")]
    return found or None
