# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor study run`: published and simulated tables, side by side."""

import itertools
from typing import Annotated, cast

import click

from torpor import post
from torpor.plugin import (
    EXIT_FINDING,
    Cell,
    Table,
    argument,
    check,
    finished_runs,
    format_number,
    like,
    obtain,
    option,
    options,
    posted,
    print_note,
    table_text,
    values,
    word,
    write_post,
    write_report,
    write_stdout,
)
from torpor_lab import reproduction as shapes
from torpor_lab import studies
from torpor_lab.studies.files import load

#: Instead of a name.
_ALL = "all"
_CALIBRATED_TAKES = "expected a STUDY, at most one --kernel, and no --format or --report"

_Kernels = Annotated[
    list[str] | None,
    option("--kernel -k K", "Another kernel, as in torpor simulate. Repeat it to compare several."),
]
_Calibrated = Annotated[
    bool,
    option(
        "--calibrate",
        "Fit the numbers of machines to the study's calibrated cells, instead of running the rest.",
    ),
]


def reproduce(
    study: Annotated[
        str | None,
        argument(
            "[STUDY]",
            "A study: a name, a .toml file, or all. Default: list them.",
            names=studies.names,
        ),
    ] = None,
    duration: Annotated[str | None, like(studies.reproduce, "duration", "TIME")] = None,
    seeds: Annotated[int | None, like(studies.reproduce, "seeds", "N", least=1)] = None,
    kernels: _Kernels = None,
    is_calibrated: _Calibrated = False,
    threads: options.Threads = None,
    form: options.Form = "text",
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
    if study is None and not is_calibrated:
        titles = [[word(name), word(load(name)[0]["title"])] for name in studies.names()]
        write_stdout(table_text(Table("studies", "", ["study", ""], titles)))
        print_note("torpor study run STUDY runs one, `all` every one")
        return
    # Refused here, it is a wrong option and not a wrong study.
    values.duration_ns(duration)
    obtain(kernels or ())
    check(folder=None, files=(), page=report)
    if is_calibrated:
        if study in (None, _ALL) or len(kernels or []) > 1 or report or form != "text":
            raise click.BadParameter(_CALIBRATED_TAKES)
        way = kernels[0] if kernels else None
        fits = studies.calibrate(study, duration=duration, seeds=seeds, kernel=way, threads=threads)
        write_stdout(_fits_text(fits))
        return
    names = [study] if study and study != _ALL else studies.names()
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
                write_post(posted(found))
        write_report(results, report)
        if form != "text":
            write_stdout(post(results, form))
        elif len(results) > 1:
            write_stdout("\n" + table_text(shapes.counts_table(results)))
    raise click.exceptions.Exit(EXIT_FINDING if any(r["failures"] for r in results) else 0)


def _fits_text(fits: list[studies.Fit]) -> str:
    numbers = [
        [word(n.path), word(n.of), Cell(n.was, f"{n.was:g}"), Cell(n.found, f"{n.found:g}")]
        for fit in fits
        for n in fit.numbers
    ]
    cells = [
        [
            *(word(cell.row), word(cell.column)),
            *(Cell(value, format_number(value)) for value in (cell.published, cell.ours)),
        ]
        for fit in fits
        for cell in fit.cells
    ]
    return table_text(
        Table("numbers", "", ["Number", "of", "in its file", "found"], numbers, keys=2),
        Table("cells", "", ["Cell", "column", "published", "here"], cells, keys=2),
    )
