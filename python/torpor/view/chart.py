# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The painter of pictures: SVG for pages, notebooks and files."""

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup, escape

from torpor.results.files import read_text
from torpor.results.picture import SMALL, Chart, Point, Row, Rows, Series
from torpor.results.table import minus

_STYLE = Path(__file__).parent / "report" / "templates" / "report.css"

_LEFT, _RIGHT, _BOTTOM = 72.0, 24.0, 54.0
#: Below this width a chart is for a phone, and its left margin is this one.
_WIDE, _LEFT_NARROW = 500.0, 46.0
#: Least distance of ticks on a logarithmic axis.
_APART = 36.0
#: Space around the outermost points for their labels, as a share of what the points take.
_PAD = 0.1
_TICKS = 6
#: A row's label is above it if it takes more than this part of the width.
_LABEL_PART = 0.3
#: Space between rows.
_GAP = 4.0
_FONT = 12.5
#: Width of a letter in the page's fonts; a little too wide rather than too narrow.
_LETTER = 0.56
_LINE = 15.0
_PIECE = 4.0
#: Points nearer than this share a label.
_SAME = 5.0
#: Places of a label next to its point: right and left first.
_SIDES = ((1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (0, -1), (0, 1))
#: Ratios that the axes of changes name.
_RATIOS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 5, 10, 20, 50, 100)
#: Least reach of an axis of changes, as a ratio: a change of a per cent is no picture.
_LEAST = 1.3


#: Colours on which text is in ink; on the others it is in the paper's colour.
_PALE = ("--run", "--wash", "--rule")


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: "_Box") -> float:
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(width, 0.0) * max(height, 0.0)


class _Mark(NamedTuple):
    """A labelled point, or several in one place."""

    x: float
    y: float
    names: tuple[str, ...]
    colour: str
    radius: float


def svg(*charts: Chart | Rows) -> str:
    """Return charts below one another as a file, in the reader's light or dark scheme."""
    width = max(chart.size[0] for chart in charts)
    parts, top = [], 0.0
    for chart in charts:
        drawn, height = _drawn(chart)
        parts.append(f'<g transform="translate(0 {top:.0f})">\n{drawn}\n</g>')
        top += height
    style = read_text(_STYLE)
    palette = style[style.index(":root") : style.index("* {")].strip()
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {top:.0f}" '
            "role=\"img\" font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', "
            f'\'Liberation Sans\', Arial, sans-serif" font-size="{_FONT}">',
            # REUSE-IgnoreStart
            "<!-- SPDX-License-Identifier: MIT OR GPL-2.0-only -->",
            # REUSE-IgnoreEnd
            f"<title>{escape('; '.join(chart.title for chart in charts))}</title>",
            f"<style>{palette}</style>",
            f'<rect width="{width:.0f}" height="{top:.0f}" fill="var(--paper)"/>',
            *parts,
            "</svg>\n",
        ]
    )


def inline(chart: Chart | Rows, css: str = "") -> Markup:
    """Return a chart as a part of a page, which has the colours and the title.

    ``css`` is the class of the image.
    """
    width = chart.size[0]
    drawn, height = _drawn(chart._replace(title=""))
    of = f' class="{css}"' if css else ""
    return Markup(
        f'<svg{of} viewBox="0 0 {width:g} {height:g}" style="max-width:{width:g}px" role="img" '
        f'aria-label="{escape(chart.title)}" font-size="12">{drawn}</svg>'
    )


def inline_both(chart: Chart | Rows) -> Markup:
    """Return a chart as a part of a page, for wide ones and for phones; a small one is for both."""
    if chart.size[0] <= SMALL:
        return inline(chart)
    drawn = [inline(chart._replace(size=size), css) for css, size in sizes(chart).items()]
    return Markup("").join(drawn)


def sizes(chart: Chart | Rows) -> dict[str, tuple[float, float]]:
    """Return the sizes of a chart in a page, by class."""
    return {"on-wide": chart.size, "on-narrow": (SMALL, 340.0)}


