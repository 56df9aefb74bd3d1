# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor trace stats`: what a recorded machine did, held against what else counted it."""

import json
from pathlib import Path

import pytest

import torpor as library

ROOT = Path(__file__).parents[2]
GUEST = ROOT / "tests" / "data" / "guest" / "amd64-6.12-menu-mix" / "trace.dat.gz"
FIELD = ROOT.parent / "shared" / "field" / "mt8196"


def test_states_match_trace_info(recording):
    stats = library.trace_stats(recording)
    counted = {(s["cpu"], s["state"]): (s["usage"], s["time_ns"]) for s in stats["states"]}
    info = library.trace_info(recording)
    expected = {
        (cpu["cpu"], state["index"]): (state["usage"], state["time_ns"])
        for cpu in info["cpus"]
        for state in cpu["states"]
    }
    assert counted == expected
    # Nobody named the machine, and the recording has no verdicts.
    assert {(s["above"], s["name"]) for s in stats["states"]} == {(None, None)}


def test_every_sleep_has_one_cause(recording):
    stats = library.trace_stats(recording, platform="i5-10600k")
    assert sum(w["count"] for w in stats["wakeups"]) == stats["sleeps"]
    assert sum(w["slept_ns"] for w in stats["wakeups"]) == sum(
        s["time_ns"] for s in stats["states"]
    )
    for key in ("above", "below"):
        assert sum(w[key] for w in stats["wakeups"]) == sum(s[key] for s in stats["states"])
    assert sum(t["wakeups"] for t in stats["tasks"]) <= stats["sleeps"]


def test_a_guests_recording_counts_as_its_sysfs_did():
    stats = library.trace_stats(GUEST)
    # Its dumps lie next to it, and so the states have names.
    assert {s["name"] for s in stats["states"]} >= {"C1", "C6"}
    fidelity = library.fidelity(GUEST)
    counters = {(c["cpu"], c["state"]): c for c in fidelity["counters"]}
    assert {(s["cpu"], s["state"]) for s in stats["states"]} <= set(counters)
    for state in stats["states"]:
        counter = counters[state["cpu"], state["state"]]
        assert (state["above"], state["below"]) == (counter["miss_above"], counter["miss_below"])
        assert state["rejected"] == counter["sysfs"]["rejected"] == 0


def test_tables_are_columns_with_units(recording):
    stats = library.trace_stats(recording)
    assert stats.tables == ["states", "wakeups", "tasks", "interrupts", "latency"]
    wakeups = stats.table("wakeups")
    assert wakeups.column_names == ["kind", "name", "count", "slept_ns", "above", "below"]
    assert wakeups.num_rows == len(stats["wakeups"])


def test_written_file_reads_back(torpor, recording, tmp_path):
    text = torpor("trace", "stats", recording, "--format", "json", check=0).stdout
    (tmp_path / "stats.json").write_text(text)
    assert library.load(tmp_path / "stats.json") == library.trace_stats(recording)
    assert json.loads(text)["kind"] == "trace_stats"


def test_top_bounds_the_rows_and_says_so(torpor, recording):
    shown = torpor("trace", "stats", recording, "--top", "1", check=0).stdout
    assert "more (--top)" in shown
    assert "nginx" in shown and "tokio-rt-worker" not in shown
    assert "tokio-rt-worker" in torpor("trace", "stats", recording, check=0).stdout


def test_one_dump_is_not_enough(torpor, recording):
    done = torpor("trace", "stats", recording, "--before", "x.txt", check=2)
    assert "one from after" in done.stderr


@pytest.mark.skipif(not FIELD.is_dir(), reason="not run, because ../shared/field is not there")
@pytest.mark.parametrize("name", ["mainline-tick-wakeups", "6.12-sleep-length"])
def test_a_mailed_recording_has_events_and_rejections(name):
    stats = library.trace_stats(FIELD / f"{name}.dat")
    diff = library.diff(FIELD / f"{name}.before.txt", FIELD / f"{name}.after.txt")
    totals = [group["columns"][0]["total"] for group in diff["groups"]]
    # The dumps were taken some time before and after.
    for key in ("above", "below"):
        assert sum(s[key] for s in stats["states"]) <= sum(total[key] for total in totals)
    assert sum(s["rejected"] for s in stats["states"]) == sum(t["rejected"] for t in totals)
    verdicts = stats["verdicts"]
    assert verdicts["compared"] == stats["sleeps"] - verdicts["rejected"]
    assert verdicts["agreeing"] > 0.99 * verdicts["compared"]
    misses = sum(s["above"] + s["below"] for s in stats["states"])
    assert misses == stats["trace"]["event_counts"]["cpu_idle_miss"]


def test_page_and_tables_agree(torpor, recording, tmp_path):
    done = torpor(
        *("trace", "stats", recording, "-p", "i5-10600k", "--report", "page.html"), check=0
    )
    assert "report: page.html" in done.stderr
    page = (tmp_path / "page.html").read_text()
    stats = library.trace_stats(recording, platform="i5-10600k")
    for words in ("Where the time went", "What ended sleeps", "nginx", str(stats["sleeps"])):
        assert words in page
    fetched = page.replace("http-equiv", "").replace('value="https://ui.perfetto.dev"', "")
    assert "src=" not in page and "http" not in fetched
    missing = torpor("trace", "stats", recording, "--report", "none/page.html", check=2)
    assert "there is no folder" in missing.stderr


def test_a_recording_without_sleeps_says_so(torpor, tmp_path):
    line = "  a-1  [000] d..2.  4.100000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 "
    line += "prev_state=S ==> next_comm=b next_pid=2 next_prio=120\n"
    (tmp_path / "awake.txt").write_text(line * 3)
    stats = torpor("trace", "stats", "awake.txt", check=0)
    assert "no sleeps: the recording has 0 cpu_idle events" in stats.stdout
    replayed = torpor("replay", "-p", "pixel6", "awake.txt", check=2)
    assert "0 cpu_idle events" in replayed.stderr


@pytest.mark.parametrize("name, head", [("out.perfetto-trace", b"\n"), ("out.txt", b"# tracer")])
def test_a_recording_is_written_anew(torpor, recording, tmp_path, name, head):
    written = tmp_path / name
    assert f"trace: {written}" in torpor("trace", "convert", recording, written, check=0).stderr
    assert written.read_bytes().startswith(head)
    old, new = (library.trace_stats(path) for path in (recording, written))
    assert [s["usage"] for s in old["states"]] == [s["usage"] for s in new["states"]]
