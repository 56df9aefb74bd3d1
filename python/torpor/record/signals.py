# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Signals that wait their turn: none can interrupt what restores the machine's settings."""

import contextlib
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Blocks the signals that end a program, on entry; they are asked for instead."""

    def __init__(self) -> None:
        # A program that nohup started is to ignore SIGHUP.
        stopping = {s for s in _STOPPING if signal.getsignal(s) != signal.SIG_IGN}
        self._blocked = stopping | {signal.SIGCHLD}
        self._before: set[int] = set()

    def __enter__(self) -> "Signals":
        self._before = set(signal.pthread_sigmask(signal.SIG_BLOCK, self._blocked))
        return self

    def __exit__(self, *_: object) -> None:
        # A second Ctrl-C asked for what has been done.
        while signal.sigtimedwait(self._blocked, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def wait(self, timeout_s: float) -> signal.Signals | None:
        """Return the signal that came, SIGCHLD among them, or None after the time."""
        with contextlib.suppress(InterruptedError):
            if came := signal.sigtimedwait(self._blocked, max(timeout_s, 0)):
                return signal.Signals(came.si_signo)
        return None

    def spawn(self, command: Sequence[str], **kwargs: Any) -> "subprocess.Popen[bytes]":
        """Start a program that meets signals as if it had been started by itself."""
        return subprocess.Popen(
            command,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, self._before),
            **kwargs,
        )
