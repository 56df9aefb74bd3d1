# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The main finding of a trace, as one plain sentence made from the numbers alone."""

from __future__ import annotations

from typing import Any

from .numbers import listing, number

Run = dict[str, Any]


def finding(runs: list[Run]) -> str:
    """Who is nearest the oracle (or uses least), and what that costs in wake-up latency."""
    good = [r for r in runs if not r["error"] and r["kind"] == "governor"]
    if not good:
        return "No governor finished on this trace, so there is nothing to compare."
    oracle = next((r for r in runs if r["kind"] == "oracle" and not r["error"]), None)
    if oracle and _known(good, "over_oracle_pct"):
        return _by_oracle(_known(good, "over_oracle_pct"), good)
    if _known(good, "idle_energy_uj"):
        return _by_energy(_known(good, "idle_energy_uj"), good)
    return _by_depth(good)


def _by_oracle(known: list[Run], good: list[Run]) -> str:
    best, ties = _least(known, "over_oracle_pct")
    over = best["metrics"]["over_oracle_pct"]
    if len(good) == 1:
        return f"{_name(best)} uses {number(over)} % more idle energy than the oracle."
    rivals = [r for r in known if r not in ties]
    span = f" (the farthest, {_name(_most(rivals, 'over_oracle_pct'))}, is " if rivals else ""
    if rivals:
        farthest = _most(rivals, "over_oracle_pct")["metrics"]["over_oracle_pct"]
        span += f"{number(farthest)} % above)"
    verb = "are" if len(ties) > 1 else "is"
    return (
        f"{listing([_name(r) for r in ties])} {verb} nearest the oracle in idle energy, "
        f"{number(over)} % above it{span}{_latency(best, good)}."
    )


def _by_energy(known: list[Run], good: list[Run]) -> str:
    best, ties = _least(known, "idle_energy_uj")
    energy = number(best["metrics"]["idle_energy_uj"])
    if len(good) == 1:
        return f"{_name(best)} uses {energy} µJ of idle energy."
    verb = "use" if len(ties) > 1 else "uses"
    names = listing([_name(r) for r in ties])
    return f"{names} {verb} the least idle energy, {energy} µJ{_latency(best, good)}."


def _by_depth(good: list[Run]) -> str:
    known = [r for r in _known(good, "above_pct") if r["metrics"].get("below_pct") is not None]
    why = "this platform has no power numbers, so energy is not known"
    if not known:
        return f"Nothing can be ranked: {why}."

    def wrong(run: Run) -> float:
        return run["metrics"]["above_pct"] + run["metrics"]["below_pct"]

    best = min(known, key=wrong)
    metrics = best["metrics"]
    detail = (
        f"{number(wrong(best))} % of its sleeps ({number(metrics['above_pct'])} % too deep, "
        f"{number(metrics['below_pct'])} % too shallow)"
    )
    if len(good) == 1:
        return f"{_name(best)} picks the wrong depth in {detail}; {why}."
    text = f"{_name(best)} picks the wrong depth least often, in {detail}"
    return f"{text}{_latency(best, good)}; {why}."


def _latency(best: Run, good: list[Run]) -> str:
    """What the best costs: its mean wake-up latency beside the quickest governor's."""
    known = _known(good, "latency_mean_us")
    if best not in known:
        return ""
    mean = best["metrics"]["latency_mean_us"]
    quickest, ties = _least(known, "latency_mean_us")
    if best in ties:
        return f"; no governor wakes faster (mean {number(mean)} µs)"
    low = quickest["metrics"]["latency_mean_us"]
    return (
        f"; its mean wake-up latency is {number(mean)} µs, "
        f"{number(mean - low)} µs more than {_name(quickest)}, the quickest"
    )


def _name(run: Run) -> str:
    return str(run["governor"])


def _known(runs: list[Run], key: str) -> list[Run]:
    return [r for r in runs if r["metrics"].get(key) is not None]


def _least(runs: list[Run], key: str) -> tuple[Run, list[Run]]:
    """The smallest, and all that a reader of the printed numbers would call equal to it."""
    best = min(runs, key=lambda r: r["metrics"][key])
    text = number(best["metrics"][key])
    return best, [r for r in runs if number(r["metrics"][key]) == text]


def _most(runs: list[Run], key: str) -> Run:
    return max(runs, key=lambda r: r["metrics"][key])
