# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Residency and wake-ups per state, against a count that shares no code with Torpor."""

import gzip
import shutil
from pathlib import Path

import pytest

import torpor
from count_idle import count
from processes import ran

ROOT = Path(__file__).resolve().parents[2]
TEXT = ROOT / "crates" / "torpor-trace" / "tests" / "data" / "plain.perf-script.txt"
DEMO = ROOT / "demo" / "web-server.perf.data"
GUESTS = [
    "amd64-6.1-menu-mix",
    "amd64-6.12-menu-mix",
    "amd64-6.12-time-t-teo-6.12-rates",
    "arm64-6.12-t-teo-mix",
]


def ours(trace: Path) -> tuple[dict[tuple[int, int], list[int]], int]:
    """Return what ``count`` does, by Torpor."""
    cpus = torpor.trace_info(trace)["cpus"]
    states = {
        (cpu["cpu"], state["index"]): [state["usage"], state["time_ns"]]
        for cpu in cpus
        for state in cpu["states"]
    }
    return states, sum(cpu["cut_sleeps"] for cpu in cpus)


@pytest.fixture(params=GUESTS)
def dat(request, tmp_path) -> Path:
    """A guest's recording, unpacked: trace-cmd reads no gzip."""
    if not shutil.which("trace-cmd"):
        pytest.skip("not run, because trace-cmd is not installed")
    path = tmp_path / "trace.dat"
    packed = ROOT / "tests" / "data" / "guest" / request.param / "trace.dat.gz"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


def test_text_counts_the_same():
    states, cut = ours(TEXT)
    assert (states, cut) == count(TEXT.read_text().splitlines())
    assert states


def test_trace_dat_counts_equal_trace_cmds(dat, tmp_path):
    report = ran("trace-cmd", "report", "-t", dat, check=True).stdout
    states, cut = ours(dat)
    assert (states, cut) == count(report.splitlines()), f"trace-cmd printed: {report[:500]!r}"
    assert sum(usage for usage, _ in states.values()) > 200
    # As text it is the same recording, of another reader.
    text = tmp_path / "report.txt"
    text.write_text(report)
    assert ours(text) == (states, cut)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_version_7_counts_what_version_6_does(dat, tmp_path, compression):
    new = tmp_path / "v7.dat"
    converts = f"trace-cmd convert -i {dat} -o {new} --file-version 7 --compression {compression}"
    done = ran(*converts.split())
    if done.returncode:
        pytest.skip(f"not run, because trace-cmd does not convert: {done.stderr.strip()}")
    assert ours(new) == ours(dat)


def test_perf_data_counts_equal_perfs():
    if not shutil.which("perf"):
        pytest.skip("not run, because perf is not installed")
    script = ran("perf", "script", "--ns", "--force", "-i", DEMO, check=True).stdout
    states, cut = ours(DEMO)
    assert (states, cut) == count(script.splitlines())
    assert sum(usage for usage, _ in states.values()) > 5000
