# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The verdict on governors that were run: which is best, and its cost in wake-up latency.

A governor is called best only if the seeds separate it from the others, and only if the next timer
is known or guessed. One recording has no measure of chance: its best is that recording's alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torpor._engine import Moments
from torpor.results import types as results
from torpor.results.catalogue import distances, leading, metrics, wrong_pct
from torpor.results.comparison import class_shares, percent
from torpor.results.numbers import listing, number_text

if TYPE_CHECKING:
    from torpor.results.types import RunOutcome as Run


#: With more decisions that knew no timer, a replay says little about governors that use one.
_UNKNOWN_SHARE_MAX = 0.5
#: Smallest share that is mentioned.
_SHARE_MIN = 0.005


def finding(runs: Sequence[Run], sleep_length_sources: Mapping[str, Any] | None = None) -> str:
    """Name the governor nearest the oracle (or with the least energy), and its cost in wake-up
    latency.

    ``sleep_length_sources`` counts decisions by class and source of the time to the next timer.
    """
    good = [r for r in runs if not r["error"] and r["kind"] == "governor"]
    if not good:
        return "No governor finished on this trace, so there is nothing to compare."
    shares = class_shares(sleep_length_sources or {})
    unknown, guessed = shares.get("none", 0.0), shares.get("guessed", 0.0)
    if unknown > _UNKNOWN_SHARE_MAX:
        return (
            f"No verdict: for {percent(unknown)} of the decisions the recording does not "
            "show when the next timer was due, and governors choose by that."
        )
    text = _best(runs, good)
    if guessed >= _SHARE_MIN:
        text += (
            f" In {percent(guessed)} of the decisions the next timer is guessed from what woke the "
            "CPU: a kernel did not know that, and may have decided otherwise."
        )
    if unknown >= _SHARE_MIN:
        text += (
            f" In {percent(unknown)} of the decisions the recording shows only the tick: "
            "a kernel knew more, and may have decided otherwise."
        )
    return text


def _best(runs: Sequence[Run], good: Sequence[Run]) -> str:
    oracle = next((r for r in runs if r["kind"] == "oracle" and not r["error"]), None)
    of_runs = metrics("simulation", "replay")
    for key in distances().values():
        if oracle and _known(good, key):
            return _by_oracle(_known(good, key), good, key, of_runs[key]["noun"], oracle)
    # A simulation knows what its machine took in all; to sleep less and work less is no loss.
    for key, metric in of_runs.items():
        if metric["kind"] == "energy" and _known(good, key):
            return _by_energy(_known(good, key), good, key, metric["noun"])
    return _by_depth(good)


def _by_oracle(known: Sequence[Run], good: Sequence[Run], key: str, what: str, oracle: Run) -> str:
    best, ties = _least(known, key)
    over = best["metrics"][key] or 0.0
    own = oracle["metrics"][key] or 0
    if over <= 0 < own:
        return (
            f"{_name(best)} uses the least {what} that is known; the oracle's search was left "
            f"incomplete, and what it found uses {number_text(own)} % more."
        )
    if len(good) == 1:
        return f"{_name(best)} uses {number_text(over)} % more {what} than the oracle."
    rivals = [r for r in known if r not in ties]
    span = ""
    if rivals:
        most = _most(rivals, key)
        farthest = number_text(most["metrics"][key])
        span = f" (the farthest, {_name(most)}, is {farthest} % above)"
    verb = "are" if len(ties) > 1 else "is"
    return (
        f"{listing([_name(r) for r in ties])} {verb} nearest the oracle in {what}, "
        f"{number_text(over)} % above it{span}{_latency(best, good)}."
    )


def _by_energy(known: Sequence[Run], good: Sequence[Run], key: str, what: str) -> str:
    best, ties = _least(known, key)
    energy = number_text(best["metrics"][key])
    if len(good) == 1:
        return f"{_name(best)} uses {energy} µJ of {what}."
    if _is_undecided(known):
        return (
            f"{_name(best)} used the least {what}, {energy} µJ, in one seed, which may be chance."
        )
    if len(ties) == len(known) > 1:
        more = ", by more than chance" if _seeds(best) else ""
        return f"No governor's {what} differs from the least, {energy} µJ{more}."
    verb = "use" if len(ties) > 1 else "uses"
    names = listing([_name(r) for r in ties])
    tied = ", and the seeds do not separate them" if len(ties) > 1 and _seeds(best) else ""
    return f"{names} {verb} the least {what}, {energy} µJ{tied}{_latency(best, good)}."


