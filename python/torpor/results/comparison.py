# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Comparisons of columns, which the engine makes (``crates/torpor-result``), in words.

Changes, their significance and the best governors are in a section's ``comparison``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from torpor import _engine
from torpor.results import types as results
from torpor.results.catalogue import first_of
from torpor.results.text import csv_text

Result: TypeAlias = "results.Replay | results.Simulation"
#: Section with runs and a comparison of them.
Section: TypeAlias = "results.TraceOutcome | results.Simulation"


def sections(result: Result) -> list[Section]:
    """Return the parts of a result that have ``runs`` and a ``comparison`` of them.

    A replay has one a recording; anything else is one itself.
    """
    return [*result["traces"]] if "traces" in result else [result]


def section_name(section: Section) -> str:
    """Return the recording or the workload."""
    return str(section["trace"]["path"] if "trace" in section else section["workload"]["name"])


def base_text(comparison: results.Comparison, draws: str = "runs") -> str | None:
    """State the base of the changes if it is not the first column, and what noise hides.

    ``draws`` is what the samples are.
    """
    labels, base = comparison["labels"], comparison["base"]
    if base is None or len(labels) < 2:
        return None
    said = []
    if base:
        said.append(f"Changes are relative to {labels[base]}, the first governor that finished.")
    if comparison["sampling"] == "paired" and comparison["samples"] < 2:
        said.append("With one run each, differences may be due to chance.")
    elif corrected := correction_text(comparison.get("tests", 0)):
        said.append(
            f"A difference counts as more than chance at 5 %, {corrected}; ± is the 95 % interval "
            "of one metric alone."
        )
        said += [text for text in [needed_text(comparison, draws)] if text]
    return " ".join(said) or None


def correction_text(tests: int) -> str:
    """Say for how many tests differences are corrected; empty for less than two.

    >>> correction_text(28), correction_text(1)
    ("corrected for 28 comparisons by Holm's method", '')
    """
    return f"corrected for {tests} comparisons by Holm's method" if tests > 1 else ""


#: Metrics whose need for draws is said.
_NEEDED = 4


def needed_text(
    comparison: results.Comparison, draws: str = "runs", other: int | None = None
) -> str:
    """Say how many paired draws would resolve the undecided differences.

    Of the metrics asked for most first, of all columns or of one; empty where nothing is open.
    """
    labels = short_labels(comparison["labels"])
    found = []
    for row in sorted(comparison["rows"], key=lambda row: first_of(row["key"])):
        for place, cell in enumerate(row["cells"]):
            change = cell["change"]
            needed = change.get("pairs_needed") if change else None
            if needed and first_of(row["key"]) < math.inf and other in (None, place):
                of = f" of {labels[place]}" if len(labels) > 2 and other is None else ""
                found.append(f"{row['title']}{of} {needed:,}")
    if not found:
        return ""
    return (
        f"To confirm differences of this size (80 % power) you need so many {draws}: "
        f"{', '.join(found[:_NEEDED])}."
    )


def short_labels(governors: list[str]) -> list[str]:
    """Shorten governors, and policies after them, to what tells them apart, for a column's head.

    >>> short_labels(["menu", "teo@/src/linux-6.12", "./my/teo.c,x=1"])
    ['menu', 'teo@linux-6.12', 'teo.c,x=1']
    >>> short_labels(["menu@/src/linux+mails/v2.mbox:1"])
    ['menu@linux+v2.mbox:1']
    >>> short_labels(["teo@a/linux", "teo@b/linux"])
    ['teo@a/linux', 'teo@b/linux']
    >>> short_labels(["teo + ./my/freq.c@6.1,x=1 + iowait", "teo + schedutil + iowait"])
    ['teo + freq.c@6.1,x=1 + iowait', 'teo + schedutil + iowait']
    """
    short = [" + ".join(map(_short_label, governor.split(" + "))) for governor in governors]
    return [s if short.count(s) == 1 else g for s, g in zip(short, governors, strict=True)]


def _short_label(governor: str) -> str:
    place, comma, params = governor.partition(",")
    # A path before the `@` belongs to a file whose folder has one in its name.
    name, at, tree = place.partition("@")
    if at and "/" not in name:
        # Patches follow a `+`: `menu@6.12+mails/v2.mbox:1`.
        base, plus, series = tree.rpartition("+")
        tree = f"{_base_name(base)}{plus}{_base_name(series)}"
        return f"{name}@{tree}{comma}{params}"
    return f"{_base_name(place)}{comma}{params}"


