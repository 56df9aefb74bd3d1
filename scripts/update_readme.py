# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Puts the demo's table into README.md, as `make demo` prints it. A test says when it is due."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = "torpor replay demo/web-server.perf.data --platform pixel6"
FENCE = "```"


def demo_block() -> str:
    """Run the command that the block names, and return the block."""
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-m", *COMMAND.split()],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    return f"{FENCE}console\n$ {COMMAND}\n{done.stdout.rstrip()}\n{FENCE}\n"


def with_block(text: str, block: str) -> str:
    """Return the README with its first console block replaced."""
    start = text.index(f"{FENCE}console\n")
    end = text.index(f"\n{FENCE}\n", start) + len(f"\n{FENCE}\n")
    return text[:start] + block + text[end:]


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(with_block(readme.read_text("utf-8"), demo_block()), "utf-8")
