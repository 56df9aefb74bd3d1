# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs a contest: entries and baselines on a corpus, by a sweep; the rules; what is shown."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torpor import _engine
from torpor.ask.contest.corpus import RELATIVE, Corpus, Recording, Scenario, read_corpus
from torpor.ask.contest.score import BASE, Cell, Standing, cells, standings
from torpor.results.table import Post, Table, counted, number, word
from torpor.run import checks
from torpor.run.sweeps.axes import Axes, SweepError
from torpor.run.sweeps.run import Progress, sweep

#: Column that the gap is measured from.
ORACLE = "oracle"
#: The oracle's front, by replay: prices of delay.
PRICES = tuple(f"oracle,price={price}" for price in ("1mW", "10mW", "100mW", "1W"))
#: Limits for an entry: bytes of static per-CPU data, and ns of a decision at the median.
PERCPU_BYTES_MAX = 4096
DECISION_NS_MAX = 400

#: Written for virtual machines: elsewhere it takes part only if asked for.
_HALTPOLL = "haltpoll"

_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Rules:
    """Properties of an entry that the rules are about. None is not known."""

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
    is_interrupted: bool = False

    @property
    def has_finding(self) -> bool:
        """Whether an entry breaks a rule or failed somewhere."""
        return any(rules.broken for rules in self.rules) or any(c.error for c in self.cells)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON has it."""
        return {
            "kind": "contest",
            "torpor": _engine.__version__,
            "corpus": {"title": self.corpus.title, "version": self.corpus.version},
            "base": BASE,
            "entries": list(self.entries),
            "missing": [
                {"name": recording.name, "sha256": recording.sha256} for recording in self.missing
            ],
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
        store: The folder of a sweep: points that it has are not run again.
        corpus: Default: the one that ships.
        data: Folders that hold recordings of the corpus.
        half: ``open`` or ``held-out``; default: both.
        only: Patterns of scenarios, ``NAME`` or ``NAME,MACHINE``.
        baselines: Further governors to compare with, without rules.
        seeds: Of a simulation; default: the corpus's.
        duration: Simulated time; default: the corpus's.
        has_rules: Check the entries by the rules; requires a C compiler.
        threads: Points that run at a time.
        progress: Called after each point.

    Raises :class:`SweepError` if nothing is left to run, or a governor is unknown.
    """
    corpus = corpus or read_corpus()
    named = tuple(dict.fromkeys(entries))
    for entry in (*named, *baselines):
        if entry.partition(",")[0] == ORACLE:
            raise SweepError(f"`{ORACLE}` is what the gap is measured from: it cannot enter")
    scenarios, missing = corpus.scenarios(data, half=half, only=only)
    if not scenarios:
        names = ", ".join(recording.name for recording in missing)
        hint = "hint: --data FOLDER names where they are"
        raise SweepError(f"nothing to run: recordings that are not here: {names}\n{hint}")
    axes = _axes(corpus, scenarios, baselines, named)
    axes.seeds = seeds or corpus.seeds
    axes.options = {"duration": duration or corpus.duration}
    done = sweep(axes, store, threads=threads, progress=progress)
    rows = list(done.rows().values())
    found = cells(rows, scenarios)
    known = [cell for cell in found if cell.group != RELATIVE]
    classes = {
        group: standings([cell for cell in found if cell.group == group])
        for group in dict.fromkeys(scenario.group for scenario in scenarios)
    }
    priced = cells(rows, [s for s in scenarios if not s.is_relative], has_oracles=True)
    front = standings(priced, kind="replay")
    rules = [_rules(entry) for entry in named] if has_rules and not done.is_interrupted else []
    return Contest(
        corpus,
        named,
        scenarios,
        missing,
        found,
        standings(known),
        classes,
        sorted(front, key=lambda s: (s.energy_pct is None, s.energy_pct or 0, s.governor)),
        rules,
        done.is_interrupted,
    )


def _axes(
    corpus: Corpus, scenarios: Sequence[Scenario], baselines: Sequence[str], entries: Sequence[str]
) -> Axes:
    """Return every governor in every scenario."""
    governors = [BASE, *corpus.baselines, *baselines, ORACLE, *PRICES, *entries]
    return Axes(
        governor=list(dict.fromkeys(governors)),
        ties=[
            {"trace" if s.kind == "replay" else "workload": s.source, "platform": s.platform}
            for s in scenarios
        ],
        excluded=_excluded(scenarios, corpus, {*baselines, *entries}),
    )


def _excluded(
    scenarios: Sequence[Scenario], corpus: Corpus, asked: set[str]
) -> list[dict[str, Any]]:
    """Return the points that mean nothing: prices in mW without watts, haltpoll on bare metal."""
    found: list[dict[str, Any]] = []
    if relative := {s.platform for s in scenarios if s.is_relative}:
        found.append({"governor": list(PRICES), "platform": sorted(relative)})
    bare = {s.platform for s in scenarios} - set(corpus.virtual_machines)
    if bare and _HALTPOLL not in asked:
        found.append({"governor": [_HALTPOLL], "platform": sorted(bare)})
    return found


