# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Gain and cost of IO boosts: IOPS over energy, compared with every fixed frequency."""

import itertools
import os
from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, NamedTuple, TypedDict

from torpor import TorporError, simulate
from torpor.plugin import platform_content, workload_content
from torpor.plugin import types as results
from torpor_lab.studies import files

#: One job of psync on the author's RK3399.
DEFAULT_WORKLOAD = files.FOLDER / "workloads" / "io-boost.toml"

#: Each boost with its defaults, and with one parameter changed.
DEFAULT_BOOSTS = (
    "none",
    "iowait",
    "iowait,boost_max=512",
    "iowait,fall_shift=2",
    "per-task",
    "per-task,levels=4",
    "per-task,level_util=51",
    "per-task,interval_ms=50",
    "per-task-v2",
    "per-task-v2,levels=4",
)

#: The rate limit of kernels before 6.9 on machines with a slow clock, such as the author's.
DEFAULT_CPUFREQ = "schedutil,rate_limit_us=10000"

#: The author's kernel placed no task by energy, and 408 MHz was an efficient OPP of little CPUs.
#: With an energy model 6.12 places by energy, and takes 408 MHz for less efficient than 600 MHz.
DEFAULT_PLATFORM = "rk3399,energy_model=false"

#: More combinations of OPPs than this, and clusters are gone through one by one.
COMBINATIONS_MAX = 100

#: The jobs of a workload, and the key by which each has its CPUs.
_PINS = {"fio": "cpus_allowed", "task": "cpus"}


class Setting(TypedDict):
    """Outcome of one boost, or of one combination of fixed frequencies."""

    kind: Literal["boost", "fixed"]
    name: str
    iops: float
    uj_per_io: float
    power_mw: float
    #: By cluster.
    freq_mhz: dict[str, float]
    is_front: bool


class Scatter(TypedDict):
    """The study's result."""

    workload: str
    platform: str
    governor: str
    cpufreq: str
    duration: str
    seeds: int
    settings: list[Setting]


def io_boost_study(
    workload: str | os.PathLike[str] | None = None,
    *,
    platform: str | os.PathLike[str] = DEFAULT_PLATFORM,
    governor: str = "teo",
    io_boosts: Iterable[str] = DEFAULT_BOOSTS,
    cpufreq: str = DEFAULT_CPUFREQ,
    duration: str = "10s",
    seeds: int = 1,
    threads: int | None = None,
) -> Scatter:
    """Run a workload with IO, the study's own by default, under each boost and fixed frequency.

    Fixed are all combinations of the clusters' OPPs, or, where there are more than
    ``COMBINATIONS_MAX``, those of one cluster with the others at their lowest; and then each
    cluster's again with the work kept on that cluster, unless it says itself where it may run.

    Returns plain data: ``settings``, each with its ``kind`` (``boost`` or ``fixed``), ``name``,
    ``iops``, ``uj_per_io``, ``power_mw``, ``freq_mhz`` by cluster, and ``is_front``: no fixed
    frequency has both more IOPS and less energy an IO. And what was run.

    Raises:
        TorporError: A name is unknown, the workload has no IO, or the machine's power is not known.

    >>> result = io_boost_study(io_boosts=["none", "iowait"], duration="50ms", seeds=1)
    >>> [setting["name"] for setting in result["settings"] if setting["kind"] == "boost"]
    ['none', 'iowait']
    """
    workload = DEFAULT_WORKLOAD if workload is None else workload
    run = partial(
        simulate,
        platform=platform,
        governors=governor,
        duration=duration,
        seeds=seeds,
        threads=threads,
    )
    boosted: Any = run(workload, cpufreq=cpufreq, io_boosts=list(io_boosts)).to_dict()
    settings = _settings(boosted, "boost", list(io_boosts))
    clusters = _clusters(platform)
    content = workload_content(str(workload))
    is_pinned = any(pin in job for kind, pin in _PINS.items() for job in content.get(kind, ()))
    for kept_on in [None] if is_pinned else [*clusters, None]:
        fixed = _fixed(clusters, kept_on)
        kept = workload if kept_on is None else _keep_on(content, kept_on)
        policies = [f"userspace,freq_khz={'/'.join(map(str, freqs))}" for freqs in fixed]
        found: Any = run(kept, cpufreq=policies, io_boosts="none").to_dict()
        names = [_name(freqs, clusters, kept_on) for freqs in fixed]
        settings += _settings(found, "fixed", names)
    front = _front([setting for setting in settings if setting["kind"] == "fixed"])
    for setting in settings:
        setting["is_front"] = setting in front
    return {
        "workload": boosted["workload"]["title"],
        "platform": boosted["platform"]["title"],
        "governor": governor,
        "cpufreq": cpufreq,
        "duration": duration,
        "seeds": seeds,
        "settings": settings,
    }