def places(chart: Chart, values: Sequence[float]) -> tuple[list[float], float, float]:
    """Return where values are across an inline chart, and the upper and lower end of its paper."""
    frame = _Frame(chart._replace(title=""))
    left, top, right, bottom = frame.paper
    return [min(max(frame.x(value), left), right) for value in values], top, bottom


def _drawn(chart: Chart | Rows) -> tuple[str, float]:
    """Return a picture without its frame, and its height."""
    if isinstance(chart, Rows):
        return _rows(chart)
    frame = _Frame(chart)
    parts = [*_heading(chart), *frame.axes()]
    marks: list[_Mark] = []
    unnamed: list[_Box] = []
    lines, words = frame.floor_line()
    for series in chart.series:
        placed = [frame.place(point) for point in series.points]
        if series.is_line and len(placed) > 1:
            lines.append(placed)
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
            dashes = f' stroke-dasharray="{series.dashes}"' if series.dashes else ""
            parts.append(
                f'<polyline fill="none" stroke="var({series.colour})" stroke-width="1.5"{dashes} '
                f'points="{path}"/>'
            )
        labelled = zip(series.points, placed, strict=True)
        _add_marks(marks, series, [(point.label, at) for point, at in labelled if point.label])
        labelled = zip(series.points, placed, strict=True)
        unnamed += [_square(*at, series.radius) for point, at in labelled if not point.label]
    # A label is on no point, also of those without one.
    words += unnamed if marks else []
    # Large points first: they are the ones that a reader looks for.
    marks.sort(key=lambda mark: -mark.radius)
    for series in chart.series:
        for point in series.points:
            lines += frame.intervals(point)
    parts += _labels(marks, lines, frame.paper, words)
    for series in chart.series:
        parts += [line for point in series.points for line in frame.interval(point, series.colour)]
        # Hollow points first: the others are on top of those in the same place.
        for point in sorted(series.points, key=lambda point: not point.is_hollow):
            at = frame.place(point)
            if series.radius:
                parts.append(_dot(*at, series.radius, series.colour, point.is_hollow, point.hint))
    return "\n".join(parts), chart.size[1]


def _rows(chart: Rows) -> tuple[str, float]:
    width, (low, high) = chart.size[0], chart.ends
    longest = max((_width(row.label) for row in chart.rows), default=0.0)
    is_above = longest > _LABEL_PART * width
    left = 0.0 if is_above else longest + 8
    right = width - max((_width(row.value) for row in chart.rows), default=0.0)
    scale = (right - left) / (high - low)

    def at(value: float) -> float:
        return left + (value - low) * scale

    parts = [_text(0, 14, chart.title, "--ink", weight=600)] if chart.title else []
    top = 18.0 if chart.title else 0.0
    named = [(name, colour, False, False) for name, colour in chart.key.items() if name]
    legend, top = _legend(named, 5, top + 14, width)
    parts += legend
    top += 8
    for row in chart.rows:
        if row.label and is_above:
            parts.append(_text(0, top + 13, row.label, "--ink"))
            top += 18
        middle = top + row.height / 2 + 4
        if row.label and not is_above:
            parts.append(_text(0, middle, row.label, "--ink"))
        if row.value:
            parts.append(_text(width, middle, row.value, "--ink", "end"))
        parts += _blocks(chart, row, top, at)
        top += row.height + _GAP
    if low < 0 < high:
        parts.append(f'<path d="M{at(0):.1f} 24V{top:.1f}" stroke="var(--strong)"/>')
    if chart.x_title:
        for value, text in _even(low, high):
            anchor = "start" if at(value) < 20 else "end" if at(value) > width - 20 else "middle"
            parts.append(_text(at(value), top + 12, text, "--muted", anchor))
        parts.append(_text(left, top + 28, chart.x_title, "--muted"))
        top += 32
    return "\n".join(parts), top + 2


