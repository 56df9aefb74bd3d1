# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Recording on a machine made of files: what is saved, and what is restored when it fails."""

import json
import os
import signal
import subprocess
import threading
import time

import pytest

from fake_machine import PAGE_SIZE
from processes import ran
from torpor.machine.record import (
    Plan,
    RecordError,
    errors,
    governor,
    leftovers,
    owner,
    poke,
    probes,
    record,
    session,
    tracefs,
)
from torpor.machine.record.errors import WriteError
from torpor.machine.record.machine import tick_rate

INSTANCE = owner.instance_name()


@pytest.fixture
def output(tmp_path):
    return tmp_path / "rec.dat"


def recorded(fake, output, *command, **kwargs):
    return record(Plan(output, command or ("true",), **kwargs), fake.machine)


def test_sidecar_files_complete_the_trace(fake, output):
    made = recorded(fake, output)
    assert made.status == 0 and made.stopped_by is None
    assert [f.name for f in made.beside] == [
        "rec.dat.before.txt",
        "rec.dat.after.txt",
        "rec.dat.machine.json",
    ]
    known = json.loads((output.parent / "rec.dat.machine.json").read_text())
    assert known["kernel"]["release"] == "6.12.1-fake"
    assert (known["hz"], known["hz_source"]) == (300, "/proc/config.gz")
    assert known["cpuidle"] == {
        "driver": "fake_idle",
        "governor": "menu",
        "available_governors": ["menu", "teo"],
    }
    assert known["window"]["begin_ns"] < known["window"]["end_ns"]
    assert known["missing_events"] == []


def test_counters_match_grep(fake, output):
    recorded(fake, output)
    files = sorted((fake.root / "sys/devices/system/cpu").glob("cpu0/cpuidle/state*/*"))
    files = sorted((fake.root / "sys/devices/system/cpu/cpuidle").glob("*")) + files
    grep = ran("grep", ".", *files, check=True).stdout
    before = (output.parent / "rec.dat.before.txt").read_text()
    assert before == grep.replace(str(fake.root), "")
    assert "/sys/devices/system/cpu/cpu0/cpuidle/state2/residency:200\n" in before


def test_the_buffers_move_to_the_file(fake, output):
    made = recorded(fake, output)
    data = output.read_bytes()
    assert data.endswith(b"1" * PAGE_SIZE) and b"0" * PAGE_SIZE * 2 in data
    assert made.saved.events_count == 2 * 7 and made.saved.lost_count == 0
    files = fake.removed[INSTANCE]
    assert files["trace_clock"] == "mono" and files["tracing_on"] == "0"
    assert files["events/power/cpu_idle/enable"] == "1"
    assert files["trace_marker"] == "torpor: end\n"
    assert list((fake.tracefs / "instances").iterdir()) == []
    assert len(list(output.parent.glob("rec.dat*"))) == 4


def test_lost_events_are_counted(fake, output):
    fake.stats = "overrun: 5\ncommit overrun: 1\nbytes: 0\ndropped events: 2\nread events: 7\n"
    assert recorded(fake, output).saved.lost_count == 2 * 8


def test_buffer_is_emptied_when_it_is_half_full(fake, output):
    """1 GiB free over 8 and one CPU: more than the 16 MiB a buffer takes at most."""
    fake.pages = {0: b"0" * (2 << 20)}
    seen = []
    for used in (8 << 20, (8 << 20) + 1):
        fake.stats = f"bytes: {used}\n"
        plan = Plan(output, ("sleep", "0.2"))
        record(plan, fake.machine, lambda what, _done, _total: seen.append(what))
        assert fake.removed[INSTANCE]["buffer_size_kb"] == str(16 << 10)
        assert b"0" * (2 << 20) in output.read_bytes()
    assert seen[0] == "recording, 0 MiB" and seen[-1] == "recording, 2 MiB"


def test_probes_are_set_and_removed(fake, output):
    made = recorded(fake, output)
    group = owner.probe_group()
    assert fake.dynamic_events()[0] == (
        f"f:{group}/tick_nohz_get_sleep_length tick_nohz_get_sleep_length%return ret=$retval:s64"
    )
    assert len(fake.dynamic_events()) == 2 * len(probes.PROBES)
    assert fake.defined_probes() == set()
    assert fake.removed[INSTANCE][f"events/{group}/cpuidle_select/enable"] == "1"
    assert not any("probe" in note for note in made.notes)


def test_kretprobes_where_function_entry_probes_are_refused(fake, output, monkeypatch):
    def append(file, line):
        if line.startswith("f:"):
            raise WriteError("no fprobes", None, "Invalid argument")
        with open(file, "a") as events:
            events.write(f"{line}\n")

    monkeypatch.setattr(probes, "_append", append)
    recorded(fake, output)
    lines = fake.dynamic_events()
    assert lines[1].startswith("r:") and "cpuidle_select ret=$retval:s32" in lines[1]
    assert fake.defined_probes() == set()


