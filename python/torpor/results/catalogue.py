# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Metrics: which there are, and in which places each leads.

The engine declares them (``crates/torpor-result/src/metric.rs``); whoever shows only a few, or
has to choose one, asks here.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from torpor import _engine

#: As the engine has it: ``key``, ``title``, ``unit``, ``kind``, ``direction``, ``definition``,
#: ``is_optional``, ``noun`` (its name in a sentence), and ``lead``.
Metric = dict[str, Any]

#: Catalogues of governors' runs.
RUNS = ("replay", "simulation")
_ALL = (*RUNS, "fidelity", "ab", "shadow")
# The catalogue is ASCII; people are used to the sign.
_UNITS = {"us": "µs", "uJ": "µJ", "uW": "µW"}


@cache
def _catalogues() -> dict[str, list[Metric]]:
    found: dict[str, list[Metric]] = _engine.metrics()
    return found


@cache
def metrics(*kinds: str) -> dict[str, Metric]:
    """Return the metrics of these kinds of result by key, in order; without a kind, all."""
    found: dict[str, Metric] = {}
    for kind in kinds or _ALL:
        for metric in _catalogues()[kind]:
            found.setdefault(metric["key"], metric)
    return found


@cache
def leading(place: str, *kinds: str) -> tuple[str, ...]:
    """Return the keys of the metrics that lead in a place (the engine's ``Place``), in order.

    >>> leading("line", "replay")
    ('sleeps', 'above_pct', 'below_pct', 'latency_mean_us', 'idle_power_mw')
    """
    rank_of = {key: rank_in(place, metric) for key, metric in metrics(*kinds).items()}
    return tuple(sorted(filter(rank_of.get, rank_of), key=rank_of.__getitem__))


def rank_in(place: str, metric: Mapping[str, Any] | None) -> int:
    """Return the rank of a metric in a place, 1 being the first; 0 if it is not there."""
    return metric["lead"]["places"].get(place, 0) if metric else 0


def first_of(key: str) -> float:
    """Return the rank of a metric by importance to the reader."""
    return rank_in("sentence", metrics().get(key)) or float("inf")


@cache
def counts() -> frozenset[str]:
    """Metrics of runs that grow with time, so that two durations cannot be compared by them."""
    return frozenset(key for key, metric in metrics(*RUNS).items() if metric["kind"] == "count")


@cache
def distances() -> dict[str, str]:
    """Return the metrics of distance to the oracle, by the energy whose distance each is."""
    every = metrics(*RUNS)
    return {metric["lead"]["over"]: key for key, metric in every.items() if metric["lead"]["over"]}


def wrong_pct(values: Mapping[str, float | None]) -> float | None:
    """Return the share of sleeps of a wrong depth, either way; None if one is not known."""
    above, below = (values.get(key) for key in leading("depth", *RUNS))
    return None if above is None or below is None else above + below


def common_key(key: str) -> str:
    """Return a metric's key in the catalogue of runs, if that has the same one by another."""
    metric = metrics().get(key)
    return (metric and metric["lead"]["same_as"]) or key


def unit_text(unit: str) -> str:
    """Spell a unit as people do.

    >>> unit_text("us"), unit_text("mW")
    ('µs', 'mW')
    """
    return _UNITS.get(unit, unit)


def title_text(metric: Mapping[str, Any]) -> str:
    """Return a metric's title with its unit, for an axis."""
    unit = unit_text(metric["unit"])
    return f"{metric['title']}, {unit}" if unit else str(metric["title"])


def difference_unit(metric: Mapping[str, Any]) -> str:
    """Return the unit of a difference that has no percentage: a share's, or one from 0."""
    return "points" if metric["kind"] == "share" else unit_text(metric["unit"])
