# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Minutes of governors in the shadow of others, on one machine or many: ``torpor show``."""

from typing import Any, Literal, TypedDict

from torpor.results.catalogue import RUNS, leading, unit_text
from torpor.results.comparison import short_labels
from torpor.results.kind import Kind
from torpor.results.picture import COLOURS, POINTED, Chart, Picture, Point, Series
from torpor.results.sentences import cannot_show, changed, headline
from torpor.results.table import Brief, Cell, Post, Table, Verdict, counted, number, word
from torpor.results.types import Change, Comparison, Row, Version


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
    #: Hour of the day, UTC; null for all.
    hour: int | None
    #: Null for all machines of the class.
    host: str | None
    hosts: int
    minutes: int
    #: One sample of the comparison: an hour of a machine, or a minute if there are few hours.
    draw: Literal["machine-hour", "minute"]
    #: Metric by which governors are judged: power, where it is known.
    judged: str
    comparison: Comparison


class Shadows(TypedDict):
    """Result of ``torpor show``."""

    format: int
    kind: Literal["shadow"]
    torpor: Version
    governors: list[str]
    hosts: list[ShadowHost]
    groups: list[ShadowGroup]
    notes: list[str]


OPEN_LOOP = (
    "open loop: each governor sees the wake-ups that the machine had under its own governor; a "
    "later wake-up would have delayed the work that follows, too"
)
_UNCORRECTED = (
    "±: Student's 95 % interval of the paired differences; Holm's correction is within a line's "
    "metrics, so that of 100 lines without a difference some five show one"
)
#: Metrics other than the judged one whose increase is worse.
_HURTING = ("delay_total_us",)


def post(result: Shadows) -> Post:
    """Return a line for each class and governor, for each hour, and where it would hurt."""
    classes, hours, hosts = _parts(result)
    tables = [
        _lines("classes", "", classes),
        _lines("hours", "By hour of the day, UTC", hours)._replace(most=72),
        _lines("hosts", "By machine", hosts)._replace(is_detail=len(hosts) > 12),
        _hurts([*hours, *hosts]),
    ]
    minutes = sum(host["minutes"] for host in result["hosts"])
    under = sorted({host["under"] or "a governor that is not known" for host in result["hosts"]})
    facts = [
        f"{counted(len(result['hosts']), 'machine')}, under {', '.join(under)}",
        f"Changes are from {result['governors'][0]}",
    ]
    title = f"In the shadow: {', '.join(result['governors'])}, {minutes:,} minutes"
    shown = [table for table in tables if table.rows and table.name in ("classes", "hurts")]
    return Post(
        title,
        facts,
        [table for table in tables if table.rows],
        [*result["notes"], OPEN_LOOP, _UNCORRECTED],
        brief=Brief(shown, list(result["notes"]), [f"{title}, {facts[0]}"]),
    )


def _parts(result: Shadows) -> tuple[list[ShadowGroup], list[ShadowGroup], list[ShadowGroup]]:
    """Return what is of classes, the largest first, of hours, and of machines."""
    groups = result["groups"]
    classes = [g for g in groups if g["hour"] is None and g["host"] is None]
    hours = [g for g in groups if g["hour"] is not None]
    hosts = [g for g in groups if g["host"] is not None]
    return sorted(classes, key=lambda group: -group["minutes"]), hours, hosts


def _row(group: ShadowGroup, key: str) -> Row | None:
    return next((row for row in group["comparison"]["rows"] if row["key"] == key), None)


def _place(group: ShadowGroup) -> list[Cell]:
    hour = group["hour"]
    of = group["host"] or ("all" if hour is None else f"{hour:02}:00")
    return [word(group["machine_class"]), word(of)]


