# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor fidelity`. What it finds is tested in the engine; here: texts, JSON, dumps, status."""

import json
import re
import shutil
from pathlib import Path

import pytest

import torpor as library

GUEST = Path(__file__).parents[1] / "data/guest/arm64-6.12-menu-rates/trace.dat.gz"


def words(text):
    """Join what a terminal has folded."""
    return " ".join(text.split())


def test_the_dump_beside_the_recording_is_the_machine(torpor, guest):
    done = torpor("fidelity", guest / "trace.dat", check=0)
    assert "Verified: menu-6.12 reproduces all 501 decisions" in words(done.stdout)
    assert "a wrong governor, teo-6.12, 68.46 %" in words(done.stdout)
    assert "501 decisions" in done.stdout
    assert "first disagreements" not in done.stdout
    assert "Assumptions" not in done.stdout


def test_without_probes_assumptions_are_listed(torpor, guest):
    done = torpor("fidelity", guest / "trace.dat", "--without-probes", "-v", check=0)
    assert "Verified: menu-6.12 reproduces 99.20 % of 501" in words(done.stdout)
    assert re.search(r"^\d+\.\d{9} +\d +C6 +C3 +[\d.]+ [mµ]s", done.stdout, re.M)
    chosen = [line for line in done.stdout.splitlines() if line.endswith("chosen")]
    assert len(chosen) == 1 and "497" in chosen[0]
    assert "fitted to this recording" in done.stdout


def test_json_is_the_whole_result_and_the_librarys(torpor, guest):
    printed = json.loads(
        torpor("fidelity", guest / "trace.dat", "--format", "json", check=0).stdout
    )
    assert printed == library.fidelity(guest / "trace.dat")
    assert printed["governors"][0]["agreement"] == 1
    assert sum(c["count"] for c in printed["governors"][0]["confusion"]) == 501


def test_a_named_governor_is_tried_beside_the_others(torpor, guest):
    done = torpor("fidelity", guest / "trace.dat", "-g", "menu-6.12", "--format", "json", check=0)
    governors = json.loads(done.stdout)["governors"]
    named = [g["governor"] for g in governors if g["named"]]
    assert named == ["menu-6.12"]
    assert len({g["governor"] for g in governors}) == len(governors) > 5


def test_too_little_agreement_is_a_finding(torpor, guest):
    args = ("fidelity", guest / "trace.dat", "--without-probes", "--at-least")
    torpor(*args, "99", check=0)
    torpor(*args, "99.9", check=1)


def test_dumps_are_found_as_the_recorder_names_them(torpor, guest, tmp_path):
    shutil.copy(guest / "trace.dat", tmp_path / "mine.dat")
    for when in ("before", "after"):
        shutil.copy(guest / f"sysfs-{when}.txt", tmp_path / f"mine.dat.{when}.txt")
    assert "Verified: menu-6.12" in words(torpor("fidelity", "mine.dat", check=0).stdout)


def test_a_replay_carries_the_recorded_agreement(torpor, guest):
    trace, machine = guest / "trace.dat", guest / "sysfs-before.txt"
    args = ("replay", trace, "-p", machine, "-g", "menu", "-v")
    named, found = (torpor(*args, *more, check=0) for more in (["--recorded-on", machine], []))
    text = words(named.stdout)
    assert "menu-6.12 reproduces 98.40 % of 501 decisions" in text
    assert "a wrong governor, teo-6.12, 68.46 %" in text
    assert words(found.stdout) == text


def test_a_saved_dump_names_the_machine(torpor, guest):
    trace, machine = guest / "trace.dat", guest / "sysfs-before.txt"
    named, found = (
        json.loads(torpor("replay", trace, "-g", "menu", "--format", "json", *more, check=0).stdout)
        for more in (["-p", machine], [])
    )
    assert found["platform"] == named["platform"]
    assert found["traces"] == named["traces"]


def test_unnamed_machine_asks_for_a_platform(torpor, recording):
    done = torpor("fidelity", recording, check=2)
    assert "no dump of its sysfs next to it" in done.stderr
    assert "hint: `torpor platform list` lists machines" in done.stderr


def test_a_recording_without_a_governor_agrees_with_none(torpor, recording):
    # The demo's kernel halted without asking anybody; see demo/README.md.
    done = torpor("fidelity", recording, "-p", "i5-10600k", "--format", "json", check=1)
    result = json.loads(done.stdout)
    assert result["decisions"]["compared"] > 7_000
    assert result["verdict"]["agreement"] < 1
    assert result["decisions"]["commonest"] == result["decisions"]["compared"]
    assert not result["verdict"]["is_verified"]
    done = torpor("fidelity", recording, "-p", "i5-10600k", check=1)
    assert "All decisions are for one state" in done.stdout


def test_counters_take_both_dumps(recording):
    with pytest.raises(library.TorporError, match="before and one from after"):
        library.fidelity(recording, platform="i5-10600k", before="a.txt")


