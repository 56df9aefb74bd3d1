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
    assert "left out: sleeps of which" in (tmp_path / "page.html").read_text()


@pytest.mark.skipif(not MAILED.is_file(), reason="not run, because ../shared/field is not there")
def test_a_mailed_chromebook_leaves_cpuoff_in_84_us():
    result = library.measure_latency(MAILED)
    (row,) = [r for r in result["latency"] if (r["name"], r["cause"]) == ("cpuoff-l", "ipi")]
    assert (row["advertised_ns"], row["count"]) == (349_000, 66)
    assert row["p50_ns"] == pytest.approx(84_000, rel=0.01)
    assert all(r["p50_ns"] < 0 for r in result["latency"] if r["cause"] == "interrupt")
