# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs a trial: replays, simulations and checks of every column."""

import copy
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torpor import _engine
from torpor._engine import GovernorError, TorporError
from torpor.ask.gates import Limit, gate, read_limits
from torpor.ask.trial import base as bases
from torpor.ask.trial import plan
from torpor.ask.trial.series import Series, TrialError
from torpor.results.catalogue import RUNS, metrics
from torpor.results.comparison import fill
from torpor.results.kinds.trial import (
    LEADS,
    Trial,
    TrialBreach,
    TrialCell,
    TrialChange,
    TrialCheck,
    TrialColumn,
    TrialLimit,
    TrialScenario,
)
from torpor.results.record import Record, headed
from torpor.run import checks
from torpor.run.replays import Replay, replay
from torpor.run.simulations import simulate

#: References beside the columns of a replay.
REFERENCES = ("shallowest", "deepest", "oracle")
#: A chance below this is no chance.
_LEVEL = 0.05

#: CPUs of the largest machine whose bound is searched for: of more, it takes minutes.
_BOUND_CPUS = 16
#: Time of a recording of a simulated machine.
_RECORDED = "2s"

Progress = Callable[[str, int, int], None] | None


@dataclass(frozen=True)
class Standing:
    """What runs. What is empty is the standing set's."""

    recordings: Sequence[str] = ()
    platforms: Sequence[str] = ()
    workloads: Sequence[str] = ()
    seeds: int = 12
    duration: str = "1s"
    #: Tick rate of the simulations: each one more is one more image of each kernel.
    hz: int = 250
    #: Decisions of a check of rules.
    decisions: int = 200_000
    #: ``cumulative``, ``last`` or ``each``.
    columns: str = "cumulative"
    threads: int | None = None
    #: Folder that keeps finished simulations.
    store: Path | None = None


@dataclass
class _Trial:
    """A trial under way."""

    series: Series
    base: bases.Base
    standing: Standing
    columns: list[plan.Column]
    progress: Progress
    tell: Callable[[str], None]
    #: Why a column could not run, by its label.
    errors: dict[str, str] = field(default_factory=dict)

    def distinct(self) -> list[plan.Column]:
        """Return the columns whose code no earlier one has."""
        seen: dict[tuple[str, ...], plan.Column] = {}
        for column in self.columns:
            seen.setdefault(column.key, column)
        return list(seen.values())

    def failed(self, column: plan.Column, error: str) -> str:
        """Note why a column did not run, by its short names, and return that."""
        short = {other.kernel: other.label for other in reversed(self.columns)}
        for other in reversed(self.columns):
            short |= {spec: f"{name}@{other.label}" for name, spec in other.governors.items()}
        # A base's name is the beginning of the others.
        for spec in sorted(short, key=len, reverse=True):
            error = error.replace(spec, short[spec])
        return self.errors.setdefault(column.label, error)

    def first_like(self, column: plan.Column) -> plan.Column:
        """Return the first column with the same code."""
        return next(other for other in self.columns if other.key == column.key)


def attempt(
    series: Series,
    onto: str | None = None,
    standing: Standing | None = None,
    *,
    limits: str | os.PathLike[str] | None = None,
    command: str | None = None,
    progress: Progress = None,
    tell: Callable[[str], None] = lambda _text: None,
) -> Record:
    """Run a series against its base, and return the trial.

    Raises :class:`TrialError` if the series does not apply, or its base cannot be found.
    """
    standing = standing or Standing()
    bounds = None if limits is None else read_limits(limits)
    base = bases.choose(series, onto, tell)
    bases.check_applies(base, series, tell)
    files = plan.files_of(series, base, standing.hz, progress)
    columns = plan.columns_of(series, base, files, standing.columns)
    trial = _Trial(series, base, standing, columns, progress, tell)
    governors = plan.governors_of(files)
    scenarios: list[TrialScenario] = []
    if any(column.has_effect for column in columns[1:]):
        scenarios = _scenarios(trial, governors)
    made: Trial = {
        **headed("trial", {}),  # type: ignore[typeddict-item]
        "series": series.as_result(),
        "base": {"name": base.name, "why": base.why},
        "files": files,
        "columns": [_column(trial, column) for column in columns],
        "scenarios": scenarios,
        "checks": [_checked(trial, name) for name in governors],
        "tests": _correct(scenarios),
        "limits": [],
        "command": command,
    }
    if bounds is not None and scenarios:
        made["limits"] = _broken(made, bounds)
    return Record(made)


def _column(trial: _Trial, column: plan.Column) -> TrialColumn:
    like = trial.first_like(column)
    return {
        "label": column.label,
        "patches": list(column.patches),
        "subject": column.subject,
        "same_as": None if like is column else like.label,
        "has_effect": column.has_effect and column.label != "base",
        "error": trial.errors.get(like.label),
    }


