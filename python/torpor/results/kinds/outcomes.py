# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Recorded sleeps, for a recording that lacks a governor's inputs."""

from typing import Any, Literal, TypedDict

from torpor.results.cells import COUNTED, wrong_cells
from torpor.results.comparison import percent
from torpor.results.kind import Kind, saved_by
from torpor.results.sentences import WRONG, cannot_show, count_text
from torpor.results.table import Post, Table, Verdict, counted, number, share, word
from torpor.results.types import TraceInfo, VerdictCheck, Version


class OutcomesCounts(TypedDict):
    """Counters of sysfs over the recording; null if the kernel lacks one."""

    usage: int | None
    above: int | None
    below: int | None
    rejected: int | None


class OutcomesState(TypedDict):
    """The recorded sleeps of a cluster in one state."""

    cluster: str
    state: int
    name: str | None
    usage: int | None
    time_ns: int | None
    above: int | None
    below: int | None
    #: Null without dumps.
    sysfs: OutcomesCounts | None


class Outcomes(TypedDict):
    """Result of ``torpor fidelity`` for a recording that lacks a governor's inputs."""

    format: int
    kind: Literal["outcomes"]
    torpor: Version
    trace: TraceInfo
    platform: str | None
    sleeps: int
    verdict_source: Literal["cpu_idle_miss", "platform"] | None
    verdicts: VerdictCheck | None
    #: Events that the recording lacks.
    lacks: list[str]
    states: list[OutcomesState]


def post(result: Outcomes) -> Post:
    """Return the table of a recording without timers or switches."""
    has_sysfs = any(state["sysfs"] for state in result["states"])
    keys = ("usage", "above", "below", "rejected")
    rows = []
    for state in result["states"]:
        row = [word(state["cluster"]), word(f"{state['state']} {state['name'] or ''}".rstrip())]
        row += [number(state["usage"]), *wrong_cells(state, state["usage"])]
        if has_sysfs:
            sysfs = state["sysfs"] or dict.fromkeys(keys)
            row += [number(sysfs["usage"]), *wrong_cells(sysfs, sysfs["usage"])]
            row.append(number(sysfs["rejected"]))
        rows.append(row)
    headings = ["cluster", "state", "usage", *COUNTED[3:]]
    if has_sysfs:
        headings += ["sysfs", *COUNTED[3:], "rejected"]
    lacks, source = " and no ".join(result["lacks"]), result["verdict_source"]
    facts = [
        f"It has no {lacks}, so no decision can be rebuilt (`torpor record` records what is "
        "needed). Its sleeps are compared with the kernel's own counts."
    ]
    if (verdicts := result["verdicts"]) is not None:
        agreeing, compared_ = verdicts["agreeing"], verdicts["compared"]
        rejected = verdicts.get("rejected", 0)
        facts.append(
            "The kernel's cpu_idle_miss agrees with its rule on the recorded lengths in "
            f"{agreeing} of {compared_} sleeps ({100 * agreeing / max(compared_, 1):.2f} %)"
            + (f"; {rejected} that the driver refused are left out" if rejected else "")
        )
    elif source is not None:
        facts.append("above and below: by the kernel's rule, on the recorded lengths")
    notes = ["sysfs counts from dump to dump, which is longer than the recording"] * has_sysfs
    table = Table("states", "Sleeps as recorded, and by sysfs", headings, rows, keys=2, together=5)
    title = (
        f"{result['trace']['path']}: {counted(result['sleeps'], 'sleep')} on {result['platform']}"
    )
    return Post(title, facts, [table], notes)


def verdict(result: Outcomes, _governor: str | None) -> Verdict:
    """Return what the recording lacks, and how often the kernel's counts follow its rule."""
    figure = f"can be rebuilt: the recording has no {' and no '.join(result['lacks'])}"
    certainty = f"{count_text(result['sleeps'])} sleeps"
    if (verdicts := result["verdicts"]) is not None:
        alike = percent(share(verdicts["agreeing"], verdicts["compared"], 1))
        certainty += f"; the kernel's counts follow its rule in {alike}"
    return Verdict("No decision", figure, certainty)


def explain(result: Outcomes, _governor: str | None) -> list[str]:
    lacks = " and no ".join(result["lacks"])
    said = []
    if (verdicts := result["verdicts"]) is not None:
        alike = percent(share(verdicts["agreeing"], verdicts["compared"], 1))
        said.append(
            f"The kernel's verdicts match its rule on the recorded lengths in {alike} of "
            f"{count_text(verdicts['compared'])} sleeps."
        )
    for side in WRONG:
        states: list[Any] = [state for state in result["states"] if state[side]]  # type: ignore[literal-required]
        if states:
            worst = max(states, key=lambda state: state[side])
            said.append(
                f"State {worst['state']} {worst['name'] or ''} of {worst['cluster']} has most "
                f"sleeps that are {WRONG[side]}: {count_text(worst[side])} of "
                f"{count_text(worst['usage'])}."
            )
    said.append(cannot_show([f"which governor decided, since it has no {lacks}"]))
    return said


KIND = Kind("outcomes", post, saved_by("fidelity"), explain, verdict=verdict, shape=Outcomes)
