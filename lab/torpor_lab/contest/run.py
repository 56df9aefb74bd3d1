# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs a contest: entries and baselines on a corpus, by a sweep; the rules; what is shown."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from torpor import Axes, SweepError, TorporError, __version__, sweep
from torpor import check as check_governor
from torpor.plugin import (
    Brief,
    Post,
    Progress,
    Swept,
    Table,
    Verdict,
    counted,
    expand_governors,
    minus,
    number,
    parts,
    platform_content,
    word,
)
from torpor.plugin import axes as sweep_axes
from torpor_lab.contest.corpus import (
    RELATIVE,
    RESTRICTED,
    Corpus,
    Recording,
    Scenario,
    Variant,
    read_corpus,
)
from torpor_lab.contest.score import BASE, DEEPEST, GAP_MIN_PCT, Cell, Standing, cells, standings

#: Column that the gap is measured from.
ORACLE = "oracle"
#: The oracle's front, by replay: prices of delay.
PRICES = tuple(f"oracle,price={price}" for price in ("1mW", "10mW", "100mW", "1W"))
#: The price of delay, for dominance: so many times the power of the shallowest sleeping state.
PRICE_RATIO = 4
#: Limits for an entry: bytes of static per-CPU data, and ns of a decision at the median.
PERCPU_BYTES_MAX = 4096
DECISION_NS_MAX = 400

#: Written for virtual machines: elsewhere it takes part only on request.
_HALTPOLL = "haltpoll"
#: Target residency of a state that no governor enters: the longest that a device tree can hold.
_NEVER_US = (1 << 32) - 1
_ABSENT = "no scenario of this contest is on a virtual machine, for which it was written"

_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Rules:
    """Properties of an entry that the rules check. None means unknown."""

    governor: str
    findings: int | None
    percpu_bytes: int | None
    check_p50_ns: int | None
    check_p99_ns: int | None
    error: str | None = None

    @property
    def broken(self) -> list[str]:
        """Return the rules that it breaks, in words."""
        if self.error:
            return [self.error.splitlines()[0]]
        said = []
        if self.findings:
            said.append(f"{counted(self.findings, 'finding')} of `torpor governor check`")
        if self.percpu_bytes is not None and self.percpu_bytes > PERCPU_BYTES_MAX:
            said.append(f"{self.percpu_bytes} bytes per CPU, {PERCPU_BYTES_MAX} are the most")
        if self.check_p50_ns is not None and self.check_p50_ns > DECISION_NS_MAX:
            said.append(f"{self.check_p50_ns} ns per decision, {DECISION_NS_MAX} are the most")
        return said


