# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Signals as in a terminal's foreground, tests that share a process, and the kernel's source."""

import os
import re
from pathlib import Path

import foreground
import pytest

foreground.listen()

# Folder of the sources that `make test` fetches and simulations compile.
_SOURCES = Path(__file__).parents[1] / "build" / "kernel-sources"
os.environ.setdefault("TORPOR_KERNEL_SOURCES", str(_SOURCES))


def shared(nodeid: str) -> str:
    """Return the name of what a test shares with others: a guest, its file, or nothing."""
    path, _, name = nodeid.partition("::")
    if path.startswith("tests/guest/") and (arch := re.search("amd64|arm64", name)):
        return arch[0]
    return nodeid if path.endswith("/test_examples.py") else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Run tests that share a fixture in one process, so that it is made once."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return shared(nodeid)

    return Scheduling(config, log)
