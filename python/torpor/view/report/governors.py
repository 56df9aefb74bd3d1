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
from torpor.results.numbers import cpu_list, number_text
from torpor.results.over_recordings import over_recordings
from torpor.results.picture import Picture, residency, wrong_depth
from torpor.results.runs import section_verdict, verdict, verdict_of
from torpor.results.table import Table, counted, word
from torpor.results.text import distinct_names
from torpor.view.report import inputs, summary
from torpor.view.report.environment import figure, prose, table_html
from torpor.view.report.latency import latency
from torpor.view.report.parts import Fold, Part, picture_fold, table_folds
from torpor.view.report.strip import COLUMNS, Strip, picture

#: Times of a state, by heading.
_TIMES = {
    "entry latency µs": "entry_latency_ns",
    "exit latency µs": "exit_latency_ns",
    "latency µs": "latency_ns",
    "target residency µs": "target_residency_ns",
}


#: Columns below which a strip shows nothing; its recording has a page of its own.
_COLUMNS_MIN = 40


class Parts(NamedTuple):
    """A result in a page: what is over all its sections, and a part for each of several."""

    top: Part
    parts: list[Part]
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
    limits = [text for _, text in made if text]
    post = posted(result)
    if len(own) == 1:
        top = made[0][0]._replace(title=post.title, facts=post.facts)
        return Parts(top, [], limits)
    several = [made[n][0]._replace(facts=[fact]) for n, fact in enumerate(post.facts[1:])]
    top = Part(post.title)
    if (found := over_recordings(result)) is not None:
        top = summary.beginning(
            own[0], verdict(result, None), "", found["comparison"], "recording", looks
        )
        top = top._replace(
            title=post.title,
            folds=[_over(found["recordings"], table) for table in replay.over(result)],
        )
    return Parts(top._replace(facts=post.facts[:1]), several, limits)


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
) -> tuple[Part, str]:
    platform, runs = result["platform"], own["runs"]
    finding = verdict_of(own)
    best = section_verdict(own)
    part = summary.beginning(own, best, finding, own["comparison"], "seed", looks)
    said, limits = summary.sentences(result, own, finding)
    failed = figure("failed", [run for run in runs if run["error"]])
    marks = summary.marks(own["comparison"], runs, looks)
    whole = compared(own["comparison"], "All metrics")
    drawn = table_html(whole, marks=marks, css="comparison")
    folds = [Fold(f"All {counted(len(whole.rows), 'metric')}", drawn)]
    folds += map(picture_fold, _pictures(platform, runs))
    if causes := replay.causes(own):
        folds.append(Fold("What ended the sleeps", Markup("").join(map(_caused, causes))))
    if (found := latency(runs, looks)) is not None:
        lines = {governor: summary.line(style) for governor, style in looks.items()}
        table = table_html(found["table"], marks=lines)
        drawn = figure("latency", found, table, number)
        folds.append(Fold("Wake-up latency", drawn, "cumulative, by governor"))
    if (choices := _strips(result, own)) is not None:
        folds.append(choices)
    if "trace" in own:
        folds.append(
            Fold("What the recording contains", inputs.tables(own), "events, losses, timers")
        )
    else:
        folds += table_folds(simulation.load(own))
    whole_part = part._replace(
        title=name, sentences=[*part.sentences, *said], body=failed + part.body, folds=folds
    )
    return whole_part, limits


def _pictures(platform: results.PlatformInfo, runs: Sequence[results.RunOutcome]) -> list[Picture]:
    columns = [(run["governor"], run["clusters"]) for run in runs if not run["error"]]
    found = []
    has_power = platform["has_power"]
    if time := residency(columns, "Governor"):
        lead = "Share of each cluster's CPU time, running and per idle state, shallowest first."
        if has_power:
            lead += " On the right the cluster's idle power in mW."
        if included := platform.get("power_includes"):
            lead += f" Power and energy on this page include: {', '.join(included)}."
        if missing := platform.get("power_missing"):
            lead += f" They do not include: {'; '.join(missing)}."
        note = f"by cluster{', with idle power' * has_power}"
        found.append(Picture("Where the time went", lead, time, note))
    depth = wrong_depth(columns, "governor")
    return [*found, depth] if depth.note else found


def _caused(table: Table) -> Markup:
    more = len(table.rows) - table.most
    return Markup('<p class="lead">{}</p>{}{}').format(
        table.title,
        table_html(table, [("", table.rows[: table.most])]),
        Markup('<p class="sub">{} more in the result.</p>').format(more) if more > 0 else "",
    )


def _strips(result: Result, own: Section) -> Fold | None:
    """Return the choices of the busiest CPU of each cluster."""
    columns = COLUMNS // len(sections(result))
    if columns < _COLUMNS_MIN:
        return None
    # A strip's CPU has the recording's number; the runs say which cluster played it.
    cluster_of = {
        cpu: cluster["name"]
        for run in own["runs"]
        for cluster in run["clusters"]
        for cpu in cluster["cpus"]
    }
    states = {
        cluster["name"]: [state["name"] for state in cluster["states"]]
        for cluster in result["platform"]["clusters"]
    }
    oracle = next((run["governor"] for run in own["runs"] if run["kind"] == "oracle"), None)
    busiest = dict[str, Any]()
    for raw in sorted(own["strips"], key=_sleeps, reverse=True):
        if raw["rows"] and raw["end_ns"] > raw["start_ns"] and raw["cpu"] in cluster_of:
            busiest.setdefault(cluster_of[raw["cpu"]], raw)
    drawn = [
        Strip(raw, f"CPU {raw['cpu']} ({name})", states[name], oracle)
        for name, raw in busiest.items()
    ]
    return picture_fold(picture(drawn, columns)) if drawn else None


def _sleeps(raw: results.Strip) -> int:
    return sum(len(row["segments"]) for row in raw["rows"])
