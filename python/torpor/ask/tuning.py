# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Searches parameters: Optuna proposes, sweeps evaluate, held-out scenarios judge."""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from torpor.results import picture
from torpor.results.catalogue import RUNS, leading
from torpor.results.sentences import cannot_show
from torpor.results.table import Cell, Post, Table, counted, minus, number, word
from torpor.run.sweeps.axes import PLACES, Axes, Point, SweepError, split_numbers
from torpor.run.sweeps.parts import Row
from torpor.run.sweeps.ranks import (
    DEFAULT_METRICS,
    change_parts,
    change_unit,
    front_of,
    mean_change,
    metric_info,
)
from torpor.run.sweeps.run import sweep

if TYPE_CHECKING:
    import optuna

#: Trials that Optuna proposes before it sees a result. A constant, so that the same command
#: proposes the same trials on machines with any number of cores.
_BATCH = 8

_RANGE = re.compile(r"(log:)?(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)")

_NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
_OBJECTIVE = re.compile(rf"(\w+)(?:=({_NUMBER}))?(?:@(.+))?")

#: Searched for by default: little power, short waits.
OBJECTIVES = (*DEFAULT_METRICS, leading("delay", *RUNS)[0])

_Path = str | os.PathLike[str]
#: Values of a setting by objective; None is unknown.
_Changes = tuple[float | None, ...]


@dataclass(frozen=True)
class Objective:
    """A metric to improve, or a value that it shall have, in all scenarios or in some."""

    text: str
    metric: dict[str, Any]
    target: float | None = None
    #: Patterns by axis: only points that match all of them count.
    where: tuple[tuple[str, str], ...] = ()

    @property
    def is_better_higher(self) -> bool:
        """Whether a search maximizes it."""
        return self.target is None and bool(self.metric["direction"] == "higher")

    @property
    def words(self) -> str:
        """Return the metric's title, or its text if it is about some scenarios or a target."""
        return str(self.metric["title"]) if self.text == self.metric["key"] else self.text

    @property
    def heading(self) -> str:
        """Say what its values are."""
        return f"{self.words} {'off ' * (self.target is not None)}{change_unit(self.metric)}"

    def counts(self, point: Point) -> bool:
        """Whether it is about this point. The numbers after a name need not be in a pattern."""
        return all(
            fnmatchcase(str(getattr(point, axis)), pattern)
            or fnmatchcase(split_numbers(str(getattr(point, axis)))[0], pattern)
            for axis, pattern in self.where
        )

    def value(self, before: Sequence[Row | None], after: Sequence[Row | None]) -> float | None:
        """Return what the points came to; None unless all have the metric.

        That is the mean change from the same points of the base, or how far the mean is off the
        target.
        """

        def known(row: Row | None) -> float | None:
            return None if row is None else row[self.metric["key"]]

        pairs = [(known(one), known(other)) for one, other in zip(before, after, strict=True)]
        values = [mine for _, mine in pairs if mine is not None]
        if not values or len(values) != len(pairs):
            return None
        if self.target is None:
            parts = change_parts(self.metric, pairs)
            return mean_change(self.metric, parts) if len(parts) == len(pairs) else None
        off = abs(math.fsum(values) / len(values) - self.target)
        return off if self.metric["kind"] == "share" else 100 * off / abs(self.target)


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
        """Return the value that a trial proposes."""
        if self.low is None or self.high is None:
            return str(trial.suggest_categorical(self.name, self.choices))
        if self.is_whole:
            low, high = int(self.low), int(self.high)
            return str(trial.suggest_int(self.name, low, high, log=self.is_log))
        return f"{trial.suggest_float(self.name, self.low, self.high, log=self.is_log):.6g}"


@dataclass(frozen=True)
class Trial:
    """A setting, and what it came to in each objective.

    That is the change from the defaults in percent (pp of shares), or the distance from a target.
    None is what could not be measured; ``holdout`` is empty where nothing was held out.
    """

    setting: str
    train: tuple[float | None, ...]
    holdout: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Tuned:
    """Result of a search: every setting once, and those that no other beats in training."""

    base: str
    objectives: tuple[Objective, ...]
    trials: list[Trial]
    front: list[Trial]
    #: Governors to read the result by, as trials.
    references: list[Trial]


