# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Gates: limits on what a candidate may cost, against a base."""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypedDict

from torpor import _engine
from torpor._engine import TorporError
from torpor.machine.toml import toml_file
from torpor.results.catalogue import RUNS, metrics
from torpor.results.comparison import fill
from torpor.results.kind import Sample
from torpor.results.kinds import KINDS
from torpor.results.load import load
from torpor.run.sweeps.columns import LABEL, unknown_governor, unlabelled
from torpor.run.sweeps.parts import StoreWarning
from torpor.run.sweeps.ranks import label_of, scenario_of
from torpor.run.sweeps.store import Store, open_store

_Path = str | os.PathLike[str]

#: Values of a governor in a scenario, by metric and seed.
_Samples = dict[tuple[str, str], dict[str, dict[int, float]]]


class _OfMetric(TypedDict):
    metric: str


class _Entry(_OfMetric, total=False):
    worse_than: float | str
    max: float
    min: float
    scenario: str
    governor: str


class _Limits(TypedDict):
    limit: list[_Entry]


class GateError(TorporError):
    """A gate cannot be held: its limits are wrong, or there is nothing to compare."""


@dataclass(frozen=True)
class Limit:
    """One entry of a limits file.

    ``worse_than_pct`` or ``worse_than`` (in the metric's unit) bounds the change from the base in
    the worse direction; ``most`` and ``least`` bound the candidate's value itself. Exactly one of
    these is set. ``scenario`` and ``governor`` are patterns.
    """

    metric: str
    worse_than_pct: float | None = None
    worse_than: float | None = None
    most: float | None = None
    least: float | None = None
    scenario: str = "*"
    governor: str = "*"

    @property
    def text(self) -> str:
        """The limit in words."""
        if self.worse_than_pct is not None:
            return f"at most {self.worse_than_pct:g} % worse"
        if self.worse_than is not None:
            return f"at most {self.worse_than:g} worse"
        return f"at most {self.most:g}" if self.most is not None else f"at least {self.least:g}"


class Verdict(TypedDict):
    """One limit in one scenario.

    ``low`` and ``high`` are the change's 95 % interval, ``p`` the chance of such a change if there
    were none, corrected by Holm's method for the number of limits on changes; None without seeds.
    """

    scenario: str
    governor: str
    metric: str
    unit: str
    limit: str
    base: float | None
    candidate: float
    change: float | None
    low: float | None
    high: float | None
    p: float | None
    is_broken: bool


def read_limits(path: _Path) -> list[Limit]:
    """Read a limits file: ``[[limit]]`` tables.

    Raises :class:`GateError` for what does not belong there, with its place.
    """
    data = toml_file(path, _Limits, GateError, "read limits")
    if not data["limit"]:
        raise GateError(f"read limits `{path}`: `limit` is empty: expected one or more")
    return [
        _limit(entry, f"read limits `{path}`: `limit[{n}]`")
        for n, entry in enumerate(data["limit"])
    ]


def _limit(entry: Mapping[str, Any], place: str) -> Limit:
    if entry["metric"] not in _known_metrics():
        text = _engine.unknown_name("metric", entry["metric"], list(_known_metrics()), "")
        raise GateError(f"{place}: {text}")
    bounds = [key for key in ("worse_than", "max", "min") if key in entry]
    if len(bounds) != 1:
        raise GateError(f"{place}: expected one of `worse_than`, `max` and `min`")
    (bound,) = bounds
    value = entry[bound]
    given = {key: value for key, value in entry.items() if key != bound}
    name = {"worse_than": "worse_than", "max": "most", "min": "least"}[bound]
    if bound == "worse_than":
        if _known_metrics()[entry["metric"]]["direction"] == "none":
            raise GateError(
                f"{place}: `{entry['metric']}` is neither better nor worse when it changes\n"
                "hint: use `max` or `min`"
            )
        if isinstance(value, str) and value.rstrip().endswith("%"):
            name, value = "worse_than_pct", value.rstrip()[:-1]
    try:
        given[name] = float(value)
    except ValueError:
        raise GateError(
            f'{place}: `{bound}` is {entry[bound]!r}: expected a number, or "2 %"'
        ) from None
    return Limit(**given)


