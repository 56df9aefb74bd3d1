# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Sentences on governors that were run: replayed, simulated, or on a live machine."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torpor import _engine
from torpor.results.comparison import SLEEP_LENGTH_WORDS, percent, sections, sources_text
from torpor.results.sentences.sides import (
    WRONG,
    Counts,
    Side,
    add,
    alone,
    counts_of,
    differences,
    grouped,
    none,
    other_of,
    ratio,
    sentence,
    side_of_run,
    where,
)

if TYPE_CHECKING:
    from torpor.results import schema as shapes

_WINDOWS = 10


def of_compared(result: Any, governor: str | None) -> list[str]:
    told = []
    several = sections(result)
    for section in several:
        runs = section["runs"]
        places = [place for place, run in enumerate(runs) if not run["error"]]
        base = section["comparison"]["base"]
        if base is None:
            told.append("No governor finished, so nothing is compared.")
            continue
        other = other_of(section["comparison"]["labels"], base, places, governor)
        name = f"{section['trace']['path']}: " if "trace" in section and len(several) > 1 else ""
        limits = _limits(result, section)
        if other is None:
            one = side_of_run(runs[base])
            told += [name + alone(one), _inputs(section, [runs[base]]), limits]
            continue
        first, second = side_of_run(runs[base]), side_of_run(runs[other])
        told += [
            name + differences(section["comparison"], base, other),
            where(first, second),
            _when(section, first.label, second.label) or _cpus(first, second),
            _inputs(section, [runs[base], runs[other]]),
            limits,
        ]
    return told


def _cpus(first: Side, second: Side) -> str:
    """Which CPUs the change is found on."""
    if len(second.cpus) < 2:
        return ""
    changes = {
        cpu: sum(counts[s] - first.cpus.get(cpu, {}).get(s, 0) for s in WRONG)
        for cpu, counts in second.cpus.items()
    }
    whole = sum(changes.values())
    if not whole:
        return ""
    same_way = {cpu: c for cpu, c in changes.items() if c * whole > 0}
    ranked = sorted(same_way, key=lambda cpu: (-abs(same_way[cpu]), cpu))
    half, reached = [], 0.0
    for cpu in ranked:
        half.append(cpu)
        reached += same_way[cpu]
        if abs(reached) * 2 >= abs(whole):
            break
    listed = _engine.format_cpu_list(sorted(half))
    return (
        f"CPU{'s' * (len(half) > 1)} {listed}, {len(half)} of {len(changes)}, account for "
        f"{reached:+,.0f} of the change of {whole:+,.0f} in sleeps of a wrong depth."
    )


