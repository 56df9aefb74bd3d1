# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor study run`: published and simulated tables, side by side."""

import itertools
from typing import TYPE_CHECKING, Annotated, cast

import typer

from torpor.ask import studies
from torpor.cli import options, values
from torpor.cli.console import bare_table, render, stdout_width, text_width, wrap, write_stdout
from torpor.cli.deliver import check, write_report
from torpor.cli.exits import EXIT_FINDING
from torpor.cli.finished import finished_runs
from torpor.cli.kernel import obtain
from torpor.results import judge
from torpor.results.comparison import format_number
from torpor.view.post import post

if TYPE_CHECKING:
    from rich.table import Table

    from torpor.results import schema as shapes

_NONE = "-"

_Duration = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Simulated time per run, instead of the study's."),
]
_Seeds = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Runs per governor, instead of the study's."),
]
_Kernels = Annotated[
    list[str] | None,
    typer.Option(
        "--kernel",
        "-k",
        metavar="K",
        help="Another kernel, as in torpor simulate. Repeat it to compare several.",
    ),
]
_Calibrated = Annotated[
    bool,
    typer.Option(
        "--calibrate",
        help="Find the numbers of machines that meet the study's calibrated cells, in place of "
        "running the rest.",
    ),
]


def reproduce(
    study: Annotated[
        str | None,
        typer.Argument(metavar="STUDY", help="A study: a name, or a .toml file. Default: all."),
    ] = None,
    duration: _Duration = None,
    seeds: _Seeds = None,
    kernels: _Kernels = None,
    is_calibrated: _Calibrated = False,
    threads: options.Threads = None,
    form: options.Form = None,
    is_json: Annotated[
        bool, typer.Option("--json", help="Print as JSON: a list of studies.")
    ] = False,
    report: options.ReportPath = None,
    store: options.RunsPath = None,
) -> None:
    """Simulate what a published table measured, and judge the simulation's predictions.

    Cells that the workload was calibrated on are marked. Each other cell is judged by sign (of the
    change from the first column), order (its rank among the columns) and size (its change within a
    factor of 2 of the published one). Where a range was published, the mean has to be in it. The
    counts are shown with those of predictors that know nothing.

    If it is ended early, the same command continues from the finished runs.
    """
    # Refused here, it is a wrong option and not a wrong study.
    values.duration_ns(duration)
    obtain(kernels or ())
    check(folder=None, files=(report,))
    form = options.form(form, is_json=is_json)
    if is_calibrated:
        if study is None or len(kernels or []) > 1 or report or form != "text":
            raise typer.BadParameter(
                "expected a STUDY, at most one --kernel, and no --format, --json or --report"
            )
        kernel = kernels[0] if kernels else None
        fits = studies.calibrate(
            study, duration=duration, seeds=seeds, kernel=kernel, threads=threads
        )
        write_stdout(_fits_text(fits, stdout_width()))
        return
    names = [study] if study is not None else studies.names()
    ways: list[str | None] = [*kernels] if kernels else [None]
    results: list[shapes.Reproduction] = []
    words = ("reproduce", study, duration, seeds, *map(str, ways))
    with finished_runs(store, *words) as finished:
        for name, way in itertools.product(names, ways):
            found = studies.reproduce(
                name,
                duration=duration,
                seeds=seeds,
                kernel=way,
                threads=threads,
                store=finished.path,
                watch=finished.report,
            )
            results.append(cast("shapes.Reproduction", found))
            if form == "text":
                if len(results) > 1:
                    write_stdout("")
                write_stdout(_text(results[-1], stdout_width()))
        write_report(results, report)
        if form != "text":
            write_stdout(post(results, form))
        elif len(results) > 1:
            write_stdout("\n" + render(_counts(results), width=stdout_width()).rstrip("\n"))
    raise typer.Exit(EXIT_FINDING if any(r["failures"] for r in results) else 0)


