# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Sentences on what was counted or verified, and on published tables."""

from typing import TYPE_CHECKING, Any

from torpor import _engine
from torpor.results.comparison import agreement_text, percent
from torpor.results.sentences.sides import (
    WRONG,
    Side,
    add,
    counts_of,
    differences,
    grouped,
    none,
    number,
    other_of,
    ratio,
    state_text,
    total,
    where,
)

if TYPE_CHECKING:
    from torpor.results import schema as shapes
    from torpor.results import types as results


def of_diff(result: "shapes.Diff", governor: str | None) -> list[str]:
    told = []
    for group in result["groups"]:
        cpus = _engine.format_cpu_list(group["cpus"])
        names = [f"{state['index']} {state['name']}" for state in group["states"]]
        sides = [
            Side(
                column["label"],
                {
                    ("", place, name): counts_of(counts)
                    for place, (name, counts) in enumerate(
                        zip(names, column["states"], strict=True)
                    )
                },
                {},
            )
            for column in group["columns"]
        ]
        if len(sides) == 1:
            total = group["columns"][0]["total"]
            worst = max(sides[0].states, key=lambda k: sides[0].states[k]["above"])
            told.append(
                f"CPUs {cpus}: {grouped(total['usage'] or 0)} sleeps, "
                f"{percent(total['above_ratio'])} too deep and {percent(total['below_ratio'])} too "
                f"shallow; {state_text(worst)} has {grouped(sides[0].states[worst]['above'])} of "
                "those too deep."
            )
            continue
        labels = [side.label for side in sides]
        other = other_of(labels, 0, range(len(labels)), governor)
        assert other is not None, "there are two columns"
        column, base = group["columns"][other], group["columns"][0]
        told += [
            f"CPUs {cpus}: {_share_changes(base, column)}",
            where(sides[0], sides[other]),
            _work(base, column),
        ]
    reasons = [
        "what ran in the intervals, and what woke the CPUs, which 5 counters a state do not hold"
    ]
    if any(c["residency_of"] == "idle" for g in result["groups"] for c in g["columns"]):
        reasons.append("shares of all time, since the dumps have no clock")
    rounds = min((c["rounds"] for g in result["groups"] for c in g["columns"]), default=0)
    if rounds < 2:
        reasons.append(
            "what repeats: a column has 1 interval, so its spread is that over CPUs alone"
        )
    return [*told, f"Not to be said from this: {'; '.join(reasons)}."]


def _share_changes(base: "shapes.DiffColumn", column: "shapes.DiffColumn") -> str:
    parts = []
    for key, words in WRONG.items():
        change = (column["changes"] or {}).get(key)
        if change is None:
            continue
        ends = [f"{100 * change[end]:+.2f}" for end in ("low", "high")]
        verdict = "" if change["is_significant"] else ", which may be chance"
        parts.append(
            f"{words} {percent(column['total'][f'{key}_ratio'])}, "  # type: ignore[literal-required]
            f"{100 * change['difference']:+.2f} points ({ends[0]} to {ends[1]}, 95 %){verdict}"
        )
    told = "; ".join(parts) or "neither has counters of wrong depth"
    return f"{column['label']} against {base['label']}: {told}."


def _work(base: "shapes.DiffColumn", column: "shapes.DiffColumn") -> str:
    before, after = base["total"]["usage"], column["total"]["usage"]
    if not before or after is None:
        return ""
    means = [c["total"]["mean_sleep_us"] for c in (column, base)]
    slept = ""
    if None not in means:
        slept = f", of {means[0]:,.1f} µs on average against {means[1]:,.1f} µs"
    return (
        f"{column['label']} has {grouped(after)} sleeps "
        f"({100 * (after / before - 1):+.2f} %){slept}: "
        "shares are compared, counts are not."
    )


def of_reproduction(result: "shapes.Reproduction", _governor: str | None) -> list[str]:
    judged = result["counts"]
    parts = [f"{aspect} {count['right']} of {count['of']}" for aspect, count in judged.items()]
    cells = [
        (table["title"], row["title"], column, cell)
        for table in result["tables"]
        for row in table["rows"]
        for column, cell in row["cells"].items()
    ]
    calibrated = sum(cell["is_calibrated"] for *_, cell in cells)
    wrong = [each for each in cells if each[3]["right"] and not all(each[3]["right"].values())]
    far = None
    for _, row_title, column, cell in wrong:
        published, ours = cell["published"], cell["ours"]
        if isinstance(published, int | float) and published and ours is not None:
            ratio = abs(ours / published - 1)
            if far is None or ratio > far[0]:
                far = (
                    ratio,
                    f"{row_title}, {column}: {number(ours)}, published {number(published)}",
                )
    missing = [r["title"] for t in result["tables"] for r in t["rows"] if r["not_modelled"]]
    reasons = [f"{calibrated} of {len(cells)} cells are calibrated and predict nothing"]
    if missing:
        reasons.append(f"{len(missing)} rows are not modelled ({', '.join(missing)})")
    return [
        f"{result['study']}, {result['seeds']} seeds: right are {', '.join(parts) or '0 of 0'}.",
        f"{len(wrong)} cells are wrong in one aspect at least"
        + (f"; the farthest is {far[1]}." if far else "."),
        f"Not to be said from this: {'; '.join(reasons)}.",
    ]


