# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Pictures of results as data, before any painter: points over two axes, or rows of blocks.

A colour is a variable of the pages' style sheet, such as ``--ink``, or an idle state's
(:func:`state_colour`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torpor.results.numbers import cpu_list, duration, listing, number_text, share_text
from torpor.results.table import Table, word

#: Colours of series.
COLOURS = ("--ink", "--above", "--link", "--below", "--muted")
#: Width of a picture of which several are next to one another; a phone has one.
SMALL = 350.0
#: How to read dots.
POINTED = "Point at a dot to read it; every number is in the tables below."
#: The longest bar of a wrong depth leaves this part of its side to its own number.
_DEPTH_PART = 0.64


class Point(NamedTuple):
    """A value over another."""

    x: float
    y: float
    #: Tooltip.
    hint: str
    #: Label next to the point; empty for none.
    label: str = ""
    is_hollow: bool = False
    #: Ends of its interval across and up; None where it has none.
    x_ends: tuple[float, float] | None = None
    y_ends: tuple[float, float] | None = None


class Series(NamedTuple):
    """Points of one colour."""

    #: In the legend; empty for none.
    name: str
    points: list[Point]
    colour: str
    radius: float = 2.5
    #: Points are connected in their order.
    is_line: bool = False
    #: Dashes of the line, as SVG has them.
    dashes: str = ""


class Chart(NamedTuple):
    """A chart: one value over another."""

    title: str
    x_title: str
    y_title: str
    series: list[Series]
    #: Lines of text below the title.
    facts: tuple[str, ...] = ()
    #: Axes are logarithmic ratios about 1, named as changes in per cent, and have one scale.
    is_change: bool = False
    size: tuple[float, float] = (620.0, 380.0)
    #: Legend of hollow points.
    hollow: str = ""
    #: The axis across is logarithmic; all values on it are above 0.
    is_log_x: bool = False
    #: Value up below which nothing can be, and what says so.
    floor: tuple[float, str] | None = None
    #: Ticks across; by default from the points.
    x_ticks: tuple[float, ...] = ()
    #: Ends of the axis up; by default from the points.
    y_ends: tuple[float, float] | None = None

    @property
    def points(self) -> list[Point]:
        """Points of all series."""
        return [point for series in self.series for point in series.points]


class Block(NamedTuple):
    """A part of a row, from one value to another."""

    #: In the legend.
    name: str
    start: float
    end: float
    colour: str
    #: Number of the block, as text.
    text: str = ""
    #: Tooltip.
    hint: str = ""
    #: Share of the row's height, from its top.
    depth: float = 1.0


class Row(NamedTuple):
    """Blocks next to one another; their label is on the left, or above if it is long."""

    label: str
    blocks: list[Block]
    #: At the right end.
    value: str = ""
    height: float = 20.0


class Rows(NamedTuple):
    """Rows of blocks over one axis."""

    title: str
    #: Heading of the rows' labels.
    of: str
    rows: list[Row]
    #: Ends of the axis.
    ends: tuple[float, float]
    #: Title of the axis, which has ticks then.
    x_title: str = ""
    #: Numbers are beside the blocks, not on them.
    is_beside: bool = False
    #: Width, and a height that is the rows' own.
    size: tuple[float, float] = (560.0, 0.0)

    #: Colours by name in the legend's order; by default as the blocks have them.
    legend: Sequence[tuple[str, str]] = ()
    #: Numbers of the picture; by default the blocks'.
    table: Table | None = None

    @property
    def key(self) -> dict[str, str]:
        """Colours by name."""
        return dict(self.legend) or {
            block.name: block.colour for row in self.rows for block in row.blocks
        }

    @property
    def numbers(self) -> Table | None:
        """The numbers as a table, if there are any."""
        lines = [
            {block.name: block.text for block in row.blocks if block.text} for row in self.rows
        ]
        if self.table or not any(lines):
            return self.table
        rows = [
            [word(row.label), *(word(line.get(name, "")) for name in self.key)]
            for row, line in zip(self.rows, lines, strict=True)
        ]
        return Table("numbers", f"{self.title} in numbers", [self.of, *self.key], rows)


class Picture(NamedTuple):
    """What a result shows under one title, and how to read it."""

    title: str
    lead: str
    charts: Sequence[Chart | Rows]
    note: str = ""


def state_colour(index: int, count: int, name: str) -> str:
    """Return the colour of an idle state: its depth from 0 to 1, or that of polling."""
    return "poll" if name == "POLL" else f"{index / (count - 1) if count > 1 else 0.5:.3g}"


def stacked(label: str, parts: Sequence[tuple[str, str, int, str]], value: str = "") -> Row:
    """Return the shares of a whole; a part has a name, a colour, a size, and the size as text."""
    whole = sum(size for _, _, size, _ in parts)
    blocks, start = [], 0.0
    for name, colour, size, text in parts:
        end, share = start + (100 * size / whole if whole else 0), share_text(size, whole)
        blocks.append(Block(name, start, end, colour, share, f"{name}: {share}, {text}"))
        start = end
    return Row(label, blocks, value)


def of_states(columns: Sequence[tuple[str, Sequence[Any]]]) -> list[Picture]:
    """Return pictures of each column's time, and of its sleeps of a wrong depth."""
    found = []
    if time := residency(columns, "Column"):
        what = "time, running and" if _has_clock(columns) else "idle time"
        lead = f"Share of the CPUs' {what} per idle state, shallowest state first."
        found.append(Picture("Where the time went", lead, time))
    judged = [
        (label, clusters)
        for label, clusters in columns
        if all(None not in (s["above"], s["below"]) for c in clusters for s in c["states"])
    ]
    depth = wrong_depth(judged, "column")
    return (
        [*found, depth._replace(title="Wrong depth, by the state entered")]
        if depth.charts
        else found
    )


def _has_clock(columns: Sequence[tuple[str, Sequence[Any]]]) -> bool:
    return all(cluster.get("has_clock", True) for _, clusters in columns for cluster in clusters)


def residency(columns: Sequence[tuple[str, Sequence[Any]]], of: str) -> list[Rows]:
    """Return where the CPUs' time went in each column, with a picture for each cluster.

    ``of`` is what a column is. Clusters are those of a run's outcome, or of
    :func:`torpor.results.kind.cluster`.
    """
    has_clock, found = _has_clock(columns), dict[str, Rows]()
    for label, clusters in columns:
        for cluster in clusters:
            states = cluster["states"]
            parts = [
                (
                    state["name"],
                    state_colour(index, len(states), state["name"]),
                    state["time_ns"],
                    duration(state["time_ns"]),
                )
                for index, state in enumerate(states)
            ]
            awake = cluster["running_ns"]
            parts[:0] = [("running", "--run", awake, duration(awake))] * has_clock
            power = cluster.get("idle_power_mw")
            row = stacked(label, parts, "" if power is None else number_text(power))
            name = cluster["name"]
            # As the recording numbers them.
            title = f"{name}, CPU {cpu_list(cluster['cpus'])}" if cluster["cpus"] else name
            found.setdefault(name, Rows(title, of, [], (0.0, 100.0))).rows.append(row)
    return list(found.values())


def wrong_depth(columns: Sequence[tuple[str, Sequence[Any]]], of: str) -> Picture:
    """Return the sleeps of a wrong depth by state, with a picture for each column that has any."""
    shares: dict[str, list[tuple[str, float, float]]] = {}
    for label, clusters in columns:
        sleeps = sum(state["usage"] for c in clusters for state in c["states"]) or 1
        own = [
            (
                f"{cluster['name']} {state['name']}" if len(clusters) > 1 else state["name"],
                100 * state["above"] / sleeps,
                100 * state["below"] / sleeps,
            )
            for cluster in clusters
            for state in cluster["states"]
        ]
        above, below = (sum(float(line[place]) for line in own) for place in (1, 2))
        shares[label] = [("all", above, below), *own]
    reach = max((max(own[0][1:]) for own in shares.values()), default=0.0) / _DEPTH_PART
    charts = [
        Rows(label, "State", [_deviation(*line) for line in own], (-reach, reach), is_beside=True)
        for label, own in shares.items()
        if any(own[0][1:])
    ]
    lead = (
        f"In percent of the {of}'s sleeps on all CPUs: left, sleeps that ended before the state's "
        "target residency (too deep, above); right, sleeps long enough for the next deeper state "
        "(too shallow, below). One scale for all."
    )
    if faultless := [label for label, own in shares.items() if not any(own[0][1:])]:
        lead += f" No sleep at a wrong depth: {listing(faultless)}."
    small = [chart._replace(size=(SMALL, 0.0)) for chart in charts]
    return Picture("Wrong depth", lead, small, "by state" if shares else "")


def _deviation(name: str, above: float, below: float) -> Row:
    texts = [f"{share:.2f}" if share else "0" for share in (above, below)]
    blocks = [
        Block("too deep", -above, 0.0, "--above", texts[0]),
        Block("too shallow", 0.0, below, "--below", texts[1]),
    ]
    return Row(name, blocks, height=13.0)
