# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""CPUs that are kept free for one task each: no interrupt of a governor's own may hit that task."""

import os

import pytest

from apparatus import build, machine
from machines import here

pytestmark = pytest.mark.skipif(
    not os.environ.get("TORPOR_GUEST_FULL"),
    reason="not run, because TORPOR_GUEST_FULL is not set",
)

ISOLATED = "nohz_full=1 isolcpus=nohz,domain,managed_irq,1 rcu_nocbs=1"

SCRIPT = """
cpuidle=/sys/devices/system/cpu/cpuidle
cat /sys/devices/system/cpu/nohz_full > /out/nohz_full
cat /sys/devices/system/cpu/isolated > /out/isolated

# Counts of CPU 1: the governor's own timers, on the idle CPU and under tasks, and all timer
# interrupts.
seen() {
	own="0 0"
	[ ! -f /sys/kernel/debug/torpor/timers/$1 ] ||
		own=$(awk '$1 == 1 { print $2, $3 }' /sys/kernel/debug/torpor/timers/$1)
	echo $own $(awk '$1 == "LOC:" || /arch_timer/ { n += $3 } END { print n }' /proc/interrupts)
}

# A part of the load, with what was seen before and after it.
during() {
	governor=$1 part=$2
	shift 2
	before=$(seen $governor)
	"$@" > /dev/null
	echo $part $before $(seen $governor) >> /out/$governor
}

cd /mod
insmod torpor_core.ko
insmod torpor_idle.ko states=$STATES serve=count
for governor in t-menu t-tide; do
	insmod torpor_$(echo $governor | tr - _).ko
	echo $governor > $cpuidle/current_governor
	# Nobody is there; on x86-64 the kernel watches over its clock twice a second.
	during $governor empty sleep 20
	# Nobody but CPU 0, who wakes it with interrupts.
	during $governor woken ipi_burst 20 5 100 20000
	# Its own task sleeps and works in turn, and then only works.
	during $governor sleeping taskset 2 periodic 300 1
	taskset 2 sh -c 'while :; do :; done' &
	usleep 20000
	during $governor working sleep 1
	kill $!
	wait $! || true
done
"""


def test_own_timers_expire_on_isolated_idle_cpu_only(kernel, modules):
    files = {
        **{f"mod/{name}.ko": path for name, path in modules.items()},
        **{f"bin/{name}": path for name, path in here(build.programs, kernel.arch).items()},
    }
    settings = f"STATES={machine.STATES[kernel.arch]}\n"
    guest = here(lambda: machine.run(kernel, settings + SCRIPT, files, arguments=ISOLATED))
    assert guest.status == 0, guest.console[-2000:]
    assert (guest.text("nohz_full").strip(), guest.text("isolated").strip()) == ("1", "1")
    assert guest.complaints == []
    seen = {governor: parts(guest.text(governor)) for governor in ("t-menu", "t-tide")}
    print(seen)
    assert all(own == 0 for own, *_ in seen["t-menu"].values())
    # Nobody comes, so it takes the deepest state at once, except for what came before.
    assert seen["t-tide"]["empty"][0] <= 2
    assert seen["t-tide"]["woken"][0] + seen["t-tide"]["sleeping"][0] > 10
    assert all(busy == 0 for _, busy, _ in seen["t-tide"].values())
    assert seen["t-tide"]["working"][0] == 0


def parts(text: str) -> dict[str, list[int]]:
    """By the part of the load: own timers while idle and under a task, and timer interrupts."""
    counts = {}
    for line in text.splitlines():
        part, *numbers = line.split()
        before, after = numbers[:3], numbers[3:]
        counts[part] = [int(now) - int(then) for then, now in zip(before, after, strict=True)]
    return counts
