# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Records through perf, where tracefs may be read but not written to."""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from torpor.machine.record.backend import Saved
from torpor.machine.record.errors import NEEDS_ROOT, RecordError
from torpor.machine.record.machine import Machine, read
from torpor.results.files import open_regular

#: perf rounds up to a power of two pages. It is woken when a buffer is half full.
_BUFFER_KB = 8 << 10
#: Time limit for perf to answer, and to end: no Ctrl-C can cut it short.
_PATIENCE_S = 60.0


def why_unusable() -> RecordError | None:
    """Return why perf cannot be run, or None."""
    if shutil.which("perf") is None:
        return RecordError(
            "perf is not installed", "packages: linux-perf (Debian), linux-tools (Ubuntu), perf"
        )
    return None


class Perf:
    """A `perf record` of all CPUs, started through pipes.

    Without an output it is a stream: what it records comes through :attr:`pipe`.
    """

    name = "perf"

    def __init__(
        self,
        machine: Machine,
        names: Iterable[str],
        output: Path | None,
        buffer_kb: int | None = None,
    ) -> None:
        self.notes: list[str] = []
        self._machine, self._names = machine, list(names)
        self._output = output or Path("-")
        self._is_stream = output is None
        # An earlier recording is kept until this one is complete.
        self._part = self._output.with_name(f".torpor-{os.getpid()}.part")
        self._buffer_kb = buffer_kb or _BUFFER_KB
        self._process: subprocess.Popen[bytes] | None = None
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> "Perf":
        self._said = self._cleanup.enter_context(tempfile.TemporaryFile())
        self._cleanup.callback(self._part.unlink, missing_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._cleanup.close()

    def start(self) -> None:
        # perf would keep one of that name as FILE.old.
        self._part.unlink(missing_ok=True)
        commands, writer = os.pipe()
        answered, answers = os.pipe()
        # perf gives up when its control pipe closes, so this end stays open until it has ended.
        self._cleanup.callback(os.close, writer)
        self._cleanup.callback(os.close, answered)
        try:
            self._process = subprocess.Popen(
                self._command(commands, answers),
                # Ctrl-C is for the session, which then stops perf in its turn.
                start_new_session=True,
                pass_fds=(commands, answers),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if self._is_stream else self._said,
                stderr=self._said,
                bufsize=0,
            )
        finally:
            os.close(commands)
            os.close(answers)
        self._commands, self._answered = writer, answered
        try:
            os.write(writer, b"enable\n")
        except BrokenPipeError:
            raise self._failed() from None
        if self._is_stream:
            # perf answers when its head has been read from the pipe.
            return
        if not select.select([answered], [], [], _PATIENCE_S)[0]:
            self._process.kill()
            raise self._failed()
        # The file's end comes if perf ended: it alone holds the other end.
        if not os.read(answered, 64).startswith(b"ack"):
            raise self._failed()

    @property
    def pid(self) -> int:
        """The process that records."""
        assert self._process is not None
        return self._process.pid

    @property
    def pipe(self) -> int:
        """The descriptor that a stream is read from, without blocking."""
        assert self._process is not None and self._process.stdout is not None
        return self._process.stdout.fileno()

    def drain(self) -> None:
        """Have perf write what its buffers hold: a command wakes it, and it then reads them all."""
        # Nobody waits for the answer to the command before.
        while select.select([self._answered], [], [], 0)[0] and os.read(self._answered, 64):
            pass
        with contextlib.suppress(BrokenPipeError):
            os.write(self._commands, b"ping\n")

    def end(self) -> None:
        """Ask a stream to end; its last bytes come through the pipe, which then closes."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def failure(self) -> RecordError | None:
        """Return why a stream ended unexpectedly, or None. The pipe has closed."""
        assert self._process is not None
        # perf passes on the signal that ended it.
        is_asked = self._process.wait() in (0, -signal.SIGINT, 128 + signal.SIGINT)
        return None if is_asked else self._failed()

    def mark(self, text: str) -> None:
        """Do nothing: perf does not see trace_marker. The session's facts have the time."""

    def tend(self) -> int:
        if self._process is None or self._process.poll() is not None:
            raise self._failed()
        return self._part.stat().st_size if self._part.exists() else 0

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                raise self._failed() from None

    def save(self) -> Saved:
        # A perf that gave up before its last line leaves a file without an index.
        if "Captured and wrote" not in self._printed():
            raise self._failed()
        with open_regular(self._part) as file:
            os.fsync(file.fileno())
        self._part.replace(self._output)
        return Saved()

    def _command(self, commands: int, answers: int) -> list[str]:
        return [
            *("perf", "record", "--all-cpus", "--clockid", "CLOCK_MONOTONIC"),
            *("--mmap-pages", f"{self._buffer_kb}K"),
            # Build IDs are for samples in programs; to look them up takes longer than to record.
            *("--no-buildid", "--no-buildid-cache"),
            *("--delay", "-1", "--control", f"fd:{commands},{answers}"),
            *("--output", "-" if self._is_stream else str(self._part)),
            *("--event", ",".join(self._names)),
        ]

    def _printed(self) -> str:
        self._said.seek(0)
        return self._said.read().decode(errors="replace")

    def _failed(self) -> RecordError:
        assert self._process is not None
        status = self._process.wait()
        lines = self._printed().strip().splitlines()
        said = "\n".join(f"  {line}" for line in lines[-12:] if line.strip())
        paranoid = read(self._machine.path("/proc/sys/kernel/perf_event_paranoid"))
        hint = "perf 5.10 or newer is needed; --backend tracefs needs no perf"
        if os.geteuid() != 0:
            hint = f"kernel.perf_event_paranoid is {paranoid}, and -1 is required; or: {NEEDS_ROOT}"
        return RecordError(f"perf ended with status {status}:\n{said}", hint)
