# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Store of points: a folder that any number of processes write to without a lock.

- ``store.json``: the format.
- ``governors.jsonl``: the governors in the order in which sweeps named them, a line each.
- ``points/*.parquet``: shards, each written whole or not at all, never changed. A shard's name is
  the SHA-256 of its bytes, which every reader checks first.
- ``open/*.jsonl``: what a sweep that runs has finished, a line a point, with a checksum. It becomes
  a shard when the sweep ends; one that a killed sweep left is read just as well, and becomes a
  shard by the next sweep of the same machine, or by ``torpor store gc``.

What is damaged is reported (:class:`StoreWarning`) and not read. Its points count as not done, so
that the next sweep runs them again.

Shards are plain Parquet: ``SELECT * FROM 'store/points/*.parquet'`` in DuckDB,
``polars.scan_parquet("store/points/*.parquet")``.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from torpor import _engine
from torpor.results.catalogue import RUNS, metrics
from torpor.results.files import NotRegularError, open_regular, write_whole
from torpor.results.text import csv_text
from torpor.run.sweeps.axes import SweepError
from torpor.run.sweeps.columns import Points
from torpor.run.sweeps.parts import (
    COUNTS,
    UNREADABLE,
    Columns,
    DamagedError,
    Row,
    columns,
    line_of,
    nested,
    read_columns,
    read_open,
    read_part,
    reason,
    shard_bytes,
    warn,
)

#: Version of the folder and its files.
FORMAT = 2

#: A sweep's open file becomes a shard when it holds so many points.
_SHARD_POINTS = 20_000

#: Says of each point, by the columns that it reads, whether it goes.
_Judge = Callable[[Callable[[str], list[Any]]], list[bool]]

#: In an open file's name: over NFS, a lock may be unknown to other machines.
_HOST = re.sub(r"[^A-Za-z0-9.]", "", platform.node())


class Store:
    """A folder of points. Open one with :func:`open_store`."""

    def __init__(self, path: Path) -> None:
        """Hold the folder's path; nothing is read yet."""
        self.path = path

    @property
    def shards(self) -> list[Path]:
        """Parquet files, by name."""
        return sorted((self.path / "points").glob("*.parquet"))

    @property
    def open_files(self) -> list[Path]:
        """Return the files of sweeps that run, or were killed before they made shards."""
        return sorted((self.path / "open").glob("*.jsonl"))

    def rows(self) -> list[Row]:
        """Return every point once: by governor as sweeps named them, then by the points' names.

        Warns of what is damaged (:class:`StoreWarning`). A million points have no room as rows:
        see :meth:`points`.
        """
        return self.points().rows()

    def points(self) -> Points:
        """Return every point once, by columns; its files are read, its metrics when asked for.

        Of several runs of a point, one without an error counts. Warns as :meth:`rows`.
        """
        return points_of([self])

    def _files(self) -> list[Columns]:
        """Return the columns of all files; warn of the damage."""
        while True:
            # A shard that is gone has gone into another, which `store gc` made.
            with contextlib.suppress(FileNotFoundError):
                # Open files first: one that becomes a shard meanwhile is met there.
                files = [read_columns(path) for path in (*self.open_files, *self.shards)]
                warn(file.damage for file in files)
                return files

    def governors(self) -> list[str]:
        """Return the governors in the order in which sweeps named them first."""
        try:
            with open_regular(self.path / "governors.jsonl") as file:
                lines = file.read().decode(errors="replace").splitlines()
        except (FileNotFoundError, NotRegularError):
            return []
        found: dict[str, None] = {}
        for line in lines:
            # A damaged name is no point's.
            with contextlib.suppress(ValueError):
                found[str(json.loads(line))] = None
        return list(found)

    def name_governors(self, labels: Iterable[str]) -> None:
        """Append new governors in order to those that the store knows."""
        known = set(self.governors())
        new = [label for label in dict.fromkeys(labels) if label not in known]
        if new:
            with open(self.path / "governors.jsonl", "ab") as file:
                file.write(b"".join(json.dumps(label).encode() + b"\n" for label in new))

    def names(self) -> dict[str, bool]:
        """Return the names of all points, each with whether it has an error."""
        points = self.points()
        return {
            name: error is not None
            for name, error in zip(points["point"], points["error"], strict=True)
        }

    def counts(self, wanted: set[str]) -> dict[str, str]:
        """Return the counts of points by name, of those that have some: simulations continue from
        them."""
        found: dict[str, str] = {}
        for file in self._files():
            names = file.read("point")
            if not wanted.isdisjoint(names):
                found |= {n: c for n, c in zip(names, file.read(COUNTS), strict=True) if c}
        return found

    @property
    def is_empty(self) -> bool:
        """Whether it has no point."""
        return not any(path.stat().st_size for path in (*self.open_files, *self.shards))

    def table(self) -> _engine.Table:
        """Return all points as one Arrow table."""
        points = self.points()
        ordered = points.at(points.in_order(range(len(points))))
        return _engine.filled_table(_table([]), ordered.__getitem__)

    def to_polars(self) -> Any:
        """Return a ``polars.LazyFrame`` over all points, which reads the shards when collected.

        Their checksums are verified at once; damaged ones are left out, with a warning.

        Raises ImportError where polars is not installed.
        """
        import polars

        # Points of sweeps that run or were killed: few, and in no shard.
        parts = [polars.DataFrame(self._open_table()).lazy()] if self.open_files else []
        shards = self._sound_shards()
        if shards or not parts:
            scanned = polars.scan_parquet(shards) if shards else None
            parts.insert(0, polars.DataFrame(_table([])).lazy() if scanned is None else scanned)
        # Two sweeps that ran one point at a time both have it; a run without an error counts.
        return (
            polars.concat(parts)
            .sort(polars.col("error").is_not_null(), maintain_order=True)
            .unique(subset=["point"], keep="first", maintain_order=True)
        )

    def to_dataset(self) -> Any:
        """Return a ``pyarrow.dataset.Dataset`` over all points, for DuckDB among others.

        Raises ImportError where pyarrow is not installed. A point that two sweeps ran at a time is
        in it twice.
        """
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import dataset

        opened = dataset.dataset(pyarrow.table(self._open_table()))
        sound = self._sound_shards()
        if not sound:
            return opened
        shards = dataset.dataset(sound, format="parquet")
        return dataset.dataset([shards, opened.replace_schema(shards.schema)])

    def _sound_shards(self) -> list[str]:
        """Return the paths of the shards whose checksums are right; warn of the others."""
        sound, damage = [], []
        for path in self.shards:
            try:
                shard_bytes(path)
                sound.append(os.fspath(path))
            except FileNotFoundError:
                # Another process merged several shards: list them again.
                return self._sound_shards()
            except DamagedError as error:
                damage.append(str(error))
        warn(damage)
        return sound

    def _open_table(self) -> _engine.Table:
        parts = [read_open(path) for path in self.open_files]
        warn(part.damage for part in parts)
        return _table([record for part in parts for record in part.records])

    def writer(self, shard_points: int = _SHARD_POINTS) -> "Writer":
        """Return what adds points to the store; use it in a ``with``."""
        return Writer(self, shard_points)

    def add(self, records: list[Row]) -> None:
        """Add several points at once. Raises OSError."""
        self._add_shard(map(line_of, records))

    def merge(self, others: Iterable["Store"]) -> int:
        """Add the points of other stores; return how many are new.

        So is one that has no error, where the store's own has.
        """
        points = self.points()
        known = dict(zip(points["point"], map(_rank, points["error"]), strict=True))
        others = list(others)
        self.name_governors(label for other in others for label in other.governors())
        new = [
            nested(row)
            for row in points_of(others).rows([*columns()])
            if row["point"] not in known or _rank(row["error"]) < known[row["point"]]
        ]
        self.add(new)
        return len(new)

    def gc(self, engine: str | None = None) -> tuple[int, int]:
        """Join small shards, and return how many files went and how many points.

        What killed sweeps left is taken in, what running ones write is left alone. Points that
        another build than ``engine`` made are dropped if it is given. A damaged file is renamed to
        ``NAME.damaged``, with a warning.
        """
        while True:
            # A shard that is gone has gone into another, which a second `store gc` made.
            with contextlib.suppress(FileNotFoundError):
                return self._join(
                    [*self.shards, *self._orphans("*")],
                    lambda read: [engine not in (None, of) for of in read("engine")],
                )

    def drop(self, shards: list[Path], is_dropped: _Judge) -> None:
        """Write shards anew without some of their points: ``is_dropped`` says of each by columns.

        Raises OSError, with every point still there.
        """
        self._join(shards, is_dropped)

    def _join(self, paths: list[Path], is_dropped: _Judge | None = None) -> tuple[int, int]:
        files = [read_columns(path) for path in paths]
        chosen = _chosen(files)
        dropped = is_dropped(partial(_joined, files)) if is_dropped else []
        kept = [at for at in chosen if not (dropped and dropped[at])]
        gone: dict[Path, str | None] = {}
        lines: list[bytes] = []
        made = []
        first = 0
        for path, file in zip(paths, files, strict=True):
            own = kept[bisect_left(kept, first) : bisect_left(kept, first + file.length)]
            if path.suffix != ".parquet" or len(own) < max(file.length, _SHARD_POINTS):
                part = read_part(path)
                gone[path] = part.damage
                # A shard with a metric that is no number has no records: its points are lost.
                is_whole = len(part.records) == file.length
                lines += [line_of(part.records[at - first]) for at in own if is_whole]
            first += file.length
            while len(lines) >= _SHARD_POINTS:
                made.append(self._add_shard(lines[:_SHARD_POINTS]))
                del lines[:_SHARD_POINTS]
        made.append(self._add_shard(lines))
        for path in filter(None, made):
            gone.pop(path, None)
        return _remove(gone), len(chosen) - len(kept)

    def _orphans(self, host: str) -> list[Path]:
        """Return the open files whose writers have ended."""
        return [path for path in self.path.glob(f"open/{host}.jsonl") if _is_orphan(path)]

    def export(self, path: Path) -> int:
        """Write all points to one file: .parquet, .arrow or .csv; return how many."""
        table = self.table()
        if path.suffix == ".csv":
            columns = table.to_dict()
            write_whole(path, csv_text(zip(*columns.values(), strict=True), columns))
        else:
            table.write(os.fspath(path))
        return table.num_rows

    def _add_shard(self, lines: Iterable[bytes]) -> Path | None:
        """Write a shard; its name is the checksum of its bytes."""
        # A line begins with the point's name.
        ordered = sorted(lines)
        if not ordered:
            return None
        data = _table_of(ordered).to_parquet()
        path = self.path / "points" / f"{hashlib.sha256(data).hexdigest()}.parquet"
        write_whole(path, data)
        return path


class Writer:
    """Adds points to a store as they are finished. What was added survives a kill -9."""

    def __init__(self, store: Store, shard_points: int) -> None:
        self._store, self._shard_points = store, shard_points
        self._path = store.path / "open" / f"{_HOST}-{uuid.uuid4().hex}.jsonl"
        self._lines: list[bytes] = []
        self._size = 0

    def __enter__(self) -> "Writer":
        # Files that killed sweeps of this machine left.
        self._store._join(self._store._orphans(f"{_HOST}-*"))
        self._file = open(self._path, "xb", buffering=0)
        # Held until this process ends: a process that gets the lock knows that no one writes.
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self

    def add(self, record: Row) -> None:
        """Add a point. Raises OSError if it cannot be written; those before it are kept."""
        self.add_lines([line_of(record)])

    def add_lines(self, lines: list[bytes]) -> None:
        """Add points of :func:`line_of`, all or none of them. Raises OSError as :meth:`add`."""
        text = b"".join(lines)
        try:
            written = self._file.write(text)
            if written != len(text):
                raise OSError(28, "No space left on device", os.fspath(self._path))
        except OSError as error:
            # A torn line would swallow the next one.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), self._size)
            raise OSError(error.errno, error.strerror, os.fspath(self._path)) from None
        self._size += len(text)
        self._lines += lines
        if len(self._lines) >= self._shard_points:
            self._flush()

    def __exit__(self, *_: object) -> None:
        try:
            self._flush()
        finally:
            self._file.close()
        if not self._lines:
            self._path.unlink(missing_ok=True)

    def _flush(self) -> None:
        self._store._add_shard(self._lines)
        # The shard is on the disk under its name: from here on the lines are a second copy.
        os.ftruncate(self._file.fileno(), 0)
        self._file.seek(0)
        self._lines, self._size = [], 0


def open_store(path: str | os.PathLike[str], *, create: bool = False) -> Store:
    """Open a store of points.

    Raises :class:`SweepError` if there is none, or one of another format; OSError if it cannot be
    made.
    """
    folder = Path(path)
    if create:
        _create(folder)
    try:
        with open_regular(folder / "store.json") as file:
            head = json.loads(file.read().decode())
    except FileNotFoundError:
        why = "it has no store.json" if folder.is_dir() else "there is no such folder"
        hint = "`torpor sweep -o DIR` and `torpor shadow --store DIR` make one"
        raise SweepError(f"`{folder}` is not a store: {why}\nhint: {hint}") from None
    except (ValueError, RecursionError, NotADirectoryError, NotRegularError) as error:
        raise SweepError(f"`{folder}` is not a store: store.json: {reason(error)}") from None
    if not isinstance(head, dict) or type(head.get("format")) is not int:
        raise SweepError(f"`{folder}` is not a store: store.json has no `format`")
    if head["format"] != FORMAT:
        hint = (
            "use the version that wrote it, or a later one"
            if head["format"] > FORMAT
            else "name a new folder, and run the sweep again"
        )
        raise SweepError(
            f"`{folder}` has format {head['format']}, and this Torpor reads format {FORMAT}\n"
            f"hint: {hint}"
        )
    if head.get("kind") != "sweep":
        kind = repr(head.get("kind"))
        raise SweepError(f"`{folder}` is not a store: its kind is {kind}, not 'sweep'")
    if create:
        for name in ("points", "open"):
            (folder / name).mkdir(exist_ok=True)
    return Store(folder)


def points_of(stores: Iterable[Store]) -> Points:
    """Return every point of several stores once, as :meth:`Store.points`."""
    stores = list(stores)
    files = [file for store in stores for file in store._files()]
    order = dict.fromkeys(label for store in stores for label in store.governors())
    every = Points(sum(file.length for file in files), partial(_joined, files), list(order))
    chosen = _chosen(files)
    return every if len(chosen) == len(every) else every.at(chosen)


def _create(folder: Path) -> None:
    """Make a folder a store, unless it is one. Any number of processes may do so at a time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise SweepError(f"`{folder}` is not a store: it is not a folder") from None
    # Listed before the file is looked for: all that another creator leaves here comes after its
    # store.json, but for the temporary file that becomes it.
    names = os.listdir(folder)
    file = folder / "store.json"
    if os.path.lexists(file):
        return
    if any(not name.startswith(".torpor-") for name in names):
        raise SweepError(f"`{folder}` is not a store and not empty\nhint: name a new folder")
    write_whole(file, json.dumps({"format": FORMAT, "kind": "sweep"}) + "\n")


def _joined(files: list[Columns], name: str) -> list[Any]:
    return list(chain.from_iterable(file.read(name) for file in files))


def _chosen(files: list[Columns]) -> list[int]:
    """Return the place of every point once, whatever the order of the files.

    Of several runs, one without an error is chosen, then one from which a simulation can continue,
    then the one that took the least time.
    """
    place_of: dict[str, int] = {}
    names, errors, times_ms = (_joined(files, name) for name in ("point", "error", "run_ms"))
    counts: list[str | None] = []
    for place, name in enumerate(names):
        other = place_of.setdefault(name, place)
        if other != place:
            counts = counts or _joined(files, COUNTS)
            place_of[name] = min(
                (other, place), key=lambda at: _rank(errors[at], counts[at], times_ms[at])
            )
    return sorted(place_of.values())


def _rank(
    error: str | None, counts: str | None = None, run_ms: float = 0.0
) -> tuple[bool, str, bool, float]:
    """Return the order of several runs of a point; the first one is chosen."""
    return error is not None, error or "", counts is None, run_ms


def _remove(damages: dict[Path, str | None]) -> int:
    """Remove files that went into a shard; rename what is damaged. Return how many are gone."""
    for path, damage in damages.items():
        if damage is None:
            path.unlink(missing_ok=True)
            continue
        aside = path.with_name(f"{path.name}.damaged")
        with contextlib.suppress(FileNotFoundError):
            path.rename(aside)
        warn([f"{damage}; it is now `{aside.name}`"])
    return len(damages)


def _is_orphan(path: Path) -> bool:
    try:
        file = open_regular(path)
    except OSError as error:
        # A path that is no file has no writer.
        return isinstance(error, NotRegularError) or error.errno in UNREADABLE
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def _table(records: list[Row]) -> _engine.Table:
    return _table_of([json.dumps(record).encode() for record in records])


def _table_of(lines: list[bytes]) -> _engine.Table:
    """Return the table of points from their JSON: the engine reads text faster than objects."""
    known = [{k: m[k] for k in m if k not in ("noun", "lead")} for m in metrics(*RUNS).values()]
    head = json.dumps({"kind": "sweep", "catalogue": known})
    text = f'{head[:-1]}, "points": [{b",".join(lines).decode()}]}}'
    return _engine.Record(text).table("points")
