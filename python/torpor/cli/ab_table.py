# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The comparison of governors on the live machine, as a table and in words."""

import shlex
from typing import TYPE_CHECKING

from torpor.cli.console import text_width, wrap
from torpor.cli.table import rows_text
from torpor.results.comparison import base_text, rows, short_labels

if TYPE_CHECKING:
    from torpor.results import schema as shapes
    from torpor.results import types as results


def ab_text(result: "shapes.Ab", width: int) -> str:
    """Return what was run, the table, and which rows differ."""
    narrow = text_width(width)
    labels = short_labels([governor["label"] for governor in result["governors"]])
    rounds = result["finished_rounds"]
    heading = (
        f"{shlex.join(result['command'])}: {rounds} round{'s' * (rounds != 1)}, Linux "
        f"{result['kernel']}, driver {result['driver']}, {result['cpu_count']} CPUs"
    )
    compared = result["comparison"]
    assert compared is not None, "a round was finished"
    table = rows_text(labels, rows(compared), width)
    below = [*_differences(compared, labels), *_notes(result, compared)]
    lines = "".join(wrap(line, narrow) + "\n" for line in below)
    return f"{wrap(heading, narrow)}\n{table}\n{lines}"


def _differences(compared: "results.Comparison", labels: list[str]) -> list[str]:
    if compared["samples"] < 2:
        return ["Note: of one round nobody can tell what differs by chance: --rounds 2 at least."]
    lines = []
    for index, label in enumerate(labels[1:], 1):
        changes = [(row["title"], row["cells"][index]["change"]) for row in compared["rows"]]
        found = [
            f"{title} ({'higher' if change['difference'] > 0 else 'lower'})"
            for title, change in changes
            if change and change["is_significant"]
        ]
        what = ", ".join(found) if found else "nothing that these rounds could show"
        lines.append(f"{label} differs from {labels[0]} in: {what}.")
    lines.append("±: 95 % intervals of the mean difference, paired by round.")
    lines += [text for text in [base_text(compared, "rounds")] if text]
    return lines


def _notes(result: "shapes.Ab", compared: "results.Comparison") -> list[str]:
    notes = []
    offered = [
        f"{g['label']} is {g['name']}" if g["module"] else f"{g['label']} is the kernel's own"
        for g in result["governors"]
    ]
    notes.append(f"Governors: {', '.join(offered)}.")
    if result["rounds"] > result["finished_rounds"]:
        notes.append(f"Note: ended early, after {result['finished_rounds']} of {result['rounds']}.")
    keys = [row["key"] for row in compared["rows"]]
    if "figure" not in keys:
        notes.append("Note: the command printed no number in every run, so there is no figure.")
    if not any(key.endswith("_j") for key in keys):
        notes.append("Note: no energy, since this machine has no RAPL that may be read.")
    told = [note for run in result["runs"] for note in run["counters"]["notes"]]
    return [*notes, *(f"Note: {note}." for note in dict.fromkeys(told))]