@dataclass(frozen=True)
class Contest:
    """Result of a contest."""

    corpus: Corpus
    entries: tuple[str, ...]
    scenarios: list[Scenario]
    missing: list[Recording]
    cells: list[Cell]
    #: Over all scenarios on machines of known power.
    standings: list[Standing]
    #: The same of each class of scenarios, in the corpus's order.
    classes: dict[str, list[Standing]]
    #: Energy and delay over all replays, of the governors and of the oracle at each price.
    front: list[Standing]
    rules: list[Rules]
    #: Governors of the corpus without a point.
    absent: tuple[str, ...] = ()
    is_interrupted: bool = False
    #: The governor that all are compared with.
    base: str = BASE

    @property
    def has_finding(self) -> bool:
        """Whether an entry breaks a rule or failed somewhere."""
        return any(rules.broken for rules in self.rules) or any(c.error for c in self.cells)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON has it."""
        return {
            "kind": "contest",
            "torpor": __version__,
            "corpus": {"title": self.corpus.title, "version": self.corpus.version},
            "base": self.base,
            "entries": list(self.entries),
            "missing": [
                {"name": recording.name, "sha256": recording.sha256} for recording in self.missing
            ],
            "absent": list(self.absent),
            "rules": [asdict(rules) | {"broken": rules.broken} for rules in self.rules],
            "standings": [asdict(standing) for standing in self.standings],
            "classes": {
                name: [asdict(standing) for standing in of] for name, of in self.classes.items()
            },
            "front": [
                {key: asdict(one)[key] for key in ("governor", "energy_pct", "delay_pct")}
                for one in self.front
            ],
            "cells": [asdict(cell) for cell in self.cells],
        }


def contest(
    entries: Iterable[str],
    store: _Path,
    *,
    corpus: Corpus | None = None,
    data: Sequence[_Path] = (),
    half: str | None = None,
    only: Sequence[str] = (),
    baselines: Sequence[str] = (),
    seeds: int | None = None,
    duration: str | None = None,
    has_rules: bool = True,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Contest:
    """Run entries and baselines on a corpus.

    Args:
        entries: Governors, as everywhere.
        store: Where points are kept, as a sweep's: those that it has are not run again.
        corpus: Another manifest than the shipped one.
        data: Folders of recordings, which are known by their content; can be repeated.
        half: open or held-out; default: both.
        only: Patterns of scenarios, NAME or NAME,MACHINE, such as 'guest-*,pixel6'.
        baselines: Further governors to compare with, as teo@../linux-6.12; can be repeated.
        seeds: Seeds of a simulation; default: the corpus's.
        duration: Simulated time; default: the corpus's.
        has_rules: Check the entries by the rules; requires a C compiler.
        threads: Points that run at a time.
        progress: Called after each point.

    Raises :class:`SweepError` if nothing is left to run, or a governor is unknown.
    """
    corpus = corpus or read_corpus()
    named, fronts = _entries(entries)
    others, other_fronts = _entries(baselines)
    fronts |= other_fronts
    scenarios, missing = corpus.scenarios(data, half=half, only=only)
    if not scenarios:
        raise _nothing_to_run(missing)
    names = [BASE, *corpus.baselines, DEEPEST, *others, ORACLE, *PRICES, *named]
    governors = list(dict.fromkeys(each for name in names for each in fronts.get(name, [name])))
    asked = {each for name in (*others, *named) for each in fronts.get(name, [name])}
    points = _points(
        scenarios,
        governors,
        _excluded(scenarios, corpus, asked),
        seeds=seeds or corpus.seeds,
        duration=duration or corpus.duration,
    )
    done = sweep(list(points), store, threads=threads, progress=progress)
    rows = _rows(done, points, scenarios)
    found = _shown(cells(rows, fronts, _prices_mw(scenarios)), fronts, set(names))
    present = {point.governor for point in done.names}
    checked = list(dict.fromkeys(fronts.get(entry, [entry])[0] for entry in named))
    rules = [_rules(entry) for entry in checked] if has_rules and not done.is_interrupted else []
    return Contest(
        corpus,
        named,
        scenarios,
        missing,
        found,
        standings([cell for cell in found if cell.group not in (RELATIVE, RESTRICTED)]),
        _classes(found, scenarios),
        _front(rows),
        rules,
        tuple(n for n in corpus.baselines if n not in present),
        done.is_interrupted,
    )


def _entries(typed: Iterable[str]) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Return the names of entries, and the governors of those that are a front."""
    names: dict[str, None] = {}
    fronts: dict[str, list[str]] = {}
    for text in typed:
        for governors in expand_governors(text):
            first = governors[0]
            if first.partition(",")[0] == ORACLE:
                raise SweepError(f"`{ORACLE}` is what the gap is measured from: it cannot enter")
            name = first
            if len(governors) > 1:
                name = first.partition(",")[0] + text[text.index(",") :]
                fronts[name] = governors
            names[name] = None
    return tuple(names), fronts


