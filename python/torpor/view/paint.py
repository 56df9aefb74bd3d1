# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Painters: a post as mail, on a terminal, as Markdown and as CSV."""

import functools
import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from torpor.results.table import CHANGE, UNKNOWN, Brief, Cell, Post, Table, word
from torpor.results.text import UNLIMITED, csv_text, printable

#: Width of a mailing list's lines.
WIDTH = 80
#: Width of a mail that others quote.
_MAIL = 72
#: Running text is hard to read in longer lines.
_PROSE = 100
_GAP = 2
#: Wider tables are folded, also in a pipe.
_WIDEST = 132
#: Notes of a result in brief.
_NOTES = 3
#: Longer words fold. Numbers are shorter.
_CELL = 18
#: Least width of a key on a terminal, however narrow that is.
_KEY = 10
_ASCII = str.maketrans(
    {"−": "-", "×": "x", "µ": "u", "–": "-", "—": "-", "…": "...", "±": "+-", "Δ": "d", "≥": ">="}
)


def lkml(posts: Sequence[Post]) -> str:
    """Return plain ASCII in 80 columns, for mail."""
    return _plain(posts, WIDTH)


def mail(posts: Sequence[Post]) -> str:
    """Return plain ASCII in 72 columns, to reply with; without details."""
    return _plain(
        [p._replace(tables=[t for t in p.tables if not t.is_detail]) for p in posts], _MAIL
    )


def _plain(posts: Sequence[Post], width: int) -> str:
    text = _Text(width, width, ascii_text)
    return "\n\n".join(text.post(post) for post in posts) + "\n"


def terminal(post: Post, width: int, escape: str = "", more: str = "") -> str:
    """Return text of this many columns, without details and the end of long tables.

    ``escape`` starts a colour; empty for none. A result in brief ends with how to see ``more``;
    without it all is shown.
    """
    prose = width if width >= UNLIMITED else min(width, _PROSE)
    painter = _Text(min(width, _WIDEST), prose, printable, escape)
    if more and post.brief:
        return painter.brief(post, post.brief, more) + "\n"
    tables = [_shown(table) for table in post.tables if not table.is_detail]
    notes = post.notes
    if post.brief:
        notes = [*notes, *post.brief.basis[:-1]]
    return painter.whole(post._replace(tables=tables, notes=notes)) + "\n"


def tables_text(tables: Sequence[Table], width: int, escape: str = "") -> str:
    """Return tables as text of this many columns; see :func:`terminal`."""
    return terminal(Post("", [], list(tables), []), width, escape).lstrip("\n")


def _shown(table: Table) -> Table:
    """Return what a terminal shows: known columns, a repeated key once, a count of other rows."""
    if table.together == 1:
        known = [
            place
            for place in range(len(table.headings))
            if place < table.keys or any(row[place].text not in ("", UNKNOWN) for row in table.rows)
        ]
        rows = [[row[place] for place in known] for row in table.rows]
        table = table._replace(headings=[table.headings[place] for place in known], rows=rows)
    rows, last = [], ""
    for first, *rest in table.rows[: table.most or None]:
        is_repeated = table.keys > 1 and first.text == last
        rows.append([first._replace(text="") if is_repeated else first, *rest])
        last = first.text
    if left := len(table.rows) - len(rows):
        more = Cell(None, f"and {left} more ({table.more})")
        rows.append([more, *[word("")] * (len(table.headings) - 1)])
    # A change is next to its value, whose heading names the column.
    headings = ["change" if each.startswith(CHANGE) else each for each in table.headings]
    return table._replace(rows=rows, headings=headings)


def ascii_text(text: str) -> str:
    """Spell a text in ASCII, nothing of it lost.

    >>> ascii_text("−10.2 ±1 µs, gültig, 好")
    '-10.2 +-1 us, gultig, \\\\u597d'
    """
    plain = unicodedata.normalize("NFKD", printable(text).translate(_ASCII))
    kept = "".join(c for c in plain if not unicodedata.combining(c))
    return kept.encode("ascii", "backslashreplace").decode("ascii")


def left_columns(table: Table) -> set[int]:
    """Return the columns that begin at the left: keys that are words."""
    keys = range(table.keys)
    return {key for key in keys if any(isinstance(row[key].value, str) for row in table.rows)}


