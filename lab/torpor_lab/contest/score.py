# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""From a contest's points to cells, and from cells to standings."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from torpor.plugin import Moments, distances, half_width, parts
from torpor_lab.contest.corpus import Scenario

#: Column that all are compared with.
BASE = "teo"
#: The ends of every governor's front: the deepest state always, and so within the least limit.
DEEPEST = "deepest"
#: Gap below which a cell has nothing to win, in percent of teo's energy.
GAP_MIN_PCT = 1.0
#: CPUs that are idle for less than this have no idle state's energy.
IDLE_MIN_PCT = 1.0
#: Differences of energy or cost below this are none; an interval within it is narrow.
EQUAL_PCT = 0.1
#: A point of a front that loses more throughput than this, beyond chance, is none.
THROUGHPUT_PCT = 0.5
#: Scores that are closer than this are equal: half or twice a constant here moves them by less.
APART_PCT = 0.3

_NEVER_IDLE = "the CPUs are never idle"
_BEYOND = "less energy than the oracle's bound: other work"
_TOO_LATE = "not even the shallowest sleeping state delays as little as teo"
_NO_ENDS = f"`{DEEPEST}` did not run"


class Interval(NamedTuple):
    """A change in percent, with its 95 % interval over seeds; a replay's has no width."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True)
class Cell:
    """An entry in a scenario, compared with teo. None means unknown or meaningless."""

    governor: str
    scenario: str
    machine: str
    half: str
    kind: str
    group: str
    load: str
    is_counted: bool
    error: str | None = None
    #: Reason for which it counts in no score.
    excluded: str | None = None
    energy_pct: float | None = None
    #: Energy at teo's delay.
    at_delay_pct: float | None = None
    at_delay_low_pct: float | None = None
    at_delay_high_pct: float | None = None
    #: Energy, and energy + P x delay, as a share of teo's energy.
    cost_pct: float | None = None
    delay_pct: float | None = None
    delay_us: float | None = None
    base_delay_us: float | None = None
    p99_us: float | None = None
    base_p99_us: float | None = None
    throughput_pct: float | None = None
    #: Whether teo leaves something to win.
    has_gap: bool = False
    #: 1 dominates teo, -1 is dominated, 0 neither; None if it is not significant.
    dominance: int | None = None

    @property
    def p99_pct(self) -> float | None:
        """Return the change of the 99th percentile."""
        return _change(self.p99_us, self.base_p99_us)

    @property
    def is_worse(self) -> bool:
        """Whether it is worse than teo, beyond chance."""
        low = self.at_delay_low_pct
        return self.excluded is None and ((low or 0) > EQUAL_PCT or (self.dominance or 0) < 0)


@dataclass(frozen=True)
class Standing:
    """An entry over all scenarios: the mean over classes of load, each counted once."""

    governor: str
    #: Position; entries that the corpus does not tell apart share one.
    rank: int | None
    cells: int
    scored: int
    excluded: int
    failed: int
    #: Energy at teo's delay, and the most that leaving out one class of load changes it.
    score_pct: float | None
    sensitivity_pct: float | None
    #: Whether the corpus tells it apart from teo.
    is_apart: bool
    real_pct: float | None
    replay_pct: float | None
    simulation_pct: float | None
    energy_pct: float | None
    delay_pct: float | None
    p99_pct: float | None
    #: Shares of the cells that have a gap.
    dominates_pct: float | None
    dominated_pct: float | None
    undecided_pct: float | None
    throughput_worst_pct: float | None
    is_on_front: bool = False


class _Point(NamedTuple):
    """A point of a front: means over the same seeds."""

    delay: float
    energy: float


class _Keys(NamedTuple):
    """Metrics that are a cell's energy, delay and so on."""

    energy: str
    delay: str
    p99: str


