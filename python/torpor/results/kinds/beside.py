# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Results side by side, whatever made them: ``torpor compare``."""

from typing import Literal, TypedDict

from torpor.results.cells import compared
from torpor.results.kind import Kind
from torpor.results.sentences import cannot_show, differences, groups
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
    for place in range(2, len(found["labels"])):
        if found["base"] is not None and place != found["base"]:
            said.append(differences(found, found["base"], place))
    differing = sum(note.startswith("Besides the column") for note in result["notes"])
    limits = f"which of {differing} other differences made them" if differing else "what repeats"
    return [*said[:4], cannot_show([limits, "chance, with 0 paired runs"])]


def verdict(result: Beside, _governor: str | None) -> Verdict:
    """Return how the second column differs from the first."""
    found = result["comparison"]
    if found["base"] != 0:
        return Verdict("", f"{len(result['sources'])} results, {len(found['rows'])} metrics")
    return Verdict("", differences(found, 0, 1))


_NO_TRACE = "its results have pages of their own, with their traces."
KIND = Kind("beside", post, _NO_TRACE, explain, verdict=verdict, shape=Beside)
