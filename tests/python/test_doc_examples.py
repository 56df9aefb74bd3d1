# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The examples in docstrings are run, with `recording` as the demo's."""

import doctest
import importlib
import pkgutil

import pytest

import torpor

MODULES = ["torpor"] + [
    module.name
    for module in pkgutil.walk_packages(torpor.__path__, "torpor.")
    if not module.name.endswith(("__main__", "_engine"))
]


@pytest.mark.parametrize("name", MODULES)
def test_doc_examples(name, recording):
    module = importlib.import_module(name)
    found = doctest.testmod(
        module, extraglobs={"torpor": torpor, "recording": recording}, report=True
    )
    assert found.failed == 0


def test_public_names_are_documented():
    undocumented = [
        name
        for name in torpor.__all__
        if not name.startswith("_") and not (getattr(torpor, name).__doc__ or "").strip()
    ]
    assert undocumented == []