def _lines(name: str, title: str, groups: list[ShadowGroup]) -> Table:
    rows = []
    for group in groups:
        found = group["comparison"]
        judged, delays = _row(group, group["judged"]), _row(group, "delay_total_us")
        assert judged is not None, "a group is judged by a metric that it has"
        what = f"{judged['title']} {unit_text(judged['unit'])}".rstrip()
        base = judged["cells"][found["base"] or 0]
        samples = counted(found["samples"], group["draw"])
        for place, label in enumerate(short_labels(found["labels"])):
            cell = judged["cells"][place]
            if cell is base and len(found["labels"]) > 1:
                continue
            change = cell["change"]
            delay = delays["cells"][place]["change"] if delays else None
            is_better = change["is_better"] if change else None
            rows.append(
                [
                    *_place(group),
                    word(label),
                    number(group["hosts"]),
                    word(samples),
                    word(what),
                    Cell(base["value"], base["text"]),
                    Cell(cell["value"], cell["text"], is_better, cell["is_best"]),
                    Cell(None, change["text"] if change else "", is_better),
                    word(delay["text"] if delay else ""),
                ]
            )
    headings = ["class", "of", "governor", "machines", "samples", "metric", "base", "mean"]
    headings += ["change", "change of delay"]
    # Classes are of all, and a machine without delays has no change of them.
    shown = [
        place
        for place, column in enumerate(zip(*rows, strict=True))
        if {cell.text for cell in column} not in ({""}, {"all"})
    ]
    return Table(
        name,
        title,
        [headings[place] for place in shown],
        [[row[place] for place in shown] for row in rows],
        keys=2 + (1 in shown),
    )


def _hurts(groups: list[ShadowGroup]) -> Table:
    """Return the places where a governor is significantly worse than the base, the worst first."""
    found: list[tuple[float, list[Cell]]] = []
    for group in groups:
        for row in group["comparison"]["rows"]:
            if row["key"] not in (group["judged"], *_HURTING):
                continue
            for label, cell in zip(group["comparison"]["labels"], row["cells"], strict=True):
                change = cell["change"]
                if change and change["is_better"] is False:
                    cells = [*_place(group), word(label), word(row["title"]), word(change["text"])]
                    found.append((-abs(change["relative_pct"] or change["difference"]), cells))
    rows = [cells for _, cells in sorted(found, key=lambda pair: pair[0])]
    headings = ["class", "of", "governor", "metric", "change"]
    return Table("hurts", "Where it would hurt", headings, rows, keys=3, most=20)


def verdict(result: Shadows, governor: str | None) -> Verdict:
    """Return how one governor compares with the first, on each class of machines."""
    classes = [group for group in _parts(result)[0] if group["comparison"]["base"] is not None]
    labels = result["governors"]
    if not classes or len(labels) < 2:
        return Verdict("", "Nothing is compared: the minutes are of one governor")
    other = labels[_best(classes[0])] if governor is None else governor
    said, draws = [], []
    for group in classes:
        if found := _of_class(group, other):
            on = f"on {group['machine_class']} " * (len(classes) > 1)
            said.append(f"{on}{found.figure}")
            draws.append(counted(group["comparison"]["samples"], group["draw"]))
    figure = "; ".join(said)
    return Verdict(other, figure or f"has no minutes beside {labels[0]}", "; ".join(draws))


def _best(group: ShadowGroup) -> int:
    """Return the column with the least of what a class is judged by, other than the base."""
    row = _row(group, group["judged"])
    assert row is not None, "a group is judged by a metric that it has"
    cells, base = row["cells"], group["comparison"]["base"]
    known = [p for p, cell in enumerate(cells) if p != base and cell["value"] is not None]
    return min(known, key=lambda p: cells[p]["value"] or 0.0, default=1)


def _of_class(group: ShadowGroup, label: str) -> Verdict | None:
    """Return how a governor compares with the base on a class of machines."""
    found = group["comparison"]
    base = found["base"]
    if base is None or label not in found["labels"]:
        return None
    place = found["labels"].index(label)
    is_power = group["judged"] in leading("cost", *RUNS)
    said = headline(found, base, place, group["draw"]) if is_power else None
    return said or changed(found, base, place, group["draw"], _row(group, group["judged"]))


