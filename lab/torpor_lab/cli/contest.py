# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor contest`: governors against a frozen corpus."""

from pathlib import Path
from typing import Annotated

import click

from torpor.plugin import (
    EXIT_FINDING,
    argument,
    check,
    like,
    obtain,
    option,
    options,
    print_note,
    print_post,
    progress,
    sweeping,
    write_page,
    write_post,
    write_whole,
)
from torpor_lab.contest import corpus as corpora
from torpor_lab.contest import run
from torpor_lab.contest.explain import explain_post
from torpor_lab.contest.score import BASE

#: A contest shares its points with sweeps only on request.
_STORE = Path("contest")

_Explained = Annotated[
    bool,
    option(
        "--explain", "Show where the first entry beats the second, or else teo, and the reverse."
    ),
]
_Plot = Annotated[
    Path | None, option("FILE", "Draw energy over delay with the oracle's front: .svg.")
]


def contest(
    entries: Annotated[
        list[str] | None,
        argument("[ENTRY]...", "Governors: ./my.c, teo@../linux; a front: ./my.c,p=1|2|4."),
    ] = None,
    store: Annotated[Path, like(run.contest, "store", "--store -o DIR")] = _STORE,
    data: Annotated[list[Path] | None, like(run.contest, "data", "--data DIR")] = None,
    half: Annotated[str | None, like(run.contest, "half", "HALF")] = None,
    only: Annotated[list[str] | None, like(run.contest, "only", "--only PATTERN")] = None,
    baselines: Annotated[list[str] | None, like(run.contest, "baselines", "--baseline G")] = None,
    corpus: Annotated[Path | None, like(run.contest, "corpus", "FILE")] = None,
    seeds: Annotated[int | None, like(run.contest, "seeds", "N", least=1)] = None,
    duration: Annotated[str | None, like(run.contest, "duration", "TIME")] = None,
    is_bare: Annotated[
        bool, option("--no-rules", "Do not run `torpor governor check` on the entries.")
    ] = False,
    has_cells: Annotated[bool, option("--cells", "Show every governor in every scenario.")] = False,
    is_explained: _Explained = False,
    plot: _Plot = None,
    threads: options.Threads = None,
    form: options.Form = "text",
    report: options.ReportPath = None,
) -> None:
    """Run governors against a frozen corpus: the energy of each at the delay that teo has.

    Points are kept in a store as those of `torpor sweep`: the same command continues from there.
    Exit status: 1 if an entry breaks a rule or fails.
    """
    _check(entries or [], half, data or [], plot, is_explained=is_explained)
    check(folder=None, files=(plot,), page=report)
    obtain(())
    with progress.if_watched() as bar, sweeping.kept(store):
        found = run.contest(
            entries or [],
            store,
            corpus=corpora.read_corpus(corpus or corpora.SHIPPED),
            data=data or [],
            half=half,
            only=only or [],
            baselines=baselines or [],
            seeds=seeds,
            duration=duration,
            has_rules=not is_bare,
            threads=threads,
            progress=sweeping.shown_by(bar),
        )
        if found.is_interrupted:
            raise KeyboardInterrupt
    if plot is not None:
        from torpor_lab import charts

        write_whole(plot, charts.front(found))
        print_note(f"plot: {plot}")
    if report is not None:
        from torpor_lab import charts

        drawn = charts.front_of_page(found)
        shown = run.contest_post(found, has_cells=True)._replace(picture=drawn)
        write_page(shown, report, run.sentences(found))
    if is_explained:
        first, second = [*(entries or []), BASE][:2]
        write_post(explain_post(found, first, second), form)
    else:
        print_post(run.contest_post(found, has_cells=has_cells), form, found.to_dict())
    raise click.exceptions.Exit(EXIT_FINDING if found.has_finding else 0)


def _check(
    entries: list[str], half: str | None, data: list[Path], plot: Path | None, *, is_explained: bool
) -> None:
    """Refuse wrong options before anything runs."""
    if is_explained and not 1 <= len(entries) <= 2:
        raise click.BadParameter("--explain requires one entry, or two")
    if half is not None and half not in corpora.HALVES:
        raise click.BadParameter(f"--half {half}: expected {' or '.join(corpora.HALVES)}")
    for folder in data:
        if not folder.is_dir():
            raise click.BadParameter(f"--data {folder}: expected a folder")
    if plot is not None and plot.suffix != ".svg":
        raise click.BadParameter(f"--plot `{plot}`: expected a name that ends in .svg")
