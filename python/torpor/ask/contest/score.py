# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""From a contest's points to cells, and from cells to standings."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from torpor.ask.contest.corpus import Scenario
from torpor.results.comparison import paired
from torpor.run.sweeps.parts import Row

#: Column that all are compared with.
BASE = "teo"
#: Gap below which nothing is left to win, in percent of teo's energy.
GAP_MIN_PCT = 1.0
#: As in ``GAP_MIN_PCT``: CPUs that are idle for less than this have no energy to save.
IDLE_MIN_PCT = 1.0
#: Delay beyond teo's that is none: this share of it, or this much a wake-up.
DELAY_SHARE = 0.02
DELAY_US = 0.1
#: No scenario counts for more than twentyfold.
RATIO_MIN = 0.05
#: The distance to the oracle's bound of each energy of a replay.
_OVER = {
    "idle_energy_uj": "over_oracle_pct",
    "relative_idle_power_pct": "relative_over_oracle_pct",
}
#: Energies and delays that differ by less are the same where one governor dominates another.
SAME_SHARE = 0.0005


@dataclass(frozen=True)
class Cell:
    """A governor in a scenario, against teo there. None is not known, or has no meaning."""

    governor: str
    scenario: str
    machine: str
    half: str
    kind: str
    group: str
    weight: float
    error: str | None
    #: (energy - oracle) / (teo - oracle).
    gap_ratio: float | None = None
    #: The gap's ratio where it counts: 1 at least where the delay is more than teo's.
    score: float | None = None
    energy_pct: float | None = None
    delay_pct: float | None = None
    delay_us: float | None = None
    p99_pct: float | None = None
    throughput_pct: float | None = None
    #: 1 dominates teo, -1 is dominated, 0 neither.
    dominance: int = 0


@dataclass(frozen=True)
class Standing:
    """A governor over all scenarios. Means are geometric and weighted."""

    governor: str
    cells: int
    scored: int
    score: float | None
    replay_score: float | None
    simulation_score: float | None
    gap_ratio: float | None
    energy_pct: float | None
    delay_pct: float | None
    p99_pct: float | None
    dominates_pct: float | None
    dominated_pct: float | None
    throughput_pct: float | None
    throughput_worst_pct: float | None
    is_on_front: bool = False


def cells(
    rows: Iterable[Row], scenarios: Sequence[Scenario], *, has_oracles: bool = False
) -> list[Cell]:
    """Return a cell of each governor in each scenario that teo finished.

    With ``has_oracles`` there is one of each oracle, too.
    """
    places = {(s.source, s.platform): s for s in scenarios}
    found: dict[Scenario, dict[str, list[Row]]] = {}
    for row in rows:
        scenario = places.get((row["source"], row["platform"]))
        if scenario is not None:
            found.setdefault(scenario, {}).setdefault(row["governor"], []).append(row)
    made = []
    for scenario in scenarios:
        by = found.get(scenario, {})
        if BASE not in by:
            continue
        names = [n for n in sorted(by) if has_oracles or n.partition(",")[0] != "oracle"]
        made += [_cell(scenario, by, name) for name in names]
    return made


def _cell(scenario: Scenario, by: Mapping[str, list[Row]], name: str) -> Cell:
    mine, base = by[name], by[BASE]
    error = next((row["error"] for row in (*mine, *base) if row["error"]), None)
    place = (scenario.name, scenario.platform, scenario.half, scenario.kind, scenario.group)
    if error:
        return Cell(name, *place, scenario.weight, error)
    is_replay = scenario.kind == "replay"
    energy_key = "relative_idle_power_pct" if scenario.is_relative else "idle_energy_uj"
    if not is_replay:
        # Work and waiting cost energy, too, where a machine says how much.
        whole = all(row["power_mw"] is not None for row in (*mine, *base))
        energy_key = "power_mw" if whole else "idle_power_mw"
    delay_key = "delay_mean_us" if is_replay else "task_latency_mean_us"
    energy, base_energy = _compared(mine, base, energy_key)
    delay, base_delay = _compared(mine, base, delay_key)
    if is_replay:
        oracle = _mean(by.get("oracle", []), energy_key)
        over = _mean(by.get("oracle", []), _OVER[energy_key])
        # The oracle's own run can cost more than its bound.
        oracle = oracle and oracle / (1 + (over or 0) / 100)
        gap = None if oracle is None or base_energy is None else base_energy - oracle
    else:
        gap = _mean(base, "over_oracle_mw")
    ratio = score = None
    if energy is not None and base_energy and gap is not None:
        is_idle = (_mean(base, "idle_residency_pct") or 0) >= IDLE_MIN_PCT
        if is_idle and 100 * gap >= GAP_MIN_PCT * base_energy:
            ratio = (gap + energy - base_energy) / gap
    is_late = delay is not None and base_delay is not None and _is_late(delay, base_delay)
    if ratio is not None:
        score = max(ratio, 1.0) if is_late else max(ratio, RATIO_MIN)
    p99_key = "delay_p99_us" if is_replay else "task_latency_p99_us"
    return Cell(
        name,
        *place,
        scenario.weight,
        None,
        ratio,
        score,
        _change(_mean(mine, energy_key), base_energy),
        _change(_mean(mine, delay_key), base_delay),
        _mean(mine, delay_key),
        _change(_mean(mine, p99_key), _mean(base, p99_key)),
        None if is_replay else _change(*_compared(mine, base, "throughput")),
        _dominance(energy, base_energy, delay, base_delay),
    )