def _by_depth(good: Sequence[Run]) -> str:
    known = _known(good, "wrong_pct")
    why = "this platform has no power numbers, so energy is not known"
    if not known:
        return f"Nothing can be ranked: {why}."
    best, ties = _least(known, "wrong_pct")
    metrics = best["metrics"]
    detail = (
        f"{number_text(_value(metrics, 'wrong_pct'))} % of its sleeps "
        f"({number_text(metrics['above_pct'])} % too deep, "
        f"{number_text(metrics['below_pct'])} % too shallow)"
    )
    if len(good) == 1:
        return f"{_name(best)} picks the wrong depth in {detail}; {why}."
    if _is_undecided(known):
        return f"{_name(best)} picked the wrong depth least often in one seed, in {detail}; {why}."
    if len(ties) == len(known) and _seeds(best):
        return f"No governor picks the wrong depth less often by more than chance; {why}."
    text = f"{_name(best)} picks the wrong depth least often, in {detail}"
    return f"{text}{_latency(best, good)}; {why}."


def _latency(best: Run, good: Sequence[Run]) -> str:
    """Describe the cost of the best: its mean wake-up latency compared with the fastest
    governor's."""
    key, *_ = leading("delay", "replay")
    known = _known(good, key)
    if best not in known:
        return ""
    mean = best["metrics"][key] or 0.0
    quickest, ties = _least(known, key)
    if best in ties:
        return f"; no governor wakes faster (mean {number_text(mean)} µs)"
    low = quickest["metrics"][key] or 0.0
    return (
        f"; its mean wake-up latency is {number_text(mean)} µs, "
        f"{number_text(mean - low)} µs more than {_name(quickest)}, the quickest"
    )


def _name(run: Run) -> str:
    return str(run["governor"])


def _known(runs: Sequence[Run], key: str) -> Sequence[Run]:
    return [r for r in runs if _value(r["metrics"], key) is not None]


def _value(metrics: dict[str, float | None], key: str) -> float | None:
    if key != "wrong_pct":
        return metrics.get(key)
    return wrong_pct(metrics)


def _seeds(run: Run) -> list[results.SeedOutcome]:
    # A simulation's alone has them.
    return run["seeds"] if "seeds" in run else []  # noqa: SIM401


def _is_undecided(runs: Sequence[Run]) -> bool:
    """Whether there are seeds, but too few for a statement about their differences."""
    return any(len(_seeds(run)) == 1 for run in runs)


def _least(runs: Sequence[Run], key: str) -> tuple[Run, list[Run]]:
    """Return the least, and all that tie with it: the printed number is the same, or the seeds
    that both have run do not separate them."""
    best = min(runs, key=lambda run: _value(run["metrics"], key) or 0.0)
    text = number_text(_value(best["metrics"], key))

    def is_tied(run: Run) -> bool:
        if run is best or number_text(_value(run["metrics"], key)) == text:
            return True
        _, low, high = Moments(_differences(best, run, key)).interval()
        return low is not None and high is not None and low <= 0 <= high

    return best, [run for run in runs if is_tied(run)]


def _differences(first: Run, second: Run, key: str) -> list[float]:
    """Return the second's values less the first's, under the seeds that both have run."""
    values: list[dict[int, float]] = [{}, {}]
    for of_seed, run in zip(values, (first, second), strict=True):
        for seed in _seeds(run):
            if (value := _value(seed["metrics"], key)) is not None:
                of_seed[seed["seed"]] = value
    return [values[1][seed] - value for seed, value in values[0].items() if seed in values[1]]


def _most(runs: Sequence[Run], key: str) -> Run:
    return max(runs, key=lambda r: r["metrics"][key] or 0.0)
