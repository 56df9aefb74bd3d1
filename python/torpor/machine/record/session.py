# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The order of things: what is saved, set up, recorded, restored."""

import json
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from torpor._engine import __version__
from torpor.machine.record import counters, events, leftovers, perf, probes, tracefs
from torpor.machine.record.backend import Backend, Saved
from torpor.machine.record.errors import NEEDS_ROOT, RecordError
from torpor.machine.record.governor import GovernorReset
from torpor.machine.record.machine import Facts, Machine, facts, text_symbols
from torpor.machine.record.poke import poke
from torpor.machine.record.signals import Signals, end, exit_status
from torpor.results.files import write_whole

#: Marker for the verification of a recording: from here on the governor's state is known.
RESET_MARKER = "RESET"

#: Interval at which buffers are read. Each time wakes a CPU.
_TEND_S = 1.0

#: Progress as ``progress.ProgressBar`` takes it: the phase, done, and total.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """Plan of a recording, and its end: the command's end, the duration's, or a signal."""

    output: Path
    command: Sequence[str] = ()
    duration_ns: int | None = None
    backend: str = "auto"
    buffer_kb: int | None = None
    has_probes: bool = True
    resets_governor: bool = False


@dataclass
class Recording:
    """Result of a recording."""

    output: Path
    backend: str
    duration_ns: int
    saved: Saved
    #: Names of the files next to the recording.
    beside: list[Path]
    #: Requests that could not be met, and the consequences.
    notes: list[str] = field(default_factory=list)
    #: The command's exit status, a shell's way: 128 and the signal if one ended it. None if there
    #: was none, or if it was the session that ended it.
    status: int | None = None
    #: Signal that ended it, if not the command or the duration.
    stopped_by: signal.Signals | None = None
    #: CPU time of this process while it recorded, and of the recorder that it started from its
    #: start to its end, in ns; None where there is no such recorder.
    own_cpu_ns: int = 0
    recorder_cpu_ns: int | None = None


def beside(output: Path, suffix: str) -> Path:
    """Return the name of a file that goes with a recording."""
    return output.with_name(f"{output.name}.{suffix}")


def record(
    plan: Plan, machine: Machine | None = None, progress: Progress | None = None
) -> Recording:
    """Record, and save the machine's facts with the recording.

    Every setting that is changed on the way is restored, whatever ends the recording. Raises
    :class:`RecordError` when it cannot be made.
    """
    machine = machine or Machine()
    if plan.command and shutil.which(plan.command[0]) is None:
        raise RecordError(f"no command `{plan.command[0]}` to run")
    mount = _tracefs(machine)
    reset = GovernorReset(machine) if plan.resets_governor else None
    with Signals() as signals, ExitStack() as stack:
        leftovers.remove(mount)
        backend_type = _backend_type(plan.backend, mount)
        choice = events.choose(mount, events.NOT_FOR_PERF if backend_type is perf.Perf else ())
        names, notes = list(choice.names), list(choice.notes)
        if plan.has_probes:
            probed = stack.enter_context(probes.ReturnProbes(mount))
            names += probed.names
            notes += probed.notes
        backend: Backend
        if backend_type is perf.Perf:
            backend = perf.Perf(machine, names, plan.output, plan.buffer_kb)
        else:
            backend = tracefs.Tracefs(machine, mount, names, plan.output, plan.buffer_kb)
        stack.enter_context(backend)
        found = facts(machine)
        window = _Window(plan, machine, backend, signals, reset, progress)
        before = counters.dump(machine)
        window.run()
        after = counters.dump(machine)
        saved = backend.save()
        recorder_ns = window.recorder_cpu_ns if backend.name == "perf" else None
        known: _Known = {
            "torpor": __version__,
            "backend": backend.name,
            **found,
            "events": names,
            "missing_events": list(choice.missing),
            "window": window.marks,
            "cpu_time_ns": {"torpor": window.own_cpu_ns, "recorder": recorder_ns},
        }
        files = _write_beside(plan.output, machine, known, before, after)
    return Recording(
        plan.output,
        backend.name,
        window.times_ns["end_ns"] - window.times_ns["begin_ns"],
        saved,
        files,
        [*notes, *backend.notes, *window.notes, *_unknown(found)],
        window.status,
        window.stopped_by,
        window.own_cpu_ns,
        recorder_ns,
    )


class _Known(Facts):
    """Saved facts about the machine and the recording."""

    torpor: str
    backend: str
    events: list[str]
    missing_events: list[str]
    window: dict[str, int | str]
    cpu_time_ns: dict[str, int | None]


def _unknown(known: Facts) -> Iterator[str]:
    """Note what a replay needs and the machine does not report."""
    if known["hz"] is None:
        yield "the tick rate is not known: no kernel configuration is readable here"
    if known["cpuidle"]["driver"] in (None, "none"):
        yield "this machine has no cpuidle driver: idle states and counters do not exist"


