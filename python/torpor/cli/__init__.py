# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The command line: ``torpor``.

Data goes to stdout; progress, hints and errors go to stderr. Exit status:

- 0: done, nothing to report.
- 1: done, with a finding: a governor failed, a recording is damaged, a check found a breach.
- 2: not done: wrong usage, an unreadable file, an unknown name, no governor that ran, an output
  that cannot be written, a closed stdout among them.
- 130 (Ctrl-C), 143 (SIGTERM), 129 (SIGHUP): ended by that signal, whatever was finished and shown.

A reader of stdout that exits early changes none of these; neither does a closed stderr.
"""

import atexit
import contextlib
import gc
import os
import re
import signal
import sys
import warnings
from typing import NoReturn

from torpor.cli.exits import EXIT_FAILURE, interrupts


def main() -> int:
    """Run the command line and return the exit status."""
    # At its end Python looks for garbage in all that was imported. The kernel frees it anyway.
    atexit.register(gc.freeze)
    # Imports and results are no garbage either, and looking costs a twentieth of a short command.
    gc.set_threshold(100_000)
    _fill_closed_streams()
    interrupts.listen()
    try:
        status = _run()
        interrupts.close()
    except KeyboardInterrupt:
        interrupts.close()
        status = 128 + signal.SIGINT
    if interrupts.ended_by is not None:
        # The only rule: an interrupted command says so, whatever else it prints.
        status = 128 + interrupts.ended_by
    if interrupts.count:
        _leave(status)
    return status


def _leave(status: int) -> NoReturn:
    """End with ``status``.

    Returning it is not enough: ``python -m`` ends itself by SIGINT, silently, once an interrupt
    has come out of ``exec`` of a text, whoever has caught it since. An import makes dataclasses
    that way.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _run() -> int:
    # After the handlers are set: an interrupt during these imports is handled, too.
    import click

    from torpor import TorporError
    from torpor.cli import usage
    from torpor.cli.app import app
    from torpor.cli.console import print_error, print_note
    from torpor.results.files import cause

    warnings.showwarning = lambda message, *_rest: print_note(f"note: {message}")
    try:
        return app(prog_name="torpor", standalone_mode=False) or 0
    except TorporError as error:
        print_error(_with_flags(str(error)))
    except OSError as error:
        where = f"`{error.filename}`: " if error.filename else ""
        print_error(f"{where}{cause(error)}")
    except SystemExit:
        # The reader of a help text has left: every other way out is a return or an error.
        return 0
    except click.Abort:
        # Click's name for an interrupt.
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        print_error(usage.message(error))
        return error.exit_code
    return EXIT_FAILURE


def _with_flags(message: str) -> str:
    """Spell options as they are typed: messages name the library's arguments."""
    from torpor.run import options

    flags = {"governors": "--governor", "platform": "--platform", "traces": "TRACE"}
    groups = (options.ReplayOptions, options.SimulateOptions, options.FidelityOptions)
    for group in groups:
        for name, (_, option) in options.fields(group).items():
            flags |= {name: max(option.flags[:2], key=len)} if option.flags else {}
    return re.sub(r"\boption `(\w+)`", lambda found: f"`{flags.get(found[1], found[1])}`", message)


def _fill_closed_streams() -> None:
    """Open closed descriptors among stdin, stdout and stderr.

    Otherwise the next file that anybody opens takes the number, and what is printed goes there.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Data must not be lost silently, notes may be: stdout gets a descriptor that fails on
            # writes.
            mode = os.O_WRONLY if descriptor == 2 else os.O_RDONLY
            os.open(os.devnull, mode)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
