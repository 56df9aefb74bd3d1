# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Saved results side by side, whatever made them: the same metric in the same row."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor import _engine
from torpor._engine import TorporError
from torpor.results.comparison import fill, not_verified, section_name, sections, unverified
from torpor.results.record import Record, headed

if TYPE_CHECKING:
    from torpor.results import types as results

#: Names of the catalogue's metrics in other kinds of result.
_SAME = {"deepest_pct": "deepest_residency_pct", "idle_pct": "idle_residency_pct"}
#: Sums over a run that another metric gives as a rate or a mean.
_SUMS = ("energy_uj", "idle_energy_uj", "delay_total_us", "package_j", "dram_j", "platform_j")


class _Column(NamedTuple):
    """One run of one result."""

    label: str
    values: dict[str, float | None]
    #: Other inputs on which the numbers depend, by name.
    of: dict[str, str]


def compare(*results: Any, labels: list[str] | None = None) -> Record:
    """Put results side by side; the first column is what the others are compared with.

    Args:
        results: What any call returned, or :func:`torpor.load` has read: replays, simulations,
            differences of counters, recordings' statistics, comparisons on a live machine.
        labels: What to call them, one each; numbers without.

    Returns a result of kind ``beside``: ``sources`` (``label``, ``kind``, ``what``), ``comparison``
    with a row for each metric that two columns have, and ``notes`` on other differences and
    metrics without a counterpart. Columns are compared as they are: without common seeds no change
    has an interval.

    Raises TorporError where nothing can be compared, or a kind has no metrics.
    """
    parsed = [one.to_dict() if hasattr(one, "to_dict") else one for one in results]
    names = labels or [str(number) for number in range(1, len(parsed) + 1)]
    if len(names) != len(parsed):
        raise TorporError(f"{len(names)} labels for {len(parsed)} results: expected one for each")
    sources, columns = [], []
    for name, result in zip(names, parsed, strict=True):
        kind = result.get("kind") if isinstance(result, Mapping) else None
        if kind not in _KINDS:
            expected = ", ".join(_KINDS)
            raise TorporError(
                f"{name}: kind `{kind}` has no metrics to compare: expected {expected}"
            )
        found = list(_KINDS[kind](result))
        alone = len(found) == 1
        columns += [c._replace(label=name if alone else f"{name}: {c.label}") for c in found]
        what = "; ".join(dict.fromkeys(v for c in found[:1] for v in c.of.values()))
        sources.append({"label": name, "kind": kind, "what": what})
    if len(columns) < 2:
        raise TorporError("there is one column: compare two results, or one with two governors")
    metrics, lonely = _metrics(columns)
    if not metrics:
        raise TorporError("no metric is known in two columns, so there is nothing to compare")
    table = [
        {
            "label": column.label,
            "samples": [{"number": 0, "values": column.values}],
        }
        for column in columns
    ]
    return headed(
        "beside",
        {
            "sources": sources,
            "comparison": fill(metrics, table, is_paired=False),
            "notes": [*_unverified(names, parsed), *_notes(columns, lonely)],
        },
    )


