# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The page of results of any kind."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from os import PathLike
from typing import Any

from markupsafe import Markup

from torpor._engine import TorporError, __version__
from torpor.results.kinds import KINDS, explain, posted
from torpor.results.kinds.check import finding_text
from torpor.results.picture import Picture
from torpor.results.table import Post, counted
from torpor.view.report import governors, parts
from torpor.view.report.environment import page
from torpor.view.report.handover import Handover, handover, without
from torpor.view.report.parts import Fold, Part

#: More parts than these are closed at first.
_OPEN = 3
#: Handover of tables that are no kind of result.
_NO_TRACE = without("", "This page has no trace for Perfetto: it is of many runs.")


def render(
    result: Any,
    command: str | None = None,
    trace: str | PathLike[str] | None = None,
    why_no_trace: str | None = None,
) -> str:
    """Return the page of a result, or of a list of results, as HTML text.

    ``command`` repeats the page, which ends with it. ``trace`` is a file in Perfetto's format; the
    page holds it, unless it is too large, and hands it over to Perfetto when its reader asks.
    Without one it says ``why_no_trace``, or why a page of such a result has none.
    """
    results = result if isinstance(result, list) else [result]
    made: list[Part] = []
    limits, machines = [], []
    for one in results:
        kind = KINDS.get(one.get("kind"))
        if kind and kind.has_runs:
            found = governors.parts(one, 1 + len(made))
            made += [found.top, *found.parts]
            limits += [*found.limits, *one["notes"]]
            machines.append(governors.machine(one))
        else:
            made.append(_part(one))
    top, *others = made
    if len(results) > 1:
        top, others = Part(counted(len(results), "result")), made
    handed = handover(trace, top.title) if trace else without(results[0]["kind"], why_no_trace)
    version = results[0]["torpor"]["version"]
    inputs = [line for result in results for line in KINDS[result["kind"]].inputs(result)]
    return _page(
        top,
        others,
        [
            *parts.notes(limits),
            *parts.definitions(results),
            *parts.provenance(version, inputs, machines),
        ],
        handed,
        command,
        version,
        scripts=["latency.js"] if machines else [],
    )


def render_posts(
    posts: Sequence[Post], command: str | None = None, sentences: Sequence[str] = ()
) -> str:
    """Return the page of tables, as HTML text; the first of the sentences is the verdict."""
    top, *others = [_of_post(post, sentences) for post in posts]
    if others:
        top, others = Part("; ".join(post.title for post in posts)), [top, *others]
    return _page(top, others, [], _NO_TRACE if command else None, command, __version__)


def _page(
    top: Part,
    others: Sequence[Part],
    folds: Sequence[Fold],
    handed: Handover | None,
    command: str | None,
    version: str,
    scripts: Sequence[str] = (),
) -> str:
    return page(
        "page.html.j2",
        scripts=(*scripts, "tips.js", *(["perfetto.js"] if handed and handed["data"] else [])),
        top=top,
        parts=others,
        # A part that is over all others has what a reader looks for first.
        is_open=len(others) <= _OPEN and not top.body,
        folds=folds,
        handover=handed,
        command=command,
        version=version,
    )


def _part(result: Any) -> Part:
    findings = result.get("findings", ())
    texts = [textwrap.dedent(finding_text(finding, result)) for finding in findings]
    try:
        said = explain(result)
    except TorporError:
        # A check has findings, and nothing to explain.
        said = []
    return _of_post(posted(result), said, KINDS[result["kind"]].pictures(result), texts)


def _of_post(
    post: Post,
    said: Sequence[str],
    drawn: Sequence[Picture] = (),
    texts: Sequence[str] = (),
) -> Part:
    verdict, *sentences = said or [""]
    if post.verdict and not said:
        verdict = str(post.verdict)
    if post.picture:
        # On a phone a line of the picture's own would be cut.
        lead = ". ".join(fact[:1].upper() + fact[1:] for fact in post.picture.facts)
        drawn = [Picture("", f"{lead}." if lead else "", [post.picture._replace(facts=())])]
    body, folds = parts.opened(post.tables[0]) if post.tables else (Markup(""), [])
    word = Markup('<pre class="words" tabindex="0">{}</pre>\n')
    return Part(
        post.title,
        verdict,
        post.facts,
        sentences=[sentence for sentence in sentences if sentence],
        picture=parts.first(drawn[0]) if drawn else Markup(""),
        body=body + Markup("").join(map(word.format, texts)),
        folds=[
            *folds,
            *map(parts.picture_fold, drawn[1:]),
            *parts.table_folds(post.tables[1:]),
            *parts.notes(post.notes),
        ],
    )
