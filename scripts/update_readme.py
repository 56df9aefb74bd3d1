# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Writes the README's table, as its command prints it. A test fails where it is out of date."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = r"""torpor replay tests/data/guest/arm64-6.12-menu-rates/trace.dat.gz \
>     -p pixel6 --recorded-on pixel6 -g menu-6.12 -g teo-6.12 -g oracle"""
#: The rows that are shown.
ROWS = (
    "wake-ups",
    "sleeps",
    "too deep (above) %",
    "too shallow (below) %",
    "in deepest state %",
    "wake-up latency, mean µs",
    "wake-up latency, p99 µs",
    "idle power mW",
)
#: The last line is the agreement; the notes after it are left out.
LAST = "`torpor fidelity`"
FENCE = "```"


def demo_block() -> str:
    """Run the command that the block names, and return the block."""
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(COMMAND.replace("\\\n> ", ""))],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    return f"{FENCE}console\n$ {COMMAND}\n{shortened(done.stdout)}\n{FENCE}\n"


def shortened(printed: str) -> str:
    """Return the table with the rows of ``ROWS``; ``...`` stands for what is left out."""
    lines = printed.splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("──"))
    end = lines.index("", rule)
    rows = [
        line if line.startswith(tuple(f"{row}  " for row in ROWS)) else "..."
        for line in lines[rule + 1 : end]
    ]
    last = next(i for i, line in enumerate(lines) if LAST in line)
    kept = [*lines[: rule + 1], *rows, *lines[end : last + 1], "..."]
    # One mark for each gap.
    return "\n".join(
        line
        for line, before in zip(kept, [None, *kept], strict=False)
        if (line, before) != ("...", "...")
    )


def with_block(text: str, block: str) -> str:
    """Return the README with its first console block replaced."""
    start = text.index(f"{FENCE}console\n")
    end = text.index(f"\n{FENCE}\n", start) + len(f"\n{FENCE}\n")
    return text[:start] + block + text[end:]


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(with_block(readme.read_text("utf-8"), demo_block()), "utf-8")
