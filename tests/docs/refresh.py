# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Brings the output that a page shows up to date: ``TORPOR_REFRESH_EXAMPLES=1 pytest tests/docs``.

A shown line is replaced by the printed one with the same label, such as a metric's name; elided
lines stay elided. The prose around a block is for its author to read again.
"""

import re

from pages import Block

_LABEL = re.compile(r"\s{2,}|[\d−+±]")


def _label(line: str) -> str:
    text = line.strip()
    return "─" if text and not text.strip("─") else _LABEL.split(text)[0].rstrip(" (")


def refreshed(shown: str, printed: str) -> str:
    """Return the shown output with each line as it is printed now, as far as it is still there."""
    lines, rest = [], printed.splitlines()
    for line in shown.splitlines():
        if line.strip() == "...":
            lines.append(line)
            continue
        same = [n for n, now in enumerate(rest) if now.rstrip() == line.rstrip()]
        alike = [n for n, now in enumerate(rest) if _label(now) == _label(line)]
        found = next(iter(same or alike), None)
        if found is None:
            lines.append(line)
            continue
        now = rest[found].rstrip()
        tail = line.find(" ...")
        lines.append(now if tail < 0 else line)
        rest = rest[found + 1 :]
    return "".join(f"{line}\n" for line in lines)


def write(block: Block, shown: str, now: str) -> None:
    """Replace a shown output in the block's page."""
    text = block.page.read_text(encoding="utf-8")
    at = text.index(shown, max(0, text.find(block.text.split("\n", 1)[0])))
    block.page.write_text(text[:at] + now + text[at + len(shown) :], encoding="utf-8")
