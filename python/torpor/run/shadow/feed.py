# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Bytes of a recording as it is made: perf's pipe, standard input, or a file that grows."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from torpor.machine.record import events, perf
from torpor.machine.record.errors import NEEDS_ROOT, RecordError
from torpor.machine.record.machine import Machine, read
from torpor.results.files import MissingFileError

_PIECE_BYTES = 1 << 20
#: Size of one read, so that governors start before a long file is in memory as a whole.
_PIECES = 8
#: As much as perf writes at once, if the system allows it.
_PIPE_BYTES = 1 << 20
#: Half of a pipe that cannot be widened, or of a socket's buffer.
_LEAST_ROOM_BYTES = 32 << 10
_F_SETPIPE_SZ, _F_GETPIPE_SZ = 1031, 1032
#: perf's buffer of each CPU. perf is asked for what it holds, so that it may be large; for ordinary
#: users the kernel allows 516 KiB (`perf_event_mlock_kb`).
_BUFFER_KB, _USER_BUFFER_KB = 2 << 10, 512

#: Events without which a replay of this machine would decide otherwise; the others make inputs
#: more exact, and cost as much again.
_LEAN = (
    *("power:cpu_idle", "power:cpu_frequency", "sched:sched_switch", "sched:sched_waking"),
    *("timer:hrtimer_start", "timer:hrtimer_cancel", "timer:hrtimer_expire_entry"),
    *("timer:timer_start", "timer:timer_cancel", "timer:timer_expire_entry", "timer:tick_stop"),
)


class Feed:
    """A descriptor that is read without waiting."""

    def __init__(self) -> None:
        """Begin without one."""
        self._descriptor = -1
        #: Bytes that may wait between two readings without a writer that has to wait.
        self.room_bytes = _PIECE_BYTES // 2
        #: A file's end is not the recording's while somebody writes it; a pipe's is.
        self._grows = False
        #: Nothing more will come.
        self.is_over = False
        #: More was there than the last reading took.
        self.is_behind = False

    def _begin(self, descriptor: int) -> None:
        self._descriptor = descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            with contextlib.suppress(OSError):
                fcntl.fcntl(descriptor, _F_SETPIPE_SZ, _PIPE_BYTES)
            self.room_bytes = _LEAST_ROOM_BYTES
            with contextlib.suppress(OSError):
                self.room_bytes = fcntl.fcntl(descriptor, _F_GETPIPE_SZ) // 2
        os.set_blocking(descriptor, False)

    def pieces(self) -> Iterator[bytes]:
        """Yield what there is now, up to 8 MiB. Raises RecordError if perf has failed."""
        self.is_behind = False
        for _ in range(_PIECES):
            try:
                piece = os.read(self._descriptor, _PIECE_BYTES)
            except BlockingIOError:
                return
            if not piece:
                self.is_over = not self._grows
                return
            yield piece
        self.is_behind = True

    def ask(self) -> None:
        """Have the writer write what it holds back, if it takes commands."""

    def end(self) -> None:
        """Ask the writer to end, or take what there is as all."""
        self._grows = False


class Following(Feed):
    """A file or pipe that somebody else writes; ``-`` is standard input."""

    def __init__(self, path: Path, *, follow: bool) -> None:
        """Open it. Raises MissingFileError if there is none, OSError if it may not be read."""
        super().__init__()
        try:
            is_input = str(path) == "-"
            descriptor = os.dup(0) if is_input else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise MissingFileError(error.errno, error.strerror, os.fspath(path)) from None
        self._is_blocking = os.get_blocking(descriptor)
        self._begin(descriptor)
        self._grows = follow and stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    def __enter__(self) -> "Following":
        return self

    def __exit__(self, *_: object) -> None:
        # Others may have the same standard input.
        os.set_blocking(self._descriptor, self._is_blocking)
        os.close(self._descriptor)

    def end(self) -> None:
        """Treat the data so far as complete: a pipe's writer continues, but nobody reads it."""
        self._grows = False
        self.is_over = not stat.S_ISREG(os.fstat(self._descriptor).st_mode)


class Recorder(Feed):
    """perf, as it records this machine."""

    def __init__(self, machine: Machine, *, is_lean: bool = False) -> None:
        """Find what can be recorded. Raises RecordError for what forbids it."""
        super().__init__()
        names = _events(machine, is_lean=is_lean)
        kb = _BUFFER_KB if os.geteuid() == 0 else _USER_BUFFER_KB
        self._perf = perf.Perf(machine, names, None, kb)

    def __enter__(self) -> "Recorder":
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._perf)
            self._perf.start()
            stack.pop_all()
        self._begin(self._perf.pipe)
        return self

    def __exit__(self, *_: object) -> None:
        self._perf.__exit__()

    def pieces(self) -> Iterator[bytes]:
        """Yield what perf has written. Raises RecordError if it has failed."""
        yield from super().pieces()
        if self.is_over and (failure := self._perf.failure()):
            raise failure

    def ask(self) -> None:
        """Have perf write what its buffers hold."""
        self._perf.drain()

    def end(self) -> None:
        """Have perf end; its last bytes are still to be read."""
        self._perf.end()


def _events(machine: Machine, *, is_lean: bool) -> list[str]:
    """Return the events to record; errors name the setting to change."""
    if failure := perf.why_unusable():
        raise failure
    mount = machine.tracefs()
    if mount is None:
        raise RecordError(
            "tracefs is not mounted, and perf finds its events there",
            "as root: mount -t tracefs tracefs /sys/kernel/tracing",
        )
    # By capabilities, too, which decide what perf can open.
    if not os.access(mount / "events", os.R_OK | os.X_OK, effective_ids=True):
        raise RecordError(
            f"`{mount / 'events'}` may not be read",
            f"as root: mount -o remount,mode=755 {mount}, and sysctl "
            f"kernel.perf_event_paranoid=-1; or: {NEEDS_ROOT}",
        )
    paranoid = read(machine.path("/proc/sys/kernel/perf_event_paranoid"))
    # perf's own message names the capability and not the events; a kernel without the file is old.
    if os.geteuid() != 0 and not _has_perfmon() and paranoid not in (None, "-1"):
        raise RecordError(
            f"kernel.perf_event_paranoid is {paranoid}: a user may not trace the whole machine",
            f"as root: sysctl kernel.perf_event_paranoid=-1; or: {NEEDS_ROOT}",
        )
    names = events.choose(mount, events.NOT_FOR_PERF).names
    return [name for name in names if not is_lean or name in _LEAN]


def _has_perfmon() -> bool:
    """Whether this process has CAP_PERFMON, or CAP_SYS_ADMIN as before it."""
    text = (read(Path("/proc/self/status")) or "").partition("CapEff:")[2].split()
    effective = int(text[0], 16) if text else 0
    return bool(effective & (1 << 38 | 1 << 21))
