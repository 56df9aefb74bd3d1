# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Finds study files and checks that they can be run."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, cast

from torpor import TorporError
from torpor.plugin import cause, shapes, toml_file, unknown_name

FOLDER = Path(__file__).parent


class StudyError(TorporError):
    """A study is unknown, or its file is wrong."""


#: As published: a number, a range, a bound being a range to where values end, or its sign.
Published = float | shapes.Pair | Literal["more", "less"]


class Policies(TypedDict, total=False):
    """Policies that set frequencies, and whether tasks are placed by energy."""

    cpufreq: str
    io_boost: str
    energy_aware: bool


class _Column(TypedDict):
    name: str
    governor: str


class Column(_Column, Policies, total=False):
    """A governor, and how its machine differs."""

    platform_params: dict[str, float]
    disabled_states: Annotated[list[int], shapes.Some]


class Setting(Policies, total=False):
    """Inputs of a run, given by a row, its table or the study."""

    workload: str
    platform: str
    duration: str
    background: str


class _Row(TypedDict):
    title: str


class Row(_Row, Setting, total=False):
    """A metric by column, or why there is none."""

    metric: str
    not_modelled: str
    published: dict[str, Published]
    calibrated: shapes.Texts
    fits: shapes.Texts
    noise_pct: float
    scale: float
    offset: float
    is_relative: bool
    runs: dict[str, list[float]]
    values: dict[str, float]
    disabled_states: Annotated[list[int], shapes.Some]


class _Table(TypedDict):
    title: str
    columns: shapes.Texts
    row: Annotated[list[Row], shapes.Some]


class Table(_Table, Setting, total=False):
    """A published table."""

    runs: dict[str, list[float]]
    against_oracle: bool
    tells_most: bool


class _Study(TypedDict):
    title: str
    source: shapes.Texts
    platform: str
    duration: str
    seeds: Annotated[int, shapes.Meta(ge=1)]
    column: Annotated[list[Column], shapes.Some]
    table: Annotated[list[Table], shapes.Some]
    calibration: str


class Study(_Study, Policies, total=False):
    """A study, as its file has it."""

    background: str
    note: shapes.Texts


#: The key in each record; editors and the reference show the descriptions.
DESCRIPTIONS = {
    "cpufreq": "The cpufreq governor. The closest of column, row, table and study counts.",
    "io_boost": "The IO boost. The closest of column, row, table and study counts.",
    "energy_aware": "False: `kernel.sched_energy_aware=0` under schedutil, for a board whose kernel"
    " did not place tasks by energy. The closest of column, row, table and study counts.",
    "workload": "The workload of a row, or of all rows of a table. One that ends in `.toml` is next"
    " to the study; any other ships with Torpor.",
    "platform": "The machine, of a row, a table or the study. One that ends in `.toml` is next to"
    " the study; any other ships with Torpor.",
    "duration": "The length of a run, of a row, a table or the study: `20s`.",
    "background": "A workload that runs with the other one, of a row, a table or the study.",
    "name": "The column's name.",
    "governor": "The idle governor, as `torpor simulate` takes it.",
    "platform_params": "Numbers of the machine that differ in this column, by path.",
    "disabled_states": "Idle states that are off. Those of a column add to those of a row.",
    "title": "A description in one line.",
    "metric": "A key of the metrics, or `latency_mean_us:TASK`, `pass_mean_us:TASK` (time over"
    " passes), `passes_per_s:TASK`, `missed_per_s:TASK` (periods), `iops:TASK`,"
    " `flow_mean_ms:FLOW`, `flow_late_pct:FLOW`, `flow_speed_per_s:FLOW` (flows one after another,"
    " a second), `freq_khz:CLUSTER`, `freq_busy_khz:CLUSTER`, `ipis_per_s`.",
    "not_modelled": "Instead of `metric`: why the simulation has none.",
    "published": 'The value by column: a number, a range `[low, high]`, "more" or "less".',
    "calibrated": "Columns whose values the workload's or the machine's numbers were fitted to.",
    "fits": "Numbers for `--calibrate`: of the row's machine, one for each column in `calibrated`"
    " (`io_device.nvme.read_us.mean`), or any of its workload"
    " (`workload.task.main.phase.0.run_us.mean`).",
    "noise_pct": "Smaller differences count as none. Default: 1.",
    "scale": "The simulated value is the metric times this, plus `offset`. Default: 1.",
    "offset": "Added to the scaled metric. Default: 0.",
    "is_relative": "Scales the simulated values to match the base: only changes count.",
    "runs": "Published single runs by column, of a row or of all rows of a table; scaled to the"
    " published median, so runs of one row can stand for others of the same device.",
    "values": 'Values for the workload\'s `"@name@"` placeholders.',
    "columns": "Names of columns; the first is the base.",
    "row": "A metric each.",
    "against_oracle": "Rows may name `over_oracle_pct` and the losses of too deep and too shallow"
    " sleeps.",
    "tells_most": "Says in which row each column is highest.",
    "source": "Where the published numbers are from.",
    "seeds": "The number of seeds.",
    "column": "A governor and its settings each.",
    "table": "A published table each.",
    "calibration": "What was calibrated, and how.",
    "note": "Why predictions miss.",
}


