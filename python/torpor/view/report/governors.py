# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The parts of a page that replays and simulations have: a recording or a workload each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from torpor.results import types as results
from torpor.results.cells import compared
from torpor.results.comparison import Result, Section, section_name, sections
from torpor.results.kinds import posted, replay, simulation
from torpor.results.numbers import cpu_list, number_text, share_text
from torpor.results.over_recordings import over_recordings
from torpor.results.runs import verdict_of
from torpor.results.table import Table, counted, word
from torpor.results.text import distinct_names
from torpor.view.report import bars, inputs, strip, summary
from torpor.view.report.environment import figure, prose, table_html
from torpor.view.report.latency import latency
from torpor.view.report.parts import Fold, Part, table_folds
from torpor.view.report.pictures import Picture, stacks

#: Times of a state, by heading.
_TIMES = {
    "entry latency µs": "entry_latency_ns",
    "exit latency µs": "exit_latency_ns",
    "latency µs": "latency_ns",
    "target residency µs": "target_residency_ns",
}


class Strips(NamedTuple):
    """The strips of a section, to be drawn when it is known how much of a page they may take."""

    #: Number of the section in the page.
    number: int
    #: Clusters that have one of the CPUs: name, and states in their colours.
    clusters: list[dict[str, Any]]
    #: With the number of its cluster.
    cpus: list[tuple[strip.Strip, int]]
    oracle: int | None
    has_tasks: bool

    @property
    def place(self) -> Markup:
        """The placeholder in the page that they replace."""
        return Markup("<!--strips {}-->").format(self.number)


class Parts(NamedTuple):
    """A result in a page: what is over all its sections, and a part for each of several."""

    top: Part
    parts: list[Part]
    strips: list[Strips]
    #: What the result cannot show.
    limits: list[str]


def parts(result: Any, first: int) -> Parts:
    """Return the parts of a result, with its sections numbered from ``first`` on."""
    own = sections(result)
    names = distinct_names(map(section_name, own))
    looks = summary.styles([run for section in own for run in section["runs"]])
    made = [
        _section(result, section, names[section_name(section)], number, looks)
        for number, section in enumerate(own, first)
    ]
    strips = [found for _, found, _ in made if found is not None]
    limits = [text for _, _, text in made if text]
    post = posted(result)
    if len(own) == 1:
        top = made[0][0]._replace(title=post.title, facts=post.facts)
        return Parts(top, [], strips, limits)
    several = [made[n][0]._replace(facts=[fact]) for n, fact in enumerate(post.facts[1:])]
    top = Part(post.title)
    if (found := over_recordings(result)) is not None:
        top = summary.beginning(own[0], "", found["comparison"], "recording", looks)
        top = top._replace(
            title=post.title,
            folds=[_over(found["recordings"], table) for table in replay.over(result)],
        )
    return Parts(top._replace(facts=post.facts[:1]), several, strips, limits)


def _over(count: int, table: Table) -> Fold:
    lead = Markup('<p class="lead">{}</p>').format(prose(table.title))
    title, note = f"All metrics over {count} recordings", "spread, intervals, sign test"
    return Fold(title, lead + table_html(table._replace(title=title)), note)


def machine(result: Result) -> Markup:
    """Return options, idle states and sources of the platform, for the page's provenance."""
    platform, options = result["platform"], result["options"]
    rows = [[word(name), word(_option(value))] for name, value in sorted(options.items())]
    rows.append([word("tick rate of the platform, Hz"), word(str(platform["hz"]))])
    groups = []
    for cluster in platform["clusters"]:
        states: list[Any] = cluster["states"]
        name = f"{cluster['name']}, CPU {cpu_list(cluster['cpus'])}, capacity {cluster['capacity']}"
        cells = [
            [
                word(f"{place} {state['name']}"),
                *(word(number_text(state[key] / 1000)) for key in _TIMES.values()),
                word("polling" if state["polling"] else "idle"),
                word("disabled" if state["disabled"] else ""),
            ]
            for place, state in enumerate(states)
        ]
        groups.append((name, cells))
    headings = ["State", *_TIMES, "kind", ""]
    every = [row for _, cells in groups for row in cells]
    sources = platform["sources"]
    parts = [
        table_html(Table("options", "Options", ["option", "value"], rows)),
        table_html(Table("states", "Idle states of the platform", headings, every), groups),
        *([figure("listing", sources)] if sources else []),
    ]
    titles = ("Options", "Idle states of the platform", "Sources of the platform's numbers")
    head = Markup("<h3>{}</h3>")
    return Markup("").join(head.format(t) + part for t, part in zip(titles, parts, strict=False))


