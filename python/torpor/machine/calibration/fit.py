# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Least squares with intervals: small, as a machine has a dozen unknowns and a hundred windows."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from torpor import _engine
from torpor.machine.calibration.errors import CalibrationError

#: So many windows more than unknowns, at least: with fewer an interval says little.
SPARE_MIN = 5
#: A column is a sum of others if less than this share of it is left without them.
_INDEPENDENT_MIN = 1e-6


class Estimate(NamedTuple):
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float

    def scaled(self, by: float) -> "Estimate":
        return Estimate(self.value * by, self.low * by, self.high * by)


def fit(
    names: Sequence[str], rows: Sequence[Sequence[float]], sums: Sequence[float]
) -> list[Estimate]:
    """Return the values of ``names`` for which ``rows`` times them are nearest to ``sums``.

    Raises :class:`CalibrationError` where the rows are too few, or do not tell unknowns apart.

    >>> [round(e.value, 3) for e in fit(["a", "b"], [[1, x] for x in range(8)],
    ...                                 [3 + 2 * x for x in range(8)])]
    [3.0, 2.0]
    """
    spare = len(rows) - len(names)
    if spare < SPARE_MIN:
        raise CalibrationError(
            f"{len(rows)} windows for {len(names)} unknowns: expected at least {SPARE_MIN} more",
            "measure more rounds or rates",
        )
    basis, upper = _orthogonal(names, rows)
    inverse = _inverse(upper)
    projections = [_dot(column, sums) for column in basis]
    values = [_dot(row, projections) for row in inverse]
    residuals = (y - _dot(row, values) for row, y in zip(rows, sums, strict=True))
    sigma = math.sqrt(sum(r * r for r in residuals) / spare)
    t = _engine.student_95(spare)
    halves = [t * sigma * math.sqrt(_dot(row, row)) for row in inverse]
    return [Estimate(v, v - h, v + h) for v, h in zip(values, halves, strict=True)]


def _orthogonal(
    names: Sequence[str], rows: Sequence[Sequence[float]]
) -> tuple[list[list[float]], list[list[float]]]:
    """Factor the rows into orthogonal columns and an upper triangle: Gram and Schmidt, twice."""
    count = len(names)
    basis: list[list[float]] = []
    upper = [[0.0] * count for _ in range(count)]
    for place, name in enumerate(names):
        column = [row[place] for row in rows]
        whole = math.sqrt(_dot(column, column))
        for _ in range(2):
            for before, other in enumerate(basis):
                part = _dot(other, column)
                upper[before][place] += part
                column = [x - part * y for x, y in zip(column, other, strict=True)]
        left = math.sqrt(_dot(column, column))
        if whole == 0 or left < _INDEPENDENT_MIN * whole:
            raise CalibrationError(
                f"the windows do not tell {name} from the rest",
                "measure at rates that are further apart",
            )
        upper[place][place] = left
        basis.append([x / left for x in column])
    return basis, upper


def _inverse(upper: Sequence[Sequence[float]]) -> list[list[float]]:
    count = len(upper)
    inverse = [[0.0] * count for _ in range(count)]
    for column in range(count):
        for row in range(column, -1, -1):
            known = sum(upper[row][k] * inverse[k][column] for k in range(row + 1, column + 1))
            inverse[row][column] = (float(row == column) - known) / upper[row][row]
    return inverse


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(one, other, strict=True))