class _Window:
    """The time that is recorded."""

    def __init__(
        self,
        plan: Plan,
        machine: Machine,
        backend: Backend,
        signals: Signals,
        reset: GovernorReset | None,
        progress: Progress | None,
    ) -> None:
        self._plan, self._machine, self._backend = plan, machine, backend
        self._signals, self._reset, self._progress = signals, reset, progress
        #: By CLOCK_MONOTONIC.
        self.times_ns: dict[str, int] = {}
        self._governor: str | None = None
        self.notes: list[str] = []
        self.status: int | None = None
        self.stopped_by: signal.Signals | None = None
        self.own_cpu_ns = 0
        self.recorder_cpu_ns = 0

    def run(self) -> None:
        self._backend.start()
        own_ns = _cpu_ns(resource.RUSAGE_SELF)
        try:
            self._mark("begin")
            if self._reset is not None:
                # Until the switch back, no governor decides: these sleeps do not come from cpuidle.
                self._mark("governor_reset_begin")
                self._reset.run()
                self._mark("governor_reset_end", RESET_MARKER)
                self._governor = self._reset.name
            self._poke()
            self._wait()
            self._poke()
            self._mark("end")
        finally:
            self.own_cpu_ns = _cpu_ns(resource.RUSAGE_SELF) - own_ns
            # The command has ended, and counts among the children since.
            children_ns = _cpu_ns(resource.RUSAGE_CHILDREN)
            self._backend.stop()
            self.recorder_cpu_ns = _cpu_ns(resource.RUSAGE_CHILDREN) - children_ns

    @property
    def marks(self) -> dict[str, int | str]:
        """Clock, moments, and the governor that was reset."""
        reset = {} if self._governor is None else {"governor": self._governor}
        return {"clock": "CLOCK_MONOTONIC", **self.times_ns, **reset}

    def _mark(self, what: str, text: str | None = None) -> None:
        self.times_ns[f"{what}_ns"] = time.monotonic_ns()
        self._backend.mark(text or f"torpor: {what}")

    def _poke(self) -> None:
        refused = poke(self._machine.online_cpus())
        if refused and not self.notes:
            cpus = ", ".join(map(str, refused))
            self.notes.append(f"CPU {cpus} could not be woken: this process may not run there")

    def _wait(self) -> None:
        began_ns = time.monotonic_ns()
        end_ns = None if self._plan.duration_ns is None else began_ns + self._plan.duration_ns
        process = subprocess.Popen(self._plan.command) if self._plan.command else None
        try:
            while process is None or process.poll() is None:
                size = self._backend.tend()
                now_ns = time.monotonic_ns()
                if self._progress is not None:
                    total_ns = self._plan.duration_ns or 0
                    self._progress(f"recording, {size >> 20} MiB", now_ns - began_ns, total_ns)
                left_s = _TEND_S if end_ns is None else min((end_ns - now_ns) / 1e9, _TEND_S)
                if left_s <= 0:
                    break
                self.stopped_by = self._signals.wait(left_s)
                if self.stopped_by is not None:
                    break
        finally:
            if process is not None and process.poll() is None:
                end(process, self.stopped_by)
            elif process is not None and self.stopped_by is None:
                self.status = exit_status(process)


def _cpu_ns(whose: int) -> int:
    used = resource.getrusage(whose)
    return round((used.ru_utime + used.ru_stime) * 1e9)


def _tracefs(machine: Machine) -> Path:
    """Return where tracefs is; perf, too, learns from there what the kernel can record."""
    mount = machine.tracefs()
    if mount is None:
        raise RecordError(
            "tracefs is not mounted, and without it neither tracefs nor perf can record",
            "as root: mount -t tracefs tracefs /sys/kernel/tracing",
        )
    if not os.access(mount / "events", os.R_OK | os.X_OK):
        raise RecordError(f"`{mount / 'events'}` may not be read", NEEDS_ROOT)
    return mount


def _backend_type(wanted: str, mount: Path) -> type[tracefs.Tracefs] | type[perf.Perf]:
    reasons = []
    if wanted != "perf":
        reason = tracefs.why_unusable(mount)
        if reason is None:
            return tracefs.Tracefs
        reasons.append(reason)
    if wanted != "tracefs":
        reason = perf.why_unusable()
        if reason is None:
            return perf.Perf
        reasons.append(reason)
    raise RecordError("\n".join(map(str, reasons)))


def _write_beside(
    output: Path, machine: Machine, known: _Known, before: str, after: str
) -> list[Path]:
    texts = {
        "before.txt": before.encode(),
        "after.txt": after.encode(),
        "machine.json": json.dumps(known, indent=1).encode() + b"\n",
    }
    # trace.dat holds them itself; perf.data has fields for them that perf leaves empty.
    if known["backend"] == "perf" and (symbols := text_symbols(machine)):
        texts["kallsyms"] = symbols
    files = [beside(output, suffix) for suffix in texts]
    for file, data in zip(files, texts.values(), strict=True):
        write_whole(file, data)
    return files
