# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Reads saved results back, and checks them."""

import functools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torpor import _engine
from torpor._engine import TorporError
from torpor.results.files import open_regular
from torpor.results.kinds import KINDS
from torpor.results.record import RESULT_FILE, Record

if TYPE_CHECKING:
    from torpor.run.replays import Replay
    from torpor.run.simulations import Simulation

_Path = str | os.PathLike[str]


class ForeignError(TorporError):
    """A file that is not a result."""


def read_text(path: _Path) -> str:
    """Read a text file that may be anybody's.

    Raises OSError if it cannot be read or is no regular file, and :class:`ForeignError` for what is
    no UTF-8.
    """
    with open_regular(path) as file:
        content = file.read()
    try:
        return content.decode("utf-8")
    except ValueError:
        raise _foreign(content, path) from None


def parse_json(text: str, path: _Path) -> Any:
    """Return what JSON text says. ``path`` is named by the error, a :class:`ForeignError`."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError) as error:
        if not text.lstrip().startswith(("{", "[")):
            raise _foreign(text.encode(), path) from None
        raise ForeignError(f"`{path}` is not a result: {error}") from None
    except RecursionError:
        raise ForeignError(f"`{path}` is not a result: it is nested too deeply") from None


def _foreign(content: bytes, path: _Path) -> ForeignError:
    """Return the error for another file than a result: what it is, and what takes it."""
    what, hint = _engine.what_file(content)
    return ForeignError(f"`{path}` is not a result: it is {what}\nhint: {hint}")


def load(path: _Path) -> "Replay | Simulation | Record | list[Record] | _engine.Table":
    """Read what ``--format json``, ``--parquet`` or a ``write`` method wrote.

    JSON becomes what made it returned: a :class:`Replay`, a :class:`Simulation`, or else a
    :class:`Record`; of several studies, a list. So does a folder of tables. A single ``.parquet``
    or ``.arrow`` file becomes its table, and the ``.jsonl`` of ``torpor ab -o`` or ``torpor stat
    --format json`` the result of its whole lines, also while it grows.

    Raises OSError if the file cannot be read or is no regular file, and
    :class:`torpor.TorporError` if it is no result, a damaged one, or one of a later Torpor.
    """
    path = Path(path)
    if path.suffix in (".parquet", ".arrow"):
        return _engine.read_table(os.fspath(path))
    if path.suffix == ".jsonl":
        return _growing(path)
    file = path / RESULT_FILE if path.is_dir() else path
    text = read_text(file)
    data = parse_json(text, file)
    if isinstance(data, list):
        return [_record(_checked(item, file)) for item in data]
    result = _checked(data, file)
    if result is not data:
        text = json.dumps(result)
    if opened := KINDS[result["kind"]].opened:
        made: Replay | Simulation = opened(text, path if path.is_dir() else None)
        return made
    return _record(result)


def _growing(path: Path) -> "Record":
    """Return the result of the whole lines of a file that may be written to."""
    from torpor.results import conformance

    whole = read_text(path).rpartition("\n")[0]
    lines = [parse_json(line, path) for line in whole.split("\n") if line]
    first = lines[0] if lines and isinstance(lines[0], dict) else {}
    for kind in KINDS.values():
        if kind.growing and kind.growing.begins(first):
            check = functools.partial(conformance.check_record, name=path.name)
            return _record(_checked(kind.growing.result(lines, check), path))
    raise ForeignError(
        f"`{path}` is not a result: expected lines of `ab -o` or `stat --format json`"
    )


def _record(result: dict[str, Any]) -> Record:
    return KINDS[result["kind"]].record(result)


def _checked(data: Any, file: Path) -> dict[str, Any]:
    """Return the result in the shape of this Torpor."""
    from torpor.results import conformance

    if not isinstance(data, dict) or "format" not in data or "kind" not in data:
        raise ForeignError(f"`{file}` is not a result of Torpor: `format` and `kind` are missing")
    if type(data["format"]) is not int or data["format"] < 1:
        raise TorporError(f"`{file}`: `format` is {data['format']!r}: expected a number from 1")
    if data["format"] != _engine.FORMAT:
        raise TorporError(
            f"`{file}` has format {data['format']}, and this Torpor reads {_engine.FORMAT}\n"
            "hint: read it with the version that wrote it, or run it again"
        )
    conformance.check(data, str(file))
    return data
