# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Points that are to be run, in batches: a task takes its time, whether of one point or of many."""

from torpor.run.sweeps.axes import Point
from torpor.run.sweeps.parts import Line

#: Points that one task runs, by their names.
Batch = list[tuple[str, Point]]

#: The most points of a batch.
_POINTS_MAX = 250


class Waiting:
    """Points in order, and how many of them run for a given time."""

    def __init__(self, points: Batch, aim_ms: float) -> None:
        """Hold points; batches will run for ``aim_ms``, where they can."""
        self._points = points[::-1]
        self._aim_ms = aim_ms
        #: Mean of recent points; the first ones go alone.
        self._point_ms = aim_ms

    def __len__(self) -> int:
        """Return the number of points that are left."""
        return len(self._points)

    def take(self, tasks: int) -> Batch:
        """Take the next points of one kind and source, a share for ``tasks`` tasks at most.

        The last batches are small, so that no thread is left with much; there is none after them.
        """
        fair = len(self._points) // max(tasks, 1)
        room = max(1, min(_POINTS_MAX, int(self._aim_ms / self._point_ms), fair))
        batch: Batch = []
        while self._points and len(batch) < room:
            _, point = self._points[-1]
            if batch and (point.kind, point.source) != (batch[0][1].kind, batch[0][1].source):
                break
            batch.append(self._points.pop())
        return batch

    def give_back(self, points: Batch) -> None:
        """Take points again that a task did not get to."""
        self._points += points[::-1]

    def learn(self, lines: list[Line]) -> None:
        """Note how long the points of a batch ran."""
        mean_ms = sum(line.run_ms for line in lines) / len(lines)
        self._point_ms = max((self._point_ms + mean_ms) / 2, 0.01)
