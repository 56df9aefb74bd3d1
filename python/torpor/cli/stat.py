# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor stat`: the counters as they move."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from torpor import counters
from torpor.cli import values
from torpor.cli.console import fail, painted, stdout_width, write_stdout
from torpor.cli.counter_table import diff_text
from torpor.cli.deliver import check, write_report

if TYPE_CHECKING:
    from torpor import shapes
    from torpor.records import Record

if TYPE_CHECKING:
    from rich.live import Live

_DEFAULT_INTERVAL_NS = 1_000_000_000
#: How often to look whether the command has ended.
_POLL_S = 0.05


def stat(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND...]", help="Measure while this runs, then stop."),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(
            "--interval",
            "-i",
            metavar="TIME",
            help="Time between two tables, such as 500ms. Default: 1s; with a command, only at "
            "its end.",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", metavar="N", min=1, help="Stop after N tables.")
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="WHAT", help="table: one table for CPUs with the same states; or cpu."
        ),
    ] = "table",
    root: Annotated[
        str, typer.Option(metavar="DIR", help="The folder of the machine's CPUs.")
    ] = counters.SYSFS,
    is_json: Annotated[
        bool, typer.Option("--json", help="Print as JSON, one line per table.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the total as one HTML page.")
    ] = None,
) -> None:
    """Show usage, time, above and below of the idle states as they are counted.

    On a terminal the table is updated in place. Ctrl-C stops it; the last table is the total. With
    a COMMAND the exit status is the command's.
    """
    interval_ns = values.duration_ns(interval)
    if interval_ns is None and not command:
        interval_ns = _DEFAULT_INTERVAL_NS
    if interval_ns == 0:
        fail("the interval must not be 0", "give a time such as `-i 500ms`")
    check(folder=None, files=(report,))
    watch = _Watch(root, by, is_json)
    process = _start(command) if command else None
    try:
        _show_intervals(watch, process, interval_ns, count)
    except KeyboardInterrupt:
        # The terminal has signalled the command as well.
        pass
    finally:
        watch.end()
    status = 0 if process is None else _wait(process)
    write_report(watch.show_total(), report)
    if status:
        # A command that a signal ended has a negative status; shells count from 128.
        raise typer.Exit(status if status > 0 else 128 - status)


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command)
    except OSError as error:
        fail(f"`{command[0]}` cannot be run: {error.strerror}", "give the path of a program")


def _wait(process: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def _show_intervals(
    watch: "_Watch",
    process: subprocess.Popen[bytes] | None,
    interval_ns: int | None,
    count: int | None,
) -> None:
    if interval_ns is None:
        assert process is not None
        process.wait()
        return
    started_ns = time.monotonic_ns()
    number = 0
    while count is None or number < count:
        number += 1
        # By the clock, not by the sleeps: the table's own time must not add up.
        due_ns = started_ns + number * interval_ns
        while (left_s := (due_ns - time.monotonic_ns()) / 1e9) > 0:
            if process is not None and process.poll() is not None:
                return
            time.sleep(left_s if process is None else min(left_s, _POLL_S))
        if not watch.show_interval():
            return


class _Watch:
    """Snapshots one after another, and where their differences are shown."""

    def __init__(self, root: str, by: str, is_json: bool) -> None:
        self._root, self._by, self._is_json = root, by, is_json
        self._live: Live | None = None
        self._first = self._last = counters.snapshot(root=root)

    def show_interval(self) -> bool:
        """Show what was counted since the last call; return whether anybody still reads."""
        now = counters.snapshot(root=self._root)
        result = self._diff(self._last, now, "interval")
        self._last = now
        if self._is_json or not sys.stdout.isatty():
            return self._print(result)
        from rich.text import Text

        if self._live is None:
            from rich.live import Live

            self._live = Live(auto_refresh=False, transient=True)
            self._live.start()
        text = painted(diff_text(cast("shapes.Diff", result), stdout_width()))
        self._live.update(Text.from_ansi(text), refresh=True)
        return True

    def show_total(self) -> "Record":
        """Show what was counted since the beginning."""
        total = self._diff(self._first, counters.snapshot(root=self._root), "total")
        self._print(total)
        return total

    def end(self) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _diff(self, before: counters.Snapshot, after: counters.Snapshot, label: str) -> "Record":
        return counters.diff(before, after, labels=[label], by=self._by)

    def _print(self, result: "Record") -> bool:
        if self._is_json:
            return write_stdout(json.dumps(result))
        return write_stdout(diff_text(cast("shapes.Diff", result), stdout_width()) + "\n")
