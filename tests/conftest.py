# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Signals as in a terminal's foreground, tests that share a process, and the kernel's source."""

import os
from pathlib import Path

import foreground
import pytest

foreground.listen()

# Folder of the sources that `make test` fetches and simulations compile.
_SOURCES = Path(__file__).parents[1] / "build" / "kernel-sources"
os.environ.setdefault("TORPOR_KERNEL_SOURCES", str(_SOURCES))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        group = item.path.name
        if item.path.parent.name == "guest":
            parameters = getattr(item, "callspec", None)
            group = f"guest-{parameters.params.get('kernel') if parameters else None}"
        item.add_marker(pytest.mark.xdist_group(group))
