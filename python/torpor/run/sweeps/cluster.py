# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs points on the workers of a Dask cluster, which need not share files with this machine.

Files travel as parcels, each named by its content, so that a worker gets it once. A parcel is the
result of a task: the scheduler makes it again if the only worker that had it dies.
"""

import contextlib
import functools
import hashlib
import os
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from torpor import _engine
from torpor.run.sweeps.axes import Point, SweepError, split_numbers
from torpor.run.sweeps.identity import engine_id
from torpor.run.sweeps.parts import Row, row_of
from torpor.run.sweeps.points import Recordings, run_point

#: Dask's type: a machine need not have Dask.
_Future = Any

#: Time limit for a scheduler to answer, in s.
_CONNECT_S = 10.0
#: Points that wait for each thread of the cluster, so that none idles between two.
_AHEAD = 4
#: A cluster without workers gets this many points, so that an adaptive one grows.
_AHEAD_MIN = 32
_IN_TREE = re.compile(r"(.*/)?drivers/cpuidle/governors")

_Files = dict[str, bytes]


@dataclass(frozen=True)
class Parcel:
    """Files that a point needs, by their places in a folder; ``main`` is the one it names."""

    key: str
    main: str


class Cluster:
    """The workers of a scheduler."""

    def __init__(self, address: str, room_bytes: int | None = None) -> None:
        """Connect to it.

        Raises :class:`SweepError` where ``distributed`` is not installed, or nothing answers.
        """
        try:
            self._dask = import_module("distributed")
        except ImportError:
            raise SweepError(
                "a cluster requires Dask's `distributed`, which is not installed\n"
                "hint: pip install 'torpor[cluster]'"
            ) from None
        try:
            self._client = self._dask.Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise SweepError(f"no Dask scheduler answers at `{address}`: {error}") from None
        self._room_bytes = room_bytes
        self._parcels: dict[str, _Future] = {}
        # Cache of this sweep alone: a file may have changed by the next one.
        self._made = functools.cache(lambda make, spec: make(spec))

    def rows(self, points: list[tuple[str, Point]]) -> Iterator[Row]:
        """Yield rows as they are finished; a point whose workers died is run again."""
        waiting = iter(points)
        running: dict[_Future, tuple[str, Point]] = {}
        finished = self._dask.as_completed(loop=self._client.loop)
        asked_s, room = 0.0, _AHEAD_MIN
        try:
            while True:
                if time.monotonic() - asked_s > 1:
                    threads = sum(self._client.nthreads().values())
                    asked_s, room = time.monotonic(), max(_AHEAD * threads, _AHEAD_MIN)
                for name, point in islice(waiting, max(0, room - len(running))):
                    future = self._submit(name, point)
                    running[future] = (name, point)
                    finished.add(future)
                if not running:
                    return
                future = next(finished)
                name, point = running.pop(future)
                yield self._row(future, name, point)
                self._forget({each.source for _, each in running.values()} | {point.source})
        finally:
            with contextlib.suppress(Exception):
                self._client.cancel(list(running))
            self._client.close()

    def _submit(self, name: str, point: Point) -> _Future:
        parcels, here = [], {}
        for field, made in (
            ("source", self._made(_file_parcel, point.source)),
            ("platform", self._made(_platform_parcel, point.platform)),
            ("governor", self._made(_governor_parcel, point.governor)),
            ("cpufreq", self._made(_file_parcel, point.cpufreq or "")),
            ("io_boost", self._made(_file_parcel, point.io_boost or "")),
        ):
            if made is not None:
                parcel, files = made
                here[field] = parcel
                parcels.append(self._shipped(point.source, parcel, files))
        return self._client.submit(
            _run_here,
            *(name, point, here, engine_id(), self._room_bytes, *parcels),
            key=f"torpor-{name}-{time.monotonic_ns()}",
            pure=False,
        )

    def _shipped(self, source: str, parcel: Parcel, files: Any) -> _Future:
        """The parcel on the cluster; it stays there as long as points of its source run."""
        key = f"{source}\0{parcel.key}"
        if key not in self._parcels:
            with warnings.catch_warnings():
                # Dask advises against large arguments; here one is sent once.
                warnings.simplefilter("ignore")
                self._parcels[key] = self._client.submit(
                    _handed_over, files(), key=f"torpor-parcel-{parcel.key}"
                )
        return self._parcels[key]

    def _forget(self, sources: set[str]) -> None:
        for key in [key for key in self._parcels if key.split("\0")[0] not in sources]:
            del self._parcels[key]

    def _row(self, future: _Future, name: str, point: Point) -> Row:
        try:
            row: Row = future.result()
        except self._dask.KilledWorker as error:
            return row_of(name, point, {}, f"the workers that ran it died: {error}", 0.0)
        except SweepError:
            raise
        except Exception as error:
            raise SweepError(f"a worker failed: {type(error).__name__}: {error}") from error
        return row


def _handed_over(files: _Files) -> _Files:
    return files


def _file_parcel(spec: str) -> "tuple[Parcel, Any] | None":
    base, _ = split_numbers(spec)
    if not os.path.isfile(base):
        return None
    digest = hashlib.sha256()
    with open(base, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    name = os.path.basename(base)
    return Parcel(digest.hexdigest()[:32], name), lambda: {name: Path(base).read_bytes()}


def _platform_parcel(spec: str) -> "tuple[Parcel, Any] | None":
    base, _ = split_numbers(spec)
    if not os.path.exists(base):
        return None
    # A file, or a dump of a machine, as the file it is read as.
    return _made({f"{Path(base).stem}.toml": _engine.platform_toml(base).encode()})


def _governor_parcel(spec: str) -> "tuple[Parcel, Any] | None":
    base, _ = split_numbers(spec)
    path = Path(base)
    if not path.is_file():
        return None
    source = _engine.governor_source(base)
    files, main = dict(source["files"]), source["main"]
    folder = path.resolve().parent
    tree = _IN_TREE.fullmatch(str(folder))
    makefile = folder.parents[2] / "Makefile" if tree else None
    if makefile is None or not makefile.is_file():
        return _made(files, main)
    # A tree's governor is compiled against that kernel's interface, by the tree's Makefile.
    inside = "drivers/cpuidle/governors/"
    laid = {inside + name: text for name, text in files.items()}
    return _made(laid | {"Makefile": makefile.read_bytes()}, inside + main)


def _made(files: _Files, main: str | None = None) -> "tuple[Parcel, Any]":
    digest = hashlib.sha256()
    for name, text in sorted(files.items()):
        digest.update(f"{name}\0{len(text)}\0".encode() + text)
    return Parcel(digest.hexdigest()[:32], main or next(iter(files))), lambda: files


def _run_here(
    name: str,
    point: Point,
    here: dict[str, Parcel],
    engine: str,
    room_bytes: int | None,
    *files: _Files,
) -> Row:
    """On a worker: unpack what came, and run the point."""
    worker = import_module("distributed").get_worker()
    if engine_id() != engine:
        raise SweepError(f"the worker {worker.address} has another build of Torpor")
    paths: dict[str, Any] = {}
    for (field, parcel), content in zip(here.items(), files, strict=True):
        path = _unpacked(os.path.join(worker.local_directory, "torpor"), parcel, content)
        _, settings = split_numbers(getattr(point, field))
        paths[field] = path + settings
    local = replace(point, **paths)
    return run_point(name, point, _recordings(room_bytes), lambda *_: None, local)


@functools.cache
def _recordings(room_bytes: int | None) -> Recordings:
    return Recordings(room_bytes)


def _unpacked(root: str, parcel: Parcel, files: _Files) -> str:
    folder = os.path.join(root, parcel.key)
    if not os.path.isdir(folder):
        # Threads of one worker may meet here: whole, or not there.
        made = f"{folder}.{time.monotonic_ns()}"
        for name, content in files.items():
            path = Path(made, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        with contextlib.suppress(OSError):
            os.rename(made, folder)
    return os.path.join(folder, parcel.main)
