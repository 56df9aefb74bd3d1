# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor snapshot`, `diff` and `stat`, on machines that the tests make up."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

import torpor as library
from torpor.results import table as tables
from torpor.view import paint

STATES = [("POLL", 0, 0), ("C1", 2, 2), ("C6", 133, 600)]
#: usage, time in us, above, below, rejected of one state.
ZERO = (0, 0, 0, 0, 0)


def put(root, cpu, index, counts, **more):
    """Write one state's files; `counts` as ZERO."""
    name, latency, residency = STATES[index]
    folder = root / f"cpu{cpu}" / "cpuidle" / f"state{index}"
    folder.mkdir(parents=True, exist_ok=True)
    values = {"name": name, "desc": name, "latency": latency, "residency": residency, "disable": 0}
    values |= dict(zip(("usage", "time", "above", "below", "rejected"), counts, strict=True))
    for key, value in (values | more).items():
        (folder / key).write_text(f"{value}\n")


@pytest.fixture
def machine(tmp_path):
    """Two CPUs with three states, counters at 0, menu running."""
    root = tmp_path / "cpu"
    for cpu in range(2):
        for index in range(len(STATES)):
            put(root, cpu, index, ZERO)
    (root / "cpuidle").mkdir()
    (root / "cpuidle" / "current_driver").write_text("intel_idle\n")
    (root / "cpuidle" / "current_governor").write_text("menu\n")
    return root


def grep(root):
    """Return the output of `grep -r . .` in a tree."""
    files = sorted(p for p in root.rglob("*") if p.is_file())
    return "".join(f"./{p.relative_to(root)}:{p.read_text()}" for p in files)


def test_a_snapshot_is_saved_and_read_again(torpor, machine, tmp_path):
    done = torpor("snapshot", "--root", machine, "-o", "now.json", check=0)
    assert done.stdout == ""
    assert "snapshot: now.json" in done.stderr
    saved = json.loads((tmp_path / "now.json").read_text())["snapshot"]
    assert saved["machine"]["governor"] == "menu"
    assert saved["machine"]["monotonic_ns"] > 0
    assert [len(cpu["states"]) for cpu in saved["cpus"]] == [3, 3]
    # A saved snapshot is its own copy, to the byte.
    again = torpor("snapshot", "now.json", check=0).stdout
    assert again == (tmp_path / "now.json").read_text()


def test_diff_counts_shares_and_means(torpor, machine, tmp_path):
    (tmp_path / "before.txt").write_text(grep(machine))
    put(machine, 0, 1, (100, 5000, 0, 25, 0))
    put(machine, 0, 2, (300, 900_000, 30, 0, 2))
    (tmp_path / "after.txt").write_text(grep(machine))
    [group] = json.loads(
        torpor("diff", "before.txt", "after.txt", "--format", "json", check=0).stdout
    )["groups"]
    [column] = group["columns"]
    c1, c6 = column["states"][1:]
    assert group["cpus"] == [0, 1]
    assert (c1["usage"], c1["time_us"], c1["below_ratio"], c1["mean_sleep_us"]) == (
        100,
        5000,
        0.25,
        50.0,
    )
    assert (c6["above_ratio"], c6["rejected"]) == (0.1, 2)
    assert column["total"]["above_ratio"] == 30 / 400
    # No clock in text: time is a share of idle time.
    assert column["residency_of"] == "idle"
    assert c6["residency_ratio"] == 900_000 / 905_000
    text = torpor("diff", "before.txt", "after.txt", check=0).stdout
    assert "CPU 0-1" in text
    assert "no clock" in text
    assert [line.split()[:2] for line in text.splitlines() if line[:2] in ("0 ", "1 ", "2 ")] == [
        ["0", "POLL"],
        ["1", "C1"],
        ["2", "C6"],
    ]


def test_a_clock_in_both_gives_residency(torpor, machine, tmp_path):
    for name, clock_ns, time_us in (("a", 1_000_000_000, 0), ("b", 3_000_000_000, 1_000_000)):
        put(machine, 0, 2, (1, time_us, 0, 0, 0))
        (tmp_path / f"{name}.txt").write_text(f"# CLOCK_MONOTONIC ns {clock_ns}\n{grep(machine)}")
    result = library.diff(tmp_path / "a.txt", tmp_path / "b.txt")
    [interval], [column] = result["intervals"], result["groups"][0]["columns"]
    assert interval["elapsed_ns"] == 2_000_000_000
    # One second of the two that each of two CPUs had.
    assert column["states"][2]["residency_ratio"] == 0.25
    single = library.diff(tmp_path / "a.txt", tmp_path / "b.txt", by="cpu")
    shares = [g["columns"][0]["states"][2]["residency_ratio"] for g in single["groups"]]
    assert shares == [0.5, 0.0]


