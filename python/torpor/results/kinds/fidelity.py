# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Verification of a recording: how well governors explain its decisions."""

from collections.abc import Iterator
from typing import Any

from torpor.results import types as results
from torpor.results.catalogue import unit_text
from torpor.results.comparison import SLEEP_CLASSES, agreement_text, percent, sources_text
from torpor.results.kind import Kind, saved_by
from torpor.results.picture import Picture, Rows, stacked, state_colour
from torpor.results.record import Fidelity
from torpor.results.sentences import cannot_show, count_text
from torpor.results.table import Brief, Cell, Post, Table, Verdict, number, share, word

#: Sources of the time to the next timer.
_SOURCES = {
    "probe": "the kernel's own value, by a probe",
    "timers": "timers",
    "tick": "timers: the tick, kept by a timer due before it",
    "rcu_stand_in": "the tick, kept by RCU (approximated)",
    "tick_went_on": "the tick, which continued instead of being stopped",
    "stopped_tick": "the expiry of the stopped tick",
}


def post(result: "results.Fidelity") -> Post:
    """Return the agreement of each governor, where the best one differs, and the counters."""
    best = result["governors"][0]
    tables = [_governors(result["comparison"])]
    if best["error"] is None:
        tables.append(_sources(best))
        if best["agreeing"] < result["decisions"]["compared"]:
            tables.append(_confusion(result, best))
    tables += [_disagreements(result)] if result["disagreements"] else []
    tables += [_assumptions(result)] if result["assumptions"] else []
    tables.append(_counters(result))
    count = result["decisions"]["compared"]
    title = f"{result['trace']['path']}: {count} decisions on {result['platform']}"
    failed = [f"{g['governor']} failed: {g['error']}" for g in result["governors"] if g["error"]]
    lines = _facts(result)
    shown = [tables[0], *(t for t in tables[1:] if t.name == "confusion")]
    # The third is the verdict.
    basis = f"{title}, {lines[0]}"
    brief = Brief(shown, [*failed, *lines[3:]], [basis])
    return Post(title, lines, tables, [*failed, *result["notes"]], brief=brief)


def _governors(found: "results.Comparison") -> Table:
    """Return the comparison with a row for each governor."""
    titles = [f"{row['title']} {unit_text(row['unit'])}".rstrip() for row in found["rows"]]
    rows = [
        [word(label), *(_cell(row["cells"][place]) for row in found["rows"])]
        for place, label in enumerate(found["labels"])
    ]
    return Table("comparison", "", ["governor", *titles], rows)


def _cell(cell: "results.Cell") -> Cell:
    change = cell["change"]
    text = f"{cell['text']} ({change['text']})" if change and change["text"] else cell["text"]
    # A colour would say that the difference is beyond chance.
    return Cell(cell["value"], text, None, cell["is_best"])


def _facts(result: "results.Fidelity") -> list[str]:
    trace, decisions, verdict = result["trace"], result["decisions"], result["verdict"]
    facts = [trace["format"], f"{trace['duration_ns'] / 1e9:.2f} s"]
    facts += [f"Linux {trace['kernel_release']}"] if trace["kernel_release"] else []
    counts = f"{decisions['compared']:,} decisions"
    if decisions["hidden"]:
        counts += f", {decisions['hidden']} of them without an idle entry"
    if decisions["before_reset"]:
        counts += f"; {decisions['before_reset']} before the governor was reset left out"
    lines = [f"{', '.join(facts)}, tick {result['hz']} Hz", counts]
    lines.append(agreement_text(result, result["platform"]))
    best = " or ".join(verdict["best"])
    if decisions["commonest"] == decisions["compared"]:
        lines.append("All decisions are for one state, which shows neither governor nor machine.")
    elif verdict["is_verified"] and verdict["hangs_on_history"]:
        lines.append(
            f"This recording cannot distinguish {best}: that would require the governor's history "
            "before it."
        )
    if verdict["next_agreement"] is not None:
        others = ", ".join(verdict["next_best"])
        commonest = share(decisions["commonest"], decisions["compared"], 1)
        lines.append(
            f"Next best {others}: {percent(verdict['next_agreement'])}; "
            f"always the commonest state: {percent(commonest)}"
        )
    return lines


