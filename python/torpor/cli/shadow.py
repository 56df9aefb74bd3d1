# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor shadow`: other governors in the shadow of the one that decides."""

import contextlib
import json
import platform as host_platform
import sys
import time
from enum import Enum
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from torpor import Replay, _engine
from torpor.cli import options
from torpor.cli.console import (
    InPlace,
    fail,
    note_if_never_idle,
    post_text,
    print_note,
    write_stdout,
)
from torpor.cli.deliver import check, deliver
from torpor.cli.exits import EXIT_FINDING, leave_if
from torpor.cli.options import argument, option
from torpor.cli.values import duration_ns
from torpor.machine import counters
from torpor.machine.record.machine import Machine, facts, idle_governor
from torpor.results.catalogue import difference_unit, metrics
from torpor.results.files import read_text
from torpor.results.numbers import duration as duration_text
from torpor.results.table import Cell, Post, Table, counted, number, word
from torpor.run import recordings
from torpor.run.options import ShadowOptions, limits_text
from torpor.run.sweeps.axes import Point

if TYPE_CHECKING:
    from torpor.run.shadow.live import Plan, Shadow, Tally, Window
    from torpor.run.shadow.metrics import Exporter
    from torpor.run.shadow.rollup import Rollup, Under

_GOVERNORS = ("menu", "teo")
_DAY_NS = 24 * 3600 * 10**9
_SERIAL = (
    "95 %: Student's interval of the minutes' paired differences; minutes that follow one another "
    "are alike, so that it is narrower than days would show"
)


class Printed(str, Enum):
    """As --print takes it."""

    SYSTEMD = "systemd"
    GRAFANA = "grafana"


_FILES = {Printed.SYSTEMD: "torpor-shadow.service", Printed.GRAFANA: "grafana.json"}


def _share(text: str | None) -> float | None:
    """Read ``0.5%`` as 0.005."""
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not text.endswith("%") or not 0 < share <= 1:
        raise click.BadParameter(f"`{text}`: expected a share of one core, such as 0.5%")
    return share


_Source = Annotated[
    str | None,
    argument(
        "[FILE]",
        "Output of `perf record -o -` as it grows; - is standard input. For any other "
        "recording the result appears at its end. Default: this machine, by perf.",
    ),
]
_Platform = Annotated[
    str | None, options.machine("Machine: a name, a .toml file, or a dump. Default: this one.")
]
_Followed = Annotated[bool, option("--follow", "FILE grows: wait for more until Ctrl-C.")]
_Interval = Annotated[str, option("--interval -i TIME", "Time between two tables.")]
_Duration = Annotated[str | None, option("TIME", "End after so long, such as 600s.")]
_Budget = Annotated[
    str | None,
    option(
        "P%",
        "Use at most this share of one core: record fewer events, then skip minutes, but "
        "record one in ten at least.",
    ),
]
_Store = Annotated[Path | None, option("--store DIR", "Keep each minute as points of a store.")]
_Keep = Annotated[int | None, option("--keep DAYS", "Delete minutes that are older.", least=1)]
_Class = Annotated[
    str | None, option("--class NAME", "Class of machine in the store; default: its title.")
]
_Port = Annotated[
    int | None,
    option(
        "--metrics PORT",
        "OpenMetrics at http://localhost:PORT/metrics; 0: any port that is free.",
        least=0,
        most=65535,
    ),
]
_Print = Annotated[
    Printed | None, option("--print FILE", "Print a unit (systemd) or a dashboard (grafana).")
]


