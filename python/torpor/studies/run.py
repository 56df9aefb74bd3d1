# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs a study: simulates what its tables ask for, and judges the predictions."""

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from torpor import _engine
from torpor.records import Record, headed
from torpor.simulations import Simulation, simulate
from torpor.studies import files, judge

if TYPE_CHECKING:
    from torpor import results, shapes

    _SettingKey = Literal["workload", "platform", "duration", "cpufreq", "io_boost"]

#: Differences that published tables of this kind show between runs of the same thing.
DEFAULT_NOISE_PCT = 1.0

#: Beside governors: it adds metrics to each, and no column.
ORACLE = "oracle"

#: What sets frequencies is a column's own, else its row's, table's or study's, else the machine's.
_SETTING: "tuple[_SettingKey, ...]" = ("workload", "platform", "duration", "cpufreq", "io_boost")

_PLACEHOLDER = re.compile(r'"@(\w+)@"')


def reproduce(
    study: str | os.PathLike[str],
    *,
    duration: str | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    journal: str | os.PathLike[str] | None = None,
    watch: Callable[[Simulation], None] | None = None,
) -> Record:
    """Run a study and compare the simulated values with the published ones.

    Args:
        study: Name of a study that ships, or the path of a TOML file.
        duration: Simulated time a run, instead of the study's.
        seeds: Runs a governor, instead of the study's.
        threads: Worker threads; default: one a core. The result does not depend on it.
        journal: Keep every finished run in this file, and take from it what an earlier call has
            finished. Nobody removes it.
        watch: Called with each simulation as it ends.

    Returns plain data: ``tables`` with ``rows`` with ``cells`` by column; a cell holds
    ``published``, ``ours`` and its least and greatest seed as ``spread`` (None where there is
    none), ``is_calibrated``, and ``right``: what was judged, None where nothing was. ``counts``
    sums that up. ``most`` has the title of each column's highest row, where the study asks for it.

    Raises:
        StudyError: The study is unknown, or its file is wrong.
        TorporError: Its workload, machine or governors are.

    >>> result = reproduce("pixel6-teo", duration="100ms", seeds=1)
    >>> result["tables"][0]["rows"][0]["cells"]["menu"]["is_calibrated"]
    True
    """
    content, path = files.load(study)
    seeds = seeds or content["seeds"]
    runs = _Runs(path, content, _Calls(duration, seeds, threads, journal, watch))
    tables = [_table(table, runs) for table in content["table"]]
    verdicts = [
        cell["right"]
        for table in tables
        for row in table["rows"]
        for cell in row["cells"].values()
        if cell["right"] is not None
    ]
    found = {
        "study": path.stem,
        "title": content["title"],
        "source": content["source"],
        "calibration": content["calibration"],
        "platforms": list(runs.platforms),
        "durations": list(runs.durations),
        "seeds": seeds,
        "tables": tables,
        "counts": judge.count(verdicts),
        "notes": content.get("note", []),
        "failures": runs.failures,
    }
    return headed("reproduction", found)


class _Value(NamedTuple):
    """A metric's mean over seeds, and its least and greatest seed where those are known."""

    mean: float
    low: float | None = None
    high: float | None = None

    def scaled(self, scale: float, offset: float = 0) -> "_Value":
        ends = (None if end is None else end * scale + offset for end in (self.low, self.high))
        return _Value(self.mean * scale + offset, *ends)


_Metrics = dict[str, "_Value | None"]


@dataclass(frozen=True)
class _Setting:
    """What a row runs, with what it leaves to its table and study filled in: equal ones share."""

    workload: str
    platform: str
    duration: str
    cpufreq: str
    io_boost: str
    columns: tuple[str, ...]
    values: tuple[tuple[str, float], ...]
    disabled_states: tuple[int, ...]
    against_oracle: bool