def _points(
    scenarios: Sequence[Scenario],
    governors: Sequence[str],
    excluded: Sequence[dict[str, Any]],
    *,
    seeds: int,
    duration: str,
) -> dict[sweep_axes.Point, Scenario]:
    """Return the points of every governor in every scenario."""
    found: dict[sweep_axes.Point, Scenario] = {}
    for scenario in scenarios:
        machine = scenario.machine
        within = [g for g in governors if g.partition(",")[0] != ORACLE]
        fastest, *others = _limits(machine)
        for limit, chosen in (
            (machine.latency_limit, governors),
            (fastest, [DEEPEST]),
            *((other, within) for other in others),
        ):
            axes = Axes(
                governor=list(chosen),
                platform=[machine.platform],
                latency_limit=[limit] if limit else [],
                seeds=seeds,
                options={"duration": duration},
                excluded=list(excluded),
            )
            (axes.trace if scenario.kind == "replay" else axes.workload).append(scenario.source)
            for point in axes.points():
                if machine.disabled_states:
                    options = json.loads(point.options)
                    options["disabled_states"] = list(machine.disabled_states)
                    point = replace(point, options=json.dumps(options, sort_keys=True))
                found[point] = scenario
    return found


def _limits(machine: Variant) -> list[str]:
    """Return the limits of PM QoS that leave a machine fewer sleeping states, shallowest first.

    A state that some cluster leaves later than another has the limit of the later one.
    """
    latencies_us: dict[int, float] = {}
    for cluster in platform_content(machine.platform)["cluster"]:
        for index, state in enumerate(cluster["idle_state"]):
            latency_us = state.get("latency_us")
            if latency_us is None:
                latency_us = state.get("entry_latency_us", 0) + state["exit_latency_us"]
            is_used = str(index) not in machine.disabled_states
            is_used &= not state.get("polling") and state.get("default_status") != "disabled"
            is_used &= state["target_residency_us"] < _NEVER_US
            if is_used and latency_us <= (_us(machine.latency_limit) or latency_us):
                latencies_us[index] = max(latencies_us.get(index, 0), latency_us)
    limits_us = sorted(set(latencies_us.values()))
    return [f"{limit_us:g}us" for limit_us in limits_us[: max(1, len(limits_us) - 1)]]


def _us(limit: str) -> float:
    """Return a limit of the corpus in us; 0 is none."""
    return float(limit.removesuffix("us") or 0)


def _nothing_to_run(missing: Iterable[Recording]) -> SweepError:
    absent = ", ".join(recording.name for recording in missing)
    hint = "hint: --data FOLDER names where they are"
    return SweepError(f"nothing to run: recordings that are not here: {absent}\n{hint}")


def _rows(
    done: Swept, points: Mapping[sweep_axes.Point, Scenario], scenarios: Iterable[Scenario]
) -> dict[Scenario, list[parts.Row]]:
    """Return the finished points of each scenario."""
    kept = done.rows()
    rows: dict[Scenario, list[parts.Row]] = {scenario: [] for scenario in scenarios}
    for point, name in done.names.items():
        if name in kept:
            rows[points[point]].append(kept[name])
        elif not done.is_interrupted:
            # One that the store cannot read back is missed here, and nowhere else.
            rows[points[point]].append(_lost(point))
    return rows


def _classes(found: list[Cell], scenarios: Iterable[Scenario]) -> dict[str, list[Standing]]:
    groups = dict.fromkeys(scenario.group for scenario in scenarios)
    return {g: standings([cell for cell in found if cell.group == g]) for g in groups}


def _front(rows: Mapping[Scenario, list[parts.Row]]) -> list[Standing]:
    """Return energy and delay of all governors and oracles over all replays, least energy first."""
    whole = {s: of for s, of in rows.items() if s.group not in (RELATIVE, RESTRICTED)}
    front = standings(cells(whole, has_oracles=True), kind="replay")
    return sorted(front, key=lambda s: (s.energy_pct is None, s.energy_pct or 0, s.governor))


def _lost(point: sweep_axes.Point) -> parts.Row:
    return parts.named(point) | {"error": "the store lost its point: run the contest again"}


