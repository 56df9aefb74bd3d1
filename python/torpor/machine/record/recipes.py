# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The same recording as a script, for a phone or a board without Python.

The scripts ask the kernel which of the events it has: perf and trace-cmd refuse all of them for one
that is missing. They need root and a POSIX shell, of which busybox's is one.
"""

from collections.abc import Callable

from torpor.machine.record.events import NOT_FOR_PERF, everything
from torpor.machine.record.probes import DEFINITIONS, PROBES

_GROUP = "torpor"

_SETUP = """\
T=/sys/kernel/tracing
[ -e $T/events ] || mount -t tracefs tracefs $T || exit
events=
for event in {events}
do
    [ -e $T/events/${{event%:*}}/${{event#*:}} ] && events="$events $event"
done

# Probes on the kernel's and the governor's answers, if the kernel has kprobes.
P=$T/dynamic_events; [ -e $P ] || P=$T/kprobe_events
probe() {{
    {{ echo "$2" >> $P || echo "$3" >> $P; }} 2> /dev/null && events="$events {group}:$1"
}}
{probes}

# A CPU that sleeps all the time has no known state: each is woken once.
POKE='for cpu in /sys/devices/system/cpu/cpu[0-9]*; do taskset -c ${{cpu##*cpu}} true; done'
WINDOW="$POKE; sleep {seconds}; $POKE"

counters() {{
    grep . /sys/devices/system/cpu/cpuidle/* \\
        /sys/devices/system/cpu/cpu*/cpuidle/state*/* 2> /dev/null
}}
{{ uname -rvm; cat /proc/cmdline; zcat /proc/config.gz 2> /dev/null | grep ^CONFIG_HZ=; }} \\
    > {file}.machine.txt
counters > {file}.before.txt
"""

_TEARDOWN = """\
counters > {file}.after.txt
for event in $events; do
    case $event in {group}:*) echo "-:{group}/${{event#*:}}" >> $P;; esac
done
"""

_PERF = """\
perf record -a -k CLOCK_MONOTONIC -m 8M -B -N -o {file} -e $(echo $events | tr ' ' ,) \\
    -- sh -c "$WINDOW"
cat /proc/kallsyms > {file}.kallsyms
"""

_TRACE_CMD = """\
trace-cmd record -C mono -b 16384 -o {file} $(printf ' -e %s' $events) sh -c "$WINDOW"
"""

# The text has microseconds; the nanoseconds are in the binary buffers, for trace-cmd and perf.
_TRACEFS = """\
I=$T/instances/{group}
mkdir $I && echo 0 > $I/tracing_on || exit
echo mono > $I/trace_clock
echo 16384 > $I/buffer_size_kb
for event in $events; do echo 1 > $I/events/${{event%:*}}/${{event#*:}}/enable; done
echo 1 > $I/tracing_on
sh -c "$WINDOW"
echo 0 > $I/tracing_on
cat $I/trace > {file}
cat $I/per_cpu/cpu*/stats > {file}.stats.txt
rmdir $I
"""

_PERFETTO = """\
# adb shell perfetto --txt -c - -o /data/misc/perfetto-traces/trace.perfetto-trace < THIS
# Fields: https://perfetto.dev/docs/reference/trace-config-proto
buffers {{ size_kb: 131072 }}
duration_ms: {duration_ms}
data_sources {{
  config {{
    name: "linux.ftrace"
    ftrace_config {{
      buffer_size_kb: 16384
      compact_sched {{ enabled: true }}
      symbolize_ksyms: true
{events}
    }}
  }}
}}
data_sources {{
  config {{ name: "linux.system_info" }}
}}
"""


def perf(seconds: int) -> str:
    """Return a script around `perf record`."""
    names = [name for name in everything() if name not in NOT_FOR_PERF]
    return _script("trace.perf.data", _PERF, names, seconds)


def trace_cmd(seconds: int) -> str:
    """Return a script around `trace-cmd record`."""
    return _script("trace.dat", _TRACE_CMD, everything(), seconds)


def tracefs(seconds: int) -> str:
    """Return a script that needs a shell only, and writes text: microseconds, not nanoseconds."""
    return _script("trace.txt", _TRACEFS, everything(), seconds)


def perfetto(seconds: int) -> str:
    """Return a trace configuration for Perfetto, which passes over events it does not find."""
    names = (name.replace(":", "/") for name in everything())
    lines = "\n".join(f'      ftrace_events: "{name}"' for name in names)
    return _PERFETTO.format(events=lines, duration_ms=seconds * 1000)


RECIPES: dict[str, Callable[[int], str]] = {
    "perf": perf,
    "trace-cmd": trace_cmd,
    "perfetto": perfetto,
    "tracefs": tracefs,
}


def _script(file: str, body: str, names: tuple[str, ...] | list[str], seconds: int) -> str:
    probes = "\n".join(
        " \\\n    ".join(
            [f"probe {function}"]
            + [f"'{d.format(group=_GROUP, function=function, type=type_)}'" for d in DEFINITIONS]
        )
        for function, type_ in PROBES.items()
    )
    head = f"#!/bin/sh\n# As root: records {seconds} s of all CPUs to {file}.\n"
    return head + (_SETUP + "\n" + body + "\n" + _TEARDOWN).format(
        file=file, group=_GROUP, probes=probes, seconds=seconds, events=_folded(names)
    )


def _folded(names: tuple[str, ...] | list[str]) -> str:
    """Lay words out on lines of a script."""
    import textwrap

    lines = textwrap.wrap(" ".join(names), 84, break_on_hyphens=False, break_long_words=False)
    return " \\\n    ".join(lines)
