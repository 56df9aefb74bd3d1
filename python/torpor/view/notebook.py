# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The comparison as an HTML fragment for notebooks."""

from html import escape
from typing import TYPE_CHECKING

from torpor.results.comparison import base_text, rows, section_name, sections

if TYPE_CHECKING:
    from torpor.results.comparison import Result
    from torpor.results.table import Post

#: Rows of a table that is not folded.
_OPEN = 25
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


def posted_html(post: "Post") -> str:
    """Return the tables of a result of any kind; long ones fold."""
    parts = [f"<p><b>{escape(post.title)}</b>", *(f"<br>{escape(fact)}" for fact in post.facts)]
    for table in post.tables:
        rows = [f"<p>{escape(table.title)}"] if table.title else []
        rows.append("<table><thead><tr>")
        rows += [f"<th{_RIGHT}>{escape(heading)}</th>" for heading in table.headings]
        rows.append("</tr></thead><tbody>")
        for row in table.rows:
            cells = [f"<td{_RIGHT}>{escape(cell.text)}</td>" for cell in row]
            rows.append(f"<tr>{''.join(cells)}</tr>")
        rows.append("</tbody></table>")
        if len(table.rows) > _OPEN:
            title = escape(table.title or table.name)
            rows = [f"<details><summary>{title}: {len(table.rows)} rows</summary>", *rows]
            rows.append("</details>")
        parts += rows
    parts += [f"<p><small>{escape(note)}</small>" for note in post.notes]
    return "".join(parts)


def facts_html(title: str, facts: list[tuple[str, str]]) -> str:
    """Return names and values in two columns."""
    rows = [f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts]
    return f"<p><b>{escape(title)}</b><table><tbody>{''.join(rows)}</tbody></table>"
