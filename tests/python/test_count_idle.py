# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Residency and wake-ups per state, against a count that shares no code with Torpor."""

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

import torpor
from count_idle import count

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / "crates" / "torpor-trace" / "tests" / "data" / "plain.perf-script.txt"
SHARED = ROOT.parent / "shared" / "traces"
GUESTS = [
    "arm64-6.12-teo-mix-psci",
    "x86-6.12-menu-idle-predict",
    "x86-6.12-menu-probes",
    "x86-6.12-menu-rich",
    "x86-6.12-teo-mix-cpufreq",
]


def ours(trace: Path) -> tuple[dict[tuple[int, int], list[int]], int]:
    """Return what ``count`` does, by Torpor."""
    cpus = torpor.trace_info(trace)["cpus"]
    states = {
        (cpu["cpu"], state["index"]): [state["usage"], state["time_ns"]]
        for cpu in cpus
        for state in cpu["states"]
    }
    return states, sum(cpu["cut_sleeps"] for cpu in cpus)


def shared(*names: str) -> Path:
    """Return a recording beside the project; skip where there is none."""
    path = SHARED.joinpath(*names)
    if not path.exists():
        pytest.skip("../shared/traces is absent")
    return path


def test_text_of_our_own_counts_the_same():
    states, cut = ours(OWN)
    assert (states, cut) == count(OWN.read_text().splitlines())
    assert states


@pytest.mark.parametrize("guest", GUESTS)
def test_text_of_tracefs_counts_the_same(guest):
    rich = guest == "x86-6.12-menu-rich"
    path = shared("guest", guest, "trace.txt.gz" if rich else "trace.txt")
    with (gzip.open if rich else open)(path, "rt") as text:
        assert ours(path) == count(text)


@pytest.mark.parametrize("dat", [f"guest/{guest}/trace.dat" for guest in GUESTS])
def test_trace_dat_counts_to_the_nanosecond_what_trace_cmd_prints(dat):
    path = shared(dat)
    if not shutil.which("trace-cmd"):
        pytest.skip("trace-cmd is not installed")
    report = subprocess.run(
        ["trace-cmd", "report", "-t", path], capture_output=True, text=True, check=True
    )
    states, cut = count(report.stdout.splitlines())
    assert ours(path) == (states, cut)
    assert sum(usage for usage, _ in states.values()) > 300


@pytest.mark.parametrize("data", ["perf_cpu_idle.data", "perf_cpu_idle_zstd.data"])
def test_perf_data_counts_to_the_nanosecond_what_perf_prints(data):
    path = shared(data)
    if not shutil.which("perf"):
        pytest.skip("perf is not installed")
    script = subprocess.run(
        ["perf", "script", "--ns", "--force", "-i", path], capture_output=True, text=True
    )
    if script.returncode:
        pytest.skip(f"perf script: {script.stderr.strip()}")
    assert ours(path) == count(script.stdout.splitlines())
