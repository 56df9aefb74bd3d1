# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Measures the overhead of a sweep per point: ``python benches/sweep.py [POINTS]``.

The demo recording is replayed once per point, in one thread of one process, first directly and then
as a sweep. Ratios are of CPU time, which excludes other load.
"""

import sys
import tempfile
import time
from pathlib import Path

import torpor

RECORDING = Path(__file__).resolve().parents[1] / "demo" / "web-server.perf.data"
#: Limits of a sweep: ratio to the bare runs, and overhead per point.
RATIO_MAX = 1.2
OVERHEAD_MAX_MS = 3.0


def main() -> int:
    """Print both, and return 1 if the sweep costs more than its budget."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    limits = [f"{limit}us" for limit in range(1, count + 1)]
    trace = torpor.load_trace(RECORDING)
    started_s = time.process_time()
    for limit in limits:
        quiet = {"threads": 1, "decisions": False, "strip": False}
        trace.replay(platform="pixel6", governors=["teo"], latency_limit=limit, **quiet).to_dict()
    bare_s = time.process_time() - started_s
    axes = torpor.Axes(
        trace=[str(RECORDING)], platform=["pixel6"], governor=["teo"], latency_limit=limits
    )
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        started_s = time.process_time()
        assert torpor.sweep(axes, store, threads=1).done == count
        swept_s = time.process_time() - started_s
        started_s = time.process_time()
        assert torpor.sweep(axes, store, threads=1).done == 0
        again_s = time.process_time() - started_s
    ratio = swept_s / bare_s
    overhead_ms = (swept_s - bare_s) / count * 1000
    print(f"{count} points: bare {bare_s:.2f} s of CPU time, sweep {swept_s:.2f} s")
    print(f"ratio {ratio:.3f}, overhead {overhead_ms:.3f} ms a point; all known: {again_s:.2f} s")
    return int(ratio > RATIO_MAX or overhead_ms > OVERHEAD_MAX_MS)


if __name__ == "__main__":
    sys.exit(main())