def _settings(
    result: "results.Simulation", kind: Literal["boost", "fixed"], names: list[str]
) -> list[Setting]:
    if result["interrupted"]:
        raise KeyboardInterrupt
    found: list[Setting] = []
    for name, run in zip(names, result["runs"], strict=True):
        if run["error"]:
            raise TorporError(f"{run['governor']}: {run['error']}")
        metrics = run["metrics"]
        iops, power_mw = metrics.get("iops"), metrics["power_mw"]
        if not iops:
            raise TorporError(f"workload `{result['workload']['name']}`: no IO was done")
        if power_mw is None:
            raise TorporError(
                f"platform `{result['platform']['name']}`: its power is not known; expected a "
                "machine with known power, such as rk3399 or pixel6"
            )
        found.append(
            {
                "kind": kind,
                "name": name,
                "iops": iops,
                "uj_per_io": power_mw * 1e3 / iops,
                "power_mw": power_mw,
                "freq_mhz": {
                    domain["name"]: domain["freq_khz"] / 1e3
                    for domain in run["perf_domains"]
                    if domain["freq_khz"] is not None
                },
                "is_front": False,
            }
        )
    return found


class _Cluster(NamedTuple):
    name: str
    cpus: str
    freqs_khz: tuple[int, ...]


def _clusters(platform: str | os.PathLike[str]) -> list[_Cluster]:
    return [
        _Cluster(each["name"], each["cpus"], tuple(opp["freq_khz"] for opp in each.get("opp", ())))
        for each in platform_content(str(platform))["cluster"]
    ]


def _fixed(clusters: list[_Cluster], kept_on: _Cluster | None) -> list[tuple[int, ...]]:
    """Combinations of frequencies, one of each cluster."""
    every = [cluster.freqs_khz or (0,) for cluster in clusters]
    lowest = [freqs[:1] for freqs in every]
    combined = list(itertools.product(*every))
    if kept_on is None and len(combined) <= COMBINATIONS_MAX:
        return combined
    found: list[tuple[int, ...]] = []
    for index, cluster in enumerate(clusters):
        if kept_on in (None, cluster):
            found += itertools.product(*lowest[:index], every[index], *lowest[index + 1 :])
    return list(dict.fromkeys(found))


def _keep_on(content: dict[str, Any], cluster: _Cluster) -> dict[str, Any]:
    """The same workload with all of its tasks on one cluster."""
    jobs = {
        kind: [{**job, pin: cluster.cpus} for job in content[kind]]
        for kind, pin in _PINS.items()
        if kind in content
    }
    return {**content, **jobs}


def _name(freqs: tuple[int, ...], clusters: list[_Cluster], kept_on: _Cluster | None) -> str:
    shares = [
        f"{cluster.name} {khz // 1000}"
        for cluster, khz in zip(clusters, freqs, strict=True)
        if kept_on in (None, cluster)
    ]
    return ", ".join(shares) + (" MHz" if kept_on is None else " MHz, kept there")


def _front(settings: list[Setting]) -> list[Setting]:
    """Return the settings that no other beats in both IOPS and energy; the first of equal ones."""
    front: list[Setting] = []
    # Dearest last, of equally dear ones the fastest first: each that is faster than all before it.
    for setting in sorted(settings, key=lambda s: (s["uj_per_io"], -s["iops"])):
        if not front or setting["iops"] > front[-1]["iops"]:
            front.append(setting)
    return front
