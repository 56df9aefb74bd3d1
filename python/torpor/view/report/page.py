# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A result becomes a page: what the templates need, gathered, and the size kept below 1 MB."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, NamedTuple

from torpor.results import types as results
from torpor.results.comparison import Result, Section, base_text, section_name, sections
from torpor.results.kinds import replay, simulation
from torpor.results.kinds.runs import verdict_of
from torpor.results.over_recordings import over_recordings
from torpor.results.text import distinct_names
from torpor.view.report import bars, inputs, palette, strip, summary
from torpor.view.report.environment import page
from torpor.view.report.handover import handover, without
from torpor.view.report.latency import latency

_SCRIPTS = ("draw.js", "strip-model.js", "strip.js", "latency.js", "tips.js")
_WITH_TRACE = (*_SCRIPTS, "perfetto.js")
# Below 1 MB with space for the markup around the strips' data.
_PAGE_BYTES = 960_000


def render(
    result: Result,
    command: str | None = None,
    trace: str | PathLike[str] | None = None,
    why_no_trace: str | None = None,
) -> str:
    """The whole page for `result` (the engine's JSON, parsed) as HTML text.

    It ends with `command`, which repeats it, and has the `trace`, a file for Perfetto, or says
    `why_no_trace`.
    """
    counts = {len(cluster["states"]) for cluster in result["platform"]["clusters"]}
    parts = sections(result)
    over = replay.over(result) if "traces" in result else []
    found = over_recordings(result) if over else None
    names = distinct_names(map(section_name, parts))
    style = summary.styles(_governors(parts))
    traces = [_section(result, part, number, names, style) for number, part in enumerate(parts, 1)]
    first: Any = traces[0]
    top = first["summary"] if len(parts) == 1 else None
    if found is not None:
        top = summary.summary(result, parts[0], "", found["comparison"], "recording")
    title = f"{first['name']} on {result['platform']['name']}"
    handed = handover(trace, title) if trace else without(result["kind"], why_no_trace)

    strips = [_strips(result["platform"], own) for own in parts]

    def draw(strip_budget_bytes: int) -> str:
        for trace, own in zip(traces, strips, strict=True):
            trace["strips"] = own and _packed(own, strip_budget_bytes)
        return page(
            "report.html.j2",
            scripts=_WITH_TRACE if handed["data"] else _SCRIPTS,
            handover=handed,
            more_style=palette.css(counts),
            over=over,
            over_comparison=found and found["comparison"],
            top=top,
            looks=style,
            result=result,
            governors=_governors(parts),
            traces=traces,
            command=command,
        )

    # The strips get what the rest of the page leaves, its trace apart.
    rest = len(draw(0).encode()) - len(handed["data"] or "")
    return draw(max(0, _PAGE_BYTES - rest) // max(len(traces), 1))


def _section(
    result: Result, own: Section, number: int, names: Mapping[str, str], style: Mapping[str, Any]
) -> dict[str, object]:
    platform, runs = result["platform"], own["runs"]
    finding = verdict_of(own)
    said, limits = summary.sentences(result, own, finding)
    return {
        "id": f"t{number}",
        "name": names[section_name(own)],
        "raw": own,
        "summary": summary.summary(result, own, finding, own["comparison"], "seed"),
        "said": said,
        "limits": limits,
        "comparison": own["comparison"],
        "base_text": base_text(own["comparison"]),
        "residency": bars.residency(platform, runs),
        "depth": bars.wrong_depth(platform, runs),
        "latency": latency(runs, style),
        "inputs": inputs.tables(own) if "trace" in own else None,
        "causes": replay.causes(own),
        "tasks": simulation.tasks(own) if "workload" in own else [],
    }


class _Strips(NamedTuple):
    """The strips of a section."""

    #: Clusters that have one of the CPUs: name, and states in their colours.
    clusters: list[dict[str, Any]]
    #: With the number of its cluster.
    cpus: list[tuple[strip.Strip, int]]
    oracle: int | None


def _strips(platform: results.PlatformInfo, own: Section) -> _Strips | None:
    # A strip's CPU has the recording's number; the runs say which cluster played it.
    clusters_run = [cluster for run in own["runs"] for cluster in run["clusters"]]
    cluster_of = {cpu: cluster["name"] for cluster in clusters_run for cpu in cluster["cpus"]}
    colour = bars.classes(platform)
    known = {cluster["name"]: number for number, cluster in enumerate(platform["clusters"])}
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
        number = known.get(cluster_of.get(raw["cpu"], ""))
        if raw["rows"] and raw["end_ns"] > raw["start_ns"] and number is not None:
            found.append((strip.Strip(raw, len(clusters[number]["states"])), number))
    if not found:
        return None
    kinds = {run["governor"]: run["kind"] for run in own["runs"]}
    names = [row["governor"] for row in found[0][0].raw["rows"]]
    oracle = next((i for i, name in enumerate(names) if kinds.get(name) == "oracle"), None)
    return _Strips(clusters, found, oracle)


def _packed(strips: _Strips, budget_bytes: int) -> dict[str, Any]:
    """Return the template's data of the strips, within so much of base64."""
    given = strip.shares([own.size(budget_bytes) for own, _ in strips.cpus], budget_bytes)
    origin = min(own.raw["start_ns"] for own, _ in strips.cpus)
    shown, data = [], []
    for (own, cluster), budget in zip(strips.cpus, given, strict=True):
        packed = own.pack(budget)
        rows = []
        for index, row in enumerate(own.raw["rows"]):
            segments, against = packed["rows"][index], None
            if strips.oracle is not None and index != strips.oracle:
                against = strip.against_oracle(segments, packed["rows"][strips.oracle])
            name = row["governor"]
            rows.append({"governor": name, "sleeps": len(segments), "against": against})
        shown.append(
            {
                "cpu": own.raw["cpu"],
                "cluster": strips.clusters[cluster]["name"],
                "rows": rows,
                "quantum_ns": packed["quantum_ns"],
                "shown_ns": packed["shown_ns"],
                "whole_ns": packed["whole_ns"],
                "engine_cut": own.raw["truncated"],
            }
        )
        data.append(
            {
                "name": f"{own.raw['cpu']} ({strips.clusters[cluster]['name']})",
                "cluster": cluster,
                # Times of all CPUs are from the first one's start on.
                "start": own.raw["start_ns"] - origin,
                "end": own.raw["start_ns"] - origin + packed["shown_ns"],
                "quantum": packed["quantum_ns"],
                "rows": packed["packed"],
            }
        )
    used = {cluster for _, cluster in strips.cpus}
    return {
        "cpus": shown,
        "clusters": [(number, c) for number, c in enumerate(strips.clusters) if number in used],
        "by_number": sorted(range(len(shown)), key=lambda index: shown[index]["cpu"]),
        "has_oracle": strips.oracle is not None,
        "data": {
            "clusters": strips.clusters,
            "governors": [row["governor"] for row in shown[0]["rows"]],
            "oracle": -1 if strips.oracle is None else strips.oracle,
            "cpus": data,
        },
    }


def _governors(parts: list[Section]) -> list[results.RunOutcome]:
    """Each governor of the result once: its source is the same in every section."""
    seen: dict[str, results.RunOutcome] = {}
    for part in parts:
        for run in part["runs"]:
            seen.setdefault(run["governor"], run)
    return list(seen.values())
