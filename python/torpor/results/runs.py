# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Governors that were run: parts that replays and simulations share."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from torpor import _engine
from torpor.results import types as results
from torpor.results.cells import count_cells, states_table
from torpor.results.comparison import (
    Result,
    Section,
    agreement_text,
    base_text,
    class_shares,
    percent,
    section_name,
    sections,
    short_labels,
    sources_text,
)
from torpor.results.kind import Column, Input, Sample, with_rates
from torpor.results.over_recordings import over_recordings
from torpor.results.sentences import (
    WRONG,
    Side,
    alone,
    best_other,
    cannot_show,
    count_text,
    differences,
    headline,
    sentence,
    side_of_run,
    signed_count,
    where,
)
from torpor.results.table import Table, Verdict, counted, share, word
from torpor.results.text import distinct_names
from torpor.results.verdict import finding

#: Parts of the strip, to find the one in which two governors differ most.
_WINDOWS = 10

#: From, to (ns), and the index of an idle state.
Segment = tuple[int, int, int]


def machine_fact(result: "Result", writes: Iterable[str] = ()) -> str:
    """Return the machine, limits, what is written to the kernel's files, and the version."""
    facts = [f"{result['platform']['title']}", *settings(result, writes)]
    return f"{', '.join(facts)}; Torpor {result['torpor']['version']}"


def settings(result: "Result", writes: Iterable[str] = ()) -> list[str]:
    """Return limits, what is written to the kernel's files, and disabled states."""
    options, facts = result["options"], list[str]()
    if options["latency_limit_ns"] is not None:
        facts.append(f"latency limit {options['latency_limit_ns'] / 1e3:g} µs")
    given = options.get("given", {}).get("latency_limit") or ""
    limits = (given if isinstance(given, str) else ",".join(given)).split(",")
    facts += [f"latency limit of CPU {x.replace(':', ' ')}" for x in limits if ":" in x]
    facts += writes
    for disabled in options["disabled_states"]:
        cpu = "" if disabled["cpu"] is None else f" of CPU {disabled['cpu']}"
        facts.append(f"state {disabled['state']}{cpu} disabled")
    return facts


def cpus_text(section: "Section", count: int) -> str:
    """Return the number of CPUs, and of those that took part."""
    part = {cpu for run in section["runs"] for c in run["clusters"] for cpu in c["cpus"]}
    share_of = f"{len(part)} of " if 0 < len(part) < count else ""
    return f"{share_of}{counted(count, 'CPU')}"


def notes(result: "Result") -> list[str]:
    """Return failures, the base of changes, inputs and losses of each section; then its notes."""
    found = []
    for section in sections(result):
        found += [
            f"{run['governor']} failed: {run['error']}" for run in section["runs"] if run["error"]
        ]
        if text := base_text(section["comparison"]):
            found.append(text)
        if "trace" in section:
            if shares := sources_text(section["inputs"]["sleep_length_sources"]):
                found.append(f"Time to the next timer: {shares}.")
            if agreement := section.get("agreement"):
                found.append(
                    f"{agreement_text(agreement, section['inputs']['recorded_on'])} "
                    "For details, run `torpor fidelity`."
                )
            found += [
                f"{loss['severity'].capitalize()}: {loss['count']} × {loss['advice']}"
                for loss in section["trace"]["losses"]
                if loss["severity"] != "info"
            ]
    return [*dict.fromkeys(found), *result["notes"]]


def inputs(result: "Result") -> list[Input]:
    """Return the platform, each recording or the workload, and the governors."""
    platform = result["platform"]
    found = [Input("platform", f"{platform['name']}, {platform['title']}", platform["sha256"])]
    for section in sections(result):
        if "trace" in section:
            trace = section["trace"]
            facts = [trace["path"], f"clock {trace['clock']}", trace["machine"] or ""]
            found.append(Input("trace", ", ".join(filter(None, facts)), trace["sha256"]))
        else:
            workload = section["workload"]
            of = f"{workload['name']}, {workload['title']}; from {'; '.join(workload['sources'])}"
            found.append(Input("workload", of, workload["sha256"]))
    runs = {run["governor"]: run for section in sections(result) for run in section["runs"]}
    for name, run in runs.items():
        params = [f"{key}={value}" for key, value in sorted(run["params"].items())]
        of = ", ".join([f"{name}: {run['origin']}", *params])
        found.append(Input("governor", of, run["source_sha256"]))
    return found


def short_names(section: "Section") -> list[str]:
    """Return the governors of a section, shortened."""
    return short_labels([run["governor"] for run in section["runs"]])


def states(section: "Section", of: str = "") -> list[Table]:
    """Return a table of idle states for each governor; a terminal does not show it."""
    tables = []
    for run, short in zip(section["runs"], short_names(section), strict=True):
        rows = []
        for cluster in run["clusters"]:
            slept_ns = sum(state["time_ns"] for state in cluster["states"])
            whole_ns = cluster["running_ns"] + slept_ns
            for state in cluster["states"]:
                counts = {**state, "time_us": state["time_ns"] / 1e3}
                counts["residency_ratio"] = share(state["time_ns"], whole_ns, 1)
                name = f"{state['index']} {state['name']}"
                rows.append([word(cluster["name"]), word(name), *count_cells(counts)])
        if rows:
            found = states_table(f"{of}{short}", ["cluster", "state"], rows)
            tables.append(found._replace(is_detail=True))
    return tables


