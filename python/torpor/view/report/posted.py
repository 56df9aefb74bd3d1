# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The page of any kind of result: what is posted of it, explained, with its pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from os import PathLike
from typing import Any

from torpor._engine import TorporError
from torpor.results.kinds import KINDS, explain, posted
from torpor.results.kinds.check import finding_text
from torpor.view.report import palette
from torpor.view.report.environment import page
from torpor.view.report.handover import handover, without
from torpor.view.report.pictures import pictures, state_counts

#: Rows of a table that are open at once.
_OPEN = 25


def render(
    results: Sequence[Any],
    command: str | None = None,
    trace: str | PathLike[str] | None = None,
    why_no_trace: str | None = None,
) -> str:
    """The page of results, as HTML text.

    It ends with `command`, which repeats it, and has the `trace`, a file for Perfetto, or says
    `why_no_trace`.
    """
    posts = [posted(result) for result in results]
    parts = [
        {
            "post": post,
            "sentences": _sentences(result),
            "pictures": pictures(result),
            "texts": [
                textwrap.dedent(finding_text(finding, result))
                for finding in result.get("findings", ())
            ],
        }
        for post, result in zip(posts, results, strict=True)
    ]
    title = posts[0].title if len(posts) == 1 else f"{len(posts)} results"
    handed = handover(trace, title) if trace else without(results[0]["kind"], why_no_trace)
    return page(
        "posted.html.j2",
        scripts=("perfetto.js",) if handed["data"] else (),
        handover=handed,
        more_style=palette.css(set().union(*map(state_counts, results))),
        title=title,
        version=results[0]["torpor"]["version"],
        parts=parts,
        open_rows=_OPEN,
        catalogue=_catalogue(results),
        inputs=[line for result in results for line in KINDS[result["kind"]].inputs(result)],
        command=command,
    )


def _sentences(result: Any) -> list[str]:
    try:
        return explain(result)
    except TorporError:
        # A check has findings, and nothing to explain.
        return []


def _catalogue(results: Sequence[Any]) -> list[Any]:
    """Return the definitions of the results' metrics, each once."""
    found: dict[str, Any] = {}
    for result in results:
        compared = (result.get("comparison") or {}).get("rows", ())
        for metric in (*result.get("catalogue", ()), *compared):
            found.setdefault(metric["key"], metric)
    return list(found.values())
