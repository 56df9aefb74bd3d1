# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Kernel sources for tests, as Debian ships them."""

import subprocess
from pathlib import Path

import pytest


def kernel_sources(release: str) -> Path:
    """Return the folder with a release's sources; skip if it is not available."""
    done = subprocess.run(
        [Path(__file__).with_name("kernel_sources.sh"), release],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip(f"not run: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())
