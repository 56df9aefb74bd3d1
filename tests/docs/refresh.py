# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Brings the output that a page shows up to date: ``TORPOR_REFRESH_EXAMPLES=1 pytest tests/docs``.

A shown line is replaced by the printed one with the same label, such as a metric's name; elided
lines stay elided. The prose around a block is for its author to read again.
"""

import doctest
import re
import textwrap

from pages import Block

#: Columns of a page.
WIDTH = 120
_LABEL = re.compile(r"\s{2,}|[\d−+±]")


def _label(line: str) -> str:
    text = line.strip()
    return "─" if text and not text.strip("─") else _LABEL.split(text)[0].rstrip(" (")


def refreshed(shown: str, printed: str) -> str:
    """Return the shown output as it is printed now; a line with an elision that fits stays."""
    elided = [line for line in shown.splitlines() if "..." in line and line.strip() != "..."]
    fits = doctest.OutputChecker().check_output
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    lines = (
        next((kept for kept in elided if fits(kept, line, flags)), line)
        for line in _lines_now(shown, printed).splitlines()
    )
    return "".join(f"{line}\n" for line in lines)


def _lines_now(shown: str, printed: str) -> str:
    """Return the printed lines of each run between whole elided lines."""
    rest = [line.rstrip() for line in printed.splitlines()]
    made: list[str] = []
    for run in re.split(r"^\.\.\.\n", shown, flags=re.M):
        lines = run.splitlines()
        first, last = _run(lines, rest)
        made.append("".join(f"{line}\n" for line in _folded(rest[first:last])))
        rest = rest[last:]
    if "...\n" not in shown:
        return "".join(f"{line}\n" for line in _folded(printed.splitlines()))
    return "...\n".join(made)


def _run(lines: list[str], rest: list[str]) -> tuple[int, int]:
    """Return where a shown run begins and ends among the printed lines."""
    if not lines:
        return 0, 0
    starts = (_find(line, rest, 0) for line in lines)
    first = next((start for start in starts if start is not None), None)
    if first is None:
        return 0, 0
    last = first
    for line in lines:
        found = _find(line, rest, last)
        last = last if found is None or found - last > len(lines) else found
    return first, last + 1


def _find(line: str, rest: list[str], start: int) -> int | None:
    label = _label(line)
    alike = (n for n in range(start, len(rest)) if rest[n].strip() and _label(rest[n]) == label)
    begun = (n for n in range(start, len(rest)) if len(label) > 7 and rest[n].startswith(label))
    return next(alike, next(begun, None)) if label else None


def _folded(lines: list[str]) -> list[str]:
    """Fold sentences at the page's width; a table has rules, and columns two blanks apart."""
    folded: list[str] = []
    for line in lines:
        is_table = _label(line) == "─" or re.search(r"\S {2,}\S", line)
        is_folded = len(line) > WIDTH and not is_table
        folded += (
            textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_long_words=False)
            if is_folded
            else [line]
        )
    return folded


def write(block: Block, shown: str, now: str) -> None:
    """Replace a shown output in the block's page."""
    text = block.page.read_text(encoding="utf-8")
    at = text.index(shown, max(0, text.find(block.text.split("\n", 1)[0])))
    block.page.write_text(text[:at] + now + text[at + len(shown) :], encoding="utf-8")
