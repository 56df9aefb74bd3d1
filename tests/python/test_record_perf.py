# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The perf backend against a stand-in for perf, and the choice between the backends."""

import os
import sys

import pytest

from torpor.machine.record import Plan, RecordError, perf, record

#: Does what `perf record` does with its pipes and signals; the braces are filled in by a test.
STAND_IN = """\
#!{python}
import os, signal, sys
option = dict(zip(sys.argv, sys.argv[1:]))
commands, answers = map(int, option["--control"].removeprefix("fd:").split(","))
{before}
def finish(*_):
    with open(option["--output"], "w") as file:
        file.write("\\n".join(sys.argv[1:]))
    sys.exit({at_end!r})
signal.signal(signal.SIGINT, finish)
assert os.read(commands, 64) == b"enable\\n"
os.write(answers, b"ack\\n")
{after}
# Ends early, as perf does, when nobody can tell it anything any more.
os.read(commands, 64)
sys.exit("no more commands")
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    def put(before="", after="", at_end="[ perf record: Captured and wrote 1 MB ]"):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        script = folder / "perf"
        texts = {"before": before, "after": after, "at_end": at_end}
        script.write_text(STAND_IN.format(python=sys.executable, **texts))
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return put


@pytest.fixture
def output(tmp_path):
    return tmp_path / "rec.perf.data"


def recorded(fake, output, *command):
    return record(Plan(output, command or ("true",), backend="perf"), fake.machine)


def test_perf_records_all_cpus_in_the_timers_clock(fake, output, stand_in):
    stand_in()
    made = recorded(fake, output)
    asked = output.read_text().splitlines()
    assert asked[:4] == ["record", "--all-cpus", "--clockid", "CLOCK_MONOTONIC"]
    events = asked[asked.index("--event") + 1].split(",")
    assert events[0] == "power:cpu_idle" and "irq_vectors:irq_work_entry" in events
    # The kernel refuses it to perf, and perf then refuses everything.
    assert "irq_vectors:irq_work_exit" not in events
    assert [e.partition(":")[2] for e in events if e.startswith("torpor_")] == [
        "tick_nohz_get_sleep_length",
        "cpuidle_select",
        "rcu_needs_cpu",
    ]
    assert made.notes == [] and fake.defined_probes() == set()
    # perf.data has no symbols of its own; data is of no use in naming functions.
    symbols = output.with_name("rec.perf.data.kallsyms").read_text()
    assert symbols == "ffffffff81000000 T tick_nohz_handler\n"


def test_hidden_symbols_are_not_saved(fake, output, stand_in):
    stand_in()
    fake.put("proc/kallsyms", "0000000000000000 T tick_nohz_handler\n")
    assert not any(file.suffix == ".kallsyms" for file in recorded(fake, output).beside)


def test_perfs_own_error_is_shown(fake, output, stand_in):
    stand_in(before="sys.exit('event syntax error: unknown tracepoint')")
    with pytest.raises(RecordError, match=r"status 1:\n  event syntax error(.|\n)*hint"):
        recorded(fake, output)
    assert fake.defined_probes() == set()


def test_dying_perf_ends_the_recording(fake, output, stand_in):
    stand_in(after="sys.exit('no space left on device')")
    with pytest.raises(RecordError, match="no space left on device"):
        recorded(fake, output, "sleep", "5")
    assert fake.defined_probes() == set()


def test_perf_without_last_line_is_refused(fake, output, stand_in):
    output.write_text("an earlier one")
    stand_in(at_end="Thread and evlist pollfd index mismatch")
    with pytest.raises(RecordError, match="index mismatch"):
        recorded(fake, output)
    assert output.read_text() == "an earlier one"
    assert [path.name for path in output.parent.glob(".torpor-*")] == []


def test_ctrl_c_on_terminal_leaves_perf_to_session(fake, output, stand_in):
    """A group of its own: the terminal's SIGINT would end perf before the last CPU is woken."""
    stand_in(after="assert os.getpgid(0) == os.getpid() != os.getpgid(os.getppid())")
    made = recorded(fake, output, "sh", "-c", "kill -INT $PPID; sleep 30")
    assert made.stopped_by is not None and output.exists()


def test_auto_uses_perf_where_tracefs_is_read_only(fake, output, stand_in, monkeypatch):
    stand_in()
    plan = Plan(output, ("true",))
    assert record(plan, fake.machine).backend == "tracefs"
    (fake.tracefs / "instances").rmdir()
    assert record(plan, fake.machine).backend == "perf"


def test_without_both_backends_both_reasons_are_shown(fake, output, monkeypatch):
    (fake.tracefs / "instances").rmdir()
    monkeypatch.setattr(perf.shutil, "which", lambda name: None if name == "perf" else name)
    with pytest.raises(RecordError, match=r"instances` is missing(.|\n)*perf is not installed"):
        record(Plan(output, ("true",)), fake.machine)
    with pytest.raises(RecordError, match=r"^perf is not installed\nhint: packages: linux-perf"):
        record(Plan(output, ("true",), backend="perf"), fake.machine)