def rounds(machine, tmp_path, steps):
    """Write a dump for each step, which adds (usage, below) to C6 of both CPUs."""
    names = []
    usage = below = 0
    for number, (more, too_shallow) in enumerate([(0, 0), *steps]):
        usage, below = usage + more, below + too_shallow
        for cpu in range(2):
            put(machine, cpu, 2, (usage, usage * 10, 0, below, 0))
        names.append(tmp_path / f"{number}.txt")
        names[-1].write_text(grep(machine))
    return names


def test_rounds_of_one_label_are_counted_together(machine, tmp_path):
    dumps = rounds(machine, tmp_path, [(1000, 200), (1000, 100), (1000, 210), (1000, 90)])
    result = library.diff(*dumps, labels=["menu", "teo", "menu", "teo"])
    menu, teo = result["groups"][0]["columns"]
    assert (menu["label"], menu["rounds"], menu["total"]["usage"]) == ("menu", 2, 4000)
    assert menu["changes"] is None
    change = teo["changes"]["below"]
    assert change["difference"] == pytest.approx(190 / 2000 - 410 / 2000)
    assert change["low"] < change["difference"] < change["high"] < 0
    assert change["is_significant"]
    assert not teo["changes"]["above"]["is_significant"]


def test_columns_are_compared_in_a_table(torpor, machine, tmp_path):
    dumps = rounds(machine, tmp_path, [(1000, 200), (1000, 201), (1000, 50)])
    text = torpor("diff", *dumps, check=0).stdout
    assert "too shallow %" in text
    assert "n.s." in text
    assert "\N{MINUS SIGN}15.00 pp [" in text
    done = torpor("diff", "--pairs", *dumps, "--label", "a", "--label", "b", "-v", check=0)
    assert "\na: " in "\n" + done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["0.txt", "1.txt", "2.txt", "--pairs"], ["3 snapshots are not pairs"]),
        (["0.txt", "1.txt", "--label", "a", "--label", "b"], ["2 labels for 1 intervals"]),
        (["0.txt", "1.txt", "--by", "core"], ["`core`", "table or cpu"]),
        (["0.txt", "gone.txt"], ["gone.txt", "No such file"]),
    ],
)
def test_wrong_diff_arguments_are_named(torpor, machine, tmp_path, arguments, words):
    rounds(machine, tmp_path, [(1, 0), (1, 0)])
    done = torpor("diff", *arguments, check=2)
    for word in words:
        assert word in done.stderr


def test_changes_in_between_are_reported(torpor, machine, tmp_path):
    put(machine, 1, 1, (500, 1, 0, 0, 0))
    (tmp_path / "a.txt").write_text(grep(machine))
    put(machine, 1, 1, (3, 1, 0, 0, 0))
    put(machine, 0, 2, ZERO, disable=1)
    (tmp_path / "b.txt").write_text(grep(machine))
    done = torpor("diff", "a.txt", "b.txt", check=0)
    assert "CPU 1: usage of state 1 went back from 500 to 3" in done.stdout
    assert "CPU 0: state C6 was switched off in between" in done.stdout
    assert "2 C6 (off)" in done.stdout


@pytest.mark.parametrize("by_width", [range(1, 60), range(60, 118), range(118, 140)])
def test_no_digit_is_cut_on_a_narrow_terminal(by_width):
    headings = ["state", "latency µs", "residency µs", "usage", "time ms", "below ‰", "rejected"]
    rows = [
        ["0 POLL", "0", "0", "12,345", "1,234,567.8", "2.34", "-"],
        ["3 C6 (off)", "133", "600", "9,999,999,999", "8,123,456.7", "1.00", "8,123,456"],
        ["all", "", "", "9,999,999,999", "9,358,024.5", "7.66", "8,123,456"],
    ]
    table = tables.Table("t", "", headings, [[tables.word(text) for text in row] for row in rows])
    for width in by_width:
        text = paint.terminal(tables.Post("t", [], [table], []), width)
        assert "…" not in text
        for row in rows:
            for cell in row[1:]:
                assert cell in text
        lines = [line for line in text.splitlines() if line.startswith("all")]
        shown = [each for line in lines for each in line.split() if each != "all"]
        assert shown == [cell for cell in rows[-1][1:] if cell]
        # The widest a line needs to be is one name next to one number.
        assert max(map(len, text.splitlines())) <= max(width, len("3 C6 (off)  9,999,999,999"))
        if width >= 118:
            assert len(lines) == 1


