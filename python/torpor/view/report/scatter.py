# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""IO boosts as points, IOPS over energy, and the best fixed frequencies: an SVG, or a page."""

from __future__ import annotations

import itertools
import math
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup, escape

from torpor.results.files import write_whole
from torpor.view.report.numbers import number

if TYPE_CHECKING:
    from torpor.ask.studies.io_boost import Scatter, Setting

_TEMPLATES = Path(__file__).parent / "templates"

_WIDTH, _HEIGHT = 960.0, 620.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 24.0, 118.0, 54.0
# Space around the outermost points for their labels, as a share of what the points take.
_PAD = 0.1
_TICKS = 6
# Points nearer than this share a label.
_SAME = 5.0
_FONT = 12.5
# Width of a letter in the page's fonts; a little too wide rather than too narrow.
_LETTER = 0.56
_LINE = 15.0
_PIECE = 4.0
# Next to a point: right and left first.
_SIDES = ((1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (0, -1), (0, 1))

_TITLE = "IO boosts: IOPS over energy an IO"

# Colours that the report's style sheet has for light and for dark paper.
_COLOURS = ("--ink", "--above", "--link", "--below", "--muted")


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: _Box) -> float:
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(width, 0.0) * max(height, 0.0)


class _Mark(NamedTuple):
    """A point, or several in one place, and its label."""

    x: float
    y: float
    names: tuple[str, ...]
    colour: str
    radius: float


def write(result: Scatter, path: str | PathLike[str]) -> None:
    """Write the plot to `path`: a page if the name ends in ``.html``, else an SVG.

    Raises OSError if the file cannot be written.
    """
    is_page = Path(path).suffix in (".html", ".htm")
    write_whole(path, page(result) if is_page else svg(result))


def page(result: Scatter) -> str:
    """The plot with its table as one page that needs nothing else."""
    from torpor.view.report.environment import page

    return page("io-boost.html.j2", result=result, plot=Markup(svg(result)))


def svg(result: Scatter) -> str:
    """The plot alone; its colours follow the reader's light or dark scheme."""
    settings = result["settings"]
    scale = _Scale(settings)
    boosts = [s for s in settings if s["kind"] == "boost"]
    front = sorted((s for s in settings if s["is_front"]), key=lambda s: s["iops"])
    others = [s for s in settings if s["kind"] == "fixed" and not s["is_front"]]
    marks = _marks(boosts, scale) + [
        _Mark(*scale.place(s), (_short(s["name"]),), "--muted", 3.0) for s in front
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(scale.place, front))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" '
        "role=\"img\" font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', "
        f'\'Liberation Sans\', Arial, sans-serif" font-size="{_FONT}">',
        "<!-- SPDX-License-Identifier: MIT OR GPL-2.0-only -->",
        f"<title>{escape(_TITLE)}</title>",
        f"<style>{_palette()}</style>",
        f'<rect width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}" fill="var(--paper)"/>',
        _text(_LEFT, 24, _TITLE, "--ink", size=16, weight=600),
        _text(_LEFT, 44, f"{result['workload']}; {result['platform']}", "--muted"),
        _text(_LEFT, 60, f"idle {result['governor']}, {result['cpufreq']}", "--muted"),
        _legend(boosts),
        scale.axes(),
        *(_dot(*scale.place(s), 2.0, "--strong", True, _told(s)) for s in others),
        f'<polyline fill="none" stroke="var(--strong)" stroke-width="1.5" points="{line}"/>',
        *(_dot(*scale.place(s), 3.0, "--muted", True, _told(s)) for s in front),
        *_labels(marks, list(map(scale.place, front))),
        # Settings without parameters are last: on top of others in the same place.
        *(
            _dot(*scale.place(s), 5.0, _colour(s, boosts), _is_default(s), _told(s))
            for s in sorted(boosts, key=_is_default)
        ),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _palette() -> str:
    """The style sheet's colours, light and dark; in a file of its own `:root` is the drawing."""
    style = (_TEMPLATES / "report.css").read_text("utf-8")
    return style[style.index(":root") : style.index("* {")].strip()