def test_appended_output_needs_no_seek(tmp_path):
    """tracefs does not allow seeking in dynamic_events, and neither does a pipe."""
    pipe = tmp_path / "dynamic_events"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    errors.write(pipe, "r:torpor_1/x y\n", os.O_APPEND)
    assert os.read(end, 64) == b"r:torpor_1/x y\n"
    os.close(end)


def test_impossible_probes_are_noted(fake, output):
    assert recorded(fake, output, has_probes=False).notes == []
    assert fake.dynamic_events() == []
    (fake.tracefs / "dynamic_events").unlink()
    assert recorded(fake, output).notes == ["no return probes: this kernel has no dynamic events"]


def test_missing_events_name_their_cost(fake, output):
    fake.drop_event("power:cpu_idle_miss")
    fake.drop_event("ipi:ipi_raise")
    fake.drop_event("sched:sched_blocked_reason")
    made = recorded(fake, output)
    assert len(made.notes) == 1
    assert made.notes[0].startswith("power:cpu_idle_miss: not in this kernel; the kernel's own")
    known = json.loads((output.parent / "rec.dat.machine.json").read_text())
    assert "ipi:ipi_raise" in known["missing_events"]


def test_without_cpu_idle_there_is_no_recording(fake, output):
    fake.drop_event("power:cpu_idle")
    with pytest.raises(RecordError, match=r"no tracepoint power:cpu_idle(.|\n)*hint: it requires"):
        recorded(fake, output)
    assert not output.exists() and fake.removed == {}


def test_without_tracefs_the_mount_command_is_shown(fake, output):
    (fake.root / "proc/self/mounts").write_text("proc /proc proc rw 0 0\n")
    with pytest.raises(RecordError, match=r"not mounted(.|\n)*mount -t tracefs"):
        recorded(fake, output)


def test_tracefs_below_debugfs_is_found(fake):
    (fake.root / "sys/kernel/debug/tracing").mkdir(parents=True)
    (fake.root / "proc/self/mounts").write_text("none /sys/kernel/debug debugfs rw 0 0\n")
    assert fake.machine.tracefs() == fake.root / "sys/kernel/debug/tracing"


def test_missing_permission_names_folder_and_capability(fake, output, monkeypatch):
    may = os.access
    monkeypatch.setattr(
        session.os, "access", lambda path, mode: "tracing" not in str(path) and may(path, mode)
    )
    with pytest.raises(RecordError, match=r"events` may not be read(.|\n)*sudo(.|\n)*CAP_PERFMON"):
        recorded(fake, output)


def test_refused_write_names_the_file_and_the_value(fake, output):
    fake.unwritable = "events/power/cpu_idle/enable"
    with pytest.raises(RecordError, match=r"write `1` to `.*/cpu_idle/enable`: Is a directory"):
        recorded(fake, output)
    assert fake.defined_probes() == set() and INSTANCE in fake.removed


def test_remains_of_a_killed_recorder_are_removed(fake, output):
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name in (f"torpor-{gone.pid}", "torpor-1", "others"):
        (fake.tracefs / "instances" / name).mkdir()
    left = f"f:torpor_{gone.pid}/x y%return\nf:torpor_1/x y%return\nf:kp/x y%return\n"
    (fake.tracefs / "dynamic_events").write_text(left)
    recorded(fake, output)
    assert sorted(p.name for p in (fake.tracefs / "instances").iterdir()) == ["others", "torpor-1"]
    assert fake.defined_probes() == {"torpor_1/x", "kp/x"}
    # The kernel removes no probe that an instance has enabled.
    assert fake.removed[f"torpor-{gone.pid}"]["probe"] == "there"


def test_leftovers_that_cannot_be_removed_are_left(fake, output, monkeypatch):
    gone = subprocess.Popen(["true"])
    gone.wait()
    (fake.tracefs / "dynamic_events").write_text(f"f:torpor_{gone.pid}/x y%return\n")

    def remove(file, event):
        raise WriteError("no", None, "Device or resource busy")

    with monkeypatch.context() as patched:
        patched.setattr(probes, "remove", remove)
        leftovers.remove(fake.tracefs)
    assert recorded(fake, output).status == 0


def test_a_failing_commands_status_and_recording_are_kept(fake, output):
    assert recorded(fake, output, "sh", "-c", "exit 3").status == 3
    assert output.exists()
    assert recorded(fake, output, "sh", "-c", "kill -9 $$").status == 128 + 9


def test_a_missing_command_stops_before_any_change(fake, output):
    with pytest.raises(RecordError, match="no command `no-such-command`"):
        recorded(fake, output, "no-such-command")
    assert fake.removed == {} and fake.dynamic_events() == []


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_a_signal_ends_the_recording_and_keeps_it(fake, output, name):
    began_s = time.monotonic()
    made = recorded(fake, output, "sh", "-c", f"kill -{name} $PPID; kill -{name} $PPID; sleep 30")
    assert made.stopped_by == signal.Signals[f"SIG{name}"] and made.status is None
    assert time.monotonic() - began_s < 20
    assert b"1" * PAGE_SIZE in output.read_bytes()
    assert fake.removed[INSTANCE]["tracing_on"] == "0" and fake.defined_probes() == set()


