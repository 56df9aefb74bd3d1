# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Study files: where they are, and whether what they say can be run."""

import os
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, cast, get_type_hints

from torpor import _engine
from torpor._engine import TorporError
from torpor.machine.toml import toml
from torpor.results import judge
from torpor.results.files import cause

FOLDER = Path(__file__).parent


class StudyError(TorporError):
    """A study is unknown, or its file is wrong."""


#: As published: a number, a range, or its sign.
Published = float | list[float] | str


class Policies(TypedDict, total=False):
    """Policies that set frequencies."""

    cpufreq: str
    io_boost: str


class _Column(TypedDict):
    name: str
    governor: str


class Column(_Column, Policies, total=False):
    """A governor, and how its machine differs."""

    platform_params: dict[str, float]


class Setting(Policies, total=False):
    """Inputs of a run, given by a row, its table or the study."""

    workload: str
    platform: str
    duration: str
    #: A workload that runs with the other one.
    background: str


class _Row(TypedDict):
    title: str


class Row(_Row, Setting, total=False):
    """A metric by column, or why there is none."""

    metric: str
    not_modelled: str
    published: dict[str, Published]
    calibrated: list[str]
    fits: list[str]
    noise_pct: float
    scale: float
    offset: float
    is_relative: bool
    values: dict[str, float]
    disabled_states: list[int]


class _Table(TypedDict):
    title: str
    columns: list[str]
    row: list[Row]


class Table(_Table, Setting, total=False):
    """A published table."""

    against_oracle: bool
    tells_most: bool


class _Study(TypedDict):
    title: str
    source: list[str]
    platform: str
    duration: str
    seeds: int
    column: list[Column]
    table: list[Table]
    calibration: str


class Study(_Study, Policies, total=False):
    """A study, as its file has it."""

    #: A workload that runs with every other one, unless a table or a row has its own.
    background: str
    note: list[str]


class _Key(NamedTuple):
    kind: str
    is_required: bool = True


_KINDS: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "a list of texts": list,
    "a whole number of 1 or more": int,
    "a number": (int, float),
    "a list of state indices": list,
    "true or false": bool,
    "a table": dict,
    "a list of tables": list,
}
_KIND_OF: dict[Any, str] = {
    str: "text",
    list[str]: "a list of texts",
    int: "a whole number of 1 or more",
    float: "a number",
    list[int]: "a list of state indices",
    bool: "true or false",
    dict[str, float]: "a table",
    dict[str, Published]: "a table",
}


def _keys_of(table: Any) -> dict[str, _Key]:
    return {
        name: _Key(_KIND_OF.get(hint, "a list of tables"), name in table.__required_keys__)
        for name, hint in get_type_hints(table).items()
    }


_STUDY, _COLUMN, _TABLE, _ROW = map(_keys_of, (Study, Column, Table, Row))

_SCHEMA_OF: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "a list of texts": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    "a whole number of 1 or more": {"type": "integer", "minimum": 1},
    "a number": {"type": "number"},
    "a list of state indices": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
    "true or false": {"type": "boolean"},
    "a table": {"type": "object", "additionalProperties": {"type": "number"}},
}


def schema() -> dict[str, Any]:
    """Return the JSON schema of a study's file, for editors; :func:`load` says more."""
    ends = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    published = {"anyOf": [{"type": "number"}, ends, {"enum": list(judge.DIRECTIONS)}]}
    row = _schema_of(_ROW, published={"type": "object", "additionalProperties": published})
    row["oneOf"] = [{"required": ["metric"]}, {"required": ["not_modelled"]}]
    table = _schema_of(_TABLE, row={"type": "array", "items": row, "minItems": 1})
    column = {"type": "array", "items": _schema_of(_COLUMN), "minItems": 1}
    return {
        "$comment": "SPDX-License-Identifier: MIT OR GPL-2.0-only",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A study of Torpor",
        **_schema_of(_STUDY, column=column, table={"type": "array", "items": table, "minItems": 1}),
    }


def _schema_of(keys: dict[str, _Key], **own: dict[str, Any]) -> dict[str, Any]:
    properties = {
        name: own[name] if name in own else _SCHEMA_OF[key.kind] for name, key in keys.items()
    }
    required = [name for name, key in keys.items() if key.is_required]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": required,
    }