def _base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def format_number(value: float) -> str:
    """Format with as many digits as a reader compares by.

    >>> [format_number(v) for v in (104086.4, 2716.4, 187.83, 9.614, 1.0, 0.00123, 0.0)]
    ['104086', '2716.4', '187.8', '9.61', '1.00', '0.00123', '0']
    """
    return _engine.format_number(value)


#: Classes of the time to the next timer, as a result has them.
SLEEP_CLASSES = {
    "recorded": "recorded",
    "guessed": "guessed from what woke the CPU",
    "none": "not known",
}


def class_shares(sources: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of decisions in each class of the time to the next timer; empty for none.

    >>> class_shares({"recorded": {"timer_events": 3}, "guessed": {}, "none": {"tick_only": 1}})
    {'recorded': 0.75, 'guessed': 0.0, 'none': 0.25}
    """
    counts = {name: sum(sources[name].values()) for name in SLEEP_CLASSES if name in sources}
    whole = sum(counts.values())
    return {name: count / whole for name, count in counts.items()} if whole else {}


def sources_text(sources: Mapping[str, Any]) -> str:
    """Say the share of each class that occurs, the largest first.

    >>> sources_text({"recorded": {"timer_events": 3}, "guessed": {}, "none": {"tick_only": 1}})
    'recorded 75.00 %, not known 25.00 %'
    """
    shares = sorted(class_shares(sources).items(), key=lambda item: -item[1])
    return ", ".join(f"{SLEEP_CLASSES[name]} {_whole(share)}" for name, share in shares if share)


def _whole(share: float) -> str:
    return "100 %" if share == 1 else percent(share)


def percent(share: float | None) -> str:
    """Write a share with two digits; 100 % only where nothing is missing."""
    if share is None:
        return "-"
    whole = 100 * share if share >= 1 else min(100 * share, 99.99)
    return f"{whole:.2f} %"


def agreement_text(found: results.Agreement | results.Fidelity, machine: str | None) -> str:
    """Return the share of the recorded decisions that the best governor reproduces."""
    verdict, decisions = found["verdict"], found["decisions"]
    compared = decisions["compared"]
    best = " or ".join(verdict["best"]) or "no governor"
    is_all = verdict["agreement"] == 1
    share = f"all {compared:,}" if is_all else f"{percent(verdict['agreement'])} of {compared:,}"
    word = "Verified" if verdict["is_verified"] else not_verified(machine)
    text = f"{word}{':' * verdict['is_verified']} {best} reproduces {share} decisions"
    if verdict["control"] is not None:
        text += f"; a wrong governor, {verdict['control']}, {percent(verdict['control_agreement'])}"
    if not verdict["is_verified"]:
        commonest = decisions["commonest"] / max(compared, 1)
        text += f"; always the commonest state, {percent(commonest)}"
    return f"{text}."


def not_verified(machine: str | None) -> str:
    """Return the words for a recording whose decisions a machine does not explain.

    >>> not_verified("pixel6")
    'NOT verified: is pixel6 the recorded machine?'
    """
    return f"NOT verified: is {machine} the recorded machine?"


def to_csv(result: Result) -> str:
    """Return one line a recording and governor, one column a metric; not known is empty."""
    catalogue = result["catalogue"]
    rows = []
    for section in sections(result):
        for run in section["runs"]:
            head = [section_name(section), result["platform"]["name"], run["governor"]]
            values = [_of_count(metric, run["metrics"].get(metric["key"])) for metric in catalogue]
            rows.append([*head, run["error"], *values])
    keys = [metric["key"] for metric in catalogue]
    return csv_text(rows, ["trace", "platform", "governor", "error", *keys])


def _of_count(metric: Mapping[str, Any], value: float | None) -> float | None:
    """Return a count without a fraction; the mean over seeds may have one."""
    is_count = metric["kind"] == "count" and value is not None and value == int(value)
    return int(value) if is_count and value is not None else value


def fill(
    metrics: Iterable[Mapping[str, object]],
    columns: Iterable[Mapping[str, object]],
    *,
    is_paired: bool,
) -> results.Comparison:
    """Have the engine compare columns that were measured elsewhere.

    A metric has ``key``, ``title``, ``unit``, ``kind`` and ``direction``; a column ``label`` and
    ``samples``, each with its ``number`` and ``values``. With ``is_paired``, samples of the same
    number are pairs; without it a column is one sample, which has no measure of chance.
    """

    table = {
        "metrics": list(metrics),
        "columns": list(columns),
        "sampling": "paired" if is_paired else "single",
    }
    found: results.Comparison = _engine.compare(table)
    return found
