# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Recordings: their contents, what the recorded machine did, the files next to them."""

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

from torpor import _engine
from torpor.machine import catalog
from torpor.results import types as results
from torpor.results.record import Record, view
from torpor.results.table import Post, Table, counted, word

_Path = str | os.PathLike[str]
#: Dumps of the counters before and after: as `torpor record` names them after the recording's
#: own name, as people name them in its place, and as a folder of one recording may hold them.
_BESIDE = (
    ("{name}.before.txt", "{name}.after.txt"),
    ("{stem}.before.txt", "{stem}.after.txt"),
    ("sysfs-before.txt", "sysfs-after.txt"),
)


class RecordedState(TypedDict):
    """Counts of a recorded CPU in one state."""

    index: int
    usage: int
    time_ns: int


class RecordedCpu(TypedDict):
    """Counts of a recorded CPU."""

    cpu: int
    sleeps: int
    cut_sleeps: int
    first_ns: int
    last_ns: int
    states: list[RecordedState]


class EventToExit(TypedDict):
    """From the events that end sleeps to the recorded exits from idle, as in a result."""

    events: int
    over_1ms: int
    time_ns: int


class Recorded(TypedDict):
    """Contents of a recording: as in a result, and the counts of its CPUs."""

    path: str
    format: str
    clock: str
    sha256: str
    duration_ns: int
    cpu_count: int
    kernel_release: str | None
    machine: str | None
    arch: str | None
    carries: dict[str, bool]
    event_counts: dict[str, int]
    losses: "list[results.LossInfo]"
    cpus: list[RecordedCpu]
    event_to_exit: EventToExit


def shown_cpus(shown: int, count: int) -> str:
    """Say how many CPUs a machine has, and how many of them a recording shows.

    >>> shown_cpus(7, 8), shown_cpus(8, 8)
    ('7 of 8 appear', '8')
    """
    return f"{shown} of {count} appear" if 0 < shown < count else str(count)


class _Info(dict[str, Any]):
    """Result of :func:`trace_info`, which prints for people."""

    def facts(self) -> list[tuple[str, str]]:
        carries = self["carries"]
        return [
            ("format", self["format"]),
            ("clock", self["clock"]),
            ("kernel", self["kernel_release"] or "unknown"),
            ("machine", self["machine"] or "unknown"),
            ("CPUs", shown_cpus(len(self["cpus"]), self["cpu_count"])),
            ("duration", f"{self['duration_ns'] / 1e9:.3f} s"),
            ("holds", ", ".join(k for k, v in carries.items() if v) or "nothing a replay uses"),
            ("lacks", ", ".join(k for k, v in carries.items() if not v) or "nothing"),
            ("wake-ups", self._exits()),
            ("SHA-256", self["sha256"]),
        ]

    def _exits(self) -> str:
        found = self["event_to_exit"]
        if not found["events"]:
            return "no event shows what ended a sleep"
        share = 100 * found["over_1ms"] / found["events"]
        mean_us = found["time_ns"] / found["events"] / 1e3
        return (
            f"{found['events']} with a known event; exit from idle {mean_us:,.0f} µs later on "
            f"average, {share:.2f} % more than 1 ms later"
        )

    def __repr__(self) -> str:
        lines = [f"  {name:<9} {text}" for name, text in self.facts()]
        return "\n".join([f"<torpor.trace_info of {self['path']}>", *lines])

    def _repr_html_(self) -> str:
        rows = [[word(name), word(text)] for name, text in self.facts()]
        found = Post(self["path"], [], [Table("facts", "", ["", ""], rows)], [])
        return str(view("report.environment").fragment(found))


def trace_info(path: _Path, *, progress: Callable[[str, int, int], None] | None = None) -> Recorded:
    """Say what a recording holds, without replaying it.

    The keys are those of ``result["traces"][i]["trace"]`` (``format``, ``clock``, ``duration_ns``,
    ``carries``, ``event_counts``, ``losses``, ...) and ``cpus``: ``cpu``, ``sleeps`` (count of idle
    entries), ``cut_sleeps`` (those one end of which is not recorded), ``first_ns``, ``last_ns``, in
    the recording's clock, and ``states``: what the recorded machine did, by state's ``index``, as
    ``usage`` (count) and ``time_ns`` of the sleeps that have both ends; and ``event_to_exit``:
    ``events`` that ended sleeps, how many exits came more than a millisecond later (``over_1ms``),
    and the sum of all lags (``time_ns``). ``progress`` is called now and then with (what, done,
    total).

    Raises :class:`torpor.TraceError` when the file is missing or no format that Torpor reads.
    """
    found = _Info(_engine.trace_info(os.fspath(path), progress))
    # Its keys have types, and it shows itself.
    return cast("Recorded", found)


