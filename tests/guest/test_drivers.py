# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The idle drivers and the log under stress: refusals, unloading, early reads."""

import re
from pathlib import Path

import pytest

from apparatus import build, machine
from machines import here

#: enum torpor_record_kind (kernel/compat/record.h); all records are of one size.
KINDS = range(1, 7)
RECORD_BYTES = 128

#: Arguments of an arm64 machine: a timer without an event stream, and CPUs without WFET.
ARGUMENTS = {"amd64": "", "arm64": "clocksource.arm_arch_timer.evtstrm=0"}


@pytest.fixture(scope="module")
def hurried(kernel, modules) -> machine.Result:
    """Return the guest that drivers.sh ran in."""
    script = Path(__file__).with_name("drivers.sh").read_text(encoding="utf-8")
    files = {
        **{f"mod/{name}.ko": path for name, path in modules.items()},
        "bin/ipi_burst": here(build.programs, kernel.arch)["ipi_burst"],
    }
    settings = f"STATES={machine.STATES[kernel.arch]}\n"
    arguments = ARGUMENTS[kernel.arch]
    result = here(lambda: machine.run(kernel, settings + script, files, arguments=arguments))
    assert result.status == 0, result.console[-2000:]
    return result


def test_the_kernel_found_nothing_to_complain_about(hurried):
    assert hurried.complaints == []


#: Debian builds its cloud kernel for arm64 without cpufreq.
OF_CPUFREQ = {
    "amd64": "policies: number 1 has a CPU of one before it",
    "arm64": "this kernel is built without cpufreq",
}


def test_invalid_driver_setup_is_refused(hurried, kernel):
    assert "taken" not in hurried.files, hurried.text("taken")
    log = hurried.text("dmesg")
    assert log.count("a latency of at most 100000 us") >= 2
    assert "count_ps: 99 is less than 100" in log
    assert OF_CPUFREQ[kernel.arch] in log


@pytest.mark.parametrize("kernel", ["arm64"], indirect=True)
def test_without_wfet_and_event_stream_no_cpu_polls(hurried):
    assert "these CPUs have no WFET, and their timer no event stream" in hurried.text("dmesg")


def test_driver_unloads_after_cpus_leave(hurried):
    inside: set[str] = set()
    freed, entered = 0, 0
    for line in hurried.text("trace").splitlines():
        if found := re.search(r"cpu_idle: state=(\d+) cpu_id=(\d+)", line):
            state, cpu = found.groups()
            # SLOW is state 0; without a driver the kernel says 1.
            (inside.add if state == "0" else inside.discard)(cpu)
            entered += state == "0"
        elif "module_free: torpor_idle" in line:
            freed += 1
            assert not inside, line
    assert freed == 5 and entered > 5


@pytest.mark.parametrize("cpu", ["cpu0", "cpu1"])
def test_log_is_read_by_whole_records(hurried, cpu):
    last = hurried.files[f"{cpu}.last"]
    sizes = []
    for part in (f"{cpu}.{number}" for number in range(10)):
        data = hurried.files[part]
        assert last.startswith(data), part
        sizes.append(len(data))
    assert sizes[0] < len(last) and sizes == sorted(sizes)
    assert len(last) % RECORD_BYTES == 0
    assert all(last[at] in KINDS for at in range(0, len(last), RECORD_BYTES))