def verdict(result: Any, governor: str | None) -> Verdict | None:
    """Return how the best other governor, or the one named, compares with the first."""
    own = sections(result)
    if (found := over_recordings(result)) is not None:
        compared = found["comparison"]
        other = best_other(compared, own[0]["runs"], governor)
        base = compared["base"]
        if said := _compared(compared, base, other, "recording"):
            return said
    return section_verdict(own[0], governor)


def section_verdict(section: "Section", governor: str | None = None) -> Verdict:
    """Return how the best other governor of a section compares with the first."""
    compared, best = section["comparison"], verdict_of(section)
    base = compared["base"]
    other = best_other(compared, section["runs"], governor)
    said = None if best.startswith("No verdict") else _compared(compared, base, other, "seed")
    return said or Verdict("", best.partition(". ")[0])


def _compared(
    compared: "results.Comparison", base: int | None, other: int | None, draws: str
) -> Verdict | None:
    """Return how a column compares with the base; None where there are not both."""
    if base is None or other is None:
        return None
    return headline(compared, base, other, draws)


def explain(result: Any, governor: str | None) -> list[str]:
    """Return what differs, where, when, by which inputs, and what it cannot show."""
    said = []
    several = sections(result)
    for section in several:
        runs = section["runs"]
        base = section["comparison"]["base"]
        if base is None:
            continue
        other = best_other(section["comparison"], runs, governor)
        if "trace" in section and len(several) > 1:
            said.append(f"{section['trace']['path']}: {section_verdict(section, governor)}")
        limits = _limits(result, section)
        if other is None:
            said += [alone(side_of_run(runs[base])), _inputs(section, [runs[base]]), limits]
            continue
        first, second = side_of_run(runs[base]), side_of_run(runs[other])
        said += [
            differences(section["comparison"], base, other),
            where(first, second),
            _when(section, first.label, second.label) or _cpus(first, second),
            verdict_of(section),
            _inputs(section, [runs[base], runs[other]]),
            limits,
        ]
    return said


def verdict_of(section: "Section") -> str:
    """Return which governor is best in a section, and its cost."""
    sources: Any = section["inputs"]["sleep_length_sources"] if "inputs" in section else {}
    return finding(section["runs"], sources)


def _cpus(first: Side, second: Side) -> str:
    """Return the CPUs on which most of the change is."""
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
        f"{signed_count(reached)} of the change of {signed_count(whole)} in sleeps of a wrong "
        "depth."
    )