def cells(
    rows: Mapping[Scenario, Sequence[parts.Row]],
    fronts: Mapping[str, Sequence[str]] | None = None,
    prices_mw: Mapping[str, float] | None = None,
    *,
    has_oracles: bool = False,
) -> list[Cell]:
    """Return a cell of each governor in each scenario that teo finished.

    Args:
        rows: Points of a sweep, by scenario.
        fronts: The governors of entries that are a front, by the entry's name.
        prices_mw: P of each machine: four times the power of the shallowest sleeping state.
        has_oracles: Make cells of the oracle at each price, too.
    """
    made = []
    for scenario, of_it in rows.items():
        by: dict[str, list[parts.Row]] = {}
        limited: dict[str, dict[str, list[parts.Row]]] = {}
        for row in of_it:
            limit = row["latency_limit"]
            if limit == (scenario.machine.latency_limit or None):
                by.setdefault(row["governor"], []).append(row)
            elif not row["error"]:
                limited.setdefault(row["governor"], {}).setdefault(limit, []).append(row)
        if BASE not in by:
            continue
        price_mw = (prices_mw or {}).get(scenario.machine.name)
        names = [n for n in sorted(by) if has_oracles or n.partition(",")[0] != "oracle"]
        base = ([by[BASE]], list(limited.get(BASE, {}).values()))
        ends = (_fastest(limited), by.get(DEEPEST, []))
        places = {name: [name] for name in names} | {
            name: list(of) for name, of in (fronts or {}).items() if all(each in by for each in of)
        }
        for name, of in places.items():
            own = [by[each] for each in of]
            more = [rows for each in of for rows in limited.get(each, {}).values()]
            made.append(_cell(scenario, name, by, _Front(own, more, *base, *ends), price_mw))
    return made


class _Front(NamedTuple):
    """Rows of a front's points: the governors, the same within limits of PM QoS, and the ends."""

    own: list[list[parts.Row]]
    limited: list[list[parts.Row]]
    base: list[list[parts.Row]]
    base_limited: list[list[parts.Row]]
    fastest: list[parts.Row]
    deepest: list[parts.Row]


def _fastest(limited: Mapping[str, Mapping[str, list[parts.Row]]]) -> list[parts.Row]:
    """Return the rows of the deepest state within the least limit."""
    of = limited.get(DEEPEST, {})
    return of[min(of, key=lambda limit: float(limit.removesuffix("us")))] if of else []


def _cell(
    scenario: Scenario,
    name: str,
    by: Mapping[str, list[parts.Row]],
    front: _Front,
    price_mw: float | None,
) -> Cell:
    base, own = by[BASE], front.own
    cell = Cell(
        name,
        *(scenario.name, scenario.machine.name, scenario.half, scenario.kind, scenario.group),
        *(scenario.load, scenario.is_counted),
    )
    error = next((row["error"] for rows in (*own, base) for row in rows if row["error"]), None)
    if error:
        return replace(cell, error=error)
    keys = _keys(scenario, [*itertools.chain(*own), *base])
    if (_mean(base, "idle_residency_pct") or 0) < IDLE_MIN_PCT or not _mean(base, keys.energy):
        return replace(cell, excluded=_NEVER_IDLE)
    gap = _gap(scenario, by, keys.energy)
    base_energy = _mean(base, keys.energy) or 0.0
    cell = replace(
        cell,
        has_gap=gap is not None and 100 * gap >= GAP_MIN_PCT * base_energy,
        base_delay_us=_mean(base, keys.delay),
        base_p99_us=_mean(base, keys.p99),
    )
    if len(own) == 1:
        cell = _with_own_figures(cell, own[0], base, keys, price_mw)
    if gap is not None and any(_is_beyond(rows, base, keys.energy, gap) for rows in own):
        return replace(cell, excluded=_BEYOND)
    if not front.fastest or not front.deepest or any(row["error"] for row in front.deepest):
        return replace(cell, excluded=_NO_ENDS)
    found = _at_delay(front, keys)
    if found is None:
        return replace(cell, excluded=_TOO_LATE)
    return replace(
        cell,
        at_delay_pct=found.mean,
        at_delay_low_pct=found.low,
        at_delay_high_pct=found.high,
    )


def _keys(scenario: Scenario, rows: Sequence[parts.Row]) -> _Keys:
    if scenario.kind == "replay":
        energy = "relative_idle_power_pct" if scenario.is_relative else "idle_energy_uj"
        return _Keys(energy, "delay_mean_us", "delay_p99_us")
    # The total includes work and waiting, but is not known on every machine.
    is_whole = all(row["power_mw"] is not None for row in rows)
    energy = "power_mw" if is_whole else "idle_power_mw"
    return _Keys(energy, "task_latency_mean_us", "task_latency_p99_us")