@options.of(ShadowOptions, after="governors")
def shadow(
    source: _Source = None,
    platform: _Platform = None,
    governors: Annotated[list[str] | None, options.governor(_GOVERNORS)] = None,
    is_followed: _Followed = False,
    interval: _Interval = "2s",
    duration: _Duration = None,
    budget: _Budget = None,
    store: _Store = None,
    keep_days: _Keep = None,
    machine_class: _Class = None,
    port: _Port = None,
    printed: _Print = None,
    report: options.ReportPath = None,
    form: options.Form = "text",
    **given: Any,
) -> None:
    """Run governors in the shadow of the one that decides on this machine.

    Each meets the sleeps that the machine has, as in a replay. On a terminal the table is updated
    in place; Ctrl-C ends it with the complete result. The others are compared with the first one.
    Changes no setting of the machine.

    Exit status: ended by a signal, 128 and its number.

    Example: `sudo torpor shadow -g menu -g teo -g ./my.c` compares this machine's cost under menu
    with that under teo and a file, until Ctrl-C. With `--store DIR` it keeps each minute, and
    `torpor show DIR` shows what it has kept.
    """
    if printed is not None:
        folder = Path(str(resources.files("torpor.run.shadow")))
        write_stdout(read_text(folder / _FILES[printed]))
        return
    check(folder=None, files=(), page=report)
    if source is not None and store is not None and not (is_followed or source == "-"):
        fail("--store keeps minutes as they pass", "use --follow, or replay the recording")
    machine = Machine()
    known = facts(machine) if source is None else None
    if known and known["hz"]:
        given.setdefault("hz", known["hz"])
    limit_ns = duration_ns(duration)
    plan = _plan(
        platform=str(platform or (_machine_of(source) if source else counters.SYSFS)),
        governors=governors or list(_GOVERNORS),
        options=given,
        source=None if source is None else Path(source),
        follow=is_followed,
        interval_s=_interval_s(interval),
        duration_s=None if limit_ns is None else limit_ns / 1e9,
        budget=_share(budget),
    )
    if source is None:
        note_if_never_idle(machine, needs_driver=platform is None)
    with contextlib.ExitStack() as stack:
        rollup = None
        exporter = _exporter(port, stack)
        if store is not None:
            named = machine_class or _class(platform, machine)
            rollup = stack.enter_context(_rollup(store, plan, named, keep_days))
        ran, table = _session(plan, machine, rollup, exporter, form == "text")
    raise click.exceptions.Exit(_end(ran, form, report, table))


def _interval_s(text: str) -> float:
    interval_ns = duration_ns(text)
    if not interval_ns:
        fail("the interval must not be 0", "give a time such as `-i 2s`")
    return interval_ns / 1e9


def _plan(**given: Any) -> "Plan":
    # Perf and pidfds: --help needs neither.
    from torpor.run.shadow.live import Plan

    return Plan(**given)


def _exporter(port: int | None, stack: contextlib.ExitStack) -> "Exporter | None":
    """Serve metrics at a port, if one is asked for, until the block ends."""
    if port is None:
        return None
    from torpor.run.shadow.metrics import Exporter

    try:
        exporter = stack.enter_context(Exporter(port))
    except OSError as error:
        fail(f"port {port}: {error.strerror}", "--metrics 0 takes any port that is free")
    print_note(f"metrics: http://localhost:{exporter.port}/metrics")
    return exporter


def _session(
    plan: "Plan",
    machine: Machine,
    rollup: "Rollup | None",
    exporter: "Exporter | None",
    is_text: bool,
) -> "tuple[Shadow, Post]":
    """Run until it ends, telling what is known so far; return that, and the last table."""
    from torpor.run.shadow.live import Shadow
    from torpor.run.shadow.metrics import openmetrics

    shadow = Shadow(plan, machine)
    under = None
    if plan.source is None:
        from torpor.run.shadow.rollup import Under

        under = Under(lambda: idle_governor(machine))
    place = InPlace() if sys.stdout.isatty() and is_text else None

    def tell(shadow: Shadow, new: "list[Window]") -> None:
        if under is not None:
            under.look()
        if rollup is not None:
            rollup.add(new, under)
        if exporter is not None:
            exporter.text = openmetrics(shadow)
        if place is not None:
            place.show(post_text(_table(shadow, under, rollup)))
        elif new and is_text:
            write_stdout(post_text(_table(shadow, under, rollup)) + "\n")

    try:
        shadow.run(tell)
    finally:
        if place is not None:
            place.end()
    return shadow, _table(shadow, under, rollup)


def _machine_of(source: str) -> str:
    if source == "-":
        fail("standard input names no machine", "name it with --platform")
    return str(recordings.recorded_machine([source]))


def _class(platform: str | None, machine: Machine) -> str:
    """Return a name for machines like this one."""
    if platform is not None:
        return platform
    _, content, _ = _engine.import_platform(counters.SYSFS, "machine")
    return f"{content['title']}, {len(machine.cpus())} CPUs"


def _rollup(folder: Path, plan: Any, machine_class: str, keep_days: int | None) -> "Rollup":
    from torpor.run.shadow.rollup import Rollup

    point = Point(
        kind="shadow",
        source=host_platform.node() or "localhost",
        platform=machine_class,
        governor="",
        hz=plan.options.get("hz"),
        latency_limit=limits_text(plan.options),
        options=json.dumps({}),
    )
    keep_ns = None if keep_days is None else keep_days * _DAY_NS
    return Rollup(folder, point, plan.governors, keep_ns)