def _blocks(chart: Rows, row: Row, top: float, at: Callable[[float], float]) -> list[str]:
    """Return the blocks of a row; those without hints are one path for each colour."""
    parts: list[str] = []
    paths: dict[str, str] = {}
    for block in row.blocks:
        x, width = at(block.start), at(block.end) - at(block.start)
        height = max(row.height * block.depth, 1)
        # A phone has no pointer that reads a hint.
        if block.hint and width and chart.size[0] > SMALL:
            title = f"<title>{escape(block.hint)}</title>"
            parts.append(
                f'<rect x="{x:.1f}" y="{top:.1f}" width="{max(width - 0.5, 0.5):.1f}" '
                f'height="{height:.3g}" {_fill(block.colour)}>{title}</rect>'
            )
        elif width:
            path = f"M{x:.5g} {top:g}h{width:.3g}v{height:.3g}h-{width:.3g}z"
            paths[block.colour] = paths.get(block.colour, "") + path
        words = f"{block.name} {block.text}"
        if chart.is_beside:
            is_left, colour = block is row.blocks[0], "--ink" if width else "--muted"
            x += -4 if is_left else width + 4
            parts.append(_text(x, top + 11, block.text, colour, "end" if is_left else "start"))
        elif block.text and width > _width(words):
            x, y = x + width / 2, top + row.height / 2 + 4
            parts.append(_text(x, y, words, block.colour, "middle", is_on=True))
    drawn = [f'<path d="{path}" {_fill(colour)}/>' for colour, path in paths.items()]
    return drawn + parts


def _width(text: str) -> float:
    """Return the width of a label, with space around it."""
    return len(text) * _FONT * _LETTER + 6 if text else 0.0


def _fill(colour: str) -> str:
    """Return the attributes of what is filled with a colour."""
    if colour.startswith("--"):
        return f'fill="var({colour})"'
    return 'class="state poll"' if colour == "poll" else f'class="state" style="--d:{colour}"'


