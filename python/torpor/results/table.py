# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tables of a result: sentences and values, before any painter."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torpor.results.picture import Chart

Value = str | int | float | None

#: Not known, in every form that people read.
UNKNOWN = "-"
#: Heading of a column of changes, before the heading of the values to its left.
CHANGE = "change: "


class Cell(NamedTuple):
    """A value as computed, and as text."""

    value: Value
    text: str
    #: Better than the base; None without a significant difference or a direction.
    is_better: bool | None = None
    #: No other column beats it.
    is_best: bool = False
    #: Explanation that a page shows on hover.
    hint: str = ""
    #: Key of the metric that it names, which a page defines.
    term: str = ""
    #: Address of what it names, in a page.
    link: str = ""


class Table(NamedTuple):
    """A table: the first ``keys`` columns name a row, the others are its values."""

    name: str
    title: str
    headings: list[str]
    rows: list[list[Cell]]
    keys: int = 1
    #: Number of columns that stay together if a table is folded.
    together: int = 1
    #: A terminal does not show it.
    is_detail: bool = False
    #: Number of rows that a terminal shows; 0 for all.
    most: int = 0
    #: Option that shows the other rows.
    more: str = "--format json"


class Verdict(NamedTuple):
    """The one comparison of a result, with which its page and its text begin.

    >>> str(Verdict("teo", "takes 9 % less power than menu", "10 seeds"))
    'teo takes 9 % less power than menu (10 seeds).'
    """

    #: What is judged; empty where nothing is.
    subject: str
    #: What it does, by how much, against what; or why nothing can be said.
    figure: str
    #: How sure that is; empty where the figure says it.
    certainty: str = ""

    def __str__(self) -> str:
        """Return it as a sentence."""
        text = f"{self.subject} {self.figure}".strip().rstrip(".")
        return f"{text} ({self.certainty})." if self.certainty else f"{text}."


class Brief(NamedTuple):
    """What a terminal shows below a verdict, unless all is requested."""

    tables: list[Table]
    #: Notes that change what a reader does, the most urgent first.
    notes: list[str]
    #: How to read the tables, and in the last line what was run.
    basis: list[str]


class Post(NamedTuple):
    """A result as text, tables and notes, before any painter."""

    title: str
    facts: list[str]
    tables: list[Table]
    notes: list[str]
    #: After the facts, in a page.
    picture: "Chart | None" = None
    verdict: Verdict | None = None
    #: By default a terminal shows all but details.
    brief: Brief | None = None


def number(value: float | None, digits: int = 0, *, is_signed: bool = False) -> Cell:
    """Return a number with this many digits; None is shown as not known.

    >>> number(12.345, 2).text, number(None).text, number(-3.0, 1, is_signed=True).text
    ('12.35', '-', '−3.0')
    """
    if value is None:
        return Cell(None, UNKNOWN)
    return Cell(value, minus(f"{value:{'+' * is_signed}.{digits}f}"))


def minus(number: str) -> str:
    """Return a formatted number with a real minus sign."""
    return number.replace("-", "\N{MINUS SIGN}")


def word(text: str) -> Cell:
    """Return a text."""
    return Cell(text, text)


def share(part: float | None, whole: float | None, scale: float = 100) -> float | None:
    """Return the part in percent, or times another scale; None where it is not known."""
    return scale * part / whole if part is not None and whole else None


def counted(count: int, what: str) -> str:
    """Return a count with its noun, in the singular for 1.

    >>> counted(1, "scenario"), counted(2, "scenario")
    ('1 scenario', '2 scenarios')
    """
    return f"{count} {what}{'s' * (count != 1)}"