def _scenarios(trial: _Trial, governors: Sequence[str]) -> list[TrialScenario]:
    standing = trial.standing
    planned = plan.scenarios_of(
        *(standing.recordings, standing.platforms, standing.workloads),
        is_replayed=bool(governors),
    )
    found: list[TrialScenario] = []
    for place, scenario in enumerate(planned):
        if trial.progress:
            trial.progress(f"{scenario.source} on {scenario.platform}", place, len(planned))
        for name in governors or [plan.DEFAULT_GOVERNOR]:
            run = _replayed if scenario.kind == "replay" else _simulated
            found.append(run(trial, scenario, name))
    return found


def _replayed(trial: _Trial, scenario: plan.Scenario, name: str) -> TrialScenario:
    """Replay a recording under every column's governor, with the references beside."""
    with tempfile.TemporaryDirectory(prefix="torpor-") as folder:
        recording = scenario.source
        if scenario.is_made:
            recording = _recorded(trial, scenario, os.path.join(folder, "made.perfetto-trace"))
        done = _replay(trial, recording, scenario.platform, name)
        runs = {run["governor"]: run for run in done.runs}
        answers = _answers(done.decisions.to_dict())
    cells: list[TrialCell] = []
    first = before = answers.get(trial.columns[0].governors[name], set())
    for column in trial.columns:
        # Columns with another kernel may have the same governor.
        run = runs.get(column.governors[name])
        error = trial.errors.get(column.label) if run is None else run["error"]
        cell = _empty_cell(column.label, error)
        if run is not None and error is None:
            own = answers.get(run["governor"], set())
            cell["samples"] = [{"number": 0, "values": dict(run["metrics"])}]
            cell["differing"] = len(first - own)
            cell["differs"], cell["steps"] = first != own, before != own
            before = own
        elif error is not None:
            cell["error"] = trial.failed(column, error)
        cells.append(cell)
    found = _scenario(scenario, name, cells)
    found["decisions"] = len(first)
    found["references"] = [
        {"governor": each, "values": {key: runs[each]["metrics"].get(key) for key in LEADS}}
        for each in REFERENCES
        if each in runs and not runs[each]["error"]
    ]
    return found


def _recorded(trial: _Trial, scenario: plan.Scenario, path: str) -> str:
    """Record a simulated machine, and return the file."""
    simulate(
        scenario.source,
        platform=scenario.platform,
        governors=[plan.DEFAULT_GOVERNOR],
        seeds=1,
        duration=_RECORDED,
        hz=trial.standing.hz,
        trace=path,
    )
    return path


def _replay(trial: _Trial, recording: str, platform: str, name: str) -> Replay:
    """Replay with the governors of the columns that compile; note why another does not."""

    def run(*governors: str) -> Replay:
        threads = trial.standing.threads
        return replay(
            recording, platform=platform, governors=governors, threads=threads, strip=False
        )

    cpus = next((p["cpus"] for p in _engine.platforms() if p["name"] == platform), 0)
    references = REFERENCES[: None if cpus <= _BOUND_CPUS else -1]

    def whole() -> Replay:
        ran = (c.governors[name] for c in trial.columns if c.label not in trial.errors)
        return run(*dict.fromkeys(ran), *references)

    try:
        return whole()
    except GovernorError:
        for column in trial.columns[1:]:
            try:
                run(column.governors[name])
            except GovernorError as error:
                trial.failed(column, str(error))
    return whole()


def _empty_cell(label: str, error: str | None = None) -> TrialCell:
    return {
        "label": label,
        "error": error,
        "samples": [],
        "differing": None,
        "differs": False,
        "steps": False,
        "changes": [],
    }


def _answers(table: Mapping[str, list[Any]]) -> dict[str, set[tuple[Any, ...]]]:
    """Return each governor's decisions: when it was asked, on which CPU, and what it answered."""
    found: dict[str, set[tuple[Any, ...]]] = {}
    names = ("cpu", "time_ns", "state", "stop_tick")
    rows = zip(*(table[name] for name in names), strict=True)
    for governor, row in zip(table["governor"], rows, strict=True):
        found.setdefault(governor, set()).add(row)
    return found


def _simulated(trial: _Trial, scenario: plan.Scenario, name: str) -> TrialScenario:
    """Simulate a workload under every distinct column, with the same seeds."""
    cells: dict[str, TrialCell] = {}
    for column in trial.distinct():
        cells[column.label] = _simulated_column(trial, scenario, name, column)
    whole = [copy.deepcopy(cells[trial.first_like(column).label]) for column in trial.columns]
    for cell, column in zip(whole, trial.columns, strict=True):
        cell["label"] = column.label
    first = before = whole[0]["samples"]
    for cell in whole:
        if cell["error"] is None:
            cell["differs"], cell["steps"] = cell["samples"] != first, cell["samples"] != before
            before = cell["samples"]
    return _scenario(scenario, name, whole)