def _rules(entry: str) -> Rules:
    try:
        report = checks.check(entry)
    except _engine.TorporError as error:
        return Rules(entry, None, None, None, None, str(error))
    timing = report["timing"] or {}
    return Rules(
        entry,
        len(report["findings"]),
        report["percpu_bytes"],
        timing.get("p50_ns"),
        timing.get("p99_ns"),
    )


def sentences(found: Contest) -> list[str]:
    """Return who leads, by how much, and how the entries stand; the first one is the verdict."""
    scored = [one for one in found.standings if one.score is not None]
    if not scored:
        return ["No governor has a score: nothing was scored, or a governor failed everywhere."]
    best = min(scored, key=lambda one: one.score or 0.0)
    place = {one.governor: n for n, one in enumerate(scored, 1)}
    closed = 100 * (1 - (best.score or 0.0))
    if best.governor == BASE or closed <= 0:
        verdict = f"No governor is nearer the oracle than {BASE}."
    else:
        verdict = f"{best.governor} leads: it closes {closed:.0f} % of {BASE}'s gap to the oracle."
    said = [
        f"{entry} is number {place[entry]} of {len(scored)}, with a score of "
        f"{next(one.score for one in scored if one.governor == entry):.3f}."
        for entry in found.entries
        if entry in place
    ]
    return [verdict, *said]


def contest_post(found: Contest, *, has_cells: bool = False) -> Post:
    """Return standings, the front, the rules, and the scenarios in which an entry is worse."""
    scored = max((s.scored for s in found.standings), default=0)
    facts = [
        f"{counted(len(found.scenarios), 'scenario')}, {scored} of them scored: elsewhere {BASE} "
        "is within 1 % of the oracle, or the CPUs are never idle",
        f"score: (energy - oracle) / ({BASE} - oracle), less is better; 1 at least with more delay "
        f"than {BASE}'s",
    ]
    tables = [_standings_table(found)]
    if len(found.classes) > 1:
        tables.append(_classes_table(found))
    tables.append(_front_table(found))
    if any(one.energy_pct is not None for one in found.front):
        tables.append(_oracles_table(found))
    if found.rules:
        tables.append(_rules_table(found.rules))
    shown = [c for c in found.cells if c.governor in found.entries] if found.entries else []
    if has_cells:
        tables.append(_cells_table("cells", "All scenarios", found.cells))
    elif shown:
        worse = [c for c in shown if (c.score or 0) > 1 or c.dominance < 0]
        if worse:
            tables.append(_cells_table("worse", f"Where an entry is worse than {BASE}", worse))
    notes = [f"{rules.governor}: {said}" for rules in found.rules for said in rules.broken]
    if found.missing:
        names = ", ".join(f"{r.name} ({r.sha256[:12]})" for r in found.missing)
        notes.append(f"recordings that are not here: {names}; --data names where they are")
    for cell in found.cells:
        if cell.error:
            notes.append(
                f"{cell.governor} in {cell.scenario}, {cell.machine}: {cell.error.splitlines()[0]}"
            )
    notes.append("that an entry loads into a real kernel is not checked: `torpor kernel build`")
    title = f"contest on corpus {found.corpus.title}: {counted(len(found.standings), 'governor')}"
    return Post(title, facts, tables, notes)


def _standings_table(found: Contest) -> Table:
    headings = ["governor", "score", "replay", "closed loop", "gap", "dominates %", "dominated %"]
    headings += ["delay p99 %", "throughput %", "worst %"]
    lines = []
    for one in found.standings:
        lines.append(
            [
                word(one.governor),
                *(number(v, 3) for v in (one.score, one.replay_score, one.simulation_score)),
                number(one.gap_ratio, 3),
                *(number(v) for v in (one.dominates_pct, one.dominated_pct)),
                number(one.p99_pct, 1, is_signed=True),
                number(one.throughput_pct, 2, is_signed=True),
                number(one.throughput_worst_pct, 2, is_signed=True),
            ]
        )
    return Table("standings", f"Standings against {BASE}", headings, lines)


def _classes_table(found: Contest) -> Table:
    scores = {group: {one.governor: one.score for one in of} for group, of in found.classes.items()}
    names = dict.fromkeys(one.governor for one in found.standings)
    names |= dict.fromkeys(one.governor for of in found.classes.values() for one in of)
    lines = [[word(name), *(number(of.get(name), 3) for of in scores.values())] for name in names]
    return Table("classes", "Scores by class", ["governor", *scores], lines)


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
    headings = ["governor", "scenario", "machine", "score", "energy %", "delay %", "p99 %"]
    lines = [
        [
            *(word(text) for text in (cell.governor, cell.scenario, cell.machine)),
            number(cell.score, 2),
            *(
                number(value, 1, is_signed=True)
                for value in (cell.energy_pct, cell.delay_pct, cell.p99_pct)
            ),
        ]
        for cell in found
    ]
    return Table(name, title, headings, lines, 3)
