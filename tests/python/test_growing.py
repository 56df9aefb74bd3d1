# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Results of files that a running command appends to."""

import json

import pytest

import torpor

HEAD = {
    "torpor": {"version": "0"}, "kernel": "6.12", "driver": "fake", "cpu_count": 1,
    "governors": [
        {"label": name, "name": name, "module": None, "parameters": []} for name in ("menu", "teo")
    ],
    "command": ["true"], "rounds": 5, "metric": None, "seed": None, "warm_up": 1,
    "energy_zones_unreadable": [],
}  # fmt: skip


def run_of(number, name, above):
    counts = {"usage": 100, "time_us": 5000, "above": above, "below": 1, "rejected": 0}
    counters = {
        "elapsed_ns": 10_000_000,
        "notes": [],
        "groups": [{"cpus": [0], "states": [{"name": "C1", **counts}]}],
    }
    return {
        "round": number, "governor": name, "began_at_ns": 0, "duration_ns": 10_000_000,
        "figure": 1.0, "energy_uj": {}, "counters": counters, "output": "",
    }  # fmt: skip


def test_finished_rounds_are_compared(tmp_path, torpor):
    lines = [HEAD, run_of(0, "menu", 90), run_of(1, "menu", 10), run_of(1, "teo", 20)]
    file = tmp_path / "ab.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines[:3]))
    assert "no round is finished yet" in torpor("show", file, check=2).stderr
    # The last line is under way, as is its round.
    late = [*lines, run_of(2, "teo", 99)]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in late) + '{"half')
    text = torpor("show", file, check=0).stdout
    assert "1 of 5 rounds" in text
    assert "20.00" in text and "99.00" not in text


def test_foreign_lines_are_refused(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text('{"level": "info"}\n')
    with pytest.raises(torpor.TorporError, match="ab -o"):
        torpor.load(file)
