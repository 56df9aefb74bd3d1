# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Searches a governor's parameters: Optuna asks, sweeps answer, held-out scenarios judge."""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from torpor import _engine
from torpor.posting.model import Cell, Post, Table, counted, number, word
from torpor.sweeps.axes import Axes, SweepError
from torpor.sweeps.run import sweep
from torpor.sweeps.store import Row, catalogue
from torpor.sweeps.view import against_oracle, scenario_of

if TYPE_CHECKING:
    import optuna

#: What is asked for before any answer: enough for the cores of a machine, and the same on all, so
#: that the same command asks the same everywhere.
_BATCH = 8

_RANGE = re.compile(r"(log:)?(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)")

_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Param:
    """A parameter and the values it may have: a range of numbers, or some words."""

    name: str
    low: float | None = None
    high: float | None = None
    is_log: bool = False
    is_whole: bool = True
    choices: tuple[str, ...] = ()

    def suggest(self, trial: "optuna.Trial") -> str:
        """Return the value that a trial asks for."""
        if self.low is None or self.high is None:
            return str(trial.suggest_categorical(self.name, self.choices))
        if self.is_whole:
            low, high = int(self.low), int(self.high)
            return str(trial.suggest_int(self.name, low, high, log=self.is_log))
        return f"{trial.suggest_float(self.name, self.low, self.high, log=self.is_log):.6g}"


@dataclass(frozen=True)
class Trial:
    """A setting, and what it came to: changes from the defaults in percent (pp of shares).

    None is what could not be measured; ``holdout`` is empty where nothing was held out.
    """

    governor: str
    train: tuple[float | None, ...]
    holdout: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Tuned:
    """What came of a search: every setting once, and those that no other beats in training."""

    base: str
    objectives: tuple[str, ...]
    trials: list[Trial]
    front: list[Trial]
    #: Governors to read the result by, as trials.
    references: list[Trial]


def read_param(text: str) -> Param:
    """Read ``NAME=A..B``, ``NAME=log:A..B`` or ``NAME=X|Y``.

    >>> read_param("shift=1..10")
    Param(name='shift', low=1.0, high=10.0, is_log=False, is_whole=True, choices=())
    >>> read_param("mode=off|step").choices
    ('off', 'step')
    """
    name, equals, values = text.partition("=")
    if not name or not equals or not values:
        raise SweepError(f"`{text}`: expected NAME=A..B, NAME=log:A..B or NAME=X|Y")
    found = _RANGE.fullmatch(values)
    if found is None:
        choices = tuple(values.split("|"))
        if len(choices) < 2 or not all(choices):
            raise SweepError(f"`{text}`: expected a range A..B, log:A..B, or values X|Y")
        return Param(name, choices=choices)
    low, high = float(found[2]), float(found[3])
    if low >= high or (found[1] and low <= 0):
        wanted = "0 < A < B" if found[1] else "A < B"
        raise SweepError(f"`{text}`: the range {found[2]}..{found[3]}: expected {wanted}")
    is_whole = "." not in found[2] + found[3]
    return Param(name, low, high, bool(found[1]), is_whole)


def tune(
    governor: str,
    params: Sequence[Param],
    train: Axes,
    store: _Path,
    *,
    objectives: Sequence[str] = ("idle_power_mw", "latency_mean_us"),
    holdout: Axes | None = None,
    references: Sequence[str] = ("menu", "teo"),
    trials: int = 100,
    seed: int = 0,
    threads: int | None = None,
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> Tuned:
    """Search for settings of a governor that no other setting beats in all objectives.

    A setting's value in an objective is its change from the governor's defaults over all scenarios
    of ``train``: the geometric mean of ratios, or the mean difference of a share. Settings of the
    front, and the references, are then measured on ``holdout``.

    All runs are points of the store: the same call asks for the same settings, so that one that was
    interrupted goes on where it was, and one with more trials begins with those of fewer.

    Raises :class:`SweepError` for an objective that is unknown or neither better nor worse, and
    where Optuna is not installed; :class:`torpor.GovernorError` for a parameter that the governor
    does not have.
    """
    try:
        import optuna
    except ImportError:
        raise SweepError(
            "tuning requires Optuna, which is not installed\nhint: pip install 'torpor[tune]'"
        ) from None
    known = {info["key"]: info for info in catalogue()}
    for key in objectives:
        if key not in known:
            raise SweepError(_engine.unknown_name("metric", key, list(known), ""))
        if known[key]["direction"] == "none":
            raise SweepError(f"`{key}` is neither better nor worse when it changes")
    if not params:
        raise SweepError("nothing to tune: there is no parameter\nhint: --param NAME=A..B")
    directions: list[Literal["minimize", "maximize"]] = [
        "maximize" if known[key]["direction"] == "higher" else "minimize" for key in objectives
    ]
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        directions=directions, sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    )

    def measure(axes: Axes, names: Sequence[str]) -> dict[str, tuple[float | None, ...]]:
        everyone = list(dict.fromkeys([governor, *names]))
        done = sweep(replace(axes, governor=everyone), store, threads=threads)
        if done.is_interrupted:
            raise KeyboardInterrupt
        rows = [row for row in against_oracle(done.store.rows()) if row["point"] in done.points]
        return {
            name: tuple(_change(rows, known[key], governor, name) for key in objectives)
            for name in everyone
        }

    found: dict[str, tuple[float | None, ...]] = {}
    for begun in range(0, trials, _BATCH):
        asked = [study.ask() for _ in range(min(_BATCH, trials - begun))]
        names = [
            ",".join([governor, *(f"{p.name}={p.suggest(trial)}" for p in params)])
            for trial in asked
        ]
        answers = measure(train, names)
        for trial, name in zip(asked, names, strict=True):
            found[name] = answers[name]
            values = [value for value in answers[name] if value is not None]
            if len(values) == len(objectives):
                study.tell(trial, values)
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
        tell(begun + len(asked), trials)
    signs = [-1 if direction == "maximize" else 1 for direction in directions]
    front = _front(found, signs)
    others = [name for name in references if name != governor]
    trained = measure(train, others)
    held = measure(holdout, [*front, *others]) if holdout is not None else {}

    def made(name: str, values: Mapping[str, tuple[float | None, ...]]) -> Trial:
        return Trial(name, values[name], held.get(name, ()))

    return Tuned(
        governor,
        tuple(objectives),
        [made(name, found) for name in found],
        [made(name, found) for name in front],
        [made(name, trained) for name in (governor, *others)],
    )


