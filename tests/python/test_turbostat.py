# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Logs of turbostat as counters. The reader's own tests are the engine's."""

import gzip
import lzma
import re

import pytest

import torpor
from torpor.machine import turbostat
from valid import problems

torpor_diff = torpor.diff

HEAD = (
    "usec\tTime_Of_Day_Seconds\tCPU\tBusy%\tBzy_MHz\tPOLL\tC1\tC6\tC1-\tC1+\tPOLL%\tC1%\tC6%"
    "\tCPU%c1\tCPU%c6\tCPUGFX%\tPk%pc10"
)
LINES = [
    "900\tTIME\t-\t6.00\t2000\t5\t300\t100\t30\t40\t0.10\t13.90\t80.00\t30.00\t65.00\t1.00\t7.00",
    "100\tTIME\t0\t4.00\t2000\t5\t200\t60\t20\t10\t0.20\t15.80\t80.00\t30.00\t65.00",
    "100\tTIME\t1\t8.00\t2000\t0\t100\t40\t10\t30\t0.00\t12.00\t80.00\t30.00\t65.00",
]


def table(time="100.5", lines=LINES):
    """Return an interval that ended at ``time``."""
    return "\n".join([HEAD, *lines]).replace("TIME", time) + "\n"


@pytest.fixture
def log(tmp_path):
    # Worked by hand: a second table alike doubles counts, and leaves shares as they are.
    path = tmp_path / "turbostat.log"
    path.write_text(f"turbostat version 2024\nCPUID(0): x\n{table()}{table('101.5')}")
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
    # 15.8 % and 12 % of two seconds, not of the microseconds of `usec`.
    assert (column["elapsed_ns"], c1["time_us"]) == (2_000_000_000, 316_000 + 240_000)
    assert column["total"]["residency_ratio"] == pytest.approx(0.001 + 0.139 + 0.8)
    notes = [note["text"] for note in result["intervals"][0]["notes"]]
    got = "CPU%c1 30.00 %, CPU%c6 65.00 %, Pk%pc10 7.00 %"
    assert f"got, by the hardware's counters: {got}" in notes
    assert any("first interval" in note for note in notes)


def test_requested_and_got_are_side_by_side(log, torpor, tmp_path):
    (group,) = torpor_diff(log)["groups"]
    c1, c6 = group["columns"][0]["got"]
    assert (c1["counter"], c1["states"], c1["got_ratio"]) == ("CPU%c1", [1], 0.3)
    assert (c6["requested_ratio"], c6["got_ratio"]) == (pytest.approx(0.8), pytest.approx(0.65))
    shown = torpor("diff", log).stdout
    assert re.search(r"CPU%c6 +C6 +80.00 +65.00", shown), shown
    # Two states that ask for one core state; a core's columns are in its first CPU's line.
    text = log.read_text().replace("POLL%", "C1E%").replace("POLL", "C1E")
    text = re.sub(r"\t30.00\t65.00\n(?=100\t\S+\t1)", "\t\t\n", text)
    assert text.count("\t30.00\t65.00\n") == 2
    (tmp_path / "e.log").write_text(text)
    c1, _ = torpor_diff(tmp_path / "e.log")["groups"][0]["columns"][0]["got"]
    assert (c1["states"], c1["requested_ratio"]) == ([0, 1], pytest.approx(0.14))


def test_mwait_hint_pairs_acpi_states(log, tmp_path):
    text = log.read_text().replace("C6", "C2ACPI").replace("CPU%c6", "CPU%c7")
    banner = "cpu0: POLL: CPUIDLE CORE POLL IDLE\ncpu0: C1: ACPI FFH MWAIT 0x0\n"
    path = tmp_path / "acpi.log"
    for hint, paired in [("cpu0: C2_ACPI: ACPI FFH MWAIT 0x30\n", [2]), ("", [])]:
        path.write_text(banner + hint + text)
        got = {g["counter"]: g for g in torpor.diff(path)["groups"][0]["columns"][0]["got"]}
        assert got["CPU%c7"]["states"] == paired
        assert got["CPU%c1"]["states"] == [1]
    assert turbostat.counter_of("C3_ACPI", "ACPI IOPORT 0x415") is None