class _Frame:
    """Axes of a chart, and the places of its points."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        width, height = chart.size
        top = 14.0 + (22 if chart.title else 0) + 16 * len(chart.facts) + _legend_height(chart)
        left = _LEFT if width >= _WIDE or chart.is_change else _LEFT_NARROW
        self.paper = _Box(left, top + 12, width - _RIGHT, height - _BOTTOM)
        across = [x for p in chart.points for x in (p.x, *(p.x_ends or ()))]
        up = [y for p in chart.points for y in (p.y, *(p.y_ends or ()))]
        up += [chart.floor[0]] if chart.floor else []
        if chart.is_log_x:
            # An interval that reaches 0 is cut where the axis ends.
            least = min(point.x for point in chart.points)
            across = [max(x, least / 2) for x in across]
        xs, ys = [self._across(x) for x in across], [self._up(y) for y in up]
        if chart.is_change:
            reach = max(math.log(_LEAST), *(abs(value) for value in (*xs, *ys))) * 1.08
            self.x_ends = self.y_ends = (-reach, reach)
        else:
            self.x_ends, self.y_ends = _ends(xs), chart.y_ends or _ends(ys)

    def _across(self, value: float) -> float:
        return math.log(value) if self.chart.is_change or self.chart.is_log_x else value

    def _up(self, value: float) -> float:
        return math.log(value) if self.chart.is_change else value

    def x(self, value: float) -> float:
        low, high = self.x_ends
        part = (self._across(value) - low) / (high - low)
        return self.paper.left + part * (self.paper.right - self.paper.left)

    def y(self, value: float) -> float:
        low, high = self.y_ends
        part = (self._up(value) - low) / (high - low)
        return self.paper.bottom - part * (self.paper.bottom - self.paper.top)

    def intervals(self, point: Point) -> list[list[tuple[float, float]]]:
        """Return the lines of a point's intervals, within the paper."""
        x, y = self.place(point)
        left, top, right, bottom = self.paper
        found = []
        if point.x_ends:
            low, high = point.x_ends
            start = self.x(low) if low > 0 or not self.chart.is_log_x else left
            found.append([(max(start, left), y), (min(self.x(high), right), y)])
        if point.y_ends:
            low, high = map(self.y, point.y_ends)
            found.append([(x, min(low, bottom)), (x, max(high, top))])
        return found

    def interval(self, point: Point, colour: str) -> list[str]:
        """Draw the lines of a point's intervals."""
        path = "".join(
            f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" for (x1, y1), (x2, y2) in self.intervals(point)
        )
        line = f'<path d="{path}" stroke="var({colour})" stroke-width="1.5" opacity="0.6"/>'
        return [line] if path else []

    def place(self, point: Point) -> tuple[float, float]:
        return self.x(point.x), self.y(point.y)

    def axes(self) -> list[str]:
        left, top, right, bottom = self.paper
        middle = (left + right) / 2
        parts = self._quarters() if self.chart.is_change else []
        for value, text in self._ticks(self.y_ends, self.y):
            at = self.y(value)
            if not self.chart.is_change:
                parts.append(f'<path d="M{left:.0f} {at:.1f}H{right:.0f}" stroke="var(--rule)"/>')
            parts.append(_text(left - 8, at + 4, text, "--muted", "end"))
        for value, text in self._ticks(self.x_ends, self.x):
            parts.append(_text(self.x(value), bottom + 18, text, "--muted", "middle"))
        parts.append(f'<path d="M{left:.0f} {bottom:.1f}H{right:.0f}" stroke="var(--strong)"/>')
        parts += self._floor()
        parts.append(_text(middle, bottom + 42, self.chart.x_title, "--ink", "middle"))
        parts.append(_text(4, top - 10, self.chart.y_title, "--ink"))
        return parts

    def floor_line(self) -> tuple[list[list[tuple[float, float]]], list[_Box]]:
        """Return the line of the floor and the place of its words, so that labels avoid both."""
        if self.chart.floor is None:
            return [], []
        left, _, right, bottom = self.paper
        at = self.y(self.chart.floor[0])
        below = min(at + 15, bottom - 4)
        width = len(self.chart.floor[1]) * _FONT * _LETTER
        return [[(left, at), (right, at)]], [_Box(right - width, below - 12, right, below + 3)]

    def _floor(self) -> list[str]:
        if self.chart.floor is None:
            return []
        value, words = self.chart.floor
        left, _, right, bottom = self.paper
        at = self.y(value)
        return [
            f'<rect x="{left:.1f}" y="{at:.1f}" width="{right - left:.1f}" '
            f'height="{bottom - at:.1f}" fill="var(--wash)"/>',
            f'<path d="M{left:.1f} {at:.1f}H{right:.1f}" stroke="var(--oracle)" '
            'stroke-dasharray="4 3"/>',
            _text(right - 4, min(at + 15, bottom - 4), words, "--muted", "end", size=11.5),
        ]

    def _quarters(self) -> list[str]:
        """Shade the quarters in which the changes have different signs; draw the diagonal."""
        left, top, right, bottom = self.paper
        across, up = (left + right) / 2, (top + bottom) / 2
        size = f'width="{across - left:.1f}" height="{up - top:.1f}" fill="var(--wash)"'
        return [
            f'<rect x="{left:.1f}" y="{top:.1f}" {size}/>',
            f'<rect x="{across:.1f}" y="{up:.1f}" {size}/>',
            f'<path d="M{left:.1f} {bottom:.1f}L{right:.1f} {top:.1f}" stroke="var(--strong)"/>',
            f'<path d="M{left:.1f} {up:.1f}H{right:.1f}M{across:.1f} {top:.1f}V{bottom:.1f}" '
            'stroke="var(--rule)"/>',
        ]

    def _ticks(
        self, ends: tuple[float, float], place: Callable[[float], float]
    ) -> list[tuple[float, str]]:
        low, high = ends
        if self.chart.x_ticks and ends is self.x_ends:
            return [(value, _tick(value)) for value in self.chart.x_ticks]
        if self.chart.is_log_x and ends is self.x_ends:
            return self._decades(low, high)
        if self.chart.is_change:
            found: list[tuple[float, str]] = []
            # From the middle, so that 0 and the smallest changes have names.
            for ratio in sorted(_RATIOS, key=lambda ratio: abs(math.log(ratio))):
                text = f"{100 * (ratio - 1):+.0f} %".replace("-", "−") if ratio != 1 else "0"
                is_apart = all(abs(place(ratio) - place(other)) >= 48 for other, _ in found)
                if low <= math.log(ratio) <= high and is_apart:
                    found.append((ratio, text))
            return found
        return _even(low, high)

    def _decades(self, low: float, high: float) -> list[tuple[float, str]]:
        """Return 1, 2 and 5 times powers of ten, or the powers alone where there is no space."""
        powers = range(math.floor(low / math.log(10)), math.ceil(high / math.log(10)) + 1)
        for digits in ((1, 2, 5), (1, 3), (1,)):
            known = [m * 10.0**k for k in powers for m in digits]
            known = [value for value in known if low <= math.log(value) <= high]
            places = [self.x(value) for value in known]
            if all(b - a >= _APART for a, b in itertools.pairwise(places)):
                break
        return [(value, _tick(value)) for value in known]


