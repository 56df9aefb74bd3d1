# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The comparison as an HTML fragment for notebooks."""

from html import escape
from typing import TYPE_CHECKING

from torpor.comparison import base_text, rows, section_name, sections

if TYPE_CHECKING:
    from torpor.comparison import Result

    pass

_RIGHT = ' style="text-align:right"'


def to_html(result: "Result") -> str:
    """Return one table a recording, failures and the limits of the claim below it."""
    parts = []
    for section in sections(result):
        runs, comparison = section["runs"], section["comparison"]
        name, machine = section_name(section), result["platform"]["title"]
        parts.append(f"<p>{escape(name)} on {escape(machine)}")
        parts.append("<table><thead><tr><th></th>")
        parts += [f"<th{_RIGHT}>{escape(run['governor'])}</th>" for run in runs]
        parts.append("</tr></thead><tbody>")
        for row in rows(comparison):
            parts.append(f'<tr><th title="{escape(row.definition)}">{escape(row.heading)}</th>')
            parts += [f"<td{_RIGHT}>{escape(cell.full)}</td>" for cell in row.cells]
            parts.append("</tr>")
        parts.append("</tbody></table>")
        if text := base_text(comparison):
            parts.append(f"<p>{escape(text)}")
        parts += [
            f"<p><b>{escape(run['governor'])} failed:</b> {escape(run['error'])}"
            for run in runs
            if run["error"]
        ]
    parts += [f"<p><small>{escape(note)}</small>" for note in result["notes"]]
    return "".join(parts)