def _is_late(delay: float, base: float) -> bool:
    return delay > base * (1 + DELAY_SHARE) and delay > base + DELAY_US


def _dominance(
    energy: float | None, base_energy: float | None, delay: float | None, base_delay: float | None
) -> int:
    if energy is None or base_energy is None or delay is None or base_delay is None:
        return 0
    signs = (_sign(energy, base_energy), _sign(delay, base_delay))
    if max(signs) > 0 and min(signs) < 0:
        return 0
    return -1 if max(signs) > 0 else 1 if min(signs) < 0 else 0


def _sign(value: float, base: float) -> int:
    if abs(value - base) <= SAME_SHARE * abs(base):
        return 0
    return 1 if value > base else -1


def standings(found: Sequence[Cell], *, kind: str | None = None) -> list[Standing]:
    """Return each governor over all cells, best score first; those without one come last.

    ``kind``: over cells of replays or simulations alone.
    """
    by: dict[str, list[Cell]] = {}
    for cell in found:
        if kind not in (None, cell.kind):
            continue
        by.setdefault(cell.governor, []).append(cell)
    apart = [_standing(name, of) for name, of in by.items()]
    made = [replace(one, is_on_front=_is_on_front(one, apart)) for one in apart]
    worst = math.inf
    return sorted(made, key=lambda s: (worst if s.score is None else s.score, s.governor))


def _standing(name: str, of: Sequence[Cell]) -> Standing:
    whole = [cell for cell in of if cell.error is None]
    # One that failed somewhere has no score: it may have failed where it is bad.
    scored = whole if len(whole) == len(of) else []

    def score_of(kind: str | None) -> float | None:
        return _geomean(scored, lambda c: c.score if kind in (None, c.kind) else None)

    throughput = [c.throughput_pct for c in whole if c.throughput_pct is not None]
    counted = [cell for cell in whole if cell.weight > 0]
    share = 100 / len(counted) if counted else 0
    return Standing(
        name,
        len(of),
        sum(c.score is not None and c.weight > 0 for c in scored),
        score_of(None),
        score_of("replay"),
        score_of("simulation"),
        _geomean(scored, lambda c: None if c.gap_ratio is None else max(c.gap_ratio, RATIO_MIN)),
        _geomean_pct(whole, lambda c: c.energy_pct),
        _geomean_pct(whole, lambda c: c.delay_pct),
        _geomean_pct(whole, lambda c: c.p99_pct),
        share * sum(c.dominance > 0 for c in counted) if counted else None,
        share * sum(c.dominance < 0 for c in counted) if counted else None,
        _geomean_pct(whole, lambda c: c.throughput_pct),
        min(throughput) if throughput else None,
    )


def _is_on_front(one: Standing, others: Sequence[Standing]) -> bool:
    """Whether no other uses less energy and less delay, over all scenarios."""
    energy, delay = one.energy_pct, one.delay_pct
    if energy is None or delay is None:
        return False
    rivals = [(other.energy_pct, other.delay_pct) for other in others if other is not one]
    return not any(
        e is not None and d is not None and e <= energy and d <= delay and (e, d) != (energy, delay)
        for e, d in rivals
    )


def _geomean(found: Sequence[Cell], value: Callable[[Cell], float | None]) -> float | None:
    pairs = [(value(cell), cell.weight) for cell in found]
    logs = [(math.log(v), weight) for v, weight in pairs if v is not None and v > 0 and weight > 0]
    total = math.fsum(weight for _, weight in logs)
    return math.exp(math.fsum(log * weight for log, weight in logs) / total) if total else None


def _geomean_pct(found: Sequence[Cell], value: Callable[[Cell], float | None]) -> float | None:
    def ratio(cell: Cell) -> float | None:
        change = value(cell)
        if change is None:
            return None
        # No delay at all has no logarithm.
        return 1 + change / 100 if change > -100 else RATIO_MIN

    mean = _geomean(found, ratio)
    return None if mean is None else 100 * (mean - 1)


def _compared(mine: list[Row], base: list[Row], key: str) -> tuple[float | None, float | None]:
    """Return the means; both the base's where chance explains the difference of paired seeds."""
    value, other = _mean(mine, key), _mean(base, key)
    if value is None or other is None or len(base) < 2:
        return value, other
    by_seed = {row["seed"]: row[key] for row in base}
    pairs = [(by_seed[row["seed"]], row[key]) for row in mine if row["seed"] in by_seed]
    change = paired([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    is_real = change is not None and change["is_significant"]
    return (value if is_real else other), other


def _mean(rows: Sequence[Row], key: str) -> float | None:
    values = [row[key] for row in rows]
    if not values or any(value is None for value in values):
        return None
    return math.fsum(values) / len(values)


def _change(value: float | None, base: float | None) -> float | None:
    if value is None or not base:
        return None
    return 100 * (value / base - 1)