def test_without_timers_outcomes_are_verified(torpor, guest, tmp_path):
    text = tmp_path / "trace.txt"
    library.convert_trace(guest / "trace.dat", text)
    kept = [line for line in text.read_text().splitlines() if line[:1] == "#" or "cpu_idle" in line]
    text.write_text("\n".join(kept) + "\n")
    for dump in guest.glob("sysfs-*.txt"):
        shutil.copy(dump, tmp_path)
    found = library.fidelity(text)
    assert found["kind"] == "outcomes"
    assert found["lacks"][0] == "sched:sched_switch"
    # The dumps were taken right before and after; what they say of a state is the kernel's.
    assert found["verdict_source"] == "cpu_idle_miss"
    misses = [(s["above"], s["below"]) for s in found["states"]]
    whole = library.fidelity(guest / "trace.dat")["counters"]
    expected = {s: [0, 0] for s in {c["state"] for c in whole}}
    for counter in whole:
        expected[counter["state"]][0] += counter["miss_above"]
        expected[counter["state"]][1] += counter["miss_below"]
    assert misses == [tuple(expected[s["state"]]) for s in found["states"]]
    assert any(above + below for above, below in misses)
    done = torpor("fidelity", text, check=0)
    assert "no decision can be rebuilt" in done.stdout
    assert "sysfs" in done.stdout
    assert "This cannot show: which governor decided" in library.explain(found)[-1]
    # Nothing has shown that a governor reaches it.
    assert torpor("fidelity", text, "--at-least", 50).returncode == 1


def _sleeps(path, count, state):
    """Write a text with so many sleeps, and no timers or switches."""
    pair = (
        "  <idle>-0  [000] d..2  {0}.000000: cpu_idle: state={1} cpu_id=0\n"
        "  <idle>-0  [000] d..2  {0}.500000: cpu_idle: state=4294967295 cpu_id=0\n"
    )
    frequency = "  <idle>-0  [000] d..2  0.5: cpu_frequency: state=1000000 cpu_id=0\n"
    frequency = frequency.replace("0.5:", "0.500000:")
    path.write_text(frequency + "".join(pair.format(n + 1, state) for n in range(count)))
    return path


def test_a_recording_without_sleeps_is_refused(torpor, tmp_path):
    done = torpor("fidelity", _sleeps(tmp_path / "none.txt", 0, 0), "-p", "pixel6", check=2)
    assert "it has no whole sleep" in done.stderr
    assert "hint: record power:cpu_idle" in done.stderr


def test_a_state_that_the_machine_lacks_is_refused(torpor, tmp_path):
    done = torpor("fidelity", _sleeps(tmp_path / "deep.txt", 3, 7), "-p", "pixel6", check=2)
    assert "CPU 0 enters state 7, which platform `pixel6` does not have" in done.stderr
    torpor("fidelity", _sleeps(tmp_path / "c2.txt", 3, 1), "-p", "pixel6", check=0)


@pytest.mark.parametrize(("machine", "status"), [("pixel6", 0), ("i5-10600k", 1)])
def test_only_the_recorded_machine_is_verified(torpor, machine, status, tmp_path):
    file, page = tmp_path / "replay.json", tmp_path / "page.html"
    args = ["replay", GUEST, "-p", "pixel6", "-g", "menu-6.12", "--recorded-on", machine]
    text = torpor(*args, "--report", page, "-v", check=status).stdout
    brief = torpor(*args, check=status).stdout
    file.write_text(torpor(*args, "--format", "json", check=status).stdout, "utf-8")
    asks = f"NOT verified: is {machine} the recorded machine?"
    posted = torpor(*args, "--format", "markdown", check=status).stdout
    said = [brief, page.read_text("utf-8"), posted, torpor("compare", file, file, check=0).stdout]
    assert [asks in words(each) for each in said] == [bool(status)] * 4
    assert ("Verified: menu-6.12 reproduces all" in words(text)) == (not status)
    verdict = json.loads(file.read_text("utf-8"))["traces"][0]["agreement"]["verdict"]
    assert verdict["is_verified"] == (not status)
    explained = torpor("show", file, check=0).stdout
    assert ("of whose decisions no governor" in explained) == bool(status)


def test_a_machine_of_another_recording_is_dropped(torpor, tmp_path):
    # The dump has one CPU and two states. What is found is no error; what is named is.
    recording = tmp_path / "mix.dat.gz"
    shutil.copy(GUEST.parents[1] / "amd64-6.12-menu-mix" / "trace.dat.gz", recording)
    for when in ("before", "after"):
        dump = GUEST.with_name(f"sysfs-{when}.txt")
        shutil.copy(dump, tmp_path / f"mix.dat.gz.{when}.txt")
    args = ["replay", recording, "-p", "pixel6", "-g", "menu"]
    found = json.loads(torpor(*args, "--format", "json", check=0).stdout)
    assert found["traces"][0]["inputs"]["recorded_on"] is None
    torpor(*args, "--recorded-on", tmp_path / "mix.dat.gz.before.txt", check=2)


@pytest.mark.parametrize(("machine", "status"), [("pixel6", 0), ("apple-m1", 1)])
def test_fidelity_of_another_machine_is_a_finding(torpor, machine, status, tmp_path):
    done = torpor("fidelity", GUEST, "-p", machine, check=status)
    asks = f"NOT verified: is {machine} the recorded machine?"
    assert (asks in words(done.stdout)) == bool(status)
    file = tmp_path / "fidelity.json"
    file.write_text(
        torpor("fidelity", GUEST, "-p", machine, "--format", "json", check=status).stdout, "utf-8"
    )
    assert (asks in words(torpor("show", file, check=0).stdout)) == bool(status)
    assert library.load(file).is_verified == (not status)