def _option(value: object) -> str:
    if value is None or value in ([], {}):
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _section(
    result: Result, own: Section, name: str, number: int, looks: Mapping[str, summary.Style]
) -> tuple[Part, Strips | None, str]:
    platform, runs = result["platform"], own["runs"]
    finding = verdict_of(own)
    part = summary.beginning(own, finding, own["comparison"], "seed", looks)
    said, limits = summary.sentences(result, own, finding)
    failed = figure("failed", [run for run in runs if run["error"]])
    marks = summary.marks(own["comparison"], runs, looks)
    whole = compared(own["comparison"], "All metrics")
    drawn = table_html(whole, marks=marks, css="comparison")
    folds = [Fold(f"All {counted(len(whole.rows), 'metric')}", drawn)]
    folds += [picture.fold(note) for picture, note in _pictures(platform, runs)]
    if causes := replay.causes(own):
        folds.append(Fold("What ended the sleeps", Markup("").join(map(_caused, causes))))
    if (found := latency(runs, looks)) is not None:
        lines = {governor: summary.line(style) for governor, style in looks.items()}
        table = table_html(found["table"], marks=lines)
        drawn = figure("latency", found, table, number)
        folds.append(Fold("Wake-up latency", drawn, "cumulative, by governor"))
    if (strips := _strips(platform, own, number)) is not None:
        which = "any CPU" if len(strips.cpus) > 1 else "one CPU"
        folds.append(Fold("Choice by choice", strips.place, f"a strip of {which}"))
    if "trace" in own:
        folds.append(
            Fold("What the recording contains", inputs.tables(own), "events, losses, timers")
        )
    else:
        folds += table_folds(simulation.tasks(own))
    whole_part = part._replace(
        title=name, sentences=[*part.sentences, *said], body=failed + part.body, folds=folds
    )
    return whole_part, strips, limits


def _pictures(
    platform: results.PlatformInfo, runs: Sequence[results.RunOutcome]
) -> list[tuple[Picture, str]]:
    found = []
    has_power = platform["has_power"]
    if panels := bars.residency(platform, runs):
        lead = "Share of each cluster's CPU time, running and per idle state, shallowest first."
        if has_power:
            lead += " On the right the cluster's idle power in mW."
        if included := platform.get("power_includes"):
            lead += f" Power and energy on this page include: {', '.join(included)}."
        if missing := platform.get("power_missing"):
            lead += f" They do not include: {'; '.join(missing)}."
        note = f"by cluster{', with idle power' * has_power}"
        drawn = stacks(panels, has_power=has_power)
        found.append((Picture("Where the time went", lead, drawn), note))
    depth = bars.wrong_depth(platform, runs)
    if depth["panels"] or depth["faultless"]:
        lead = bars.DEPTH_LEAD.format("governor")
        if depth["faultless"]:
            lead += f" No sleep at a wrong depth: {depth['faultless']}."
        found.append((Picture("Wrong depth", lead, figure("wrong_depth", depth)), "by state"))
    return found


def _caused(table: Table) -> Markup:
    more = len(table.rows) - table.most
    return Markup('<p class="lead">{}</p>{}{}').format(
        table.title,
        table_html(table, [("", table.rows[: table.most])]),
        Markup('<p class="sub">{} more in the result.</p>').format(more) if more > 0 else "",
    )