def tuned_post(found: Tuned) -> Post:
    """Return the front as a table, training and held-out scenarios, with what does not hold."""
    known = {info["key"]: info for info in catalogue()}
    has_held = any(trial.holdout for trial in found.front)
    headings = ["setting"]
    for key in found.objectives:
        unit = "pp" if known[key]["kind"] == "share" else "%"
        headings += [f"{key} {unit}", *["held out"] * has_held]
    lines = []
    notes = []
    for trial in (*found.references, *found.front):
        cells: list[Cell] = [word(trial.governor)]
        for place in range(len(found.objectives)):
            cells.append(number(trial.train[place], 2, is_signed=True))
            if has_held:
                held = trial.holdout[place] if trial.holdout else None
                cells.append(number(held, 2, is_signed=True))
        lines.append(cells)
    for trial in found.front:
        for key, mine, held in zip(found.objectives, trial.train, trial.holdout, strict=False):
            sign = -1 if known[key]["direction"] == "higher" else 1
            if mine is not None and held is not None and sign * mine < 0 <= sign * held:
                notes.append(
                    f"{trial.governor}: the gain in {key} does not hold: {mine:+.2f} in training, "
                    f"{held:+.2f} held out"
                )
    title = (
        f"{counted(len(found.trials), 'setting')} of {found.base}, {len(found.front)} on the front"
    )
    facts = [f"changes from {found.base} without parameters, over all scenarios"]
    return Post(title, facts, [Table("front", "", headings, lines, 1, 1 + has_held)], notes)


def _change(rows: Sequence[Row], info: Mapping[str, Any], base: str, name: str) -> float | None:
    """The mean change over scenarios and seeds; None unless every one of them has both."""
    values: dict[tuple[Any, ...], dict[str, float | None]] = {}
    for row in rows:
        if row["governor"] in (base, name):
            value = row[info["key"]] if row["error"] is None else None
            values.setdefault((scenario_of(row), row["seed"]), {})[row["governor"]] = value
    pairs = [(pair.get(base), pair.get(name)) for pair in values.values()]
    whole = [(before, after) for before, after in pairs if before is not None and after is not None]
    if not whole or len(whole) != len(pairs):
        return None
    if info["kind"] == "share":
        return math.fsum(after - before for before, after in whole) / len(whole)
    if any(before <= 0 or after <= 0 for before, after in whole):
        return None
    return 100 * math.expm1(math.fsum(math.log(a / b) for b, a in whole) / len(whole))


def _front(found: Mapping[str, tuple[float | None, ...]], signs: Sequence[int]) -> list[str]:
    """Settings that no other beats in all objectives, in the order of the first."""
    costs = {
        name: tuple(
            sign * value for sign, value in zip(signs, values, strict=True) if value is not None
        )
        for name, values in found.items()
    }
    whole = {name: cost for name, cost in costs.items() if len(cost) == len(signs)}

    def is_beaten(name: str) -> bool:
        mine = whole[name]
        return any(
            other != mine and all(o <= m for o, m in zip(other, mine, strict=True))
            for other in whole.values()
        )

    # Of settings that came to the same, the first: parameters without effect make many.
    seen: dict[tuple[float, ...], str] = {}
    for name in whole:
        if not is_beaten(name):
            seen.setdefault(whole[name], name)
    return [seen[cost] for cost in sorted(seen)]