@dataclass(frozen=True)
class _Setting:
    """A governor, and values of its parameters, of platforms' and of workloads' numbers."""

    governor: str
    values: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return ",".join([self.governor, *(f"{name}={value}" for name, value in self.values)])

    def points(self, axes: Axes) -> list[Point]:
        """The points of it, in an order that is the same for all settings."""
        placed = [f"{n}={v}" for n, v in self.values if n.startswith(PLACES)]
        own = [f"{n}={v}" for n, v in self.values if not n.startswith(PLACES)]
        governor = ",".join([self.governor, *own])
        return replace(axes, governor=[governor], param=[*axes.param, *placed]).points()


def read_objective(text: str) -> Objective:
    """Read ``METRIC``, ``METRIC=TARGET``, each with ``@AXIS=PATTERN,...`` where wanted.

    >>> found = read_objective("throughput=11233@cpufreq=performance")
    >>> found.target, found.where
    (11233.0, (('cpufreq', 'performance'),))
    """
    found = _OBJECTIVE.fullmatch(text)
    if found is None:
        raise SweepError(f"`{text}`: expected METRIC, METRIC=TARGET or METRIC@AXIS=PATTERN")
    axes = Point.__dataclass_fields__
    where = []
    for part in (found[3] or "").split(",") if found[3] else []:
        axis, equals, pattern = part.partition("=")
        if axis not in axes or not equals or not pattern:
            raise SweepError(f"`{text}`: expected @AXIS=PATTERN, AXIS one of {', '.join(axes)}")
        where.append((axis, pattern))
    target = None if found[2] is None else float(found[2])
    if target == 0:
        raise SweepError(f"`{text}`: expected a target other than 0")
    metric = metric_info(found[1], is_judged=target is None)
    return Objective(text, metric, target, tuple(where))


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
    params: Sequence[Param | str],
    train: Axes,
    store: _Path,
    *,
    objectives: Sequence[str] = OBJECTIVES,
    holdout: Axes | None = None,
    references: Sequence[str] = ("menu", "teo"),
    trials: int = 100,
    seed: int = 0,
    tell: Callable[[int, int], None] | None = None,
    **given: Any,
) -> Tuned:
    """Search for settings that no other setting beats in all objectives.

    A parameter is one of the governor's, or a number of all platforms or workloads, as
    ``Axes.param`` names them. The value of a setting is its change from the governor's defaults
    over all scenarios of ``train``; for ``METRIC=TARGET``, its distance from the target. The
    front and the references are then measured on ``holdout``. Calls ``tell`` with the number of
    finished settings and of all. ``given`` is for :func:`torpor.sweep`.

    All runs are points of the store: the same call continues from there.

    Raises :class:`SweepError` for an unknown objective, one that is neither better nor worse, and
    if Optuna is not installed; GovernorError, PlatformError and WorkloadError for an unknown
    parameter or number.

    >>> import tempfile
    >>> store = tempfile.mkdtemp()
    >>> train = torpor.Axes(trace=[str(recording)], platform=["rk3399"])
    >>> found = torpor.tune("teo", ["util_shift=2..9"], train, store, trials=8)
    >>> found.base, found.references[0].train
    ('teo', (0.0, 0.0))
    """
    optuna = _optuna()
    wanted = tuple(read_objective(text) for text in objectives)
    searched = [read_param(each) if isinstance(each, str) else each for each in params]
    if not searched:
        raise SweepError("nothing to tune: there is no parameter\nhint: --param NAME=A..B")
    directions = ["maximize" if each.is_better_higher else "minimize" for each in wanted]
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    study = optuna.create_study(directions=directions, sampler=sampler)
    runs = _Runs(_Setting(governor), wanted, store, given)
    settings: dict[str, _Setting] = {}
    tried: dict[str, _Changes] = {}
    for begun in range(0, trials, _BATCH):
        count = min(_BATCH, trials - begun)
        for setting, values in _batch(study, searched, runs, train, count):
            settings[setting.name], tried[setting.name] = setting, values
        if tell is not None:
            tell(begun + count, trials)
    front = front_of(tried, [-1 if each.is_better_higher else 1 for each in wanted])
    others = [_Setting(name) for name in references if name != governor]
    if not any(axes.workload or axes.ties for axes in (train, holdout) if axes):
        # In closed loop the oracle is not a governor.
        others.append(_Setting("oracle"))
    trained = runs.measure(train, others)
    held = runs.measure(holdout, [*(settings[n] for n in front), *others]) if holdout else {}

    def shown(name: str, values: Mapping[str, _Changes]) -> Trial:
        return Trial(name, values[name], held.get(name, ()))

    return Tuned(
        governor,
        wanted,
        [shown(name, tried) for name in tried],
        [shown(name, tried) for name in front],
        [shown(each.name, trained) for each in (runs.base, *others)],
    )