def _sources(governor: "results.GovernorFidelity") -> Table:
    rows = [
        [
            *(
                word(_SOURCES.get(row["source"], row["source"])),
                word(SLEEP_CLASSES[row["sleep_class"]]),
            ),
            *(number(row["decisions"]), number(row["agreeing"])),
            number(share(row["agreeing"], row["decisions"]), 2),
        ]
        for row in governor["by_source"]
    ]
    title = f"By source of the time to the next timer, {governor['governor']}"
    return Table("sources", title, ["source", "", "decisions", "agree", "agree %"], rows)


def _confusion(result: "results.Fidelity", governor: "results.GovernorFidelity") -> Table:
    names = result["states"]
    counts = {(c["recorded"], c["chosen"]): c["count"] for c in governor["confusion"]}
    rows = [
        [word(name), *(number(counts.get((recorded, chosen))) for chosen in range(len(names)))]
        for recorded, name in enumerate(names)
    ]
    title = f"Recorded states, and what {governor['governor']} chose"
    return Table("confusion", title, ["recorded", *names], rows)


def _disagreements(result: "results.Fidelity") -> Table:
    names = result["states"]
    rows = []
    for one in result["disagreements"]:
        entered = "" if one["entered"] else " (not entered)"
        times = ("sleep_length_ns", "delta_next_ns", "next_hrtimer_ns", "next_wheel_ns", "tick_ns")
        sleep_length, *others = (_time(one[key]) for key in times)  # type: ignore[literal-required]
        slept = _time(one["residency_ns"]) + (", tick" if one["got_tick"] else "")
        texts = [
            *(f"{one['time_ns'] / 1e9:.9f}", str(one["cpu"])),
            *(f"{names[one['recorded']]}{entered}", names[one["chosen"]]),
            *(sleep_length, one["source"], *others, _tick(one)),
            *(f"{one['idle_entry_ns'] / 1e9:.9f}", f"{one['local_clock_ns'] / 1e9:.9f}"),
            *(str(one["util"]), str(one["nr_iowait"]), slept),
        ]
        rows.append([word(text) for text in texts])
    headings = [
        *("time s", "CPU", "recorded", "chosen", "sleep length", "source", "next event"),
        *("hrtimer", "wheel", "tick", "tick after", "idle since", "local clock", "util"),
        *("iowait", "slept"),
    ]
    return Table("disagreements", "The first disagreements", headings, rows, keys=2)


def _tick(disagreement: "results.Disagreement") -> str:
    if disagreement["tick_was_stopped"]:
        return "stopped before"
    recorded = "stopped" if disagreement["tick_is_stopped"] else "went on"
    return f"{recorded}; the answer was to {'stop' if disagreement['stop_tick'] else 'keep'} it"


def _time(time_ns: int | None) -> str:
    if time_ns is None:
        return "none"
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if abs(time_ns) >= size:
            return f"{time_ns / size:.6g} {unit}"
    return f"{time_ns / 1e3:g} µs"


def _assumptions(result: "results.Fidelity") -> Table:
    rows = [
        [
            *(word(_time(tried["entry_delay_ns"])), word("yes" if tried["rcu_stand_in"] else "no")),
            *(number(tried["agreeing"]), word("chosen" if tried["is_chosen"] else "")),
        ]
        for tried in result["assumptions"]
    ]
    headings = ["idle entry after the switch", "RCU assumed", "agree", ""]
    title = "Assumptions tried, and decisions that then agree"
    return Table("assumptions", title, headings, rows)


def _counters(result: "results.Fidelity") -> Table:
    has_sysfs = any(counter["sysfs"] for counter in result["counters"])
    keys = ("usage", "above", "below")
    rows = []
    for counter in result["counters"]:
        own: Any = counter
        sysfs: Any = counter["sysfs"] or {}
        row = [word(str(counter["cpu"])), word(f"{counter['state']} {counter['name']}")]
        row += [number(own[key]) for key in (*keys, "miss_above", "miss_below")]
        row += [number(sysfs.get(key)) for key in keys] if has_sysfs else []
        rows.append(row)
    headings = ["CPU", "state", *keys, "miss above", "miss below"]
    headings += ["sysfs usage", "sysfs above", "sysfs below"] if has_sysfs else []
    title = "Sleeps by Torpor's rule, by the kernel's cpu_idle_miss events"
    title += ", and by sysfs" if has_sysfs else ""
    return Table("counters", title, headings, rows, keys=2)