def _simulated_column(
    trial: _Trial, scenario: plan.Scenario, name: str, column: plan.Column
) -> TrialCell:
    standing = trial.standing
    cell = _empty_cell(column.label, trial.errors.get(column.label))
    if cell["error"]:
        return cell
    try:
        done = simulate(
            scenario.source,
            platform=scenario.platform,
            governors=[column.governors.get(name, name)],
            kernels=[column.kernel],
            seeds=standing.seeds,
            duration=standing.duration,
            hz=standing.hz,
            threads=standing.threads,
            store=standing.store,
            progress=trial.progress,
        )
    except TorporError as error:
        if column.label == "base":
            raise
        cell["error"] = str(error)
    else:
        if done.interrupted:
            raise KeyboardInterrupt
        (run,) = done.to_dict()["runs"]
        cell["error"] = run["error"]
        for seed in run["seeds"]:
            cell["samples"].append({"number": seed["seed"], "values": seed["metrics"]})
    if cell["error"]:
        cell["error"] = trial.failed(column, cell["error"])
    return cell


def _scenario(scenario: plan.Scenario, name: str, cells: list[TrialCell]) -> TrialScenario:
    """Return the cells of a scenario, with the changes from the first one."""
    first = cells[0]
    for cell in cells[1:]:
        if first["samples"] and cell["samples"] and cell["error"] is None:
            found = (_change(key, first, cell) for key in LEADS)
            cell["changes"] = [change for change in found if change is not None]
    return {
        "kind": "replay" if scenario.kind == "replay" else "simulation",
        "machines": scenario.machines,
        "platform": scenario.platform,
        "source": os.path.basename(scenario.source) + ", simulated" * scenario.is_made,
        "governor": name,
        "decisions": None,
        "cells": cells,
        "references": [],
    }


def _change(key: str, first: TrialCell, cell: TrialCell) -> TrialChange | None:
    """Return the change of one metric, alone: what corrects its chance is about all of them."""
    columns = [{"label": of["label"], "samples": of["samples"]} for of in (first, cell)]
    known = metrics(*RUNS)[key]
    rows = fill([known], columns, is_paired=len(first["samples"]) > 1)["rows"]
    change = rows[0]["cells"][1]["change"] if rows else None
    if not change or not change["difference"]:
        return None
    return {
        "metric": key,
        "difference": change["difference"],
        "relative_pct": change["relative_pct"],
        "low": change["low"],
        "high": change["high"],
        "p": change["p"],
        "is_significant": None,
    }


def _correct(scenarios: Sequence[TrialScenario]) -> int:
    """Correct the chances of each column for their number; return the largest."""
    tested: dict[str, list[TrialChange]] = {}
    for scenario in scenarios:
        for cell in scenario["cells"]:
            known = [change for change in cell["changes"] if change["p"] is not None]
            tested.setdefault(cell["label"], []).extend(known)
    for changes in tested.values():
        chances = _engine.holm([change["p"] for change in changes if change["p"] is not None])
        for change, chance in zip(changes, chances, strict=True):
            change["p"], change["is_significant"] = chance, chance < _LEVEL
    return max(map(len, tested.values()), default=0)


def _checked(trial: _Trial, name: str) -> TrialCheck:
    """Check a governor's rules at the base and with all patches; name the patch of a new breach."""
    found: TrialCheck = {
        "governor": name,
        "before": [],
        "after": [],
        "new": [],
        "mended": [],
        "error": None,
    }
    ran = [column for column in trial.columns if column.label not in trial.errors]
    specs = list(dict.fromkeys(column.governors[name] for column in ran))
    if len(specs) < 2:
        return found
    try:
        before, after = (_breaches(trial, specs[at]) for at in (0, -1))
        new = {kind: what for kind, what in after.items() if kind not in before}
        # The whole has what a patch between broke, unless a later one mended it.
        between = {s: _breaches(trial, s) for s in specs[1:-1]} if new else {}
    except TorporError as error:
        found["error"] = str(error)
        return found
    found["before"], found["after"] = list(before), list(after)
    found["mended"] = [kind for kind in before if kind not in after]
    for kind, what in new.items():
        having = [s for s in specs[1:-1] if kind in between[s]] + [specs[-1]]
        since = next(c.label for c in ran if c.governors[name] == having[0])
        breach: TrialBreach = {"kind": kind, "what": what, "since": since}
        found["new"].append(breach)
    return found


def _breaches(trial: _Trial, spec: str) -> dict[str, str]:
    """Return the rules that a governor breaks, and how."""
    count = trial.standing.decisions

    def show(made: int) -> None:
        if trial.progress:
            trial.progress("checking the rules", min(made, count), count)

    report = checks.check(spec, decisions=count, progress=show)
    return {finding["kind"]: finding["what"] for finding in report["findings"]}


def _broken(made: Trial, limits: Sequence[Limit]) -> list[TrialLimit]:
    """Return the limits that the last column breaks."""
    ran = [column["label"] for column in made["columns"] if column["error"] is None]
    if len(ran) < 2:
        raise TrialError("no column ran besides the base, so no limit can be held")
    verdicts = gate(made, made, limits, base_governor=ran[0], candidate_governor=ran[-1])
    keys = ("scenario", "metric", "limit", "base", "candidate", "change")
    return [
        {key: v[key] for key in keys}  # type: ignore[misc,literal-required]
        for v in verdicts
        if v["is_broken"]
    ]
