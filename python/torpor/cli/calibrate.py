# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor platform calibrate`: the power of this machine's idle states."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import click

from torpor.cli import kernel, options
from torpor.cli.console import fail, print_note, table_text, write_stdout
from torpor.cli.deliver import check_new, write_toml
from torpor.cli.exits import leave_if
from torpor.cli.options import option
from torpor.cli.values import duration_ns
from torpor.machine import calibration
from torpor.machine.calibration import load, machine, meters
from torpor.machine.calibration.states import Cluster
from torpor.machine.record.signals import Signals
from torpor.results.table import Table, word

_MeterName = Annotated[
    str,
    option("WHAT", "rapl, hwmon, battery, or a sensor's file; default: the first of the three."),
]
_RateList = Annotated[str, option("LIST", "Wake-ups per second of each CPU.")]
_Rounds = Annotated[int, option("N", "How often each state and rate is measured.", least=1)]


def calibrate(
    output: Annotated[Path, option("--output -o FILE", "The platform's TOML.")],
    meter: _MeterName = "auto",
    rates: _RateList = "20,200,1000",
    rounds: _Rounds = 3,
    window: Annotated[str, option("TIME", "Length of each measurement.")] = "5s",
    name: options.MachineName = None,
    title: options.MachineTitle = None,
    hz: options.MachineHz = None,
    is_dry_run: Annotated[
        bool, option("--dry-run -n", "Only print what would be measured.")
    ] = False,
    force: options.Force = False,
) -> None:
    """Measure the power and transition energy of this machine's idle states, and write it as TOML.

    Leaves each state alone in turn (sysfs `disable`), wakes CPUs at known rates, reads the energy
    counter, and fits both with 95 % intervals. Restores `disable`. Requires root, and an idle
    machine.

    Exit status: 2 if nothing was written; ended by a signal, 128 and its number.
    """
    check_new(output, force=force)
    plan = calibration.Plan(_rates(rates), rounds, (duration_ns(window) or 0) / 1e9)
    if plan.window_s <= 0:
        raise click.BadParameter("a window of 0 measures nothing: expected a time such as 5s")
    system = kernel.make_system(is_dry_run=is_dry_run)
    content = machine.describe(system, name or output.stem, title, hz)
    clusters = machine.clusters_of(content, system)
    calibration.check(plan, clusters)
    found = meters.find(system.machine, meter)
    asked = calibration.windows(plan, clusters)
    length_s = len(asked) * (plan.window_s + plan.settle_s)
    print_note(f"{len(asked)} windows, {length_s:.0f} s, by {found.name}")
    if is_dry_run:
        for number, place, rate in asked:
            cluster = clusters[number]
            write_stdout(f"{cluster.name} {cluster.states[place][1]} {rate:g} wake-ups/s\n")
        return
    if not system.is_root:
        fail("idle states can be switched off by root only", "use sudo")
    with Signals() as signals:
        measured, stopping = calibration.measure(
            plan, system, clusters, found, load.Wakers(signals), print_note
        )
    if system.unrestored:
        fail(f"not restored: {', '.join(system.unrestored)}")
    if stopping:
        print_note("stopped: idle states are as before, nothing is written")
        leave_if(stopping)
    source = (
        f"measured {time.strftime('%Y-%m-%d')} with torpor platform calibrate: {found.name}, "
        f"{len(measured)} windows of {plan.window_s:g} s at {rates} wake-ups/s, Linux "
        f"{system.machine.release()}; 95 % intervals"
    )
    figures = calibration.figures(clusters, measured)
    toml, notes = machine.with_power(content, clusters, figures, source)
    _print_figures(figures, clusters, machine.targets_of(content))
    for note in notes:
        print_note(f"note: {note}")
    write_toml("platform", toml, output)


def _print_figures(
    figures: calibration.Figures, clusters: Sequence[Cluster], targets: dict[str, dict[str, float]]
) -> None:
    headings = ["cluster", "state", "power mW", "entry µJ", "pays off after µs", "residency µs"]
    rows = machine.table(figures, clusters, targets)
    cells = [[word(text) for text in row] for row in rows]
    write_stdout(table_text(Table("", "", headings, cells)))
    for cluster, busy in zip(clusters, figures.busy_mw, strict=True):
        print_note(f"{cluster.name}: a busy CPU takes {busy.value:.4g} mW at the frequency it had")


def _rates(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(float(part) for part in text.split(","))
    except ValueError:
        rates = ()
    if not rates or not all(0 < rate <= 100_000 for rate in rates):
        raise click.BadParameter(f"`{text}`: expected rates of 0 to 100000, such as 20,200,1000")
    return rates
