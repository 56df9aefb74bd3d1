# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""torpor_cpufreq gives a stock kernel's CPUs frequencies to request."""

import pytest

from apparatus import machine
from machines import here

SCRIPT = """
cpufreq=/sys/devices/system/cpu/cpufreq
cd /mod
refuse() {
	! insmod torpor_cpufreq.ko $1 2>/dev/null || echo "$1" >> /out/taken
}
refuse policies=0@800000:1,800000:2
refuse policies=0@800000
refuse policies=0-9@800000:1
refuse policies=
insmod torpor_cpufreq.ko policies=0@800000:100000,1600000:400000/1@500000:50000,900000:90000
cat $cpufreq/policy*/scaling_driver > /out/drivers
cat $cpufreq/policy*/scaling_available_frequencies > /out/frequencies
cat /sys/kernel/debug/energy_model/cpu*/ps:*/power | sort -n > /out/powers
for policy in $cpufreq/policy*; do
	echo schedutil > $policy/scaling_governor
done
taskset 2 sh -c 'while :; do :; done' &
sleep 1
cat $cpufreq/policy1/scaling_cur_freq > /out/busy
echo 500000 > $cpufreq/policy1/scaling_max_freq
sleep 1
cat $cpufreq/policy1/scaling_cur_freq > /out/limited
kill $!
rmmod torpor_cpufreq
ls $cpufreq > /out/left
"""


@pytest.mark.parametrize("kernel", ["amd64"], indirect=True)
def test_schedutil_asks_for_the_frequencies_of_the_table(kernel, modules):
    files = {"mod/torpor_cpufreq.ko": modules["torpor_cpufreq"]}
    guest = here(machine.run, kernel, SCRIPT, files)
    assert guest.status == 0, guest.console[-2000:]
    assert "taken" not in guest.files, guest.text("taken")
    assert guest.text("drivers").split() == ["torpor_cpufreq"] * 2
    assert guest.text("frequencies").split() == ["800000", "1600000", "500000", "900000"]
    assert guest.text("powers").split() == ["50000", "90000", "100000", "400000"]
    assert guest.text("busy").strip() == "900000"
    assert guest.text("limited").strip() == "500000"
    assert guest.text("left") == ""
    assert guest.complaints == []
