# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Several recordings in one replay, and what ended the sleeps."""

import json
import math
import re
import struct

import pytest

import torpor
from torpor.cli import progress
from torpor.results import over_recordings as several
from valid import problems

GOVERNORS = ["menu", "teo"]


@pytest.fixture(scope="module")
def parts(recording, tmp_path_factory):
    """The demo in five parts, as recordings of their own."""
    folder = tmp_path_factory.mktemp("parts")
    whole = folder / "whole.txt"
    torpor.convert_trace(recording, whole)
    lines = whole.read_text().splitlines(keepends=True)
    head = [line for line in lines if line.startswith("#")]
    events = [line for line in lines if not line.startswith("#")]
    each = len(events) // 5
    paths = []
    for number in range(5):
        path = folder / f"part{number}.txt"
        path.write_text("".join([*head, *events[number * each : (number + 1) * each]]))
        paths.append(path)
    return paths


def test_recordings_are_draws(parts):
    result = torpor.replay(parts, platform="i5-10600k", governors=GOVERNORS)
    over = torpor.over_recordings(result)
    assert over["recordings"] == 5
    runs = [[t["runs"][g]["metrics"]["sleeps"] for t in result.to_dict()["traces"]] for g in (0, 1)]
    row = next(row for row in over["rows"] if row["key"] == "sleeps")
    menu, teo = row["cells"]
    mean = sum(runs[1]) / 5
    assert teo["mean"] == pytest.approx(mean)
    assert teo["spread"] == pytest.approx(math.sqrt(sum((x - mean) ** 2 for x in runs[1]) / 4))
    lower = sum(b < a for a, b in zip(*runs, strict=True))
    assert (teo["lower"], teo["lower"] + teo["higher"] + teo["alike"]) == (lower, 5)
    assert menu["sign_p"] is None
    compared = next(r for r in over["comparison"]["rows"] if r["key"] == "sleeps")["cells"][1]
    assert compared["change"]["pairs"] == 5 and compared["change"]["low"] is not None


def test_one_recording_is_no_draw(recording):
    one = torpor.replay(recording, platform="i5-10600k", governors=GOVERNORS)
    assert torpor.over_recordings(one) is None


@pytest.mark.parametrize("lower, higher, p", [(5, 0, 1 / 16), (9, 1, 22 / 1024), (4, 3, 1.0)])
def test_the_sign_test_is_the_binomial(lower, higher, p):
    assert several.sign_p(lower, higher) == pytest.approx(p)


def test_many_recordings_get_line_each_and_one_table(torpor, parts):
    done = torpor("replay", "-p", "i5-10600k", "-g", "menu", "-g", "teo", *parts, "-v", check=0)
    assert done.stdout.count("Over 5 recordings") == 1
    assert len(re.findall(r"in \d of 5 +0\.\d+$", done.stdout, re.M)) > 5
    assert done.stdout.count("part3.txt") == 2
    # A table each would show this six times.
    assert done.stdout.count("in deepest state") == 1
    page = parts[0].with_name("page.html")
    few = ("-g", "menu", "-g", "teo", *parts[:2], "--report", page)
    torpor("replay", "-p", "i5-10600k", *few, check=0)
    assert "Over 2 recordings" in page.read_text()


def test_progress_counts_the_recordings():
    calls = []
    tell = progress.of_several(["a.dat", "b/a.dat"], lambda *what: calls.append(what))
    tell("reading b/a.dat, MiB", 1, 2)
    tell("a.dat", 3, 4)
    tell("summing up", 5, 6)
    assert [what for what, *_ in calls] == [
        *("2 of 2: reading b/a.dat, MiB", "1 of 2: a.dat", "summing up"),
    ]


@pytest.mark.parametrize("by", ["task", "irq", "timer"])
def test_every_sleep_is_laid_to_somebody(recording, by):
    result = torpor.replay(recording, platform="i5-10600k", governors=GOVERNORS, by=by)
    data = result.to_dict()
    assert problems(data) == []
    (trace,) = data["traces"]
    for run in trace["runs"]:
        causes = [c for c in trace["causes"] if c["governor"] == run["governor"]]
        states = [s for c in run["clusters"] for s in c["states"]]
        for key, of in (("sleeps", "usage"), ("above", "above"), ("below", "below")):
            assert sum(c[key] for c in causes) == sum(s[of] for s in states)
        woken = sum(c["woken"] for c in causes)
        mean_us = sum(c["latency_ns"] for c in causes) / woken / 1e3
        assert mean_us == pytest.approx(run["metrics"]["latency_mean_us"], rel=1e-3)
        ticks = sum(c["sleeps"] for c in causes if c["name"] == "the governor's tick")
        assert ticks == run["metrics"]["tick_wakeups"]
        wrong = [c["above"] + c["below"] for c in causes]
        assert wrong == sorted(wrong, reverse=True)
    assert result.table("causes").num_rows == len(trace["causes"])