@dataclass(frozen=True)
class _Calls:
    """What a caller wants otherwise than the study, and how to run it."""

    duration: str | None
    seeds: int
    threads: int | None
    journal: str | os.PathLike[str] | None
    watch: Callable[[Simulation], None] | None


class _Runs:
    """The simulations of one study; rows that need the same one share it."""

    def __init__(self, path: Path, study: files.Study, calls: _Calls) -> None:
        self._path = path
        self._study = study
        self._calls = calls
        self._columns = {column["name"]: column for column in study["column"]}
        self._done: dict[_Setting, dict[str, _Metrics]] = {}
        # What ran, each once, in the order of its first row.
        self.platforms: dict[str, None] = {}
        self.durations: dict[str, None] = {}
        self.failures: list[str] = []

    def _setting(self, table: files.Table, row: files.Row) -> _Setting:
        study = self._study
        either: files.Setting = {**_setting_of(table), **_setting_of(row)}
        return _Setting(
            workload=either["workload"],
            platform=either.get("platform", study["platform"]),
            duration=self._calls.duration or either.get("duration", study["duration"]),
            cpufreq=either.get("cpufreq", study.get("cpufreq", "")),
            io_boost=either.get("io_boost", study.get("io_boost", "")),
            columns=tuple(table["columns"]),
            values=tuple(sorted(row.get("values", {}).items())),
            disabled_states=tuple(row.get("disabled_states", ())),
            against_oracle=table.get("against_oracle", False),
        )

    def values(self, table: files.Table, row: files.Row) -> dict[str, _Value]:
        """Return the row's metric by column, without those that failed or do not know it."""
        ran = self._setting(table, row)
        self.platforms[ran.platform] = None
        self.durations[ran.duration] = None
        if ran not in self._done:
            self._done[ran] = self._simulate(ran, row["title"])
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
                + _engine.unknown_name("metric", row["metric"], sorted(known), "")
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
        groups: dict[_Machine, list[str]] = {}
        for column in ran.columns:
            own = self._columns[column]
            params = own.get("platform_params", {})
            changes = "".join(f",{key}={value}" for key, value in params.items())
            machine = _Machine(
                f"{self._beside(ran.platform)}{changes}",
                own.get("cpufreq", ran.cpufreq),
                own.get("io_boost", ran.io_boost),
            )
            groups.setdefault(machine, []).append(column)
        metrics: dict[str, _Metrics] = {}
        with tempfile.TemporaryDirectory() as folder:
            workload = self._workload(ran.workload, dict(ran.values), folder)
            for machine, columns in groups.items():
                metrics |= self._simulate_on(machine, columns, workload, ran, title)
        return {column: metrics[column] for column in ran.columns}

    def _simulate_on(
        self,
        machine: "_Machine",
        columns: list[str],
        workload: str | Path,
        ran: _Setting,
        title: str,
    ) -> dict[str, _Metrics]:
        calls = self._calls
        governors = [self._columns[column]["governor"] for column in columns]
        if ran.against_oracle:
            governors.append(ORACLE)
        simulation = simulate(
            workload,
            platform=machine.platform,
            governors=governors,
            duration=ran.duration,
            cpufreq=machine.cpufreq or (),
            io_boosts=machine.io_boost or (),
            disabled_states=ran.disabled_states,
            journal=calls.journal,
            seeds=calls.seeds,
            threads=calls.threads,
        )
        if calls.watch is not None:
            calls.watch(simulation)
        if simulation.interrupted:
            # What is finished is a mean over fewer seeds than the study's.
            raise KeyboardInterrupt
        result = simulation.to_dict()
        duration_s, seeds = result["options"]["duration_ns"] / 1e9, result["options"]["seeds"]
        metrics = {}
        for column, run in zip(columns, result["runs"], strict=True):
            if run["error"]:
                self.failures.append(f"{title}: {run['governor']}: {run['error']}")
            metrics[column] = {} if run["error"] else _metrics(run, duration_s, seeds)
        return metrics

    def _beside(self, name: str) -> str | Path:
        """What ships, by its name, or the path of a file next to the study."""
        return self._path.parent / name if re.search(r"\.toml(,|$)", name) else name

    def _workload(self, name: str, values: dict[str, float], folder: str) -> str | Path:
        """A workload's name or path; one next to the study has its placeholders filled in."""
        path = self._beside(name)
        if isinstance(path, str) or not values:
            return path
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise files.StudyError(f"study `{self._path}`: `{path}`: {error.strerror}") from error
        missing = set(_PLACEHOLDER.findall(text)) ^ values.keys()
        if missing:
            raise files.StudyError(
                f"study `{self._path}`: values and the placeholders of `{name}` do not match: "
                f"{', '.join(sorted(missing))}"
            )
        filled = Path(folder) / path.name
        filled.write_text(
            _PLACEHOLDER.sub(lambda found: repr(values[found[1]]), text), encoding="utf-8"
        )
        return filled


