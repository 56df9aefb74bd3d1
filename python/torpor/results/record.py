# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Results as plain data with tables."""

import inspect
import json
import os
import textwrap
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from torpor import _engine
from torpor._engine import TorporError
from torpor.results import types as results
from torpor.results.comparison import sections, to_csv
from torpor.results.files import write_whole
from torpor.results.table import Post

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
        for table in _engine.tables():
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

    def page(self) -> Any:
        """Return the page that :meth:`write_report` writes, as a text that a notebook displays.

        It has the pictures of the result: power over latency, residency, wrong depth, latencies,
        and one CPU's sleeps under every governor, if the result has strips.
        """
        return view("report").Page(self)

    def __str__(self) -> str:
        """Return its tables as text; of a kind without tables, the repr."""
        found = self._posted()
        return repr(self) if found is None else str(view("post").post_text(found)).rstrip("\n")

    def __repr__(self) -> str:
        """Name the kind and its title."""
        found = self._posted()
        of = self.get("kind", "nothing known") if found is None else found.title
        return f"<torpor.{type(self).__name__} of {of}>"

    def _repr_html_(self) -> str | None:
        """Return its tables for a notebook, or None for a kind without tables."""
        found = self._posted()
        return None if found is None else str(view("report.environment").fragment(found))

    def _repr_markdown_(self) -> str | None:
        """The same as Markdown, for what displays no HTML."""
        return None if self._posted() is None else str(view("post").post(self, "markdown"))

    def _posted(self) -> Post | None:
        try:
            found: Post = view("post").posted(self)
        except (TorporError, KeyError):
            # This kind has no tables, or it was made by hand.
            return None
        return found


@with_columns("fidelity")
class Fidelity(Record):
    """The outcome of :func:`torpor.fidelity`: its keys are listed there."""

    @property
    def best(self) -> list[str]:
        """The governors that agree best: several if the recording cannot distinguish them."""
        return list(self["verdict"]["best"])

    @property
    def is_verified(self) -> bool:
        """The best one explains the decisions; if not, the machine may not be the recorded one."""
        return bool(self["verdict"]["is_verified"])

    @property
    def agreement(self) -> float:
        """Share of recorded decisions with which the best one agrees, 0 to 1."""
        return float(self["verdict"]["agreement"])

    @property
    def agreements(self) -> dict[str, float | None]:
        """Agreement of every governor, best first; None for one that failed."""
        return {found["governor"]: found["agreement"] for found in self["governors"]}


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
        return to_csv(self._dict)

    def write_report(self, path: _Path, *, trace: _Path | None = None) -> None:
        """Write the result as one HTML page that needs no network.

        ``trace``: a file for Perfetto, of ``write_trace`` or of a simulation's option ``trace``.
        The page hands it over when its reader asks.

        Raises OSError if the file cannot be written.
        """
        view("report").write(self._dict, path, trace=trace)

    def page(self) -> Any:
        """Return the page that :meth:`write_report` writes, as a text that a notebook displays.

        It has the pictures of the result: power over latency, residency, wrong depth, latencies,
        and one CPU's sleeps under every governor, if the result has strips.
        """
        return view("report").Page(self._dict)

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

    def __str__(self) -> str:
        """Return its tables as text."""
        posts = view("post")
        return str(posts.post_text(posts.posted(self._dict))).rstrip("\n")

    def _repr_html_(self) -> str:
        return str(view("report.environment").fragment(view("post").posted(self._dict)))


def headed(kind: str, data: Mapping[str, object]) -> Record:
    """Return data as a result of this kind."""
    head = {"format": _engine.FORMAT, "kind": kind, "torpor": {"version": _engine.__version__}}
    return Record({**head, **data})