def test_tasks_ran_in_the_recording(recording):
    result = torpor.replay(recording, platform="i5-10600k", governors="shallowest", by="task")
    causes = result.to_dict()["traces"][0]["causes"]
    named = {c["name"]: c["woken"] for c in causes if c["kind"] == "task"}
    recorded = {t["comm"]: t["wakeups"] for t in torpor.trace_stats(recording)["tasks"]}
    assert set(named) <= set(recorded)
    # Sleeps that the tick separated are one idleness in a replay, ended by the last.
    assert named["nginx"] == pytest.approx(recorded["nginx"], rel=0.15)


def test_waker_is_in_table_and_page(torpor, recording, tmp_path):
    asked = ("replay", "-p", "i5-10600k", "-g", "menu", "-g", "teo", "--by", "task", recording)
    text = torpor(*asked, "--report", "r.html", check=0).stdout
    assert re.search(r"^ *(task +)?nginx +\d+ +\d+ +\d+", text, re.M)
    page = (tmp_path / "r.html").read_text()
    assert "What ended the sleeps" in page and "nginx" in page
    # Nobody asked, nothing is said.
    plain = json.loads(
        torpor("replay", "-p", "pixel6", recording, "--format", "json", check=0).stdout
    )
    assert "causes" not in plain["traces"][0]


def fields(data):
    """The fields of a protobuf message: (number, value)."""
    at, found = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
        elif key & 7 == 2:
            size = varint()
            found.append((key >> 3, data[at : at + size]))
            at += size
        else:
            size = {1: 8, 5: 4}[key & 7]
            found.append((key >> 3, struct.unpack("<Q", data[at : at + size].ljust(8, b"\0"))[0]))
            at += size
    return found


@pytest.mark.parametrize("is_perfetto", [False, True])
def test_choices_are_tracks_beside_the_recording(recording, tmp_path, is_perfetto):
    if is_perfetto:
        torpor.convert_trace(recording, tmp_path / "own.perfetto-trace")
        recording = tmp_path / "own.perfetto-trace"
    out = tmp_path / "out.perfetto-trace"
    result = torpor.replay(recording, platform="i5-10600k", governors=["teo", "oracle"])
    result.write_trace(out)
    if is_perfetto:
        assert out.read_bytes().startswith(recording.read_bytes())
    packets = [dict(fields(packet)) for _, packet in fields(out.read_bytes())]
    tracks = [dict(fields(p[60])) for p in packets if 60 in p]
    names = [track[2].decode() for track in tracks]
    assert names == ["torpor: teo", "CPU 0", "torpor: oracle", "CPU 0"]
    assert tracks[1][5] == tracks[0][1] and tracks[3][5] == tracks[2][1]
    events = [(p[8], dict(fields(p[11]))) for p in packets if 11 in p]
    of_teo = [(at, event) for at, event in events if event[11] == tracks[1][1]]
    begun = [event[23].decode() for _, event in of_teo if event[9] == 1]
    assert len(begun) * 2 == len(of_teo)
    times = [at for at, _ in of_teo]
    assert times == sorted(times)
    run = result.to_dict()["traces"][0]["runs"][0]
    states = run["clusters"][0]["states"]
    assert sum("too deep" in name for name in begun) == sum(s["above"] for s in states)
    assert sum("too shallow" in name for name in begun) == sum(s["below"] for s in states)
    assert sum(name.startswith("3 C3_ACPI") for name in begun) == states[3]["usage"]
    assert any(name.startswith("latency ") for name in begun)
    # Torpor reads it as the recording it is.
    again = torpor.trace_info(out)
    assert (
        again["event_counts"]["cpu_idle"]
        == torpor.trace_info(recording)["event_counts"]["cpu_idle"]
    )


def test_tracks_need_one_recording(recording, tmp_path):
    two = torpor.replay([recording] * 2, platform="pixel6", governors="menu")
    with pytest.raises(torpor.EngineError, match="this replay has 2"):
        two.write_trace(tmp_path / "x")