def convert_trace(trace: _Path, out: _Path) -> None:
    """Write a recording anew, without what Torpor does not use of it.

    It is for Perfetto if ``out`` ends in ``.perfetto-trace``, and ftrace text otherwise.

    Raises :class:`torpor.TraceError` when the file is missing or no format that Torpor reads, and
    :class:`torpor.EngineError` when ``out`` cannot be written.
    """
    _engine.convert_trace(os.fspath(trace), os.fspath(out))


def trace_stats(
    trace: _Path,
    *,
    platform: _Path | None = None,
    before: _Path | None = None,
    after: _Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Record:
    """Count what the recorded machine did, without replaying it.

    Args:
        trace: A recording with ``cpu_idle``.
        platform: The machine that was recorded: a name, a TOML file, or a dump of its sysfs. It
            names states and clusters, and where the recording has no ``cpu_idle_miss``, its states
            say which sleeps were too deep or too shallow. Default: ``before``, or the dump that
            was saved with the recording, if there is one.
        before: Dump of the machine's idle counters before the recording, of any form.
        after: The same after it. Default for both: the dumps saved with the recording.
        progress: Called periodically with (what, done, total).

    The keys of the result: ``trace`` (as ``trace_info`` has it), ``states`` (by CPU and state:
    ``usage``, ``time_ns``, ``above``, ``below``, ``rejected``), ``wakeups`` (what ended sleeps:
    ``kind``, ``name``, ``count``, ``slept_ns``, ``above``, ``below``), ``tasks`` (``comm``,
    ``wakeups`` after which it ran first, ``switches``, ``run_ns``, ``above``, ``below``),
    ``interrupts`` (``kind``, ``name``, ``count``, ``handler_ns``), ``latency`` (as
    :func:`measure_latency` has it) and ``tick`` (``stopped``, ``refused``, ``wakeups``). What a
    recording does not tell is None. Each list is a table, too.

    Raises:
        TraceError: The recording is missing or unreadable.
        PlatformError: The machine is unknown.
        CountersError: A dump holds no counters.
    """
    dumps = dumps_to_use(Path(trace), before, after)
    platform = machine_of(dumps) if platform is None else platform
    found: dict[str, Any] = _engine.trace_stats(
        os.fspath(trace),
        None if platform is None else os.fspath(platform),
        dumps,
        progress,
    )
    return Record(found)


def measure_latency(
    *traces: _Path,
    platform: _Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Record:
    """Measure how long CPUs took to leave their idle states, and how much longer tasks then worked.

    Args:
        traces: Recordings of one machine.
        platform: The machine that was recorded: a name, a TOML file, or a dump of its sysfs.
            Default: the dump that was saved with the first recording, if there is one.
        progress: Called periodically with (what, done, total).

    The keys of the result: ``recordings`` (as ``trace_info`` has them), ``latency`` (by
    ``cluster``, ``state`` and ``cause``: ``advertised_ns``, ``count``, ``min_ns``, ``p10_ns``,
    ``p50_ns``, ``p90_ns``, ``p99_ns``, ``mean_ns``), ``left_out`` (sleeps without a latency:
    ``reason``, ``count``), ``cut_sleeps``, ``refill`` (of a known machine, by ``cluster`` and
    ``state``: ``bursts``, ``pairs``, ``refill_ns`` with ``low_ns`` and ``high_ns``, the same of the
    bursts before those sleeps as ``before_pairs``, ``before_ns``, ``before_low_ns`` and
    ``before_high_ns``, ``has_frequency``, and a ``verdict``: ``measured``, ``not_separable``,
    ``confounded`` or ``too_few``) and ``lines`` (``toml`` for a platform's state). A
    ``cause`` is what shows the time from which a latency counts: the expiry of a ``timer`` (it is
    negative where the hardware woke up early), the sending of an ``ipi``, ``waking``
    (``sched_waking``), or ``interrupt``: an interrupt's entry follows the exit, so that row is only
    a lower bound.

    Raises:
        TraceError: A recording is missing or unreadable.
        PlatformError: The machine is unknown.

    >>> measured = torpor.measure_latency(recording)
    >>> [row["cause"] for row in measured["latency"]]
    ['timer']
    """
    if platform is None and traces:
        platform = machine_of(dumps_to_use(Path(traces[0]), None, None))
    measured: dict[str, Any] = _engine.measure_latency(
        [os.fspath(trace) for trace in traces],
        None if platform is None else os.fspath(platform),
        progress,
    )
    return Record(measured)


def trace_sleeps(
    path: _Path, *, progress: Callable[[str, int, int], None] | None = None
) -> _engine.Table:
    """Return every sleep of the recorded machine as a table, in order of time.

    Its columns; null is what the recording does not tell, times are in the recording's clock:

    - ``cpu``, ``time_ns``: who, and since when (the ``cpu_idle`` entry).
    - ``state``: index of the idle state.
    - ``residency_ns``: from the entry to the exit.
    - ``kind``, ``name``: what ended it: ``timer`` and its function, ``tick``, ``irq`` and its name,
      ``ipi`` and what it is for, ``waking`` (a task on another CPU), ``poll`` (a polling CPU was to
      reschedule), ``unknown``.
    - ``latency_ns``: from what ended it to the exit, if that is known and nothing else was pending.
    - ``task``: what ran first afterwards.

    A sleep one end of which is not recorded is left out. ``progress`` is called now and then with
    (what, done, total).

    Raises :class:`torpor.TraceError` when the file is missing or no format that Torpor reads.

    >>> sleeps = torpor.trace_sleeps(recording).to_dict()
    >>> sorted(set(sleeps["state"]))
    [1]
    """
    return _engine.trace_sleeps(os.fspath(path), progress)


def machine_of(dumps: tuple[str, str] | None) -> Path | None:
    """Return the machine that dumps describe."""
    # A bare file name would be looked up among the built-in machines.
    return None if dumps is None else Path(dumps[0]).absolute()


def identified(trace: _Path, dumps: tuple[str, str] | None = None) -> str | Path | None:
    """Return the machine that a recording identifies: its dumps', or one that ships.

    None if it identifies none, and for a pipe, which can be read once.
    """
    is_file = os.path.isfile(trace)
    machine = machine_of(dumps or (dumps_to_use(Path(trace), None, None) if is_file else None))
    if machine is not None or not is_file:
        return machine
    named = _engine.machine_named(os.fspath(trace))
    return None if named is None else catalog.platform_named(*named)


def recorded_on(traces: Iterable[_Path]) -> dict[str, str]:
    """Return the machine of each recording that identifies one which Torpor can read."""
    found = {}
    for trace in (os.fspath(one) for one in traces):
        # What reads a damaged recording says what is wrong with it.
        with contextlib.suppress(_engine.TraceError):
            machine = identified(trace)
            if machine is not None and _is_machine(machine):
                found[trace] = os.fspath(machine)
    return found


def _is_machine(machine: _Path) -> bool:
    """Whether a name or a dump has idle states: that of a virtual machine may have none."""
    try:
        _engine.platform_toml(os.fspath(machine))
    except _engine.PlatformError:
        return False
    return True


def recorded_machine(
    traces: Sequence[_Path], dumps: tuple[str, str] | None = None
) -> str | os.PathLike[str]:
    """Return the machine that all recordings identify.

    Raises PlatformError if they identify none, or several.
    """
    found: dict[str, str | Path] = {}
    for trace in traces:
        machine = identified(trace, dumps)
        if machine is None:
            raise _without_machine(trace)
        if isinstance(machine, Path):
            found.setdefault(catalog.import_platform(machine)[0], machine)
        else:
            found.setdefault(machine, machine)
    if len(found) > 1:
        raise _engine.PlatformError(
            f"{counted(len(traces), 'recording')} of {len(found)} machines: expected option "
            "`platform`, the one to replay them on\n"
            "hint: `torpor platform list` lists machines; a file or a dump of sysfs is one, too"
        )
    return next(iter(found.values()))


def _without_machine(trace: _Path) -> _engine.PlatformError:
    if Path(trace).is_fifo():
        why = "it comes through a pipe, which can be read once"
    elif named := _engine.machine_named(os.fspath(trace)):
        name, cpus = named
        why = (
            f"it was recorded on `{name}` with {counted(cpus, 'CPU')}, which does not ship with "
            "Torpor, and has no dump of its sysfs next to it"
        )
    else:
        why = "it does not name its machine, and has no dump of its sysfs next to it"
    return _engine.PlatformError(
        f"recording `{os.fspath(trace)}` needs option `platform`: {why}\n"
        "hint: `torpor platform list` lists machines; a file or a dump of sysfs works, too"
    )


def dumps_to_use(trace: Path, before: _Path | None, after: _Path | None) -> tuple[str, str] | None:
    """Return the dumps that were named, or else those next to the recording.

    Raises TorporError if only one was named.
    """
    if (before is None) != (after is None):
        raise _engine.TorporError(
            "counters require one dump from before and one from after the recording"
        )
    if before is not None and after is not None:
        return os.fspath(before), os.fspath(after)
    for names in _BESIDE:
        pair = [trace.with_name(name.format(name=trace.name, stem=trace.stem)) for name in names]
        if all(path.is_file() for path in pair):
            return os.fspath(pair[0]), os.fspath(pair[1])
    return None
