# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Wakes every CPU once, because the state of a CPU that sleeps through a recording is unknown."""

import os
import time
from collections.abc import Iterable

#: Long enough to be seen as a task that ran, too short to heat or to be missed by anyone.
_RUN_NS = 50_000


def poke(cpus: Iterable[int]) -> list[int]:
    """Run on each CPU in turn; return those that this process may not run on."""
    allowed, refused = os.sched_getaffinity(0), []
    try:
        for cpu in cpus:
            try:
                os.sched_setaffinity(0, {cpu})
            except OSError:
                refused.append(cpu)
                continue
            until_ns = time.monotonic_ns() + _RUN_NS
            while time.monotonic_ns() < until_ns:
                pass
    finally:
        os.sched_setaffinity(0, allowed)
    return refused
