# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Numbers as people read them: few digits, a real minus sign, a unit if one is needed."""

from __future__ import annotations

import re

from torpor import _engine
from torpor.results.comparison import format_number

__all__ = [
    "NOT_KNOWN",
    "cpu_list",
    "duration",
    "grouped",
    "listing",
    "number_text",
    "share_text",
    "signed",
]

NOT_KNOWN = "not known"
_MINUS = "\N{MINUS SIGN}"
# No-break, so that a number never parts from its unit at a line end.
_SPACE = "\N{NO-BREAK SPACE}"


def number_text(value: float | None) -> str:
    """Format a number with thousands set apart, a count (an `int`) whole."""
    if value is None:
        return NOT_KNOWN
    if isinstance(value, int):
        return grouped(str(value).replace("-", _MINUS))
    return grouped(format_number(value))


def grouped(text: str) -> str:
    """Set thousands apart in a text that begins with a number, and bind it to its unit.

    >>> grouped("104086"), grouped("−2716.45"), grouped("not known")
    ('104,086', '−2,716.45', 'not known')
    """
    found = re.match(r"\D?\d+", text)
    if found is None:
        return text
    whole = re.sub(r"(?<=\d)(?=(\d{3})+$)", ",", found[0])
    return (whole + text[found.end() :]).replace(" ", _SPACE)


def signed(value: float) -> str:
    """Format with two decimals and a sign: +1.25, −0.30; ±0 for what rounds to nothing."""
    text = f"{value:+.2f}"
    return "±0" if float(text) == 0 else text.replace("-", _MINUS)


def share_text(part: float, whole: float) -> str:
    """Return percent of `whole`, or a dash if that is 0."""
    return f"{100 * part / whole:.1f}{_SPACE}%" if whole else "–"


def duration(value_ns: float | None) -> str:
    """Return nanoseconds in the unit that reads best: 850 ns, 12.3 µs, 1.20 ms, 45.1 s."""
    if value_ns is None:
        return NOT_KNOWN
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(value_ns) >= size:
            scaled = value_ns / size
            digits = 0 if scaled >= 100 else 1 if scaled >= 10 else 2
            text = f"{scaled:,.{digits}f}{_SPACE}{unit}"
            break
    else:
        text = f"{value_ns:.0f}{_SPACE}ns"
    return text.replace("-", _MINUS)


def listing(items: list[str]) -> str:
    """Join names: a; a and b; a, b and c."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def cpu_list(cpus: list[int]) -> str:
    """Return CPUs as sysfs writes them: 0-3,6."""
    if max(cpus, default=0) >= 2**32:
        # Of a damaged result: no machine has such a CPU.
        return ",".join(map(str, sorted(cpus)))
    return _engine.format_cpu_list(sorted(cpus))
