# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The pictures of what was counted, verified and reproduced, drawn as those of a replay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from torpor import _engine
from torpor.results.numbers import share
from torpor.view.report import bars
from torpor.view.report.charts import changes
from torpor.view.report.palette import state_class


class Picture(NamedTuple):
    """A picture: ``kind`` says what draws it, ``rows`` what its rows are."""

    kind: str
    title: str
    lead: str
    drawn: Any
    rows: str = ""


#: Sums of what a run did: clusters (name, CPUs, time awake), each with its states.
_Clusters = list[dict[str, Any]]


def pictures(result: Mapping[str, Any]) -> list[Picture]:
    """Return the pictures of a result; a kind that has none gives none."""
    draw = _KINDS.get(result["kind"])
    return draw(result) if draw else []


def state_counts(result: Mapping[str, Any]) -> set[int]:
    """The numbers of states that have colours in the pictures of a result."""
    if result["kind"] == "fidelity":
        return {len(result["states"]), 2}
    runs = _RUNS[result["kind"]](result) if result["kind"] in _RUNS else []
    return {len(cluster["states"]) for _, clusters in runs for cluster in clusters}


def _counted(result: Mapping[str, Any]) -> list[Picture]:
    """Return pictures of each column's time, and of its sleeps of a wrong depth."""
    runs: list[Any] = [
        {"governor": label, "error": None, "clusters": clusters}
        for label, clusters in _RUNS[result["kind"]](result)
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
        found.append(Picture("stacks", "Where the time went", lead, panels, "Column"))
    judged = [
        run
        for run in runs
        if all(s["above"] is not None for c in run["clusters"] for s in c["states"])
    ]
    depth = bars.wrong_depth(platform, judged)
    if depth["panels"]:
        lead = (
            "In percent of the column's sleeps on all CPUs: left, sleeps that ended before the "
            "state's target residency (too deep, above); right, sleeps long enough for the next "
            "deeper state (too shallow, below). One scale for all."
        )
        found.append(Picture("depth", "Wrong depth, by the state entered", lead, depth))
    return found


def _cluster(
    name: str, cpus: list[int], states: Iterable[Mapping[str, Any]], whole_ns: float | None
) -> dict[str, Any]:
    own = [
        {
            "index": index,
            "name": state["name"],
            "time_ns": state["time_ns"],
            "usage": state["usage"] or 0,
            "above": state["above"],
            "below": state["below"],
        }
        for index, state in enumerate(states)
    ]
    slept_ns = sum(state["time_ns"] for state in own)
    running_ns = 0 if whole_ns is None else max(0, whole_ns - slept_ns)
    return {
        "name": name,
        "cpus": cpus,
        "running_ns": running_ns,
        "states": own,
        "has_clock": whole_ns is not None,
    }


def _of_diff(result: Any) -> list[tuple[str, _Clusters]]:
    runs: dict[str, _Clusters] = {}
    for group in result["groups"]:
        name = f"CPU {_engine.format_cpu_list(group['cpus'])}"
        for column in group["columns"]:
            states = [
                {**counts, "name": state["name"], "time_ns": 1000 * (counts["time_us"] or 0)}
                for state, counts in zip(group["states"], column["states"], strict=True)
            ]
            is_whole = column["residency_of"] == "elapsed" and column["elapsed_ns"] is not None
            whole_ns = column["elapsed_ns"] * len(column["cpus"]) if is_whole else None
            runs.setdefault(column["label"], []).append(_cluster(name, [], states, whole_ns))
    return list(runs.items())


def _of_ab(result: Any) -> list[tuple[str, _Clusters]]:
    runs = []
    for governor in result["governors"]:
        of = [run["counters"] for run in result["runs"] if run["governor"] == governor["label"]]
        clusters = []
        for place, group in enumerate(of[0]["groups"] if of else ()):
            each = [counters["groups"][place]["states"] for counters in of]
            states = [
                {
                    "name": state["name"],
                    "time_ns": 1000 * (_sum(each, index, "time_us") or 0),
                    **{key: _sum(each, index, key) for key in ("usage", "above", "below")},
                }
                for index, state in enumerate(group["states"])
            ]
            elapsed = [counters["elapsed_ns"] for counters in of]
            whole_ns = None if None in elapsed else sum(elapsed) * len(group["cpus"])
            name = f"CPU {_engine.format_cpu_list(group['cpus'])}"
            clusters.append(_cluster(name, [], states, whole_ns))
        runs.append((governor["label"], clusters))
    return runs


def _sum(each: list[Any], index: int, key: str) -> int | None:
    counts = [states[index][key] for states in each]
    return None if None in counts else sum(counts)


def _of_trace(stats: Any) -> list[tuple[str, _Clusters]]:
    """Return the recorded machine's states, as far as the recording shows them."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    cpus: dict[str, set[int]] = {}
    is_judged = stats["verdict_source"] is not None
    for state in stats["states"]:
        name = state["cluster"] or "all CPUs"
        cpus.setdefault(name, set()).add(state["cpu"])
        sums = found.setdefault(name, {}).setdefault(state["state"], _empty(state, is_judged))
        for key in ("time_ns", "usage", *("above", "below") * is_judged):
            sums[key] += state[key] or 0
    clusters = []
    for name, states in found.items():
        # States are distinguished by their place, which one that was never entered has, too.
        every = [
            states.get(index) or _empty({"name": None, "state": index}, is_judged)
            for index in range(max(states) + 1)
        ]
        whole_ns = stats["trace"]["duration_ns"] * len(cpus[name])
        clusters.append(_cluster(name, sorted(cpus[name]), every, whole_ns))
    return [("recorded", clusters)]


def _empty(state: Mapping[str, Any], is_judged: bool) -> dict[str, Any]:
    none = 0 if is_judged else None
    name = state["name"] or f"state {state['state']}"
    return {"name": name, "time_ns": 0, "usage": 0, "above": none, "below": none}


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
            "stacks",
            "Who decides as this machine did",
            "Share of the recorded decisions that each governor would have taken alike, given "
            "the recorded outcome of each.",
            panels,
            "Governor",
        ),
        Picture(
            "stacks",
            "What the best one chose instead",
            f"One bar for each state that was recorded: what {best['governor']} chose.",
            confusion,
            "Recorded",
        ),
    ]


def _panel(name: str, key: list[tuple[str, str]], drawn: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "cpus": "", "key": key, "bars": drawn}


def _bar(label: str, parts: list[tuple[str, str, int]]) -> dict[str, Any]:
    whole = sum(count for _, _, count in parts)
    segments = [
        {
            "name": name,
            "class": css,
            "width": f"{100 * count / whole if whole else 0:.3f}",
            "share": share(count, whole),
            "time": f"{count:,} decisions",
            "drawn": count > 0,
        }
        for name, css, count in parts
    ]
    return {"governor": label, "segments": segments, "power": ""}


def _reproduction(result: Any) -> list[Picture]:
    plot = changes(result)
    if plot is None:
        return []
    lead = (
        "Each number against the first column of its row: across, as published; up, as simulated. "
        "On the line both agree; in the shaded quarters even the sign is wrong. Hollow: calibrated "
        "or not judged. Point at a dot to read it; every number is in the tables below."
    )
    return [Picture("plot", "Changes, published and simulated", lead, plot)]


_RUNS: dict[str, Callable[[Any], list[tuple[str, _Clusters]]]] = {
    "diff": _of_diff,
    "ab": _of_ab,
    "trace_stats": _of_trace,
}
_KINDS: dict[str, Callable[[Any], list[Picture]]] = {
    "diff": _counted,
    "ab": _counted,
    "trace_stats": _counted,
    "fidelity": _fidelity,
    "reproduction": _reproduction,
}
