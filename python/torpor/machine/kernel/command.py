# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs a command, and outlives what ends it: what comes after must be done."""

import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torpor.machine.kernel.errors import KernelError
from torpor.machine.record.signals import Signals, end, exit_status


@dataclass(frozen=True)
class Ended:
    """End of a command."""

    duration_ns: int
    #: The exit status as a shell reports it; None if a signal to this process ended the command.
    status: int | None
    stopped_by: signal.Signals | None
    #: Output, if it was caught.
    output: str = ""


def run(
    command: Sequence[str],
    signals: Signals,
    *,
    catches_output: bool = False,
    tend: Callable[[], None] = lambda: None,
    tend_every_s: float = 60.0,
) -> Ended:
    """Run a command until it ends or a signal comes; call ``tend`` from time to time."""
    # A file, not a pipe: the reader of a pipe wakes a CPU for each line.
    with tempfile.TemporaryFile() as output:
        caught = {"stdout": output, "stderr": subprocess.STDOUT} if catches_output else {}
        stopped_by = None
        began_ns = time.monotonic_ns()
        try:
            process = subprocess.Popen(command, **caught)  # type: ignore[call-overload]
        except OSError as error:
            raise KernelError(f"`{command[0]}` cannot be run: {error.strerror}") from error
        try:
            while process.poll() is None and stopped_by is None:
                stopped_by = signals.wait(tend_every_s)
                tend()
        finally:
            if process.poll() is None:
                end(process, stopped_by)
        duration_ns = time.monotonic_ns() - began_ns
        status = exit_status(process) if stopped_by is None else None
        output.seek(0)
        text = output.read().decode(errors="replace")
    return Ended(duration_ns, status, stopped_by, text)
