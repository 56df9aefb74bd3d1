# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Sentences that several kinds of result share, and the counts that they compare.

Rules over the numbers, each sentence with its figure: what differs, by more than chance where that
is measured, in which states, CPUs and time, what the governors knew, and what the result cannot
show.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from torpor._engine import TorporError
from torpor.results import types as results
from torpor.results.catalogue import RUNS, difference_unit, first_of, leading, metrics, unit_text
from torpor.results.comparison import correction_text, needed_text, percent
from torpor.results.numbers import listing
from torpor.results.table import Verdict, counted, minus, share

_NAMED = 4
#: Changes that a verdict names.
_VERDICT = 3
WRONG = {"above": "too deep", "below": "too shallow"}
#: Governors that always take the same state.
REFERENCES = ("shallowest", "deepest")

#: `above`, `below`, `usage` and `time_ns` of a state, or of a CPU.
Counts = dict[str, float]


class Side(NamedTuple):
    """Counts of one column, by state and by CPU."""

    label: str
    states: dict[tuple[str, int, str], Counts]
    cpus: dict[int, Counts]


def side_of_run(run: Any) -> Side:
    states: dict[tuple[str, int, str], Counts] = {}
    for cluster in run["clusters"]:
        for state in cluster["states"]:
            key = (cluster["name"], state["index"], f"{state['index']} {state['name']}")
            add(states.setdefault(key, none()), counts_of(state))
    cpus: dict[int, Counts] = {}
    for cpu in run.get("cpus", ()):
        for state in cpu["states"]:
            add(cpus.setdefault(cpu["cpu"], none()), counts_of(state))
    return Side(run["governor"], states, cpus)


def none() -> Counts:
    return {"above": 0, "below": 0, "usage": 0, "time_ns": 0}


def counts_of(counts: Mapping[str, Any]) -> Counts:
    time_ns = counts.get("time_ns")
    if time_ns is None:
        time_ns = 1000 * (counts.get("time_us") or 0)
    return {**{key: counts[key] or 0 for key in ("above", "below", "usage")}, "time_ns": time_ns}


def add(sums: Counts, more: Mapping[str, float]) -> None:
    for key in sums:
        sums[key] += more[key]


def total(side: Side, key: str) -> float:
    return sum(counts[key] for counts in side.states.values())


def state_text(key: tuple[str, int, str]) -> str:
    cluster, index, name = key
    name = name.removeprefix(f"{index} ")
    if not cluster:
        return f"state {name}"
    if " " in cluster:
        return f"{name} of {cluster}"
    return f"{cluster}'{'s' * (not cluster.endswith('s'))} {name}"


def count_text(value: float) -> str:
    return f"{value:,.0f}"


def signed_count(value: float) -> str:
    return minus(f"{value:+,.0f}")


def sentence(text: str) -> str:
    if not text:
        return ""
    # A governor's or a file's name keeps its case.
    start = text[0].upper() if text.startswith(("the ", "of ", "in ", "state ")) else text[0]
    return f"{start}{text[1:]}."


def alone(side: Side) -> str:
    usage = sum(counts["usage"] for counts in side.states.values())
    shares = [f"{percent(share(total(side, s), usage, 1))} {w}" for s, w in WRONG.items()]
    return sentence(f"{side.label}: {count_text(usage)} sleeps, {' and '.join(shares)}")


def where(first: Side, second: Side) -> str:
    """The state in which the counts of wrong depth differ, and the states that got its time."""
    parts = []
    changes = {side: total(second, side) - total(first, side) for side in WRONG}
    side = max(changes, key=lambda s: abs(changes[s]))
    whole = changes[side]
    if whole:
        by_state = {
            key: counts[side] - first.states.get(key, {}).get(side, 0)
            for key, counts in second.states.items()
        }
        key = max(by_state, key=lambda k: by_state[k] * (1 if whole > 0 else -1))
        part, extra = abs(by_state[key]), abs(whole)
        more, less = ("more", "fewer") if whole > 0 else ("fewer", "more")
        if part <= extra:
            of_all = f"{count_text(part)} of these" if part < extra else "all of these"
            of = f"{of_all} {count_text(extra)} {more} are in {state_text(key)}"
        else:
            rest = count_text(part - extra)
            of = f"{count_text(part)} {more} in {state_text(key)}, {rest} {less} in the others"
        parts.append(
            f"{second.label} sleeps {WRONG[side]} {count_text(total(second, side))} times, "
            f"{first.label} {count_text(total(first, side))} times; {of}"
        )
    spans = [sum(c["time_ns"] for c in s.states.values()) for s in (first, second)]
    if all(spans):
        moved = {
            key: counts["time_ns"] / spans[1]
            - first.states.get(key, {}).get("time_ns", 0) / spans[0]
            for key, counts in second.states.items()
        }
        most = max(moved, key=lambda k: abs(moved[k]))
        before = first.states.get(most, {}).get("time_ns", 0) / spans[0]
        after = second.states[most]["time_ns"] / spans[1]
        if percent(before) != percent(after):
            parts.append(
                f"{second.label} spends {percent(after)} of idle time in {state_text(most)}, "
                f"{first.label} {percent(before)}"
            )
    return sentence("; ".join(parts))


