# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The comparison of governors on the live machine, as a table and in words."""

import shlex
from typing import Any

from torpor.cli.console import wrap
from torpor.cli.table import rows_text
from torpor.comparison import Cell, Row, format_number, short_labels

_TEXT_WIDTH = 100


def ab_text(result: dict[str, Any], width: int) -> str:
    """Return what was run, the table, and which rows differ."""
    text_width = min(width, _TEXT_WIDTH)
    labels = short_labels([governor["label"] for governor in result["governors"]])
    rounds = result["finished_rounds"]
    heading = (
        f"{shlex.join(result['command'])}: {rounds} round{'s' * (rounds != 1)}, Linux "
        f"{result['kernel']}, driver {result['driver']}, {result['cpu_count']} CPUs"
    )
    table = rows_text(labels, [_row(row) for row in result["rows"]], width)
    below = [*_differences(result["rows"], labels, rounds), *_notes(result)]
    lines = "".join(wrap(line, text_width) + "\n" for line in below)
    return f"{wrap(heading, text_width)}\n{table}\n{lines}"


def _row(row: dict[str, Any]) -> Row:
    cells = []
    base = row["values"][0]["mean"]
    for value in row["values"]:
        mean, change = value["mean"], value["change"]
        if change is None:
            cells.append(Cell(format_number(mean)))
            continue
        is_better = None
        if change["is_significant"] and row["direction"] != "none":
            is_better = (change["difference"] < 0) == (row["direction"] == "lower")
        cells.append(Cell(format_number(mean), _change_text(row["unit"], base, change), is_better))
    return Row(row["key"], row["title"], row["unit"], "", cells)


def _change_text(unit: str, base: float, change: dict[str, Any]) -> str:
    """The difference and half its interval: in points where the value is in per cent."""
    middle, half = change["difference"], (change["high"] - change["low"]) / 2
    if unit == "%":
        return _plus_minus(middle, half)
    return f"{_plus_minus(100 * middle / base, 100 * half / abs(base))} %" if base else ""


def _plus_minus(middle: float, half: float) -> str:
    # Digits that the interval makes worth nothing are not shown.
    digits = 2 if half < 10 else 1 if half < 100 else 0
    return f"{middle:+.{digits}f} ± {half:.{digits}f}".replace("-", "−")


def _differences(rows: list[dict[str, Any]], labels: list[str], rounds: int) -> list[str]:
    if rounds < 2:
        return ["Note: of one round nobody can tell what differs by chance: --rounds 2 at least."]
    lines = []
    for index, label in enumerate(labels[1:], 1):
        found = []
        for row in rows:
            change = row["values"][index]["change"]
            if change["is_significant"]:
                found.append(f"{row['title']} ({'higher' if change['low'] > 0 else 'lower'})")
        what = ", ".join(found) if found else "nothing that these rounds could show"
        lines.append(f"{label} differs from {labels[0]} in: {what}.")
    count = len(rows) * (len(labels) - 1)
    lines.append(
        f"±: 95 % intervals of the mean difference, paired by round; of {count} comparisons "
        f"{count * 0.05:.1f} would seem to differ by chance."
    )
    return lines


def _notes(result: dict[str, Any]) -> list[str]:
    notes = []
    offered = [
        f"{g['label']} is {g['name']}" if g["module"] else f"{g['label']} is the kernel's own"
        for g in result["governors"]
    ]
    notes.append(f"Governors: {', '.join(offered)}.")
    if result["rounds"] > result["finished_rounds"]:
        notes.append(f"Note: ended early, after {result['finished_rounds']} of {result['rounds']}.")
    if not any(row["key"] == "figure" for row in result["rows"]):
        notes.append("Note: the command printed no number in every run, so there is no figure.")
    if not any(row["key"].endswith("_j") for row in result["rows"]):
        notes.append("Note: no energy, since this machine has no RAPL that may be read.")
    told = [note for run in result["runs"] for note in run["counters"]["notes"]]
    return [*notes, *(f"Note: {note}." for note in dict.fromkeys(told))]
