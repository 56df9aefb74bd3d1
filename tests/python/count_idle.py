# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Counts sleeps in the text of a trace, knowing nothing of Torpor.

``python count_idle.py TRACE.txt``; TRACE.txt is what ``trace-cmd report -t``, ``perf script --ns``
or tracefs' ``trace`` prints. A sleep runs from a CPU's ``cpu_idle`` event with a state to its next
one with 4294967295, which is the kernel's -1. One that lacks either counts as cut.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable

_EVENT = re.compile(r"(\d+)\.(\d+): +(?:power:)?cpu_idle: +state=(\d+) cpu_id=(\d+)")
_AWAKE = 0xFFFF_FFFF


def count(lines: Iterable[str]) -> tuple[dict[tuple[int, int], list[int]], int]:
    """Return [usage, time in ns] by (CPU, state), and how many sleeps are cut."""
    events = []
    for line in lines:
        found = _EVENT.search(line)
        if found:
            seconds, fraction, state, cpu = found.groups()
            time_ns = int(seconds) * 10**9 + int(fraction.ljust(9, "0"))
            events.append((time_ns, int(cpu), int(state)))
    events.sort(key=lambda event: event[0])
    states: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    asleep: dict[int, tuple[int, int]] = {}
    cut = 0
    for time_ns, cpu, state in events:
        entered = asleep.pop(cpu, None)
        if state != _AWAKE:
            asleep[cpu] = (state, time_ns)
            cut += entered is not None
        elif entered is None:
            cut += 1
        else:
            states[cpu, entered[0]][0] += 1
            states[cpu, entered[0]][1] += time_ns - entered[1]
    return dict(states), cut + len(asleep)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8", errors="replace") as text:
        counted, cut_count = count(text)
    for (cpu, state), (usage, time_ns) in sorted(counted.items()):
        print(f"cpu {cpu} state {state}: {usage} sleeps, {time_ns} ns")
    print(f"{cut_count} cut")