class _Scale:
    """Scales of energy and IOPS."""

    def __init__(self, settings: list[Setting]) -> None:
        self.x_ends = _ends([s["uj_per_io"] for s in settings])
        self.y_ends = _ends([s["iops"] for s in settings])

    def place(self, setting: Setting) -> tuple[float, float]:
        return self.x(setting["uj_per_io"]), self.y(setting["iops"])

    def x(self, value: float) -> float:
        low, high = self.x_ends
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_ends
        return _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    def axes(self) -> str:
        bottom, parts = _HEIGHT - _BOTTOM, []
        for value in _ticks(*self.y_ends):
            at = self.y(value)
            parts.append(
                f'<path d="M{_LEFT:.0f} {at:.1f}H{_WIDTH - _RIGHT:.0f}" stroke="var(--rule)"/>'
            )
            parts.append(_text(_LEFT - 8, at + 4, _tick(value), "--muted", anchor="end"))
        for value in _ticks(*self.x_ends):
            at = self.x(value)
            parts.append(
                f'<path d="M{at:.1f} {bottom:.1f}v5" stroke="var(--strong)"/>'
                + _text(at, bottom + 20, _tick(value), "--muted", anchor="middle")
            )
        parts.append(
            f'<path d="M{_LEFT:.0f} {bottom:.1f}H{_WIDTH - _RIGHT:.0f}" stroke="var(--strong)"/>'
        )
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        title = "µJ an IO, all of the machine"
        parts.append(_text(middle, _HEIGHT - 12, title, "--ink", "middle"))
        parts.append(_text(_LEFT - 8, _TOP - 12, "IOPS", "--ink", "end"))
        return "\n".join(parts)


def _ends(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = (high - low) * _PAD or abs(high) * _PAD or 1.0
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    step = 10 ** math.floor(math.log10((high - low) / _TICKS))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= _TICKS)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [step * n for n in range(first, last + 1)]


