# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Calibrates a study: finds numbers of machines and workloads that meet its calibrated cells."""

import json
import math
import operator
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torpor import _engine
from torpor.ask.studies import files
from torpor.ask.studies.run import Calls, Runs
from torpor.machine.toml import toml
from torpor.run.simulations import Simulation

#: Cells are met when all are as close as this. What was published has three to five digits.
_CLOSE = 5e-4
_STEPS_MAX = 12
#: The first try of a device's number is this much more than the file's.
_PROBE = math.log(1.02)
#: No step changes a number by more.
_STEP = math.log(2.0)
#: Prefix of a path to a workload's number.
_WORKLOAD = "workload."
#: A workload's cells jump by some per cent at random where tasks meet by chance: they are met, and
#: missed, farther off, slopes are from larger changes, and numbers stay where cells hardly follow.
_CLOSE_BY_CHANCE = 2e-2
_MISSED_BY_CHANCE = 5e-2
_PROBE_BY_CHANCE = math.log(1.2)
_RIDGE = 0.01
_STEPS_BY_CHANCE = 20


@dataclass(frozen=True)
class Number:
    """A number of a machine or a workload: its keys in the file, what that has, what was found."""

    of: str
    path: str
    was: float
    found: float


@dataclass(frozen=True)
class Cell:
    """A calibrated cell: what was published, and what the numbers found come to."""

    table: str
    row: str
    column: str
    published: float
    ours: float


@dataclass(frozen=True)
class Fit:
    """Numbers, and the cells that they were found on: as many of the one as of the other."""

    numbers: list[Number]
    cells: list[Cell]


def calibrate(
    study: str | os.PathLike[str],
    *,
    duration: str | None = None,
    seeds: int | None = None,
    kernel: str | None = None,
    threads: int | None = None,
    watch: Callable[[Simulation], None] | None = None,
) -> list[Fit]:
    """Find the numbers that a study's rows name in ``fits``, on the calibrated cells of these rows.

    Rows that fit numbers of the same table of a machine, or of the same workload, are met together,
    from what the file has: of a machine by Newton's method, of a workload by Broyden's.
    Numbers are rounded to four digits. No other cell is looked at, and nothing is written.

    Args:
        study: Name of a study that ships, or the path of a TOML file.
        duration: Simulated time a run, instead of the study's.
        seeds: Runs a governor, instead of the study's.
        kernel: Another kernel than the default, as in :func:`torpor.simulate`.
        threads: Worker threads; default: one a core. The result does not depend on it.
        watch: Called with each simulation as it ends.

    Raises:
        StudyError: The study is wrong, has nothing to fit, or no numbers meet its cells.
        TorporError: Its workload, machine or governors are.
    """
    content, path = files.load(study)
    groups: dict[tuple[str, ...], list[tuple[files.Table, files.Row]]] = {}
    for table in content["table"]:
        for row in table["row"]:
            if "fits" in row:
                platform = row.get("platform", table.get("platform", content["platform"]))
                place = row["fits"][0].split(".")[:2]
                workload = row.get("workload", table.get("workload", ""))
                key = (workload,) if place[0] == "workload" else (platform, *place)
                groups.setdefault(key, []).append((table, row))
    if not groups:
        raise files.StudyError(f"study `{path}`: no row of it has `fits`: there is nothing to find")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        calls = Calls(duration, seeds or content["seeds"], kernel, threads, None, watch)
        runs = Runs(path, content, calls)
        runs.works_in(Path(folder))
        for (of, *_), rows in groups.items():
            found.append(_Search(runs, of, rows, Path(folder)).run())
    return found