def _when(section: Any, first: str, second: str) -> str:
    """When the two chose differently, on the busiest CPU."""
    strip = next(iter(section["strips"]), None)
    rows = {row["governor"]: row["segments"] for row in strip["rows"]} if strip else {}
    if strip is None or first not in rows or second not in rows:
        return ""
    start, end = strip["start_ns"], strip["end_ns"]
    each = (end - start) / _WINDOWS
    both = [0.0] * _WINDOWS
    apart = [0.0] * _WINDOWS
    deeper = 0.0
    a, b = rows[first], rows[second]
    i = j = 0
    while i < len(a) and j < len(b):
        (begin1, end1, state1), (begin2, end2, state2) = a[i], b[j]
        begin, stop = max(begin1, begin2), min(end1, end2)
        if begin < stop and each:
            for window in range(int((begin - start) // each), _WINDOWS):
                low, high = start + window * each, start + (window + 1) * each
                overlap = min(stop, high) - max(begin, low)
                if overlap <= 0:
                    break
                both[window] += overlap
                apart[window] += overlap * (state1 != state2)
                deeper += overlap * (state2 > state1)
        i, j = (i + 1, j) if end1 <= end2 else (i, j + 1)
    if not sum(apart):
        return ""
    top = max(range(_WINDOWS), key=lambda w: apart[w])
    low, high = (each * top / 1e9, each * (top + 1) / 1e9)
    return (
        f"On CPU {strip['cpu']} the two are in different states in "
        f"{percent(sum(apart) / sum(both))} of the time that both sleep ({second} deeper in "
        f"{percent(deeper / sum(both))}); "
        f"{percent(apart[top] / sum(apart))} of that is between {low:.2f} s and {high:.2f} s."
    )


def _inputs(section: Any, runs: Sequence[Any]) -> str:
    """Describe the governors' inputs: the time to the next timer, and the tick."""
    parts = []
    ticks = [(run["metrics"].get("tick_wakeups"), run) for run in runs]
    told = [
        f"{grouped(count)} of {grouped(run['metrics']['sleeps'])} sleeps with {run['governor']}"
        for count, run in ticks
        if count is not None and run["metrics"].get("sleeps")
    ]
    if told and any(count for count, _ in ticks):
        parts.append(f"the tick alone, which a governor may keep, ended {' and '.join(told)}")
    sources = runs[-1]["sleep_length_sources"]
    if sum(sources.values()) and "trace" in section:
        shares = sources_text(sources, SLEEP_LENGTH_WORDS)
        parts.append(f"the time to the next timer came from: {shares}")
    return sentence("; ".join(parts))


def _limits(result: Any, section: Any) -> str:
    """Describe what this recording cannot show, the first reasons with their figure."""
    reasons = []
    failed = [run["governor"] for run in section["runs"] if run["error"]]
    if failed:
        reasons.append(f"{len(failed)} governors failed ({', '.join(failed)})")
    if "trace" in section:
        sources = section["inputs"]["sleep_length_sources"]
        unknown = ratio(sources.get("tick_only", 0), sum(sources.values()))
        if unknown:
            reasons.append(f"in {percent(unknown)} of the decisions the next timer is not recorded")
        lost = sum(x["count"] for x in section["trace"]["losses"] if x["severity"] != "info")
        if lost:
            reasons.append(f"{grouped(lost)} pieces of the recording are lost")
        agreement = section.get("agreement")
        if agreement and not agreement["verdict"]["is_verified"]:
            reasons.append(
                "what the recorded machine did, of whose decisions no governor on the machine of "
                f"--recorded-on explains more than {percent(agreement['verdict']['agreement'])}"
            )
    if not result["platform"]["has_power"]:
        reasons.append(f"energy: {result['platform']['name']} has 0 measured powers")
    if "trace" in section:
        seconds = section["trace"]["duration_ns"] / 1e9
        count = len(result["traces"])
        reasons.append(
            f"what a later wake-up changes in the work, since the input is {seconds:.2f} s of "
            f"{'one recording' if count == 1 else 'a recording'}; and chance, of which one "
            "recording has no measure"
        )
    else:
        reasons.append(
            f"what another workload or machine does: this is 1 workload, "
            f"{result['options']['seeds']} seeds, on a model of {result['platform']['name']}"
        )
    return f"Not to be said from this: {'; '.join(reasons)}."


def of_ab(result: "shapes.Ab", governor: str | None) -> list[str]:
    compared = result["comparison"]
    if compared is None or compared["base"] is None:
        return [f"No round of {result['rounds']} was finished, so nothing is compared."]
    labels = compared["labels"]
    other = other_of(labels, compared["base"], range(len(labels)), governor)
    reasons = [f"other machines and loads: this is 1 machine, {result['finished_rounds']} rounds"]
    if not any(row["kind"] in ("energy", "power") for row in compared["rows"]):
        reasons.append("energy, with 0 counters of it that may be read")
    limits = f"Not to be said from this: {'; '.join(reasons)}."
    sides = [_side_of_ab(result, label) for label in labels]
    if other is None:
        return [alone(sides[0]), limits]
    return [
        differences(compared, compared["base"], other),
        where(sides[compared["base"]], sides[other]),
        limits,
    ]


def _side_of_ab(result: "shapes.Ab", label: str) -> Side:
    states: dict[tuple[str, int, str], Counts] = {}
    for run in result["runs"]:
        for group in run["counters"]["groups"] if run["governor"] == label else ():
            cpus = f"CPUs {_engine.format_cpu_list(group['cpus'])}"
            for place, state in enumerate(group["states"]):
                key = (cpus, place, f"{place} {state['name']}")
                add(states.setdefault(key, none()), counts_of(state))
    return Side(label, states, {})
