# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Signals that wait their turn: none can interrupt what restores the machine's settings."""

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: Time that a command has to end after a request.
_PATIENCE_S = 2.0


class Signals:
    """Notes the signals that end a program, from entry to exit, instead of ending it.

    By handlers and not by blocking: a library's threads would not block them. Programs that are
    started meanwhile meet signals as if they had been started by themselves.
    """

    def __init__(self) -> None:
        self._stopping: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Signals":
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # Elsewhere Python allows no handlers, and delivers no signals.
        if threading.current_thread() is threading.main_thread():
            for each in (*_STOPPING, signal.SIGCHLD):
                # A program that nohup started is to ignore SIGHUP.
                if signal.getsignal(each) != signal.SIG_IGN:
                    self._before[each] = signal.signal(each, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, timeout_s: float, readable: Sequence[int] = ()) -> signal.Signals | None:
        """Wait for a signal; return the first that is to stop the program, if one came yet.

        What can be read from one of these descriptors ends the wait, too.
        """
        select.select([self._reader, *readable], [], [], max(timeout_s, 0))
        with contextlib.suppress(BlockingIOError):
            os.read(self._reader, 4096)
        return self._stopping

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._stopping is None and number != signal.SIGCHLD:
            self._stopping = signal.Signals(number)
        # A full pipe is signal enough.
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, b"\0")


def end(process: "subprocess.Popen[bytes]", stopped_by: signal.Signals | None) -> None:
    """End a command, in the end by force; ``stopped_by`` is what ended the program that waits."""
    # Ctrl-C on a terminal reached the command already.
    if stopped_by != signal.SIGINT:
        process.terminate()
    for insist in (process.terminate, process.kill):
        try:
            process.wait(_PATIENCE_S)
            return
        except subprocess.TimeoutExpired:
            insist()
    process.wait()


def exit_status(process: "subprocess.Popen[bytes]") -> int:
    """Return how a command ended, a shell's way: 128 and the signal if one ended it."""
    code = process.returncode
    return code if code >= 0 else 128 - code