def _batch(
    study: "optuna.Study", params: Sequence[Param], runs: "_Runs", axes: Axes, count: int
) -> list[tuple[_Setting, _Changes]]:
    """Measure the settings that Optuna proposes next, and report their values to it."""
    from optuna.trial import TrialState

    asked = [study.ask() for _ in range(count)]
    governor = runs.base.governor
    made = [
        _Setting(governor, tuple((p.name, p.suggest(trial)) for p in params)) for trial in asked
    ]
    answers = runs.measure(axes, made)
    for trial, setting in zip(asked, made, strict=True):
        values = [value for value in answers[setting.name] if value is not None]
        if len(values) == len(answers[setting.name]):
            study.tell(trial, values)
        else:
            study.tell(trial, state=TrialState.FAIL)
    return [(setting, answers[setting.name]) for setting in made]


def _optuna() -> Any:
    """Return Optuna. Raises :class:`SweepError` if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise SweepError(
            "tuning requires Optuna, which is not installed\nhint: pip install 'torpor[tune]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


class _Runs:
    """Settings measured as points of a store."""

    def __init__(
        self, base: _Setting, objectives: Sequence[Objective], store: _Path, given: dict[str, Any]
    ) -> None:
        """Take the setting to compare with, and the options of :func:`torpor.sweep`."""
        self.base, self._objectives = base, objectives
        self._store, self._given = store, given

    def measure(self, axes: Axes, settings: Sequence[_Setting]) -> dict[str, _Changes]:
        """Return the values of settings in each objective, and those of the base."""
        points = {each.name: each.points(axes) for each in (self.base, *settings)}
        every = dict.fromkeys(point for of_setting in points.values() for point in of_setting)
        done = sweep(every, self._store, **self._given)
        if done.is_interrupted:
            raise KeyboardInterrupt
        rows = done.rows()
        found = {name: [rows.get(done.names[p]) for p in of] for name, of in points.items()}
        base = found[self.base.name]
        places = [self._places(objective, points[self.base.name]) for objective in self._objectives]

        def value(name: str, number: int) -> float | None:
            mine, chosen = found[name], places[number]
            before, after = [base[n] for n in chosen], [mine[n] for n in chosen]
            return self._objectives[number].value(before, after)

        return {name: tuple(value(name, n) for n in range(len(places))) for name in points}

    def _places(self, objective: Objective, points: Sequence[Point]) -> list[int]:
        places = [number for number, point in enumerate(points) if objective.counts(point)]
        if not places:
            raise SweepError(f"no point matches the objective `{objective.text}`")
        return places


def tuned_post(found: Tuned) -> Post:
    """Return the front as a table, training and held-out scenarios, with what does not hold."""
    has_held = any(trial.holdout for trial in found.front)
    headings = ["setting"]
    for objective in found.objectives:
        headings += [objective.heading, *["held out"] * has_held]
    lines = []
    notes = []
    for trial in (*found.references, *found.front):
        cells: list[Cell] = [word(trial.setting)]
        for place, objective in enumerate(found.objectives):
            is_signed = objective.target is None
            cells.append(number(trial.train[place], 2, is_signed=is_signed))
            if has_held:
                held = trial.holdout[place] if trial.holdout else None
                cells.append(number(held, 2, is_signed=is_signed))
        lines.append(cells)
    for trial in found.front:
        for objective, mine, held in zip(
            found.objectives, trial.train, trial.holdout, strict=False
        ):
            sign = -1 if objective.is_better_higher else 1
            if objective.target is not None or mine is None or held is None:
                continue
            if sign * mine < 0 <= sign * held:
                notes.append(
                    f"{trial.setting}: the gain in {objective.words} does not hold: "
                    + minus(f"{mine:+.2f} in training, {held:+.2f} held out")
                )
    title = (
        f"{counted(len(found.trials), 'setting')} of {found.base}, {len(found.front)} on the front"
    )
    facts = [f"changes from {found.base} without parameters, over all scenarios"]
    table = Table("front", "", headings, lines, 1, 1 + has_held)
    return Post(title, facts, [table], notes, _picture(found))


def _picture(found: Tuned) -> picture.Chart | None:
    """Return the first objective over the second; None where there is only one."""
    if len(found.objectives) < 2:
        return None
    up, across = (objective.heading for objective in found.objectives[:2])

    def points(
        trials: Sequence[Trial], *, is_held: bool = False, is_named: bool = False
    ) -> list[picture.Point]:
        drawn = []
        for trial in trials:
            y, x, *_ = (trial.holdout if is_held else trial.train) or (None, None)
            if x is None or y is None:
                continue
            where = " held out" if is_held else ""
            values = [minus(f"{value:+.4g}") for value in (y, x)]
            hint = f"{trial.setting}{where}: {up} {values[0]}, {across} {values[1]}"
            drawn.append(picture.Point(x, y, hint, trial.setting if is_named else ""))
        return sorted(drawn)

    front, held = points(found.front), points(found.front, is_held=True)
    named = points(found.references, is_named=True)
    others = points([trial for trial in found.trials if trial not in found.front])
    series = [
        picture.Series("other settings" if others else "", others, "--strong"),
        picture.Series("the front, held out" if held else "", held, "--above", 3.0),
        picture.Series("the front", front, "--ink", 4.0, is_line=True),
        picture.Series("", named, "--link", 4.0),
    ]
    if not (front or named):
        return None
    return picture.Chart(f"{found.base}: {up} over {across}", across, up, series)


def tuned_sentences(found: Tuned) -> list[str]:
    """Return the verdict on the search: whether a setting beats the defaults, and where."""
    base = found.references[0]
    has_held = any(trial.holdout for trial in found.front)
    winners = [trial for trial in found.front if _beats(found, trial.train, base.train)]
    lasting = [trial for trial in winners if _beats(found, trial.holdout, base.holdout)]
    if winners:
        best = next(iter(lasting or winners))
        where = f": {_values(found, best.train)}"
        if has_held:
            where = f", {'also' if lasting else 'but not'} on held-out scenarios{where}"
            where += f"; held out, {_values(found, best.holdout)}"
        said = [f"{best.setting} beats {found.base}{where}."]
    else:
        names = " and ".join(objective.words for objective in found.objectives)
        said = [f"None of {counted(len(found.trials), 'setting')} beats {found.base} in {names}."]
    for place, objective in enumerate(found.objectives):
        known = [trial for trial in found.front if trial.train[place] is not None]
        if known and len(found.front) > 1:
            best = min(known, key=lambda trial: _cost(objective, trial.train[place] or 0.0))
            text = _values(found, best.train)
            said.append(f"Best in {objective.words}: {best.setting} ({text}).")
    return [*said, "" if has_held else cannot_show(["other scenarios: nothing was held out"])]


def _cost(objective: Objective, value: float) -> float:
    """Return a value for display, where less is better."""
    return round(-value if objective.is_better_higher else value, 2)


def _beats(found: Tuned, mine: _Changes, base: _Changes) -> bool:
    """Whether values, as shown, are no worse in all objectives and better in one."""
    pairs = [
        (_cost(objective, one), _cost(objective, other))
        for objective, one, other in zip(found.objectives, mine, base, strict=False)
        if one is not None and other is not None
    ]
    is_known = len(pairs) == len(found.objectives)
    return is_known and all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _values(found: Tuned, values: _Changes) -> str:
    parts = []
    for objective, value in zip(found.objectives, values, strict=True):
        text = number(value, 2, is_signed=objective.target is None).text
        off = "off by " if objective.target is not None else ""
        parts.append(f"{objective.words} {off}{text} {change_unit(objective.metric)}")
    return ", ".join(parts)
