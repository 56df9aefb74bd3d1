# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The pages of the documentation, and their fenced blocks.

A comment on the line before a block says what a test must know of it:

    <!-- file: lazy.c -->        write the block to that file
    <!-- needs: kernel 6.12 -->  the example names a kernel tree by version
    <!-- needs: git -->          the example names the git repository `linux`
    <!-- slow: WHY -->           the example runs in `make test-long` only
    <!-- not run: WHY -->        the example cannot run in a test
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "demo" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

_BLOCK = re.compile(
    r"(?:^<!-- (?P<what>file|needs|slow|not run): (?P<value>.+?) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, its language, its text, and its comment."""

    page: Path
    line: int
    language: str
    text: str
    what: str | None
    value: str | None

    @property
    def where(self) -> str:
        """File and line, as editors open it."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, match.start("text")) + 1,
            match["language"],
            match["text"],
            match["what"],
            match["value"],
        )
        for match in _BLOCK.finditer(text)
    ]


def commands(block: Block) -> list[tuple[str, str, int]]:
    """Return the commands of a ``console`` block, each with the output it shows and its status.

    A command begins with ``$ `` and goes on in lines that begin with ``> ``. A last line
    ``[exit status N]`` stands for a status that is not 0.
    """
    found: list[tuple[str, str, int]] = []
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        match = re.fullmatch(
            r"(?P<command>.*\n(?:> .*\n)*)(?P<shown>(?:.*\n)*?)"
            r"(?:\[exit status (?P<status>\d+)\]\n)?",
            part,
        )
        command = match["command"].replace("\n> ", "\n").rstrip("\n")
        found.append((command, match["shown"], int(match["status"] or 0)))
    assert found, f"{block.where}: no line begins with `$ `"
    return found