def _metrics(columns: list[_Column]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the metrics that two columns have, in the catalogue's order; and the titles of the
    others."""
    catalogues = json.loads(_engine.metrics())
    known: dict[str, dict[str, Any]] = {}
    for kind in ("replay", "simulation", "fidelity", "ab"):
        for metric in catalogues.get(kind, ()):
            key, title = _SAME.get(metric["key"], metric["key"]), metric["title"]
            if key in _counts():
                key = f"{key}_per_s"
                metric = metric | {"unit": "1/s", "kind": "rate"}
            known.setdefault(key, metric | {"key": key, "title": title})
    counts = {key: sum(c.values.get(key) is not None for c in columns) for key in known}
    shared = [m for key, m in known.items() if counts[key] > 1 and key not in _SUMS]
    lonely = [
        m["title"] for key, m in known.items() if counts[key] == 1 or (counts[key] and key in _SUMS)
    ]
    return shared, list(dict.fromkeys(lonely))


@cache
def _counts() -> frozenset[str]:
    """Metrics that grow with time, so that two durations can be compared."""
    catalogues = json.loads(_engine.metrics())
    kinds = (*catalogues["replay"], *catalogues["simulation"])
    return frozenset(metric["key"] for metric in kinds if metric["kind"] == "count")


def _unverified(names: list[str], parsed: list[Any]) -> list[str]:
    return [
        f"{name}: {path}: the recorded decisions are {not_verified('--recorded-on')}"
        for name, result in zip(names, parsed, strict=True)
        for path in unverified(result)
    ]


def _notes(columns: list[_Column], lonely: list[str]) -> list[str]:
    notes = []
    for name in dict.fromkeys(name for column in columns for name in column.of):
        found = list(dict.fromkeys(column.of.get(name, "unknown") for column in columns))
        if len(found) > 1:
            notes.append(f"Besides the column, the {name} differs: {', '.join(found)}.")
    if lonely:
        notes.append(f"In one column alone, or a sum, so not compared: {', '.join(lonely)}.")
    notes.append("No interval: the columns share no seeds or rounds that pair them.")
    return notes


def _of_compared(result: Any) -> Iterator[_Column]:
    several = len(sections(result)) > 1
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
            label = f"{PurePath(name).name}, {run['governor']}" if several else run["governor"]
            yield _Column(label, _with_rates(run["metrics"], seconds), of)


def _with_rates(values: "results.Metrics", seconds: float) -> dict[str, float | None]:
    found = {_SAME.get(key, key): value for key, value in values.items()}
    for key in _counts() & found.keys():
        count = found.pop(key)
        if count is not None and seconds:
            found[f"{key}_per_s"] = count / seconds
    return found


def _of_ab(result: Any) -> Iterator[_Column]:
    from torpor.results.ab_rows import values

    of = {"kind": "ab", "workload": " ".join(result["command"]), "machine": result["kernel"]}
    for governor in result["governors"]:
        runs = [values(run) for run in result["runs"] if run["governor"] == governor["label"]]
        keys = dict.fromkeys(key for run in runs for key in run)
        means = {key: _mean([run.get(key) for run in runs]) for key in keys}
        # Its wake-ups are sleeps by the catalogue's words.
        means["sleeps_per_s"] = means.pop("wakeups_per_s", None)
        yield _Column(governor["label"], _with_rates(means, 0), of)


def _of_diff(result: Any) -> Iterator[_Column]:
    labels = dict.fromkeys(i["label"] for i in result["intervals"])
    for label in labels:
        columns = [
            (group, column)
            for group in result["groups"]
            for column in group["columns"]
            if column["label"] == label
        ]
        sums = {
            key: _sum([column["total"][key] for _, column in columns])
            for key in ("usage", "above", "below", "time_us")
        }
        spans = [(c["elapsed_ns"], len(c["cpus"]), c["rounds"]) for _, c in columns]
        whole_us = _sum([None if ns is None else ns / 1e3 * cpus for ns, cpus, _ in spans])
        seconds = max((ns / 1e9 for ns, _, _ in spans if ns is not None), default=0)
        deepest = _sum([c["states"][-1]["time_us"] for _, c in columns])
        values = {
            "sleeps_per_s": _share(sums["usage"], seconds, 1),
            "above_pct": _share(sums["above"], sums["usage"]),
            "below_pct": _share(sums["below"], sums["usage"]),
            "idle_residency_pct": _share(sums["time_us"], whole_us),
            "deepest_residency_pct": _share(deepest, whole_us),
        }
        interval = next(i for i in result["intervals"] if i["label"] == label)
        of = {"kind": "diff", "machine": interval["driver"] or "unknown"}
        if interval["kernel_release"]:
            of["kernel"] = interval["kernel_release"]
        yield _Column(label, values, of)


def _of_stats(result: Any) -> Iterator[_Column]:
    states, trace = result["states"], result["trace"]
    usage, above, below, time_ns = (
        _sum([state[key] for state in states]) for key in ("usage", "above", "below", "time_ns")
    )
    seconds = trace["duration_ns"] / 1e9
    cpus = len({state["cpu"] for state in states})
    values = {
        "sleeps_per_s": _share(usage, seconds, 1),
        "above_pct": _share(above, usage),
        "below_pct": _share(below, usage),
        "idle_residency_pct": _share(time_ns, trace["duration_ns"] * cpus),
        "tick_wakeups_per_s": _share(result["tick"]["wakeups"], seconds, 1),
    }
    of = {"kind": "trace_stats", "recording": trace["path"], "duration": f"{seconds:.2f} s"}
    of |= {"machine": result["platform"]} if result["platform"] else {}
    yield _Column("recorded", values, of)


def _sum(values: list[Any]) -> float | None:
    return None if None in values or not values else sum(values)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _share(part: float | None, whole: float | None, scale: float = 100) -> float | None:
    return scale * part / whole if part is not None and whole else None


_KINDS: dict[str, Callable[[Any], Iterator[_Column]]] = {
    "replay": _of_compared,
    "simulation": _of_compared,
    "ab": _of_ab,
    "diff": _of_diff,
    "trace_stats": _of_stats,
}
