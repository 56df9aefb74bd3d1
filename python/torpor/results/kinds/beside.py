# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Results side by side, whatever made them: ``torpor compare``."""

from typing import Literal, TypedDict

from torpor.results.cells import compared
from torpor.results.kind import Kind
from torpor.results.sentences import cannot_show, differences, groups, headline, is_reference
from torpor.results.table import Brief, Post, Verdict
from torpor.results.types import Comparison, Version


class BesideSource(TypedDict):
    """Results side by side."""

    label: str
    kind: str
    #: In a sentence: of what, on which machine, made how.
    what: str


class Beside(TypedDict):
    """Result of ``torpor compare``: results side by side, whatever made them."""

    format: int
    kind: Literal["beside"]
    torpor: Version
    sources: list[BesideSource]
    comparison: Comparison
    #: Other differences between the columns, and metrics without a counterpart.
    notes: list[str]


def post(result: Beside) -> Post:
    """Return one comparison."""
    facts = [f"{source['label']}: {source['what']}" for source in result["sources"]]
    whole = compared(result["comparison"])
    brief = None
    if keys := [row["key"] for _, found in groups(result["comparison"]) for row in found]:
        of = {row[0].term: row for row in whole.rows}
        brief = Brief([whole._replace(rows=[of[key] for key in keys])], result["notes"], facts)
    return Post("Results side by side", facts, [whole], result["notes"], brief=brief)


def explain(result: Beside, _governor: str | None) -> list[str]:
    found = result["comparison"]
    said = []
    if found["base"] == 0:
        rest = [place for place in range(1, len(found["labels"])) if place != _other(found)]
        said = [str(_against(found, place)) for place in rest[:4]]
    differing = sum(note.startswith("Besides the column") for note in result["notes"])
    limits = f"which of {differing} other differences made them" if differing else "what repeats"
    return [*said, cannot_show([limits, "chance, with 0 paired runs"])]


def verdict(result: Beside, _governor: str | None) -> Verdict:
    """Return how the first column of another source differs from the first of all."""
    found = result["comparison"]
    if found["base"] != 0:
        return Verdict("", f"{len(result['sources'])} results, {len(found['rows'])} metrics")
    return _against(found, _other(found))


def _other(found: Comparison) -> int:
    """Return the first column of another source that holds a governor's choices."""
    sources = [label.partition(": ")[::2] for label in found["labels"]]
    names = [name or source for source, name in sources]
    rest = [p for p, name in enumerate(names) if p and name != "oracle" and not is_reference(name)]
    others = [place for place in rest if sources[place][0] != sources[0][0]]
    return next(iter([*others, *rest]), 1)


def _against(found: Comparison, place: int) -> Verdict:
    """Return how a column differs from the first, in a sentence if its cost or delay is known."""
    short = headline(found, 0, place, "run")
    if short is None or found["sampling"] != "single":
        return short or Verdict("", differences(found, 0, place))
    return short._replace(certainty="no measure of chance")


_NO_TRACE = "its results have pages of their own, with their traces."
KIND = Kind("beside", post, _NO_TRACE, explain, verdict=verdict, shape=Beside)
