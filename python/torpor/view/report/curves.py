# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Curves and points of several governors on one sheet of paper, as SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from markupsafe import escape

from torpor.view.report.scatter import _dot, _ends, _palette, _text, _tick, _ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.ask.contest.run import Contest
    from torpor.ask.studies.adaptation import Adaptation

_WIDTH, _HEIGHT = 960.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 24.0, 62.0, 50.0
_COLOURS = ("--above", "--link", "--below", "--ink", "--muted")
_LETTER = 7.0
#: Points of a front that are left out.
_FAR_PCT = 100.0


#: Left, top, right and bottom.
_Box = tuple[float, float, float, float]


class Series(NamedTuple):
    """A governor's points: a line with a legend where they are in order, else named in place."""

    name: str
    points: list[tuple[float, float]]
    is_line: bool = True


def adaptation(found: Adaptation) -> str:
    """Draw idle energy over the time since a change, a panel for each load."""
    loads = list(dict.fromkeys(curve["load"] for curve in found["curves"]))
    window_s = found["window_ms"] / 1000
    panels = []
    for load in loads:
        series = [
            Series(
                curve["governor"],
                [((n + 0.5) * window_s, value) for n, value in enumerate(curve["windows_pct"])],
            )
            for curve in found["curves"]
            if curve["load"] == load
        ]
        title = f"{found['platform']}: idle energy after a change to {load}, oracle = 100"
        panels.append((title, "s since the change", "%", series))
    return sheet(panels)


def front(found: Contest) -> str:
    """Draw energy over delay of all replays: the oracle's front, and the governors."""
    known = [
        (one.governor, (one.delay_pct, one.energy_pct))
        for one in found.front
        if one.delay_pct is not None and one.energy_pct is not None
    ]
    oracles = sorted(point for name, point in known if name.partition(",")[0] == "oracle")
    # A governor far off would hide the differences of the others.
    near = [(name, at) for name, at in known if max(at) <= _FAR_PCT]
    others = [Series(n, [at], False) for n, at in near if n.partition(",")[0] != "oracle"]
    title = f"Energy over delay, all replays of corpus {found.corpus.title}, from teo"
    return sheet([(title, "delay %", "energy %", [Series("oracle", oracles), *others])])


def sheet(panels: Sequence[tuple[str, str, str, list[Series]]]) -> str:
    """Draw panels below one another; each has a title, names of its axes, and series."""
    height = _HEIGHT * len(panels)
    drawn = [
        f'<g transform="translate(0 {_HEIGHT * n:.0f})">\n{_panel(*panel)}\n</g>'
        for n, panel in enumerate(panels)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" '
            'role="img" font-family="system-ui, sans-serif" font-size="12.5">',
            # REUSE-IgnoreStart
            "<!-- SPDX-License-Identifier: MIT OR GPL-2.0-only -->",
            # REUSE-IgnoreEnd
            f"<title>{escape('; '.join(panel[0] for panel in panels))}</title>",
            f"<style>{_palette()}</style>",
            f'<rect width="{_WIDTH:.0f}" height="{height:.0f}" fill="var(--paper)"/>',
            *drawn,
            "</svg>\n",
        ]
    )


def _panel(title: str, x_name: str, y_name: str, series: list[Series]) -> str:
    points = [point for one in series for point in one.points]
    x_low, x_high = _ends([x for x, _ in points])
    y_low, y_high = _ends([y for _, y in points])

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT)
        up = (y - y_low) / (y_high - y_low) * (_HEIGHT - _TOP - _BOTTOM)
        return _LEFT + across, _HEIGHT - _BOTTOM - up

    parts = [_text(_LEFT, 24, title, "--ink", size=14, weight=600)]
    bottom = _HEIGHT - _BOTTOM
    for value in _ticks(y_low, y_high):
        at = place(x_low, value)[1]
        parts.append(
            f'<path d="M{_LEFT:.0f} {at:.1f}H{_WIDTH - _RIGHT:.0f}" stroke="var(--rule)"/>'
        )
        parts.append(_text(_LEFT - 8, at + 4, _tick(value), "--muted", anchor="end"))
    for value in _ticks(x_low, x_high):
        at = place(value, y_low)[0]
        parts.append(_text(at, bottom + 18, _tick(value), "--muted", anchor="middle"))
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(_text(middle, _HEIGHT - 8, x_name, "--ink", "middle"))
    parts.append(_text(4, _TOP - 10, y_name, "--ink"))
    at = _LEFT + 4
    taken: list[_Box] = []
    for number, one in enumerate(series):
        colour = _COLOURS[number % len(_COLOURS)] if one.is_line else "--ink"
        placed = [place(*point) for point in one.points]
        if one.is_line and len(placed) > 1:
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
            parts.append(
                f'<polyline fill="none" stroke="var({colour})" stroke-width="1.5" points="{line}"/>'
            )
        told = [f"{one.name}: {x:.4g}, {y:.4g}" for x, y in one.points]
        parts += [
            _dot(x, y, 2.5, colour, True, text) for (x, y), text in zip(placed, told, strict=True)
        ]
        if one.is_line:
            parts.append(_dot(at, 42, 5, colour, True) + _text(at + 10, 46, one.name, "--ink"))
            at += 34 + len(one.name) * _LETTER
        else:
            parts += [_name(x, y, one.name, taken) for x, y in placed]
    return "\n".join(parts)


def _name(x: float, y: float, name: str, taken: list[_Box]) -> str:
    """Name a point next to it where nothing else is named; nothing where all places are taken."""
    width = len(name) * _LETTER
    for left, base in (
        (x + 6, y + 4),
        (x - 6 - width, y + 4),
        (x - width / 2, y - 7),
        (x - width / 2, y + 16),
    ):
        box = (left, base - 10, left + width, base + 3)
        is_free = not any(
            box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
            for other in taken
        )
        if is_free and box[0] >= _LEFT and box[2] <= _WIDTH:
            taken.append(box)
            return _text(left, base, name, "--ink")
    return ""