def _fits_text(fits: list[studies.Fit], width: int) -> str:
    numbers, cells = bare_table(), bare_table()
    for title in ("Number", "of", "in its file", "found"):
        numbers.add_column(title, justify="right" if title.endswith(("e", "d")) else "left")
    for title in ("Cell", "column", "published", "here"):
        cells.add_column(title, justify="right" if title.endswith(("e", "d")) else "left")
    for fit in fits:
        for number in fit.numbers:
            was, found = f"{number.was:g}", f"{number.found:g}"
            numbers.add_row(number.path, number.of, was, found)
        for cell in fit.cells:
            values = map(format_number, (cell.published, cell.ours))
            cells.add_row(cell.row, cell.column, *values)
    return render(numbers, "", cells, width=width).rstrip("\n")


def _text(result: "shapes.Reproduction", width: int) -> str:
    folded = text_width(width)
    parts = [f"{result['study']}: {result['title']}"]
    parts += [wrap(f"Source: {source}", folded) for source in result["source"]]
    seeds = "1 seed" if result["seeds"] == 1 else f"{result['seeds']} seeds"
    ran = (
        f"Simulated on {', '.join(result['platforms'])}, {' or '.join(result['durations'])} a run, "
        f"{seeds}; * calibrated, = counted before, ° so by definition"
    )
    parts.append(wrap(ran, folded))
    parts.append(f"{_decided(result)} decides.")
    for table in result["tables"]:
        parts.append("\n" + render(_table(table), width=width).rstrip("\n"))
        for column, title in table["most"].items():
            parts.append(wrap(f"{column}: most with {title}", folded))
        for row in table["rows"]:
            if row["not_modelled"]:
                parts.append(wrap(f"{row['title']}: not modelled: {row['not_modelled']}", folded))
    parts.append(f"\n{result['study']}: {judge.summary(result['counts'])}")
    if result["judged"]["columns"]:
        parts.append(render(_judged(result), width=width).rstrip("\n"))
        parts += [wrap(text, folded) for text in _remarks(result["judged"])]
    parts.append(wrap(f"Calibration: {result['calibration']}", folded))
    parts += [wrap(f"Note: {note}", folded) for note in result["notes"]]
    parts += [wrap(f"Left out: {text}", folded) for text in result["left_out"]]
    parts += [f"Failed: {failure}" for failure in result["failures"]]
    return "\n".join(parts)


def _table(table: "shapes.StudyTable") -> "Table":
    drawn = bare_table()
    drawn.add_column(table["title"], overflow="fold")
    drawn.add_column("")
    columns = list(table["rows"][0]["cells"])
    for column in columns:
        drawn.add_column(column, justify="right", overflow="fold")
    for row in table["rows"]:
        cells = [row["cells"][column] for column in columns]
        published = [_published(cell["published"]) for cell in cells]
        ours = [_number(cell["ours"]) + _mark(cell) for cell in cells]
        right = [_right(cell) for cell in cells]
        if any(cell["published"] is not None for cell in cells):
            drawn.add_row(row["title"], "published", *published)
            drawn.add_row("", "here", *ours)
        else:
            drawn.add_row(row["title"], "here", *ours)
        if any(isinstance(cell["published"], list) for cell in cells):
            drawn.add_row("", "seeds", *(_published(cell["spread"]) for cell in cells))
        if any(right):
            drawn.add_row("", "right", *right)
    return drawn


def _judged(result: "shapes.Reproduction") -> "Table":
    """By column, all together, and who knows nothing."""
    judged = result["judged"]
    drawn = bare_table()
    drawn.add_column("Column; median errors")
    for title in (*_ASPECTS, "of level", "of change", "if no change"):
        drawn.add_column(title, justify="right")
    for column in judged["columns"]:
        off = (column["change_off_pp"], column["no_change_off_pp"])
        mark = " !" if column["beats_no_change"] is False else ""
        drawn.add_row(
            column["column"] + mark,
            *_of(column["counts"]),
            _per_cent(column["level_off_pct"]),
            *map(_points, off),
        )
    drawn.add_section()
    level, change = judged["level_off_pct"], judged["change_off_pp"]
    flat, *others = judged["predictors"]
    drawn.add_row(
        "all",
        *_of(result["counts"]),
        _per_cent(level and level["median"]),
        _points(change and change["median"]),
        _points(flat["change_off_pp"]),
    )
    second = judged["second_base"]
    if second is not None:
        off_second = second["change_off_pp"]
        of = f"changes from {', '.join(second['columns'])}"
        counts = _of(second["counts"])
        drawn.add_row(of, *counts, "", _points(off_second and off_second["median"]), "")
    for predictor in (flat, *others):
        counts = _of(predictor["counts"])
        drawn.add_row(
            f"predictor: {predictor['name']}",
            *counts,
            "",
            _points(predictor["change_off_pp"]),
            "",
        )
    return drawn


