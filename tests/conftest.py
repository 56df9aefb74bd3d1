# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Signals as in the foreground of a terminal, and which tests share a process: those of a file."""

import foreground
import pytest

foreground.listen()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        group = item.path.name
        if item.path.parent.name == "guest":
            parameters = getattr(item, "callspec", None)
            group = f"guest-{parameters.params.get('kernel') if parameters else None}"
        item.add_marker(pytest.mark.xdist_group(group))