class _Search:
    """Numbers of one machine, or of one workload."""

    def __init__(
        self, runs: Runs, of: str, rows: Sequence[tuple[files.Table, files.Row]], folder: Path
    ) -> None:
        self._runs, self._of, self._rows, self._folder = runs, of, rows, folder
        paths = list(dict.fromkeys(fit for _, row in rows for fit in row["fits"]))
        self._is_workload = paths[0].startswith(_WORKLOAD)
        if self._is_workload:
            self._text = _workload_text(runs.beside(of))
        else:
            self._text = _engine.platform_toml(str(runs.beside(of)))
        content = toml(self._text)
        self._was = {path: _number_at(content, path, of) for path in paths}
        self._tries = 0

    def run(self) -> Fit:
        start = [math.log(value) for value in self._was.values()]
        at = self._near(start) if self._is_workload else self._newton(start)
        values = [float(f"{math.exp(x):.4g}") for x in at]
        cells, off = self._off([math.log(value) for value in values])
        if _worst(off) >= (_MISSED_BY_CHANCE if self._is_workload else 10 * _CLOSE):
            shown = ", ".join(f"{p} = {v:g}" for p, v in zip(self._was, values, strict=True))
            missed = "; ".join(
                f"{c.row}, {c.column}: {c.ours:g}, not {c.published:g}" for c in cells
            )
            raise files.StudyError(
                f"no numbers of `{self._of}` meet the calibrated cells; nearest: {shown}: {missed}"
            )
        pairs = zip(self._was.items(), values, strict=True)
        return Fit([Number(self._of, p, was, new) for (p, was), new in pairs], cells)

    def _near(self, at: list[float]) -> list[float]:
        """Broyden's method for any count of numbers: each cell's slopes are found once, and made
        right by every step. The nearest of all that was tried."""
        _, off = self._off(at)
        slopes = [[0.0] * len(at) for _ in off]
        for place in range(len(at)):
            _, moved = self._off([x + _PROBE_BY_CHANCE * (n == place) for n, x in enumerate(at)])
            for cell, (before, after) in enumerate(zip(off, moved, strict=True)):
                slopes[cell][place] = (after - before) / _PROBE_BY_CHANCE
        best, least = at, off
        for _ in range(_STEPS_BY_CHANCE):
            if _worst(least) < _CLOSE_BY_CHANCE:
                break
            square = [
                [math.fsum(map(operator.mul, a, b)) + _RIDGE * (a is b) for b in slopes]
                for a in slopes
            ]
            weights = _solved(list(zip(*square, strict=True)), off)
            if weights is None:
                break
            step = [
                -math.fsum(map(operator.mul, weights, row)) for row in zip(*slopes, strict=True)
            ]
            scale = min(1.0, _STEP / max(map(abs, step)))
            step = [scale * x for x in step]
            there = [x + s for x, s in zip(at, step, strict=True)]
            _, moved = self._off(there)
            length = math.fsum(x * x for x in step)
            for row, before, after in zip(slopes, off, moved, strict=True):
                wrong = after - before - math.fsum(map(operator.mul, row, step))
                row[:] = [x + wrong * s / length for x, s in zip(row, step, strict=True)]
            at, off = there, moved
            if _worst(off) < _worst(least):
                best, least = at, off
        return best

    def _newton(self, at: list[float]) -> list[float]:
        _, off = self._off(at)
        for _ in range(_STEPS_MAX):
            if _worst(off) < _CLOSE:
                break
            slopes = []
            for place in range(len(at)):
                _, moved = self._off([x + _PROBE * (n == place) for n, x in enumerate(at)])
                slopes.append([(b - a) / _PROBE for a, b in zip(off, moved, strict=True)])
            step = _solved(slopes, off)
            if step is None:
                break
            scale = min(1.0, _STEP / max(map(abs, step)))
            # Half of it, as often as it leads away: cells jump where a task changes its place.
            for _ in range(5):
                there = [x - scale * s for x, s in zip(at, step, strict=True)]
                _, off_there = self._off(there)
                if _worst(off_there) < _worst(off):
                    break
                scale /= 2
            else:
                break
            at, off = there, off_there
        return at

    def _off(self, at: Sequence[float]) -> tuple[list[Cell], list[float]]:
        """The cells with these logarithms of numbers, and by which logarithm each is off."""
        numbers = {path: math.exp(x) for path, x in zip(self._was, at, strict=True)}
        changed = self._changed(numbers)
        cells = []
        for table, row in self._rows:
            alone: files.Row = {**row, **changed}
            # Nothing is judged, and so no governor runs next to the columns.
            published = alone.pop("published")
            columns = alone.pop("calibrated")
            asked: files.Table = {**table, "columns": columns}
            values = self._runs.values(asked, alone)
            for column in columns:
                there = published[column]
                assert isinstance(there, int | float), "the file was checked"
                if column not in values or values[column].mean <= 0:
                    raise files.StudyError(f"{row['title']}: {column} came to nothing")
                cell = Cell(table["title"], row["title"], column, there, values[column].mean)
                cells.append(cell)
        return cells, [math.log(cell.ours / cell.published) for cell in cells]

    def _changed(self, numbers: dict[str, float]) -> "files.Setting":
        """The machine, or the workload, with other numbers."""
        if not self._is_workload:
            return {"platform": self._of + "".join(f",{p}={v:.6g}" for p, v in numbers.items())}
        content = toml(self._text)
        for path, value in numbers.items():
            *parents, last = path.removeprefix(_WORKLOAD).split(".")
            table = _at(content, parents)
            is_count = isinstance(table[last], int) and last == "count"
            table[last] = max(round(value), 1) if is_count else float(f"{value:.6g}")
        self._tries += 1
        folder = self._folder / f"try-{self._tries}"
        folder.mkdir()
        file = folder / f"{Path(self._of).stem}.toml"
        file.write_text("".join(f"{k} = {_toml(v)}\n" for k, v in content.items()), "utf-8")
        return {"workload": str(file)}


