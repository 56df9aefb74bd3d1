# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The page of any kind of result: what is posted of it, explained, with its pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from os import PathLike
from typing import Any

from markupsafe import Markup

from torpor._engine import TorporError, __version__
from torpor.results.kinds import KINDS, explain, posted
from torpor.results.kinds.check import finding_text
from torpor.results.table import Post
from torpor.view.report import palette
from torpor.view.report.environment import page
from torpor.view.report.handover import handover, without
from torpor.view.report.pictures import Picture, pictures, state_counts

#: Rows of a table that are open at once.
_OPEN = 8


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
    parts = []
    for post, result in zip(posts, results, strict=True):
        drawn = pictures(result)
        findings = result.get("findings", ())
        texts = [textwrap.dedent(finding_text(finding, result)) for finding in findings]
        parts.append(_part(post, _sentences(result), drawn, texts))
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


def render_post(post: Post, command: str | None, sentences: Sequence[str] = ()) -> str:
    """Return the page of tables that are no kind of result, as HTML text.

    The first of the sentences is the verdict.
    """
    drawn = [Picture("plot", "", "", Markup(post.picture))] if post.picture else []
    return page(
        "posted.html.j2",
        handover=without("", "This page has no trace for Perfetto: it is of many runs."),
        title=post.title,
        version=__version__,
        parts=[_part(post, sentences, drawn, [])],
        open_rows=_OPEN,
        catalogue=[],
        inputs=[],
        command=command,
    )


def _part(
    post: Post, sentences: Sequence[str], drawn: Sequence[Picture], texts: Sequence[str]
) -> dict[str, Any]:
    verdict, *rest = sentences or [""]
    return {
        "post": post,
        "verdict": verdict,
        "sentences": [sentence for sentence in rest if sentence],
        "first": drawn[0] if drawn else None,
        "pictures": drawn[1:],
        "texts": texts,
    }


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
