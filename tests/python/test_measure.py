# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor platform measure`: latencies as the recorded hardware had them."""

from pathlib import Path

import pytest

import torpor as library
from torpor.machine.toml import toml

ROOT = Path(__file__).parents[2]
SIMULATED = ROOT / "tests" / "data" / "simulated" / "desktop.txt.gz"
MAILED = ROOT.parent / "shared" / "field" / "mt8196" / "mainline-tick-wakeups.dat"


def test_simulated_latencies_are_measured_exactly(torpor, tmp_path):
    shown = torpor("platform", "measure", SIMULATED, "-p", "i5-10600k", check=0).stdout
    lines = shown[shown.index("# cores, 3 C3_ACPI") :]
    found = toml(lines)
    # It was made with what its platform advertised then.
    assert found["measured_exit_latency_us"] == 1034
    result = library.measure_latency(SIMULATED, platform="i5-10600k")
    counts = {(r["name"], r["cause"]): r["count"] for r in result["latency"]}
    assert (
        f"{counts['C3_ACPI', 'ipi']} wake-ups by IPI in desktop.txt.gz"
        in (found["measured_latency_source"])
    )
    for line in ("lines", "left_out"):
        assert result[line]
    both = library.measure_latency(SIMULATED, SIMULATED, platform="i5-10600k")
    assert [r["count"] for r in both["latency"]] == [2 * c for c in counts.values()]
    # Every sleep is in one row.
    stats = library.trace_stats(SIMULATED)
    rows = [*result["latency"], *result["left_out"]]
    assert sum(row["count"] for row in rows) == stats["sleeps"]
    torpor("platform", "measure", SIMULATED, "--report", tmp_path / "page.html", check=0)
    assert "Left out" in (tmp_path / "page.html").read_text()


@pytest.mark.skipif(not MAILED.is_file(), reason="not run, because ../shared/field is not there")
def test_a_mailed_chromebook_leaves_cpuoff_in_84_us():
    result = library.measure_latency(MAILED)
    (row,) = [r for r in result["latency"] if (r["name"], r["cause"]) == ("cpuoff-l", "ipi")]
    assert (row["advertised_ns"], row["count"]) == (349_000, 66)
    assert row["p50_ns"] == pytest.approx(84_000, rel=0.01)
    assert all(r["p50_ns"] < 0 for r in result["latency"] if r["cause"] == "interrupt")


#: A server that random interrupts wake, of its own CPU or of another one.
REFILLED = """
name = "requests-after-sleeps"
title = "Random requests with random work"
source = "made up"

[[interrupt]]
name = "network"
{cpus}
interval_us = {{ dist = "gamma", mean = 3500, sd = 3000 }}
wake = "request"

[[task]]
name = "server"
cpus = "6"
phase = [{{ wait = "request" }}, {{ run_us = {{ dist = "lognormal", mean = 150, sd = 80 }} }}]
"""


@pytest.mark.parametrize("truth_us", [0, 50, 200])
@pytest.mark.parametrize("where", ['cpus = "6"', ""], ids=["own", "other"])
def test_refill_of_a_simulation_is_found(torpor, tmp_path, where, truth_us):
    shipped = (ROOT / "platforms" / "pixel6.toml").read_text(encoding="utf-8")
    state = f'name = "c2"\nrefill_us = {truth_us}\nrefill_source = "chosen"'
    (tmp_path / "machine.toml").write_text(shipped.replace('name = "c2"', state), encoding="utf-8")
    (tmp_path / "load.toml").write_text(REFILLED.format(cpus=where), encoding="utf-8")
    found = []
    for seed in range(4, 8):
        run = ("--seed", str(seed), "--seeds", "1", "--duration", "10s", "--trace", "run.txt")
        torpor("simulate", "load.toml", "-p", "machine.toml", "-g", "teo", *run, check=0)
        measured = library.measure_latency(tmp_path / "run.txt", platform="pixel6")
        (refill,) = measured["refill"]
        assert (refill["cluster"], refill["name"]) == ("big", "c2")
        lines = [line for row in measured["lines"] for line in row["toml"]]
        is_measured = refill["verdict"] == "measured"
        assert any("refill_us" in line for line in lines) == is_measured
        found.append((refill["low_ns"] / 1e3, refill["high_ns"] / 1e3, is_measured))
    # One interval in twenty misses, and one check of the bursts before fails.
    assert sum(low <= truth_us <= high for low, high, _ in found) >= 3, found
    measured = sum(is_measured for *_, is_measured in found)
    assert measured >= 3 if truth_us else measured == 0, found


def test_refill_of_a_guest_without_caches_is_zero():
    guests = sorted((ROOT / "tests" / "data" / "guest").glob("arm64-6.12-*/trace.dat.gz"))
    (refill,) = library.measure_latency(*guests)["refill"]
    assert refill["pairs"] > 100
    # The lower end allows for requests that came unseen.
    assert abs(refill["refill_ns"]) < 1_000 and abs(refill["high_ns"]) < 1_000
    assert refill["verdict"] != "measured"