def both_asleep(
    row: Sequence[Segment], other: Sequence[Segment]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield from, to, and both states of each time in which both rows sleep."""
    others = iter(other)
    its = next(others, None)
    for a1, b1, s1 in row:
        while its is not None:
            a2, b2, s2 = its
            # Hundreds of thousands of times: a comparison takes a third of a call of max.
            start, end = a1 if a1 >= a2 else a2, b1 if b1 <= b2 else b2
            if start < end:
                yield start, end, s1, s2
            if b1 <= b2:
                break
            its = next(others, None)


def _when(section: Any, first: str, second: str) -> str:
    """Return the time at which the two chose differently, on the busiest CPU."""
    strip = next(iter(section["strips"]), None)
    rows = {row["governor"]: row["segments"] for row in strip["rows"]} if strip else {}
    if strip is None or first not in rows or second not in rows:
        return ""
    start, end = strip["start_ns"], strip["end_ns"]
    each = (end - start) / _WINDOWS
    ends = [start + window * each for window in range(_WINDOWS + 1)]
    both = [0.0] * _WINDOWS
    apart = [0.0] * _WINDOWS
    deeper = 0.0
    for begin, stop, state1, state2 in both_asleep(rows[first], rows[second]) if each else ():
        for window in range(int((begin - start) // each), _WINDOWS):
            low, high = ends[window], ends[window + 1]
            overlap = (stop if stop < high else high) - (begin if begin > low else low)
            if overlap <= 0:
                break
            both[window] += overlap
            if state1 != state2:
                apart[window] += overlap
                if state2 > state1:
                    deeper += overlap
            if stop <= high:
                break
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
    said = [
        f"{count_text(count)} of {count_text(run['metrics']['sleeps'])} sleeps "
        f"with {run['governor']}"
        for count, run in ticks
        if count is not None and run["metrics"].get("sleeps")
    ]
    if said and any(count for count, _ in ticks):
        parts.append(f"the tick alone, which a governor may keep, ended {' and '.join(said)}")
    if "trace" in section and (shares := sources_text(runs[-1]["sleep_length_sources"])):
        parts.append(f"the time to the next timer was {shares}")
    return sentence("; ".join(parts))


def _limits(result: Any, section: Any) -> str:
    """Describe what this recording cannot show, the first reasons with their figure."""
    reasons = []
    failed = [run["governor"] for run in section["runs"] if run["error"]]
    if failed:
        reasons.append(f"{counted(len(failed), 'governor')} failed ({', '.join(failed)})")
    if "trace" in section:
        recorded = class_shares(section["inputs"]["sleep_length_sources"]).get("recorded", 1)
        if recorded < 1:
            unknown = percent(1 - recorded)
            reasons.append(f"in {unknown} of the decisions the next timer is not recorded")
        lost = sum(x["count"] for x in section["trace"]["losses"] if x["severity"] != "info")
        if lost:
            reasons.append(f"{count_text(lost)} pieces of the recording are lost")
        agreement = section.get("agreement")
        if agreement and not agreement["verdict"]["is_verified"]:
            reasons.append(
                "what the recorded machine did, of whose decisions no governor on "
                f"{section['inputs']['recorded_on']} explains more than "
                f"{percent(agreement['verdict']['agreement'])}"
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
            "what another workload or machine does: this is 1 workload, "
            f"{counted(result['options']['seeds'], 'seed')}, on a model of "
            f"{result['platform']['name']}"
        )
    return cannot_show(reasons)


def columns(result: Any) -> Iterator[Column]:
    """Return the metrics of each run."""
    several = len(sections(result)) > 1
    short = distinct_names(map(section_name, sections(result)))
    for section in sections(result):
        name = section_name(section)
        if "trace" in section:
            seconds = section["trace"]["duration_ns"] / 1e9
            of = {"recording": name}
        else:
            seconds = result["options"]["duration_ns"] / 1e9
            of = {"workload": name}
        of |= {
            "kind": result["kind"],
            "machine": result["platform"]["name"],
            "duration": f"{seconds:.2f} s",
            "tick rate": f"{result['options']['hz']} Hz",
        }
        for run in section["runs"]:
            label = f"{short[name]}, {run['governor']}" if several else run["governor"]
            yield Column(label, with_rates(run["metrics"], seconds), of)


def samples(result: Any) -> Iterator[Sample]:
    """Return the metrics of each run; those of a simulation by seed."""
    for section in sections(result):
        scenario = f"{section_name(section)}, {result['platform']['name']}"
        for run in section["runs"]:
            if run["error"] is not None:
                continue
            seeds: Any = run.get("seeds") or [{"seed": 0, "metrics": run["metrics"]}]
            for seed in seeds:
                yield Sample(scenario, run["governor"], seed["seed"], seed["metrics"])


def contradictions(result: Any) -> Iterator[str]:
    """Compare runs with columns, states with the platform, and strips with both."""
    for section in sections(result):
        count, columns = len(section["runs"]), len(section["comparison"]["labels"])
        if count != columns:
            yield f"{count} runs for {columns} columns"
        yield from _of_states(result["platform"], section)
        yield from _of_strips(section)


def _of_states(platform: Mapping[str, Any], section: Mapping[str, Any]) -> Iterator[str]:
    """Compare each column's clusters and states with the platform's."""
    counts = {cluster["name"]: len(cluster["states"]) for cluster in platform["clusters"]}
    if len(counts) != len(platform["clusters"]):
        yield "two clusters of the platform have one name"
    for run in section["runs"]:
        named = [("name", cluster) for cluster in run["clusters"]]
        named += [("cluster", cpu) for cpu in run["cpus"]]
        for key, part in named:
            count = counts.get(part[key])
            if count is None:
                yield f"`{run['governor']}` has a cluster `{part[key]}`, the platform has none"
            elif [state["index"] for state in part["states"]] != list(range(count)):
                yield (
                    f"the states of `{part[key]}` under `{run['governor']}` are not "
                    f"the platform's 0 to {count - 1}"
                )


def _of_strips(section: Mapping[str, Any]) -> Iterator[str]:
    """Check that sleeps lie within their strip, one after the other, in states there are."""
    state_counts = {
        cpu: len(cluster["states"])
        for run in section["runs"]
        for cluster in run["clusters"]
        for cpu in cluster["cpus"]
    }
    drawn: list[str] | None = None
    for strip in section.get("strips", ()):
        start, end, cpu = strip["start_ns"], strip["end_ns"], strip["cpu"]
        names = [row["governor"] for row in strip["rows"]]
        if drawn not in (None, names):
            yield f"the strip of CPU {cpu} does not have the columns of the one before"
        drawn = names
        for row in strip["rows"]:
            edges = [edge for begin, until, _ in row["segments"] for edge in (begin, until)]
            # The last sleep may end after the window, by the exit latency.
            if any(a > b for a, b in pairwise([start, *edges])) or edges[-2:-1] > [end]:
                yield f"the sleeps of CPU {cpu} under `{row['governor']}` are out of order"
            deepest = max((state for _, _, state in row["segments"]), default=-1)
            if deepest >= state_counts.get(cpu, deepest + 1):
                yield f"CPU {cpu} sleeps in state {deepest}, which its cluster does not have"
