# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The running machine as a platform: its clusters, and the file with what was measured."""

import copy
from collections.abc import Sequence
from typing import Any

from torpor import _engine
from torpor.machine.calibration import Figures, StatePower
from torpor.machine.calibration.errors import CalibrationError
from torpor.machine.calibration.fit import Estimate
from torpor.machine.calibration.states import Cluster
from torpor.machine.kernel.system import System


def describe(system: System, name: str, title: str | None, hz: int | None) -> dict[str, Any]:
    """Return the machine as sysfs describes it, without power: what its TOML would hold."""
    if system.driver is None:
        raise CalibrationError(
            "this machine has no idle driver, so no idle state is entered and counted"
        )
    _, content, _ = _engine.import_platform(str(system.machine.cpu_dir), name, title, hz)
    return content


def clusters_of(content: dict[str, Any], system: System) -> list[Cluster]:
    """Return the clusters to measure: their online CPUs, and states not off by default."""
    online = set(system.machine.online_cpus())
    found = []
    for cluster in content["cluster"]:
        cpus = [cpu for cpu in _engine.parse_cpu_list(cluster["cpus"]) if cpu in online]
        states = [
            (index, state["name"])
            for index, state in enumerate(cluster["idle_state"])
            if state.get("default_status") != "disabled"
        ]
        if not cpus:
            continue
        if len(states) < 2:
            raise CalibrationError(
                f"cluster {cluster['name']}: {len(states)} idle state can be entered: expected "
                "two or more with different power"
            )
        found.append(Cluster(cluster["name"], cpus, states))
    return found


class _State:
    """One state as the file describes it."""

    def __init__(self, measured: StatePower, power_mw: float) -> None:
        self.name = measured.name
        self.power_mw = power_mw
        self.entry_uj = None if measured.entry_uj is None else max(measured.entry_uj.value, 0.0)
        parts = [f"power {_interval(measured.power_mw, 'mW')}"]
        if measured.entry_uj is not None:
            parts.append(f"an entry {_interval(measured.entry_uj, 'uJ')}")
        self.said = ", ".join(parts)


def with_power(
    content: dict[str, Any], clusters: Sequence[Cluster], figures: Figures, source: str
) -> tuple[str, list[str]]:
    """Return the platform's TOML with what was measured, and notes on what had to give way.

    Power never rises with depth in a platform, and an entry takes no less than nothing: where the
    figures say otherwise, neighbours share their mean, and the intervals show it.
    """
    notes = []
    measured: dict[str, dict[str, _State]] = {}
    for cluster, states in zip(clusters, figures.clusters, strict=True):
        powers = _falling([state.power_mw.value for state in states])
        measured[cluster.name] = {
            state.name: _State(state, power) for state, power in zip(states, powers, strict=True)
        }
        for state, power in zip(states, powers, strict=True):
            if power != state.power_mw.value:
                notes.append(
                    f"{state.name}: {state.power_mw.value:.4g} mW is out of order; "
                    f"{power:.4g} mW, the mean with its neighbours, is in the file"
                )
            if state.entry_uj is not None and state.entry_uj.value < 0:
                notes.append(
                    f"{state.name}: an entry of {state.entry_uj.value:.4g} uJ is written as 0"
                )
    content = copy.deepcopy(content)
    floor = figures.floor_mw
    content["package_floor_power_mw"] = _six(max(floor.value, 0.0))
    said = f"{source}: {_interval(floor, 'mW')}, with all CPUs in their deepest state"
    content["package_floor_power_source"] = said
    for described in content["cluster"]:
        for state in described["idle_state"]:
            if of := measured.get(described["name"], {}).get(state["name"]):
                state["power_mw"] = _six(of.power_mw)
                if of.entry_uj is not None:
                    state["energy_per_entry_uj"] = _six(of.entry_uj)
                state["power_source"] = f"{source}: {of.said}"
    return _engine.platform_text(content), notes


def _six(value: float) -> float:
    """Round to six digits."""
    return float(f"{value:.6g}")


def _falling(values: Sequence[float]) -> list[float]:
    """The nearest values that never rise or go below 0: neighbours out of order share their
    mean."""
    pools: list[tuple[float, int]] = []
    for value in values:
        pools.append((value, 1))
        while len(pools) > 1 and pools[-1][0] > pools[-2][0]:
            (one, many), (other, more) = pools.pop(), pools.pop()
            pools.append(((one * many + other * more) / (many + more), many + more))
    return [max(value, 0.0) for value, count in pools for _ in range(count)]


def table(figures: Figures, clusters: Sequence[Cluster], targets: Any) -> list[list[str]]:
    """Return a row a state: power, entry, and from when on it pays off against the one before."""
    rows = []
    for cluster, states in zip(clusters, figures.clusters, strict=True):
        for place, state in enumerate(states):
            entry = "-" if state.entry_uj is None else _interval(state.entry_uj, "")
            rows.append(
                [
                    *(cluster.name, state.name, _interval(state.power_mw, ""), entry),
                    _break_even(states, place),
                    f"{targets[cluster.name][state.name]:g}",
                ]
            )
    return rows


def targets_of(content: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return the target residencies in µs, by cluster and state."""
    return {
        cluster["name"]: {s["name"]: s["target_residency_us"] for s in cluster["idle_state"]}
        for cluster in content["cluster"]
    }


def _break_even(states: Sequence[StatePower], place: int) -> str:
    if place == 0:
        return "-"
    shallow, deep = states[place - 1], states[place]
    saved_mw = shallow.power_mw.value - deep.power_mw.value
    entry, before = deep.entry_uj, shallow.entry_uj
    more_uj = (entry.value if entry else 0.0) - (before.value if before else 0.0)
    if saved_mw <= 0:
        return "never"
    return f"{max(more_uj, 0.0) / saved_mw * 1e3:.4g}"


def _interval(estimate: Estimate, unit: str) -> str:
    return f"{estimate.value:.4g} {unit}".rstrip() + f" [{estimate.low:.4g}, {estimate.high:.4g}]"
