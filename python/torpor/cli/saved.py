# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor show`, `torpor compare`: results that were saved, and stores of sweeps."""

from pathlib import Path
from typing import Annotated, Any

import click

from torpor._engine import TorporError
from torpor.ask.fleet import fleet
from torpor.cli import options, sweeping
from torpor.cli.console import (
    fail,
    post_text,
    print_note,
    stdout_width,
    text_width,
    wrap,
    write_stdout,
)
from torpor.cli.deliver import check, print_post, print_result, write_report
from torpor.cli.options import argument, option
from torpor.results import compare as side_by_side
from torpor.results.files import write_whole
from torpor.results.kinds import KINDS, explain, posted
from torpor.results.load import load
from torpor.results.record import RESULT_FILE, view
from torpor.results.text import distinct_names
from torpor.run.sweeps import ranks
from torpor.run.sweeps.columns import Points
from torpor.run.sweeps.store import open_store, points_of

_Base = Annotated[
    str | None,
    option("G", "Of a store: compare with this governor; default: the first that was named."),
]
_Only = Annotated[
    list[str] | None,
    option("--only AXIS=PATTERN", "Of a store: these points only: platform=pixel6."),
]
_Each = Annotated[
    bool | None,
    option(
        "--each/--no-each",
        "Of a store: a row for each scenario; default: for up to 30, and in CSV.",
    ),
]


def show(
    paths: Annotated[
        list[Path],
        argument(
            "SAVED...", "Saved with --format json or --parquet; or stores of sweeps, shadows."
        ),
    ],
    governor: Annotated[
        str | None,
        option(
            "--governor -g G",
            "Explain how this governor differs from the first one. Default: that with the "
            "least power, but for references.",
        ),
    ] = None,
    metrics: sweeping.Metrics = None,
    base: _Base = None,
    only: _Only = None,
    each: _Each = None,
    form: options.Form = "text",
    report: options.ReportPath = None,
) -> None:
    """Explain a saved result in a few sentences, and show its tables once more.

    Of a sweep's store: governors against scenarios, and ranks over scenarios with their
    uncertainty. Of stores of `torpor shadow`: which governor for which class of machine and hour;
    with --metric, --only or --each as of a sweep.
    """
    check(folder=None, files=(), page=report)
    of_stores = {"metric": metrics, "only": only, "each": each}
    if all(path.is_dir() and not (path / RESULT_FILE).exists() for path in paths):
        points = points_of(map(open_store, paths))
        if set(points["kind"]) != {"shadow"} or any(v is not None for v in of_stores.values()):
            if governor is not None:
                raise click.BadParameter("--governor is for a result: a sweep's store has --base")
            post = ranks.view(
                points,
                metrics=metrics or ranks.DEFAULT_METRICS,
                base=base,
                filters=sweeping.filters(only),
                each=True if form == "csv" and each is None else each,
            )
            _write_page(points, sweeping.filters(only), paths[0], report)
            print_post(post, form, points.rows() if form == "json" else None)
            return
        results = [fleet(paths, base=base)]
    else:
        for name, value in {**of_stores, "base": base}.items():
            if value is not None:
                raise click.BadParameter(f"--{name} is for a store, and `{paths[0]}` is a result")
        results = [one for path in paths for one in _loaded(path)]
    _show(results, governor, form, report)


def _write_page(points: Points, only: dict[str, list[str]], store: Path, page: Path | None) -> None:
    if page is not None:
        own = ranks.filtered(ranks.against_oracle(points), only)
        write_whole(page, view("report.sweep").render(own, store.resolve().name))
        print_note(f"report: {page}")


def _show(loaded: list[Any], governor: str | None, form: str, report: Path | None) -> None:
    """Write results as a page, if requested, and print them in a form, explained as text."""
    results = [one.to_dict() if hasattr(one, "to_dict") else one for one in loaded]
    shown = results if len(results) > 1 else results[0]
    write_report(shown, report)
    if form != "text":
        print_result(shown, form)
        return
    for result in results:
        verdict, *said = _sentences(result, governor) or [""]
        text = post_text(posted(result))
        if verdict:
            # The tables' own verdict is of the default governor.
            text = text.partition("\n\n")[2] if posted(result).verdict else text
            text = "\n".join([verdict, *said, "", text])
        write_stdout(text)


def _sentences(result: Any, governor: str | None) -> list[str]:
    """Return what explains a result, folded; nothing for a kind that has nothing to explain."""
    kind = KINDS.get(result["kind"])
    if governor is None and (kind is None or kind.explain is None):
        return []
    width = text_width(stdout_width())
    # A percent sign stays with its number.
    kept = [said.replace(" %", "\xa0%") for said in explain(result, governor=governor)]
    return [wrap(said, width, indent="").replace("\xa0%", " %") for said in kept]


def compare(
    results: Annotated[list[Path], argument("A B...", "Saved with --format json or --parquet.")],
    labels: Annotated[
        list[str] | None, option("--label NAME", "Names the results, in order.")
    ] = None,
    form: options.Form = "text",
    report: options.ReportPath = None,
) -> None:
    """Compare saved results of any kind side by side."""
    check(folder=None, files=(), page=report)
    loaded = [result for path in results for result in _loaded(path)]
    if len(loaded) == 1 and not labels:
        fail(f"`{results[0]}` is one result", f"`torpor show {results[0]}` shows it")
    names = labels or _names([str(path) for path in results], len(loaded))
    found = side_by_side.compare(*loaded, labels=names)
    write_report(found, report)
    print_result(found, form)


def _loaded(path: Path) -> list[Any]:
    found = load(path)
    several = found if isinstance(found, list) else [found]
    if any(not hasattr(one, "to_json") for one in several):
        raise TorporError(f"`{path}` is one table: name the result, or the folder it is in")
    return several


def _names(paths: list[str], count: int) -> list[str]:
    """The files' stems if they differ; a file may hold several studies."""
    stems = [Path(path).stem for path in paths]
    for names in (stems, list(distinct_names(paths).values())):
        if len(set(names)) == len(names) == count:
            return names
    return [str(number) for number in range(1, count + 1)]
