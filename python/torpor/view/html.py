# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tables as HTML: the same for pages, posted tables and notebooks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from torpor.results.kinds import posted
from torpor.results.numbers import grouped
from torpor.results.table import CHANGE, Cell, Table
from torpor.results.text import printable
from torpor.view.paint import left_columns

#: Longer words may take several lines.
_LONG = 24
#: Beginning of a text that is no number.
_WORD = re.compile(r"[a-zA-Z./`]")
#: Rows of a notebook's table that is not folded.
_OPEN = 25


def prose(text: str) -> Markup:
    """Return text in which backticks mark code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def breaks(name: str) -> Markup:
    """Return a name that may wrap after its separators, not in the midst of a word."""
    return Markup(re.sub(r"(?<=[,=_/@])", "<wbr>", str(escape(name))))


def table(
    found: Table,
    groups: Sequence[tuple[str, Sequence[Sequence[Cell]]]] = (),
    *,
    marks: Mapping[str, Markup] | None = None,
    css: str = "",
    is_alone: bool = False,
) -> Markup:
    """Return a table that scrolls where it is too wide, with each change next to its value.

    Args:
        found: The table.
        groups: Its rows, or some of them, under the names of groups.
        marks: What is drawn before a heading or a key of this text.
        css: Class of the table.
        is_alone: No page is around it: it has no links to definitions, and its own styles.
    """
    columns = [place for place, text in enumerate(found.headings) if not text.startswith(CHANGE)]
    words = _words(found)
    left = ' style="text-align:left"' if is_alone else ' class="text"'
    heads = [
        Markup('<th scope="col"{}>{}{}</th>').format(
            Markup(left if place in words else ""),
            (marks or {}).get(found.headings[place], ""),
            breaks(found.headings[place]),
        )
        for place in columns
    ]
    bodies = []
    for name, rows in groups or [("", found.rows)]:
        group = Markup('<tr class="group"><th scope="rowgroup" colspan="{}">{}</th></tr>\n')
        lines = [group.format(len(columns), name)] if name else []
        before = None
        for row in rows:
            is_repeated = found.keys > 1 and row[0].text == before
            before = row[0].text
            cells = [_key(row[0], is_repeated, marks or {}, is_alone=is_alone)]
            cells += [
                _cell(row, place, found.headings, left if place in words else "", is_alone)
                for place in columns[1:]
            ]
            key = Markup(' data-key="{}"').format(row[0].term) if row[0].term else ""
            lines.append(Markup("<tr{}>{}</tr>\n").format(key, Markup("").join(cells)))
        bodies.append(Markup("<tbody>\n{}</tbody>\n").format(Markup("").join(lines)))
    style = Markup(' style="text-align:right"' if is_alone else "")
    return Markup(
        '<div class="scroll" role="region" tabindex="0" aria-label="{}"><table{}{}>\n'
        "<thead><tr>{}</tr></thead>\n{}</table></div>"
    ).format(
        found.title or found.name,
        Markup(' class="{}"').format(css) if css else "",
        style,
        Markup("").join(heads),
        Markup("").join(bodies),
    )


def _words(found: Table) -> set[int]:
    """Return the columns that hold words: keys, and others in which no text is a number."""
    words = left_columns(found) | {0}
    for place, column in enumerate(zip(*found.rows, strict=True)):
        known = [cell for cell in column if cell.text]
        if known and all(isinstance(c.value, str) and _WORD.match(c.text) for c in known):
            words.add(place)
    return words


def _key(cell: Cell, is_repeated: bool, marks: Mapping[str, Markup], *, is_alone: bool) -> Markup:
    style = Markup(' style="text-align:left"' if is_alone else "")
    if is_repeated:
        text = Markup('<span class="sr">{}</span>').format(cell.text)
        return Markup('<th scope="row">{}</th>').format("" if is_alone else text)
    text = breaks(cell.text)
    if cell.term and not is_alone:
        before, name, unit = cell.text.partition(str(cell.value))
        link = '<a class="term" href="#def-{0}" aria-describedby="def-{0}-text">{1}</a>'
        text = Markup(link).format(cell.term, before + name)
        text += Markup('&nbsp;<span class="unit">{}</span>').format(unit.strip()) if unit else ""
    elif cell.hint:
        style += Markup(' title="{}"').format(cell.hint)
    mark = marks.get(cell.text, "")
    return Markup('<th scope="row"{}>{}{}</th>').format(style, mark, text)


def _cell(
    row: Sequence[Cell], place: int, headings: Sequence[str], left: str, is_alone: bool
) -> Markup:
    cell, kind = row[place], Markup(left)
    change = (
        row[place + 1] if headings[place + 1 : place + 2] == [CHANGE + headings[place]] else None
    )
    if isinstance(cell.value, str) and len(cell.text) > _LONG and not is_alone:
        kind = Markup(' class="text long"')
    elif (
        not left
        and not is_alone
        and (css := _class(cell if change is None else cell._replace(is_better=None)))
    ):
        kind = Markup(' class="{}"').format(css)
    text: Markup = prose(cell.text)
    if row[0].term and isinstance(cell.value, int | float):
        text = Markup('<data value="{}">{}</data>').format(cell.value, grouped(cell.text))
    if cell.is_best:
        text += Markup("" if is_alone else '<span class="sr"> (best)</span>')
        text = Markup("<b>{}</b>").format(text) if is_alone else text
    if change is not None and cell.value is not None:
        css = f"change {_class(change)}".rstrip()
        shown = f"({grouped(change.text)})" if change.text else ""
        text += Markup(' <span class="{}">{}</span>').format(css, shown)
    hint = Markup(' title="{}"').format(cell.hint) if cell.hint else ""
    return Markup("<td{}{}>{}</td>").format(kind, hint, text)


def _class(cell: Cell) -> str:
    if cell.is_best:
        return "best"
    if cell.is_better is not None:
        return "good" if cell.is_better else "bad"
    return "none" if cell.value is None and cell.text else ""


def fragment(result: Any) -> str:
    """Return the tables of a result for a notebook; details and long ones are folded."""
    post = posted(result)
    parts = [Markup("<h1>{}</h1>").format(post.title), Markup(post.picture)]
    parts[1:1] = [Markup("<p>{}</p>").format(fact) for fact in post.facts]
    for found in post.tables:
        title = found.title or found.name
        is_folded = found.is_detail or len(found.rows) > _OPEN
        form = "<h2>{0}</h2>{2}"
        if is_folded:
            form = "<details><summary>{}: {} rows</summary>{}</details>"
        parts.append(Markup(form).format(title, len(found.rows), table(found, is_alone=True)))
    notes = Markup("").join(Markup("<li>{}</li>").format(prose(note)) for note in post.notes)
    return printable(
        Markup("").join([*parts, Markup("<ul>{}</ul>").format(notes) if notes else ""])
    )


def facts(title: str, found: Sequence[tuple[str, str]]) -> str:
    """Return names and values in two columns, for a notebook."""
    row = Markup("<tr><th>{}</th><td>{}</td></tr>")
    rows = Markup("").join(row.format(*each) for each in found)
    return Markup("<p><b>{}</b><table><tbody>{}</tbody></table>").format(title, rows)
