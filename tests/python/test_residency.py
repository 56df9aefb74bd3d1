# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Residency counters of the hardware, as a made perf reads them on a made machine."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from processes import TORPOR, ran
from torpor.machine import cstate_counters as residency

#: Core 0 spends 40 % in C6, core 1 half of that; the package a tenth in PC2.
_COUNTED = """# started on Mon Nov 23 04:00:00 2026

CPU0,400,,cstate_core/c6-residency/,1000,100.00,,
CPU1,200,,cstate_core/c6-residency/,1000,100.00,,
CPU0,100,,cstate_pkg/c2-residency/,1000,100.00,,
CPU0,1000,,msr/tsc/,1000,100.00,,
CPU1,1000,,msr/tsc/,1000,100.00,,
"""
_WAITS = """#!/bin/sh
: >"$0.ready"
/bin/cat >/dev/null
/bin/cat "$0.out"
"""
_FAILS = """#!/bin/sh
echo 'Error:' >&2
echo 'Access to performance monitoring is limited.' >&2
: >"$0.ready"
exit 255
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder as /sys, of two CPUs with POLL, C1 and C6."""
    cpus = tmp_path / "sys/devices/system/cpu"
    for cpu in range(2):
        for index, name in enumerate(("POLL", "C1", "C6")):
            state = cpus / f"cpu{cpu}/cpuidle/state{index}"
            state.mkdir(parents=True)
            values = {"name": name, "latency": index, "residency": index * 2, "usage": 5}
            values |= {"time": 100, "above": 0, "below": 0, "rejected": 0, "disable": 0}
            for file, value in values.items():
                (state / file).write_text(f"{value}\n")
    for source, event in (("cstate_core", "c6"), ("cstate_pkg", "c2")):
        events = tmp_path / "sys/bus/event_source/devices" / source / "events"
        events.mkdir(parents=True)
        (events / f"{event}-residency").write_text("event=0x02\n")
    return cpus


def _stat(machine: Path, perf: str | None, *args: str) -> subprocess.CompletedProcess[str]:
    binaries = machine.parents[3] / "bin"
    binaries.mkdir(exist_ok=True)
    ready = binaries / "perf.ready"
    ready.unlink(missing_ok=True)
    if perf is None:
        ready.touch()
    else:
        (binaries / "perf").write_text(perf)
        (binaries / "perf").chmod(0o755)
        (binaries / "perf.out").write_text(_COUNTED)
    command = [*TORPOR, "stat", "--root", str(machine), *args]
    wait = f"while [ ! -e {ready} ]; do /bin/sleep 0.05; done"
    environment = {**os.environ, "PATH": str(binaries)}
    return ran(*command, "--", "/bin/sh", "-c", wait, env=environment, check=True)


def test_events_are_those_of_the_machine(machine):
    found = residency.events(str(machine))
    assert found == ["cstate_core/c6-residency/", "cstate_pkg/c2-residency/"]


def test_stat_shows_requested_next_to_got(machine):
    text = _stat(machine, _WAITS).stdout
    assert "hardware's counter" in text
    row = next(line for line in text.splitlines() if line.startswith("CPU%c6"))
    # The counters stood still, so nothing was requested; the mean of 40 and 20 % was got.
    assert row.split() == ["CPU%c6", "C6", "0.00", "30.00"]
    assert "Pkg%pc2 10.00 %" in text

    by_cpu = json.loads(_stat(machine, _WAITS, "--format", "json", "--by", "cpu").stdout)
    got = [group["columns"][0]["got"][0]["got_ratio"] for group in by_cpu["groups"]]
    assert got == [0.4, 0.2]


@pytest.mark.parametrize(
    ("perf", "why"),
    [(_FAILS, "Access to performance monitoring is limited"), (None, "`perf` cannot be run")],
)
def test_unreadable_counters_are_named_with_the_reason(machine, perf, why):
    text = _stat(machine, perf).stdout
    words = " ".join(text.split())
    assert "residency counters (cstate_core/c6-residency/" in words
    assert why in words


def test_a_machine_without_counters_has_no_note(machine):
    for event in (machine.parents[2] / "bus").rglob("*-residency"):
        event.unlink()
    text = _stat(machine, None).stdout
    assert "hardware" not in text
