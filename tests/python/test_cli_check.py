# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor governor check`. What it finds is tested in the crate; here: exit status, texts, JSON."""

import json
import shlex
from pathlib import Path

import pytest

BAD = Path(__file__).resolve().parents[2] / "crates" / "torpor-check" / "tests" / "bad"
FEW = ("--decisions", "20000")


def test_every_kind_is_defined(torpor):
    text = torpor("governor", "check", "--list", check=0).stdout
    listed = json.loads(torpor("governor", "check", "--list", "--format", "json", check=0).stdout)
    assert len(listed) >= 10
    for kind in listed:
        assert f"{kind['name']}: {kind['title']}" in text


def test_a_sound_governor_passes(torpor):
    done = torpor("governor", "check", "shallowest", *FEW, check=0)
    assert "shallowest: no breach in 2" in done.stdout
    assert "time per decision: median" in done.stdout


def test_a_breach_lists_its_calls_and_repeats(torpor):
    done = torpor("governor", "check", BAD / "latency.c", *FEW, check=1)
    assert "latency: state 1, whose exit latency is" in done.stdout
    (command,) = (
        line.split("repeat: ")[1] for line in done.stdout.splitlines() if "repeat: " in line
    )
    again = torpor(*shlex.split(command)[1:], check=1)
    table = [line for line in done.stdout.splitlines() if "stop tick" in line]
    assert table and all(line in again.stdout for line in table)


def test_the_same_seed_gives_the_same_findings(torpor):
    args = ("governor", "check", BAD / "memory_ring.c", "--seed", "7", "--format", "json", *FEW)
    first, again = (json.loads(torpor(*args, check=1).stdout) for _ in range(2))
    assert first == again
    assert first[0]["findings"][0]["kind"] == "memory"


def test_compile_failure_does_not_stop_the_next_check(torpor, tmp_path):
    (tmp_path / "broken.c").write_text("int x = ;\n")
    done = torpor("governor", "check", "./broken.c", "shallowest", *FEW, check=2)
    assert "does not compile" in done.stderr
    assert "shallowest: no breach" in done.stdout


@pytest.mark.parametrize("args", [(), ("no-such-governor",)])
def test_failed_check_exits_with_2(torpor, args):
    done = torpor("governor", "check", *args, check=2)
    assert "error: " in done.stderr