_ASPECTS = ("signs", "orders", "sizes", "ranges")


def _of(counts: "dict[str, shapes.Judged]") -> list[str]:
    found = (counts[aspect] for aspect in judge.ASPECTS)
    return [f"{one['right']}/{one['of']}" if one["of"] else "" for one in found]


def _remarks(judged: "shapes.StudyJudged") -> list[str]:
    """Return the remarks that the table has no space for."""
    lost = [column["column"] for column in judged["columns"] if column["beats_no_change"] is False]
    texts = [f"! no better than a predictor of no change: {', '.join(lost)}"] if lost else []
    spreads = (("level", judged["level_off_pct"], " %"), ("change", judged["change_off_pp"], " pp"))
    single = [
        f"{what} {format_number(low)} to {format_number(high)}{unit}"
        for what, off, unit in spreads
        if off is not None and off["spread"] is not None
        for low, high in [off["spread"]]
    ]
    return [*texts, *([f"Median errors of single seeds: {', '.join(single)}"] if single else [])]


def _counts(results: "list[shapes.Reproduction]") -> "Table":
    """Each study, by what decided."""
    drawn = bare_table()
    for title in ("Counts", "decided by"):
        drawn.add_column(title)
    for title in (*_ASPECTS, "of level", "of change", "if no change"):
        drawn.add_column(title, justify="right")
    decided = list(dict.fromkeys(_decided(result) for result in results))
    for result in results:
        if result["judged"]["columns"]:
            _count_row(drawn, result["study"], [result])
    drawn.add_section()
    for way in decided:
        _count_row(drawn, "all", [result for result in results if _decided(result) == way])
    return drawn


def _count_row(drawn: "Table", title: str, results: "list[shapes.Reproduction]") -> None:
    total = {
        aspect: {
            key: sum(result["counts"][aspect][key] for result in results) for key in ("right", "of")
        }
        for aspect in judge.ASPECTS
    }
    cells = _of(cast("dict[str, shapes.Judged]", total))
    if len(results) == 1:
        (judged,) = (result["judged"] for result in results)
        level, change = judged["level_off_pct"], judged["change_off_pp"]
        cells.append(_per_cent(level and level["median"]))
        cells.append(_points(change and change["median"]))
        cells.append(_points(judged["predictors"][0]["change_off_pp"]))
    drawn.add_row(title, _decided(results[0]), *cells)


def _decided(result: "shapes.Reproduction") -> str:
    kernel = result["kernel"]
    return "No kernel" if kernel is None else f"Linux {kernel['release']}"


def _per_cent(value: float | None) -> str:
    return "" if value is None else f"{format_number(value)} %"


def _points(value: float | None) -> str:
    return "" if value is None else f"{format_number(value)} pp"


def _mark(cell: "shapes.StudyCell") -> str:
    if cell["is_calibrated"]:
        return "*"
    return {"repeated": "=", "mechanical": "°"}.get(cell["not_counted"] or "", "")


def _published(value: float | list[float] | str | None) -> str:
    """A number, a range, or a sign."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "–".join(format_number(end) for end in value)
    return _number(value)


def _number(value: float | None) -> str:
    return _NONE if value is None else format_number(value)


def _right(cell: "shapes.StudyCell") -> str:
    """The aspects that are right, of those that were judged."""
    right = cell["right"]
    if right is None:
        return ""
    found = [aspect for aspect in judge.ASPECTS if right.get(aspect)]
    if len(right) > 1 and len(found) == len(right):
        return "all"
    return " ".join(found) or "nothing"
