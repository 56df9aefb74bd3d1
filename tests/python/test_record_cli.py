# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor record` as typed, up to where the machine would be touched; and what it prints."""

import re
import subprocess

import pytest

from torpor.cli.record import Recipe
from torpor.machine.record import recipes
from torpor.machine.record.events import CPU_IDLE, NOT_FOR_PERF, everything


def test_a_recording_is_not_overwritten_by_accident(torpor, tmp_path):
    (tmp_path / "a.dat").write_text("precious")
    done = torpor("record", "-o", "a.dat", "--duration", "1s", check=2)
    assert "`a.dat` exists\nhint: choose another file, or use --force" in done.stderr
    assert (tmp_path / "a.dat").read_text() == "precious"


def test_missing_folder_is_reported(torpor):
    assert "there is no folder `no`" in torpor("record", "-o", "no/a.dat", check=2).stderr


def test_missing_command_is_reported(torpor, tmp_path):
    done = torpor("record", "--", "no-such-command", "--force", check=2)
    assert "no command `no-such-command` to run" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_bare_number_is_no_duration(torpor):
    assert "`10`" in torpor("record", "--duration", "10", check=2).stderr


def test_every_recipe_can_be_printed(torpor):
    assert {recipe.value for recipe in Recipe} == set(recipes.RECIPES)
    for recipe in Recipe:
        text = torpor("record", "--print", recipe.value, "--duration", "7s", check=0).stdout
        assert text == recipes.RECIPES[recipe.value](7)


@pytest.mark.parametrize("name", ["perf", "trace-cmd", "tracefs"])
def test_scripts_are_sh_and_ask_for_every_event(name):
    script = recipes.RECIPES[name](7)
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    words = set(script.split())
    expected = set(everything()) - (NOT_FOR_PERF if name == "perf" else set())
    assert expected <= words and "sleep 7;" in script
    assert not (name == "perf" and NOT_FOR_PERF & words)


def test_the_perfetto_configuration_is_well_formed():
    text = recipes.perfetto(7)
    assert text.count("{") == text.count("}")
    events = re.findall(r'^ +ftrace_events: "(.*)"$', text, re.M)
    assert events[0] == CPU_IDLE.replace(":", "/") and len(events) == len(everything())
    assert "duration_ms: 7000\n" in text


def test_no_event_is_requested_twice():
    assert len(set(everything())) == len(everything())


def test_driver_rejections_are_reported(tmp_path):
    from types import SimpleNamespace

    from torpor.cli import record as command
    from torpor.machine import cstate_counters as residency

    def dump(name, usage, rejected):
        state = "/sys/devices/system/cpu/cpu0/cpuidle/state"
        facts = {"name": "C6", "latency": 100, "residency": 300, "usage": usage, "time": usage * 9}
        facts |= {"above": 0, "below": 0, "rejected": rejected}
        path = tmp_path / f"t.dat.{name}.txt"
        path.write_text("".join(f"{state}0/{key}:{value}\n" for key, value in facts.items()))
        return path

    files = [dump("before", 100, 7), dump("after", 1_400, 36), tmp_path / "t.dat.machine.json"]
    made = SimpleNamespace(beside=files)
    nothing = residency.Got({}, {}, None)
    assert command._counted(made, nothing) == [
        "note: the driver rejected 29 entries into state 0 C6 of 1,300 (no event shows them)"
    ]
    made.beside = [dump("before", 100, 7), dump("after", 200, 7)]
    assert command._counted(made, nothing) == []
    # The dumps have no clock, and all idle time is C6's.
    hardware = residency.Got({0: {"CPU%c6": 25.0}}, {}, None)
    assert command._counted(made, hardware) == [
        "note: CPU%c6: requested 100.00% of idle time (C6), got 25.00%"
    ]
    # A machine without counters reports nothing.
    made.beside = []
    assert command._counted(made, nothing) == []


def test_recorder_overhead_is_reported():
    from pathlib import Path
    from types import SimpleNamespace

    from torpor.cli import record as command

    demo = Path("demo/web-server.perf.data")
    made = SimpleNamespace(
        output=demo,
        duration_ns=10_000_000_000,
        own_cpu_ns=30_000_000,
        recorder_cpu_ns=None,
        backend="tracefs",
    )
    (note,) = command._overhead(made)
    assert note == "note: the recorder took CPU time: torpor 30 ms (0.30 % of one CPU)"
    # A task of the recording in the recorder's place.
    from torpor import trace_stats

    task = trace_stats(demo)["tasks"][0]
    made.recorder_cpu_ns, made.backend = 20_000_000, task["comm"]
    (note,) = command._overhead(made)
    assert "20 ms, its start and end included (0.50 % of one CPU)" in note
    assert f"{task['comm']} ended {task['wakeups']:,} sleeps" in note