def verdict(result: "results.Fidelity", _governor: str | None) -> Verdict:
    """Return which governor decides as the recorded kernel did, and a control."""
    return Verdict("", agreement_text(result, result["platform"]))


def explain(result: "results.Fidelity", _governor: str | None) -> list[str]:
    verdict, decisions = result["verdict"], result["decisions"]
    best = next((g for g in result["governors"] if g["governor"] in verdict["best"]), None)
    said = []
    wrong = [c for c in best["confusion"] if c["recorded"] != c["chosen"]] if best else []
    if wrong:
        most = max(wrong, key=lambda c: c["count"])
        said.append(
            f"Most often, {count_text(most['count'])} times, it chooses state {most['chosen']} "
            f"where the kernel chose {most['recorded']}."
        )
    commonest = share(decisions["commonest"], decisions["compared"], 1)
    said.append(
        f"A governor that always names the commonest state would agree in {percent(commonest)}."
    )
    if best and (shares := sources_text(_by_class(best))):
        said.append(f"The time to the next timer: {shares}.")
    if not verdict["is_telling"]:
        said.append(cannot_show(["which governor ran: the shares are too near that"]))
    return said


def _by_class(governor: "results.GovernorFidelity") -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {name: {} for name in SLEEP_CLASSES}
    for row in governor["by_source"]:
        found[row["sleep_class"]][row["source"]] = row["decisions"]
    return found


def contradictions(result: "results.Fidelity") -> Iterator[str]:
    """Check that each decision is for a state there is."""
    cells = [cell for governor in result["governors"] for cell in governor["confusion"]]
    count = len(result["states"])
    for decision in (*result["disagreements"], *cells):
        for key in ("recorded", "chosen"):
            if decision[key] >= count:
                yield f"`{key}` is state {decision[key]}: expected one of {count} states"


def unverified(result: "results.Fidelity") -> list[str]:
    """Return the recording if no governor explains its decisions."""
    return [] if result["verdict"]["is_verified"] else [result["trace"]["path"]]


def pictures(result: "results.Fidelity") -> list[Picture]:
    """Return each governor's agreement, and what the best one chose in each recorded state."""
    compared = result["decisions"]["compared"]
    ran = [governor for governor in result["governors"] if governor["error"] is None]
    if not ran or not compared:
        return []
    ends, decisions = (0.0, 100.0), "{:,} decisions".format
    agreements = []
    for governor in ran:
        agreed, others = governor["agreeing"], compared - governor["agreeing"]
        parts = [
            ("agrees", "--link", agreed, decisions(agreed)),
            ("differs", "--run", others, decisions(others)),
        ]
        agreements.append(stacked(governor["governor"], parts))
    names, best = result["states"], ran[0]
    counts = {(cell["recorded"], cell["chosen"]): cell["count"] for cell in best["confusion"]}
    chosen = []
    for recorded, name in enumerate(names):
        row = [counts.get((recorded, index), 0) for index in range(len(names))]
        if any(row):
            parts = [
                (other, state_colour(index, len(names), other), count, decisions(count))
                for index, (other, count) in enumerate(zip(names, row, strict=True))
            ]
            chosen.append(stacked(name, parts))
    return [
        Picture(
            "Who decides as this machine did",
            "Share of the recorded decisions that each governor would have taken alike, given "
            "the recorded outcome of each.",
            [Rows("decisions of all CPUs", "Governor", agreements, ends)],
        ),
        Picture(
            "What the best one chose instead",
            f"One bar for each state that was recorded: what {best['governor']} chose.",
            [Rows(best["governor"], "Recorded", chosen, ends)],
        ),
    ]


KIND = Kind(
    "fidelity",
    post,
    saved_by("fidelity"),
    explain,
    record=Fidelity,
    contradictions=contradictions,
    unverified=unverified,
    verdict=verdict,
    pictures=pictures,
)
