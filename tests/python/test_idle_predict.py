# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor workload idle-predict`: as a workload, and as a load of this machine."""

import json
import re
import signal
import time

import pytest

import torpor as library
from processes import start


def test_without_run_it_writes_a_workload(torpor, tmp_path):
    text = torpor("workload", "idle-predict", check=0).stdout
    # After the line that names its schema.
    command = "idle_predict --threads 8 --loop 10 --delay_us 20"
    assert text.partition("\n")[2].strip() == library.workload_toml(command).strip()
    arguments = ("--threads", "3", "--loop", "5", "--delay", "1234567us")
    text = torpor("workload", "idle-predict", *arguments, check=0).stdout
    for key in ("count = 3", "stagger_us = 333333", "repeat = 4", "sleep_us = 1234567 }"):
        assert key in text
    (tmp_path / "mine.toml").write_text(text)
    result = library.simulate(
        tmp_path / "mine.toml", platform="pixel6", governors="menu", duration="3s", seeds=1
    )
    (task,) = result.to_dict()["runs"][0]["tasks"]
    assert task["started"] == 3


def test_the_library_writes_the_same_workload(torpor):
    arguments = ("--threads", "3", "--loop", "5", "--delay", "7us")
    text = torpor("workload", "idle-predict", *arguments, check=0).stdout
    assert text.partition("\n")[2].strip() == library.idle_predict_toml(3, 5, delay_us=7).strip()
    for wrong in ({"threads": 0}, {"loop": 1}, {"delay_us": -1}):
        with pytest.raises(ValueError, match="at least 1 thread"):
            library.idle_predict_toml(**wrong)


def test_loop_length_is_bounded(torpor):
    for number in ("1", "1000002", "5000000000"):
        done = torpor("workload", "idle-predict", "--run", "--loop", number, check=2)
        assert "is not in the range 2<=x<=1000001" in done.stderr


def test_it_runs_no_longer_than_a_month(torpor):
    run = ("workload", "idle-predict", "--run", "--duration")
    for duration in ("2592001s", "9223372036s"):
        error = " ".join(torpor(*run, duration, check=2).stderr.split())
        assert f"`{duration}`" in error and "30 days" in error and "Traceback" not in error


def test_it_runs_for_the_given_time(torpor):
    arguments = ("workload", "idle-predict", "--run", "--threads", "4", "--duration", "200ms")
    done = json.loads(torpor(*arguments, "--format", "json", check=0).stdout)
    assert done["elapsed_ns"] >= 0.2e9
    # Each thread sleeps nine times a round; a busy machine does not finish the first.
    assert 0 < done["delays"]["count"] <= 36
    assert done["delays"]["p50_ns"] > 0
    text = torpor(*arguments, check=0).stdout
    assert text.startswith("4 threads, ")
    assert re.search(r"sleeps of 20us: \d+ wake-ups, late by", text)
    assert "sleeps of 1 s: 0 wake-ups\n" in text


def test_interrupt_prints_the_result_so_far(tmp_path):
    command = ("workload", "idle-predict", "--run", "--format", "json", "--duration", "100s")
    with start(*command, cwd=tmp_path) as process:
        assert "running for 100s" in process.stderr.readline()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert json.loads(out)["delays"]["count"] >= 72
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--threads", "0"), "--threads"),
        (("--loop", "1"), "--loop"),
        (("--delay", "20"), "20"),
        (("--duration", "-1s"), "-1s"),
    ],
)
def test_a_slip_is_refused(torpor, arguments, words):
    done = torpor("workload", "idle-predict", *arguments, check=2)
    assert words in done.stderr and done.stdout == ""