def _end(shadow: "Shadow", form: str, report: Path | None, last: Post) -> int:
    """Print the complete result if there was one session, otherwise the sums."""
    if shadow.is_one_session:
        for note in (*last.facts, *last.notes):
            print_note(f"note: {note}")
        status = deliver(Replay(shadow.result), form=form, parquet=None, report=report)
    else:
        if report is not None or form != "text":
            print_note("note: several sessions have sums alone: no page, and no other format")
        write_stdout(post_text(last) + "\n")
        status = EXIT_FINDING if any(sums.error for sums in shadow.sums.values()) else 0
    leave_if(shadow.stopped_by)
    return status


def _table(shadow: "Shadow", under: "Under | None", rollup: "Rollup | None") -> Post:
    """Return what is known so far: a line a governor."""
    clusters = list(dict.fromkeys(c for s in shadow.sums.values() for c in s.energy_uj))
    seconds = shadow.seconds
    headings = ["governor", "sleeps/s", "too deep %", "too shallow %", "delay µs/s"]
    headings += [f"{cluster} mW" for cluster in clusters]
    headings += ["change %", "low", "high", "minutes", "since"]
    rows = []
    for name, sums in shadow.sums.items():
        cells = [word(name)]
        if sums.error is not None:
            rows.append([*cells, Cell(None, "failed"), *[word("")] * (len(headings) - 2)])
            continue
        wrong = [100 * n / sums.sleeps if sums.sleeps else None for n in (sums.above, sums.below)]
        cells.append(number(sums.sleeps / seconds if seconds else None, 1))
        cells += [number(each, 2) for each in wrong]
        cells.append(number(sums.delay_ns / 1e3 / seconds if seconds else None, 1))
        for cluster in clusters:
            energy_uj = sums.energy_uj.get(cluster)
            cells.append(number(energy_uj / 1e3 / seconds if energy_uj and seconds else None, 3))
        rows.append([*cells, *_change(shadow.tallies.get(name))])
    governor = under and under.now
    title = f"In the shadow of {governor}" if governor else f"Shadow: {shadow.plan.source}"
    title += f": {duration_text(1e9 * seconds)}"
    if shadow.lossy_windows:
        title += f", {duration_text(1e9 * shadow.lossy_seconds)} more with losses left out"
    table = Table("shadow", "", headings, rows, is_detail=False)
    return Post(title, _facts(shadow), [table], _notes(shadow, rollup))


def _change(tally: "Tally | None") -> list[Cell]:
    if tally is None or not tally.count:
        return [word("")] * 5
    ends = [number(end, 2, is_signed=True) for end in tally.change]
    return [*ends, number(tally.count), word(_clock(tally.since_ns))]


def _clock(at_ns: int | None) -> str:
    if at_ns is None:
        return ""
    at = time.localtime(at_ns // 10**9)
    is_today = at[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M", at)


def _facts(shadow: "Shadow") -> list[str]:
    """Return the verdict on each governor, and what Torpor takes."""
    facts = []
    base = shadow.plan.governors[0]
    metric = metrics()[shadow.judged] if shadow.judged else None
    what = metric["noun"] if metric else ""
    for name, tally in shadow.tallies.items():
        # Without a base to divide by, the difference itself.
        is_relative = None not in tally.change
        mean, low, high = tally.change if is_relative else tally.difference
        if not tally.count or shadow.sums[name].error or None in (mean, low, high):
            continue
        unit = "%" if is_relative else difference_unit(metric) if metric else "points"
        than = f"{low:+.2f} to {high:+.2f} {unit}, {counted(tally.count, 'minute')}"
        since = f"since {_clock(tally.since_ns)}"
        if tally.sign:
            more = "more" if tally.sign > 0 else "less"
            facts.append(
                f"{name}: {abs(mean or 0):.2f} {unit} {more} {what} than {base} ({than}), {since}"
            )
        else:
            facts.append(f"{name}: {what} as {base}'s but for chance ({than}), {since}")
    if not facts:
        facts.append("no verdict yet: it takes two minutes without losses")
    meter = shadow.meter
    core = meter.cpu_ns / 1e9 / meter.seconds
    facts.append(
        f"Torpor takes {core:.2%} of one core and {meter.memory_bytes / 1e6:.0f} MB, and is woken "
        f"{meter.wakeups / meter.seconds:.1f} times a second, perf included"
    )
    facts.append(f"{shadow.events:,} events, {shadow.lost_events:,} lost")
    return facts


def _notes(shadow: "Shadow", rollup: "Rollup | None") -> list[str]:
    notes = [f"{name}: {s.error}" for name, s in shadow.sums.items() if s.error is not None]
    notes += shadow.notes
    if rollup is not None and rollup.failure is not None:
        notes.append(f"not kept, {rollup.unwritten} minutes so far: {rollup.failure}")
    from torpor.results.kinds.shadow import OPEN_LOOP

    return [*notes, OPEN_LOOP, _SERIAL]
