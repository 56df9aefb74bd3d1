# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The comparison on a terminal: one column a governor, readable down to 80 columns."""

from typing import TYPE_CHECKING, Any

from torpor.cli.console import render, wrap
from torpor.comparison import (
    NOT_KNOWN,
    SLEEP_LENGTH_WORDS,
    Cell,
    Row,
    agreement_text,
    rows,
    short_labels,
    sources_text,
    task_rows,
)

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

# Between two columns.
_GAP = 2
# What a metric's name or a governor's may take where room is short; longer ones fold.
_NARROW_NAME = 24
_NARROW_GOVERNOR = 16
# Running text is hard to read in longer lines.
_TEXT_WIDTH = 100


def comparison_text(result: dict[str, Any], width: int) -> str:
    """Return the tables of all traces, what failed, and the limits of the claim."""
    parts = []
    for trace in result["traces"]:
        parts.append(_heading(result, trace, min(width, _TEXT_WIDTH)))
        parts.append(_table_text(result, trace, width))
        parts.append(_below(trace, min(width, _TEXT_WIDTH)))
    parts += [wrap(f"Note: {note}", min(width, _TEXT_WIDTH)) + "\n" for note in result["notes"]]
    return "".join(parts)


def tasks_text(result: dict[str, Any], width: int) -> str:
    """Return what each kind of task met under each governor, for more than one kind."""
    names, table_rows = task_rows(result)
    if len({row.key for row in table_rows}) < 2:
        return ""
    blocks = _blocks(names, table_rows, width)
    tables = (_table(names, table_rows, b, is_stacked=len(blocks) > 1) for b in blocks)
    return "\n" + render(*tables, width=width)


def _heading(result: dict[str, Any], trace: dict[str, Any], width: int) -> str:
    recording, platform, options = trace["trace"], result["platform"], result["options"]
    facts = [
        recording["format"],
        _cpus(trace),
        f"{recording['duration_ns'] / 1e9:.2f} s",
    ]
    if recording["kernel_release"]:
        facts.append(f"Linux {recording['kernel_release']}")
    where = f"on {platform['name']} ({platform['title']}), tick {options['hz']} Hz"
    if options["latency_limit_ns"] is not None:
        where += f", latency limit {options['latency_limit_ns'] / 1e3:g} µs"
    for disabled in options["disabled_states"]:
        cpu = "" if disabled["cpu"] is None else f" of CPU {disabled['cpu']}"
        where += f", state {disabled['state']}{cpu} disabled"
    # A name goes in front of the facts even where it alone is longer than the line.
    return f"{wrap(recording['path'] + ': ' + ', '.join(facts), width)}\n{wrap(where, width)}\n"


def _cpus(trace: dict[str, Any]) -> str:
    count = trace["trace"]["cpu_count"]
    replayed = {cpu for run in trace["runs"] for c in run["clusters"] for cpu in c["cpus"]}
    share = f"{len(replayed)} of " if 0 < len(replayed) < count else ""
    return f"{share}{count} CPU{'s' * (count != 1)}"


def _table_text(result: dict[str, Any], trace: dict[str, Any], width: int) -> str:
    names = short_labels([run["governor"] for run in trace["runs"]])
    return rows_text(names, rows(result, trace), width)


def rows_text(names: list[str], table_rows: list[Row], width: int) -> str:
    """Return one table, or several below each other where the columns do not fit."""
    everyone = range(len(names))
    if _width(names, table_rows, everyone, is_stacked=False) <= width:
        return render(_table(names, table_rows, everyone, is_stacked=False), width=width)
    blocks = _blocks(names, table_rows, width)
    return render(*(_table(names, table_rows, b, is_stacked=True) for b in blocks), width=width)


def _blocks(names: list[str], table_rows: list[Row], width: int) -> list[list[int]]:
    """Share the governors out over tables that fit, the first one standing in each."""
    blocks = [[0]] if names else []
    for index in range(1, len(names)):
        wider = [*blocks[-1], index]
        # Two columns are the least that compares anything, however narrow the terminal.
        if len(wider) <= 2 or _width(names, table_rows, wider, is_stacked=True) <= width:
            blocks[-1] = wider
        else:
            blocks.append([0, index])
    return blocks


def _width(names: list[str], table_rows: list[Row], block: Any, *, is_stacked: bool) -> int:
    heading = max((len(row.heading) for row in table_rows), default=0)
    total = min(heading, _NARROW_NAME) if is_stacked else heading
    for index in block:
        name = len(names[index])
        cells = [row.cells[index] for row in table_rows]
        if is_stacked:
            widths = [max(len(c.text), len(c.change)) for c in cells]
            name = min(name, _NARROW_GOVERNOR)
        else:
            widths = [len(c.full) for c in cells]
        total += _GAP + max([name, *widths])
    return total


def _table(names: list[str], table_rows: list[Row], block: Any, *, is_stacked: bool) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    table.add_column("", max_width=_NARROW_NAME if is_stacked else None, overflow="fold")
    for index in block:
        table.add_column(
            names[index],
            justify="right",
            overflow="fold",
            no_wrap=not is_stacked,
            max_width=_NARROW_GOVERNOR if is_stacked else None,
        )
    for row in table_rows:
        cells = [_cell_text(row.cells[index], is_stacked) for index in block]
        table.add_row(row.heading, *cells)
    return table


def _cell_text(cell: Cell, is_stacked: bool) -> "Text":
    from rich.text import Text

    if cell.text == NOT_KNOWN:
        return Text(cell.text, style="dim")
    text = Text(cell.text)
    style = {None: "dim", True: "green", False: "red"}[cell.is_better]
    if cell.change:
        text.append(f"\n{cell.change}" if is_stacked else f" ({cell.change})", style=style)
    elif cell.is_better is not None:
        text.stylize(style)
    return text


def _below(trace: dict[str, Any], width: int) -> str:
    """What a reader must know of this trace's inputs, each in a line."""
    lines = []
    for run in trace["runs"]:
        if run["error"]:
            lines.append(f"{run['governor']} failed: {run['error']}")
    lengths = trace["inputs"]["sleep_length_sources"]
    if sum(lengths.values()):
        shares = sources_text(lengths, SLEEP_LENGTH_WORDS)
        lines.append(f"Time to the next timer known from: {shares}.")
    if agreement := trace.get("agreement"):
        lines.append(agreement_text(agreement))
    for loss in trace["trace"]["losses"]:
        if loss["severity"] != "info":
            lines.append(f"{loss['severity'].capitalize()}: {loss['count']} × {loss['advice']}")
    text = "\n".join("\n".join(wrap(part, width) for part in line.splitlines()) for line in lines)
    return f"\n{text}\n" if text else "\n"
