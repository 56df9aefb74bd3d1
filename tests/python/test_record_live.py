# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Recordings of the machine that runs the tests, if it can be recorded."""

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from processes import ran, start, wait_for, wait_until_listening
from torpor.machine.record import Machine, perf, recipes, session, tracefs

MACHINE = Machine()


@pytest.fixture
def mount():
    """tracefs, checked to be unchanged afterwards."""
    found = MACHINE.tracefs()
    if found is None or not os.access(found / "events", os.R_OK | os.X_OK):
        pytest.skip("not run, because tracefs is not mounted or may not be read")
    yield found

    def left():
        instances = found / "instances"
        names = os.listdir(instances) if os.access(instances, os.R_OK) else []
        return [name for name in names if name.startswith("torpor")]

    # Another test may record at this moment: what stays is what was left behind.
    wait_for(lambda: not left(), limit_s=20)
    probes = found / "dynamic_events"
    assert not probes.exists() or "torpor" not in probes.read_text()


@pytest.fixture
def writable(mount):
    reason = tracefs.why_unusable(mount)
    if reason is not None:
        pytest.skip(f"not run, because of tracefs: {reason}")
    return mount


@pytest.fixture
def perf_works(mount, tmp_path):
    reason = perf.why_unusable()
    if reason is not None:
        pytest.skip(f"not run, because {reason}")
    trial = ran(
        "perf", "record", "-a", "-e", "sched:sched_switch", "-o", tmp_path / "trial", "true"
    )
    if trial.returncode != 0:
        pytest.skip(f"not run, because perf may not record: {trial.stderr.strip()[-200:]}")


def reported(path):
    """Return trace-cmd's view: event names by count, and the markers."""
    if shutil.which("trace-cmd") is None:
        pytest.skip("not checked by trace-cmd, because it is not installed")
    done = ran("trace-cmd", "report", "-t", path, check=True)
    events = re.findall(r"^.*\[\d+\] +(\d+\.\d{9}): +(\w+): +(.*)$", done.stdout, re.M)
    assert events, done.stdout[:500]
    return events


def test_tracefs_records_what_trace_cmd_reads(writable, torpor, tmp_path):
    began_ns = time.monotonic_ns()
    done = torpor("record", "-o", "a.dat", "--backend", "tracefs", "--", "sleep", "0.5", check=0)
    ended_ns = time.monotonic_ns()
    count = int(re.search(r"([\d,]+) events", done.stderr)[1].replace(",", ""))
    events = reported(tmp_path / "a.dat")
    assert len(events) == count
    names = {name for _, name, _ in events}
    # Not cpu_idle: a machine that runs tests may have no idle CPU.
    assert {"sched_switch", "sched_waking", "hrtimer_start"} <= names
    # The monotonic clock, in nanoseconds.
    times_ns = [int(time.replace(".", "")) for time, _, _ in events]
    assert began_ns <= min(times_ns) and max(times_ns) <= ended_ns
    assert any(time_ns % 1000 for time_ns in times_ns)
    marks = [text for _, name, text in events if name == "print"]
    assert "torpor: begin" in marks[0] and "torpor: end" in marks[-1]
    # Functions have names: the file holds the symbols.
    assert any("function=hrtimer_wakeup" in text for _, name, text in events)
    window = json.loads((tmp_path / "a.dat.machine.json").read_text())["window"]
    assert began_ns <= window["begin_ns"] < window["end_ns"] <= ended_ns


def test_every_online_cpu_is_seen_at_both_ends(writable, torpor, tmp_path):
    torpor("record", "-o", "a.dat", "--backend", "tracefs", "--duration", "300ms", check=0)
    events = ran("trace-cmd", "report", "-F", "sched_switch", tmp_path / "a.dat").stdout
    switched = [int(cpu) for cpu in re.findall(r"\[(\d+)\].*sched_switch", events)]
    allowed = set(MACHINE.online_cpus()) & os.sched_getaffinity(0)
    assert allowed <= set(switched)


def test_perf_records_what_torpor_reads(perf_works, torpor, tmp_path):
    done = torpor("record", "-o", "b.perf.data", "--backend", "perf", "--", "sleep", "0.5", check=0)
    assert "recorded b.perf.data" in done.stderr
    info = json.loads(torpor("trace", "info", "b.perf.data", "--format", "json", check=0).stdout)
    assert info["format"] == "perf.data" and info["clock"] == "mono"
    assert info["carries"]["switches"] and info["carries"]["hrtimers"]
    assert 0.5e9 <= info["duration_ns"] < 10e9
    assert (tmp_path / "b.perf.data.kallsyms").exists()


@pytest.mark.parametrize("backend", ["tracefs", "perf"])
def test_ctrl_c_keeps_the_recording(backend, request, tmp_path):
    request.getfixturevalue("writable" if backend == "tracefs" else "perf_works")
    output = tmp_path / "c.data"
    running = start("record", "-o", output, "--backend", backend)
    # The last handler that a recorder installs.
    wait_until_listening(running, signal.SIGCHLD)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and f"recorded {output}" in said
    assert output.stat().st_size > 0 and session.beside(output, "after.txt").exists()


@pytest.mark.parametrize("name", ["perf", "tracefs"])
def test_a_printed_script_records(name, request, mount, tmp_path):
    request.getfixturevalue("writable" if name == "tracefs" else "perf_works")
    script = recipes.RECIPES[name](1)
    done = ran("sh", input=script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    made = tmp_path / {"perf": "trace.perf.data", "tracefs": "trace.txt"}[name]
    assert made.stat().st_size > 0, done.stderr
    assert MACHINE.release() in Path(f"{made}.machine.txt").read_text()
    if name == "tracefs":
        assert re.search(r"^ .* sched_switch: prev_comm=", made.read_text(), re.M)