def _prices_mw(scenarios: Sequence[Scenario]) -> dict[str, float]:
    """Return P of each machine: four times the power of the shallowest sleeping state.

    Of a CPU, in the mean over the machine, at the lowest frequency.
    """
    found = {}
    for machine in {scenario.machine for scenario in scenarios}:
        power_mw, cpus = 0.0, 0
        for cluster in platform_content(machine.platform)["cluster"]:
            state = next(one for one in cluster["idle_state"] if not one.get("polling"))
            count = _count(cluster["cpus"])
            own_mw = state.get("power_mw", state.get("power_per_opp_mw", [None])[0])
            if own_mw is None:
                break
            power_mw += count * own_mw
            cpus += count
        else:
            found[machine.name] = PRICE_RATIO * power_mw / cpus
    return found


def _count(cpus: str) -> int:
    """Count the CPUs of a list as `0-3,7`."""
    bounds = [part.split("-") for part in cpus.split(",")]
    return sum(int(part[-1]) - int(part[0]) + 1 for part in bounds)


def _shown(found: Sequence[Cell], fronts: dict[str, list[str]], names: set[str]) -> list[Cell]:
    """Leave out the cells of a front's points, unless they entered by themselves."""
    hidden = {each for of in fronts.values() for each in of} - names
    return [cell for cell in found if cell.governor not in hidden]


def _excluded(
    scenarios: Sequence[Scenario], corpus: Corpus, asked: set[str]
) -> list[dict[str, Any]]:
    """Return the points that mean nothing: prices in mW without watts, haltpoll on bare metal."""
    found: list[dict[str, Any]] = []
    if relative := {s.machine.platform for s in scenarios if s.is_relative}:
        found.append({"governor": list(PRICES), "platform": sorted(relative)})
    virtual = set(corpus.virtual_machines)
    bare = {s.machine.platform for s in scenarios if s.machine.name not in virtual}
    if bare and _HALTPOLL not in asked:
        found.append({"governor": [_HALTPOLL], "platform": sorted(bare)})
    return found


def _rules(entry: str) -> Rules:
    try:
        report = check_governor(entry)
    except TorporError as error:
        return Rules(entry, None, None, None, None, str(error))
    timing = report["timing"] or {}
    return Rules(
        entry,
        len(report["findings"]),
        report["percpu_bytes"],
        timing.get("p50_ns"),
        timing.get("p99_ns"),
    )


def verdict(found: Contest) -> Verdict:
    """Return how the first entry stands, or without one which governor leads."""
    known = {s.governor: s for s in found.standings if s.score_pct is not None}
    if not known:
        text = "No governor has a score: nothing was scored, or a governor failed everywhere"
        return Verdict("", text)
    if found.entries and found.entries[0] not in known:
        text = "has no score: it failed in a scenario, or none counts"
        return Verdict(found.entries[0], text)
    own = [known[entry] for entry in found.entries if entry != BASE]
    one = own[0] if own else min(known.values(), key=lambda s: s.score_pct or 0.0)
    if one.governor == BASE:
        others = counted(len(known) - 1, "other")
        return Verdict("No governor", f"takes less energy than {BASE} at its delay", others)
    figure = f"takes {_energy(one.score_pct or 0.0)} than {BASE} at its delay"
    rank = f"rank {one.rank} of {len(known)}"
    sure = rank if one.is_apart else f"{rank}; the corpus does not tell it from {BASE}"
    return Verdict(one.governor, figure, sure)


def sentences(found: Contest) -> list[str]:
    """Return the verdict, how the other entries stand, and who leads."""
    known = {s.governor: s for s in found.standings if s.score_pct is not None}
    said = [str(verdict(found))]
    for entry in found.entries[1:]:
        if (one := known.get(entry)) is not None and entry != BASE:
            said.append(
                f"{entry} takes {_energy(one.score_pct or 0.0)}: rank {one.rank} of {len(known)}"
                + ("." if one.is_apart else f", not told apart from {BASE}.")
            )
    best = min(known.values(), key=lambda s: s.score_pct or 0.0, default=None)
    if best is not None and best.governor not in found.entries:
        said.append(f"{best.governor} leads: {_energy(best.score_pct or 0.0)} than {BASE}.")
    return said


def _energy(score_pct: float) -> str:
    return f"{abs(score_pct):.1f} % {'less' if score_pct < 0 else 'more'} energy"


