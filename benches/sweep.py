# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Measures the overhead of a sweep per point: ``python benches/sweep.py [POINTS]``.

The demo recording is replayed once per point, in one thread of one process: directly from memory,
then as a sweep; and some times with inputs that are extracted again. A recording of few sleeps
shows the fixed costs: of a point, to a replay whose whole result is read, and of the client of a
cluster. Ratios are of CPU time, which excludes other load.
"""

import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torpor

ROOT = Path(__file__).resolve().parents[1]
RECORDING = ROOT / "demo" / "web-server.perf.data"
#: A hundred sleeps.
CHEAP = ROOT / "tests/data/guest/amd64-6.12-time-t-teo-6.12-predict/trace.dat.gz"
#: Limits of a sweep: ratio to the bare runs, and overhead per point.
RATIO_MAX = 1.2
OVERHEAD_MAX_MS = 0.3
#: Limit of a replay whose inputs are kept, as part of one that extracts them.
KEPT_MAX = 0.5
#: Limit of a cheap point of a sweep, to a cheap replay whose whole result is read.
CHEAP_MAX = 0.7
#: Limit of a cluster's client: 5,000 points a second.
CLIENT_MAX_MS = 0.2
#: A scheduler and two workers, until its input ends.
CLUSTER = """
import sys
from distributed import LocalCluster
with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as made:
    print(made.scheduler_address, flush=True)
    sys.stdin.read()
"""

#: One thread, and no decisions, as a sweep does.
QUIET = {"threads": 1, "decisions": False, "strip": False}


def replayed_s(trace: torpor.Trace, limit: str) -> float:
    """Return the CPU time of a replay as a dictionary."""
    started_s = time.process_time()
    trace.replay(platform="pixel6", governors=["teo"], latency_limit=limit, **QUIET).to_dict()
    return time.process_time() - started_s


def swept_s(recording: Path, limits: list[str], **given: object) -> tuple[float, float]:
    """Return the CPU time of a sweep, and of the same sweep again, which finds all points."""
    axes = torpor.Axes(
        trace=[str(recording)], platform=["pixel6"], governor=["teo"], latency_limit=limits
    )
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        started_s = time.process_time()
        assert torpor.sweep(axes, store, **given).done == len(limits)
        first_s = time.process_time() - started_s
        assert torpor.sweep(axes, store, threads=1).done == 0
        return first_s, time.process_time() - started_s - first_s


def client_ms(limits: list[str]) -> float | None:
    """Return the CPU time per point of a cluster's client; None without Dask."""
    if importlib.util.find_spec("distributed") is None:
        return None
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cluster:
        assert cluster.stdin and cluster.stdout
        dask = cluster.stdout.readline().strip()
        # The first sweep imports and connects.
        swept_s(CHEAP, limits[:100], dask=dask)
        first_s, _ = swept_s(CHEAP, limits, dask=dask)
        cluster.stdin.close()
    return first_s / len(limits) * 1e3


def main() -> int:
    """Print all of them, and return 1 if one is beyond its limit."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    limits = [f"{limit}us" for limit in range(1, count + 1)]
    trace = torpor.load_trace(RECORDING)
    bare_s = sum(replayed_s(trace, limit) for limit in limits)
    extracted_s = min(replayed_s(torpor.load_trace(RECORDING), "1us") for _ in range(20))
    kept_s = min(replayed_s(trace, "1us") for _ in range(20))
    sweep_s, again_s = swept_s(RECORDING, limits, threads=1)
    cheap = torpor.load_trace(CHEAP)
    # The best of each: neither lasts long.
    points_s = min(swept_s(CHEAP, limits, threads=1)[0] for _ in range(3))
    cheap_s = points_s / min(sum(replayed_s(cheap, x) for x in limits) for _ in range(3))
    many = [f"{limit}us" for limit in range(1, 10 * count + 1)]
    client = client_ms(many)
    ratio, kept = sweep_s / bare_s, kept_s / extracted_s
    overhead_ms = (sweep_s - bare_s) / count * 1000
    print(f"{count} points: bare {bare_s:.2f} s of CPU time, sweep {sweep_s:.2f} s")
    print(f"all known: {again_s:.2f} s")
    print(f"a cheap point {points_s / count * 1e3:.3f} ms")
    print(f"a replay {kept_s * 1e3:.2f} ms, with its inputs {extracted_s * 1e3:.2f} ms")
    print(f"aim: a sweep to its replays: {ratio:.3f}, at most {RATIO_MAX}")
    print(f"aim: overhead of a point, ms: {overhead_ms:.3f}, at most {OVERHEAD_MAX_MS}")
    print(f"aim: a replay with kept inputs to one without: {kept:.3f}, at most {KEPT_MAX}")
    print(f"aim: a cheap point to a whole result: {cheap_s:.3f}, at most {CHEAP_MAX}")
    if client is None:
        print("not run: a cluster's client: pip install distributed")
    else:
        print(f"aim: a cluster's client a point, ms: {client:.3f}, at most {CLIENT_MAX_MS}")
    is_over = ratio > RATIO_MAX or overhead_ms > OVERHEAD_MAX_MS or kept > KEPT_MAX
    return int(is_over or cheap_s > CHEAP_MAX or (client or 0.0) > CLIENT_MAX_MS)


if __name__ == "__main__":
    sys.exit(main())