def explain(result: Shadows, governor: str | None) -> list[str]:
    """Return the other governors' differences on each class, and what it cannot show."""
    said = []
    classes, hours, hosts = _parts(result)
    subject = verdict(result, governor).subject
    for group in classes:
        for label in group["comparison"]["labels"]:
            is_said = label in (subject, result["governors"][0])
            found = None if is_said or governor else _of_class(group, label)
            said += [f"On {group['machine_class']}, {found}"] if found else []
    if worse := _hurts([*hours, *hosts]).rows:
        where = ", ".join(cell.text for cell in worse[0][:3])
        said.append(
            f"Worse than {result['governors'][0]} beyond chance in {len(worse)} of "
            f"{len(hours) + len(hosts)} hours and machines; most in {where}: "
            f"{worse[0][3].text} {worse[0][4].text}."
        )
    minutes = sum(host["minutes"] for host in result["hosts"])
    limits = [f"what a governor does to the work: in {minutes:,} minutes all met the same wake-ups"]
    return [*said, cannot_show(limits)]


#: Hours by which the dots of two lines are apart, so that their intervals do not overlap.
_BESIDE = 0.15


def pictures(result: Shadows) -> list[Picture]:
    """Return the change of each governor by hour, a chart for each class of machines."""
    hours = [group for group in result["groups"] if group["hour"] is not None]
    names = dict.fromkeys(group["machine_class"] for group in hours)
    charts = [
        chart
        for name in names
        if (chart := _by_hour(result, [g for g in hours if g["machine_class"] == name], name))
    ]
    lead = "Below 0 is better. Lines are 95 % intervals; hollow dots may be no difference."
    return [Picture("Change by hour of the day", f"{lead} {POINTED}", charts)] if charts else []


def _by_hour(result: Shadows, hours: list[ShadowGroup], machine_class: str) -> Chart | None:
    """Return the changes on a class of machines; None without two hours of any governor."""
    series: list[Series] = []
    titles = set()
    count = len(result["governors"]) - 1
    for place, name in enumerate(result["governors"][1:], 1):
        points = []
        for group in hours:
            row = next(r for r in group["comparison"]["rows"] if r["key"] == group["judged"])
            change = row["cells"][place]["change"] if place < len(row["cells"]) else None
            # Without a percentage the base is 0, and the axis is percent of it.
            if change is None or (row["kind"] != "share" and change["relative_pct"] is None):
                continue
            titles.add(row["title"])
            x = (group["hour"] or 0) + _BESIDE * (place - 1 - (count - 1) / 2)
            hint = f"{name}, {group['hour']:02}:00: {row['title']} {change['text']}"
            points.append(Point(x, *_percent(change, hint)))
        colour, dashes = COLOURS[(place - 1) % len(COLOURS)], "5 3" * (place > len(COLOURS))
        series.append(Series(name, sorted(points), colour, 3.0, is_line=True, dashes=dashes))
    series = [one for one in series if len(one.points) > 1]
    if not series:
        return None
    up = f"{machine_class}: {' or '.join(sorted(titles))}, change from {result['governors'][0]}, %"
    ticks = tuple(map(float, range(0, 24, 3)))
    return Chart(f"{machine_class}, by hour", "hour, UTC", up, series, x_ticks=ticks)


def _percent(change: Change, hint: str) -> tuple[float, str, str, bool, None, Any]:
    """Return a change as a point has it, in percent or points, with its interval."""
    relative, of = change["relative_pct"], change["difference"]
    scale = relative / of if relative is not None and of else 1.0
    low, high = change["low"], change["high"]
    ends = None if low is None or high is None else (scale * low, scale * high)
    is_hollow = not change["is_significant"]
    return scale * of, hint, "", is_hollow, None, ends


KIND = Kind(
    "shadow",
    post,
    "minutes have no timeline. `torpor record` records what the machine does.",
    explain,
    verdict=verdict,
    shape=Shadows,
    pictures=pictures,
    inputs=lambda _result: [],
)