def names() -> list[str]:
    """Return the studies that ship with Torpor.

    >>> "pixel6-teo" in names()
    True
    """
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(study: str | os.PathLike[str]) -> tuple[Study, Path]:
    """Return a study that ships, or that of a ``.toml`` file, and its path.

    Raises :class:`StudyError`, which names the file, the place in it, and what is allowed there.
    """
    path = Path(study)
    if path.suffix != ".toml":
        known = names()
        if str(path) not in known:
            otherwise = "for a file of your own, give its path, ending in `.toml`"
            raise StudyError(_engine.unknown_name("study", str(path), known, otherwise))
        path = FOLDER / f"{path.name}.toml"
    try:
        content = toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StudyError(f"study `{path}`: {cause(error)}") from error
    except ValueError as error:
        raise StudyError(f"study `{path}`: {error}") from error
    try:
        _check(content)
    except StudyError as error:
        raise StudyError(f"study `{path}`: {error}") from None
    return cast("Study", content), path


def _check(study: dict[str, Any]) -> None:
    _keys(study, _STUDY, "")
    known: list[str] = []
    for index, column in enumerate(study["column"]):
        _keys(column, _COLUMN, f"column[{index}].")
        if column["name"] in known:
            raise StudyError(f"column[{index}].name: {column['name']!r} is there twice")
        known.append(column["name"])
        for name, value in column.get("platform_params", {}).items():
            _kind(value, "a number", f"column[{index}].platform_params.{name}")
    for index, table in enumerate(study["table"]):
        place = f"table[{index}]."
        _keys(table, _TABLE, place)
        for name in table["columns"]:
            _one_of(name, known, f"{place}columns")
        for number, row in enumerate(table["row"]):
            _check_row(row, table["columns"], f"{place}row[{number}].")
            if "metric" in row and "workload" not in {**table, **row}:
                raise StudyError(f"{place}row[{number}].workload: missing, here or in its table")


def _check_row(row: dict[str, Any], columns: list[str], place: str) -> None:
    _keys(row, _ROW, place)
    if ("metric" in row) == ("not_modelled" in row):
        raise StudyError(f"{place}metric: expected either this or `not_modelled`, the reason")
    for name, value in row.get("published", {}).items():
        _one_of(name, columns, f"{place}published")
        _published(value, f"{place}published.{name}")
    for name in row.get("calibrated", []):
        _one_of(name, list(row.get("published", {})), f"{place}calibrated")
    if "fits" in row:
        met = [row["published"][name] for name in row.get("calibrated", [])]
        of_workload = [path.startswith("workload.") for path in row["fits"]]
        is_right = all(of_workload) or (len(row["fits"]) == len(met) and not any(of_workload))
        if not met or not is_right or row.get("is_relative"):
            raise StudyError(
                f"{place}fits: {len(row['fits'])} numbers, expected as many as there are columns "
                f"in `calibrated`: {len(met)}, or any of the workload; and no `is_relative`"
            )
        for name, value in zip(row["calibrated"], met, strict=True):
            _kind(value, "a number", f"{place}published.{name}")
    if row.get("is_relative"):
        if columns[0] not in row.get("calibrated", []):
            raise StudyError(f"{place}is_relative: expected {columns[0]!r} in `calibrated`")
        _kind(row["published"][columns[0]], "a number", f"{place}published.{columns[0]}")
    for name, value in row.get("values", {}).items():
        _kind(value, "a number", f"{place}values.{name}")


def _published(value: Any, place: str) -> None:
    """A number, or the range it is in, a bound being a range to where values end, or its sign."""
    if isinstance(value, str):
        _one_of(value, list(judge.DIRECTIONS), place)
    elif not isinstance(value, list):
        _kind(value, "a number", place)
    elif len(value) != 2 or any(type(end) not in (int, float) for end in value):
        raise StudyError(f"{place}: {value!r}, expected a number, or a range: [low, high]")
    elif value[0] > value[1]:
        raise StudyError(f"{place}: {value!r}, expected the lower end first")


def _keys(table: dict[str, Any], allowed: dict[str, _Key], place: str) -> None:
    for key, value in table.items():
        if key not in allowed:
            raise StudyError(f"{place}{key}: unknown key, expected one of {', '.join(allowed)}")
        _kind(value, allowed[key].kind, f"{place}{key}")
    for key, rule in allowed.items():
        if rule.is_required and key not in table:
            raise StudyError(f"{place}{key}: missing, expected {rule.kind}")


def _kind(value: Any, kind: str, place: str) -> None:
    # To Python, True is a number.
    is_right = isinstance(value, _KINDS[kind]) and isinstance(value, bool) == (
        kind == "true or false"
    )
    if is_right and kind.startswith("a list"):
        item = {"a list of texts": str, "a list of tables": dict}.get(kind, int)
        is_right = bool(value) and all(type(each) is item for each in value)
    if is_right and kind.startswith("a whole number"):
        is_right = value >= 1
    if not is_right:
        raise StudyError(f"{place}: {value!r}, expected {kind}")


def _one_of(name: str, allowed: list[str], place: str) -> None:
    if name not in allowed:
        raise StudyError(f"{place}: {name!r}, expected one of {', '.join(allowed) or 'none'}")
