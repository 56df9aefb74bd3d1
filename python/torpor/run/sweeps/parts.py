# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Reads the files of a store: what they hold, and what of them is damaged."""

import errno
import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from torpor import _engine
from torpor.results.catalogue import RUNS, metrics
from torpor.results.files import NotRegularError, open_regular
from torpor.run.sweeps.axes import Point, SweepError
from torpor.run.sweeps.identity import engine_id

#: Errors of a file that exists but cannot be read: a loop of links, a bad block, a socket.
UNREADABLE = (errno.ELOOP, errno.EIO, errno.ENXIO)

#: Digits of a point's name, and the kinds of point.
_DIGITS = frozenset("0123456789abcdef")
_KINDS = {"replay", "simulation", "shadow"}
#: The column of what a simulation continues from: all that the engine counted in a run, as JSON.
#: Points of sweeps have none. It is a hundred times as large as all others together.
COUNTS = "counts"
#: Columns without which a row is no point.
_REQUIRED = (
    *("point", "kind", "source", "platform", "governor", "options", "run_ms", "torpor", "engine"),
)

#: Exceptions for values that a sweep never writes; the last is an integer beyond any float.
_ODD = (ValueError, RecursionError, OverflowError)

#: Fields of a point that its row has.
_NAMED = [field.name for field in fields(Point) if field.name != "has_oracle"]

#: Refuses what is no JSON; made once, not for each line.
_JSON = json.JSONEncoder(allow_nan=False)

Row = dict[str, Any]


class StoreWarning(UserWarning):
    """A part of a store that cannot be used. Its points count as not done."""


class DamagedError(Exception):
    """A file or line that has changed since it was written."""


class Part(NamedTuple):
    """Contents of a store's file; ``damage`` is what could not be read of it."""

    records: list[Row]
    damage: str | None = None


class Columns(NamedTuple):
    """A store's file by columns: what reads one of them, and what could not be read of the file."""

    length: int
    read: Callable[[str], list[Any]]
    damage: str | None = None


class Line(NamedTuple):
    """A point as an open file has it, and what a sweep asks of it."""

    text: bytes
    has_error: bool
    run_ms: float


def shard_bytes(path: Path) -> bytes:
    """Return a shard as it was written. Raises FileNotFoundError if it is gone."""
    data = _bytes_of(path)
    if hashlib.sha256(data).hexdigest() != path.stem:
        raise DamagedError(f"`{path}` is damaged: its name is not the SHA-256 of its bytes")
    return data


def read_part(path: Path) -> Part:
    """Read all of a file of points. Raises FileNotFoundError if a shard is gone."""
    if path.suffix == ".jsonl":
        return read_open(path)
    shard = read_columns(path)
    names = list(columns())
    try:
        rows = zip(*map(shard.read, names), strict=True)
    except SweepError as error:
        return Part([], str(error).partition("\n")[0])
    return Part([nested(dict(zip(names, values, strict=True))) for values in rows], shard.damage)


def read_columns(path: Path) -> Columns:
    """Read a file of points; metrics and counts are decoded, and judged, when asked for.

    Raises FileNotFoundError if a shard is gone.
    """
    keys = _metric_keys()
    late = keys | {COUNTS}
    if path.suffix == ".jsonl":
        part = read_open(path)
        return Columns(
            len(part.records),
            lambda name: [(r["metrics"] if name in keys else r).get(name) for r in part.records],
            part.damage,
        )
    try:
        data = shard_bytes(path)
        found = _decoded(data, [name for name in columns() if name not in late])
        _judge(found)
    except FileNotFoundError:
        raise
    except DamagedError as error:
        return Columns(0, lambda _: [], str(error))
    except (_engine.TorporError, *_ODD) as error:
        return Columns(0, lambda _: [], f"{_foreign(path)}: {reason(error)}")
    count = len(found["point"])

    def read(name: str) -> list[Any]:
        try:
            values: list[Any] = _decoded(data, [name]).get(name) or [None] * count
            _judge_column(name, values)
        except (_engine.TorporError, *_ODD) as error:
            hint = "remove it: the next sweep runs its points again"
            raise SweepError(f"{_foreign(path)}: {reason(error)}\nhint: {hint}") from None
        return values

    return Columns(count, read)


def _foreign(path: Path) -> str:
    return f"`{path}` is not a shard of a store"


def _decoded(data: bytes, names: list[str]) -> dict[str, list[Any]]:
    return _engine.parse_parquet(data, names).to_dict()


def read_open(path: Path) -> Part:
    """Read the whole lines of an open file; its owner may be writing the last one."""
    try:
        lines = _bytes_of(path).split(b"\n")
    except FileNotFoundError:
        # Its owner has made a shard of it.
        return Part([])
    except DamagedError as error:
        return Part([], str(error))
    records, damage = [], []
    for number, line in enumerate(lines[:-1], 1):
        try:
            records.append(_record(line))
        except _ODD as error:
            damage.append(f"`{path}`:{number}: {reason(error)}")
    more = f"; more lines of it that cannot be read: {len(damage) - 1}" if len(damage) > 1 else ""
    return Part(records, damage[0] + more if damage else None)


def _bytes_of(path: Path) -> bytes:
    """Return a file's bytes. Raises FileNotFoundError if it is gone."""
    try:
        with open_regular(path) as file:
            return file.read()
    except FileNotFoundError:
        if path.is_symlink():
            raise DamagedError(f"`{path}` is a dangling link") from None
        raise
    except OSError as error:
        if isinstance(error, NotRegularError) or error.errno in UNREADABLE:
            raise DamagedError(f"`{path}` cannot be read: {error.strerror}") from None
        raise


