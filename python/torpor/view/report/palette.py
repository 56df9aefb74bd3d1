# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Colours of the idle states: more ink means deeper, on light and on dark paper alike."""

from __future__ import annotations

import math


def _srgb(lightness: float, chroma: float, hue_deg: float) -> tuple[float, float, float]:
    """OKLCH to linear sRGB (Björn Ottosson, "A perceptual color space", 2020), clipped."""
    a = chroma * math.cos(math.radians(hue_deg))
    b = chroma * math.sin(math.radians(hue_deg))
    l3 = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m3 = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s3 = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    red = 4.0767416621 * l3 - 3.3077115913 * m3 + 0.2309699292 * s3
    green = -1.2684380046 * l3 + 2.6097574011 * m3 - 0.3413193965 * s3
    blue = -0.0041960863 * l3 - 0.7034186147 * m3 + 1.7076147010 * s3
    clipped = [min(max(channel, 0.0), 1.0) for channel in (red, green, blue)]
    return clipped[0], clipped[1], clipped[2]


def _hex(linear: tuple[float, float, float]) -> str:
    def encode(c: float) -> int:
        return round(255 * (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055))

    return "#" + "".join(f"{encode(c):02x}" for c in linear)


def state_colour(index: int, count: int, polling: bool) -> str:
    """The colour of state `index` of `count` on light paper, for pictures without style sheets."""
    return _hex(_srgb(0.80, 0.13, 75)) if polling else _hex(_srgb(*_of_depth(index, count)))


def _of_depth(index: int, count: int) -> tuple[float, float, float]:
    depth = index / (count - 1) if count > 1 else 0.5
    return 0.84 - 0.48 * depth, 0.09 + 0.03 * depth, 140 + 130 * depth


def _pair(lightness: float, chroma: float, hue_deg: float) -> str:
    """Fill, and the ink (black or white) that contrasts more with it: one is always >= 4.5:1."""
    linear = _srgb(lightness, chroma, hue_deg)
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # Equal contrast to black and white: (L + .05)^2 = 1.05 * .05.
    ink = "#000" if (luminance + 0.05) ** 2 > 0.0525 else "#fff"
    return f"--fill:{_hex(linear)};--ink:{ink}"


def state_class(index: int, count: int, polling: bool) -> str:
    """Class of state `index` of `count`. Polling burns power, so it is outside the ramp."""
    return "poll" if polling else f"d{index}of{count}"


def css(counts: set[int]) -> str:
    """The classes of state_class() for machines with these numbers of states."""
    light = [".poll{" + _pair(0.80, 0.13, 75) + "}"]
    dark = [".poll{" + _pair(0.72, 0.13, 70) + "}"]
    for count in sorted(counts):
        for index in range(count):
            depth = index / (count - 1) if count > 1 else 0.5
            name = f".d{index}of{count}"
            hue = 140 + 130 * depth
            light.append(f"{name}{{{_pair(*_of_depth(index, count))}}}")
            dark.append(f"{name}{{{_pair(0.34 + 0.44 * depth, 0.07 + 0.03 * depth, hue)}}}")
    return (
        "\n".join(light)
        + "\n@media screen and (prefers-color-scheme:dark){\n"
        + "\n".join(dark)
        + "\n}"
    )