def _with_own_figures(
    cell: Cell, mine: list[parts.Row], base: list[parts.Row], keys: _Keys, price_mw: float | None
) -> Cell:
    """Add what is said of a governor, and not of a front."""
    energy = _interval(mine, base, lambda row: row[keys.energy])
    cost = None
    if price_mw is not None:
        of = {id(row): _cost(row, keys.energy, price_mw) for row in (*mine, *base)}
        cost = _interval(mine, base, lambda row: of[id(row)])
    has_work = cell.kind != "replay"
    throughput = _interval(mine, base, lambda row: row["throughput"]) if has_work else None
    delay_us = _mean(mine, keys.delay)
    return replace(
        cell,
        energy_pct=energy and energy.mean,
        cost_pct=cost and cost.mean,
        delay_us=delay_us,
        delay_pct=_change(delay_us, cell.base_delay_us),
        p99_us=_mean(mine, keys.p99),
        throughput_pct=throughput and (throughput.mean if _is_real(throughput) else 0.0),
        dominance=_dominance(energy, cost) if energy and cost and cell.has_gap else None,
    )


def _gap(scenario: Scenario, by: Mapping[str, list[parts.Row]], key: str) -> float | None:
    """Return how much more energy teo takes than the oracle's bound."""
    if scenario.kind != "replay":
        return _mean(by[BASE], "over_oracle_mw")
    oracle = _mean(by.get("oracle", []), key)
    base = _mean(by[BASE], key)
    if oracle is None or base is None:
        return None
    # The oracle's own run can cost more than its bound.
    return base - oracle / (1 + (_mean(by["oracle"], distances()[key]) or 0) / 100)


def _is_beyond(mine: list[parts.Row], base: list[parts.Row], key: str, gap: float) -> bool:
    """Whether it takes less than the bound of teo's run, beyond chance."""
    change, whole = _interval(mine, base, lambda row: row[key]), _mean(base, key)
    return bool(change and whole) and (change.high < -100 * gap / whole - EQUAL_PCT)  # type: ignore[union-attr,operator]


def _cost(row: parts.Row, energy_key: str, price_mw: float) -> float | None:
    """Return energy + P x delay: of a replay in uJ, of a simulation in mW.

    A simulation's is the latency of all wake-ups of idle CPUs, those by the governor's own timers
    among them.
    """
    if energy_key == "idle_energy_uj":
        delay_us = row["delay_total_us"]
        return None if delay_us is None else float(row[energy_key] + price_mw * delay_us / 1000)
    if not row["idle_power_mw"] or row["latency_mean_us"] is None:
        return None
    time_us = 1000 * row["idle_energy_uj"] / row["idle_power_mw"]
    return float(row[energy_key] + price_mw * row["latency_mean_us"] * row["wakeups"] / time_us)


def _dominance(energy: Interval, cost: Interval) -> int | None:
    """Compare energy, and energy + P x delay.

    Equal is what has an interval within ``EQUAL_PCT``: a wide one around 0 decides nothing.
    """
    both = (energy, cost)
    if any(one.high < -EQUAL_PCT for one in both) and all(one.high <= EQUAL_PCT for one in both):
        return 1
    if any(one.low > EQUAL_PCT for one in both) and all(one.low >= -EQUAL_PCT for one in both):
        return -1
    is_decided = all(
        one.high < -EQUAL_PCT
        or one.low > EQUAL_PCT
        or (one.low >= -EQUAL_PCT and one.high <= EQUAL_PCT)
        for one in both
    )
    return 0 if is_decided else None


def _at_delay(front: _Front, keys: _Keys) -> Interval | None:
    """Return the energy at teo's delay against that of teo's own front.

    The interval is the jackknife's: by leaving out one seed at a time.
    """
    base = front.base[0]
    points = [*front.own, *front.limited]
    eligible = [rows for rows in points if not _loses_throughput(rows, base)]
    columns = ([front.fastest], [front.deepest], front.base + front.base_limited)
    seeds = sorted({row["seed"] for row in base}, key=str)

    def change(left_out: object) -> float | None:
        means = [
            [_point([r for r in rows if r["seed"] != left_out], keys) for rows in column]
            for column in (*columns, eligible or points)
        ]
        if any(point is None for column in means for point in column):
            return None
        (fastest,), (deepest,), theirs, mine = ([p for p in column if p] for column in means)
        at_teos = [energy_at(theirs[0].delay, of, fastest, deepest) for of in (mine, theirs)]
        if at_teos[0] is None or not at_teos[1]:
            return None
        percent = 100 * (at_teos[0] / at_teos[1] - 1)
        # A governor that loses throughput saves nothing.
        return percent if eligible else max(percent, 0.0)

    mean = change(object())
    if mean is None:
        return None
    if len(seeds) < 2:
        return Interval(mean, mean, mean)
    known = [part for part in map(change, seeds) if part is not None]
    if len(known) < len(seeds):
        # With the luck of one seed it would not be early enough.
        return None
    middle = math.fsum(known) / len(known)
    share = (len(known) - 1) / len(known)
    wide = math.sqrt(share * math.fsum((part - middle) ** 2 for part in known))
    half = half_width(wide, len(known) - 1)
    return Interval(mean - half, mean, mean + half)


