# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A simulation as the points of a sweep, and the store of a command."""

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torpor import _engine
from torpor._engine import TorporError
from torpor.machine.kernel_sources import cache_folder
from torpor.run import options
from torpor.run.sweeps.axes import POINT_OPTIONS, Point
from torpor.run.sweeps.identity import Identities, source_of
from torpor.run.sweeps.parts import COUNTS, row_of
from torpor.run.sweeps.store import Store, Writer

#: Stores of commands older than this are deleted.
_KEPT_S = 30 * 24 * 3600


def points(
    workload: str | dict[str, Any],
    platform: str,
    governors: Iterable[str],
    given: Mapping[str, Any],
) -> list[Point]:
    """Return the points of a simulation without their seeds, in the order of its columns."""
    if isinstance(workload, dict):
        workload = source_of(workload)
    plain = json.loads(options.to_json(options.SimulateOptions, given))["given"]
    decisive: dict[str, Any] = {
        name: value
        for name, value in plain.items()
        if name not in POINT_OPTIONS and value not in ([], "")
    }
    names = list(governors)
    oracles = [name for name in names if name.partition(",")[0] == "oracle"]
    if oracles and oracles != ["oracle"]:
        decisive["oracle"] = oracles

    def listed(name: str) -> list[str | None]:
        value = plain.get(name) or [None]
        return [value] if isinstance(value, str) else value

    axes = (
        *(listed("cpufreq"), listed("io_boosts"), listed("schedulers"), listed("kernels")),
        names,
    )
    return [
        Point(
            kind="simulation",
            source=workload,
            platform=platform,
            governor=governor,
            kernel=kernel or _engine.default_kernel(),
            cpufreq=cpufreq,
            io_boost=io_boost,
            scheduler=scheduler,
            hz=plain.get("hz"),
            latency_limit=options.limits_text(plain),
            options=json.dumps(decisive, sort_keys=True),
            has_oracle=bool(oracles),
        )
        for cpufreq, io_boost, scheduler, kernel, governor in itertools.product(*axes)
        if governor not in oracles
    ]


class Finished:
    """Finished runs of one simulation: a point of the store for each column and seed.

    The engine calls :meth:`get` and :meth:`put`, from any thread. What goes wrong with the store
    costs the store, and not the simulation: see :attr:`failure`.
    """

    def __init__(self, store: Store, columns: list[Point], given: Mapping[str, Any]) -> None:
        """Hold the columns' points, which have no seeds, and the options; nothing is read yet."""
        self._store, self._columns, self._given = store, columns, given
        self._lock = threading.Lock()
        self._writing = contextlib.ExitStack()
        self._began_s: dict[tuple[int, int], float] = {}
        #: Number of runs that were in the store.
        self.found = 0
        #: Why the store does not keep every run; None if it does.
        self.failure: str | None = None

    @cached_property
    def _points(self) -> dict[tuple[int, int], tuple[str, Point]]:
        """The name and point of each column and seed."""
        identities = Identities(of_kernel=True)
        known = options.fields(options.SimulateOptions)
        seed, seeds = (self._given.get(n, known[n][1].default) for n in ("seed", "seeds"))
        return {
            (column, one): (identities.key(point), point)
            for column, of_all in enumerate(self._columns)
            for one in range(seed, seed + seeds)
            for point in [replace(of_all, seed=one)]
        }

    @cached_property
    def _known(self) -> dict[str, str]:
        return self._store.counts({name for name, _ in self._points.values()})

    @cached_property
    def _writer(self) -> Writer:
        self._store.name_governors(point.governor for point in self._columns)
        return self._writing.enter_context(self._store.writer())

    def get(self, column: int, seed: int) -> str | None:
        """Return the counts of a run that the store has."""
        with self._lock, self._noted():
            if self.failure is None and (counts := self._known.get(self._points[column, seed][0])):
                self.found += 1
                return counts
        self._began_s[column, seed] = time.monotonic()
        return None

    def put(self, column: int, seed: int, metrics: dict[str, float | None], counts: str) -> None:
        """Add a run to the store."""
        with self._lock, self._noted():
            if self.failure is None:
                run_ms = 1000 * (time.monotonic() - self._began_s[column, seed])
                row = row_of(*self._points[column, seed], metrics, None, run_ms)
                self._writer.add(row | {COUNTS: counts})

    def close(self) -> None:
        """Make a shard of what was added."""
        with self._noted():
            self._writing.close()

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failure = self.failure or f"`{error.filename}`: {error.strerror}"
        except TorporError as error:
            self.failure = self.failure or str(error)


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