def gate(
    base: Any,
    candidate: Any,
    limits: Sequence[Limit] | _Path,
    *,
    base_governor: str | None = None,
    candidate_governor: str | None = None,
    is_strict: bool = False,
) -> list[Verdict]:
    """Check a candidate against a base, limit by limit, in every scenario.

    Args:
        base: A result, a saved one's path, a store of a sweep, or a pair of dumps' :func:`diff`.
        candidate: The result to judge, in the same forms.
        limits: What :func:`read_limits` returned, or the file.
        base_governor: Which governor of the base; needed if it has several and the candidate
            has others.
        candidate_governor: Which of the candidate.
        is_strict: Fail unless the whole interval is within the limit.

    Where there are seeds, changes are paired by seed, and a limit is broken only if the change is
    more than noise: its ``p``, corrected for the number of limits that are judged so, is below
    0.05. A limit on one metric in one scenario is one test. One recording has no
    measure of noise: its change is compared with the limit as it is.

    Raises :class:`GateError` where a limit meets nothing.
    """
    if isinstance(limits, str | os.PathLike):
        limits = read_limits(limits)
    before = _chosen(_samples(base), base_governor, "base")
    after = _chosen(_samples(candidate), candidate_governor, "candidate")
    is_renamed = base_governor is not None or candidate_governor is not None
    is_renamed |= all(len({name for _, name in side}) == 1 for side in (before, after))
    if is_renamed:
        # One against one: their names do not matter.
        bases = {scenario: values for (scenario, _), values in before.items()}
        pairs = [(key, bases.get(key[0]), values) for key, values in after.items()]
    else:
        pairs = [(key, before.get(key), values) for key, values in after.items()]
    judged: list[tuple[Limit, Verdict]] = []
    for limit in limits:
        met = [
            pair
            for pair in pairs
            if fnmatchcase(pair[0][0], limit.scenario) and fnmatchcase(pair[0][1], limit.governor)
        ]
        if _is_relative(limit) and not is_renamed:
            _check_versions((key[1] for key, old, _ in met if old is None), before)
        verdicts = (_judge(limit, *pair) for pair in met)
        found = [verdict for verdict in verdicts if verdict is not None]
        if not found:
            known = sorted({f"{scenario} ({governor})" for scenario, governor in after})
            raise GateError(
                f"the limit on `{limit.metric}` for scenario `{limit.scenario}` and governor "
                f"`{limit.governor}` meets nothing that both sides have: the candidate has "
                f"{'; '.join(known[:8])}{' ...' if len(known) > 8 else ''}"
            )
        judged += [(limit, verdict) for verdict in found]
    tested = [v for _, v in judged if v["p"] is not None]
    chances = _engine.holm([v["p"] for v in tested if v["p"] is not None])
    for verdict, chance in zip(tested, chances, strict=True):
        verdict["p"] = chance
    for limit, verdict in judged:
        verdict["is_broken"] = _is_broken(limit, verdict, is_strict=is_strict)
    return [verdict for _, verdict in judged]


def _is_relative(limit: Limit) -> bool:
    return limit.worse_than_pct is not None or limit.worse_than is not None


def _judge(
    limit: Limit,
    key: tuple[str, str],
    old: Mapping[str, Mapping[int, float]] | None,
    new: Mapping[str, Mapping[int, float]],
) -> Verdict | None:
    """Return the figures of a limit; whether it is broken depends on those of all."""
    mine = new.get(limit.metric, {})
    theirs = (old or {}).get(limit.metric, {})
    info = _known_metrics()[limit.metric]
    seeds = sorted(mine.keys() & theirs.keys())
    if not mine or (_is_relative(limit) and not seeds):
        return None
    change = low = high = p = None
    if seeds:
        compared = _compare(info, {s: theirs[s] for s in seeds}, {s: mine[s] for s in seeds})
        change, low, high = (compared[name] for name in ("difference", "low", "high"))
        p = compared["p"] if _is_relative(limit) else None
    value = sum(mine.values()) / len(mine)
    before = sum(theirs[s] for s in seeds) / len(seeds) if seeds else None
    return {
        "scenario": key[0],
        "governor": key[1],
        "metric": limit.metric,
        "unit": info["unit"],
        "limit": limit.text,
        "base": before,
        "candidate": value,
        "change": change,
        "low": low,
        "high": high,
        "p": p,
        "is_broken": False,
    }


