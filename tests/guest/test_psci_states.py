# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Our governors above a driver of the kernel's own: PSCI idle states from a device tree."""

import pytest

from apparatus import build, machine
from apparatus.devicetree import IdleState
from machines import here

#: A Pixel 6's little cores (platforms/pixel6.toml): a retention state for QEMU's sake.
STATES = (IdleState("c2", 0x1, 70, 160, 2000),)

SCRIPT = """
cpuidle=/sys/devices/system/cpu/cpuidle
cat $cpuidle/current_driver > /out/driver
cat /sys/devices/system/cpu/cpu0/cpuidle/state*/name > /out/states
cat /sys/devices/system/cpu/cpu0/cpuidle/state*/latency > /out/latencies
cd /mod
insmod torpor_core.ko
insmod torpor_idle.ko states=WFI:1:1 2>/dev/null || echo refused > /out/second_driver
for governor in t-menu t-teo; do
	insmod torpor_$(echo $governor | tr - _).ko
	echo $governor > $cpuidle/current_governor
	cat /sys/devices/system/cpu/cpu0/cpuidle/state*/usage > /out/before
	periodic 97 0.5
	cat /sys/devices/system/cpu/cpu0/cpuidle/state*/usage > /out/after
	paste /out/before /out/after > /out/$governor
done
"""


@pytest.mark.parametrize("kernel", ["arm64"], indirect=True)
def test_governors_choose_among_states_of_the_device_tree(kernel, modules):
    programs = here(build.programs, kernel.arch)
    files = {
        **{f"mod/{name}.ko": path for name, path in modules.items()},
        "bin/periodic": programs["periodic"],
    }
    guest = here(lambda: machine.run(kernel, SCRIPT, files, psci_states=STATES))
    assert guest.status == 0, guest.console[-2000:]
    assert guest.text("driver").strip() == "psci_idle"
    assert guest.text("states").split() == ["WFI", "c2"]
    assert guest.text("latencies").split() == ["1", "230"]
    assert guest.text("second_driver").strip() == "refused"
    assert "this machine has an idle driver, psci_idle" in guest.text("dmesg")
    for governor in ("t-menu", "t-teo"):
        rows = [line.split() for line in guest.text(governor).splitlines()]
        wfi, c2 = (int(after) - int(before) for before, after in rows)
        # 97 Hz is a sleep of 10 ms, five times c2's residency; one CPU takes part of them.
        assert c2 > wfi, (governor, wfi, c2)
    assert guest.complaints == []
