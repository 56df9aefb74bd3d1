# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Other people's text, made fit for a terminal and for a spreadsheet."""

import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

#: Characters that a terminal acts on instead of showing them: C0 but for tab and newline, DEL, C1,
#: line and paragraph separators, and changes of the direction of writing. And halves of UTF-16
#: pairs, by which Python spells the bytes of a file's name that are no text.
_UNPRINTABLE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

#: Width of lines that are not folded.
UNLIMITED = 10_000

#: Characters with which a spreadsheet takes a field for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def printable(text: str) -> str:
    r"""Escape what a terminal would act on, so that a name in a recording cannot.

    As JSON and TOML spell it: within their strings the text stays what it was.

    >>> print(printable("comm\x1b[2J"))
    comm\u001b[2J
    """
    # Nearly every text: the pattern takes a millisecond to compile.
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return re.sub(_UNPRINTABLE, lambda found: f"\\u{ord(found[0]):04x}", text)


def distinct_names(paths: Iterable[str]) -> dict[str, str]:
    """Return the fewest last parts of each path that distinguish it from the others.

    What all of them end in is left out.

    >>> distinct_names(["/data/a/trace.dat.gz", "/data/b/trace.dat.gz"])
    {'/data/a/trace.dat.gz': 'a', '/data/b/trace.dat.gz': 'b'}
    >>> distinct_names(["/data/web.dat", "x/1.dat", "y/1.dat"])
    {'/data/web.dat': 'web.dat', 'x/1.dat': 'x/1.dat', 'y/1.dat': 'y/1.dat'}
    """
    from pathlib import PurePath

    parts = {path: PurePath(path).parts for path in dict.fromkeys(paths)}
    if len(parts) > 1:
        while len({of[-1:] for of in parts.values()}) == 1 and all(map(len, parts.values())):
            parts = {path: of[:-1] for path, of in parts.items()}
    ends = Counter(of[-count:] for of in parts.values() for count in range(1, len(of) + 1))
    found = {}
    for path, of in parts.items():
        alone = (of[-n:] for n in range(1, len(of) + 1) if ends[of[-n:]] == 1)
        found[path] = "/".join(next(alone, (path,)))
    return found


def csv_text(rows: Iterable[Sequence[Any]], headings: Iterable[str] | None = None) -> str:
    """Return rows as CSV, below their headings; None is empty.

    A text that a spreadsheet would run as a formula is quoted the way spreadsheets do.

    >>> csv_text([[1, None], [2, "=1+1"]], ["a", "b"])
    "a,b\\n1,\\n2,'=1+1\\n"
    """
    import csv

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows if headings is None else (list(headings), *rows):
        writer.writerow([_field(value) for value in row])
    return text.getvalue()


def _field(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
