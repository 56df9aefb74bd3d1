# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Entry points of installed packages: what they add to Torpor, see :mod:`torpor.plugin`.

importlib.metadata reads the same files, but its import takes as long as all of ``torpor --help``.
"""

import os
import sys
from functools import cache
from importlib import import_module
from typing import Any

from torpor._engine import TorporError
from torpor.results.files import read_text


@cache
def listed(group: str) -> dict[str, str]:
    """Return the entry points of a group: ``module:object`` by name. The first of a name counts."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys(path or "." for path in sys.path):
        try:
            packages = sorted(os.listdir(folder))
        except OSError:
            continue
        for package in packages:
            if package.endswith((".dist-info", ".egg-info")):
                for name, home in _of_package(f"{folder}/{package}", group).items():
                    found.setdefault(name, home)
    return found


def load(group: str, name: str) -> Any:
    """Return the object of an entry point, or None if no package has it.

    Raises :class:`torpor.TorporError` where the package does not fit this Torpor.
    """
    home, _, name_there = listed(group).get(name, "").partition(":")
    try:
        return getattr(import_module(home), name_there) if home else None
    except (ImportError, AttributeError) as error:
        hint = f"hint: install another version of `{home.partition('.')[0]}`, or remove it"
        raise TorporError(f"entry point `{name}` of `{group}`: {error}\n{hint}") from error


def _of_package(folder: str, group: str) -> dict[str, str]:
    try:
        text = read_text(f"{folder}/entry_points.txt", errors="replace")
    except OSError:
        return {}
    _, _, own = f"\n{text}".partition(f"\n[{group}]\n")
    lines = own.partition("\n[")[0].splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name.strip(): home.strip() for name, _, home in pairs}
