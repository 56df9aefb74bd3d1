# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs a study: simulates its tables, and judges the predictions."""

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from torpor import EngineError, GovernorError, Simulation, TorporError, simulate
from torpor.plugin import headed, unknown_name, workload_content
from torpor.plugin import types as results
from torpor_lab import ceiling, judge
from torpor_lab.record import Reproduction
from torpor_lab.studies import files

if TYPE_CHECKING:
    from torpor_lab import reproduction as shapes

    _SettingKey = Literal[
        "workload", "platform", "duration", "cpufreq", "io_boost", "energy_aware", "background"
    ]

#: Differences that published tables of this kind show between runs of the same thing.
DEFAULT_NOISE_PCT = 1.0

#: Apart from governors: it adds metrics to each, and no column.
ORACLE = "oracle"

#: Metrics that a governor has by definition: they predict nothing.
_MECHANICAL = {("shallowest", "above_pct"), ("deepest", "below_pct")}

#: The cpufreq governor is the column's, else its row's, table's or study's, else the machine's.
_SETTING: "tuple[_SettingKey, ...]" = (
    "workload",
    "platform",
    "duration",
    "cpufreq",
    "io_boost",
    "energy_aware",
    "background",
)

_Workload = str | Path | dict[str, Any]

#: A text of a workload in whose place a row has a number.
_PLACEHOLDER = re.compile(r"@(\w+)@")


def reproduce(
    study: str | os.PathLike[str],
    *,
    duration: str | None = None,
    seeds: int | None = None,
    kernel: str | None = None,
    threads: int | None = None,
    store: str | os.PathLike[str] | None = None,
    watch: Callable[[Simulation], None] | None = None,
) -> Reproduction:
    """Run a study and compare the simulated values with the published ones.

    Args:
        study: Name of a study that ships, or the path of a TOML file.
        duration: Simulated time per run, instead of the study's.
        seeds: Runs per governor, instead of the study's.
        kernel: Another kernel than the default, as in :func:`torpor.simulate`. Columns that it
            cannot serve are left out (``left_out``).
        threads: Worker threads; default: one a core. The result does not depend on it.
        store: Keep every finished run in this folder, a store as :func:`torpor.sweep` fills it, and
            take from it the runs that an earlier call has finished.
        watch: Called with each simulation as it ends.

    Returns plain data: ``tables`` with ``rows`` with ``cells`` by column; a cell holds
    ``published``, ``ours`` and its least and greatest seed as ``spread`` (None where there is
    none), ``is_calibrated``, and ``right``: what was judged, None where nothing was, with the
    reason in ``not_counted``. ``counts`` sums that up, ``judged`` has it by column, next to what
    predictors get that know nothing, and the changes from a second base. ``most`` has the title
    of each column's highest row, where the study asks for it.

    Raises:
        StudyError: The study is unknown, or its file is wrong.
        TorporError: Its workload, machine or governors are.

    >>> result = reproduce("pixel6-teo", duration="100ms", seeds=1)
    >>> result["tables"][0]["rows"][0]["cells"]["menu"]["is_calibrated"]
    True
    """
    content, path = files.load(study)
    seeds = seeds or content["seeds"]
    runs = Runs(path, content, Calls(duration, seeds, kernel, threads, store, watch))
    tables, judged = [], []
    with tempfile.TemporaryDirectory() as folder:
        runs.works_in(Path(folder))
        for table in content["table"]:
            shown, rows = _table(table, runs)
            tables.append(shown)
            judged += rows
    runs.refuse_if_nothing_ran()
    found = {
        "study": path.stem,
        "title": content["title"],
        "source": content["source"],
        "calibration": content["calibration"],
        "kernel": runs.kernel,
        "platforms": list(runs.platforms),
        "durations": list(runs.durations),
        "seeds": seeds,
        "tables": tables,
        "counts": judge.count([cell for row in judged for cell in row.right().values()]),
        "judged": judge.study(judged, ceiling.ceiling(judged)),
        "notes": content.get("note", []),
        "left_out": list(runs.left_out),
        "failures": runs.failures,
    }
    return Reproduction(headed("reproduction", found))


