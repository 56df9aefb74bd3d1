# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Signals as in the foreground of a terminal.

A shell's background jobs ignore SIGINT, and what nohup starts SIGHUP; so would all that tests and
attacks start there: `nohup make test &`.
"""

import signal


def listen() -> None:
    """Stop ignoring them, here and in what is started from here."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
