# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Least squares with 95 % intervals, by NumPy."""

from collections.abc import Sequence
from typing import NamedTuple

from torpor import _engine
from torpor.machine.calibration.errors import CalibrationError

#: The least number of windows beyond the unknowns: with fewer, an interval means little.
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


def check_installed() -> None:
    """Raise :class:`CalibrationError` if NumPy is not installed."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise CalibrationError(
            "calibration requires NumPy, which is not installed", "pip install 'torpor[fit]'"
        ) from None


def fit(
    names: Sequence[str], rows: Sequence[Sequence[float]], sums: Sequence[float]
) -> list[Estimate]:
    """Return the values of ``names`` for which ``rows`` times them are nearest to ``sums``.

    Raises :class:`CalibrationError` if the rows are too few or do not determine every unknown, or
    if NumPy is not installed.

    >>> [round(e.value, 3) for e in fit(["a", "b"], [[1, x] for x in range(8)],
    ...                                 [3 + 2 * x for x in range(8)])]
    [3.0, 2.0]
    """
    check_installed()
    import numpy as np

    spare = len(rows) - len(names)
    if spare < SPARE_MIN:
        raise CalibrationError(
            f"{len(rows)} windows for {len(names)} unknowns: expected at least {SPARE_MIN} more",
            "measure more rounds or rates",
        )
    matrix, right = np.array(rows, dtype=float), np.array(sums, dtype=float)
    basis, upper = np.linalg.qr(matrix)
    sizes = np.linalg.norm(matrix, axis=0)
    for name, left, size in zip(names, abs(np.diag(upper)), sizes, strict=True):
        if size == 0 or left < _INDEPENDENT_MIN * size:
            raise CalibrationError(
                f"the windows do not separate {name} from the rest",
                "measure at rates that are further apart",
            )
    inverse = np.linalg.inv(upper)
    values = inverse @ (basis.T @ right)
    sigma = np.linalg.norm(right - matrix @ values) / spare**0.5
    errors = sigma * np.linalg.norm(inverse, axis=1)
    halves = [_engine.half_width(error, spare) for error in errors.tolist()]
    pairs = zip(values.tolist(), halves, strict=True)
    return [Estimate(value, value - half, value + half) for value, half in pairs]
