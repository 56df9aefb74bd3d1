# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The library does what the command line does on a machine; a fake one, here."""

import inspect
import sys

import pytest

import torpor
import torpor_lab


@pytest.fixture
def root(fake):
    """The CPUs of a machine made of files, whose states have been entered 17 times."""
    return fake.root / "sys" / "devices" / "system" / "cpu"


def test_each_interval_and_the_total_are_results(root):
    state = root / "cpu0" / "cpuidle" / "state1"
    before = int((state / "usage").read_text())
    counted = torpor.stat(interval="1ms", count=2, root=root)
    found = []
    for result in counted:
        found.append(result)
        (state / "usage").write_text(f"{before + 5 * len(found)}\n")
    usages = [r["groups"][0]["columns"][0]["states"][1]["usage"] for r in (*found, counted.total())]
    assert usages == [0, 5, 10]
    assert counted.wait() == 0


def test_command_has_its_status_and_only_a_total(root):
    counted = torpor.stat([sys.executable, "-c", "raise SystemExit(3)"], root=root)
    assert list(counted) == [] and counted.wait() == 3
    assert counted.total()["intervals"][0]["label"] == "total"
    with pytest.raises(torpor.TorporError, match="cannot be run"):
        torpor.stat(["/no/such/program"], root=root)


def test_sleeps_wait_for_their_time():
    done = torpor.idle_predict("30ms", threads=1, loop=3, delay="1ms")
    assert done["elapsed_ns"] >= 30_000_000 and done["delays"]["count"] >= 1


def test_recording_is_overwritten_only_on_request(tmp_path):
    file = tmp_path / "mine.trace"
    file.write_text("")
    with pytest.raises(torpor.TorporError, match="exists"):
        torpor.record_trace(file)


def test_a_figure_has_one_group():
    with pytest.raises(ValueError, match="0 groups"):
        torpor.ab(["true"], governors=["menu"], metric="x")


def test_the_library_has_every_option_of_the_command():
    """Commands whose call has keywords of its own; options of the others are one declaration."""
    from torpor.cli import ab, record, stat

    renamed = {"no_probes": "probes"}
    only_typed = {"form", "report", "is_dry_run", "force", "recipe"}
    for command, call in (
        (ab.ab, torpor.ab),
        (record.record, torpor.record_trace),
        (stat.stat, torpor.stat),
    ):
        typed = set(inspect.signature(command).parameters) - only_typed
        called = set(inspect.signature(call).parameters)
        assert {renamed.get(name, name) for name in typed} <= called


def test_recorded_sleeps_equal_the_statistics(recording):
    sleeps = torpor.trace_sleeps(recording)
    stats = torpor.trace_stats(recording)
    assert sleeps.num_rows == stats["sleeps"]
    columns = sleeps.to_dict()
    for state in stats["states"]:
        rows = [
            residency
            for cpu, index, residency in zip(
                columns["cpu"], columns["state"], columns["residency_ns"], strict=True
            )
            if (cpu, index) == (state["cpu"], state["state"])
        ]
        assert (len(rows), sum(rows)) == (state["usage"], state["time_ns"])
    ended = list(zip(columns["kind"], columns["name"], strict=True))
    for wakeup in stats["wakeups"]:
        assert ended.count((wakeup["kind"], wakeup["name"] or None)) == wakeup["count"]
    assert columns["time_ns"] == sorted(columns["time_ns"])
    assert sleeps.units == {"time_ns": "ns", "residency_ns": "ns", "latency_ns": "ns"}


def test_results_show_themselves_and_explain_their_columns(recording, tmp_path):
    info = torpor.trace_info(recording)
    assert repr(info).startswith(f"<torpor.trace_info of {recording}>")
    assert "10.00" in info._repr_html_() and info["cpu_count"] == 2
    stats = torpor.trace_stats(recording, platform="i5-10600k")
    assert repr(stats) == f"<torpor.Record of {recording}: what the machine did>"
    shown = stats._repr_html_()
    assert "What ended sleeps" in shown and shown.count("<table ") == shown.count("</table>") >= 4
    study = torpor_lab.reproduce("i5-10600k-idle", duration="100ms", seeds=1)
    assert study.right["sign"][1] == 5 and study.failures == []
    stats_file = tmp_path / "study.json"
    stats_file.write_text(study.to_json())
    assert type(torpor.load(stats_file)) is torpor_lab.Reproduction
    for shown_by in (torpor.Replay, torpor.Simulation, torpor.Fidelity):
        assert "Columns, with what a row is of" in shown_by.__doc__
    assert "time_ns (ns)" in torpor.Replay.__doc__ and "seed (int)" in torpor.Simulation.__doc__
