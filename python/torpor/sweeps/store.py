# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Where points are kept: a folder that any number of processes write to without a lock.

- ``store.json``: the format.
- ``points/*.parquet``: shards, each written whole or not at all, never changed.
- ``open/*.jsonl``: what a sweep that runs has finished, a line a point. It becomes a shard when the
  sweep ends; one that a killed sweep left is read just as well, and becomes a shard by the next
  sweep of the same machine, or by ``torpor store gc``.

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
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from torpor import _engine
from torpor.files import write_whole
from torpor.sweeps.axes import SweepError

#: Of the folder and its files.
FORMAT = 1

#: A sweep's open file becomes a shard when it holds so many points.
_SHARD_POINTS = 20_000

#: In an open file's name: over NFS, a lock may be unknown to other machines.
_HOST = re.sub(r"[^A-Za-z0-9.]", "", platform.node())

Row = dict[str, Any]


@cache
def catalogue() -> list[dict[str, Any]]:
    """Return the metrics that a point may have: those of replays and of simulations."""
    known = json.loads(_engine.metrics())
    both = {metric["key"]: metric for kind in ("replay", "simulation") for metric in known[kind]}
    return list(both.values())


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
        """What sweeps have not made shards of: they run, or were killed."""
        return sorted((self.path / "open").glob("*.jsonl"))

    def rows(self) -> list[Row]:
        """Return every point once, in the order of their names."""
        while True:
            # A shard that is gone has gone into another, which `store gc` made.
            with contextlib.suppress(FileNotFoundError):
                return self._read()

    def _read(self) -> list[Row]:
        found: dict[str, Row] = {}
        # Before the shards: what becomes one meanwhile is met there.
        for path in self.open_files:
            found.update((record["point"], _flat(record)) for record in _records(path))
        for path in self.shards:
            found.update((row["point"], row) for row in _rows(path))
        return [found[name] for name in sorted(found)]

    def names(self) -> dict[str, bool]:
        """Return the names of all points, each with whether it has an error."""
        return {row["point"]: row["error"] is not None for row in self.rows()}

    def table(self) -> _engine.Table:
        """Return all points as one Arrow table."""
        return _table([_nested(row) for row in self.rows()])

    def to_polars(self) -> Any:
        """Return a ``polars.LazyFrame`` over all points, which reads the shards when collected.

        Raises ImportError where polars is not installed.
        """
        import polars

        # Of sweeps that run or were killed: few, and in no shard.
        parts = [polars.DataFrame(self._open_table()).lazy()] if self.open_files else []
        if self.shards or not parts:
            shards = [os.fspath(path) for path in self.shards]
            scanned = polars.scan_parquet(shards) if shards else None
            parts.insert(0, polars.DataFrame(_table([])).lazy() if scanned is None else scanned)
        # Two sweeps that ran one point at a time both have it.
        return polars.concat(parts).unique(subset=["point"], keep="first", maintain_order=True)

    def to_dataset(self) -> Any:
        """Return a ``pyarrow.dataset.Dataset`` over all points, for DuckDB among others.

        Raises ImportError where pyarrow is not installed. A point that two sweeps ran at a time is
        in it twice.
        """
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import dataset

        opened = dataset.dataset(pyarrow.table(self._open_table()))
        if not self.shards:
            return opened
        shards = dataset.dataset([os.fspath(path) for path in self.shards], format="parquet")
        return dataset.dataset([shards, opened.replace_schema(shards.schema)])

    def _open_table(self) -> _engine.Table:
        return _table([record for path in self.open_files for record in _records(path)])

    def writer(self) -> "Writer":
        """Return what adds points to the store; use it in a ``with``."""
        return Writer(self)

    def merge(self, others: Iterable["Store"]) -> int:
        """Add the points of other stores; return how many are new."""
        known = set(self.names())
        new = [row for other in others for row in other.rows() if row["point"] not in known]
        added = {row["point"]: _nested(row) for row in new}
        self._add_shard(list(added.values()))
        return len(added)

    def gc(self, engine: str | None = None) -> tuple[int, int]:
        """Make one shard of all, and return how many files went and how many points.

        What killed sweeps left is taken in, what running ones write is left alone. Points that
        another build than ``engine`` made are dropped if it is given.
        """
        orphans = self._orphans("*")
        shards = self.shards
        rows: dict[str, Row] = {}
        dropped = 0
        for path in shards:
            rows.update((row["point"], _nested(row)) for row in _rows(path))
        for path in orphans:
            rows.update((record["point"], record) for record in _records(path))
        if engine is not None:
            kept = {name: row for name, row in rows.items() if row["engine"] == engine}
            dropped, rows = len(rows) - len(kept), kept
        made = self._add_shard(list(rows.values()))
        gone = [path for path in (*shards, *orphans) if path != made]
        for path in gone:
            path.unlink(missing_ok=True)
        return len(gone), dropped

    def _orphans(self, host: str) -> list[Path]:
        """Open files that nobody writes any more."""
        return [path for path in self.path.glob(f"open/{host}.jsonl") if _is_orphan(path)]

    def _take_in_orphans(self) -> None:
        """Make a shard of what killed sweeps of this machine left."""
        orphans = self._orphans(f"{_HOST}-*")
        rows = {record["point"]: record for path in orphans for record in _records(path)}
        self._add_shard(list(rows.values()))
        for path in orphans:
            path.unlink(missing_ok=True)

    def export(self, path: Path) -> int:
        """Write all points to one file: .parquet, .arrow or .csv; return how many."""
        table = self.table()
        if path.suffix == ".csv":
            import csv
            import io

            text = io.StringIO()
            columns = table.to_dict()
            out = csv.writer(text, lineterminator="\n")
            out.writerow(columns)
            out.writerows(zip(*columns.values(), strict=True))
            write_whole(path, text.getvalue())
        else:
            table.write(os.fspath(path))
        return table.num_rows

    def _add_shard(self, records: list[Row]) -> Path | None:
        """Write a shard; its name is that of its content, so the same one is written once."""
        if not records:
            return None
        records = sorted(records, key=lambda record: str(record["point"]))
        names = "\n".join(record["point"] for record in records)
        name = hashlib.sha256(names.encode()).hexdigest()[:16]
        path = self.path / "points" / f"{name}.parquet"
        _table(records).write(os.fspath(path))
        return path


class Writer:
    """Adds points to a store as they are finished. What was added survives a kill -9."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._path = store.path / "open" / f"{_HOST}-{uuid.uuid4().hex}.jsonl"
        self._records: list[Row] = []
        self._size = 0

    def __enter__(self) -> "Writer":
        self._store._take_in_orphans()
        self._file = open(self._path, "xb", buffering=0)
        # Held as long as this process lives: whoever gets it knows that nobody writes any more.
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self

    def add(self, record: Row) -> None:
        """Add a point. Raises OSError if it cannot be written; those before it are kept."""
        line = json.dumps(record).encode() + b"\n"
        try:
            written = self._file.write(line)
            if written != len(line):
                raise OSError(28, "No space left on device", os.fspath(self._path))
        except OSError as error:
            # A torn line would swallow the next one.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), self._size)
            raise OSError(error.errno, error.strerror, os.fspath(self._path)) from None
        self._size += len(line)
        self._records.append(record)
        if len(self._records) >= _SHARD_POINTS:
            self._flush()

    def __exit__(self, *_: object) -> None:
        try:
            self._flush()
        finally:
            self._file.close()
        if not self._records:
            self._path.unlink(missing_ok=True)

    def _flush(self) -> None:
        self._store._add_shard(self._records)
        # The shard is on the disk under its name: from here on the lines are a second copy.
        os.ftruncate(self._file.fileno(), 0)
        self._file.seek(0)
        self._records, self._size = [], 0


def open_store(path: str | os.PathLike[str], *, create: bool = False) -> Store:
    """Open a store of points.

    Raises :class:`SweepError` if there is none, or one of a later Torpor; OSError if it cannot be
    made.
    """
    folder = Path(path)
    file = folder / "store.json"
    try:
        head = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if not create:
            raise SweepError(f"`{folder}` is no store: it has no store.json") from None
        if folder.is_dir() and any(folder.iterdir()):
            raise SweepError(
                f"`{folder}` is no store and not empty\nhint: name a new folder"
            ) from None
        head = {"format": FORMAT, "kind": "sweep"}
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(head) + "\n")
    except (ValueError, NotADirectoryError) as error:
        raise SweepError(f"`{folder}` is no store: {error}") from None
    if not isinstance(head, dict) or not isinstance(head.get("format"), int):
        raise SweepError(f"`{folder}` is no store: store.json has no `format`")
    if head["format"] > FORMAT:
        raise SweepError(
            f"`{folder}` has format {head['format']}, and this Torpor reads up to {FORMAT}\n"
            "hint: use the version that wrote it, or a later one"
        )
    if create:
        for name in ("points", "open"):
            (folder / name).mkdir(exist_ok=True)
    return Store(folder)


def _rows(path: Path) -> Iterator[Row]:
    columns = _engine.read_table(os.fspath(path)).to_dict()
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _records(path: Path) -> Iterator[Row]:
    """Yield the whole lines of an open file; its owner may be writing the last one."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        # Its owner has made a shard of it.
        return
    for line in lines[:-1]:
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def _is_orphan(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _table(records: list[Row]) -> _engine.Table:
    result = {"kind": "sweep", "catalogue": catalogue(), "points": records}
    return _engine.lay_out(json.dumps(result), "points")


def _flat(record: Row) -> Row:
    own = {key: value for key, value in record.items() if key != "metrics"}
    return own | {metric["key"]: record["metrics"].get(metric["key"]) for metric in catalogue()}


def _nested(row: Row) -> Row:
    keys = {metric["key"] for metric in catalogue()}
    own: Row = {key: value for key, value in row.items() if key not in keys}
    own["metrics"] = {key: row[key] for key in row if key in keys and row[key] is not None}
    return own
