# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs a study: simulates what its tables ask for, and judges the predictions."""

import os
import re
import tempfile
from pathlib import Path
from typing import Any

from torpor.simulations import simulate
from torpor.studies import files, judge

#: Differences that published tables of this kind show between runs of the same thing.
DEFAULT_NOISE_PCT = 1.0

_PLACEHOLDER = re.compile(r'"@(\w+)@"')


def reproduce(
    study: str | os.PathLike[str],
    *,
    duration: str | None = None,
    seeds: int | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """Run a study and put our values beside the published ones.

    Args:
        study: Name of a study that ships, or the path of a TOML file.
        duration: Simulated time a run, instead of the study's.
        seeds: Runs a governor, instead of the study's.
        threads: Worker threads; default: one a core. The result does not depend on it.

    Returns plain data: ``tables`` with ``rows`` with ``cells`` by column; a cell holds
    ``published`` and ``ours`` (None where there is none), ``is_calibrated``, and ``right``: what
    was judged, None where nothing was. ``counts`` sums that up.

    Raises:
        StudyError: The study is unknown, or its file is wrong.
        TorporError: Its workload, machine or governors are.

    >>> result = reproduce("pixel6-teo", duration="100ms", seeds=1)
    >>> result["tables"][0]["rows"][0]["cells"]["menu"]["is_calibrated"]
    True
    """
    content, path = files.load(study)
    options = {
        "duration": duration or content["duration"],
        "seeds": seeds or content["seeds"],
        "threads": threads,
        "cpufreq": content.get("cpufreq", ()),
    }
    governors = {column["name"]: column["governor"] for column in content["column"]}
    runs = _Runs(path, content["platform"], governors, options)
    tables = [_table(table, runs) for table in content["table"]]
    verdicts = [
        cell["right"]
        for table in tables
        for row in table["rows"]
        for cell in row["cells"].values()
        if cell["right"] is not None
    ]
    return {
        "study": path.stem,
        **{key: content[key] for key in ("title", "source", "platform", "calibration")},
        "duration": options["duration"],
        "seeds": options["seeds"],
        "tables": tables,
        "counts": judge.count(verdicts),
        "notes": content.get("note", []),
        "failures": runs.failures,
    }


class _Runs:
    """The simulations of one study; rows that need the same one share it."""

    def __init__(
        self, path: Path, platform: str, governors: dict[str, str], options: dict[str, Any]
    ) -> None:
        self._path = path
        self._platform = platform
        self._governors = governors
        self._options = options
        self._done: dict[Any, dict[str, dict[str, float]]] = {}
        self.failures: list[str] = []

    def values(self, table: dict[str, Any], row: dict[str, Any]) -> dict[str, float]:
        """Return the row's metric by column, without those that failed or do not know it."""
        ran = {"platform": self._platform, **table, **row}
        key = (
            ran["workload"],
            ran["platform"],
            tuple(table["columns"]),
            tuple(sorted(row.get("values", {}).items())),
            tuple(row.get("disabled_states", ())),
        )
        if key not in self._done:
            self._done[key] = self._simulate(ran)
        found = {}
        known: set[str] = set()
        for column, metrics in self._done[key].items():
            known |= metrics.keys()
            if metrics.get(row["metric"]) is not None:
                found[column] = metrics[row["metric"]] * row.get("scale", 1) + row.get("offset", 0)
        if known and row["metric"] not in known:
            raise files.StudyError(
                f"study `{self._path}`: {row['title']}: no metric `{row['metric']}`, "
                f"expected one of {', '.join(sorted(known))}"
            )
        base = table["columns"][0]
        if row.get("is_relative") and found.get(base):
            scale = row["published"][base] / found[base]
            found = {column: value * scale for column, value in found.items()}
        return found

    def _simulate(self, ran: dict[str, Any]) -> dict[str, dict[str, float]]:
        """Run a row, with what it leaves to its table and study filled in."""
        governors = [self._governors[column] for column in ran["columns"]]
        with tempfile.TemporaryDirectory() as folder:
            workload = self._workload(ran["workload"], ran.get("values", {}), folder)
            result = simulate(
                workload,
                platform=ran["platform"],
                governors=governors,
                disabled_states=ran.get("disabled_states", ()),
                **self._options,
            ).to_dict()
        # A task's counts are sums over the seeds.
        simulated_s = result["options"]["duration_ns"] * result["options"]["seeds"] / 1e9
        metrics = {}
        for column, run in zip(ran["columns"], result["traces"][0]["runs"], strict=True):
            if run["error"]:
                self.failures.append(f"{ran['title']}: {run['governor']}: {run['error']}")
            metrics[column] = {} if run["error"] else _metrics(run, simulated_s)
        return metrics

    def _workload(self, name: str, values: dict[str, float], folder: str) -> str | Path:
        """A workload's name or path; one beside the study has its placeholders filled in."""
        if not name.endswith(".toml"):
            return name
        path = self._path.parent / name
        if not values:
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


def _metrics(run: dict[str, Any], simulated_s: float) -> dict[str, float]:
    """What a row can name: the catalogue's keys, and three of each task."""
    metrics = dict(run["metrics"])
    for task in run["tasks"]:
        metrics[f"latency_mean_us:{task['name']}"] = task["latency"]["mean_ns"] / 1e3
        metrics[f"passes_per_s:{task['name']}"] = task["passes"] / simulated_s
        metrics[f"iops:{task['name']}"] = task["ios"] / simulated_s
    return metrics


def _table(table: dict[str, Any], runs: _Runs) -> dict[str, Any]:
    rows = []
    for row in table["row"]:
        ours = runs.values(table, row) if "metric" in row else {}
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
                        "is_calibrated": column in calibrated,
                        "right": right.get(column),
                    }
                    for column in table["columns"]
                },
            }
        )
    return {"title": table["title"], "rows": rows}
