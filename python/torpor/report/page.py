# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A result becomes a page: what the templates need, gathered, and the size kept below 1 MB."""

from __future__ import annotations

from os import PathLike
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from torpor.comparison import base_text, rows, section_name, sections, task_rows
from torpor.several import over_recordings, sign_text

from . import bars, inputs, palette, strip
from .environment import page
from .finding import finding
from .handover import handover
from .latency import latency
from .numbers import duration, number

if TYPE_CHECKING:
    from torpor import results
    from torpor.comparison import Result, Section
    from torpor.several import OverCell

_SCRIPTS = ("draw.js", "strip-model.js", "strip.js", "latency.js", "tips.js")
_WITH_TRACE = (*_SCRIPTS, "perfetto.js")
# Below 1 MB with space for the markup around the strips' data.
_PAGE_BYTES = 960_000
# Of those that ended sleeps; the others fold away.
_CAUSES = 8


def render(
    result: Result, command: str | None = None, trace: str | PathLike[str] | None = None
) -> str:
    """The whole page for `result` (the engine's JSON, parsed) as HTML text.

    It ends with `command`, which repeats it, and has the `trace`, a file for Perfetto.
    """
    counts = {len(cluster["states"]) for cluster in result["platform"]["clusters"]}
    parts = sections(result)
    over = over_recordings(result)
    traces = [_section(result, part, number) for number, part in enumerate(parts, 1)]
    handed = trace and handover(trace, f"{traces[0]['name']} on {result['platform']['name']}")

    def draw(strip_budget_bytes: int) -> str:
        for trace, own in zip(traces, parts, strict=True):
            trace["strip"] = _strip(result["platform"], own, strip_budget_bytes)
        return page(
            "report.html.j2",
            scripts=_WITH_TRACE if handed else _SCRIPTS,
            handover=handed,
            more_style=palette.css(counts),
            over=over and list(zip(rows(over["comparison"]), over["rows"], strict=True)),
            over_labels=over and over["comparison"]["labels"],
            sign=_sign,
            result=result,
            governors=_governors(parts),
            traces=traces,
            command=command,
        )

    # The strips get what the rest of the page leaves, its trace apart.
    rest = len(draw(0).encode()) - len(handed["data"] or "" if handed else "")
    return draw(max(0, _PAGE_BYTES - rest) // max(len(traces), 1))


def _section(result: Result, own: Section, number: int) -> dict[str, object]:
    platform, runs = result["platform"], own["runs"]
    return {
        "id": f"t{number}",
        "name": PurePath(section_name(own)).name,
        "raw": own,
        "finding": finding(runs, own["inputs"]["sleep_length_sources"] if "inputs" in own else {}),
        "comparison": own["comparison"],
        "base_text": base_text(own["comparison"]),
        "residency": bars.residency(platform, runs),
        "depth": bars.wrong_depth(platform, runs),
        "latency": latency(runs),
        "inputs": inputs.tables(own) if "trace" in own else None,
        "causes": _causes(own),
        "tasks": task_rows(own) if "workload" in own else None,
    }


def _causes(own: Section) -> dict[str, object] | None:
    """Who ended sleeps: of each governor those with the most sleeps of a wrong depth."""
    found: Any = own.get("causes") if "trace" in own else None
    if not found:
        return None
    groups: dict[str, list[dict[str, object]]] = {}
    for cause in found:
        woken = cause["woken"]
        row: dict[str, object] = {
            **{key: number(cause[key]) for key in ("sleeps", "above", "below")},
            "kind": cause["kind"],
            "name": cause["name"],
            "mean": duration(cause["latency_ns"] / woken) if woken else "–",
            "max": duration(cause["latency_max_ns"]) if woken else "–",
        }
        groups.setdefault(cause["governor"], []).append(row)
    return {
        "groups": [(name, rows[:_CAUSES], rows[_CAUSES:]) for name, rows in groups.items()],
    }


def _strip(platform: results.PlatformInfo, own: Section, budget_bytes: int) -> Any:
    raw = own.get("strip")
    if not raw or not raw["rows"] or raw["end_ns"] <= raw["start_ns"]:
        return None
    # The strip's CPU has the recording's number; the runs say which cluster played it.
    names = [c["name"] for run in own["runs"] for c in run["clusters"] if raw["cpu"] in c["cpus"]]
    clusters = {c["name"]: c for c in platform["clusters"]}
    if not names or names[0] not in clusters:
        return None
    cluster = clusters[names[0]]
    colour = bars.classes(platform)
    states = [
        {"name": state["name"], "class": colour[cluster["name"], index]}
        for index, state in enumerate(cluster["states"])
    ]
    packed = strip.pack(raw, len(states), budget_bytes)
    kinds = {run["governor"]: run["kind"] for run in own["runs"]}
    governors = [row["governor"] for row in raw["rows"]]
    oracle = next((i for i, name in enumerate(governors) if kinds.get(name) == "oracle"), None)
    rows = []
    for index, name in enumerate(governors):
        segments = packed["rows"][index]
        row = {"governor": name, "sleeps": len(segments), "against": None}
        if oracle is not None and index != oracle:
            row["against"] = strip.against_oracle(segments, packed["rows"][oracle])
        rows.append(row)
    return {
        "cpu": raw["cpu"],
        "cluster": cluster["name"],
        "states": states,
        "rows": rows,
        "has_oracle": oracle is not None,
        "quantum_ns": packed["quantum_ns"],
        "shown_ns": packed["shown_ns"],
        "whole_ns": packed["whole_ns"],
        "engine_cut": raw["truncated"],
        "data": {
            "shown": packed["shown_ns"],
            "quantum": packed["quantum_ns"],
            "states": states,
            "oracle": -1 if oracle is None else oracle,
            "rows": [
                {"name": n, "data": d} for n, d in zip(governors, packed["packed"], strict=True)
            ],
        },
    }


def _governors(parts: list[Section]) -> list[results.RunOutcome]:
    """Each governor of the result once: its source is the same in every section."""
    seen: dict[str, results.RunOutcome] = {}
    for part in parts:
        for run in part["runs"]:
            seen.setdefault(run["governor"], run)
    return list(seen.values())


def _sign(cell: OverCell) -> str:
    """The sign test in one line: a narrow page scrolls its table."""
    return sign_text(cell).replace(" ", "\N{NO-BREAK SPACE}")