def _even(low: float, high: float) -> list[tuple[float, str]]:
    """Return round numbers that are evenly apart."""
    step = 10 ** math.floor(math.log10((high - low) / _TICKS))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= _TICKS)
    numbers = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [(step * n, _tick(step * n)) for n in numbers]


def _ends(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = (high - low) * _PAD or abs(high) * _PAD or 1.0
    return low - room, high + room


def _tick(value: float) -> str:
    return minus(f"{value:,.10g}")


def _legend_height(chart: Chart) -> int:
    if not any(series.name for series in chart.series):
        return 0
    return 34 if chart.size[0] >= _WIDE else 34 + 16 * (sum(bool(s.name) for s in chart.series) - 1)


def _heading(chart: Chart) -> list[str]:
    """Return the title, the facts and the legend."""
    parts, y = [], 12.0 if chart.facts else 24.0
    if chart.title:
        parts.append(_text(_LEFT, 24, chart.title, "--ink", size=15, weight=600))
        y = 44.0
    for fact in chart.facts:
        left = _LEFT if chart.size[0] >= _WIDE else 4
        parts.append(_text(left, y, fact, "--muted"))
        y += 16
    named = [series for series in chart.series if series.name]
    entries = [(s.name, s.colour, False, s.is_line) for s in named]
    if named and chart.hollow and any(point.is_hollow for point in chart.points):
        entries.append((chart.hollow, "--ink", True, False))
    return parts + _legend(entries, _LEFT + 4, y + 4, chart.size[0])[0]


def _legend(
    entries: Sequence[tuple[str, str, bool, bool]], left: float, y: float, width: float
) -> tuple[list[str], float]:
    """Return a legend, and where its last line is.

    An entry has a name, a colour, whether its dot is hollow, and whether it is a line.
    """
    parts, x = [], left
    for name, colour, is_hollow, is_line in entries:
        if x > left and x + 10 + len(name) * _FONT * _LETTER > width:
            x, y = left, y + 16
        if is_line:
            parts.append(f'<path d="M{x - 6:.1f} {y - 4:.1f}h20" stroke="var({colour})"/>')
        parts.append(_dot(x + 4 * is_line, y - 4, 4, colour, is_hollow))
        parts.append(_text(x + 10 + 10 * is_line, y, name, "--ink"))
        x += 30 + 10 * is_line + len(name) * _FONT * _LETTER
    return parts, y


def _add_marks(
    marks: list[_Mark], series: Series, labels: list[tuple[str, tuple[float, float]]]
) -> None:
    """Add labels; one near another is added to its mark."""
    for label, (x, y) in labels:
        near = (i for i, m in enumerate(marks) if math.hypot(m.x - x, m.y - y) < _SAME)
        at = next(near, None)
        if at is None:
            marks.append(_Mark(x, y, (label,), series.colour, series.radius))
        else:
            marks[at] = marks[at]._replace(names=(*marks[at].names, label))


def _labels(
    marks: list[_Mark],
    lines: list[list[tuple[float, float]]],
    paper: _Box,
    words: Sequence[_Box] = (),
) -> list[str]:
    """Place each label where it hides least: near its point, off other points and labels."""
    taken = [_square(mark.x, mark.y, mark.radius) for mark in marks]
    taken += [piece for line in lines for piece in _along(line)]
    placed = list(words)
    drawn = []
    for mark in marks:
        best = math.inf
        # The nearest first: none is better than one that hides nothing.
        for place, distance in _candidates(mark):
            hidden = _hidden(place, taken, placed, paper)
            if hidden < best:
                best, box, away = hidden, place, distance
            if not hidden:
                break
        placed.append(box)
        if away:
            x = min(max(mark.x, box.left), box.right)
            y = box.top if box.top > mark.y else box.bottom
            drawn.append(
                f'<path d="M{mark.x:.1f} {mark.y:.1f}L{x:.1f} {y:.1f}" stroke="var(--rule)"/>'
            )
        for row, name in enumerate(mark.names):
            at = box.top + _LINE * (row + 0.8)
            # Letters are wider or narrower than estimated: not where the dot is.
            is_left = box.right <= mark.x
            side, anchor = (box.right, "end") if is_left else (box.left, "start")
            drawn.append(_text(side, at, name, mark.colour, anchor, has_halo=True))
    return drawn


def _square(x: float, y: float, radius: float) -> _Box:
    return _Box(x - radius, y - radius, x + radius, y + radius)


def _along(line: list[tuple[float, float]]) -> list[_Box]:
    """Return a line as boxes."""
    pieces = []
    for (x1, y1), (x2, y2) in itertools.pairwise(line):
        count = math.ceil(math.hypot(x2 - x1, y2 - y1) / _PIECE)
        pieces += [
            _square(x1 + (x2 - x1) * n / count, y1 + (y2 - y1) * n / count, _PIECE / 2)
            for n in range(count)
        ]
    return pieces


def _candidates(mark: _Mark) -> list[tuple[_Box, int]]:
    """Return places for a label, each with its distance from the point."""
    width = max(map(len, mark.names)) * _FONT * _LETTER
    height = _LINE * len(mark.names)
    found = []
    for away, gap in enumerate((5.0, 14.0, 28.0, 44.0, 64.0, 90.0)):
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


def _dot(x: float, y: float, radius: float, colour: str, is_hollow: bool, hint: str = "") -> str:
    fill, stroke = ("--paper", colour) if is_hollow else (colour, "--paper")
    title = f"<title>{escape(hint)}</title>" if hint else ""
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" {_fill(fill)} '
        f'stroke="var({stroke})" stroke-width="{2 if is_hollow else 1}">{title}</circle>'
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
    is_on: bool = False,
) -> str:
    """Return a text; ``is_on`` for one that is on a block of the colour."""
    style = f' font-size="{size:g}"' if size != _FONT else ""
    style += f' font-weight="{weight}"' if weight != 400 else ""
    style += f' text-anchor="{anchor}"' if anchor != "start" else ""
    if has_halo:
        style += ' stroke="var(--paper)" stroke-width="3" paint-order="stroke"'
    if is_on and colour.startswith("--"):
        colour = "--ink" if colour in _PALE else "--paper"
    fill = _fill(colour)
    return f'<text x="{x:.1f}" y="{y:.1f}" {fill}{style}>{escape(text)}</text>'
