# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Governors' runs in brief: the rows that matter, and what a reader must know of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from torpor.results import types as results
from torpor.results.catalogue import RUNS, leading, metrics
from torpor.results.cells import compared as comparison_table
from torpor.results.comparison import (
    agreement_text,
    class_shares,
    section_name,
    sections,
    short_labels,
)
from torpor.results.over_recordings import over_recordings
from torpor.results.sentences import best_other, groups, is_reference, known_row
from torpor.results.table import CHANGE, Brief, Cell, Table, word

#: Beginning of the keys of metrics that an option adds.
_MEASURED = "decision_time"
#: Kinds of metric that the oracle bounds.
_BOUNDED = ("power", "energy")
ORACLE = "The oracle knows the future and may wake late: only its power is a bound."


def brief(result: Any, basis: str) -> Brief:
    """Return the rows that matter, over all recordings of a replay; ``basis`` is what was run."""
    own = sections(result)
    over = over_recordings(result)
    compared = over["comparison"] if over else own[0]["comparison"]
    runs = own[0]["runs"]
    notes = _notes(result, compared, runs, len(own))
    return Brief([that_matter(compared, runs)], notes, [*explained(compared, runs), basis])


def explained(compared: "results.Comparison", runs: Sequence[Any]) -> list[str]:
    """Return how to read the rows: what references take, and what the oracle is."""
    return [text for text in (_references(compared, runs), _oracle(runs)) if text]


def _competes(run: Mapping[str, Any]) -> bool:
    return bool(run["kind"] == "governor" and not is_reference(run["governor"]))


def _left_out(compared: "results.Comparison", runs: Sequence[Any]) -> list[int]:
    """Return the columns of references, where two governors compete."""
    places = [p for p, run in enumerate(runs) if is_reference(run["governor"])]
    is_beside = sum(map(_competes, runs)) > 1
    return [place for place in places if place != compared["base"]] if is_beside else []


def that_matter(compared: "results.Comparison", runs: Sequence[Any]) -> Table:
    """Return the rows that matter of those that compete, and the oracle's power."""
    whole = comparison_table(compared)
    keys = [row["key"] for _, found in groups(compared) for row in found]
    # They are there where they were asked for.
    keys += [row["key"] for row in compared["rows"] if row["key"].startswith(_MEASURED)]
    bounded = {row["key"] for row in compared["rows"] if row["kind"] in _BOUNDED}
    short = short_labels(compared["labels"])
    hidden = {short[place] for place in _left_out(compared, runs)}
    oracles = {label for label, run in zip(short, runs, strict=True) if run["kind"] == "oracle"}
    shown = [
        place
        for place, heading in enumerate(whole.headings)
        if heading.removeprefix(CHANGE) not in hidden
    ]
    rows: list[list[Cell]] = []
    of = {row[0].term: row for row in whole.rows}
    for key in keys:
        cells = []
        for place in shown:
            is_oracle = whole.headings[place].removeprefix(CHANGE) in oracles
            cells.append(word("") if is_oracle and key not in bounded else of[key][place])
        rows.append(cells)
    return whole._replace(headings=[whole.headings[place] for place in shown], rows=rows)


def _references(compared: "results.Comparison", runs: Sequence[Any]) -> str:
    """Say what the references that have no column take."""
    row = known_row(compared, *leading("cost", *RUNS))
    said = []
    for place in _left_out(compared, runs):
        change = row["cells"][place]["change"] if row else None
        if change and change["text"]:
            said.append(f"{runs[place]['governor']} {change['text']}")
    return f"References: {', '.join(said)} {metrics()[row['key']]['noun']}." if said else ""


def _oracle(runs: Sequence[Any]) -> str:
    return ORACLE if any(run["kind"] == "oracle" for run in runs) else ""


def _notes(
    result: Any, compared: "results.Comparison", runs: Sequence[Any], count: int
) -> list[str]:
    """Return what failed, what the machine does not explain, what is lost, and what is guessed."""
    found, shares = [], []
    for section in sections(result):
        name = f"{section_name(section)}: " if count > 1 else ""
        for run in section["runs"]:
            if run["error"]:
                first = str(run["error"]).partition("\n")[0]
                found.append(f"{name}{run['governor']} failed: {first}")
        if "trace" not in section:
            continue
        agreement = section.get("agreement")
        if agreement and not agreement["verdict"]["is_verified"]:
            found.append(name + agreement_text(agreement, section["inputs"]["recorded_on"]))
        found += [
            f"{name}{loss['severity'].capitalize()}: {loss['count']} × {loss['advice']}"
            for loss in section["trace"]["losses"]
            if loss["severity"] != "info"
        ]
        shares.append(class_shares(section["inputs"]["sleep_length_sources"]))
    found += [text for text in [_timers(shares), _needed(compared, runs, count)] if text]
    return found


def _timers(shares: Sequence[Mapping[str, float]]) -> str:
    """Say for which share of the decisions the next timer is not recorded, at most."""
    known = [each for each in shares if each]
    if not known:
        return ""
    worst = min(known, key=lambda each: each["recorded"])
    if worst["recorded"] >= 1:
        return ""
    most = "up to " if len(known) > 1 else ""
    guessed = f" (guessed for {_rounded(worst['guessed'])})" if worst["guessed"] else ""
    return (
        f"The next timer is not recorded for {most}{_rounded(1 - worst['recorded'])} of the "
        f"decisions{guessed}: `torpor record` has timers."
    )


def _rounded(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"


def _needed(compared: "results.Comparison", runs: Sequence[Any], count: int) -> str:
    """Say how many draws would confirm the difference in power; empty where nothing is open."""
    row, other = known_row(compared, *leading("cost", *RUNS)), best_other(compared, runs)
    change = row["cells"][other]["change"] if row and other is not None else None
    if not change or not (pairs := change.get("pairs_needed")):
        return ""
    draws, noun = "recordings" if count > 1 else "seeds", metrics()[row["key"]]["noun"]
    return f"To confirm the difference in {noun} you need {pairs:,} {draws} (80 % power)."
