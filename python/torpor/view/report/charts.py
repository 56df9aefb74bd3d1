# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Charts of tuning and of shadows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from torpor.results.table import minus
from torpor.view.chart import COLOURS, Chart, Point, Series, inline_both

if TYPE_CHECKING:
    from torpor.ask.tuning import Trial, Tuned
    from torpor.results.kinds.shadow import Shadows
    from torpor.results.types import Change


def _signed(value: float) -> str:
    return minus(f"{value:+.4g}")


def tuned(found: Tuned) -> str:
    """Draw the first objective over the second; empty where there is only one."""
    if len(found.objectives) < 2:
        return ""
    up, across = (objective.heading for objective in found.objectives[:2])

    def points(
        trials: Sequence[Trial], *, is_held: bool = False, is_named: bool = False
    ) -> list[Point]:
        drawn = []
        for trial in trials:
            y, x, *_ = (trial.holdout if is_held else trial.train) or (None, None)
            if x is None or y is None:
                continue
            where = " held out" if is_held else ""
            hint = f"{trial.setting}{where}: {up} {_signed(y)}, {across} {_signed(x)}"
            drawn.append(Point(x, y, hint, trial.setting if is_named else ""))
        return sorted(drawn)

    front, held = points(found.front), points(found.front, is_held=True)
    named = points(found.references, is_named=True)
    others = points([trial for trial in found.trials if trial not in found.front])
    series = [
        Series("other settings" if others else "", others, "--strong"),
        Series("the front, held out" if held else "", held, "--above", 3.0),
        Series("the front", front, "--ink", 4.0, is_line=True),
        Series("", named, "--link", 4.0),
    ]
    if not (front or named):
        return ""
    chart = Chart(f"{found.base}: {up} over {across}", across, up, series)
    return inline_both(chart)


#: Hours by which the dots of two lines are apart, so that their intervals do not overlap.
_BESIDE = 0.15


def by_hour(result: Shadows) -> Markup | None:
    """Draw the change of each class and governor by hour; None without two hours."""
    series: list[Series] = []
    titles = set()
    hours = [group for group in result["groups"] if group["hour"] is not None]
    lines = [
        (name, place)
        for name in dict.fromkeys(group["machine_class"] for group in hours)
        for place in range(1, len(result["governors"]))
    ]
    for number_of, (machine_class, place) in enumerate(lines):
        name = f"{result['governors'][place]}, {machine_class}"
        points = []
        for group in hours:
            row = next(r for r in group["comparison"]["rows"] if r["key"] == group["judged"])
            change = row["cells"][place]["change"] if place < len(row["cells"]) else None
            if group["machine_class"] != machine_class or change is None:
                continue
            if row["kind"] != "share" and change["relative_pct"] is None:
                # The base is 0, and the axis is percent of it.
                continue
            titles.add(row["title"])
            x = (group["hour"] or 0) + _BESIDE * (number_of - (len(lines) - 1) / 2)
            hint = f"{name}, {group['hour']:02}:00: {row['title']} {change['text']}"
            points.append(Point(x, *_percent(change, hint)))
        colour = COLOURS[number_of % len(COLOURS)]
        series.append(Series(name, sorted(points), colour, 3.0, is_line=True))
    series = [one for one in series if len(one.points) > 1]
    if not series or len(series) > len(COLOURS):
        return None
    up = f"{' or '.join(sorted(titles))}: change from {result['governors'][0]}, %"
    ticks = tuple(map(float, range(0, 24, 3)))
    chart = Chart("Change by hour", "hour, UTC", up, series, x_ticks=ticks)
    return inline_both(chart)


def _percent(change: Change, hint: str) -> tuple[float, str, str, bool, None, Any]:
    """Return a change as a point has it, in percent or points, with its interval."""
    relative, of = change["relative_pct"], change["difference"]
    scale = relative / of if relative is not None and of else 1.0
    low, high = change["low"], change["high"]
    ends = None if low is None or high is None else (scale * low, scale * high)
    is_hollow = not change["is_significant"]
    return scale * of, hint, "", is_hollow, None, ends
