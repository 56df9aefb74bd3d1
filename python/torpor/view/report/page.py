# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The page of results of any kind, its size kept below 1 MB."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from os import PathLike
from typing import Any

from markupsafe import Markup

from torpor._engine import TorporError, __version__
from torpor.results.kinds import KINDS, explain, posted
from torpor.results.kinds.check import finding_text
from torpor.results.table import Post, counted
from torpor.view.report import governors, palette, parts
from torpor.view.report.environment import page
from torpor.view.report.handover import Handover, handover, without
from torpor.view.report.parts import Fold, Part
from torpor.view.report.pictures import Picture, pictures, plotted, state_counts

_SCRIPTS = ("draw.js", "strip-model.js", "strip.js", "latency.js")
# Below 1 MB with space for the markup around the strips' data.
_PAGE_BYTES = 960_000
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
    strips, limits, machines = [], [], []
    for one in results:
        kind = KINDS.get(one.get("kind"))
        if kind and kind.has_runs:
            found = governors.parts(one, 1 + len(made))
            made += [found.top, *found.parts]
            strips += found.strips
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
    text = _page(
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
        scripts=_SCRIPTS * bool(strips),
        more_style=palette.css(set().union(*map(state_counts, results))),
    )

    def drawn(budget_bytes: int) -> str:
        whole = text
        for own in strips:
            whole = whole.replace(own.place, governors.draw_strips(own, budget_bytes))
        return whole

    # The strips get what the rest of the page leaves, its trace apart.
    rest = len(drawn(0).encode()) - len(handed["data"] or "")
    return drawn(max(0, _PAGE_BYTES - rest) // max(len(strips), 1))


def render_posts(
    posts: Sequence[Post], command: str | None = None, sentences: Sequence[str] = ()
) -> str:
    """Return the page of tables, as HTML text; the first of the sentences is the verdict."""
    top, *others = [_of_post(post, sentences, plot=post.picture) for post in posts]
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
    more_style: str = "",
) -> str:
    return page(
        "page.html.j2",
        scripts=(*scripts, "tips.js", *(["perfetto.js"] if handed and handed["data"] else [])),
        more_style=more_style,
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
    return _of_post(posted(result), said, pictures(result), texts)


def _of_post(
    post: Post,
    said: Sequence[str],
    drawn: Sequence[Picture] = (),
    texts: Sequence[str] = (),
    plot: str = "",
) -> Part:
    verdict, *sentences = said or [""]
    first, more = next(iter(drawn), None), drawn[1:]
    body, folds = parts.opened(post.tables[0]) if post.tables else (Markup(""), [])
    word = Markup('<pre class="words" tabindex="0">{}</pre>\n')
    return Part(
        post.title,
        verdict,
        post.facts,
        sentences=[sentence for sentence in sentences if sentence],
        picture=first.first if first else plotted(Markup(plot)) if plot else Markup(""),
        body=body + Markup("").join(map(word.format, texts)),
        folds=[
            *folds,
            *(picture.fold() for picture in more),
            *parts.table_folds(post.tables[1:]),
            *parts.notes(post.notes),
        ],
    )