def _rough(value: float) -> str:
    return f"{value:.2g}" if value < 99.5 else f"{value:,.0f}"


def headline(
    compared: "results.Comparison", base: int, other: int, draws: str = "seed"
) -> Verdict | None:
    """Return the cost of the other column: power and wake-up latency; None for one paired run.

    ``draws`` is what the samples of a paired comparison are.
    """
    labels, is_paired = compared["labels"], compared["sampling"] == "paired"
    if is_paired and compared["samples"] < 2:
        return None
    changes = {row["key"]: row["cells"][other]["change"] for row in compared["rows"]}
    found = [each for each in (_power(compared, changes), _delay(compared, changes)) if each]
    # A difference has words; what shows none is named by its noun.
    moved = [words for words, _ in found if words]
    alike = " or ".join(noun for words, noun in found if not words)
    beyond = " beyond chance" if is_paired else ""
    if moved:
        first, *others = moved
        figure = " and ".join([f"{first} than {labels[base]}", *others])
        figure += f", with no difference in {alike}{beyond}" if alike else ""
    elif alike:
        figure = f"shows no difference from {labels[base]} in {alike}{beyond}"
    else:
        return None
    return Verdict(labels[other], figure, _certainty(compared, draws))


def _power(compared: "results.Comparison", changes: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the change of power, empty without a difference, and the metric's noun."""
    key = next((key for key in leading("cost", *RUNS) if changes.get(key)), None)
    if key is None:
        return None
    metric, change = metrics()[key], changes[key]
    if not _differs(compared, change):
        return "", metric["noun"]
    pct = change["relative_pct"]
    size, unit = (change["difference"], difference_unit(metric)) if pct is None else (pct, "%")
    more = "more" if size > 0 else "less"
    return f"takes {_rough(abs(size))} {unit} {more} {metric['noun']}", metric["noun"]


def _delay(compared: "results.Comparison", changes: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the change of the wake-up latency, empty without a difference, and its noun."""
    key, *_ = leading("delay", *RUNS)
    if not (change := changes.get(key)):
        return None
    late_us = change["difference"]
    if not _differs(compared, change) or not late_us:
        return "", metrics()[key]["noun"]
    when = "later" if late_us > 0 else "sooner"
    return f"wakes {_rough(abs(late_us))} µs {when}", metrics()[key]["noun"]


def _certainty(compared: "results.Comparison", draws: str) -> str:
    """Say how sure a difference is."""
    samples = compared["samples"]
    if compared["sampling"] == "paired":
        return counted(samples, draws)
    if samples > 1:
        return f"exact: its {samples} {draws}s are equal"
    return "one recording: no measure of chance"


def _differs(compared: "results.Comparison", change: Any) -> bool:
    """Return whether a change counts: in one recording where the printed values differ."""
    is_single = compared["sampling"] == "single"
    return bool(change["text"]) and (is_single or bool(change["is_significant"]))


def changed(
    compared: "results.Comparison", base: int, other: int, draws: str, first: Any = None
) -> Verdict:
    """Return the differences of the most important metrics, the row ``first`` before others."""
    labels, samples = compared["labels"], compared["samples"]
    if samples < 2:
        return Verdict("", f"One {draws} of {labels[base]} and {labels[other]} shows no difference")
    found = _beyond(compared, other)[1]
    if first is not None:
        found.sort(key=lambda each: each[0] is not first)
    kinds = {row["kind"] for row, _, _ in found}
    # Energy is power once more.
    found = [each for each in found if each[0]["kind"] != "energy" or "power" not in kinds]
    said = [_moved(noun(row), change) for row, _, change in found[:_VERDICT]]
    if not said:
        figure = f"shows no difference from {labels[base]} beyond chance"
    elif first is None or found[0][0] is first:
        figure = f"{listing(said)}, against {labels[base]}"
    else:
        figure = f"shows no difference from {labels[base]} in {noun(first)} beyond chance"
        figure += f", but {listing(said[: _VERDICT - 1])}"
    return Verdict(labels[other], figure, counted(samples, draws))


def noun(row: "results.Row") -> str:
    """Return what a sentence calls a row: an author's own metric has its title alone."""
    known = metrics().get(row["key"])
    return str(known["noun"] if known else row["title"])


def _moved(name: str, change: Any) -> str:
    """Return whether a metric is raised or lowered, and by how much."""
    way, size = ("raises" if change["difference"] > 0 else "lowers"), change["text"]
    return f"{way} {name} by {size.lstrip('+' + minus('-'))}"


def _beyond(compared: "results.Comparison", other: int) -> tuple[list[Any], list[Any]]:
    """Return a column's known changes, and those that count.

    Each as (row, text, change), the latter with the most asked-for metrics first.
    """
    known = []
    for row in compared["rows"]:
        change = row["cells"][other]["change"]
        if change is not None:
            known.append((row, row["cells"][other]["text"], change))
    found = [each for each in known if _differs(compared, each[2])]
    return known, sorted(found, key=lambda each: first_of(each[0]["key"]))


def differences(compared: "results.Comparison", base: int, other: int, most: int = _NAMED) -> str:
    """Return a number of differences that count, the most important metrics first."""
    labels, samples = compared["labels"], compared["samples"]
    known, found = _beyond(compared, other)
    shown = [
        f"{row['title']} {text} {unit_text(row['unit'])}".rstrip() + f" ({change['text']})"
        for row, text, change in found[:most]
    ]
    who = f"{labels[other]} against {labels[base]}"
    if compared["sampling"] == "paired" and samples < 2:
        return f"{who}: 1 run each, which cannot show what differs by chance."
    if compared["sampling"] == "paired":
        basis = f"{samples} paired runs"
    else:
        basis = f"{samples} equal runs" if samples > 1 else "the same input"
    if corrected := correction_text(compared.get("tests", 0)):
        basis += f", {corrected}"
    needed = needed_text(compared, other=other)
    open_text = f" {needed}" if needed else ""
    more = " by more than chance" if compared["sampling"] == "paired" else ""
    if not found:
        return f"{who}: none of {len(known)} metrics differs{more} ({basis}).{open_text}"
    count = f"{len(found)} of {len(known)} metrics differ{more} ({basis})"
    return f"{who}: {count}, among them {', '.join(shown)}.{open_text}"


def is_reference(label: str) -> bool:
    """Whether a governor always takes the same state."""
    return label.partition(" ")[0].partition(",")[0] in REFERENCES


def known_row(compared: "results.Comparison", *keys: str) -> Any:
    """Return the first of the rows with these keys that is known."""
    rows = {row["key"]: row for row in compared["rows"]}
    return next((rows[key] for key in keys if key in rows and is_known(rows[key])), None)


def is_known(row: Any) -> bool:
    """Whether any column knows a row's value."""
    return any(cell["value"] is not None for cell in row["cells"])


def best_other(
    compared: "results.Comparison", runs: Sequence[Any], governor: str | None = None
) -> int | None:
    """Return the column to compare with the base: the competitor that takes the least power.

    It is that of ``governor``, if one is named.
    """
    base = compared["base"]
    if base is None:
        return None
    places = [place for place, run in enumerate(runs) if not run["error"]]
    known = known_row(compared, *leading("cost", *RUNS))
    rivals = [
        (float(known["cells"][place]["value"] or 0.0), place)
        for place in (places if known and governor is None else ())
        if place != base
        and runs[place]["kind"] == "governor"
        and not is_reference(runs[place]["governor"])
        and known["cells"][place]["value"] is not None
    ]
    return min(rivals)[1] if rivals else other_of(compared["labels"], base, places, governor)


#: Groups of metrics that matter, as places of the catalogue; how many each has at most, and all.
GROUPS = {
    "Work": "work",
    "Power": "power",
    "Delay": "delay",
    "Depth": "depth",
    "Wake-ups": "wakeups",
}
_GROUP_ROWS = 2
_ROWS = 8


def groups(compared: "results.Comparison") -> list[tuple[str, list[Any]]]:
    """Return the rows that matter, in groups."""
    rows = {row["key"]: row for row in compared["rows"]}
    found: list[tuple[str, list[Any]]] = []
    left = _ROWS
    for name, place in GROUPS.items():
        keys = leading(place, *RUNS)
        known = [rows[key] for key in keys if key in rows and is_known(rows[key])]
        own = known[: min(_GROUP_ROWS, left)]
        left -= len(own)
        if own:
            found.append((name, own))
    return found


def other_of(
    labels: Sequence[str], base: int, places: Iterable[int], governor: str | None
) -> int | None:
    if governor is not None:
        found = [place for place, label in enumerate(labels) if label.partition(" ")[0] == governor]
        if not found or found[0] == base:
            others = ", ".join(label for place, label in enumerate(labels) if place != base)
            raise TorporError(f"no `{governor}` to compare with {labels[base]}: expected {others}")
        return found[0]
    rest = [place for place in places if place != base]
    named = [p for p in rest if labels[p].partition(",")[0] not in (*REFERENCES, "oracle")]
    return next(iter([*named, *rest]), None)


def cannot_show(reasons: Iterable[str]) -> str:
    """Return the sentence on what a result leaves open; empty without a reason."""
    text = "; ".join(reasons)
    return f"This cannot show: {text}." if text else ""