def _strips(platform: results.PlatformInfo, own: Section, number: int) -> Strips | None:
    # A strip's CPU has the recording's number; the runs say which cluster played it.
    clusters_run = [cluster for run in own["runs"] for cluster in run["clusters"]]
    cluster_of = {cpu: cluster["name"] for cluster in clusters_run for cpu in cluster["cpus"]}
    colour = bars.classes(platform)
    known = {cluster["name"]: place for place, cluster in enumerate(platform["clusters"])}
    clusters = [
        {
            "name": cluster["name"],
            "states": [
                {"name": state["name"], "class": colour[cluster["name"], index]}
                for index, state in enumerate(cluster["states"])
            ],
        }
        for cluster in platform["clusters"]
    ]
    found = []
    for raw in own["strips"]:
        place = known.get(cluster_of.get(raw["cpu"], ""))
        if raw["rows"] and raw["end_ns"] > raw["start_ns"] and place is not None:
            found.append((strip.Strip(raw, len(clusters[place]["states"])), place))
    if not found:
        return None
    kinds = {run["governor"]: run["kind"] for run in own["runs"]}
    names = [row["governor"] for row in found[0][0].raw["rows"]]
    oracle = next((i for i, name in enumerate(names) if kinds.get(name) == "oracle"), None)
    return Strips(number, clusters, found, oracle, "workload" in own)


def draw_strips(strips: Strips, budget_bytes: int) -> Markup:
    """Draw the strips, within so much of base64."""
    given = strip.shares([own.size(budget_bytes) for own, _ in strips.cpus], budget_bytes)
    origin = min(own.raw["start_ns"] for own, _ in strips.cpus)
    shown, data = [], []
    for (own, cluster), budget in zip(strips.cpus, given, strict=True):
        packed, name = own.pack(budget), strips.clusters[cluster]["name"]
        numbers = _agreement(f"CPU {own.raw['cpu']}", own, packed, strips.oracle)
        shown.append({"raw": own.raw, "cluster": name, "numbers": numbers, "packed": packed})
        data.append(
            {
                "name": f"{own.raw['cpu']} ({name})",
                "cluster": cluster,
                # Times of all CPUs are from the first one's start on.
                "start": own.raw["start_ns"] - origin,
                "end": own.raw["start_ns"] - origin + packed["shown_ns"],
                "quantum": packed["quantum_ns"],
                "rows": packed["packed"],
            }
        )
    used = {cluster for _, cluster in strips.cpus}
    found = {
        "cpus": shown,
        "clusters": [(place, c) for place, c in enumerate(strips.clusters) if place in used],
        "by_number": sorted(range(len(shown)), key=lambda index: strips.cpus[index][0].raw["cpu"]),
        "has_oracle": strips.oracle is not None,
        "data": {
            "clusters": strips.clusters,
            "governors": [row["governor"] for row in strips.cpus[0][0].raw["rows"]],
            "oracle": -1 if strips.oracle is None else strips.oracle,
            "cpus": data,
        },
    }
    return figure("strip", found, strips.number, strips.has_tasks)


def _agreement(title: str, own: strip.Strip, packed: strip.Packed, oracle: int | None) -> Table:
    """Return how each row of a strip agrees with the oracle's."""
    rows = []
    for index, row in enumerate(own.raw["rows"]):
        segments, shares = packed["rows"][index], ["–"] * 3
        if oracle is not None and index != oracle:
            of = strip.against_oracle(segments, packed["rows"][oracle])
            both, deeper, shallower = of["both_ns"], of["deeper_ns"], of["shallower_ns"]
            times = (both - deeper - shallower, deeper, shallower)
            shares = [share_text(time, both) for time in times]
        rows.append(list(map(word, (row["governor"], number_text(len(segments)), *shares))))
    headings = ["Governor", "sleeps", "same state", "deeper", "shallower"]
    return Table("strip", f"{title}: agreement with the oracle", headings, rows)
