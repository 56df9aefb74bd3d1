# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Replays of recordings under several governors."""

from typing import Any

import torpor
from torpor import _engine
from torpor.results import runs
from torpor.results import types as results
from torpor.results.brief import brief
from torpor.results.catalogue import leading, unit_text
from torpor.results.cells import RUN, SIDES, compared, missed_cells
from torpor.results.comparison import needed_text, section_name, short_labels
from torpor.results.kind import Kind, saved_by
from torpor.results.over_recordings import over_recordings, sign_text
from torpor.results.table import UNKNOWN, Cell, Post, Table, number, share, word

#: With more recordings, a terminal shows a line for each instead of a table.
_FULL_TABLES = 4
#: Causes of sleeps' ends that a terminal shows for each governor.
_CAUSES = 8


def post(result: "results.Replay") -> Post:
    """Return a comparison for each recording, details, and means over several recordings."""
    traces = result["traces"]
    several, is_long = len(traces) > 1, len(traces) > _FULL_TABLES
    tables: list[Table] = [_lines(result)] if is_long else []
    for section in traces:
        name = section_name(section)
        of = f"{name}: " if several else ""
        found = compared(section["comparison"], title=name if several else "")
        tables.append(found._replace(is_detail=is_long))
        rows = [
            [word(short), *missed_cells(run["metrics"])]
            for run, short in zip(section["runs"], runs.short_names(section), strict=True)
            if run["error"] is None
        ]
        headings = ["gov", *RUN, "ratio", *SIDES]
        tables.append(Table("runs", f"{of}all CPUs", headings, rows, is_detail=True))
        tables += [*runs.states(section, of), *causes(section, of)]
    tables += over(result)
    facts = [runs.machine_fact(result), *(_fact(section) for section in traces)]
    title = section_name(traces[0]) if len(traces) == 1 else f"{len(traces)} recordings"
    title += f": replay on {result['platform']['name']}, tick {result['options']['hz']} Hz"
    extent = [] if several else [_extent(traces[0])]
    basis = ", ".join([title, *extent, *runs.settings(result)])
    shown = brief(result, basis)
    # They are there where they were asked for.
    shown.tables.extend(table for table in tables if table.name == "causes")
    return Post(title, facts, tables, runs.notes(result), brief=shown)


def _fact(section: "results.TraceOutcome") -> str:
    trace = section["trace"]
    facts = [trace["format"], runs.cpus_text(section, trace["cpu_count"])]
    facts.append(f"{trace['duration_ns'] / 1e9:.2f} s")
    if trace["kernel_release"]:
        facts.append(f"Linux {trace['kernel_release']}")
    return f"{trace['path']}: {', '.join(facts)}"


def _extent(section: "results.TraceOutcome") -> str:
    """Return the CPUs, the time and the release, without a distribution's part."""
    trace = section["trace"]
    release = (trace["kernel_release"] or "").partition("-")[0]
    seconds = f"{trace['duration_ns'] / 1e9:.2f} s"
    facts = [runs.cpus_text(section, trace["cpu_count"]), seconds]
    facts += [f"Linux {release}"] * bool(release)
    agreement = section.get("agreement")
    is_verified = bool(agreement and agreement["verdict"]["is_verified"])
    return ", ".join([*facts, *["recorded decisions verified"] * is_verified])


def _lines(result: "results.Replay") -> Table:
    """Return a line for each recording and governor."""
    known = {metric["key"]: metric for metric in result["catalogue"]}
    has_power = result["platform"]["has_power"]
    keys = [k for k in leading("line", "replay") if has_power or known[k]["kind"] != "power"]
    headings = ["recording", "gov"]
    headings += [f"{known[key]['title']} {unit_text(known[key]['unit'])}".rstrip() for key in keys]
    rows = []
    for section in result["traces"]:
        for run, label in zip(section["runs"], runs.short_names(section), strict=True):
            cells = [_figure(run["metrics"].get(key)) for key in keys]
            if run["error"]:
                cells = [Cell(None, "failed")] * len(keys)
            rows.append([word(section_name(section)), word(label), *cells])
    return Table("recordings", "", headings, rows, keys=2)


def _figure(value: float | None) -> Cell:
    return Cell(value, UNKNOWN if value is None else _engine.format_number(value))


def causes(section: Any, of: str = "") -> list[Table]:
    """Return the causes of each governor's wake-ups, if requested."""
    labels = [run["governor"] for run in section["runs"] if not run["error"]]
    tables = []
    for label, short in zip(labels, short_labels(labels), strict=True):
        rows = []
        for cause in section.get("causes") or ():
            if cause["governor"] != label:
                continue
            mean = share(cause["latency_ns"], cause["woken"], 1e-3)
            most = cause["latency_max_ns"] / 1e3 if cause["woken"] else None
            counts = [number(cause[key]) for key in ("sleeps", "below", "above", "woken")]
            late = [number(mean, 1), number(most, 1)]
            rows.append([word(cause["kind"]), word(cause["name"]), *counts, *late])
        headings = ["by", "name", "idles", "belows", "aboves", "woken", "mean µs", "max µs"]
        title = f"{of}{short}: what ended the sleeps, and the latency"
        if rows:
            tables.append(Table("causes", title, headings, rows, keys=2, most=_CAUSES))
    return tables


def over(result: "results.Replay") -> list[Table]:
    """Return means over several recordings."""
    found = over_recordings(result)
    if found is None:
        return []
    labels, rows = short_labels(found["comparison"]["labels"]), []
    for row, more in zip(found["comparison"]["rows"], found["rows"], strict=True):
        title = f"{row['title']} {unit_text(row['unit'])}".rstrip()
        for label, cell, own in zip(labels, row["cells"], more["cells"], strict=True):
            change = cell["change"]["text"] if cell["change"] else ""
            cells = [Cell(cell["value"], cell["text"]), _figure(own["spread"]), word(change)]
            rows.append(
                [word(title), word(label), *cells, word(sign_text(own)), _chance(own["sign_p"])]
            )
    title = (
        f"Over {found['recordings']} recordings: mean, standard deviation, change from {labels[0]} "
        "with its 95 % interval paired by recording, sign test over recordings"
    )
    if needed := needed_text(found["comparison"], "recordings"):
        title += f". {needed}"
    headings = ["metric", "gov", "mean", "sd", "change", "sign test", "p"]
    return [Table("over", title, headings, rows, keys=2)]


def _chance(p: float | None) -> Cell:
    return Cell(p, "" if p is None else f"{p:.2g}")


def unverified(result: "results.Replay") -> list[str]:
    """Return the recordings that the named machine does not explain; none where none is named."""
    if result["options"]["recorded_on"] is None:
        return []
    return [
        section["trace"]["path"]
        for section in result["traces"]
        if (found := section.get("agreement")) and not found["verdict"]["is_verified"]
    ]


KIND = Kind(
    "replay",
    post,
    saved_by("replay", "`--trace FILE` writes it."),
    runs.explain,
    columns=runs.columns,
    samples=runs.samples,
    verdict=runs.verdict,
    inputs=runs.inputs,
    contradictions=runs.contradictions,
    unverified=unverified,
    opened=lambda text, folder: torpor.Replay(text, folder),
    has_runs=True,
)
