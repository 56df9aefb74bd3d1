# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Calibrates a study: fits numbers of machines and workloads to its calibrated cells."""

import contextlib
import math
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torpor import Simulation
from torpor.plugin import platform_content, workload_content
from torpor_lab.studies import files
from torpor_lab.studies.run import Calls, Runs

#: Prefix of a path to a workload's number.
_WORKLOAD = "workload."
#: Numbers stay within a hundredth and a hundred times those of the file.
_RANGE = math.log(100)


class _Rules(NamedTuple):
    """Rules of a search. Deviations and changes are logarithms."""

    #: The search ends when all cells deviate by less.
    close: float
    #: It fails when one deviates by more.
    missed: float
    #: Change of a number from which slopes are taken.
    probe: float
    steps_max: int = 20


#: Published cells have three to five digits.
_OF_MACHINE = _Rules(5e-4, 5e-3, math.log(1.02))
#: Tasks that meet by chance make cells jump by some per cent, so slopes need larger changes.
_OF_WORKLOAD = _Rules(2e-2, 5e-2, math.log(1.2))


class _Met(Exception):  # noqa: N818
    """Ends a search: all cells are met."""


@dataclass(frozen=True)
class Number:
    """A number of a machine or a workload: its keys in the file, what that has, what was found."""

    of: str
    path: str
    was: float
    found: float


@dataclass(frozen=True)
class Cell:
    """A calibrated cell: the published value, and the value that the fitted numbers give."""

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
    from what the file has, by least squares (SciPy's).
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
            found.append(_Search(runs, of, rows).run())
    return found


class _Search:
    """Numbers of one machine, or of one workload."""

    def __init__(self, runs: Runs, of: str, rows: Sequence[tuple[files.Table, files.Row]]) -> None:
        self._runs, self._of, self._rows = runs, of, rows
        paths = list(dict.fromkeys(fit for _, row in rows for fit in row["fits"]))
        self._is_workload = paths[0].startswith(_WORKLOAD)
        read = workload_content if self._is_workload else platform_content
        content = read(str(runs.beside(of)))
        self._was = {path: _number_at(content, path, of) for path in paths}

    def run(self) -> Fit:
        rules = _OF_WORKLOAD if self._is_workload else _OF_MACHINE
        at = self._nearest(rules)
        values = [float(f"{value:.4g}") for value in self._values(at)]
        cells, off = self._off(values)
        if _worst(off) >= rules.missed:
            shown = ", ".join(f"{p} = {v:g}" for p, v in zip(self._was, values, strict=True))
            missed = "; ".join(
                f"{c.row}, {c.column}: {c.ours:g}, not {c.published:g}" for c in cells
            )
            raise files.StudyError(
                f"no numbers of `{self._of}` meet the calibrated cells; nearest: {shown}: {missed}"
            )
        pairs = zip(self._was.items(), values, strict=True)
        return Fit([Number(self._of, p, was, new) for (p, was), new in pairs], cells)

    def _values(self, at: Sequence[float]) -> list[float]:
        """Return the numbers at a point of the search, which begins at 1 in every direction."""
        return [was * math.exp(x - 1) for was, x in zip(self._was.values(), at, strict=True)]

    def _nearest(self, rules: _Rules) -> list[float]:
        """Return the nearest point of those that SciPy's least squares try."""
        optimize = _optimize()
        best = [1.0] * len(self._was)
        least = math.inf

        def deviations(at: Sequence[float]) -> list[float]:
            nonlocal best, least
            _, off = self._off(self._values(at))
            if _worst(off) < least:
                best, least = list(at), _worst(off)
            if least < rules.close:
                raise _Met
            return off

        with contextlib.suppress(_Met):
            optimize.least_squares(
                deviations,
                best,
                bounds=(1 - _RANGE, 1 + _RANGE),
                diff_step=rules.probe,
                max_nfev=rules.steps_max,
                xtol=1e-5,
            )
        return best

    def _off(self, values: Sequence[float]) -> tuple[list[Cell], list[float]]:
        """Return the cells with these numbers, and the logarithm of each one's deviation."""
        changed = self._changed(dict(zip(self._was, values, strict=True)))
        cells = []
        for table, row in self._rows:
            alone: files.Row = {**row, **changed}
            # Nothing is judged, and so no governor runs next to the columns.
            published = alone.pop("published")
            columns = alone.pop("calibrated")
            asked: files.Table = {**table, "columns": columns}
            ours = self._runs.values(asked, alone)
            for column in columns:
                there = published[column]
                assert isinstance(there, int | float), "the file was checked"
                if column not in ours or ours[column].mean <= 0:
                    raise files.StudyError(f"{row['title']}: {column} came to nothing")
                cell = Cell(table["title"], row["title"], column, there, ours[column].mean)
                cells.append(cell)
        return cells, [math.log(cell.ours / cell.published) for cell in cells]

    def _changed(self, numbers: dict[str, float]) -> "files.Setting":
        """The machine, or the workload, with other numbers."""
        typed = {
            path: str(max(round(value), 1)) if self._is_count(path) else f"{value:.6g}"
            for path, value in numbers.items()
        }
        found = {path.removeprefix(_WORKLOAD): number for path, number in typed.items()}
        # A file's name may have commas, so only settings of these numbers are taken out.
        changed = self._of
        for path, number in found.items():
            changed = re.sub(rf",{re.escape(path)}=[^,]*", "", changed) + f",{path}={number}"
        return {"workload": changed} if self._is_workload else {"platform": changed}

    def _is_count(self, path: str) -> bool:
        return self._is_workload and path.endswith(".count") and self._was[path].is_integer()


def _worst(off: Sequence[float]) -> float:
    return max(map(abs, off))


def _optimize() -> Any:
    """Return ``scipy.optimize``. Raises :class:`files.StudyError` if it is not installed."""
    try:
        from scipy import optimize
    except ImportError:
        raise files.StudyError(
            "calibration requires SciPy, which is not installed\nhint: pip install 'torpor[fit]'"
        ) from None
    return optimize


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
            f"fits: `{path}` is not a number above 0 in `{of}`\n"
            "hint: keys from the file's root, such as io_device.nvme.read_us.mean, or of a "
            "workload workload.task.main.phase.0.run_us.mean"
        )
    return float(at)