def schema() -> dict[str, Any]:
    """Return the JSON schema of a study's file, for editors; :func:`load` says more."""
    defs = shapes.schemas_of(Study)
    for record in defs.values():
        for name, field in record.get("properties", {}).items():
            field["description"] = DESCRIPTIONS[name]
    defs["Row"]["oneOf"] = [{"required": ["metric"]}, {"required": ["not_modelled"]}]
    return {
        "$comment": "SPDX-License-Identifier: MIT OR GPL-2.0-only",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A study of Torpor",
        **defs.pop("Study"),
        "$defs": defs,
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
            raise StudyError(unknown_name("study", str(path), known, otherwise))
        path = FOLDER / f"{path.name}.toml"
    try:
        content = toml_file(path, Study, StudyError, "study")
    except OSError as error:
        raise StudyError(f"study `{path}`: {cause(error)}") from error
    try:
        _check(content)
    except StudyError as error:
        raise StudyError(f"study `{path}`: {error}") from None
    return cast("Study", content), path


def _check(study: dict[str, Any]) -> None:
    known: list[str] = []
    for index, column in enumerate(study["column"]):
        if column["name"] in known:
            raise StudyError(f"column[{index}].name: {column['name']!r} is there twice")
        known.append(column["name"])
    for index, table in enumerate(study["table"]):
        place = f"table[{index}]."
        _check_runs(table, table["columns"], place)
        for name in table["columns"]:
            _one_of(name, known, f"{place}columns")
        for number, row in enumerate(table["row"]):
            _check_row(row, table["columns"], f"{place}row[{number}].")
            if "metric" in row and "workload" not in {**table, **row}:
                raise StudyError(f"{place}row[{number}].workload: missing, here or in its table")


def _check_row(row: dict[str, Any], columns: list[str], place: str) -> None:
    _check_runs(row, list(row.get("published", {})), place)
    if ("metric" in row) == ("not_modelled" in row):
        raise StudyError(f"{place}metric: expected either this or `not_modelled`, the reason")
    for name, value in row.get("published", {}).items():
        _one_of(name, columns, f"{place}published")
        if isinstance(value, list) and value[0] > value[1]:
            raise StudyError(f"{place}published.{name}: {value!r}, expected the lower end first")
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
            _number(value, f"{place}published.{name}")
    if row.get("is_relative"):
        if columns[0] not in row.get("calibrated", []):
            raise StudyError(f"{place}is_relative: expected {columns[0]!r} in `calibrated`")
        _number(row["published"][columns[0]], f"{place}published.{columns[0]}")


def _check_runs(entry: dict[str, Any], columns: list[str], place: str) -> None:
    for name, runs in entry.get("runs", {}).items():
        _one_of(name, columns, f"{place}runs")
        if len(runs) < 2 or min(runs) <= 0:
            raise StudyError(f"{place}runs.{name}: {runs!r}, expected two numbers or more, above 0")


def _number(value: Published, place: str) -> None:
    if isinstance(value, list | str):
        raise StudyError(f"{place}: {value!r}, expected a number")


def _one_of(name: str, allowed: list[str], place: str) -> None:
    if name not in allowed:
        raise StudyError(f"{place}: {name!r}, expected one of {', '.join(allowed) or 'none'}")
