# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Which tests run in one process: a file's, which share fixtures, and a guest's."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        group = item.path.name
        if item.path.parent.name == "guest":
            parameters = getattr(item, "callspec", None)
            group = f"guest-{parameters.params.get('kernel') if parameters else None}"
        item.add_marker(pytest.mark.xdist_group(group))
