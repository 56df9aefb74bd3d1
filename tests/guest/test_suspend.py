# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A machine is suspended to idle while a governor has timers of its own, and goes on afterwards.

With states of the kernel's own driver for PSCI, CPUs are suspended by `enter_s2idle()` with the
tick frozen. `torpor_idle` has none, as drivers for virtual machines do not, and CPUs then take the
deepest state with their timers running. In neither case is the governor asked.
"""

import os

import pytest

from apparatus import build, machine
from machines import here
from test_decisions_are_equal import feed
from test_psci_states import STATES as PSCI_STATES

pytestmark = pytest.mark.skipif(
    not os.environ.get("TORPOR_GUEST_FULL"),
    reason="not run, because TORPOR_GUEST_FULL is not set",
)

GOVERNOR = "tide"

SUSPENDS = 4

SCRIPT = """
cpuidle=/sys/devices/system/cpu/cpuidle
timers=/sys/kernel/debug/torpor/timers/t-$GOVERNOR
rtc=/sys/class/rtc/rtc0

usage() {
	cat /sys/devices/system/cpu/cpu*/cpuidle/state*/usage
}

work() {
	periodic 97 0.3 > /dev/null
	idle_predict -n 2 -l 6 -t 300 -s 1 > /dev/null
	ipi_burst 3 5 100 2000 > /dev/null
}

cd /mod
insmod torpor_core.ko log_decisions=1
[ -z "$STATES" ] || insmod torpor_idle.ko states=$STATES serve=count
insmod torpor_t_$GOVERNOR.ko
cat $cpuidle/current_driver > /out/driver
# To poll takes an emulated CPU's real time.
for name in $(grep -l POLL /sys/devices/system/cpu/cpu*/cpuidle/state0/name); do
	echo 1 > ${name%name}disable
done
echo t-$GOVERNOR > $cpuidle/current_governor
for i in $(seq $SUSPENDS); do
	work &
	# In the midst of it: tasks are frozen wherever they are.
	usleep 37000
	mkdir /out/$i
	cat $timers > /out/$i/timers_before
	cat $rtc/since_epoch > /out/$i/begin
	echo 0 > $rtc/wakealarm
	echo +10 > $rtc/wakealarm
	echo freeze > /sys/power/state
	cat $rtc/since_epoch > /out/$i/end
	cat $timers > /out/$i/timers_resumed
	usage > /out/$i/usage_resumed
	wait
	usage > /out/$i/usage_after
	cat $timers > /out/$i/timers_after
done
cat /sys/power/suspend_stats/success > /out/success
cat /sys/devices/system/cpu/cpu*/cpuidle/state*/s2idle/usage > /out/s2idle_usage || true
cp -r /sys/kernel/debug/torpor /out/decisions
"""


def numbers(guest, name: str) -> list[int]:
    return [int(word) for word in guest.text(name).split()]


def expired(guest, name: str) -> int:
    rows = guest.text(name).splitlines()[1:]
    return sum(sum(map(int, row.split()[1:])) for row in rows)


@pytest.fixture(scope="module", params=["torpor_idle", "psci_idle"])
def suspended(request, kernel, modules) -> machine.Result:
    """Return the guest that slept four times while it worked."""
    if kernel.arch != "arm64":
        pytest.skip("not run, because no clock of QEMU's PC wakes it up from suspend-to-idle")
    has_psci = request.param == "psci_idle"
    programs = here(build.programs, kernel.arch)
    files = {
        **{f"mod/{name}.ko": path for name, path in modules.items()},
        **{f"bin/{name}": path for name, path in programs.items()},
    }
    states = "" if has_psci else machine.STATES[kernel.arch]
    settings = f"GOVERNOR={GOVERNOR} SUSPENDS={SUSPENDS} STATES={states}\n"
    guest = here(
        lambda: machine.run(
            kernel, settings + SCRIPT, files, psci_states=PSCI_STATES if has_psci else ()
        )
    )
    assert guest.status == 0, guest.console[-2000:]
    assert guest.text("driver").strip() == request.param
    return guest


def test_it_sleeps_until_the_alarm(suspended):
    assert numbers(suspended, "success") == [SUSPENDS]
    for i in range(1, SUSPENDS + 1):
        (begin,), (end,) = numbers(suspended, f"{i}/begin"), numbers(suspended, f"{i}/end")
        assert 10 <= end - begin <= 12
    assert suspended.complaints == []


def test_no_timer_of_the_governor_expires_meanwhile(suspended):
    for i in range(1, SUSPENDS + 1):
        before = expired(suspended, f"{i}/timers_before")
        resumed = expired(suspended, f"{i}/timers_resumed")
        print(i, before, resumed, expired(suspended, f"{i}/timers_after"))
        # On the way there and back CPUs idle as always, some milliseconds.
        assert resumed - before < 5


def test_governor_survives_suspend(suspended):
    for i in range(1, SUSPENDS + 1):
        resumed, after = (numbers(suspended, f"{i}/usage_{when}") for when in ("resumed", "after"))
        assert sum(now > before for before, now in zip(resumed, after, strict=True)) > 2
    assert expired(suspended, f"{SUSPENDS}/timers_after") > expired(suspended, "1/timers_resumed")


def test_userspace_decides_as_the_kernel_did(suspended, tmp_path):
    for cpu in ("cpu0", "cpu1"):
        log = tmp_path / cpu
        log.write_bytes(suspended.files[f"decisions/{cpu}"])
        status, counts, said = feed(GOVERNOR, GOVERNOR, log)
        assert (status, counts["differences"], counts["unsteady"]) == (0, 0, 0), said
        assert counts["decisions"] > 100