def contest_post(found: Contest, *, has_cells: bool = False) -> Post:
    """Return standings, the front, the rules, and the scenarios in which an entry is worse."""
    own = [cell for cell in found.cells if cell.governor == BASE]
    facts = [
        f"{counted(len(found.scenarios), 'scenario')}; in {sum(c.has_gap for c in own)} {BASE} "
        f"leaves a gap of {GAP_MIN_PCT:g} % to the oracle",
        f"score: energy at {BASE}'s delay, in % of {BASE}'s, less is better; each class of load "
        "counts once",
        f"dominates: neither energy nor energy + P x delay is higher, and one is lower; P is "
        f"{PRICE_RATIO} times the power of the shallowest sleeping state",
    ]
    tables = [_standings_table(found)]
    if len(found.classes) > 1:
        tables.append(_classes_table(found))
    tables.append(_front_table(found))
    if any(one.energy_pct is not None for one in found.front):
        tables.append(_oracles_table(found))
    if found.rules:
        tables.append(_rules_table(found.rules))
    if has_cells:
        tables.append(_cells_table("cells", "All scenarios", found.cells))
    elif worse := [c for c in found.cells if c.governor in found.entries and c.is_worse]:
        tables.append(_cells_table("worse", f"Where an entry is worse than {BASE}", worse))
    title = f"contest on corpus {found.corpus.title}: {counted(len(found.standings), 'governor')}"
    notes = _notes(found)
    # What every contest says is no news.
    urgent = [note for note in notes[:-1] if not note.startswith("did not run")]
    basis = f"{title}, {facts[0]}."
    brief = Brief([_leaders_table(found)], urgent, [basis])
    if has_cells:
        brief.tables.append(tables[-1])
    return Post(title, facts, tables, notes, verdict=verdict(found), brief=brief)


#: Governors that a terminal shows, besides the entries.
_LEADERS = 8


def _leaders_table(found: Contest) -> Table:
    """Return the entries, the base and the best others, by score."""
    whole = _standings_table(found)
    own = {*found.entries, BASE}
    count, rows = 0, []
    for row in whole.rows:
        is_own = row[0].text in own
        count += not is_own
        if is_own or count <= _LEADERS - len(own):
            rows.append(row[:_SCORES])
    title = f"Energy at {BASE}'s delay, in % of {BASE}'s: less is better"
    return whole._replace(title=title, headings=whole.headings[:_SCORES], rows=rows)


def _notes(found: Contest) -> list[str]:
    """Say what broke a rule, failed, did not run or does not count."""
    notes = [f"{rules.governor}: {said}" for rules in found.rules for said in rules.broken]
    if found.missing:
        names = ", ".join(f"{r.name} ({r.sha256[:12]})" for r in found.missing)
        notes.append(f"recordings that are not here: {names}; --data names where they are")
    failed: dict[tuple[str, str], list[str]] = {}
    for cell in found.cells:
        if cell.error:
            key = (cell.governor, cell.error.splitlines()[0])
            failed.setdefault(key, []).append(f"{cell.scenario}, {cell.machine}")
    for (name, error), places in failed.items():
        more = f" and {counted(len(places) - 1, 'more scenario')}" if len(places) > 1 else ""
        notes.append(f"{name} in {places[0]}{more}: {error}")
    reasons: dict[tuple[str, str], int] = {}
    for cell in found.cells:
        if cell.excluded and cell.governor in (BASE, *found.entries):
            key = (cell.governor, cell.excluded)
            reasons[key] = reasons.get(key, 0) + 1
    notes += [
        f"{name}: {counted(count, 'scenario')} without a score: {reason}"
        for (name, reason), count in reasons.items()
    ]
    if found.absent:
        notes.append(f"did not run: {', '.join(found.absent)}: {_ABSENT}")
    notes.append("that an entry loads into a real kernel is not checked: `torpor kernel build`")
    return notes


#: Columns of the standings up to the scores by kind.
_SCORES = 8


