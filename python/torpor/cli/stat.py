# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor stat`: the counters as they move."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated

import click

from torpor.cli import options, values
from torpor.cli.console import InPlace, fail, post_text, write_stdout
from torpor.cli.deliver import check, write_report
from torpor.cli.options import argument, like, option
from torpor.machine import counters
from torpor.machine import running as live
from torpor.results.kinds import posted
from torpor.results.record import Record


def stat(
    command: Annotated[
        list[str] | None, argument("[COMMAND...]", "Measure while this runs, then stop.")
    ] = None,
    interval: Annotated[str | None, like(live.stat, "interval", "--interval -i TIME")] = None,
    count: Annotated[int | None, like(live.stat, "count", "--count -n N", least=1)] = None,
    by: Annotated[str, like(live.stat, "by", "WHAT")] = "table",
    root: Annotated[str, like(live.stat, "root", "DIR")] = counters.SYSFS,
    form: options.TextOrJson = "text",
    report: Annotated[Path | None, option("FILE", "Write the total as one HTML page.")] = None,
) -> None:
    """Show usage, time, above and below of the idle states as they are counted.

    On a terminal the table is updated in place. Ctrl-C stops it; the last table is the total. With
    a COMMAND the exit status is the command's. Where the machine has residency counters of its own
    (perf's cstate_core and cstate_pkg), the total has them next to what was requested.
    """
    # Refused here, it is a wrong option.
    if values.duration_ns(interval) == 0:
        fail("the interval must not be 0", "give a time such as `-i 500ms`")
    check(folder=None, files=(), page=report)
    counted = live.stat(command or (), interval=interval, count=count, by=by, root=root)
    shown = _Shown(form == "json")
    with contextlib.suppress(KeyboardInterrupt):
        try:
            for result in counted:
                if not shown.interval(result):
                    break
        finally:
            shown.end()
    status = 0
    # The terminal has signalled the command as well.
    with contextlib.suppress(KeyboardInterrupt):
        status = counted.wait()
    total = counted.total()
    shown.print(total)
    write_report(total, report)
    if status:
        raise click.exceptions.Exit(status)


class _Shown:
    """Output of the tables."""

    def __init__(self, is_json: bool) -> None:
        self._is_json = is_json
        self._place = InPlace()

    def interval(self, result: "Record") -> bool:
        """Show what an interval counted; return whether anybody still reads."""
        if self._is_json or not sys.stdout.isatty():
            return self.print(result)
        self._place.show(post_text(posted(result)))
        return True

    def end(self) -> None:
        """Give the terminal back."""
        self._place.end()

    def print(self, result: "Record") -> bool:
        """Print a result; return whether anybody still reads."""
        if self._is_json:
            return write_stdout(json.dumps(result))
        return write_stdout(post_text(posted(result)) + "\n")
