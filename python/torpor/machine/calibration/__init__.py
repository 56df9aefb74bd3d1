# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Power of the running machine's idle states, measured one state at a time.

In a window, all CPUs of a cluster have one state and are woken at one rate; the other clusters have
their deepest. Its energy is

    floor · length + Σ power · time in state + Σ energy · entries + busy power · busy time

with times and entries as the kernel counts them. Over many windows that is a linear system, whose
least squares are the machine's figures. The deepest state's power cannot be separated from what
never sleeps: it is 0, and the floor contains both. Nor can the shallowest state's entries be
separated from busy time: they are 0, too.
"""

from collections.abc import Callable, Sequence
from signal import Signals as Signal
from typing import NamedTuple

from torpor.machine.calibration.errors import CalibrationError
from torpor.machine.calibration.fit import SPARE_MIN, Estimate, check_installed, fit
from torpor.machine.calibration.load import Load
from torpor.machine.calibration.meters import Meter
from torpor.machine.calibration.states import Cluster, Counts, Pins
from torpor.machine.kernel.system import System

#: Tolerance at the end of a window, for clocks that round.
_REST_S = 1e-4


class Plan(NamedTuple):
    """Plan of a measurement."""

    rates_hz: Sequence[float] = (20, 200, 1000)
    rounds: int = 3
    window_s: float = 5.0
    #: Between pinning a state and the window: temperature and clocks follow.
    settle_s: float = 1.0


class Window(NamedTuple):
    """One measurement."""

    cluster: int
    place: int
    rate_hz: float
    length_s: float
    energy_uj: float
    #: Counts of each cluster.
    counts: list[Counts]


class StatePower(NamedTuple):
    """Power of one CPU in a state; ``entry_uj`` is None for the shallowest."""

    name: str
    power_mw: Estimate
    entry_uj: Estimate | None


class Figures(NamedTuple):
    """Result of the windows."""

    clusters: list[list[StatePower]]
    #: Power of one awake CPU of each cluster.
    busy_mw: list[Estimate]
    floor_mw: Estimate


def windows(plan: Plan, clusters: Sequence[Cluster]) -> list[tuple[int, int, float]]:
    """Return cluster, state's place and rate of each window, every second round backwards."""
    once = [
        (number, place, rate)
        for number, cluster in enumerate(clusters)
        for place in range(len(cluster.states))
        for rate in plan.rates_hz
    ]
    return [each for n in range(plan.rounds) for each in (once[::-1] if n % 2 else once)]


def measure(
    plan: Plan,
    system: System,
    clusters: Sequence[Cluster],
    meter: Meter,
    load: Load,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[list[Window], Signal | None]:
    """Measure all windows; or those until a signal came, and the signal.

    Idle states are switched on and off as before, whatever ends it.
    """
    found: list[Window] = []
    asked = windows(plan, clusters)
    with Pins(system, clusters) as pins:
        for done, (number, place, rate_hz) in enumerate(asked, 1):
            cluster = clusters[number]
            progress(
                f"{done} of {len(asked)}: {cluster.name}, {cluster.states[place][1]}, "
                f"{rate_hz:g} wake-ups/s"
            )
            for other in clusters:
                pins.pin(other, place if other is cluster else len(other.states) - 1)
            with load.waking(cluster.cpus, rate_hz):
                if (stopping := load.wait(plan.settle_s)) is not None:
                    return found, stopping
                window, stopping = _window(plan, pins, clusters, meter, load)
                if stopping is not None:
                    return found, stopping
            found.append(window._replace(cluster=number, place=place, rate_hz=rate_hz))
    return found, None


def _window(
    plan: Plan, pins: Pins, clusters: Sequence[Cluster], meter: Meter, load: Load
) -> tuple[Window, Signal | None]:
    before = [pins.counts(cluster) for cluster in clusters]
    began_s = load.now_s()
    meter.update(began_s)
    began_uj = meter.energy_uj()
    stopping = None
    while stopping is None and (left_s := began_s + plan.window_s - load.now_s()) > _REST_S:
        stopping = load.wait(min(left_s, meter.look_s))
        meter.update(load.now_s())
    length_s = load.now_s() - began_s
    energy_uj = meter.energy_uj() - began_uj
    after = [pins.counts(cluster) for cluster in clusters]
    grown = [
        Counts(
            [x - y for x, y in zip(now.times_s, then.times_s, strict=True)],
            [x - y for x, y in zip(now.entries, then.entries, strict=True)],
        )
        for now, then in zip(after, before, strict=True)
    ]
    return Window(0, 0, 0, length_s, energy_uj, grown), stopping


def figures(clusters: Sequence[Cluster], measured: Sequence[Window]) -> Figures:
    """Fit the machine's figures.

    Raises :class:`CalibrationError` where the windows do not determine them.
    """
    names = ["the floor"]
    for cluster in clusters:
        names += [f"the power of {name}" for _, name in cluster.states[:-1]]
        names += [f"an entry into {name}" for _, name in cluster.states[1:]]
        names.append(f"{cluster.name}'s busy power")
    rows = []
    for window in measured:
        row = [window.length_s]
        for cluster, counts in zip(clusters, window.counts, strict=True):
            busy_s = len(cluster.cpus) * window.length_s - sum(counts.times_s)
            row += [*counts.times_s[:-1], *map(float, counts.entries[1:]), busy_s]
        rows.append(row)
    found = iter(fit(names, rows, [window.energy_uj for window in measured]))
    # µJ in a second are µW.
    floor_mw = next(found).scaled(1e-3)
    made, busy_mw = [], []
    for cluster in clusters:
        powers = [next(found).scaled(1e-3) for _ in cluster.states[:-1]]
        powers.append(Estimate(0.0, 0.0, 0.0))
        entries = [None, *(next(found) for _ in cluster.states[1:])]
        of_states = zip(cluster.states, powers, entries, strict=True)
        made.append([StatePower(name, power, entry) for (_, name), power, entry in of_states])
        busy_mw.append(next(found).scaled(1e-3))
    return Figures(made, busy_mw, floor_mw)


def check(plan: Plan, clusters: Sequence[Cluster]) -> None:
    """Refuse a plan that cannot separate the figures, before anything is measured."""
    check_installed()
    if len(set(plan.rates_hz)) < 2:
        raise CalibrationError(
            "one rate of wake-ups does not separate power from entries: expected two"
        )
    count = len(windows(plan, clusters))
    unknowns = 1 + sum(2 * len(cluster.states) - 1 for cluster in clusters)
    if count < unknowns + SPARE_MIN:
        raise CalibrationError(
            f"{count} windows for {unknowns} unknowns: expected at least {unknowns + SPARE_MIN}",
            "more --rounds or more --rates",
        )
