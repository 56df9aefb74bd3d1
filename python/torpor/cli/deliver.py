# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Delivers the result of a replay or a simulation in the requested forms."""

import json
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from torpor import _engine
from torpor._engine import TorporError
from torpor.cli.console import fail, print_note, write_post, write_stdout
from torpor.cli.exits import EXIT_FAILURE, EXIT_FINDING
from torpor.cli.options import option
from torpor.cli.parsing import is_forced, typed
from torpor.results.catalogue import metrics
from torpor.results.comparison import sections
from torpor.results.files import write_whole
from torpor.results.kinds import posted, unverified
from torpor.results.record import Compared, view
from torpor.results.table import Post, Verdict
from torpor.run.recordings import convert_trace
from torpor.view.post import post

Parquet = Annotated[Path | None, option("DIR", "Write every table as Parquet, and the result.")]


def check(*, folder: Path | None, files: Iterable[Path | None], page: Path | None = None) -> None:
    """Refuse what cannot be written before the work, not after it.

    The page may not exist, unless it may be overwritten.
    """
    if page is not None:
        check_new(page, force=is_forced())
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    for path in files:
        if path is not None and not path.parent.is_dir():
            fail(f"`{path}`: there is no folder `{path.parent}`")


#: Writer of a trace for Perfetto, or the reason why a page has none; None if its kind gives it.
Trace = Callable[[Path], object] | str | None


def write_report(result: Any, path: Path | None, trace: Trace = None) -> None:
    """Write the page of one or several results, if requested."""
    if path is None:
        return
    result = result.to_dict() if hasattr(result, "to_dict") else result
    import tempfile

    with tempfile.TemporaryDirectory(prefix="torpor-") as folder:
        file = Path(folder) / "torpor.perfetto-trace"
        if trace is None or isinstance(trace, str):
            view("report").write(result, path, typed(), why_no_trace=trace)
        else:
            try:
                trace(file)
            except (TorporError, OSError) as error:
                raise TorporError(f"page `{path}`: the trace that it hands over: {error}") from None
            view("report").write(result, path, typed(), file)
    print_note(f"report: {path}")


def write_page(found: Post, path: Path | None, sentences: Sequence[str] = ()) -> None:
    """Write tables that are no kind of result as a page, if requested.

    The first of the sentences is the verdict.
    """
    if path is not None:
        write_whole(path, view("report.page").render_posts([found], typed(), sentences))
        print_note(f"report: {path}")


def trace_of(recording: str, report: Path | None, tracks: int = 1) -> Trace:
    """Return what writes a recording for Perfetto, or why a page does not have it.

    ``tracks``: how many governors' choices go with it; each has about as many as the recording.
    """
    file = Path(recording)
    if report is None:
        return None
    held_bytes = view("report.handover").RECORDING_BYTES
    if not file.is_file():
        return (
            f"This page has no trace for Perfetto: `{recording}` is not a file that could be read "
            "again. Save it as one first."
        )
    if file.stat().st_size > held_bytes:
        return (
            f"This page has no trace for Perfetto: the recording has "
            f"{file.stat().st_size / 1e6:,.0f} MB, and a page holds none of more than "
            f"{held_bytes / 1e6:.0f} MB. `torpor trace convert` writes it for Perfetto, "
            "`torpor replay --trace FILE` with the choices of each governor."
        )
    if file.stat().st_size * tracks > held_bytes:
        return (
            f"This page has no trace for Perfetto, because it would not fit with the choices of "
            f"{tracks} governors. `torpor replay --trace FILE` writes it."
        )
    return lambda out: convert_trace(recording, out)


def print_result(result: Any, form: str, verdict: Verdict | None = None) -> None:
    """Print a result of any kind in a form.

    ``verdict``: that of the whole result, of which only the rows that were asked for are left.
    """
    if form == "text":
        found = posted(result)
        if verdict is not None and found.brief is not None:
            asked = [t for t in found.tables if t.name in _ASKED and not t.is_detail]
            brief = found.brief._replace(tables=asked)
            found = found._replace(verdict=verdict, brief=brief)
        write_post(found)
    else:
        write_stdout(post(result, form))


#: Tables that have the rows that were asked for.
_ASKED = ("comparison", "recordings", "causes", "over")


def print_post(found: Post, form: str, data: Any) -> None:
    """Print tables in a form; as JSON, the data that they show."""
    if form == "json":
        write_stdout(json.dumps(data, indent=1))
    else:
        write_post(found, form)


def check_new(output: Path, *, force: bool) -> None:
    """Refuse an output that exists, unless it may be overwritten, or has no folder."""
    if output.exists() and not force and not output.is_char_device():
        fail(f"`{output}` exists", "choose another file, or use --force")
    if not output.parent.is_dir():
        fail(f"`{output}`: there is no folder `{output.parent}`")


def write_toml(kind: str, text: str, output: Path | None, more: str = "") -> None:
    """Write a TOML file with its schema, by default to stdout."""
    # Commands that write none start sooner without it.
    from torpor.ask import toml_schemas

    text = toml_schemas.with_schema(kind, text)
    if output is None:
        write_stdout(text)
    else:
        write_whole(output, text)
        print_note(f"{kind}: {output}{more}")


def damage_status(losses: Iterable[Any]) -> int:
    """Return the exit status of a command that reads a recording with these losses."""
    return EXIT_FINDING if any(loss["severity"] == "damage" for loss in losses) else 0


def known_metrics(kind: str, patterns: Sequence[str] | None) -> Sequence[str]:
    """Return patterns of a kind's metrics; raise TorporError for one that no metric matches."""
    known = list(metrics(kind))
    for pattern in patterns or ():
        if not any(fnmatchcase(key, pattern) for key in known):
            raise TorporError(_engine.unknown_name("metric", pattern, known, ""))
    return patterns or ()


def _is_any(key: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)


def deliver(
    outcome: Compared,
    *,
    form: str,
    parquet: Path | None,
    report: Path | None,
    handed: Trace = None,
    metrics: Sequence[str] = (),
) -> int:
    """Write the files, print the result, and return the exit status.

    ``metrics``: patterns of those that its tables have; all without one.
    """
    if parquet is not None:
        outcome.write_tables(parquet)
        print_note(f"tables: {parquet}")
    result: Any = outcome.to_dict()
    write_report(result, report, handed)
    if form == "json":
        write_stdout(outcome.to_json())
    elif form == "csv":
        write_stdout(outcome.to_csv())
    else:
        verdict = posted(result).verdict if metrics else None
        for section in sections(result) if metrics else ():
            rows = section["comparison"]["rows"]
            section["comparison"]["rows"] = [r for r in rows if _is_any(r["key"], metrics)]
        print_result(result, form, verdict)
    has_failed = [bool(run["error"]) for section in sections(result) for run in section["runs"]]
    if has_failed and all(has_failed):
        return EXIT_FAILURE
    losses = [loss for trace in result.get("traces", ()) for loss in trace["trace"]["losses"]]
    is_finding = any(has_failed) or unverified(result)
    return EXIT_FINDING if is_finding else damage_status(losses)
