# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor explain`, `torpor compare`: results that were saved with --format json or --parquet."""

from pathlib import Path
from typing import Annotated, Any

from torpor import explain as explain_result
from torpor._engine import TorporError
from torpor.cli import options
from torpor.cli.console import stdout_width, text_width, wrap, write_stdout
from torpor.cli.deliver import check, print_result, write_report
from torpor.cli.options import argument, option
from torpor.results import compare as side_by_side
from torpor.results.load import load
from torpor.results.text import distinct_names


def explain(
    results: Annotated[list[Path], argument("RESULT...", "Saved with --format json or --parquet.")],
    governor: Annotated[
        str | None,
        option(
            "--governor -g G",
            "Compare this governor with the first one. Default: the next one that is not a "
            "reference.",
        ),
    ] = None,
) -> None:
    """Explain a result in a few sentences: what differs, where, and what it cannot show."""
    width = text_width(stdout_width())
    for path in results:
        for result in _loaded(path):
            sentences = explain_result(result, governor=governor)
            # A percent sign stays with its number.
            kept = [sentence.replace(" %", "\xa0%") for sentence in sentences]
            folded = "\n".join(wrap(sentence, width, indent="") for sentence in kept)
            write_stdout(folded.replace("\xa0%", " %"))


def compare(
    results: Annotated[list[Path], argument("A B...", "Saved with --format json or --parquet.")],
    labels: Annotated[
        list[str] | None, option("--label NAME", "Names the results, in order.")
    ] = None,
    form: options.Form = "text",
    report: options.ReportPath = None,
) -> None:
    """Compare saved results of any kind side by side.

    One result alone is shown once more: with --format, as a table to post.
    """
    check(folder=None, files=(report,))
    loaded = [result for path in results for result in _loaded(path)]
    if len(loaded) == 1 and not labels:
        found = loaded[0]
    else:
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
