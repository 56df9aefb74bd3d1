# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tables of a result: sentences and values, before any painter."""

from typing import NamedTuple

Value = str | int | float | None

#: Not known, in every form that people read.
UNKNOWN = "-"


class Cell(NamedTuple):
    """A value as it was computed, and as it is read."""

    value: Value
    text: str


class Table(NamedTuple):
    """A table: the first ``keys`` columns say what a row is of, the others what it came to."""

    name: str
    title: str
    headings: list[str]
    rows: list[list[Cell]]
    keys: int = 1
    #: So many columns stay together where a table is folded.
    together: int = 1


class Post(NamedTuple):
    """All of a result that is posted."""

    title: str
    facts: list[str]
    tables: list[Table]
    notes: list[str]
    #: An SVG image after the facts, for a page.
    picture: str = ""


def number(value: float | None, digits: int = 0, *, is_signed: bool = False) -> Cell:
    """Return a number to so many digits; None is not known.

    >>> number(12.345, 2), number(None), number(3.0, 1, is_signed=True).text
    (Cell(value=12.345, text='12.35'), Cell(value=None, text='-'), '+3.0')
    """
    if value is None:
        return Cell(None, UNKNOWN)
    return Cell(value, f"{value:{'+' * is_signed}.{digits}f}")


def word(text: str) -> Cell:
    """Return a text."""
    return Cell(text, text)


def share(part: float | None, whole: float | None, scale: float = 100) -> float | None:
    """Return the part in percent, or times another scale; None where it is not known."""
    return scale * part / whole if part is not None and whole else None


def counted(count: int, what: str) -> str:
    """Return a number of things, in the singular where it is one.

    >>> counted(1, "scenario"), counted(2, "scenario")
    ('1 scenario', '2 scenarios')
    """
    return f"{count} {what}{'s' * (count != 1)}"