def _record(line: bytes) -> Row:
    """Return the point of a line. Raises ValueError for a line that :class:`Writer` never wrote."""
    record = json.loads(line.decode(), parse_constant=_refuse_constant)
    if not isinstance(record, dict):
        raise ValueError("expected an object, a point's fields by name")
    if record.pop("check", None) != check(record):
        raise ValueError("`check` is not the checksum of the line")
    if not isinstance(record.get("metrics"), dict):
        raise ValueError("`metrics` is missing")
    _judge({key: [value] for key, value in flat(record).items()})
    return record


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def check(record: Row) -> str:
    """Return the checksum of a line's fields, which does not depend on how they are spaced."""
    return _checksum(_JSON.encode(record))


def line_of(record: Row) -> bytes:
    """Return the line of a point: its name first, its checksum last.

    Raises ValueError for what is no JSON.
    """
    text = _JSON.encode({"point": record["point"], **record})
    return f'{text[:-1]}, "check": "{_checksum(text)}"}}\n'.encode()


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def columns() -> dict[str, tuple[str, tuple[type, ...]]]:
    """Return the columns of a point: the name of each one's type, and what it is in Python."""
    of = {"text": (str,), "int": (int,), "count": (int, float), "float": (float, int)}
    tables = _engine.tables()
    (points,) = [table for table in tables if (table["kind"], table["name"]) == ("sweep", "points")]
    found = {column["name"]: column["type"] for column in points["columns"]}
    for metric in metrics(*RUNS).values():
        found[metric["key"]] = "count" if metric["kind"] == "count" else "float"
    return {
        name: (kind, (*of[kind], *(() if name in _REQUIRED else (type(None),))))
        for name, kind in found.items()
    }


def _judge(found: dict[str, list[Any]]) -> None:
    """Raise ValueError unless these columns are of points."""
    for name in _REQUIRED:
        if name not in found:
            raise ValueError(f"`{name}` is missing")
    for name in columns().keys() & found.keys():
        _judge_column(name, found[name])
    names = found["point"]
    if not (_DIGITS.issuperset("".join(names)) and {32}.issuperset(map(len, names))):
        odd = next(name for name in names if len(name) != 32 or not _DIGITS.issuperset(name))
        raise ValueError(f"`point` is {_shown(odd)}: expected 32 hexadecimal digits")
    if odd := sorted(set(found["kind"]) - _KINDS):
        raise ValueError(f"`kind` is {_shown(odd[0])}: expected {' or '.join(sorted(_KINDS))}")
    for text in set(found["options"]):
        if not isinstance(json.loads(text), dict):
            raise ValueError(f"`options` is {_shown(text)}: expected an object of JSON")


def _judge_column(name: str, values: list[Any]) -> None:
    """Raise ValueError unless these are values of a column."""
    kind, types = columns()[name]
    if not set(map(type, values)).issubset(types):
        odd = next(value for value in values if type(value) not in types)
        raise ValueError(f"`{name}` is {_shown(odd)}: expected {kind}")
    if kind == "text":
        # A lone surrogate has no UTF-8. Raises UnicodeEncodeError, which is a ValueError.
        "".join(filter(None, set(values))).encode()
    elif not all(map(math.isfinite, filter(None, values))):
        raise ValueError(f"`{name}` is not finite")
    elif kind != "float" and not all(map(_is_whole, set(filter(None, values)))):
        raise ValueError(f"`{name}` is not a 64-bit integer")


def _is_whole(value: float) -> bool:
    return value % 1 == 0 and abs(value) < 1 << 63


def _shown(value: object) -> str:
    return repr(value) if len(repr(value)) < 40 else f"{repr(value)[:40]}..."


def reason(error: BaseException) -> str:
    """Return the text of an error of :mod:`json`, or of a file without its name."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def warn(damage: Iterable[str | None]) -> None:
    """Warn of each damaged part."""
    for text in filter(None, damage):
        message = f"{text}\nits points count as not done; the next sweep runs them again"
        warnings.warn(message, StoreWarning, stacklevel=3)


@cache
def _metric_keys() -> frozenset[str]:
    return frozenset(metrics(*RUNS))


def flat(record: Row) -> Row:
    """Return a row with every column; another build's may lack some."""
    metrics, keys = record["metrics"], _metric_keys()
    return {key: (metrics if key in keys else record).get(key) for key in columns()}


def nested(row: Row) -> Row:
    """Return a row as a line and a result have it: with its metrics separate, and without unknown
    ones."""
    keys = _metric_keys()
    own: Row = {key: value for key, value in row.items() if key not in keys}
    own["metrics"] = {k: value for k, value in row.items() if k in keys and value is not None}
    return own


def named(point: Point) -> Row:
    """Return a row's point, as the sweep names it."""
    return {name: getattr(point, name) for name in _NAMED}


def row_of(
    name: str, point: Point, metrics: dict[str, float | None], error: str | None, run_ms: float
) -> Row:
    """Return a point as a store keeps it."""
    return {
        "point": name,
        **named(point),
        "error": error,
        "run_ms": run_ms,
        "torpor": _engine.__version__,
        "engine": engine_id(),
        "metrics": {key: value for key, value in metrics.items() if value is not None},
    }
