# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Calibrates a study: finds the numbers of machines that meet its calibrated cells."""

import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torpor import _engine
from torpor.simulations import Simulation
from torpor.studies import files
from torpor.studies.run import Calls, Runs

#: Cells are met when all are as close as this. What was published has three to five digits.
_CLOSE = 5e-4
_STEPS_MAX = 12
#: The first try of a number is this much more than the file's; no step changes one by more than
#: the second.
_PROBE = math.log(1.02)
_STEP = math.log(2.0)


@dataclass(frozen=True)
class Number:
    """A number of a machine: its keys in the file, what the file has, and what meets the cells."""

    platform: str
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
    threads: int | None = None,
    watch: Callable[[Simulation], None] | None = None,
) -> list[Fit]:
    """Find the numbers that a study's rows name in ``fits``, on the calibrated cells of these rows.

    Rows that fit numbers of the same table of a machine are met together, by Newton's method from
    what the file has; numbers are rounded to four digits. No other cell is looked at, and nothing
    is written.

    Args:
        study: Name of a study that ships, or the path of a TOML file.
        duration: Simulated time a run, instead of the study's.
        seeds: Runs a governor, instead of the study's.
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
                groups.setdefault((platform, *place), []).append((table, row))
    if not groups:
        raise files.StudyError(f"study `{path}`: no row of it has `fits`: there is nothing to find")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        calls = Calls(duration, seeds or content["seeds"], None, threads, None, watch)
        runs = Runs(path, content, calls)
        runs.works_in(Path(folder))
        for (platform, *_), rows in groups.items():
            found.append(_Search(runs, platform, rows).run())
    return found


class _Search:
    """Of numbers of one machine."""

    def __init__(
        self,
        runs: Runs,
        platform: str,
        rows: Sequence[tuple[files.Table, files.Row]],
    ) -> None:
        self._runs, self._platform, self._rows = runs, platform, rows
        paths = dict.fromkeys(fit for _, row in rows for fit in row["fits"])
        self._was = {path: _number_at(str(runs.beside(platform)), path) for path in paths}

    def run(self) -> Fit:
        at = [math.log(value) for value in self._was.values()]
        cells, off = self._off(at)
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
                cells_there, off_there = self._off(there)
                if _worst(off_there) < _worst(off):
                    break
                scale /= 2
            else:
                break
            at, cells, off = there, cells_there, off_there
        values = [float(f"{math.exp(x):.4g}") for x in at]
        cells, off = self._off([math.log(value) for value in values])
        if _worst(off) >= 10 * _CLOSE:
            shown = ", ".join(f"{p} = {v:g}" for p, v in zip(self._was, values, strict=True))
            missed = "; ".join(
                f"{c.row}, {c.column}: {c.ours:g}, not {c.published:g}" for c in cells
            )
            raise files.StudyError(
                f"no numbers of `{self._platform}` meet the calibrated cells; nearest: {shown}: "
                f"{missed}"
            )
        pairs = zip(self._was.items(), values, strict=True)
        return Fit([Number(self._platform, p, was, new) for (p, was), new in pairs], cells)

    def _off(self, at: Sequence[float]) -> tuple[list[Cell], list[float]]:
        """The cells with these logarithms of numbers, and by which logarithm each is off."""
        numbers = zip(self._was, at, strict=True)
        machine = self._platform + "".join(f",{path}={math.exp(x):.6g}" for path, x in numbers)
        cells = []
        for table, row in self._rows:
            alone: files.Row = {**row, "platform": machine}
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


def _number_at(machine: str, path: str) -> float:
    """Return a number of a machine's file, by its keys, with an entry of an array by its name."""
    try:
        at: Any = files.toml(_engine.platform_toml(machine))
        for key in path.split("."):
            at = next(e for e in at if e.get("name") == key) if isinstance(at, list) else at[key]
    except (KeyError, StopIteration, TypeError):
        at = None
    if type(at) not in (int, float) or at <= 0:
        raise files.StudyError(
            f"fits: `{path}` is no number above 0 of `{machine}`\n"
            "hint: keys from the file's root, such as io_device.nvme.read_us.mean"
        )
    return float(at)
