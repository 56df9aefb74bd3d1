# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Results as plain data with tables, and reading them back."""

import inspect
import json
import os
import textwrap
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torpor
from torpor import _engine
from torpor._engine import TorporError
from torpor.results import conformance
from torpor.results.files import open_regular, write_whole

if TYPE_CHECKING:
    from torpor.results import types as results
    from torpor.results.table import Post
    from torpor.run.replays import Replay
    from torpor.run.simulations import Simulation

_Path = str | os.PathLike[str]

#: File in a folder of tables that holds the rest of the result.
RESULT_FILE = "result.json"


_Class = TypeVar("_Class", bound=type)


def view(name: str) -> Any:
    """Return a module of ``torpor.view``, loaded when a result is first shown.

    Views import results; a result reaches its views only through this function.
    """
    return import_module(f"torpor.view.{name}")


def with_columns(kind: str) -> Callable[[_Class], _Class]:
    """Put the columns of its tables into a class's docstring, for ``help()``."""

    def describe(cls: _Class) -> _Class:
        lines = [inspect.cleandoc(cls.__doc__ or ""), "", "Columns, with what a row is of:", ""]
        for table in json.loads(_engine.tables()):
            if table["kind"] != kind:
                continue
            columns = [
                f"{column['name']} ({column['unit'] or column['type']})"
                for column in table["columns"]
            ]
            columns += ["each metric"] * table["has_metrics"]
            line = f"- ``{table['name']}``, {table['row']}: {', '.join(columns)}."
            lines += textwrap.wrap(line, 96, subsequent_indent="  ")
        cls.__doc__ = "\n".join(lines)
        return cls

    return describe


class Record(dict[str, Any]):
    """A result: plain data, and its tables.

    ``format`` says which shape it has, ``kind`` what it is of, ``torpor`` what made it.
    """

    @property
    def tables(self) -> list[str]:
        """Return the names of its tables."""
        return _engine.table_names(str(self.get("kind")))

    def table(self, name: str) -> _engine.Table:
        """Return a table; the metadata of its columns has their units.

        Raises :class:`torpor.TorporError` for a name that is not one of :attr:`tables`.
        """
        return _engine.Record(self).table(name)

    def to_json(self) -> str:
        """Return the whole result as JSON text, which :func:`torpor.load` reads."""
        return json.dumps(self, indent=1)

    def write_report(self, path: _Path, *, trace: _Path | None = None) -> None:
        """Write the result as one HTML page that needs no network.

        ``trace``: a file that :func:`torpor.convert_trace` wrote for Perfetto. The page hands it
        over when its reader asks.

        Raises OSError if the file cannot be written, and :class:`torpor.TorporError` for a kind
        that has no page.
        """
        view("report").write(self, path, trace=trace)

    def __repr__(self) -> str:
        """Name the kind and its title; ``print(torpor.post(record))`` prints its tables."""
        found = self._posted()
        of = self.get("kind", "nothing known") if found is None else found.title
        return f"<torpor.{type(self).__name__} of {of}>"

    def _repr_html_(self) -> str | None:
        """Return its tables for a notebook, or None for a kind without tables."""
        return None if self._posted() is None else str(view("notebook").to_html(self))

    def _repr_markdown_(self) -> str | None:
        """The same as Markdown, for what displays no HTML."""
        return None if self._posted() is None else str(view("post").post(self, "markdown"))

    def _posted(self) -> "Post | None":
        from torpor.results.kinds import posted

        try:
            return posted(self)
        except (TorporError, KeyError):
            # This kind has no tables, or it was made by hand.
            return None


@with_columns("fidelity")
class Fidelity(Record):
    """The outcome of :func:`torpor.fidelity`: its keys are listed there."""

    @property
    def best(self) -> list[str]:
        """The governors that agree best: several where the recording cannot tell them apart."""
        return list(self["verdict"]["best"])

    @property
    def is_verified(self) -> bool:
        """The best one explains the decisions; if not, the machine may not be the recorded one."""
        return bool(self["verdict"]["is_verified"])

    @property
    def agreement(self) -> float:
        """Share of decisions that the best one made as they were recorded, 0 to 1."""
        return float(self["verdict"]["agreement"])

    @property
    def agreements(self) -> dict[str, float | None]:
        """Agreement of every governor, best first; None for one that failed."""
        return {found["governor"]: found["agreement"] for found in self["governors"]}


@with_columns("reproduction")
class Reproduction(Record):
    """The outcome of :func:`torpor.reproduce`: a study's tables, and how they were judged."""

    @property
    def right(self) -> dict[str, tuple[int, int]]:
        """By aspect (sign, order, size, range), the cells that are right, and those judged."""
        return {aspect: (one["right"], one["of"]) for aspect, one in self["counts"].items()}

    @property
    def failures(self) -> list[str]:
        """Rows that could not be simulated."""
        return list(self["failures"])


