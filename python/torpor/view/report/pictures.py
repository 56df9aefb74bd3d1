# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The pictures of what was counted, verified and reproduced, drawn as those of a replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from torpor.results.kind import Clusters
from torpor.results.kinds import KINDS
from torpor.results.table import Table, word
from torpor.view.report import bars
from torpor.view.report.charts import by_hour
from torpor.view.report.environment import figure, prose
from torpor.view.report.palette import state_class
from torpor.view.report.parts import Fold


class Picture(NamedTuple):
    """A picture of a result."""

    title: str
    lead: str
    drawn: Markup

    @property
    def first(self) -> Markup:
        """The picture with which a part begins."""
        title = Markup("<b>{}.</b> ").format(self.title) if self.title else ""
        return Markup('<div>{}<p class="caption">{}{}</p></div>').format(
            self.drawn, title, prose(self.lead)
        )

    def fold(self, note: str = "") -> Fold:
        """Return the section that has the picture."""
        lead = Markup('<p class="lead">{}</p>\n').format(prose(self.lead))
        return Fold(self.title, lead + self.drawn, note)


def plotted(drawn: Markup) -> Markup:
    """Return the figure of a chart."""
    return Markup('<figure class="plotted">{}</figure>').format(drawn)


def stacks(panels: Sequence[Any], rows: str = "Governor", *, has_power: bool = False) -> Markup:
    """Return stacked bars with their numbers; ``rows`` is what a bar is of."""
    shown = []
    for panel in panels:
        lines = [
            [word(bar["governor"]), *(word(s["share"]) for s in bar["segments"])]
            for bar in panel["bars"]
        ]
        headings = [rows, *(name for name, _ in panel["key"])]
        shown.append(
            {**panel, "numbers": Table("numbers", f"{panel['name']} in numbers", headings, lines)}
        )
    return figure("stacks", shown, has_power)


def pictures(result: Mapping[str, Any]) -> list[Picture]:
    """Return the pictures of a result; none for a kind that has none."""
    draw = _OTHERS.get(result["kind"]) or KINDS[result["kind"]].pictures
    return draw(result) if draw else _counted(_states(result))


def _states(result: Mapping[str, Any]) -> list[tuple[str, Clusters]]:
    states = KINDS[result["kind"]].states
    return states(result) if states else []


def state_counts(result: Mapping[str, Any]) -> set[int]:
    """The numbers of states that have colours in the pictures of a result."""
    if result["kind"] == "fidelity":
        return {len(result["states"]), 2}
    if KINDS[result["kind"]].has_runs:
        return {len(cluster["states"]) for cluster in result["platform"]["clusters"]}
    return {len(cluster["states"]) for _, clusters in _states(result) for cluster in clusters}


def _counted(states: list[tuple[str, Clusters]]) -> list[Picture]:
    """Return pictures of each column's time, and of its sleeps of a wrong depth."""
    runs: list[Any] = [
        {"governor": label, "error": None, "clusters": clusters} for label, clusters in states
    ]
    machine: dict[str, dict[str, Any]] = {}
    for run in runs:
        for cluster in run["clusters"]:
            machine.setdefault(cluster["name"], cluster)
    platform: Any = {
        "clusters": [
            {
                "name": name,
                "cpus": cluster["cpus"],
                "states": [
                    {"name": state["name"], "polling": state["name"] == "POLL"}
                    for state in cluster["states"]
                ],
            }
            for name, cluster in machine.items()
        ]
    }
    found = []
    if any(run["clusters"] for run in runs):
        lead = "Share of the CPUs' time, running and per idle state, shallowest state first."
        panels: list[Any] = bars.residency(platform, runs)
        if not all(cluster["has_clock"] for run in runs for cluster in run["clusters"]):
            lead = "Share of the CPUs' idle time per idle state, shallowest state first."
            for panel in panels:
                del panel["key"][0]
                for bar in panel["bars"]:
                    del bar["segments"][0]
        found.append(Picture("Where the time went", lead, stacks(panels, "Column")))
    judged = [
        run
        for run in runs
        if all(None not in (s["above"], s["below"]) for c in run["clusters"] for s in c["states"])
    ]
    depth = bars.wrong_depth(platform, judged)
    if depth["panels"]:
        found.append(
            Picture(
                "Wrong depth, by the state entered",
                bars.DEPTH_LEAD.format("column"),
                figure("wrong_depth", depth),
            )
        )
    return found


def _fidelity(result: Any) -> list[Picture]:
    """Agreement of each governor, and of the best one, what it chose in each recorded state."""
    compared = result["decisions"]["compared"]
    ran = [governor for governor in result["governors"] if governor["error"] is None]
    if not ran or not compared:
        return []
    key = [("agrees", "d1of2"), ("differs", "run")]
    agreements = [
        _bar(
            governor["governor"],
            [(*key[0], governor["agreeing"]), (*key[1], compared - governor["agreeing"])],
        )
        for governor in ran
    ]
    names, best = result["states"], ran[0]
    colours = [state_class(index, len(names), name == "POLL") for index, name in enumerate(names)]
    counts = {(cell["recorded"], cell["chosen"]): cell["count"] for cell in best["confusion"]}
    chosen = []
    for recorded, name in enumerate(names):
        row = [counts.get((recorded, index), 0) for index in range(len(names))]
        if any(row):
            chosen.append(_bar(name, list(zip(names, colours, row, strict=True))))
    panels = [_panel("decisions of all CPUs", key, agreements)]
    confusion = [_panel(best["governor"], list(zip(names, colours, strict=True)), chosen)]
    return [
        Picture(
            "Who decides as this machine did",
            "Share of the recorded decisions that each governor would have taken alike, given "
            "the recorded outcome of each.",
            stacks(panels),
        ),
        Picture(
            "What the best one chose instead",
            f"One bar for each state that was recorded: what {best['governor']} chose.",
            stacks(confusion, "Recorded"),
        ),
    ]


def _panel(name: str, key: list[tuple[str, str]], drawn: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "cpus": "", "key": key, "bars": drawn}


def _bar(label: str, parts: list[tuple[str, str, int]]) -> dict[str, Any]:
    return bars.stacked(label, parts, "{:,} decisions".format) | {"power": ""}


def scatter_picture(title: str, lead: str, drawn: Any) -> list[Picture]:
    """Return the picture of a scatter plot, or none if it has no dots."""
    lead += " Point at a dot to read it; every number is in the tables below."
    return [] if drawn is None else [Picture(title, lead, plotted(drawn))]


def _shadow(result: Any) -> list[Picture]:
    lead = "Below 0 is better. Lines are 95 % intervals; hollow dots may be no difference."
    return scatter_picture("Change by hour of the day", lead, by_hour(result))


#: Pictures of kinds that have no states of their own.
_OTHERS: dict[str, Callable[[Any], list[Picture]]] = {
    "fidelity": _fidelity,
    "shadow": _shadow,
}