def energy_at(
    delay: float, own: Sequence[_Point], fastest: _Point, deepest: _Point
) -> float | None:
    """Return the least energy that a front has at a delay, or before it.

    Between two points it is a line: a share of the time with the one, the rest with the other. One
    of each two is the governor's own. None if no point is early enough.

    >>> ends = (_Point(0, 300), _Point(100, 50))
    >>> energy_at(10, [_Point(20, 100)], *ends), energy_at(60, [_Point(20, 100)], *ends)
    (200.0, 75.0)
    """
    found = [point.energy for point in own if point.delay <= delay]
    for early, late in itertools.product((*own, fastest), (*own, deepest)):
        is_own = early in own or late in own
        if is_own and early.delay <= delay < late.delay:
            share = (delay - early.delay) / (late.delay - early.delay)
            found.append((1 - share) * early.energy + share * late.energy)
    return min(found, default=None)


def _point(rows: Sequence[parts.Row], keys: _Keys) -> _Point | None:
    delay, energy = _mean(rows, keys.delay), _mean(rows, keys.energy)
    return None if delay is None or not energy else _Point(delay, energy)


def _loses_throughput(mine: list[parts.Row], base: list[parts.Row]) -> bool:
    change = _interval(mine, base, lambda row: row["throughput"])
    return change is not None and change.high < 0 and change.mean < -THROUGHPUT_PCT


def standings(found: Sequence[Cell], *, kind: str | None = None) -> list[Standing]:
    """Return each entry over all cells, best score first; those without one come last.

    ``kind``: over cells of replays or simulations alone.
    """
    by: dict[str, list[Cell]] = {}
    for cell in found:
        if cell.is_counted and kind in (None, cell.kind):
            by.setdefault(cell.governor, []).append(cell)
    apart = [_standing(name, of) for name, of in by.items()]
    made = [replace(one, is_on_front=_is_on_front(one, apart)) for one in apart]
    made.sort(key=lambda s: (math.inf if s.score_pct is None else s.score_pct, s.governor))
    return list(_ranked(made, by))


def _ranked(made: Sequence[Standing], by: Mapping[str, Sequence[Cell]]) -> Iterator[Standing]:
    """Give each the rank of the one before it that it cannot be told apart from."""
    leader: Standing | None = None
    for place, one in enumerate(made, 1):
        if one.score_pct is None:
            yield one
            continue
        if leader is None or are_apart(by[leader.governor], by[one.governor]):
            leader = replace(one, rank=place)
        is_apart = BASE in by and are_apart(by[BASE], by[one.governor])
        yield replace(one, rank=leader.rank, is_apart=is_apart)


def are_apart(first: Sequence[Cell], second: Sequence[Cell]) -> bool:
    """Whether a difference of scores is one, whichever class of load is left out."""
    one, other = _logs(first), _logs(second)
    differences = {load: other[load] - one[load] for load in one if load in other}
    if len(differences) < 2:
        # Nothing can be left out.
        return False
    means = list(_left_out(differences))
    limit = math.log1p(APART_PCT / 100)
    return min(means) > limit or max(means) < -limit