def _worst(off: Sequence[float]) -> float:
    return max(map(abs, off))


def _solved(slopes: Sequence[Sequence[float]], off: Sequence[float]) -> list[float] | None:
    """The step along numbers that makes up for what cells are off; None where none does."""
    size = len(off)
    rows = [[slopes[place][cell] for place in range(size)] + [off[cell]] for cell in range(size)]
    for place in range(size):
        pivot = max(range(place, size), key=lambda each: abs(rows[each][place]))
        if abs(rows[pivot][place]) < 1e-9:
            return None
        rows[place], rows[pivot] = rows[pivot], rows[place]
        for other in range(size):
            if other != place:
                share = rows[other][place] / rows[place][place]
                rows[other] = [a - share * b for a, b in zip(rows[other], rows[place], strict=True)]
    return [row[-1] / row[place] for place, row in enumerate(rows)]


def _workload_text(file: "str | Path") -> str:
    if isinstance(file, str):
        return _engine.workload_toml(file)
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise files.StudyError(f"fits: `{file}`: {error.strerror}") from error


def _at(content: Any, keys: Sequence[str]) -> Any:
    """Return the value at a path of a file; an array's entries go by name, or by number from 0."""
    for key in keys:
        if isinstance(content, list):
            named = [entry for entry in content if entry.get("name") == key]
            content = named[0] if named else content[int(key)]
        else:
            content = content[key]
    return content


def _number_at(content: dict[str, Any], path: str, of: str) -> float:
    try:
        at = _at(content, path.removeprefix(_WORKLOAD).split("."))
    except (KeyError, IndexError, ValueError, TypeError, AttributeError):
        at = None
    if type(at) not in (int, float) or at <= 0:
        raise files.StudyError(
            f"fits: `{path}` is no number above 0 of `{of}`\n"
            "hint: keys from the file's root, such as io_device.nvme.read_us.mean, or of a "
            "workload workload.task.main.phase.0.run_us.mean"
        )
    return float(at)


def _toml(value: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
