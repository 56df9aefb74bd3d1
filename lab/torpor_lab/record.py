# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The outcome of a study."""

from torpor import Record
from torpor.plugin import with_columns


@with_columns("reproduction")
class Reproduction(Record):
    """The outcome of :func:`torpor_lab.reproduce`: a study's tables, and how they were judged."""

    @property
    def right(self) -> dict[str, tuple[int, int]]:
        """By aspect (sign, order, size, range), the cells that are right, and those judged."""
        return {aspect: (one["right"], one["of"]) for aspect, one in self["counts"].items()}

    @property
    def failures(self) -> list[str]:
        """Rows that could not be simulated."""
        return list(self["failures"])
