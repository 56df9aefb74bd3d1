# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tables of numbers that fit: other columns go into a table below, and no digit is cut."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torpor.cli.console import bare_table, render
from torpor.results.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

# Between two columns: padding on either side, and what stands for the line between them.
_GAP = 3


def columns_text(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return one table, or several below each other, the first column standing in each.

    A heading may fold at its blanks; a number and what is in the first column do not.
    """
    parts: list[RenderableType] = []
    blocks = _blocks(headings, rows, width)
    for block in blocks:
        table = bare_table()
        # Given each width, rich cannot take it from the digits.
        whole = _total(headings, rows, block, folds=False) <= width
        for place in (0, *block):
            is_first = place == 0
            table.add_column(
                headings[place],
                justify="left" if is_first else "right",
                no_wrap=is_first,
                width=_width(headings, rows, place, folds=not whole),
            )
        for row in rows:
            table.add_row(*(row[place] for place in (0, *block)))
        parts += ["", table] if parts else [table]
    # A terminal may be narrower than a single number.
    widest = max(_total(headings, rows, block) for block in blocks)
    return render(*parts, width=max(width, widest))


def _blocks(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[list[int]]:
    """Distribute the columns after the first over tables that fit; at least one each."""
    blocks: list[list[int]] = [[]]
    for place in range(1, len(headings)):
        wider = [*blocks[-1], place]
        if len(wider) == 1 or _total(headings, rows, wider) <= width:
            blocks[-1] = wider
        else:
            blocks.append([place])
    return blocks


def _total(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    block: Sequence[int],
    *,
    folds: bool = True,
) -> int:
    widths = [_width(headings, rows, place, folds=folds) for place in (0, *block)]
    return sum(widths) + _GAP * (len(widths) - 1)


def _width(
    headings: Sequence[str], rows: Sequence[Sequence[str]], place: int, *, folds: bool
) -> int:
    """Return the width that a column needs: its longest cell and its heading, or the longest word
    of that."""
    words = headings[place].split() if folds and place else [headings[place]]
    cells = [row[place] for row in rows]
    return max((len(printable(text)) for text in (*words, *cells)), default=0)