#: A change with so large a chance is noise.
_LEVEL = 0.05


def _is_broken(limit: Limit, verdict: Verdict, *, is_strict: bool) -> bool:
    value, before = verdict["candidate"], verdict["base"]
    if limit.most is not None:
        return value > limit.most
    if limit.least is not None:
        return value < limit.least
    most = limit.worse_than
    if limit.worse_than_pct is not None:
        assert before is not None, "a relative limit has a base"
        most = abs(before) * limit.worse_than_pct / 100
    assert most is not None
    # From here on, more is worse.
    is_higher_better = _known_metrics()[limit.metric]["direction"] == "higher"
    sign = -1 if is_higher_better else 1
    mean = sign * (verdict["change"] or 0.0)
    end = verdict["low"] if is_higher_better else verdict["high"]
    farthest = None if end is None else sign * end
    if is_strict:
        return (mean if farthest is None else farthest) > most
    return mean > most and (verdict["p"] is None or verdict["p"] < _LEVEL)


def _compare(
    info: Mapping[str, Any], before: Mapping[int, float], after: Mapping[int, float]
) -> dict[str, Any]:
    """The engine's comparison of two columns of one metric."""
    columns = [
        {
            "label": label,
            "samples": [{"number": s, "values": {info["key"]: v}} for s, v in values.items()],
        }
        for label, values in (("base", before), ("candidate", after))
    ]
    found = fill([dict(info)], columns, is_paired=len(before) > 1)
    change: Any = found["rows"][0]["cells"][1]["change"]
    # Equal values have no change.
    return change or {"difference": 0.0, "low": None, "high": None, "p": None}


def _known_metrics() -> dict[str, dict[str, Any]]:
    return metrics(*RUNS)


def _chosen(samples: _Samples, governor: str | None, side: str) -> _Samples:
    if governor is None:
        return samples
    found = {key: values for key, values in samples.items() if key[1] == governor}
    if not found:
        text = unknown_governor(governor, (name for _, name in samples))
        raise GateError(f"the {side}: {text}")
    return found


def _check_versions(governors: Iterable[str], base: _Samples) -> None:
    """Raise :class:`GateError` for a governor of which the base has other contents alone."""
    known = list(dict.fromkeys(name for _, name in base))
    for governor in governors:
        others = [name for name in known if unlabelled(name) == unlabelled(governor)]
        if others and governor not in known:
            raise GateError(
                f"the candidate's `{governor}` is ambiguous, because its file was edited: the base "
                f"has {' and '.join(f'`{name}`' for name in others)}\n"
                "hint: --base and --candidate name one each"
            )


def _samples(source: Any) -> _Samples:
    """Return the values of a result, a store or a file of either."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        source = open_store(path) if (path / "store.json").is_file() else load(path)
    if isinstance(source, Store):
        samples = _of_store(source)
    else:
        result = source.to_dict() if hasattr(source, "to_dict") else source
        kind = result.get("kind") if isinstance(result, Mapping) else None
        samples_of = KINDS[kind].samples if kind in KINDS else None
        if samples_of is None:
            expected = ", ".join(name for name, of in KINDS.items() if of.samples)
            raise GateError(
                f"a result of kind `{kind}` has no limits: expected {expected}, or a sweep's store"
            )
        samples = samples_of(result)
    found: _Samples = {}
    for sample in samples:
        values = found.setdefault((sample.scenario, sample.column), {})
        for metric, value in sample.values.items():
            if value is not None:
                values.setdefault(metric, {})[sample.number] = value
    return found


def _of_store(opened: Store) -> Iterator[Sample]:
    points = opened.points()
    paired = points.paired
    for note in paired.notes:
        warnings.warn(f"`{opened.path}`: {note}", StoreWarning, stacklevel=4)
    compared = points.at(points.in_order(paired.places))
    for label, row in zip(compared[LABEL], compared.rows(), strict=True):
        # Whole labels: what varies in one store may not in the other.
        scenario = label_of(scenario_of(row))
        metrics = {metric: row[metric] for metric in _known_metrics()}
        yield Sample(scenario, label, row["seed"] or 0, metrics)