def of_outcomes(result: Any, _governor: str | None) -> list[str]:
    lacks = " and no ".join(result["lacks"])
    told = [f"{result['trace']['path']}: {grouped(result['sleeps'])} sleeps."]
    if (verdicts := result["verdicts"]) is not None:
        share = percent(ratio(verdicts["agreeing"], verdicts["compared"]))
        told.append(
            f"The kernel's verdicts are those of its rule on the recorded lengths in {share} of "
            f"{grouped(verdicts['compared'])} sleeps."
        )
    for side in WRONG:
        states = [state for state in result["states"] if state[side]]
        if states:
            worst = max(states, key=lambda state: state[side])
            told.append(
                f"State {worst['state']} {worst['name'] or ''} of {worst['cluster']} has most "
                f"sleeps that are {WRONG[side]}: {grouped(worst[side])} of "
                f"{grouped(worst['usage'])}."
            )
    told.append(f"Not to be said from this: whose decisions they are; it has no {lacks}.")
    return told


def of_stats(result: "results.TraceStats", _governor: str | None) -> list[str]:
    side = Side("the machine", {}, {})
    for state in result["states"]:
        counts = counts_of(state) | {"time_ns": state["time_ns"]}
        name = f"{state['state']} {state['name'] or ''}".rstrip()
        key = (state["cluster"] or "", state["state"], name)
        add(side.states.setdefault(key, none()), counts)
        add(side.cpus.setdefault(state["cpu"], none()), counts)
    seconds = result["trace"]["duration_ns"] / 1e9
    told = [f"{result['trace']['path']}: {grouped(result['sleeps'])} sleeps in {seconds:.2f} s."]
    reasons = []
    if not result["sleeps"]:
        return [*told, "Not to be said from this: anything of idle states, with 0 sleeps."]
    if result["verdict_source"] is None:
        reasons.append("depth: the recording has no cpu_idle_miss, and no platform was named")
    else:
        shares = [f"{percent(ratio(total(side, s), result['sleeps']))} {WRONG[s]}" for s in WRONG]
        told[0] = f"{told[0].rstrip('.')}, {' and '.join(shares)}."
        sums = {s: total(side, s) for s in WRONG}
        worse = max(sums, key=lambda s: sums[s])
        worst = max(side.states, key=lambda k: side.states[k][worse])
        told.append(
            f"State {worst[2]}{f' of {worst[0]}' if worst[0] else ''} has "
            f"{grouped(side.states[worst][worse])} of {grouped(sums[worse])} sleeps that are "
            f"{WRONG[worse]}."
        )
        wakers = [w for w in result["wakeups"] if w.get(worse)]
        if wakers:
            top: dict[str, Any] = dict(max(wakers, key=lambda w: w[worse] or 0))  # type: ignore[literal-required]
            name = f"{top['kind']} {top['name']}".rstrip()
            mean_us = top["slept_ns"] / top["count"] / 1e3
            told.append(
                f"{name} ended {grouped(top[worse])} of these, among "
                f"{grouped(top['count'])} sleeps of {mean_us:,.1f} µs on average that it ended."
            )
    tick = result["tick"]
    if tick["wakeups"] is not None:
        told.append(f"The tick alone ended {grouped(tick['wakeups'])} sleeps.")
    else:
        reasons.append("the tick's part: the recording has 0 timer events")
    if not result["latency"]:
        reasons.append("wake-up latency, for which 0 causes are recorded")
    lost = sum(x["count"] for x in result["trace"]["losses"] if x["severity"] != "info")
    if lost:
        reasons.append(f"what was in {grouped(lost)} lost pieces")
    return [*told, f"Not to be said from this: {'; '.join(reasons)}."] if reasons else told


def of_fidelity(result: "results.Fidelity", _governor: str | None) -> list[str]:
    verdict, decisions = result["verdict"], result["decisions"]
    best = next((g for g in result["governors"] if g["governor"] in verdict["best"]), None)
    told = [agreement_text(result, "--platform")]
    wrong = [c for c in best["confusion"] if c["recorded"] != c["chosen"]] if best else []
    if wrong:
        most = max(wrong, key=lambda c: c["count"])
        told.append(
            f"Most often, {grouped(most['count'])} times, it chooses state {most['chosen']} where "
            f"the kernel chose {most['recorded']}."
        )
    share = ratio(decisions["commonest"], decisions["compared"])
    told.append(
        f"A governor that always names the commonest state would agree in {percent(share)}."
    )
    known, source = (100, "probes") if decisions["probed"] else (0, "timer events are used")
    told.append(f"Sleep lengths are the kernel's own in {known} % of the decisions ({source}).")
    if not verdict["is_telling"]:
        told.append("Not to be said from this: which governor ran; the shares are too near that.")
    return told


def of_beside(result: "shapes.Beside", _governor: str | None) -> list[str]:
    compared = result["comparison"]
    told = [
        f"{len(result['sources'])} results, {len(compared['rows'])} metrics that two of them have."
    ]
    for place in range(1, len(compared["labels"])):
        if compared["base"] is not None and place != compared["base"]:
            told.append(differences(compared, compared["base"], place))
    differing = sum(note.startswith("Besides the column") for note in result["notes"])
    limits = f"which of {differing} other differences made them" if differing else "what repeats"
    return [*told[:4], f"Not to be said from this: {limits}; chance, with 0 paired runs."]
