# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs all benchmarks and prints one table of their aims: ``python benches/table.py [LOG...]``.

The last column has the values of the run before, which are kept in ``build/bench.json``. Logs that
are given are read instead. Ratios compare between runs, rates between runs on one quiet machine.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOG = ROOT / "build" / "bench.log"
KEPT = ROOT / "build" / "bench.json"
COMMANDS = (
    ("cargo", "bench", "-p", "torpor-benches", "--no-fail-fast"),
    (sys.executable, "benches/sweep.py"),
    (sys.executable, "benches/start.py"),
)
#: What `aim` of `benches/src/lib.rs` and of the scripts prints.
LINE = re.compile(r"aim: (.+): (-?[\d.]+), at (most|least) ([\d.]+)")


def measured() -> str:
    """Run the benchmarks, and return what they print, which goes to the log as it comes."""
    with LOG.open("w") as log:
        for command in COMMANDS:
            subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=False)
    return LOG.read_text()


def main() -> int:
    """Print the table, and return 1 if an aim is not met or nothing was measured."""
    logs = [Path(name).read_text() for name in sys.argv[1:]] or [measured()]
    before = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    found = {}
    is_over = False
    print(f"{'':<50} {'value':>9} {'limit':>10} {'before':>9}")
    for text in logs:
        for line in filter(None, map(LINE.fullmatch, text.splitlines())):
            what, value, limit = line[1], float(line[2]), float(line[4])
            is_met = value <= limit if line[3] == "most" else value >= limit
            is_over |= not is_met
            found[what] = value
            sign = "<=" if line[3] == "most" else ">="
            earlier = f"{before[what]:9.3f}" if what in before else f"{'':9}"
            verdict = "" if is_met else "  not met"
            print(f"{what:<50} {value:>9.3f} {f'{sign} {limit:g}':>10} {earlier}{verdict}")
    KEPT.write_text(json.dumps(before | found, indent=1))
    for text in logs:
        for line in text.splitlines():
            if line.startswith("not run"):
                print(line)
    return int(is_over or not found)


if __name__ == "__main__":
    sys.exit(main())
