# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The examples in docstrings are run, with `recording` as the demo's."""

import doctest
import importlib
import pkgutil

import pytest

import torpor
import torpor_lab

MODULES = ["torpor", "torpor_lab"] + [
    module.name
    for package in (torpor, torpor_lab)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith(("__main__", "_engine"))
]
GIVEN = {"torpor": torpor, "torpor_lab": torpor_lab}


@pytest.mark.parametrize("name", MODULES)
def test_doc_examples(name, recording):
    module = importlib.import_module(name)
    found = doctest.testmod(module, extraglobs={**GIVEN, "recording": recording}, report=True)
    assert found.failed == 0


def test_public_names_are_documented():
    undocumented = [
        name
        for package in (torpor, torpor_lab)
        for name in package.__all__
        if not name.startswith("_") and not (getattr(package, name).__doc__ or "").strip()
    ]
    assert undocumented == []
