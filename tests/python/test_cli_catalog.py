# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor governor list`, `platforms`, `platform` and `trace`."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOARD = ROOT / "crates" / "torpor-machine" / "tests" / "data" / "board.dtb"


def test_governors_are_listed_with_their_parameters(torpor):
    done = torpor("governor", "list", check=0)
    for name in ("menu", "teo", "shallowest", "deepest", "oracle"):
        assert f"\n{name}" in done.stdout.replace("\n ", "\n")
    assert "NAME@TREE" in done.stderr
    listed = json.loads(torpor("governor", "list", "--format", "json", check=0).stdout)
    assert {"name", "summary", "rating", "origin", "params"} <= set(listed[0])


def test_io_boosts_are_a_group_of_their_own(torpor):
    assert "--ioboost" in torpor("governor", "list", check=0).stderr
    done = torpor("governor", "list", "--ioboost", check=0)
    assert "boost_min" in done.stdout and "menu" not in done.stdout
    listed = json.loads(torpor("governor", "list", "--ioboost", "--format", "json", check=0).stdout)
    assert {b["name"] for b in listed} == {
        "intel-pstate",
        "none",
        "iowait",
        "per-task",
        "per-task-v2",
    }
    assert all(p["description"] for b in listed for p in b["params"])


def test_cpufreq_governors_have_a_list(torpor):
    assert "--cpufreq" in torpor("governor", "list", check=0).stderr
    done = torpor("governor", "list", "--cpufreq", check=0)
    assert "schedutil" in done.stdout and "menu" not in done.stdout
    listed = json.loads(torpor("governor", "list", "--cpufreq", "--format", "json", check=0).stdout)
    kernels = ["conservative", "ondemand", "performance", "powersave", "schedutil", "userspace"]
    assert [governor["name"] for governor in listed] == kernels


def test_platforms_say_whether_energy_is_known(torpor):
    listed = {
        p["name"]: p
        for p in json.loads(torpor("platform", "list", "--format", "json", check=0).stdout)
    }
    assert listed["pixel6"]["has_power"]
    assert listed["pixel6"]["cpus"] == 8
    assert sum(not p["has_power"] for p in listed.values()) >= 10
    text = torpor("platform", "list", check=0).stdout
    assert "i5-10600k" in text
    assert "not known" in text


def test_shown_platform_can_be_used(torpor, recording, tmp_path):
    text = torpor("platform", "show", "pixel6", check=0).stdout
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    named, from_file = (
        torpor("replay", "-p", name, "-g", "teo", recording, "--format", "csv", check=0).stdout
        for name in ("pixel6", "./mine.toml")
    )
    assert named == from_file


@pytest.fixture
def sysfs(tmp_path):
    """Two CPUs with three states, as `cp -r /sys/devices/system/cpu` leaves them."""
    root = tmp_path / "cpu"
    states = [("POLL", 0, 0), ("C1", 2, 2), ("C6", 133, 600)]
    for cpu in range(2):
        for index, (name, latency, residency) in enumerate(states):
            folder = root / f"cpu{cpu}" / "cpuidle" / f"state{index}"
            folder.mkdir(parents=True)
            values = {"name": name, "desc": name, "latency": latency, "residency": residency}
            for key, value in (values | {"power": 0, "disable": 0}).items():
                (folder / key).write_text(f"{value}\n")
    (root / "online").write_text("0-1\n")
    (root / "present").write_text("0-1\n")
    return root


def test_a_saved_sysfs_becomes_a_platform(torpor, recording, sysfs, tmp_path):
    done = torpor("platform", "import", sysfs, "-o", "saved.toml", "--hz", "1000", check=0)
    assert done.stdout == ""
    assert "platform: saved.toml" in done.stderr
    done = torpor("replay", "-p", "./saved.toml", "-g", "teo", recording, "-v", check=0)
    assert "not known" in done.stdout
    assert "ticks at 250 Hz, platform `saved` at 1000 Hz" in done.stdout


def test_an_imported_platform_puts_notes_on_stderr(torpor, sysfs):
    done = torpor("platform", "import", sysfs, "--name", "mine", check=0)
    assert 'name = "mine"' in done.stdout
    assert "latency_us = 133" in done.stdout
    assert "note: " in done.stderr


def test_a_device_tree_gets_a_kernels_powers(torpor, recording, tmp_path):
    (tmp_path / "em.txt").write_text(
        "cpu0/cpus:0-1\ncpu0/flags:0x1\n"
        "cpu0/ps:500000/frequency:500000\ncpu0/ps:500000/power:41000\n"
    )
    done = torpor("platform", "import", BOARD, "--energy-model", "em.txt", check=0)
    assert 'title = "A made-up board"' in done.stdout
    # The kernel's number where it gives one, the tree's elsewhere.
    assert "active_power_mw = 41 }" in done.stdout
    assert "active_power_mw = 1700 }" in done.stdout
    done = torpor("replay", "-p", BOARD, "-g", "teo", recording, "-v", check=0)
    assert "A made-up board" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no/such/folder"], ["no/such/folder"]),
        (["cpu/cpu0"], ["cpu/cpu0", "hint: "]),
        (["@", "--hz", "77"], ["77", "100, 250, 300, 1000"]),
        (["@", "--name", "a b"], ["a b"]),
        (["@", "--energy-model", "cpu"], ["cpu", "no energy model in it", "hint: as root"]),
        (["@", "-o", "no/such/file.toml"], ["no/such/file.toml"]),
    ],
)
def test_failed_import_is_reported(torpor, sysfs, arguments, words):
    done = torpor("platform", "import", *(sysfs if a == "@" else a for a in arguments), check=2)
    for word in words:
        assert word in done.stderr


def test_trace_info_lists_present_and_missing_events(torpor, recording):
    done = torpor("trace", "info", recording, check=0)
    assert "perf.data" in done.stdout
    assert "cpu_idle" in done.stdout
    info = json.loads(torpor("trace", "info", recording, "--format", "json", check=0).stdout)
    assert info["carries"]["hrtimers"]
    assert not info["carries"]["frequency"]
    assert [c["sleeps"] for c in info["cpus"] if c["cpu"] == 0] == [7048]
    # 14,096 events, of which every second one is the exit.
    counts = {name.rpartition(":")[2]: n for name, n in info["event_counts"].items()}
    assert counts["cpu_idle"] == 14096
