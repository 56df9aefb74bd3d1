# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Painters: a post as mail, as Markdown, as CSV and as a page."""

import html as escaping
import io
import textwrap
import unicodedata
from collections.abc import Callable, Sequence

from torpor.results.table import Cell, Post, Table
from torpor.results.text import printable, spreadsheet_field

#: Width of a mailing list's lines, and of a terminal that shows them.
WIDTH = 80
_GAP = 2
#: Longer words fold. Numbers are shorter.
_CELL = 18
#: No terminal, no line length: what reads a pipe or a file folds no lines.
UNLIMITED = 10_000
_ASCII = str.maketrans(
    {"−": "-", "×": "x", "µ": "u", "–": "-", "—": "-", "…": "...", "±": "+-", "Δ": "d", "≥": ">="}
)


def lkml(posts: Sequence[Post], width: int = WIDTH) -> str:
    """Return plain ASCII in so many columns, 80 for mail."""
    return "\n\n".join(_mail(post, width) for post in posts) + "\n"


def _mail(post: Post, width: int) -> str:
    lines = [*_folded(post.title, width)]
    for fact in post.facts:
        lines += _folded(fact, width)
    for table in post.tables:
        title = _folded(table.title, width) if table.title else []
        lines += ["", *title, *_columns(table, width)]
    if post.notes:
        lines.append("")
    for note in post.notes:
        first, *rest = _folded(note, width - 2)
        lines += [f"* {first}", *(f"  {line}" for line in rest)]
    return "\n".join(line.rstrip() for line in lines)


def ascii_text(text: str) -> str:
    """Spell a text in ASCII, nothing of it lost.

    >>> ascii_text("−10.2 ±1 µs, gültig, 好")
    '-10.2 +-1 us, gultig, \\\\u597d'
    """
    plain = unicodedata.normalize("NFKD", printable(text).translate(_ASCII))
    kept = "".join(c for c in plain if not unicodedata.combining(c))
    return kept.encode("ascii", "backslashreplace").decode("ascii")


def _folded(text: str, width: int) -> list[str]:
    lines = ascii_text(text).splitlines() or [""]
    return [part for line in lines for part in textwrap.wrap(line, width) or [""]]


def _left(table: Table) -> set[int]:
    """Columns that begin at the left: those that say in words what a row is of."""
    keys = range(table.keys)
    return {key for key in keys if any(isinstance(row[key].value, str) for row in table.rows)}


def _columns(table: Table, limit: int) -> list[str]:
    """The table, or several below each other, the columns that say what a row is in each."""
    texts = [[ascii_text(cell.text) for cell in row] for row in table.rows]
    left = _left(table)
    heads = [ascii_text(heading) for heading in table.headings]
    widths = []
    for place, head in enumerate(heads):
        # A heading folds at its blanks; what a row is of is in one line where it fits.
        is_whole = place < table.keys or limit >= UNLIMITED
        words = [head] if is_whole else head.split() or [""]
        widest = max(len(text) for text in (*words, *(row[place] for row in texts)))
        widths.append(max(1, widest if is_whole else min(_CELL, widest)))
    places = range(table.keys, len(heads))
    groups = [
        list(places[at : at + table.together]) for at in range(0, len(places), table.together)
    ]
    keys = list(range(table.keys))
    least = max((_room(widths, group) for group in groups), default=0)
    while sum(widths[k] + _GAP for k in keys) + least > limit + _GAP:
        widest = max(keys, key=lambda k: widths[k])
        widths[widest] -= 1
    room = limit + _GAP - _room(widths, keys)
    blocks: list[list[int]] = []
    for group in groups:
        if blocks and _room(widths, [*blocks[-1], *group]) <= room:
            blocks[-1] += group
        else:
            blocks.append(list(group))
    lines: list[str] = []
    for block in blocks or [[]]:
        lines += [""] * bool(lines)
        for row in (heads, *texts):
            lines += _row(row, [*keys, *block], widths, left)
    return lines


def _room(widths: Sequence[int], places: Sequence[int]) -> int:
    return sum(widths[place] + _GAP for place in places)