class _Text(NamedTuple):
    """Painter of monospaced text."""

    width: int
    #: Width of running text.
    prose: int
    #: Spells other people's text.
    spell: Callable[[str], str]
    #: Starts a colour; empty for none.
    escape: str = ""

    def brief(self, post: Post, brief: Brief, more: str) -> str:
        """Return the verdict, the rows that matter, and few notes."""
        tables = [_shown(table) for table in brief.tables if table.rows]
        whole = Post("", [], tables, brief.notes[:_NOTES])
        *basis, last = brief.basis
        # A terminal's reader sees what is missing.
        ends = [*basis, f"{last.rstrip('.')}. More: {more}"]
        lines = [line for text in ends for line in self._folded(text, self.prose, "  ")]
        head = self._headline(str(post.verdict or post.title))
        return "\n".join([*head, self.post(whole).lstrip("\n"), "", *lines])

    def whole(self, post: Post) -> str:
        """Return the verdict, and all of a post."""
        verdict = str(post.verdict or "")
        if not verdict or verdict == post.title:
            return self.post(post)
        return "\n".join([*self._headline(verdict), self.post(post)])

    def _headline(self, text: str) -> list[str]:
        """Return a verdict and an empty line."""
        lines = self._folded(text, self.prose)
        if self.escape:
            lines = [f"{self.escape}[1m{line}{self.escape}[0m" for line in lines]
        return [*lines, ""]

    def post(self, post: Post) -> str:
        lines = self._folded(post.title, self.prose)
        for fact in post.facts:
            lines += self._folded(fact, self.prose, "  ")
        for table in post.tables:
            title = self._folded(table.title, self.prose) if table.title else []
            lines += ["", *title, *self.table(table)]
        lines += [""] * bool(post.notes)
        for note in post.notes:
            lines += self._folded(f"* {note}", self.prose, "  ")
        return "\n".join(line.rstrip() for line in lines)

    def table(self, table: Table) -> list[str]:
        """Return a table, or several below each other, with the key columns in each."""
        rows = [[self.spell(cell.text) for cell in row] for row in table.rows]
        texts = [[self.spell(heading) for heading in table.headings], *rows]
        styles = [
            ["1"] * len(table.headings),
            *([_style(cell) for cell in row] for row in table.rows),
        ]
        widths, blocks, gap = self._layout(table, texts)
        left = left_columns(table)
        lines: list[str] = []
        for block in blocks:
            lines += [""] * bool(lines)
            for row, style in zip(texts, styles, strict=True):
                cells = [(row[at], widths[at], at in left, style[at]) for at in block]
                lines += self._row(cells, gap)
        return lines

    def _layout(
        self, table: Table, texts: list[list[str]]
    ) -> tuple[list[int], list[list[int]], int]:
        """Return the columns' widths, the columns of each table that fits, and their gap."""
        every = list(range(len(table.headings)))
        if self.spell is printable:
            # On a terminal no more is folded than has to be.
            widths, least = self._widths(table, texts, is_whole=True), self._widths(table, texts)
            while _room(widths, every) > self.width + _GAP and widths != least:
                widest = max(every, key=lambda place: widths[place] - least[place])
                widths[widest] -= 1
            if _room(widths, every) <= self.width + _GAP:
                return widths, [every], _GAP
        widths = self._widths(table, texts)
        for gap in (_GAP, 1):
            # Better a narrow gap than a second table with the last column.
            if _room(widths, every, gap) <= self.width + gap:
                return widths, [every], gap
        return widths, self._blocks(table, widths), _GAP

    def _widths(self, table: Table, texts: list[list[str]], *, is_whole: bool = False) -> list[int]:
        """Return the columns' widths: a heading folds at its blanks, a number and a key do not."""
        widths = []
        for place, heading in enumerate(texts[0]):
            of = [
                (row[place], cells[place]) for row, cells in zip(texts[1:], table.rows, strict=True)
            ]
            numbers = [len(text) for text, cell in of if isinstance(cell.value, float)]
            words = [len(text) for text, _ in of]
            if is_whole or place < table.keys:
                widths.append(max(1, len(heading), *words))
            else:
                words += map(len, heading.split())
                widths.append(max(1, min(_CELL, max(words, default=1)), *numbers))
        return widths

    def _blocks(self, table: Table, widths: list[int]) -> list[list[int]]:
        """Return the columns of each table that fits; keys, which are in each, may get narrower."""
        keys, places = list(range(table.keys)), range(table.keys, len(table.headings))
        step = table.together
        groups = [list(places[at : at + step]) for at in range(0, len(places), step)]
        least = max((_room(widths, group) for group in groups), default=0)
        limit = self.width + _GAP
        least_key = 1 if self.spell is ascii_text else _KEY
        while keys and _room(widths, keys) + least > limit:
            if max(widths[k] for k in keys) <= least_key:
                break
            widths[max(keys, key=lambda k: widths[k])] -= 1
        room = limit - _room(widths, keys)
        blocks: list[list[int]] = []
        for group in groups:
            if blocks and _room(widths, [*blocks[-1], *group]) <= room:
                blocks[-1] += group
            else:
                blocks.append(list(group))
        return [[*keys, *block] for block in blocks or [[]]]

    def _row(self, cells: Sequence[tuple[str, int, bool, str]], gap: int) -> list[str]:
        parts = [textwrap.wrap(text, width) or [""] for text, width, _, _ in cells]
        lines = []
        for level in range(max(len(part) for part in parts)):
            drawn = []
            for part, (_, width, is_left, style) in zip(parts, cells, strict=True):
                text = part[level] if level < len(part) else ""
                blank = " " * (width - len(text))
                if self.escape and style and text:
                    text = f"{self.escape}[{style}m{text}{self.escape}[0m"
                drawn.append(text + blank if is_left else blank + text)
            lines.append((" " * gap).join(drawn).rstrip())
        return lines

    def _folded(self, text: str, width: int, indent: str = "") -> list[str]:
        lines = self.spell(text).splitlines() or [""]
        # A path or a hash stays in one piece, to be copied, but for one longer than a mail's line.
        fold = functools.partial(
            textwrap.wrap,
            width=width,
            subsequent_indent=indent,
            break_long_words=self.spell is not printable,
            break_on_hyphens=False,
        )
        return [part for line in lines for part in fold(line) or [""]]