class _Machine(NamedTuple):
    """What columns have in common that run together."""

    platform: str
    cpufreq: str
    io_boost: str


def _setting_of(table: files.Setting) -> files.Setting:
    """Of a table or a row, that alone."""
    found: files.Setting = {}
    for key in _SETTING:
        if key in table:
            found[key] = table[key]
    return found


def _metrics(run: "results.GovernorOutcome", duration_s: float, seeds: int) -> _Metrics:
    """What a row can name: the catalogue's keys, what is made of them, and some of each task's."""
    metrics: _Metrics = {}
    for key, mean in run["metrics"].items():
        of_seeds = [seed["metrics"][key] for seed in run["seeds"]]
        known = [value for value in of_seeds if value is not None]
        metrics[key] = None if mean is None else _Value(mean, min(known), max(known))
    ipis = metrics["ipis"]
    metrics["ipis_per_s"] = ipis and ipis.scaled(1 / duration_s)
    idle_mw, package_mw = run["metrics"]["idle_power_mw"], run["metrics"]["package_mw"]
    metrics["power_without_work_mw"] = (
        None if idle_mw is None or package_mw is None else _Value(idle_mw + package_mw)
    )
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
        metrics[f"flow_late_pct:{name}"] = (
            _Value(100 * flow["late"] / flow["ended"]) if flow["ended"] else None
        )
    return metrics


def _us(ns: int | None) -> _Value | None:
    return None if ns is None else _Value(ns / 1e3)


def _table(table: files.Table, runs: _Runs) -> "shapes.StudyTable":
    rows: list[shapes.StudyRow] = []
    for row in table["row"]:
        values = runs.values(table, row) if "metric" in row else {}
        ours = {column: value.mean for column, value in values.items()}
        spreads = {
            column: [value.low, value.high]
            for column, value in values.items()
            if value.low is not None and value.high is not None
        }
        published, calibrated = row.get("published", {}), row.get("calibrated", [])
        noise_pct = row.get("noise_pct", DEFAULT_NOISE_PCT)
        right = judge.judge_row(published, ours, table["columns"][0], calibrated, noise_pct)
        rows.append(
            {
                "title": row["title"],
                "not_modelled": row.get("not_modelled"),
                "cells": {
                    column: {
                        "published": published.get(column),
                        "ours": ours.get(column),
                        "spread": spreads.get(column),
                        "is_calibrated": column in calibrated,
                        "right": right.get(column),
                    }
                    for column in table["columns"]
                },
            }
        )
    most = _most(rows, table["columns"]) if table.get("tells_most") else {}
    return {"title": table["title"], "rows": rows, "most": most}


def _most(rows: "list[shapes.StudyRow]", columns: list[str]) -> dict[str, str]:
    """Return by column the title of the row in which it is highest."""
    found = {}
    for column in columns:
        ours = [(row["cells"][column]["ours"], row["title"]) for row in rows]
        known = [(value, title) for value, title in ours if value is not None]
        if known:
            _, found[column] = max(known, key=lambda one: one[0])
    return found
