# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A reproduced table as one picture: each change, published across and simulated up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from torpor.results.kinds import reproduction as shapes

_SIZE, _LEFT, _TOP, _BOTTOM = 420.0, 84.0, 12.0, 44.0
#: Ratios that axes name, of those that the dots reach.
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 5, 10, 20, 50, 100)
#: The least reach of an axis, as a ratio: a change of a per cent is no picture.
_LEAST = 1.3


class _Dot(NamedTuple):
    told: str
    published: float
    ours: float
    is_judged: bool
    is_right: bool


def changes(result: shapes.Reproduction) -> Markup | None:
    """Return the picture as SVG; None where no row has two numbers to compare."""
    dots = _dots(result)
    if not dots:
        return None
    reach = math.log(max(_LEAST, *(max(r, 1 / r) for d in dots for r in d[1:3]))) * 1.08

    def x(ratio: float) -> float:
        return _LEFT + _SIZE * (1 + math.log(ratio) / reach) / 2

    def y(ratio: float) -> float:
        return _TOP + _SIZE * (1 - math.log(ratio) / reach) / 2

    middle, far = _LEFT + _SIZE / 2, _LEFT + _SIZE
    half, low = _SIZE / 2, _TOP + _SIZE
    parts = [
        f'<rect x="{_LEFT:g}" y="{_TOP:g}" width="{half:g}" height="{half:g}" fill="var(--wash)"/>',
        f'<rect x="{middle:g}" y="{_TOP + half:g}" width="{half:g}" height="{half:g}" '
        'fill="var(--wash)"/>',
        f'<path d="M{_LEFT:g} {low:g}L{far:g} {_TOP:g}" stroke="var(--strong)"/>',
        f'<path d="M{_LEFT:g} {_TOP + half:g}H{far:g}M{middle:g} {_TOP:g}V{low:g}" '
        'stroke="var(--rule)"/>',
    ]
    last = -math.inf
    for ratio in _TICKS:
        if abs(math.log(ratio)) > reach or (x(ratio) - last < 54):
            continue
        last = x(ratio)
        text = f"{100 * (ratio - 1):+.0f} %".replace("-", "−") if ratio != 1 else "0"
        parts.append(_text(x(ratio), low + 16, text, "middle"))
        parts.append(_text(_LEFT - 6, y(ratio) + 4, text, "end"))
    parts.append(_text(middle, low + 36, "change as published", "middle"))
    up = f'transform="rotate(-90 12 {_TOP + half:g})"'
    parts.append(_text(12, _TOP + half, "change as simulated", "middle", up))
    for dot in dots:
        colour = "--link" if dot.is_right else "--above"
        fill = f"var({colour})" if dot.is_judged else "var(--paper)"
        parts.append(
            f'<circle cx="{x(dot.published):.1f}" cy="{y(dot.ours):.1f}" r="5" fill="{fill}" '
            f'stroke="var({colour if dot.is_judged else "--muted"})" stroke-width="1.5">'
            f"<title>{escape(dot.told)}</title></circle>"
        )
    width, height = far + 30, low + _BOTTOM
    label = f"{len(dots)} changes, as published and as simulated"
    return Markup(
        f'<svg viewBox="0 0 {width:g} {height:g}" style="max-width:{width:g}px" role="img" '
        f'aria-label="{escape(label)}" font-size="12">{"".join(parts)}</svg>'
    )


def _dots(result: shapes.Reproduction) -> list[_Dot]:
    found = []
    for table in result["tables"]:
        for row in table["rows"]:
            cells = list(row["cells"].items())
            base = cells[0][1] if cells else None
            if base is None:
                continue
            for column, cell in cells[1:]:
                there = _ratio(cell["published"], base["published"])
                here = _ratio(cell["ours"], base["ours"])
                if there is None or here is None:
                    continue
                told = (
                    f"{row['title']}, {column}: {100 * (there - 1):+.1f} % published, "
                    f"{100 * (here - 1):+.1f} % here"
                )
                right = cell["right"]
                is_right = right is None or right.get("sign", True)
                found.append(_Dot(told, there, here, right is not None, is_right))
    return found


def _ratio(value: object, base: object) -> float | None:
    if not isinstance(value, int | float) or not isinstance(base, int | float):
        return None
    return value / base if value > 0 and base > 0 else None


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="var(--muted)" text-anchor="{anchor}" {more}>'
        f"{escape(text)}</text>"
    )
