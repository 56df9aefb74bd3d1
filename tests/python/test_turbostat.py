# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Logs of turbostat as counters."""

import re

import pytest

import torpor
from valid import problems

torpor_diff = torpor.diff

HEAD = "usec\tCPU\tBusy%\tBzy_MHz\tPOLL\tC1\tC6\tC1-\tC1+\tPOLL%\tC1%\tC6%\tCPU%c1\tCPU%c6\tCPUGFX%"
LINES = [
    "1000000\t-\t6.00\t2000\t5\t300\t100\t30\t40\t0.10\t13.90\t80.00\t30.00\t65.00\t1.00",
    "1000\t0\t4.00\t2000\t5\t200\t60\t20\t10\t0.20\t15.80\t80.00\t30.00\t65.00",
    "1000\t1\t8.00\t2000\t0\t100\t40\t10\t30\t0.00\t12.00\t80.00\t30.00\t65.00",
]
#: Worked by hand: a second table alike doubles counts, and leaves shares as they are.
TABLE = "\n".join([HEAD, *LINES]) + "\n"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "turbostat.log"
    path.write_text(f"turbostat version 2024\nCPUID(0): x\n{TABLE}{TABLE}")
    return path


def test_states_are_as_requested(log):
    result = torpor.diff(log)
    assert problems(result) == []
    (group,) = result["groups"]
    assert group["cpus"] == [0, 1]
    assert [state["name"] for state in group["states"]] == ["POLL", "C1", "C6"]
    (column,) = group["columns"]
    _, c1, c6 = column["states"]
    assert (c1["usage"], c1["above"], c1["below"]) == (600, 60, 80)
    # turbostat named no state that was too deep or too shallow in C6.
    assert (c6["usage"], c6["above"], c6["below"]) == (200, None, None)
    assert c1["residency_ratio"] == pytest.approx(0.139)
    # 15.8 % and 12 % of two seconds.
    assert (column["elapsed_ns"], c1["time_us"]) == (2_000_000_000, 316_000 + 240_000)
    assert column["total"]["residency_ratio"] == pytest.approx(0.001 + 0.139 + 0.8)
    notes = [note["text"] for note in result["intervals"][0]["notes"]]
    assert "got, by the hardware's counters: CPU%c1 30.00 %, CPU%c6 65.00 %" in notes


def test_requested_and_got_are_side_by_side(log, torpor, tmp_path):
    (group,) = torpor_diff(log)["groups"]
    c1, c6 = group["columns"][0]["got"]
    assert (c1["counter"], c1["states"], c1["got_ratio"]) == ("CPU%c1", [1], 0.3)
    assert (c6["requested_ratio"], c6["got_ratio"]) == (pytest.approx(0.8), pytest.approx(0.65))
    shown = torpor("diff", log).stdout
    assert re.search(r"CPU%c6 +C6 +80.00 +65.00", shown), shown
    # Two states that ask for one core state; a core's columns are in its first CPU's line.
    text = log.read_text().replace("POLL%", "C1E%").replace("POLL", "C1E")
    text = text.replace("\t30.00\t65.00\n1000\t1", "\t\t\n1000\t1")
    (tmp_path / "e.log").write_text(text)
    c1, _ = torpor_diff(tmp_path / "e.log")["groups"][0]["columns"][0]["got"]
    assert (c1["states"], c1["requested_ratio"]) == ([0, 1], pytest.approx(0.14))


def test_shares_are_known_without_a_clock(tmp_path):
    path = tmp_path / "a.log"
    path.write_text(TABLE.replace("usec\t", "none\t"))
    (group,) = torpor.diff(path)["groups"]
    c1 = group["columns"][0]["states"][1]
    assert (c1["time_us"], group["columns"][0]["elapsed_ns"]) == (None, None)
    assert c1["residency_ratio"] == pytest.approx(0.139)
    path.write_text(path.read_text() + "2.500000 sec\n")
    assert torpor.diff(path)["groups"][0]["columns"][0]["elapsed_ns"] == 2_500_000_000


def test_two_logs_are_compared(log, tmp_path):
    worse = tmp_path / "worse.log"
    worse.write_text(log.read_text().replace("\t20\t10\t", "\t80\t10\t"))
    (group,) = torpor.diff(log, worse)["groups"]
    assert [column["label"] for column in group["columns"]] == ["turbostat", "worse"]
    change = group["columns"][1]["changes"]["above"]
    # 60 and 180 of the 600 sleeps that were judged, C6 and POLL not among them.
    assert group["columns"][1]["total"]["above"] == 180
    assert change["difference"] > 0


def test_unreadable_input_is_reported(torpor, log, tmp_path):
    sums = tmp_path / "sums.log"
    sums.write_text("\n".join([HEAD, LINES[0]]))
    done = torpor("diff", sums, check=2)
    assert "without a line of a CPU" in done.stderr and "hint: " in done.stderr
    bare = tmp_path / "bare.log"
    bare.write_text("CPU\tBusy%\tBzy_MHz\n0\t1.0\t2000\n")
    assert "without idle states" in torpor("diff", bare, check=2).stderr
    changed = tmp_path / "changed.log"
    changed.write_text(TABLE + TABLE.replace("C6%", "C7%"))
    assert "line 5: other idle states" in torpor("diff", changed, check=2).stderr
    (tmp_path / "s.txt").write_text("/sys/devices/system/cpu/cpu0/cpuidle/state0/usage:1\n")
    mixed = torpor("diff", log, "s.txt", check=2)
    assert "logs of turbostat and snapshots cannot be compared" in mixed.stderr


@pytest.mark.parametrize("cell", ["nan", "inf", "1e400", "-", "", "x", "\x1b[2J", "9" * 400])
def test_damaged_numbers_are_unknown(tmp_path, cell):
    path = tmp_path / "a.log"
    path.write_text(TABLE.replace("200", cell, 1))
    (group,) = torpor.diff(path)["groups"]
    assert group["columns"][0]["total"]["usage"] is not None
