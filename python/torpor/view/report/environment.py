# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Templates become pages here: escaped, with nothing undefined, and no foreign script."""

import base64
import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape

from torpor.machine.kernel_sources import cache_folder
from torpor.results.catalogue import unit_text
from torpor.results.files import read_text
from torpor.results.numbers import duration, grouped
from torpor.results.table import CHANGE, Post, Table
from torpor.results.text import printable
from torpor.view.chart import svg
from torpor.view.paint import left_columns

#: Beginning of a text that is no number.
_WORD = re.compile(r"[a-zA-Z./`]")
#: Rows of a notebook's table that is not folded.
_OPEN = 25
TEMPLATES = Path(__file__).parent / "templates"


def page(
    template: str,
    *,
    styles: Iterable[str] = (),
    scripts: Iterable[str] = (),
    **content: Any,
) -> str:
    """Return a page of a template: these files of styles and scripts are part of it."""
    script = "\n".join(read_text(TEMPLATES / name) for name in scripts)
    if script:
        script = f'(() => {{\n"use strict";\n{script}}})();\n'
    style = "".join(read_text(TEMPLATES / name) for name in ("report.css", *styles))
    drawn = (
        _environment()
        .get_template(template)
        .render(
            style=Markup(style),
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            **content,
        )
    )
    return printable(drawn)


def figure(name: str, *arguments: Any, **named: Any) -> Markup:
    """Return a part of a page, which a macro of this name draws."""
    macros = _environment().get_template("figures.html.j2").module
    return Markup(printable(getattr(macros, name)(*arguments, **named)))


def table_html(
    found: Table,
    groups: Sequence[tuple[str, Sequence[Any]]] = (),
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
    heads = found.headings
    columns = [
        (place, place + 1 if heads[place + 1 : place + 2] == [CHANGE + heads[place]] else None)
        for place in range(len(heads))
        if not heads[place].startswith(CHANGE)
    ]
    words = left_columns(found) | {0}
    for place, column in enumerate(zip(*found.rows, strict=True)):
        known = [cell for cell in column if cell.text]
        if known and all(isinstance(c.value, str) and _WORD.match(c.text) for c in known):
            words.add(place)
    shown = groups or [("", found.rows)]
    return figure("table", found, columns, words, shown, marks or {}, css, is_alone)


def fragment(post: Post) -> str:
    """Return tables for a notebook; details and long ones are folded."""
    return figure("fragment", post, svg(post.picture) if post.picture else "", _OPEN)


def prose(text: str) -> Markup:
    """Return text in which backticks mark code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def breaks(name: str) -> Markup:
    """Return a name that may wrap after its separators, not in the midst of a word."""
    return Markup(re.sub(r"(?<=[,=_/@])", "<wbr>", str(escape(name))))


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates in the user's cache, or none where it cannot be written."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            Path(self.directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            super().dump_bytecode(bucket)


@functools.cache
def _environment() -> Environment:
    """Templates are compiled once: that takes longer than a page."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        bytecode_cache=_Compiled(str(cache_folder("templates"))),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        duration=duration,
        data=_data,
        unit=unit_text,
        prose=prose,
        breaks=breaks,
        tied=_tied,
        grouped=grouped,
        table=table_html,
    )
    return made


def _tied(text: str) -> str:
    """Text whose numbers stay with their units."""
    return re.sub(r"(?<=\d) (?=(?:%|pp|[µnm]?s|[mµ]?[WJ])(?!\w))", "\N{NO-BREAK SPACE}", text)


def _data(value: Any) -> Markup:
    """JSON that cannot end the script element around it, whatever its strings hold."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