class _Value(NamedTuple):
    """A metric over all seeds, and of each alone, where it is known of each."""

    mean: float
    seeds: tuple[float, ...] = ()

    def scaled(self, scale: float, offset: float = 0) -> "_Value":
        seeds = tuple(value * scale + offset for value in self.seeds)
        return _Value(self.mean * scale + offset, seeds)


_Metrics = dict[str, "_Value | None"]


@dataclass(frozen=True)
class _Setting:
    """A row's inputs, with those of its table and study filled in: equal ones share a run."""

    workload: str
    platform: str
    duration: str
    cpufreq: str
    io_boost: str
    energy_aware: bool
    background: str
    columns: tuple[str, ...]
    values: tuple[tuple[str, float], ...]
    disabled_states: tuple[int, ...]
    against_oracle: bool
    #: Governors that judgement wants in addition to the columns, on the first one's machine.
    references: tuple[str, ...]


@dataclass(frozen=True)
class Calls:
    """A caller's changes to the study, and how to run it."""

    duration: str | None
    seeds: int
    kernel: str | None
    threads: int | None
    store: str | os.PathLike[str] | None
    watch: Callable[[Simulation], None] | None


class Runs:
    """The simulations of one study; rows that need the same one share it."""

    def __init__(self, path: Path, study: files.Study, calls: Calls) -> None:
        self._path = path
        self._study = study
        self._calls = calls
        self._columns = {column["name"]: column for column in study["column"]}
        self._store = calls.store
        self._done: dict[_Setting, dict[str, _Metrics]] = {}
        # Subjects of predicted cells, so that none counts twice.
        self._counted: set[tuple[object, ...]] = set()
        self._first_error: Exception | None = None
        # Everything that ran, each once, in the order of its first row.
        self.platforms: dict[str, None] = {}
        self.durations: dict[str, None] = {}
        self.left_out: dict[str, None] = {}
        self.failures: list[str] = []
        self.kernel: results.KernelInfo | None = None

    def works_in(self, folder: Path) -> None:
        """Keep finished runs there if they are kept nowhere else."""
        # Each seed's own values are read from it.
        self._store = self._store or folder / "store"

    def refuse_if_nothing_ran(self) -> None:
        """Raise an error that kept every column from running, since no single column caused it."""
        if self._first_error is not None and self.kernel is None:
            raise self._first_error

    def _setting(self, table: files.Table, row: files.Row) -> _Setting:
        study = self._study
        either: files.Setting = {**_setting_of(table), **_setting_of(row)}
        return _Setting(
            workload=either["workload"],
            platform=either.get("platform", study["platform"]),
            duration=self._calls.duration or either.get("duration", study["duration"]),
            cpufreq=either.get("cpufreq", study.get("cpufreq", "")),
            io_boost=either.get("io_boost", study.get("io_boost", "")),
            energy_aware=either.get("energy_aware", study.get("energy_aware", True)),
            background=either.get("background", study.get("background", "")),
            columns=tuple(table["columns"]),
            values=tuple(sorted(row.get("values", {}).items())),
            disabled_states=tuple(row.get("disabled_states", ())),
            against_oracle=table.get("against_oracle", False),
            references=judge.REFERENCES if row.get("published") else (),
        )

    def not_counted(
        self, table: files.Table, row: files.Row, column: str
    ) -> Literal["repeated", "mechanical"] | None:
        """Why a published cell is no prediction that counts; it is taken as counted otherwise."""
        own = self._columns[column]
        ran = self._setting(table, row)
        is_same = (ran.workload, ran.platform, ran.duration, ran.cpufreq, ran.io_boost)
        differs = (ran.energy_aware, ran.background, ran.values, ran.disabled_states)
        key = (*is_same, *differs, column, row["metric"])
        if key in self._counted:
            return "repeated"
        self._counted.add(key)
        if (own["governor"], row["metric"]) in _MECHANICAL:
            return "mechanical"
        return None

    def values(self, table: files.Table, row: files.Row) -> dict[str, _Value]:
        """Return the row's metric by column, without those that failed or do not know it."""
        ran = self._setting(table, row)
        self.platforms[ran.platform] = None
        self.durations[ran.duration] = None
        if ran not in self._done:
            # If other rows of the table are judged, the references have already run.
            more = replace(ran, references=judge.REFERENCES)
            self._done[ran] = self._done.get(more) or self._simulate(ran, row["title"])
        found = {}
        known: set[str] = set()
        for column, metrics in self._done[ran].items():
            known |= metrics.keys()
            value = metrics.get(row["metric"])
            if value is not None:
                found[column] = value.scaled(row.get("scale", 1), row.get("offset", 0))
        if known and row["metric"] not in known:
            raise files.StudyError(
                f"study `{self._path}`: {row['title']}: "
                + unknown_name("metric", row["metric"], sorted(known), "")
            )
        base = table["columns"][0]
        if row.get("is_relative") and base in found and found[base].mean:
            level = row["published"][base]
            assert isinstance(level, int | float), "the file was checked"
            scale = level / found[base].mean
            found = {column: value.scaled(scale) for column, value in found.items()}
        return found

    def _simulate(self, ran: _Setting, title: str) -> dict[str, _Metrics]:
        # Columns on the same machine with the same frequencies run together.
        groups: dict[_Machine, dict[str, str]] = {}
        for column in ran.columns:
            own = self._columns[column]
            params = own.get("platform_params", {})
            changes = "".join(f",{key}={value}" for key, value in params.items())
            machine = _Machine(
                f"{self.beside(ran.platform)}{changes}",
                own.get("cpufreq", ran.cpufreq),
                own.get("io_boost", ran.io_boost),
                own.get("energy_aware", ran.energy_aware),
                tuple(sorted({*ran.disabled_states, *own.get("disabled_states", ())})),
            )
            groups.setdefault(machine, {})[column] = own["governor"]
        first = next(iter(groups.values()))
        first.update({judge.key_of(name): name for name in ran.references})
        metrics: dict[str, _Metrics] = {}
        workload = self._workload(ran.workload, dict(ran.values))
        for machine, columns in groups.items():
            metrics |= self._simulate_on(machine, columns, workload, ran, title)
        names = [*ran.columns, *map(judge.key_of, ran.references)]
        return {column: metrics[column] for column in names}

    def _simulate_on(
        self,
        machine: "_Machine",
        columns: dict[str, str],
        workload: _Workload,
        ran: _Setting,
        title: str,
    ) -> dict[str, _Metrics]:
        """Run columns, by name a governor, on one machine."""
        try:
            return self._simulate_all(machine, columns, workload, ran, title)
        except (EngineError, GovernorError) as error:
            if self._calls.kernel is None:
                raise
            if len(columns) > 1:
                found: dict[str, _Metrics] = {}
                for column, governor in columns.items():
                    found |= self._simulate_on(machine, {column: governor}, workload, ran, title)
                return found
            # A kernel serves a column or it does not: the others are none the worse.
            self._first_error = self._first_error or error
            (column,) = columns
            reason = str(error).partition("\nhint: ")[0].replace("\n", " ")
            self.left_out[f"{column}: {reason}"] = None
            return {column: {}}

    def _simulate_all(
        self,
        machine: "_Machine",
        columns: dict[str, str],
        workload: _Workload,
        ran: _Setting,
        title: str,
    ) -> dict[str, _Metrics]:
        calls = self._calls
        governors = list(dict.fromkeys(columns.values()))
        asked = list(governors)
        if ran.against_oracle:
            asked.append(ORACLE)

        def run(**which: int) -> Simulation:
            return simulate(
                workload,
                platform=machine.platform,
                governors=asked,
                duration=ran.duration,
                cpufreq=machine.cpufreq or (),
                io_boosts=machine.io_boost or (),
                writes=machine.writes,
                kernels=calls.kernel or (),
                disabled_states=machine.disabled_states,
                background=str(self.beside(ran.background)) or None,
                store=self._store,
                threads=calls.threads,
                **which,  # type: ignore[arg-type]
            )

        simulation = run(seeds=calls.seeds)
        if calls.watch is not None:
            calls.watch(simulation)
        if simulation.interrupted:
            # Finished runs are a mean over fewer seeds than the study's.
            raise KeyboardInterrupt
        result = simulation.to_dict()
        self.kernel = next(iter(result["options"]["kernels"]), None)
        duration_s, seeds = result["options"]["duration_ns"] / 1e9, result["options"]["seeds"]
        # All of these runs are in the store.
        alone = [run(seed=seed["seed"], seeds=1) for seed in result["runs"][0]["seeds"]]
        found: dict[str, _Metrics] = {}
        for index, governor in enumerate(governors):
            ended = result["runs"][index]
            if ended["error"]:
                self.failures.append(f"{title}: {governor}: {ended['error']}")
                found[governor] = {}
                continue
            of_seeds = [_metrics(one.to_dict()["runs"][index], duration_s, 1) for one in alone]
            found[governor] = _over_seeds(_metrics(ended, duration_s, seeds), of_seeds)
        return {column: found[governor] for column, governor in columns.items()}

    def beside(self, name: str) -> str | Path:
        """Return what ships, by its name, or the path of a file next to the study."""
        return self._path.parent / name if re.search(r"\.toml(,|$)", name) else name

    def _workload(self, name: str, values: dict[str, float]) -> _Workload:
        """A workload's name or path; one next to the study has its placeholders filled in."""
        path = self.beside(name)
        if isinstance(path, str) or not values:
            return path
        try:
            content = workload_content(str(path))
        except TorporError as error:
            raise files.StudyError(f"study `{self._path}`: {error}") from error
        found: set[str] = set()
        filled: dict[str, Any] = _filled(content, values, found)
        if missing := found ^ values.keys():
            raise files.StudyError(
                f"study `{self._path}`: values and the placeholders of `{name}` do not match: "
                f"{', '.join(sorted(missing))}"
            )
        return filled


