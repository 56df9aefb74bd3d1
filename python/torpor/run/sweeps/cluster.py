# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs points on the workers of a Dask cluster, which need not share files with this machine.

Files travel as parcels, each named by its content, so that a worker gets it once. A parcel is the
result of a task: the scheduler makes it again if the only worker that had it dies.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from torpor import _engine
from torpor.results.files import read_bytes
from torpor.run.recordings import dumps_to_use
from torpor.run.sweeps.axes import Point, SweepError, split_numbers
from torpor.run.sweeps.batches import Batch, Waiting
from torpor.run.sweeps.identity import engine_id, file_hash
from torpor.run.sweeps.parts import Line, line_of, row_of
from torpor.run.sweeps.points import Recordings, run_point

#: Dask's type: a machine need not have Dask.
_Future = Any

#: Time limit for a scheduler to answer, in s.
_CONNECT_S = 10.0
#: Batches that wait for each thread of the cluster, so that none idles between two.
_AHEAD = 4
#: A cluster without workers gets this many batches, so that an adaptive one grows.
_AHEAD_MIN = 32
#: The client and the scheduler spend some 5 ms on each task, of one point or many.
_BATCH_MS = 250.0
_IN_TREE = re.compile(r"(.*/)?drivers/cpuidle/governors")

_Files = dict[str, bytes]


@dataclass(frozen=True)
class Parcel:
    """Files that a point needs, by their places in a folder; ``main`` is the one it names."""

    key: str
    main: str