def test_a_damaged_dump_is_a_finding(torpor, machine, tmp_path):
    (tmp_path / "a.txt").write_text(grep(machine))
    (tmp_path / "b.txt").write_text(grep(machine).replace("time:0", "time:"))
    done = torpor("diff", "a.txt", "b.txt", check=1)
    assert "`cpu0/cpuidle/state0/time` is empty and 5 more" in done.stdout
    assert "no value of time" in done.stdout


def test_nothing_to_compare_is_an_error_with_reason(torpor, machine, tmp_path):
    (tmp_path / "a.txt").write_text(grep(machine))
    (tmp_path / "b.txt").write_text(grep(machine).replace("C6", "C8"))
    done = torpor("diff", "a.txt", "b.txt", check=2)
    assert "state 2 was C6 (133/600 µs) and is C8 (133/600 µs)" in done.stderr
    assert "hint: " in done.stderr


def test_json_of_a_result_is_no_snapshot(torpor, recording, tmp_path):
    result = tmp_path / "replay.json"
    replayed = library.replay(recording, platform="pixel6", governors=["menu"], decisions=False)
    result.write_text(replayed.to_json())
    done = torpor("diff", result, result, check=2)
    assert "JSON of one of Torpor's results, not counters" in done.stderr
    assert "damaged" not in done.stderr


def test_one_dump_counts_from_boot(machine, tmp_path):
    put(machine, 0, 1, (7, 70, 0, 0, 0))
    result = library.diff(library.snapshot(machine))
    assert result["intervals"][0]["is_since_boot"]
    assert result["groups"][0]["columns"][0]["total"]["usage"] == 7


def test_machine_without_a_driver_is_reported(torpor, tmp_path):
    (tmp_path / "cpu" / "cpu0").mkdir(parents=True)
    (tmp_path / "cpu" / "cpuidle").mkdir()
    (tmp_path / "cpu" / "cpuidle" / "current_driver").write_text("none\n")
    for command in (["snapshot"], ["stat", "-n", "1"]):
        done = torpor(*command, "--root", tmp_path / "cpu", check=2)
        assert "current_driver says `none`" in done.stderr
        assert "hint: most virtual machines" in done.stderr


def test_a_dump_serves_as_a_machine(torpor, machine, recording, tmp_path):
    (tmp_path / "mail.txt").write_text(grep(machine))
    done = torpor("platform", "import", "mail.txt", "--name", "mailed", check=0)
    assert 'name = "C6"' in done.stdout
    replayed = torpor("replay", "-p", "./mail.txt", "-g", "teo", recording, check=0)
    assert "replay on mail," in replayed.stdout


def test_stat_measures_a_command_and_returns_its_status(torpor, machine):
    # The command is what moves the counters.
    usage = machine / "cpu0" / "cpuidle" / "state1" / "usage"
    script = f"echo 40 > {usage}; exit 3"
    done = torpor("stat", "--root", machine, "--", "sh", "-c", script, check=3)
    assert "\ntotal: 0." in done.stdout
    [row] = [line.split() for line in done.stdout.splitlines() if line.startswith("1 C1")]
    assert row[4] == "40"
    missing = torpor("stat", "--root", machine, "no-such-program", check=2)
    assert "`no-such-program` cannot be run" in missing.stderr


def test_stat_prints_json_lines_and_the_total(torpor, machine):
    done = torpor("stat", "--root", machine, "-i", "20ms", "-n", "2", "--format", "json", check=0)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["intervals"][0]["label"] for line in lines] == ["interval", "interval", "total"]
    spans = [line["intervals"][0]["elapsed_ns"] for line in lines]
    assert spans[2] >= spans[0] + spans[1]


def test_an_interrupted_stat_prints_the_total(machine, tmp_path):
    """On a terminal: the table in place, then the total that stays."""
    terminal, its_end = pty.openpty()
    command = [sys.executable, "-m", "torpor", "stat", "--root", str(machine), "-i", "50ms"]
    process = subprocess.Popen(
        command, stdout=its_end, stderr=subprocess.PIPE, env={**os.environ, "TERM": "xterm"}
    )
    os.close(its_end)
    shown = b""
    while b"interval:" not in shown:
        shown += os.read(terminal, 4096)
    process.send_signal(signal.SIGINT)
    deadline_s = time.monotonic() + 20
    while time.monotonic() < deadline_s:
        try:
            shown += os.read(terminal, 4096)
        except OSError:
            # Linux's way to say that the other end was closed.
            break
    assert process.wait(timeout=20) == 130, process.stderr.read()
    assert b"total:" in shown
    os.close(terminal)
    process.stderr.close()
