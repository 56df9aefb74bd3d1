# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The comparison on a terminal: one column a governor, readable down to 80 columns."""

from typing import TYPE_CHECKING, Any

from torpor.cli.console import bare_table, render, text_width, wrap
from torpor.cli.more_tables import FULL_TABLES, causes_text, lines_text, over_text
from torpor.results.comparison import (
    SLEEP_LENGTH_WORDS,
    Cell,
    Row,
    agreement_text,
    base_text,
    rows,
    sections,
    short_labels,
    sources_text,
    task_rows,
)

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from torpor.results import types as results
    from torpor.results.comparison import Result, Section

# Between two columns.
_GAP = 2
# Width of a metric's or governor's name if space is short; longer ones fold.
_NARROW_NAME = 24
_NARROW_GOVERNOR = 16


def comparison_text(result: "Result", width: int) -> str:
    """Return the tables of all sections, what failed, and the limits of the claim."""
    narrow = text_width(width)
    parts = []
    several = sections(result)
    is_short = len(several) > FULL_TABLES
    for section in several:
        parts.append(_heading(result, section, narrow))
        if not is_short:
            names = short_labels(section["comparison"]["labels"])
            parts.append(rows_text(names, rows(section["comparison"]), width))
        parts.append(causes_text(result, section, width))
        parts.append(_below(section, narrow))
    if is_short:
        parts.append(lines_text(result, width))
    parts.append(over_text(result, width))
    parts += [wrap(f"Note: {note}", narrow) + "\n" for note in result["notes"]]
    return "".join(parts)


def tasks_text(result: "Result", width: int) -> str:
    """Return what each kind of task met under each governor, for more than one kind."""
    names, table_rows = task_rows(result)
    if len({row.key for row in table_rows}) < 2:
        return ""
    blocks = _blocks(names, table_rows, width)
    tables = (_table(names, table_rows, b, is_stacked=len(blocks) > 1) for b in blocks)
    return "\n" + render(*tables, width=width)


def _heading(result: "Result", section: "Section", width: int) -> str:
    platform, options = result["platform"], result["options"]
    where = f"on {platform['name']} ({platform['title']}), tick {options['hz']} Hz"
    if options["latency_limit_ns"] is not None:
        where += f", latency limit {options['latency_limit_ns'] / 1e3:g} µs"
    for disabled in options["disabled_states"]:
        cpu = "" if disabled["cpu"] is None else f" of CPU {disabled['cpu']}"
        where += f", state {disabled['state']}{cpu} disabled"
    # A name goes in front of the facts even where it alone is longer than the line.
    return f"{wrap(_source(result, section), width)}\n{wrap(where, width)}\n"


def _source(result: "Result", section: "Section") -> str:
    """Return the source of the section's runs."""
    if "workload" in section:
        count = sum(len(cluster["cpus"]) for cluster in result["platform"]["clusters"])
        cpus, seconds = _cpus(section, count), section["options"]["duration_ns"] / 1e9
        return f"{section['workload']['name']}: simulation, {cpus}, {seconds:.2f} s"
    recording = section["trace"]
    cpus = _cpus(section, recording["cpu_count"])
    facts = [recording["format"], cpus, f"{recording['duration_ns'] / 1e9:.2f} s"]
    if recording["kernel_release"]:
        facts.append(f"Linux {recording['kernel_release']}")
    return f"{recording['path']}: {', '.join(facts)}"


def _cpus(section: "Section", count: int) -> str:
    """Return the number of CPUs, and of those that took part."""
    part = {cpu for run in section["runs"] for c in run["clusters"] for cpu in c["cpus"]}
    share = f"{len(part)} of " if 0 < len(part) < count else ""
    return f"{share}{count} CPU{'s' * (count != 1)}"


def rows_text(names: list[str], table_rows: list[Row], width: int) -> str:
    """Return one table, or several below each other where the columns do not fit."""
    everyone = range(len(names))
    if _width(names, table_rows, everyone, is_stacked=False) <= width:
        return render(_table(names, table_rows, everyone, is_stacked=False), width=width)
    blocks = _blocks(names, table_rows, width)
    return render(*(_table(names, table_rows, b, is_stacked=True) for b in blocks), width=width)


def listed_text(head: str, names: list[str], table_rows: list[Row], width: int) -> str:
    """Return the table on its side, a line a governor: for many of them and few metrics."""
    table = bare_table()
    table.add_column(head, overflow="fold")
    for row in table_rows:
        table.add_column(row.heading, justify="right")
    for index, name in enumerate(names):
        cells = (_cell_text(row.cells[index], is_stacked=False) for row in table_rows)
        table.add_row(name, *cells)
    return render(table, width=width)


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
    table = bare_table()
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

    if not cell.is_known:
        return Text(cell.text, style="dim")
    text = Text(cell.text)
    style = {None: "dim", True: "green", False: "red"}[cell.is_better]
    if cell.change:
        text.append(f"\n{cell.change}" if is_stacked else f" ({cell.change})", style=style)
    elif cell.is_better is not None:
        text.stylize(style)
    return text


def _below(section: "Section", width: int) -> str:
    """Return the notes of this section, each on a line."""
    lines = [f"{run['governor']} failed: {run['error']}" for run in section["runs"] if run["error"]]
    if text := base_text(section["comparison"]):
        lines.append(text)
    if "trace" in section:
        lines += _inputs(section)
    text = "\n".join("\n".join(wrap(part, width) for part in line.splitlines()) for line in lines)
    return f"\n{text}\n" if text else "\n"


def _inputs(section: "results.TraceOutcome") -> list[str]:
    lines = []
    lengths = section["inputs"]["sleep_length_sources"]
    if sum(lengths.values()):
        shares = sources_text(lengths, SLEEP_LENGTH_WORDS)
        lines.append(f"Time to the next timer known from: {shares}.")
    if agreement := section.get("agreement"):
        lines.append(
            f"{agreement_text(agreement, '--recorded-on')} For details, run `torpor fidelity`."
        )
    for loss in section["trace"]["losses"]:
        if loss["severity"] != "info":
            lines.append(f"{loss['severity'].capitalize()}: {loss['count']} × {loss['advice']}")
    return lines