def _row(
    row: Sequence[str], places: Sequence[int], widths: Sequence[int], left: set[int]
) -> list[str]:
    parts = [textwrap.wrap(row[place], widths[place]) or [""] for place in places]
    lines = []
    for level in range(max(len(part) for part in parts)):
        cells = []
        for place, part in zip(places, parts, strict=True):
            text = part[level] if level < len(part) else ""
            width = widths[place]
            cells.append(text.ljust(width) if place in left else text.rjust(width))
        lines.append((" " * _GAP).join(cells).rstrip())
    return lines


def markdown(posts: Sequence[Post]) -> str:
    """Return tables as GitHub, GitLab and most wikis draw them."""
    parts = []
    for post in posts:
        parts += [f"### {_inline(post.title)}", *(_inline(fact) for fact in post.facts)]
        for table in post.tables:
            parts += [f"**{_inline(table.title)}**"] * bool(table.title)
            rules = [
                ":--" if place in _left(table) else "--:" for place in range(len(table.headings))
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
    import csv as writing

    tables = [(post, table) for post in posts for table in post.tables]
    headings = list(dict.fromkeys(heading for _, table in tables for heading in table.headings))
    # Programs read these.
    spelled = map(ascii_text, headings)
    out = io.StringIO()
    writer = writing.writer(out, lineterminator="\n")
    writer.writerow(["result", "table", *spelled])
    for post, table in tables:
        for row in table.rows:
            found = dict(zip(table.headings, row, strict=True))
            values = [_field(found[heading]) if heading in found else "" for heading in headings]
            head = (post.title, f"{table.name}: {table.title}" if table.title else table.name)
            writer.writerow([*map(spreadsheet_field, head), *values])
    return out.getvalue()


def _field(cell: Cell) -> str:
    if isinstance(cell.value, str):
        return spreadsheet_field(cell.value)
    return "" if cell.value is None else str(cell.value)


_STYLE = """:root{color-scheme:light dark}body{font:15px/1.45 system-ui,sans-serif;max-width:75rem;
margin:2rem auto;padding:0 1rem}h1{font-size:1.3rem;overflow-wrap:anywhere}
h2{font-size:1rem;margin:1.6rem 0 .4rem;overflow-wrap:anywhere}.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.15rem .7rem;text-align:right;white-space:nowrap}
thead th{border-bottom:1px solid}th.key{text-align:left;font-weight:normal}
tbody tr:hover{background:color-mix(in srgb,currentColor 8%,transparent)}li,p{max-width:46rem}
svg{max-width:46rem;width:100%;height:auto}"""


def html(posts: Sequence[Post]) -> str:
    """Return a page of tables that needs nothing else; the report is another."""
    text: Callable[[str], str] = lambda words: escaping.escape(printable(words))  # noqa: E731
    parts = []
    for post in posts:
        parts.append(f"<section><h1>{text(post.title)}</h1>")
        parts += [f"<p>{text(fact)}</p>" for fact in post.facts]
        parts.append(post.picture)
        for table in post.tables:
            title = table.title or table.name
            parts.append(f"<h2>{text(title)}</h2>")
            region = f'<div class="scroll" role="region" tabindex="0" aria-label="{text(title)}">'
            parts.append(f"{region}<table><thead><tr>")
            left = _left(table)
            for place, heading in enumerate(table.headings):
                kind = ' class="key"' if place in left else ""
                parts.append(f'<th scope="col"{kind}>{text(heading)}</th>')
            parts.append("</tr></thead><tbody>")
            for row in table.rows:
                cells = []
                for place, cell in enumerate(row):
                    tag = 'th scope="row" class="key"' if place in left else "td"
                    cells.append(f"<{tag}>{text(cell.text)}</{tag[:2]}>")
                parts.append(f"<tr>{''.join(cells)}</tr>")
            parts.append("</tbody></table></div>")
        if post.notes:
            parts.append(f"<ul>{''.join(f'<li>{text(note)}</li>' for note in post.notes)}</ul>")
        parts.append("</section>")
    name = text("; ".join(post.title for post in posts))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">"
        f'<title>{name}</title><link rel="icon" href="data:,"><style>{_STYLE}</style></head>\n'
        f"<body>\n{''.join(parts)}\n</body></html>\n"
    )
