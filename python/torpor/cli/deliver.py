# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What a replay or a simulation came to, in the forms that were asked for."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from torpor._engine import TorporError
from torpor.cli import EXIT_FAILURE, EXIT_FINDING
from torpor.cli.console import fail, print_note, stdout_width, write_stdout
from torpor.cli.once import typed
from torpor.posting import post
from torpor.records import Compared

Csv = Annotated[bool, typer.Option("--csv", help="Print one line per governor and source.")]
Parquet = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write every table as Parquet, and the result."),
]


def check(*, folder: Path | None, files: Iterable[Path | None]) -> None:
    """Refuse what cannot be written before the work, not after it."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    for path in files:
        if path is not None and not path.parent.is_dir():
            fail(f"`{path}`: there is no folder `{path.parent}`")


def write_report(
    result: Any, path: Path | None, write_trace: Callable[[Path], object] | None = None
) -> None:
    """Write the page of a result, or of several, where one was asked for.

    ``write_trace`` writes a trace for Perfetto, which the page hands over.
    """
    if path is None:
        return
    import tempfile

    from torpor import report

    with tempfile.TemporaryDirectory(prefix="torpor-") as folder:
        trace = Path(folder) / "torpor.perfetto-trace"
        if write_trace is not None:
            try:
                write_trace(trace)
            except (TorporError, OSError) as error:
                raise TorporError(f"page `{path}`: the trace that it hands over: {error}") from None
        report.write(result, path, typed(), trace if write_trace else None)
    print_note(f"report: {path}")


def trace_of(recording: str, report: Path | None) -> Callable[[Path], object] | None:
    """Return what writes a recording for Perfetto, unless it is too large for a page."""
    from torpor import convert_trace
    from torpor.report.handover import RECORDING_BYTES

    file = Path(recording)
    if report is None or not file.is_file() or file.stat().st_size > RECORDING_BYTES:
        return None
    return lambda out: convert_trace(recording, out)


def deliver(
    outcome: Compared,
    *,
    form: str,
    parquet: Path | None,
    report: Path | None,
    write_trace: Callable[[Path], object] | None = None,
) -> int:
    """Write the files, print the result, and return the exit status."""
    if parquet is not None:
        outcome.write_tables(parquet)
        print_note(f"tables: {parquet}")
    result: Any = outcome.to_dict()
    write_report(result, report, write_trace)
    if form == "json":
        write_stdout(outcome.to_json())
    elif form == "csv":
        write_stdout(outcome.to_csv())
    elif form != "text":
        write_stdout(post(result, form))
    else:
        from torpor.cli.table import comparison_text, tasks_text

        width = stdout_width()
        write_stdout(comparison_text(result, width) + tasks_text(result, width))
    has_failed = [bool(run["error"]) for run in outcome.runs]
    if has_failed and all(has_failed):
        return EXIT_FAILURE
    losses = [loss for trace in result.get("traces", ()) for loss in trace["trace"]["losses"]]
    is_damaged = any(loss["severity"] == "damage" for loss in losses)
    return EXIT_FINDING if any(has_failed) or is_damaged or result.get("interrupted") else 0
