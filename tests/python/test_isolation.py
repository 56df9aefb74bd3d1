# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Governors that end or spoil their process: every command names them and keeps the rest."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import torpor
from processes import TORPOR, ran, start, wait_for

ROOT = Path(__file__).resolve().parents[2]
RECORDING = ROOT / "demo" / "web-server.perf.data"
HOSTILE = ROOT / "crates" / "torpor-engine" / "tests" / "governors" / "hostile.c"
#: exit_group(0), 300 bytes past a frame, SIGKILL: what used to end everything silently.
KINDS = (6, 4, 8)


def hostile(how: int, start: int = 100) -> str:
    return f"{HOSTILE},how={how},from={start}"


def assert_named(error: str, how: int, place: str) -> None:
    """The error names governor, call and inputs, and where it is over with the process, what ran.

    A kernel that can tell whose system calls they are makes those a fault of the call.
    """
    assert f"hostile.c,how={how}" in error
    assert "select() on cpu" in error
    assert "; its inputs: now_ns=" in error
    if how == 4 or "made a system call" not in error:
        assert "has ended its process in select()" in error
        assert place in error


def run(*arguments: str | bytes) -> subprocess.CompletedProcess[str]:
    command = [*TORPOR, *arguments]
    return ran(*command)


@pytest.mark.parametrize("how", KINDS)
def test_replay_continues_without_the_governor(how: int) -> None:
    given = {"platform": "pixel6", "decisions": False}
    alone = torpor.replay(RECORDING, governors=["menu"], **given).to_dict()
    beside = torpor.replay(RECORDING, governors=["menu", hostile(how)], **given)
    assert beside.to_dict()["traces"][0]["runs"][0] == alone["traces"][0]["runs"][0]
    (error,) = beside.failures.values()
    assert_named(error, how, place="replay of")


@pytest.mark.parametrize("how", KINDS)
def test_simulation_continues_without_the_governor(how: int) -> None:
    given = {"platform": "pixel6", "duration": "300ms", "seeds": 2, "strip": True}
    alone = torpor.simulate("periodic", governors=["menu"], **given)
    beside = torpor.simulate("periodic", governors=["menu", hostile(how)], **given)
    assert beside.metrics("menu") == alone.metrics("menu")
    (error,) = beside.failures.values()
    assert f"hostile.c,how={how}" in error and "simulation of `periodic`" in error
    assert "(on cpu" in error or "has ended its process" in error or "system call" in error, error


def test_the_result_does_not_depend_on_processes(tmp_path: Path) -> None:
    mine = tmp_path / "mine.c"
    mine.write_text((ROOT / "governors" / "cpuidle" / "teo.c").read_text())
    governors = ["menu", "teo", str(mine)]

    def replayed(isolate: bool | None) -> str:
        return torpor.replay(
            RECORDING, platform="i5-10600k", governors=governors, isolate=isolate
        ).to_json()

    def simulated(isolate: bool | None) -> str:
        return torpor.simulate(
            "fio-randread",
            platform="pixel6",
            governors=governors,
            duration="200ms",
            seeds=2,
            cpufreq="schedutil",
            strip=True,
            isolate=isolate,
        ).to_json()

    for of in (replayed, simulated):
        here = of(False)
        assert of(True) == here
        assert of(None) == here


def test_a_simulation_is_recorded_from_another_process(tmp_path: Path) -> None:
    given = {"platform": "pixel6", "duration": "100ms", "seeds": 1, "governors": ["menu"]}
    for isolate in (False, True):
        trace = tmp_path / f"{isolate}.txt"
        torpor.simulate("periodic", trace=trace, isolate=isolate, **given)
    assert (tmp_path / "True.txt").read_bytes() == (tmp_path / "False.txt").read_bytes()
    with pytest.raises(torpor.TorporError, match="no/such"):
        torpor.simulate("periodic", trace="/no/such/x.txt", isolate=True, **given)


def test_command_line_names_the_governor() -> None:
    done = run("replay", str(RECORDING), "-p", "pixel6", "-g", "menu", "-g", hostile(6))
    assert done.returncode == 1, done.stderr
    assert_named(" ".join(done.stdout.split()), 6, place="replay of")
    # Before it decides anything.
    done = run("replay", str(RECORDING), "-p", "pixel6", "-g", "menu", "-g", hostile(6, start=0))
    assert done.returncode == 2
    assert "hostile.c,how=6,from=0`" in done.stderr
    assert "init() on cpu0" in done.stderr
    done = run("governor", "check", hostile(6), "--decisions", "2000")
    assert done.returncode == 2
    assert "governor `hostile` has ended its program in select()" in done.stderr


def test_the_noise_of_a_governor_is_not_heard() -> None:
    done = run(
        "replay",
        str(RECORDING),
        "-p",
        "pixel6",
        "-g",
        "menu",
        "-g",
        hostile(14),
        "--format",
        "json",
    )
    assert "NOISE" not in done.stdout + done.stderr
    error = json.loads(done.stdout)["traces"][0]["runs"][1]["error"]
    assert error is None or "made a system call" in error


def test_a_governor_that_sleeps_is_not_waited_for() -> None:
    """At once if the kernel can attribute the system call, else by the clock."""
    begun = time.monotonic()
    result = torpor.replay(
        RECORDING, platform="pixel6", governors=["menu", hostile(16)], decisions=False
    )
    (error,) = result.failures.values()
    assert "made a system call" in error or "did not return within its limit" in error
    assert "select() on cpu" in error
    assert time.monotonic() - begun < 60


def test_ctrl_c_ends_a_check_while_governor_sleeps() -> None:
    process = start("governor", "check", hostile(16, start=1), "--decisions", "99")

    def is_driven() -> bool:
        """Once its program is compiled and runs: its last argument is the governor's name."""
        tasks = Path(f"/proc/{process.pid}/task")
        children = " ".join((task / "children").read_text() for task in tasks.iterdir())
        lines = (Path(f"/proc/{child}/cmdline").read_bytes() for child in children.split())
        return any(line.endswith(b"\0hostile\0") for line in lines)

    wait_for(is_driven, limit_s=100)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130


def test_non_utf8_name_is_refused() -> None:
    done = run(b"replay", os.fsencode(RECORDING), b"-p", b"pixel6", b"-g", b"./a\xff.c")
    assert done.returncode == 2
    assert "not UTF-8" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_configuration_is_reported_and_chosen(tmp_path: Path) -> None:
    text = (ROOT / "governors" / "cpuidle" / "shallowest.c").read_text()
    mine = tmp_path / "mine.c"
    mine.write_text(f"{text}\n#ifdef CONFIG_CPU_IDLE_GOV_MINE\n#error chosen\n#endif\n")
    result = torpor.replay(RECORDING, platform="pixel6", governors=[str(mine)], decisions=False)
    assert any("CONFIG_CPU_IDLE_GOV_MINE (n)" in note for note in result.notes)
    (ran,) = result.to_dict()["traces"][0]["runs"]
    assert ran["config"] == {"CONFIG_CPU_IDLE_GOV_MINE": "n"}
    with pytest.raises(torpor.GovernorError, match="chosen"):
        torpor.replay(RECORDING, platform="pixel6", governors=f"{mine},CONFIG_CPU_IDLE_GOV_MINE=y")