class Compared:
    """A result with a comparison: what :class:`Replay` and :class:`Simulation` share.

    It can be pickled, with all that :meth:`to_json` has, but not the decisions of a replay.
    """

    def __init__(self, result: str | _engine.Record, folder: Path | None = None) -> None:
        """Hold a result, or its JSON text; ``folder`` has tables that it does not hold."""
        self._record = _engine.Record(result) if isinstance(result, str) else result
        self._folder = folder

    def __reduce__(self) -> tuple[type, tuple[str, Path | None]]:
        """Return the arguments with which another process makes it."""
        return type(self), (self._text, self._folder)

    @property
    def runs(self) -> "list[results.RunOutcome]":
        """Every governor's run; of several recordings, one after another."""
        from torpor.results.comparison import sections

        return [run for section in sections(self._dict) for run in section["runs"]]

    @property
    def notes(self) -> list[str]:
        """The limits of what this result can claim, each said once."""
        return list(self._dict["notes"])

    @property
    def failures(self) -> dict[str, str]:
        """Governors that did not finish, with the reason; the others' results are valid."""
        return {run["governor"]: run["error"] for run in self.runs if run["error"]}

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        return _engine.table_names(self._dict["kind"])

    def table(self, name: str) -> _engine.Table:
        """Return a table: hand it to a data frame, or call its ``to_polars`` or ``to_pandas``.

        Raises :class:`torpor.TorporError` for a name that is not one of :attr:`tables`.
        """
        return self._record.table(name)

    def to_json(self) -> str:
        """Return the whole result as JSON text, the same bytes for the same inputs."""
        return self._text

    def to_dict(self) -> dict[str, Any]:
        """Return the whole result as plain Python data; yours to change."""
        parsed: dict[str, Any] = json.loads(self._text)
        return parsed

    def to_csv(self) -> str:
        """Return a line a governor, a column a metric; a field that is not known is empty."""
        from torpor.results.comparison import to_csv

        return to_csv(self._dict)

    def write_report(self, path: _Path, *, trace: _Path | None = None) -> None:
        """Write the result as one HTML page that needs no network.

        ``trace``: a file for Perfetto, of ``write_trace`` or of a simulation's option ``trace``.
        The page hands it over when its reader asks.

        Raises OSError if the file cannot be written.
        """
        view("report").write(self._dict, path, trace=trace)

    def write_table(self, name: str, path: _Path) -> None:
        """Write the table ``name`` as Parquet, or as Arrow IPC if ``path`` ends in ``.arrow``."""
        self.table(name).write(os.fspath(path))

    def write_tables(self, folder: _Path) -> None:
        """Write every table as Parquet, and the result with them: :func:`torpor.load` reads it.

        Raises OSError if a file cannot be written.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name in self.tables:
            self.write_table(name, folder / f"{name}.parquet")
        write_whole(folder / RESULT_FILE, self._text)

    @cached_property
    def _text(self) -> str:
        return self._record.json()

    @cached_property
    def _dict(self) -> Any:
        return json.loads(self._text)

    def _repr_html_(self) -> str:
        return str(view("notebook").to_html(self._dict))


def headed(kind: str, data: Mapping[str, object]) -> Record:
    """Return data as a result of this kind."""
    head = {"format": _engine.FORMAT, "kind": kind, "torpor": {"version": _engine.__version__}}
    return Record({**head, **data})


class ForeignError(TorporError):
    """A file that nobody wrote as a result."""


def read_text(path: _Path, size_max: int | None = None) -> str:
    """Read a text file that may be anybody's.

    Raises OSError if it cannot be read or is no regular file, and :class:`ForeignError` for what is
    no UTF-8, or larger than ``size_max`` bytes.
    """
    with open_regular(path) as file:
        content = file.read(-1 if size_max is None else size_max + 1)
    if size_max is not None and len(content) > size_max:
        raise ForeignError(f"`{path}` has more than {size_max >> 20} MiB")
    try:
        return content.decode("utf-8")
    except ValueError as error:
        raise ForeignError(f"`{path}` is not a result: {error}") from None


def parse_json(text: str, path: _Path) -> Any:
    """Return what JSON text says. ``path`` is named by the error, a :class:`ForeignError`."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ForeignError(f"`{path}` is not a result: {error}") from None
    except RecursionError:
        raise ForeignError(f"`{path}` is not a result: it is nested too deeply") from None


def load(path: _Path) -> "Replay | Simulation | Record | list[Record] | _engine.Table":
    """Read what ``--json``, ``--parquet`` or a ``write`` method wrote.

    JSON becomes what made it returned: a :class:`Replay`, a :class:`Simulation`, or else a
    :class:`Record`; of several studies, a list. So does a folder of tables. A single ``.parquet``
    or ``.arrow`` file becomes its table.

    Raises OSError if the file cannot be read or is no regular file, and
    :class:`torpor.TorporError` if it is no result, a damaged one, or one of a later Torpor.
    """
    return _load(Path(path), None)


def load_bounded(path: Path, size_max: int) -> "Replay | Simulation | Record | list[Record]":
    """Read JSON as :func:`load` does, unless it has more than so many bytes."""
    found = _load(path, size_max)
    assert not isinstance(found, _engine.Table)
    return found


def _load(
    path: Path, size_max: int | None
) -> "Replay | Simulation | Record | list[Record] | _engine.Table":
    if path.suffix in (".parquet", ".arrow"):
        return _engine.read_table(os.fspath(path))
    file = path / RESULT_FILE if path.is_dir() else path
    text = read_text(file, size_max)
    data = parse_json(text, file)
    if isinstance(data, list):
        return [_record(_checked(item, file)) for item in data]
    result = _checked(data, file)
    if result is not data:
        text = json.dumps(result)
    if result["kind"] == "replay":
        return torpor.Replay(text, path if path.is_dir() else None)
    if result["kind"] == "simulation":
        return torpor.Simulation(text)
    return _record(result)


def checked(data: Any, path: _Path) -> Record:
    """Return parsed JSON as a record; raise TorporError if it is no whole result."""
    return _record(_checked(data, Path(path)))


def _record(result: dict[str, Any]) -> Record:
    # The kinds import this module.
    from torpor.results.kinds import KINDS

    found = KINDS.get(result["kind"])
    return (found.record if found else Record)(result)


def _checked(data: Any, file: Path) -> dict[str, Any]:
    """Return the result in the shape of this Torpor."""
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