def _tick(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 or value == round(value) else f"{value:.3g}"


def _family(setting: Setting) -> str:
    return str(setting["name"]).partition(",")[0]


def _families(boosts: list[Setting]) -> list[str]:
    return list(dict.fromkeys(map(_family, boosts)))


def _colour(setting: Setting, boosts: list[Setting]) -> str:
    return _COLOURS[_families(boosts).index(_family(setting)) % len(_COLOURS)]


def _is_default(setting: Setting) -> bool:
    return "," not in setting["name"]


def _short(name: str) -> str:
    return name.removesuffix(" MHz, kept there").removesuffix(" MHz")


def _told(setting: Setting) -> str:
    """Return the tooltip of a point."""
    freqs = ", ".join(f"{name} {mhz:.0f} MHz" for name, mhz in setting["freq_mhz"].items())
    return (
        f"{setting['name']}: {number(setting['iops'])} IOPS, {number(setting['uj_per_io'])} µJ an "
        f"IO, {number(setting['power_mw'])} mW; on average {freqs}"
    )


def _marks(boosts: list[Setting], scale: _Scale) -> list[_Mark]:
    marks: list[_Mark] = []
    for setting in boosts:
        x, y = scale.place(setting)
        near = (i for i, m in enumerate(marks) if math.hypot(m.x - x, m.y - y) < _SAME)
        at = next(near, None)
        if at is None:
            colour = _colour(setting, boosts)
            marks.append(_Mark(x, y, (setting["name"],), colour, 5.0))
        else:
            marks[at] = marks[at]._replace(names=(*marks[at].names, setting["name"]))
    return marks


def _labels(marks: list[_Mark], line: list[tuple[float, float]]) -> list[str]:
    """Each where it hides least: near its point, off the others and off what is placed already."""
    taken = [_square(mark.x, mark.y, mark.radius) for mark in marks] + _along(line)
    paper = _Box(_LEFT, _TOP - 8, _WIDTH - 4, _HEIGHT - _BOTTOM - 2)
    placed: list[_Box] = []
    drawn = []
    for mark in marks:
        box, away = min(
            _candidates(mark), key=lambda c: (_hidden(c[0], taken, placed, paper), c[1], c[0])
        )
        placed.append(box)
        if away:
            x = min(max(mark.x, box.left), box.right)
            y = box.top if box.top > mark.y else box.bottom
            drawn.append(
                f'<path d="M{mark.x:.1f} {mark.y:.1f}L{x:.1f} {y:.1f}" stroke="var(--rule)"/>'
            )
        for row, name in enumerate(mark.names):
            at = box.top + _LINE * (row + 0.8)
            drawn.append(_text(box.left, at, name, mark.colour, has_halo=True))
    return drawn


def _square(x: float, y: float, radius: float) -> _Box:
    return _Box(x - radius, y - radius, x + radius, y + radius)


def _along(line: list[tuple[float, float]]) -> list[_Box]:
    """A line, in pieces that a label can be held against."""
    pieces = []
    for (x1, y1), (x2, y2) in itertools.pairwise(line):
        count = math.ceil(math.hypot(x2 - x1, y2 - y1) / _PIECE)
        pieces += [
            _square(x1 + (x2 - x1) * n / count, y1 + (y2 - y1) * n / count, _PIECE / 2)
            for n in range(count)
        ]
    return pieces


def _candidates(mark: _Mark) -> list[tuple[_Box, int]]:
    """Places for a label, each with how far off its point it is."""
    width = max(map(len, mark.names)) * _FONT * _LETTER
    height = _LINE * len(mark.names)
    found = []
    for away, gap in enumerate((3.0, 14.0, 28.0, 44.0, 64.0, 90.0)):
        for dx, dy in _SIDES:
            reach = (mark.radius + gap) * (0.75 if dx and dy else 1)
            left = mark.x + dx * reach - width * (1 - dx) / 2
            top = mark.y + dy * reach - height * (1 - dy) / 2
            found.append((_Box(left, top, left + width, top + height), away))
    return found


def _hidden(box: _Box, taken: list[_Box], placed: list[_Box], paper: _Box) -> float:
    """Return how much of a label overlaps something or is off the paper; labels weigh most."""
    beside = (box.right - box.left) * (box.bottom - box.top) - box.overlap(paper)
    found = sum(map(box.overlap, taken)) + 4 * sum(map(box.overlap, placed)) + 4 * beside
    return round(found, 3)


def _legend(boosts: list[Setting]) -> str:
    parts, x = [], _LEFT + 4
    names = [(name, _COLOURS[i % len(_COLOURS)]) for i, name in enumerate(_families(boosts))]
    for name, colour in names:
        parts.append(_dot(x, 84, 5, colour, True) + _text(x + 10, 88, name, "--ink"))
        x += 30 + len(name) * _FONT * _LETTER
    if not all(map(_is_default, boosts)):
        parts.append(_dot(x, 84, 5, "--ink", False))
        parts.append(_text(x + 10, 88, "with other parameters", "--ink"))
        x += 172
    parts.append(f'<path d="M{x:.1f} 84h24" stroke="var(--strong)" stroke-width="1.5"/>')
    parts.append(_dot(x + 12, 84, 3, "--muted", True))
    parts.append(_text(x + 32, 88, "best fixed frequencies, MHz", "--ink"))
    return "\n".join(parts)


def _dot(
    x: float, y: float, radius: float, colour: str, is_full: bool, told: str | None = None
) -> str:
    fill, stroke = (colour, "--paper") if is_full else ("--paper", colour)
    width = 1 if is_full else 2
    title = f"<title>{escape(told)}</title>" if told else ""
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="var({fill})" '
        f'stroke="var({stroke})" stroke-width="{width}">{title}</circle>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    colour: str,
    anchor: str = "start",
    size: float = _FONT,
    weight: int = 400,
    has_halo: bool = False,
) -> str:
    style = f' font-size="{size:g}"' if size != _FONT else ""
    style += f' font-weight="{weight}"' if weight != 400 else ""
    style += f' text-anchor="{anchor}"' if anchor != "start" else ""
    if has_halo:
        style += ' stroke="var(--paper)" stroke-width="3" paint-order="stroke"'
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="var({colour})"{style}>{escape(text)}</text>'