def _filled(item: Any, values: dict[str, float], found: set[str]) -> Any:
    """Return a part of a workload with numbers in it; ``found`` gets the names of these."""
    if isinstance(item, dict):
        return {key: _filled(each, values, found) for key, each in item.items()}
    if isinstance(item, list):
        return [_filled(each, values, found) for each in item]
    if isinstance(item, str) and (name := _PLACEHOLDER.fullmatch(item)):
        found.add(name[1])
        return values.get(name[1])
    return item


class _Machine(NamedTuple):
    """Common inputs of columns that run together."""

    platform: str
    cpufreq: str
    io_boost: str
    energy_aware: bool
    disabled_states: tuple[int, ...]

    @property
    def writes(self) -> tuple[str, ...]:
        """Writes to the kernel's files. Without schedutil no task is placed by energy, and the
        kernel refuses the write."""
        is_schedutil = self.cpufreq.partition(",")[0] in ("", "schedutil")
        return () if self.energy_aware or not is_schedutil else ("kernel.sched_energy_aware=0",)


def _setting_of(table: files.Setting) -> files.Setting:
    """Return the setting of a table or a row alone."""
    found: files.Setting = {}
    for key in _SETTING:
        if key in table:
            found[key] = table[key]
    return found


def _metrics(run: "results.GovernorOutcome", duration_s: float, seeds: int) -> _Metrics:
    """Return the metrics that a row can name: the catalogue's, those derived from them, and some of
    each task's."""
    metrics: _Metrics = {}
    for key, mean in run["metrics"].items():
        metrics[key] = None if mean is None else _Value(mean)
    ipis = metrics["ipis"]
    metrics["ipis_per_s"] = ipis and ipis.scaled(1 / duration_s)
    for domain in run["perf_domains"]:
        clocks = {"freq_khz": domain["freq_khz"], "freq_busy_khz": domain["freq_busy_khz"]}
        for key, khz in clocks.items():
            metrics[f"{key}:{domain['name']}"] = None if khz is None else _Value(khz)
    for task in run["tasks"]:
        name = task["name"]
        metrics[f"latency_mean_us:{name}"] = _us(task["latency"]["mean_ns"])
        # A task's counts are sums over the seeds. Passes that the end cut off count here, too.
        tasks_us = task["started"] * duration_s * 1e6
        metrics[f"pass_mean_us:{name}"] = (
            _Value(tasks_us / task["passes"]) if task["passes"] else None
        )
        metrics[f"passes_per_s:{name}"] = _Value(task["passes"] / (duration_s * seeds))
        metrics[f"missed_per_s:{name}"] = _Value(task["missed"] / (duration_s * seeds))
        metrics[f"iops:{name}"] = _Value(task["ios"] / (duration_s * seeds))
    for flow in run["flows"]:
        name, mean_ns = flow["name"], flow["time"]["mean_ns"]
        metrics[f"flow_mean_ms:{name}"] = None if mean_ns is None else _Value(mean_ns / 1e6)
        metrics[f"flow_speed_per_s:{name}"] = _Value(1e9 / mean_ns) if mean_ns else None
        metrics[f"flow_late_pct:{name}"] = (
            _Value(100 * flow["late"] / flow["ended"]) if flow["ended"] else None
        )
    return metrics


