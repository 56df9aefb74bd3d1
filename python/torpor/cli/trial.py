# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor try`: a patch series against its base."""

import sys
from pathlib import Path
from typing import Annotated, Any

import click

from torpor import _engine
from torpor.ask.trial import Standing, attempt
from torpor.ask.trial.series import BYTES_MAX, read_source
from torpor.cli import options, progress
from torpor.cli.console import print_note, write_post, write_stdout
from torpor.cli.deliver import check, write_report
from torpor.cli.exits import EXIT_FAILURE, EXIT_FINDING
from torpor.cli.finished import finished_runs
from torpor.cli.options import argument, option
from torpor.cli.parsing import typed
from torpor.results.kinds import posted
from torpor.view.post import post

#: Seeds and time of `--long`.
_LONG: dict[str, Any] = {"seeds": 40, "duration": "4s", "decisions": 1_000_000}


_Source = Annotated[
    str,
    argument(
        "SERIES",
        "A mailbox, a patch, a folder or maildir of these; `-` for standard input; or a range of "
        "commits: TREE:A..B, A..B.",
    ),
]
_Onto = Annotated[
    str | None,
    option(
        "BASE",
        "Where the series applies, unless it says so itself: TREE:REV, a folder, a tarball or a "
        f"release. Default: {_engine.default_kernel()}.",
    ),
]
_Recordings = Annotated[
    list[str] | None, option("--trace -t FILE", "Recordings to replay. Can be repeated.")
]
_Platforms = Annotated[
    list[str] | None,
    option("--platform -p P", "Machines: a name or a .toml file. Can be repeated."),
]
_Workloads = Annotated[
    list[str] | None, option("--workload -w W", "Workloads to simulate. Can be repeated.")
]
_Seeds = Annotated[int | None, option("N", "Runs of each simulation; default: 12.", least=1)]
_Hz = Annotated[int, option("N", "Tick rate of simulations: each costs images of its own.")]
_Long = Annotated[bool, option("--long", "More and longer simulations, and longer checks.")]
_OnlyLast = Annotated[bool, option("--only-last", "Only the base and the whole series.")]
_Each = Annotated[bool, option("--each", "Each patch alone on the base.")]
_Limits = Annotated[
    Path | None,
    option("FILE", "A TOML file with [[limit]], as `torpor gate` has it: exit status 1."),
]


def attempt_series(
    source: _Source,
    onto: _Onto = None,
    recordings: _Recordings = None,
    platforms: _Platforms = None,
    workloads: _Workloads = None,
    seeds: _Seeds = None,
    hz: _Hz = 250,
    is_long: _Long = False,
    is_only_last: _OnlyLast = False,
    is_each: _Each = False,
    limits: _Limits = None,
    threads: options.Threads = None,
    form: options.Form = "text",
    report: options.ReportPath = None,
    store: options.RunsPath = None,
) -> None:
    """Try a patch series: what it changes, for whom, and whether that is chance.

    Without -t, -p and -w a standing set runs: four machines, recordings and workloads.

    Exit status: 0; 1 if the series breaks a rule of `governor check`, or a limit; 2 if it does not
    apply or run.
    """
    if is_only_last and is_each:
        raise click.BadParameter("--only-last and --each exclude one another")
    check(folder=None, files=(), page=report)
    given = sys.stdin.buffer.read(BYTES_MAX + 1) if source == "-" else None
    series = read_source(source, given)
    more = dict(_LONG) if is_long else {}
    more |= {"seeds": seeds} if seeds else {}
    how = "last" if is_only_last else "each" if is_each else "cumulative"
    words = ("try", series.read["patch_id"], onto, recordings, platforms, workloads, more, how, hz)
    with finished_runs(store, *words) as finished, progress.if_watched() as bar:
        standing = Standing(
            *(recordings or (), platforms or (), workloads or ()),
            columns=how,
            hz=hz,
            threads=threads,
            store=finished.path,
            **more,
        )
        found = attempt(
            series,
            onto,
            standing,
            limits=limits,
            command=typed(),
            progress=bar,
            tell=print_note,
        )
    write_report(found, report)
    if form == "text":
        write_post(posted(found))
    else:
        write_stdout(post(found, form))
    raise click.exceptions.Exit(_status(found))


def _status(found: Any) -> int:
    errors = [column["error"] for column in found["columns"][1:]]
    if errors[-1]:
        return EXIT_FAILURE
    is_broken = bool(found["limits"]) or any(check["new"] for check in found["checks"])
    is_broken |= any(errors)
    return EXIT_FINDING if is_broken else 0
