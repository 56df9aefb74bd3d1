# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Minutes of governors in the shadow of others, on one machine or many: ``torpor shadow show``."""

from collections.abc import Iterator
from typing import Literal, TypedDict

from torpor.results.comparison import short_labels
from torpor.results.kind import Column, Kind
from torpor.results.sentences import cannot_show, differences
from torpor.results.table import Cell, Post, Table, counted, number, word
from torpor.results.types import Cell as Compared
from torpor.results.types import Comparison, Version


class ShadowHost(TypedDict):
    """A machine, and what is known of it."""

    host: str
    machine_class: str
    #: The governor that decided, as the kernel names it; null if that was not known.
    under: str | None
    minutes: int
    first_ns: int
    last_ns: int


class ShadowGroup(TypedDict):
    """Minutes that have something in common, governor by governor."""

    machine_class: str
    #: Of the day, UTC; null for all.
    hour: int | None
    #: Null for all machines of the class.
    host: str | None
    hosts: int
    minutes: int
    #: One sample of the comparison: an hour of a machine, or a minute where there are few hours.
    draw: Literal["machine-hour", "minute"]
    comparison: Comparison


class Shadows(TypedDict):
    """Result of ``torpor shadow show``."""

    format: int
    kind: Literal["shadow"]
    torpor: Version
    governors: list[str]
    #: Metric by which governors are judged.
    judged: str
    hosts: list[ShadowHost]
    groups: list[ShadowGroup]
    notes: list[str]


OPEN_LOOP = (
    "open loop: each governor meets the wake-ups of the machine as it ran under its own; where it "
    "would have woken later, the work would have come later, too"
)
_UNCORRECTED = (
    "±: Student's 95 % interval of the paired differences; Holm's correction is within a line's "
    "metrics, so that of 100 lines without a difference some five show one"
)
#: Metrics whose increase hurts, besides the judged one.
_HURTING = ("delay_total_us",)


def post(result: Shadows) -> Post:
    """Return a line for each class and governor, for each hour, and where it would hurt."""
    judged = result["judged"]
    groups = result["groups"]
    classes = [g for g in groups if g["hour"] is None and g["host"] is None]
    hours = [g for g in groups if g["hour"] is not None]
    hosts = [g for g in groups if g["host"] is not None]
    tables = [
        _lines("classes", "", classes, judged),
        _lines("hours", "By hour of the day, UTC", hours, judged)._replace(most=72),
        _lines("hosts", "By machine", hosts, judged)._replace(is_detail=len(hosts) > 12),
        _hurts([*hours, *hosts], judged),
    ]
    minutes = sum(host["minutes"] for host in result["hosts"])
    under = sorted({host["under"] or "a governor that is not known" for host in result["hosts"]})
    facts = [f"{counted(len(result['hosts']), 'machine')}, under {', '.join(under)}"]
    return Post(
        f"In the shadow: {', '.join(result['governors'])}, {counted(minutes, 'minute')}",
        facts,
        [table for table in tables if table.rows],
        [*result["notes"], OPEN_LOOP, _UNCORRECTED],
    )


def _cells(group: ShadowGroup, key: str) -> list[Compared] | None:
    found = (row["cells"] for row in group["comparison"]["rows"] if row["key"] == key)
    return next(found, None)


def _place(group: ShadowGroup) -> list[Cell]:
    hour = group["hour"]
    of = group["host"] or ("all" if hour is None else f"{hour:02}:00")
    return [word(group["machine_class"]), word(of)]


def _lines(name: str, title: str, groups: list[ShadowGroup], judged: str) -> Table:
    rows = []
    unit = judged
    for group in groups:
        found, labels = group["comparison"], group["comparison"]["labels"]
        cells, delays = _cells(group, judged), _cells(group, "delay_total_us")
        for place, label in enumerate(short_labels(labels)):
            if cells is None:
                continue
            cell = cells[place]
            unit = next(f"{r['title']} {r['unit']}" for r in found["rows"] if r["key"] == judged)
            change = cell["change"]
            delay = delays[place]["change"] if delays else None
            is_better = change["is_better"] if change else None
            rows.append(
                [
                    *_place(group),
                    word(label),
                    number(group["hosts"]),
                    word(f"{found['samples']} {group['draw']}s"),
                    Cell(cell["value"], cell["text"], is_better, cell["is_best"]),
                    Cell(None, change["text"] if change else "", is_better),
                    word(delay["text"] if delay else ""),
                ]
            )
    headings = ["class", "of", "governor", "machines", "samples", unit, "change", "change of delay"]
    return Table(name, title, headings, rows, keys=3)


def _hurts(groups: list[ShadowGroup], judged: str) -> Table:
    """Return where a governor is worse than the base beyond chance, the worst first."""
    found: list[tuple[float, list[Cell]]] = []
    for group in groups:
        for row in group["comparison"]["rows"]:
            if row["key"] not in (judged, *_HURTING):
                continue
            for label, cell in zip(group["comparison"]["labels"], row["cells"], strict=True):
                change = cell["change"]
                if change and change["is_better"] is False:
                    cells = [*_place(group), word(label), word(row["title"]), word(change["text"])]
                    found.append((-abs(change["relative_pct"] or change["difference"]), cells))
    rows = [cells for _, cells in sorted(found, key=lambda pair: pair[0])]
    headings = ["class", "of", "governor", "metric", "change"]
    return Table("hurts", "Where it would hurt", headings, rows, keys=3, most=20)


def explain(result: Shadows, governor: str | None) -> list[str]:
    """Return the difference of each class, and what it cannot show."""
    said = []
    for group in result["groups"]:
        found = group["comparison"]
        if group["hour"] is not None or group["host"] is not None or found["base"] is None:
            continue
        for place, label in enumerate(found["labels"]):
            if place != found["base"] and governor in (None, label):
                said.append(f"{group['machine_class']}: {differences(found, found['base'], place)}")
    minutes = sum(host["minutes"] for host in result["hosts"])
    limits = [f"what a governor does to the work: in {minutes:,} minutes all met the same wake-ups"]
    return [*said[:5], cannot_show(limits)]


def columns(result: Shadows) -> Iterator[Column]:
    """Return each class's means."""
    for group in result["groups"]:
        if group["hour"] is not None or group["host"] is not None:
            continue
        for place, label in enumerate(group["comparison"]["labels"]):
            rows = group["comparison"]["rows"]
            values = {row["key"]: row["cells"][place]["value"] for row in rows}
            yield Column(label, values, {"kind": "shadow", "machine": group["machine_class"]})


KIND = Kind(
    "shadow",
    post,
    "minutes have no timeline. `torpor record` records what the machine does.",
    explain,
    shape=Shadows,
    columns=columns,
    inputs=lambda _result: [],
)