def test_a_refused_event_is_noted(fake, output):
    fake.unwritable = "events/ipi/ipi_raise/enable"
    assert recorded(fake, output).notes == ["ipi:ipi_raise cannot be recorded: Is a directory"]
    assert fake.removed[INSTANCE]["events/ipi/ipi_entry/enable"] == "1"


def test_signals_are_as_before_afterwards(fake, output):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
    before = [signal.getsignal(number) for number in numbers]
    recorded(fake, output, "sh", "-c", "kill -INT $PPID; sleep 30")
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_signal_is_noticed_whichever_thread_gets_it(fake, output):
    is_done = threading.Event()
    thread = threading.Thread(target=is_done.wait)
    thread.start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        assert recorded(fake, output, "sh", "-c", "kill -INT $PPID; sleep 30").stopped_by
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        is_done.set()
        thread.join()


def test_thread_may_record_and_sees_the_command_end(fake, output):
    made = []
    thread = threading.Thread(target=lambda: made.append(recorded(fake, output, "sleep", "0.1")))
    thread.start()
    thread.join(30)
    assert made and made[0].status == 0


def test_the_duration_ends_the_command(fake, output):
    began_s = time.monotonic()
    made = recorded(fake, output, "sleep", "30", duration_ns=200_000_000)
    assert made.status is None and made.stopped_by is None
    assert 0.2 <= made.duration_ns / 1e9 <= time.monotonic() - began_s < 20


def test_the_governor_is_switched_away_and_back(fake, output, monkeypatch):
    written = []
    monkeypatch.setattr(governor, "write", lambda path, value: written.append(value))
    monkeypatch.setattr(tracefs.Tracefs, "mark", lambda self, text: written.append(text))
    recorded(fake, output, resets_governor=True)
    # RESET is what the verification of a recording looks for.
    assert written == [
        "torpor: begin",
        "torpor: governor_reset_begin",
        "teo",
        "menu",
        "RESET",
        "torpor: end",
    ]
    window = json.loads((output.parent / "rec.dat.machine.json").read_text())["window"]
    assert window["governor"] == "menu"
    begin, end = window["governor_reset_begin_ns"], window["governor_reset_end_ns"]
    assert window["begin_ns"] <= begin <= end <= window["end_ns"]


def test_the_governor_is_restored_when_the_switch_fails(fake, output, monkeypatch):
    written = []

    def write(path, value):
        written.append(value)
        path.write_text(value)
        if value == "teo":
            raise RecordError("the write failed half way")

    monkeypatch.setattr(governor, "write", write)
    with pytest.raises(RecordError, match="half way"):
        recorded(fake, output, resets_governor=True)
    assert fake.governor.read_text() == "menu"
    assert fake.removed[INSTANCE]["tracing_on"] == "0" and fake.defined_probes() == set()


def test_an_unrestorable_governor_is_reported(fake, output, monkeypatch):
    def write(path, value):
        if value == "menu":
            raise RecordError("no")

    monkeypatch.setattr(governor, "write", write)
    with pytest.raises(RecordError, match=r"switched to `teo`(.|\n)*hint: as root: echo menu > "):
        recorded(fake, output, resets_governor=True)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("available_governors", "menu\n", "`menu` is the only one"),
        ("current_driver", "none\n", "no cpuidle driver"),
    ],
)
def test_an_impossible_reset_stops_before_recording(fake, output, file, text, message):
    (fake.governor.parent / file).write_text(text)
    with pytest.raises(RecordError, match=message):
        recorded(fake, output, resets_governor=True)
    assert fake.removed == {}
    recorded(fake, output)


def test_the_tick_rate_comes_from_the_first_configuration(fake):
    fake.put("boot/config-6.12.1-fake", "CONFIG_HZ=1000\n")
    assert tick_rate(fake.machine)[0] == 300
    (fake.root / "proc/config.gz").write_bytes(b"no gzip")
    assert tick_rate(fake.machine) == (1000, "/boot/config-6.12.1-fake")
    (fake.root / "boot/config-6.12.1-fake").unlink()
    assert tick_rate(fake.machine) == (None, None)


def test_unknown_tick_rate_and_driver_are_reported(fake, output):
    (fake.root / "proc/config.gz").unlink()
    (fake.governor.parent / "current_driver").write_text("none\n")
    notes = recorded(fake, output).notes
    assert any("tick rate is not known" in note for note in notes)
    assert any("no cpuidle driver" in note for note in notes)


def test_recorder_visits_cpus_and_restores_affinity(monkeypatch):
    allowed, ran, now_ns = os.sched_getaffinity(0), set(), time.monotonic_ns

    def watched_ns():
        with open("/proc/thread-self/stat") as stat:
            # Field 39, of which the first two precede the last parenthesis.
            ran.add(int(stat.read().rpartition(")")[2].split()[36]))
        return now_ns()

    monkeypatch.setattr(poke.time, "monotonic_ns", watched_ns)
    missing = max(allowed) + 1000
    assert poke.poke([*sorted(allowed), missing]) == [missing]
    assert os.sched_getaffinity(0) == allowed and ran == allowed
