# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Results as HTML fragments for notebooks."""

from html import escape
from typing import Any

from torpor.results.kinds import posted
from torpor.view.paint import fragment

#: Rows of a table that is not folded.
_OPEN = 25


def to_html(result: Any) -> str:
    """Return the tables of a result; long ones and details fold."""
    return fragment(posted(result), _OPEN)


def facts_html(title: str, facts: list[tuple[str, str]]) -> str:
    """Return names and values in two columns."""
    rows = [f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts]
    return f"<p><b>{escape(title)}</b><table><tbody>{''.join(rows)}</tbody></table>"
