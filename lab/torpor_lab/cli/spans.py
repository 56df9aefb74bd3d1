# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor trace spans`: idle spans one by one, and the causal bound."""

from pathlib import Path
from typing import Annotated, Any

from torpor.plugin import (
    Post,
    Table,
    argument,
    check,
    counted,
    fail,
    minus,
    number,
    option,
    options,
    print_note,
    print_post,
    progress,
    word,
    write_page,
    write_stdout,
)
from torpor_lab.idle_spans import Bound, SpanOptions, bound
from torpor_lab.idle_spans import spans as read_spans

_FORMATS = (".parquet", ".arrow", ".csv")


@options.of(SpanOptions, after="platform")
def spans(
    traces: Annotated[list[str], argument("TRACE", "Recordings.")],
    platform: Annotated[str, options.machine("Machine: a name, a .toml file, or a dump.")],
    output: Annotated[
        Path | None, option("-o --output FILE", "A .parquet, .arrow or .csv file, not stdout.")
    ] = None,
    is_bound: Annotated[
        bool,
        option(
            "--bound",
            "Show how well a governor with limited knowledge could do at teo's delay.",
        ),
    ] = False,
    base: Annotated[
        str, option("G", "With --bound: use the delay and the gap of this governor.")
    ] = "teo",
    form: options.Form = "text",
    report: options.ReportPath = None,
    **given: Any,
) -> None:
    """Write one row per idle span: what was known, what came, what each state would have cost.

    As CSV to stdout, or to a file. With --bound, a table instead.
    """
    if is_bound:
        if output is not None:
            fail("--output: --bound writes its table to stdout")
        check(folder=None, files=(), page=report)
        with progress.if_watched() as bar:
            rows = bound(traces, platform=platform, base=base, progress=bar, **given)
        post = _bound_post(rows, base, f"{counted(len(traces), 'recording')}, {platform}")
        write_page(post, report, _verdict(rows, base))
        print_post(post, form, rows)
        return
    if output is not None and output.suffix not in _FORMATS:
        fail(f"`{output}`: the file name must end in {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}")
    if form != "text" or report is not None:
        fail("--format and --report are for --bound", "-o FILE.parquet writes another format")
    with progress.if_watched() as bar:
        found = read_spans(traces, platform=platform, progress=bar, **given)
    if output is not None:
        found.write(output)
        print_note(f"spans: {output}")
        return
    for text in found.csv():
        if not write_stdout(text):
            break


def _verdict(rows: list[Bound], base: str) -> list[str]:
    """Print how much of the gap an out-of-sample plan closes."""
    known = [row for row in rows if row["cells"] and row["cross_validated_pct"] is not None]
    if not known:
        return []
    best = max(known, key=lambda row: row["cross_validated_pct"] or 0.0)
    timers = " and sets timers of its own" if best["own_timers"] else ""
    # Each row adds to the knowledge of the previous rows.
    words = [row["knows"].lstrip("+ ") for row in known[: known.index(best) + 1]]
    closed = minus(f"{best['cross_validated_pct']:.1f}")
    return [
        f"A plan that knows {', '.join(dict.fromkeys(words))}{timers} closes {closed} % of "
        f"{base}'s gap to the oracle, at {base}'s mean delay.",
    ]


def _bound_post(rows: list[Bound], base: str, inputs: str) -> Post:
    lines = [
        [
            word(row["knows"]),
            word("yes" if row["own_timers"] else ""),
            number(row["cells"]),
            number(row["energy_uj"]),
            number(row["closed_pct"], 1),
            number(row["cross_validated_uj"]),
            number(row["cross_validated_pct"], 1),
        ]
        for row in rows
    ]
    headings = ["knows", "own timers", "cells", "energy uJ", "closed %", "learnt uJ", "closed %"]
    title = f"The best at {base}'s mean delay, and how much of its gap to the oracle that closes"
    note = (
        "energy: trained on the same spans, optimistic; learnt: on four fifths of each CPU's "
        "recording, used on the other"
    )
    return Post(f"bounds on {inputs}", [], [Table("bounds", title, headings, lines, 2)], [note])