def _standings_table(found: Contest) -> Table:
    headings = ["governor", "rank", "score %", "±", "", "real %", "replay %", "closed loop %"]
    headings += ["dominates %", "dominated %", "undecided %", "p99 %", "throughput, worst %"]
    lines = []
    for one in found.standings:
        scores = (one.real_pct, one.replay_pct, one.simulation_pct)
        shares = (one.dominates_pct, one.dominated_pct, one.undecided_pct)
        lines.append(
            [
                word(one.governor),
                number(one.rank),
                number(one.score_pct, 1, is_signed=True),
                number(one.sensitivity_pct, 1),
                word("" if one.is_apart or one.score_pct is None else f"as {BASE}"),
                *(number(value, 1, is_signed=True) for value in scores),
                *(number(value, 0) for value in shares),
                number(one.p99_pct, 0, is_signed=True),
                number(one.throughput_worst_pct, 2, is_signed=True),
            ]
        )
    title = f"Standings: energy at {BASE}'s delay; equal ranks cannot be told apart"
    return Table("standings", title, headings, lines)


def _classes_table(found: Contest) -> Table:
    scores = {
        group: {one.governor: one.score_pct for one in of} for group, of in found.classes.items()
    }
    names = dict.fromkeys(one.governor for one in found.standings)
    names |= dict.fromkeys(one.governor for of in found.classes.values() for one in of)
    lines = [
        [word(name), *(number(of.get(name), 1, is_signed=True) for of in scores.values())]
        for name in names
    ]
    headings = ["governor", *(f"{group} %" for group in scores)]
    return Table("classes", "Scores by class", headings, lines)


def _front_table(found: Contest) -> Table:
    lines = [
        [
            word(one.governor),
            number(one.energy_pct, 2, is_signed=True),
            number(one.delay_pct, 2, is_signed=True),
            word("front" if one.is_on_front else ""),
        ]
        for one in sorted(found.standings, key=lambda s: (s.energy_pct is None, s.energy_pct or 0))
    ]
    headings = ["governor", "energy %", "delay %", ""]
    return Table("front", f"Energy against delay, from {BASE}", headings, lines)


def _oracles_table(found: Contest) -> Table:
    lines = [
        [
            word(one.governor),
            *(number(v, 2, is_signed=True) for v in (one.energy_pct, one.delay_pct)),
        ]
        for one in found.front
    ]
    title = f"Replays alone, with the oracle's front: from {BASE}"
    return Table("oracles", title, ["governor", "energy %", "delay %"], lines)


def _rules_table(rules: Sequence[Rules]) -> Table:
    headings = ["entry", "findings", "bytes/CPU", "p50 ns", "p99 ns", "verdict"]
    lines = [
        [
            word(one.governor),
            *(
                number(value)
                for value in (one.findings, one.percpu_bytes, one.check_p50_ns, one.check_p99_ns)
            ),
            word("breaks" if one.broken else "passes"),
        ]
        for one in rules
    ]
    return Table("rules", "Rules", headings, lines)


def _cells_table(name: str, title: str, found: Sequence[Cell]) -> Table:
    headings = ["governor", "scenario", "machine", "score %", "95 %", "energy %", "delay %", "µs"]
    headings += ["p99 %", ""]
    lines = []
    for cell in found:
        low, high = cell.at_delay_low_pct, cell.at_delay_high_pct
        interval = minus(f"{low:+.1f} to {high:+.1f}") if low is not None and low != high else ""
        changes = (cell.energy_pct, cell.delay_pct)
        lines.append(
            [
                *(word(text) for text in (cell.governor, cell.scenario, cell.machine)),
                number(cell.at_delay_pct, 1, is_signed=True),
                word(interval),
                *(number(value, 1, is_signed=True) for value in changes),
                number(cell.delay_us, 1),
                number(cell.p99_pct, 1, is_signed=True),
                word({1: "dominates", -1: "dominated"}.get(cell.dominance or 0, "")),
            ]
        )
    return Table(name, title, headings, lines, 3)
