# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Exit statuses, and the signals that end a command."""

import contextlib
import os
import signal
import sys
import threading
from types import FrameType

EXIT_FINDING = 1
EXIT_FAILURE = 2

#: Signals that act as Ctrl-C: finished work is kept, temporary files are removed.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Interrupts:
    """The signals that ended the command, as the handlers met them."""

    def __init__(self) -> None:
        self.ended_by: signal.Signals | None = None
        self._is_over = False
        self.count = 0

    def listen(self) -> None:
        """Turn the signals that end a program into KeyboardInterrupt."""
        sys.unraisablehook = self._report
        for each in _ENDING:
            # nohup makes a program ignore SIGHUP.
            if signal.getsignal(each) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(each, self._interrupt)

    def close(self) -> None:
        """Ignore further signals: Python is exiting, and nothing would catch them."""
        self._is_over = True

    def _interrupt(self, number: int, _frame: FrameType | None) -> None:
        if not self._is_over:
            self.ended_by = signal.Signals(number)
            self.count += 1
            raise KeyboardInterrupt

    def _report(self, unraisable: "sys.UnraisableHookArgs") -> None:
        # An interrupt in a finalizer, or while this is printed, goes no further: send it again.
        before = self.count
        is_interrupt = unraisable.exc_type is KeyboardInterrupt
        with contextlib.suppress(KeyboardInterrupt):
            if not is_interrupt:
                sys.__unraisablehook__(unraisable)
        if self.ended_by is not None and (is_interrupt or self.count != before):
            _send_later(self.ended_by)


interrupts = _Interrupts()


def leave_if(stopped_by: signal.Signals | None) -> None:
    """Leave the command with the status of the signal that ended its work, if one did."""
    import click

    if stopped_by is not None:
        raise click.exceptions.Exit(128 + stopped_by)


def _send_later(number: signal.Signals) -> None:
    """Send this process a signal after Python has finished what it does now."""
    timer = threading.Timer(0.05, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()
