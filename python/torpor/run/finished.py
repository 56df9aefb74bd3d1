# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A simulation as the points of a sweep, and the store of a command."""

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import stat
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torpor import _engine
from torpor.machine.kernel_sources import cache_folder
from torpor.run import options
from torpor.run.sweeps.axes import POINT_OPTIONS, Point
from torpor.run.sweeps.identity import Identities
from torpor.run.sweeps.parts import Row, row_of
from torpor.run.sweeps.store import Store

#: Stores of commands older than this are deleted.
_KEPT_S = 30 * 24 * 3600


def points(
    workload: str, platform: str, governors: Iterable[str], given: Mapping[str, Any]
) -> list[Point]:
    """Return the points of a simulation without their seeds, in the order of its columns."""
    plain: dict[str, Any] = json.loads(options.to_json(options.SimulateOptions, given))
    known = options.fields(options.SimulateOptions)
    decisive = {
        name: value
        for name, value in plain.items()
        if known[name][1].decides and name not in POINT_OPTIONS and value not in (None, [], "")
    }
    names = list(governors)
    oracles = [name for name in names if name.partition(",")[0] == "oracle"]
    if oracles and oracles != ["oracle"]:
        decisive["oracle"] = oracles

    def listed(name: str) -> list[str | None]:
        value = plain.get(name) or [None]
        return [value] if isinstance(value, str) else value

    axes = (listed("cpufreq"), listed("io_boosts"), listed("kernels"), names)
    return [
        Point(
            kind="simulation",
            source=workload,
            platform=platform,
            governor=governor,
            kernel=kernel or _engine.default_kernel(),
            cpufreq=cpufreq,
            io_boost=io_boost,
            hz=plain.get("hz"),
            latency_limit=plain.get("latency_limit"),
            options=json.dumps(decisive, sort_keys=True),
            has_oracle=bool(oracles),
        )
        for cpufreq, io_boost, kernel, governor in itertools.product(*axes)
        if governor not in oracles
    ]


def keep_rows(store: Store, columns: list[Point], runs: list[Any], run_ms: float) -> None:
    """Add the finished seeds of a simulation to the points of a store, as a sweep does.

    Raises OSError if the store cannot be written.
    """
    identities = Identities()
    rows: list[Row] = []
    for column, run in zip(columns, runs, strict=True):
        for found in run["seeds"]:
            point = replace(column, seed=found["seed"])
            rows.append(row_of(identities.key(point), point, found["metrics"], None, run_ms))
    store.name_governors(point.governor for point in columns)
    store.add(rows)


def folder_of_command(*words: object) -> Path | None:
    """Return the folder for the store of a command, in the user's cache.

    None if others may write to it, since they could add runs.
    """
    folder = cache_folder("runs")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    is_ours = found.st_uid == os.geteuid() and not found.st_mode & 0o022
    if not (stat.S_ISDIR(found.st_mode) and is_ours):
        return None
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.stat().st_mtime < time.time() - _KEPT_S:
                shutil.rmtree(path, ignore_errors=True)
    text = json.dumps([os.getcwd(), *map(str, words)])
    return folder / hashlib.sha256(text.encode()).hexdigest()[:16]