#: A point with its name and the parcels that it needs, by the fields that name them.
_Local = tuple[str, Point, dict[str, Parcel]]


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
        self._waiting = Waiting([], _BATCH_MS)
        #: Those that a batch died with.
        self._alone: Batch = []
        # Cache of this sweep alone: a file may have changed by the next one.
        self._made = functools.cache(lambda make, spec: make(spec))

    def lines(self, points: list[tuple[str, Point]]) -> Iterator[list[Line]]:
        """Yield lines of points as they finish; run a point again if its workers died."""
        self._waiting = Waiting(points, _BATCH_MS)
        running: dict[_Future, Batch] = {}
        finished = self._dask.as_completed(loop=self._client.loop)
        asked_s, threads = 0.0, 0
        try:
            while True:
                if time.monotonic() - asked_s > 1:
                    asked_s, threads = time.monotonic(), sum(self._client.nthreads().values())
                while (self._waiting or self._alone) and len(running) < max(
                    _AHEAD * threads, _AHEAD_MIN
                ):
                    batch = self._next_batch(threads)
                    future = self._submit(batch)
                    running[future] = batch
                    finished.add(future)
                if not running:
                    return
                future = next(finished)
                batch = running.pop(future)
                if lines := self._lines_of(future, batch):
                    yield lines
                # A batch has one source.
                self._forget({each[0][1].source for each in (batch, *running.values())})
        finally:
            with contextlib.suppress(Exception):
                self._client.cancel(list(running))
            self._client.close()

    def _next_batch(self, threads: int) -> Batch:
        return [self._alone.pop()] if self._alone else self._waiting.take(_AHEAD * threads)

    def _submit(self, batch: Batch) -> _Future:
        here: list[_Local] = []
        parcels: dict[Parcel, _Future] = {}
        for name, point in batch:
            mine = {}
            for field, made in (
                ("source", self._made(_recording_parcel, point.source)),
                ("platform", self._made(_platform_parcel, point.platform)),
                ("governor", self._made(_governor_parcel, point.governor)),
                ("cpufreq", self._made(_file_parcel, point.cpufreq or "")),
                ("io_boost", self._made(_file_parcel, point.io_boost or "")),
                ("scheduler", self._made(_scheduler_parcel, point.scheduler or "")),
            ):
                if made is not None:
                    mine[field], files = made
                    if mine[field] not in parcels:
                        parcels[mine[field]] = self._shipped(point.source, mine[field], files)
            here.append((name, point, mine))
        # Packed: Dask would look for its own objects in each field of each point.
        packed = pickle.dumps((here, engine_id(), self._room_bytes, list(parcels)))
        return self._client.submit(
            _run_here,
            *(packed, *parcels.values()),
            key=f"torpor-{batch[0][0]}-{time.monotonic_ns()}",
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

    def _lines_of(self, future: _Future, batch: Batch) -> list[Line]:
        try:
            lines: list[Line] = future.result()
        except self._dask.KilledWorker as error:
            if len(batch) > 1:
                # One of them kills its worker; a separate batch for each shows which.
                self._alone += batch
                return []
            ((name, point),) = batch
            row = row_of(name, point, {}, f"the workers that ran it died: {error}", 0.0)
            return [Line(line_of(row), True, 0.0)]
        except SweepError:
            raise
        except Exception as error:
            raise SweepError(f"a worker failed: {type(error).__name__}: {error}") from error
        self._waiting.learn(lines)
        return lines


def _handed_over(files: _Files) -> _Files:
    return files


def _file_parcel(spec: str, *beside: str) -> "tuple[Parcel, Any] | None":
    base, _ = split_numbers(spec)
    if not os.path.isfile(base):
        return None
    files = {os.path.basename(path): path for path in (base, *beside)}
    digest = hashlib.sha256("".join(map(file_hash, files.values())).encode()).hexdigest()
    read = lambda: {name: read_bytes(path) for name, path in files.items()}  # noqa: E731
    return Parcel(digest[:32], os.path.basename(base)), read


def _recording_parcel(spec: str) -> "tuple[Parcel, Any] | None":
    # With the dumps that identify its machine; a workload has none.
    return _file_parcel(spec, *(dumps_to_use(Path(spec), None, None) or ()))


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
    return _made(laid | {"Makefile": read_bytes(makefile)}, inside + main)


def _scheduler_parcel(spec: str) -> "tuple[Parcel, Any] | None":
    base, _ = split_numbers(spec)
    if not os.path.isfile(base):
        return None
    # With the headers of its tree.
    return _made(_engine.scheduler_files(base), os.path.basename(base))


def _made(files: _Files, main: str | None = None) -> "tuple[Parcel, Any]":
    digest = hashlib.sha256()
    for name, text in sorted(files.items()):
        digest.update(f"{name}\0{len(text)}\0".encode() + text)
    return Parcel(digest.hexdigest()[:32], main or next(iter(files))), lambda: files


def _run_here(packed: bytes, *contents: _Files) -> list[Line]:
    """On a worker: unpack what came, and run the points."""
    batch: list[_Local]
    batch, engine, room_bytes, parcels = pickle.loads(packed)
    worker = import_module("distributed").get_worker()
    if engine_id() != engine:
        raise SweepError(f"the worker {worker.address} has another build of Torpor")
    root = os.path.join(worker.local_directory, "torpor")
    paths = {
        parcel: _unpacked(root, parcel, files)
        for parcel, files in zip(parcels, contents, strict=True)
    }
    lines = []
    for name, point, here in batch:
        changed: dict[str, Any] = {
            field: paths[parcel] + split_numbers(getattr(point, field))[1]
            for field, parcel in here.items()
        }
        local = replace(point, **changed)
        lines.append(run_point(name, point, _recordings(room_bytes), lambda *_: None, local))
    return lines


@functools.cache
def _recordings(room_bytes: int | None) -> Recordings:
    return Recordings(room_bytes)


def _unpacked(root: str, parcel: Parcel, files: _Files) -> str:
    folder = os.path.join(root, parcel.key)
    if not os.path.isdir(folder):
        # Threads of one worker may race here, so the folder appears as a whole.
        made = f"{folder}.{time.monotonic_ns()}"
        for name, content in files.items():
            path = Path(made, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        with contextlib.suppress(OSError):
            os.rename(made, folder)
    return os.path.join(folder, parcel.main)