def _standing(name: str, of: Sequence[Cell]) -> Standing:
    whole = [cell for cell in of if cell.error is None]
    # An entry that failed somewhere has no score: it may have failed where it would score worst.
    scored = whole if len(whole) == len(of) else []
    logs = _logs(scored)
    score = _mean_of(logs.values())
    has_more = score is not None and len(logs) > 1
    moved = [abs(mean - (score or 0.0)) for mean in _left_out(logs)] if has_more else []
    decided = [cell for cell in whole if cell.has_gap and cell.cost_pct is not None]

    def share(is_so: Callable[[Cell], bool]) -> float | None:
        return _mean_of(_by_load(decided, lambda c: 100.0 * is_so(c)).values())

    throughput = [c.throughput_pct for c in whole if c.throughput_pct is not None]
    energies = _by_load(whole, lambda c: None if c.energy_pct is None else _log(c.energy_pct))
    return Standing(
        name,
        None,
        len(of),
        sum(c.at_delay_pct is not None for c in scored),
        sum(c.excluded is not None for c in whole),
        len(of) - len(whole),
        _percent(score),
        _percent(max(moved, default=None)),
        False,
        _percent(_mean_of(_logs([c for c in scored if c.group.startswith("machine")]).values())),
        _percent(_mean_of(_logs([c for c in scored if c.kind == "replay"]).values())),
        _percent(_mean_of(_logs([c for c in scored if c.kind != "replay"]).values())),
        _percent(_mean_of(energies.values())),
        _of_sums(whole, lambda c: (c.delay_us, c.base_delay_us)),
        _of_sums(whole, lambda c: (c.p99_us, c.base_p99_us)),
        share(lambda c: c.dominance == 1),
        share(lambda c: c.dominance == -1),
        share(lambda c: c.dominance is None),
        min(throughput) if throughput else None,
    )


def _logs(found: Sequence[Cell]) -> dict[str, float]:
    """Return the mean logarithm of energy at teo's delay of each class of load."""
    return _by_load(found, lambda c: None if c.at_delay_pct is None else _log(c.at_delay_pct))


def _left_out(values: Mapping[str, float]) -> Iterator[float]:
    """Return the mean over classes, and that without each one."""
    yield math.fsum(values.values()) / len(values)
    if len(values) > 1:
        for one in values.values():
            yield (math.fsum(values.values()) - one) / (len(values) - 1)


def _by_load(found: Sequence[Cell], value: Callable[[Cell], float | None]) -> dict[str, float]:
    of: dict[str, list[float]] = {}
    for cell in found:
        known = value(cell)
        if known is not None and cell.excluded is None:
            of.setdefault(cell.load, []).append(known)
    return {load: math.fsum(values) / len(values) for load, values in of.items()}


def _of_sums(
    found: Sequence[Cell], pair: Callable[[Cell], tuple[float | None, float | None]]
) -> float | None:
    """Return the mean over classes of the change of sums: no delay at all has no logarithm."""
    of: dict[str, list[tuple[float, float]]] = {}
    for cell in found:
        mine, base = pair(cell)
        if mine is not None and base is not None and cell.excluded is None:
            of.setdefault(cell.load, []).append((mine, base))
    sums = [tuple(map(math.fsum, zip(*pairs, strict=True))) for pairs in of.values()]
    return _mean_of([100 * (mine / base - 1) for mine, base in sums if base])


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


def _interval(
    mine: list[parts.Row], base: list[parts.Row], value: Callable[[parts.Row], float | None]
) -> Interval | None:
    """Return the change from the base, in percent of its mean, paired by seed."""
    of = {row["seed"]: value(row) for row in base}
    pairs = [(value(row), of[row["seed"]]) for row in mine if row["seed"] in of]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not known or len(known) < len(pairs):
        return None
    whole = math.fsum(b for _, b in known) / len(known)
    if whole <= 0:
        return None
    changes = [100 * (a - b) / whole for a, b in known]
    mean, low, high = Moments(changes).interval()
    # One seed has no interval.
    return Interval(mean if low is None else low, mean, mean if high is None else high)


def _is_real(change: Interval) -> bool:
    return change.low > 0 or change.high < 0


def _mean(rows: Sequence[parts.Row], key: str) -> float | None:
    values = [row.get(key) for row in rows]
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def _mean_of(values: Iterable[float]) -> float | None:
    found = list(values)
    return math.fsum(found) / len(found) if found else None


def _log(percent: float) -> float:
    return math.log1p(percent / 100)


def _percent(log: float | None) -> float | None:
    return None if log is None else 100 * math.expm1(log)


def _change(value: float | None, base: float | None) -> float | None:
    if value is None or not base:
        return None
    return 100 * (value / base - 1)