def _over_seeds(all_of_them: _Metrics, of_seeds: list[_Metrics]) -> _Metrics:
    """The values over all seeds, with those of each seed alone."""
    found: _Metrics = {}
    for key, value in all_of_them.items():
        alone = [metrics.get(key) for metrics in of_seeds]
        known = tuple(one.mean for one in alone if one is not None)
        found[key] = value and _Value(value.mean, known if len(known) == len(alone) else ())
    return found


def _us(ns: int | None) -> _Value | None:
    return None if ns is None else _Value(ns / 1e3)


def _table(table: files.Table, runs: Runs) -> "tuple[shapes.StudyTable, list[judge.Row]]":
    """Return a table as shown and as judged."""
    rows: list[shapes.StudyRow] = []
    judged: list[judge.Row] = []
    for row in table["row"]:
        values = runs.values(table, row) if "metric" in row else {}
        published, calibrated = row.get("published", {}), row.get("calibrated", [])
        not_counted = {
            column: runs.not_counted(table, row, column) for column in published if column in values
        }
        predicted = judge.Row(
            base=table["columns"][0],
            columns=table["columns"],
            published=published,
            ours={column: value.mean for column, value in values.items()},
            seeds={column: value.seeds for column, value in values.items()},
            skipped=[*calibrated, *(name for name, why in not_counted.items() if why)],
            noise_pct=row.get("noise_pct", DEFAULT_NOISE_PCT),
            is_relative=row.get("is_relative", False),
            runs=ceiling.scaled(row.get("runs", table.get("runs", {})), _numbers(published)),
        )
        judged.append(predicted)
        right = predicted.right()
        cells: dict[str, shapes.StudyCell] = {}
        for column in table["columns"]:
            value = values.get(column)
            seeds = list(value.seeds) if value else []
            cells[column] = {
                "published": published.get(column),
                "ours": value and value.mean,
                "spread": [min(seeds), max(seeds)] if seeds else None,
                "is_calibrated": column in calibrated,
                "not_counted": None if column in calibrated else not_counted.get(column),
                "right": right.get(column),
                "is_in_spread": (
                    ceiling.is_in_spread(predicted, column) if column in predicted.runs else None
                ),
            }
        rows.append(
            {"title": row["title"], "not_modelled": row.get("not_modelled"), "cells": cells}
        )
    most = _most(rows, table["columns"]) if table.get("tells_most") else {}
    return {"title": table["title"], "rows": rows, "most": most}, judged


def _numbers(published: dict[str, files.Published]) -> dict[str, float]:
    """Return the cells that have one number."""
    return {n: v for n, v in published.items() if isinstance(v, int | float)}


def _most(rows: "list[shapes.StudyRow]", columns: list[str]) -> dict[str, str]:
    """Return by column the title of the row in which it is highest."""
    found = {}
    for column in columns:
        ours = [(row["cells"][column]["ours"], row["title"]) for row in rows]
        known = [(value, title) for value, title in ours if value is not None]
        if known:
            _, found[column] = max(known, key=lambda one: one[0])
    return found