def _style(cell: Cell) -> str:
    """Return the colour of a cell, as a terminal's code."""
    if cell.is_better is not None:
        return "32" if cell.is_better else "31"
    return "1" if cell.is_best else "2" if cell.value is None else ""


def _room(widths: Sequence[int], places: Sequence[int], gap: int = _GAP) -> int:
    return sum(widths[place] + gap for place in places)


def markdown(posts: Sequence[Post]) -> str:
    """Return tables as GitHub, GitLab and most wikis draw them."""
    parts = []
    for post in posts:
        parts += [f"### {_inline(post.title)}", *(_inline(fact) for fact in post.facts)]
        for table in post.tables:
            parts += [f"**{_inline(table.title)}**"] * bool(table.title)
            rules = [
                ":--" if place in left_columns(table) else "--:"
                for place in range(len(table.headings))
            ]
            rows = [[_inline(cell.text) for cell in row] for row in table.rows]
            lines = [[_inline(heading) for heading in table.headings], rules, *rows]
            parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        parts += ["\n".join(f"- {_inline(note)}" for note in post.notes)] * bool(post.notes)
    return "\n\n".join(parts) + "\n"


def _inline(text: str) -> str:
    """Other people's text as text: no markup of theirs, no cell that ends early."""
    one_line = " ".join(printable(text).split())
    return "".join(f"\\{c}" if c in "\\|*_[]<>#~" else c for c in one_line)


def csv(posts: Sequence[Post]) -> str:
    """Return all tables in one: the first column names the table, not known is empty."""
    tables = [(post, table) for post in posts for table in post.tables]
    headings = list(dict.fromkeys(heading for _, table in tables for heading in table.headings))
    rows = []
    for post, table in tables:
        head = (post.title, f"{table.name}: {table.title}" if table.title else table.name)
        for row in table.rows:
            found = {h: cell.value for h, cell in zip(table.headings, row, strict=True)}
            rows.append([*head, *map(found.get, headings)])
    # Programs read these.
    return csv_text(rows, ["result", "table", *map(ascii_text, headings)])
