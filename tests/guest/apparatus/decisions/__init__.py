# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Compares the decisions of a kernel in a guest with those of the same kernel hosted, under one
load.

    PYTHONPATH=tests/guest build/venv/bin/python -m apparatus.decisions [--record MACHINE] KERNEL

prints the tables of docs/concepts/simulation.md and of four guides: the guests of
tests/data/decisions.json, or new ones that are then kept there, beside KERNEL hosted, as `torpor
simulate --kernel` takes it.
"""

from .figures import Figures, figures, rows, value
from .guests import CORPUS, Guests, hosted, record, table
from .load import changes, groups, load_command
from .machines import CASES, MACHINES, TABLES, Machine, platform_toml

__all__ = [
    "CASES",
    "CORPUS",
    "MACHINES",
    "TABLES",
    "Figures",
    "Guests",
    "Machine",
    "changes",
    "figures",
    "groups",
    "hosted",
    "load_command",
    "platform_toml",
    "record",
    "rows",
    "table",
    "value",
]