def test_shares_are_known_without_a_clock(tmp_path):
    path = tmp_path / "a.log"
    path.write_text(table())
    result = torpor.diff(path)
    (group,) = result["groups"]
    c1 = group["columns"][0]["states"][1]
    assert (c1["time_us"], group["columns"][0]["elapsed_ns"]) == (None, None)
    assert c1["residency_ratio"] == pytest.approx(0.139)
    notes = [note["text"] for note in result["intervals"][0]["notes"]]
    assert any("--enable Time_Of_Day_Seconds" in note for note in notes)
    assert not any("usec" in note for note in notes)
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


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_and_quoted_logs_are_the_same(pack, log, tmp_path):
    quoted = "".join(f"> {line}\r\n" for line in log.read_text().splitlines())
    packed = tmp_path / "packed"
    packed.write_bytes(pack(quoted.encode()))
    assert torpor.diff(packed)["groups"][0]["columns"][0]["label"] == "packed"
    assert torpor.diff(packed, by="cpu")["groups"][0]["states"]
    of = torpor.diff(log, labels=["packed"])
    assert torpor.diff(packed)["groups"] == of["groups"]


def test_few_columns_are_a_log(torpor, tmp_path):
    path = tmp_path / "few.log"
    path.write_text("CPU C1 C2 CPU%c6\n34 10 20 5.00\n3 7 8 6.00\n")
    (group,) = torpor_diff(path)["groups"]
    assert (group["cpus"], group["columns"][0]["total"]["usage"]) == ([3, 34], 45)
    assert "C2" in torpor("diff", path).stdout


def test_idle_info_of_cpupower_is_compared(tmp_path):
    text = (
        "CPUidle driver: acpi_idle\nCPUidle governor: menu\nanalyzing CPU 2:\n\n"
        "Number of idle states: 1\nAvailable idle states: C1\nC1:\n"
        "Flags/Description: ACPI FFH MWAIT 0x0\nLatency: 1\nUsage: 100\nDuration: 500\n"
    )
    (tmp_path / "before").write_text(text)
    (tmp_path / "after").write_text(text.replace("100", "160").replace("500", "900"))
    result = torpor.diff(tmp_path / "before", tmp_path / "after")
    (group,) = result["groups"]
    (state,) = group["columns"][0]["states"]
    assert (group["cpus"], state["usage"], state["time_us"], state["above"]) == ([2], 60, 400, None)
    assert result["intervals"][0]["governor"] == "menu"


def test_unreadable_input_is_reported(torpor, log, tmp_path):
    sums = tmp_path / "sums.log"
    sums.write_text("\n".join([HEAD, LINES[0]]))
    done = torpor("diff", sums, check=2)
    assert "without a line of a CPU" in done.stderr and "hint: " in done.stderr
    bare = tmp_path / "bare.log"
    bare.write_text("CPU\tBusy%\tBzy_MHz\n0\t1.0\t2000\n")
    assert "without idle states" in torpor("diff", bare, check=2).stderr
    changed = tmp_path / "changed.log"
    changed.write_text(table() + table().replace("C6%", "C7%"))
    assert "line 5: other idle states" in torpor("diff", changed, check=2).stderr
    wrapped = tmp_path / "wrapped.log"
    wrapped.write_text(table().replace("\tC1-", "\nC1-"))
    assert "mail program" in torpor("diff", wrapped, check=2).stderr
    assert "torpor diff" in torpor("snapshot", log, check=2).stderr
    (tmp_path / "s.txt").write_text("/sys/devices/system/cpu/cpu0/cpuidle/state0/usage:1\n")
    mixed = torpor("diff", log, "s.txt", check=2)
    assert "logs of turbostat and snapshots cannot be compared" in mixed.stderr


@pytest.mark.parametrize("cell", ["nan", "inf", "1e400", "-", "", "x", "\x1b[2J", "9" * 400])
def test_damaged_numbers_are_unknown(tmp_path, cell):
    path = tmp_path / "a.log"
    path.write_text(table().replace("200\t", cell + "\t", 1))
    (group,) = torpor.diff(path)["groups"]
    assert group["columns"][0]["total"]["usage"] is not None
