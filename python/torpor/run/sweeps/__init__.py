# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Many questions at once: the product of governors, recordings, workloads, machines and settings.

A point is one governor in one scenario with one seed. Its name is a hash of everything that decides
its result, so a store never holds two answers to one question, and nothing runs twice.
"""

from torpor.run.sweeps.axes import Axes, Point, SweepError
from torpor.run.sweeps.parts import StoreWarning
from torpor.run.sweeps.run import Progress, sweep
from torpor.run.sweeps.store import Store, open_store

__all__ = [
    "Axes",
    "Point",
    "Progress",
    "Store",
    "StoreWarning",
    "SweepError",
    "open_store",
    "sweep",
]
