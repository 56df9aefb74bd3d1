# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""This machine: recorded, counted, loaded, its governors switched and compared."""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from torpor import _engine
from torpor._engine import TorporError
from torpor.machine import counters
from torpor.machine import cstate_counters as residency
from torpor.machine.kernel import ab as comparing
from torpor.machine.kernel import actions
from torpor.machine.kernel.build import Builder
from torpor.machine.kernel.status import Status, status
from torpor.machine.kernel.system import System
from torpor.machine.record import session
from torpor.results.record import Record

if TYPE_CHECKING:
    from torpor.results.kinds.ab import AbRun
    from torpor.results.kinds.diff import Diff

_Path = str | os.PathLike[str]
_Tell = Callable[[str], None]
#: Interval at which a command's end is polled.
_POLL_S = 0.05
_PAUSE_NS = 1_000_000_000


class Late(TypedDict):
    """Lateness of sleeps of one length."""

    count: int
    p50_ns: int
    p99_ns: int
    max_ns: int


class Slept(TypedDict):
    """Lateness of the threads of :func:`idle_predict`: of their short sleeps, and of those of a
    second."""

    elapsed_ns: int
    delays: Late
    pauses: Late


def record_trace(
    output: _Path,
    *,
    command: Sequence[str] = (),
    duration: str | None = None,
    backend: str = "auto",
    buffer_kb: int | None = None,
    probes: bool = True,
    reset_governor: bool = False,
    force: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> session.Recording:
    """Record this machine: what ``torpor record`` does.

    Args:
        output: The recording; files about the machine are written next to it.
        command: Runs meanwhile; the recording ends with it.
        duration: How long, such as 10s. Default: until Ctrl-C, or the command's end.
        backend: tracefs, perf, or auto: tracefs if possible.
        buffer_kb: The kernel's buffer of each CPU.
        probes: Set return probes in the kernel, where it has them.
        reset_governor: Switch to another idle governor and back, so that its state is known.
        force: Overwrite the output.
        progress: Called periodically with (what, done, total).

    Returns what was recorded: ``output``, ``backend``, ``duration_ns``, ``beside`` (its other
    files), ``notes``, and the command's ``status``.

    Raises :class:`torpor.TorporError` when this machine cannot be recorded, or the output exists.
    """
    path = Path(output)
    if path.exists() and not force:
        raise TorporError(f"`{path}` exists\nhint: choose another file, or overwrite it by force")
    plan = session.Plan(
        path,
        command=tuple(command),
        duration_ns=None if duration is None else _engine.parse_duration_ns(duration),
        backend=backend,
        buffer_kb=buffer_kb,
        has_probes=probes,
        resets_governor=reset_governor,
    )
    return session.record(plan, progress=progress)


class Stat:
    """Counters as they move: what :func:`stat` returns."""

    def __init__(
        self,
        command: Sequence[str] = (),
        interval_ns: int | None = None,
        count: int | None = None,
        by: str = "table",
        root: _Path = counters.SYSFS,
    ) -> None:
        """Take the first snapshot, and start the command."""
        self._by, self._root = by, root
        self._interval_ns, self._count = interval_ns, count
        self._first = self._last = counters.snapshot(root=root)
        self._hardware = residency.Watch(os.fspath(root))
        self._got: residency.Got | None = None
        #: The command that runs.
        self._process: subprocess.Popen[bytes] | None = None
        if command:
            try:
                self._process = subprocess.Popen(list(command))
            except OSError as error:
                raise TorporError(
                    f"`{command[0]}` cannot be run: {error.strerror}\n"
                    "hint: give the path of a program"
                ) from None

    def __iter__(self) -> Iterator[Record]:
        """Wait for the end of each interval, and return what was counted in it."""
        if self._interval_ns is None:
            if self._process is not None:
                self._process.wait()
            return
        started_ns = time.monotonic_ns()
        number = 0
        while self._count is None or number < self._count:
            number += 1
            # By the clock, not by the sleeps: the table's own time must not add up.
            due_ns = started_ns + number * self._interval_ns
            while (left_s := (due_ns - time.monotonic_ns()) / 1e9) > 0:
                if self._process is not None and self._process.poll() is not None:
                    return
                time.sleep(left_s if self._process is None else min(left_s, _POLL_S))
            now = counters.snapshot(root=self._root)
            yield self._diff(self._last, now, "interval")
            self._last = now

    def wait(self) -> int:
        """Wait for the command; return its exit status, 0 where there is none.

        A command that a signal ended has 128 and its number, as in a shell.
        """
        if self._process is None:
            return 0
        while True:
            try:
                status = self._process.wait()
            except KeyboardInterrupt:
                # The terminal has signalled the command as well.
                continue
            return status if status >= 0 else 128 - status

    def total(self) -> Record:
        """Return what was counted from the beginning until now.

        Where the machine has residency counters of its own, they end with the first call.
        """
        self._got = self._got or self._hardware.end()
        now = counters.snapshot(root=self._root)
        result = self._diff(self._first, now, "total")
        counters.add_hardware(cast("Diff", result), self._got, now)
        return result

    def _diff(self, before: counters.Snapshot, after: counters.Snapshot, label: str) -> Record:
        return counters.diff(before, after, labels=[label], by=self._by)


def stat(
    command: Sequence[str] = (),
    *,
    interval: str | None = None,
    count: int | None = None,
    by: str = "table",
    root: _Path = counters.SYSFS,
) -> Stat:
    """Count idle states of this machine as they move: what ``torpor stat`` does.

    Args:
        command: Runs meanwhile; the intervals end with it.
        interval: Time between two tables, such as 500ms. Default: 1s; with a command, only at its
            end.
        count: Stop after so many tables.
        by: table, one table for CPUs with the same states; or cpu.
        root: The folder of the machine's CPUs.

    Iterate for a result of each interval, as :func:`torpor.diff` returns it; then ``wait()`` for
    the command, and ask for the ``total()``.

    Raises :class:`torpor.CountersError` when this machine has no idle states, and
    :class:`torpor.TorporError` when the command cannot be run.
    """
    interval_ns = None if interval is None else _engine.parse_duration_ns(interval)
    if interval_ns == 0:
        raise TorporError("the interval must not be 0\nhint: give a time such as 500ms")
    if interval_ns is None and not command:
        interval_ns = 1_000_000_000
    return Stat(command, interval_ns, count, by, root)


def ab(
    command: Sequence[str],
    *,
    governors: Iterable[str],
    rounds: int = 10,
    metric: str | None = None,
    seed: int | None = None,
    warm_up: int = 1,
    modules: _Path | None = None,
    output: _Path | None = None,
    tell: _Tell | None = None,
    progress: "Callable[[AbRun], None] | None" = None,
) -> Record:
    """Compare governors on this machine: what ``torpor ab`` does. Requires root.

    Args:
        command: Runs under each governor, in turn, round by round.
        governors: A NAME that the kernel offers is the kernel's; otherwise one of Torpor's, PATH.c,
            NAME@TREE or NAME@TREE:REV, with ,param=value. The others are compared with the first
            one.
        rounds: How often each governor runs the command.
        metric: A regular expression, whose only group is the command's figure. Default: the last
            number that the command prints.
        seed: Shuffle each round. Default: alternate forward and reverse order.
        warm_up: Runs before the first round, not counted.
        modules: Modules that ``torpor kernel build`` made elsewhere.
        output: Write each run as a line of JSON as soon as it ends.
        tell: Called with each change of the machine, before it is made.
        progress: Called with each run.

    Governor and modules are as before, whatever ends it. A signal ends it early, with the rounds
    that are finished.

    Raises :class:`torpor.TorporError` when the machine cannot take part or the command fails, and
    ValueError for an expression that has not one group.
    """
    pattern = None if metric is None else re.compile(metric, re.MULTILINE)
    if pattern is not None and pattern.groups != 1:
        raise ValueError(f"`{metric}` has {pattern.groups} groups: expected one")
    file = None if output is None else Path(output)
    plan = comparing.Plan(list(governors), list(command), rounds, pattern, seed, warm_up, file)
    system = _system(tell)
    builder = Builder(system, out=None if modules is None else Path(modules))
    made = comparing.compare(plan, system, builder, progress or (lambda _: None))
    if system.unrestored:
        raise TorporError(f"not restored: {', '.join(system.unrestored)}")
    return comparing.result(made)


def build_governors(
    *governors: str,
    release: str | None = None,
    headers: _Path | None = None,
    output: _Path | None = None,
    tell: _Tell | None = None,
) -> list[Path]:
    """Build governors as kernel modules, by default all of Torpor's; return their files.

    ``release`` is the kernel's, by default the running one's, ``headers`` a folder of its headers,
    and ``output`` a folder for the modules, by default a cache. Does not require root.
    """
    folder = None if output is None else Path(output)
    found = None if headers is None else Path(headers)
    return actions.build(_system(tell), governors, release, found, folder)


def load_governors(
    *governors: str, modules: _Path | None = None, tell: _Tell | None = None
) -> list[str]:
    """Load governors into the running kernel; return the names by which it offers them.

    The current one does not change. ``modules`` is a folder that :func:`build_governors` filled.
    Requires root; on failure nothing remains loaded.
    """
    return actions.load(_system(tell), governors, None if modules is None else Path(modules))


def use_governor(
    name: str, command: Sequence[str] = (), *, tell: _Tell | None = None
) -> int | None:
    """Make a governor the current one, or only while a command runs. Requires root.

    Returns the command's exit status, or None without one.
    """
    return actions.use(_system(tell), name, command)


def unload_governors(*names: str, tell: _Tell | None = None) -> bool:
    """Unload Torpor's governors, by default all and the core. Requires root.

    If one of them is current, the previous governor becomes current. Returns whether any was
    loaded.
    """
    return actions.unload(_system(tell), names)


def restore_governor(*, tell: _Tell | None = None) -> bool:
    """Undo the changes of an :func:`ab` or :func:`use_governor` that was killed. Requires root.

    Returns whether there was anything to undo.
    """
    return actions.restore(_system(tell))


def kernel_status() -> Status:
    """Report which governors the kernel has, and which of Torpor's modules are loaded."""
    return status(_system(None))


def _system(tell: _Tell | None) -> System:
    return System(tell or (lambda _: None))


def idle_predict(
    duration: str = "10s", *, threads: int = 8, loop: int = 10, delay: str = "20us"
) -> Slept:
    """Run the load ``idle-predict`` on this machine; return how late its sleeps ended.

    Args:
        duration: How long; Ctrl-C ends it early, with what was met until then.
        threads: How many there are.
        loop: Sleeps per round; the last one takes a second.
        delay: Length of the other sleeps.

    :func:`torpor.idle_predict_toml` is the same as a workload to be simulated.
    """
    length_ns = _engine.parse_duration_ns(duration)
    load = _engine.IdlePredict(threads, loop, _engine.parse_duration_ns(delay), _PAUSE_NS)
    with contextlib.suppress(KeyboardInterrupt):
        # One sleep: looking after the threads now and then would wake the machine up, too.
        time.sleep(length_ns / 1e9)
    found: Slept = load.finish()
    return found
