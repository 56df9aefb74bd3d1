# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Measures what short commands cost: ``python benches/start.py [ROUNDS]``.

Whole processes, against one that only imports Click, which reads their options. Ratios are of CPU
time, which excludes other load; the cheapest round of each counts.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

RECORDING = Path(__file__).resolve().parents[1] / "demo" / "web-server.perf.data"
REPLAY = ("replay", str(RECORDING), "--platform", "pixel6")
FRAMES = ("simulate", "frames", "--platform", "pixel6", "--duration", "1s", "--seeds", "1")
#: Largest ratio of each.
LIMITS = {
    "--version": 1.25,
    "--help": 1.35,
    "wrong option": 1.6,
    "replay of the demo": 3.0,
    "its page": 10.0,
    "a second of frames": 4.0,
}


def cpu_s(*words: str) -> float:
    """Return the CPU time of a process, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *words], capture_output=True)
    assert done.returncode == 2 * (words[-1] == "--wrong"), done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Print a line for each command, and return 1 if one costs more than its limit."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    with tempfile.TemporaryDirectory() as folder:
        torpor = ("-m", "torpor")
        commands = {
            "import click": ("-c", "import click"),
            "--version": (*torpor, "--version"),
            "--help": (*torpor, "--help"),
            "wrong option": (*torpor, "replay", "--wrong"),
            "replay of the demo": (*torpor, *REPLAY),
            "a second of frames": (*torpor, *FRAMES),
            "its page": (*torpor, *REPLAY, "--force", "--report", f"{folder}/page.html"),
        }
        best = dict.fromkeys(commands, float("inf"))
        # The first round fills caches.
        for _ in range(rounds + 1):
            for name, words in commands.items():
                best[name] = min(best[name], cpu_s(*words))
    is_over = False
    for name, limit in LIMITS.items():
        ratio = best[name] / best["import click"]
        is_over |= ratio > limit
        print(f"{name:<20} {best[name] * 1e3:6.0f} ms")
        print(f"aim: {name} to importing click: {ratio:.3f}, at most {limit}")
    return int(is_over)


if __name__ == "__main__":
    sys.exit(main())
