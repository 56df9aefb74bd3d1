# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tables of each kind of result, in the layouts that the kernel's mailing lists use.

- Runs, by device: ``device gov iter iops idles idle_miss ratio belows aboves``.
- Runs, by test: ``test gov i score %change idles idle_miss miss_rt belows aboves``.
- States: ``time time% usage above above% below below%`` of each cluster and state. Those of
  ``diff`` are what the counters grew by, which the lists write with a delta.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torpor import _engine
from torpor._engine import TorporError
from torpor.results.comparison import (
    agreement_text,
    base_text,
    section_name,
    sections,
    short_labels,
    unit_text,
)
from torpor.results.kinds.cells import (
    COUNTERS,
    RUN,
    SIDES,
    change_cell,
    compared,
    count_cells,
    miss_cells,
    missed_cells,
    states_table,
    total,
)
from torpor.results.kinds.recordings import fidelity, outcomes, trace_stats
from torpor.results.over_recordings import over_recordings, sign_text
from torpor.results.table import UNKNOWN, Cell, Post, Table, counted, number, share, word

if TYPE_CHECKING:
    from torpor.results import schema as shapes
    from torpor.results import types as results
    from torpor.results.comparison import Result, Section


def posted(result: Any) -> Post:
    """Return what is posted of a result, whatever made it.

    Raises :class:`torpor.TorporError` for a kind that has no tables.
    """
    kind = result.get("kind") if isinstance(result, Mapping) else None
    if kind not in _KINDS:
        raise TorporError(f"a result of kind `{kind}` has no tables: expected {', '.join(_KINDS)}")
    return _KINDS[kind](result)


def _replay(result: "results.Replay") -> Post:
    options = result["options"]
    several = len(result["traces"]) > 1
    tables: list[Table] = []
    for section in result["traces"]:
        name = section_name(section)
        of = f"{name}: " if several else ""
        tables.append(compared(section["comparison"], title=name if several else ""))
        rows = []
        for run, short in zip(section["runs"], _short(section), strict=True):
            if run["error"] is None:
                rows.append([word(short), *missed_cells(run["metrics"])])
        tables.append(Table("runs", f"{of}all CPUs", ["gov", *RUN, "ratio", *SIDES], rows))
        tables += [*_states(section, of), *_causes(section, of)]
    tables += _over(result)
    facts = [_where(result)]
    for section in result["traces"]:
        trace = section["trace"]
        seconds = trace["duration_ns"] / 1e9
        kernel = f", Linux {trace['kernel_release']}" if trace["kernel_release"] else ""
        facts.append(f"{trace['path']}: {trace['cpu_count']} CPUs, {seconds:.2f} s{kernel}")
    count = len(result["traces"])
    title = section_name(result["traces"][0]) if count == 1 else f"{count} recordings"
    return Post(
        f"{title}: replay on {result['platform']['name']}, tick {options['hz']} Hz",
        facts,
        tables,
        _below(result),
    )


def _causes(section: Any, of: str) -> list[Table]:
    """Return the causes of sleeps' ends, if requested."""
    rows = []
    for cause in section.get("causes") or ():
        mean = share(cause["latency_ns"], cause["woken"], 1e-3)
        most = cause["latency_max_ns"] / 1e3 if cause["woken"] else None
        head = [word(cause["governor"]), word(cause["kind"]), word(cause["name"])]
        counts = [number(cause[key]) for key in ("sleeps", "below", "above")]
        rows.append([*head, *counts, number(mean, 1), number(most, 1)])
    headings = ["gov", "by", "name", "idles", "belows", "aboves", "mean µs", "max µs"]
    title = f"{of}what ended the sleeps, and how late the CPU ran"
    return [Table("causes", title, headings, rows, keys=3)] if rows else []


def _over(result: Any) -> list[Table]:
    """Several recordings as one question."""
    over = over_recordings(result)
    if over is None:
        return []
    labels, rows = short_labels(over["comparison"]["labels"]), []
    for row, more in zip(over["comparison"]["rows"], over["rows"], strict=True):
        title = f"{row['title']} {unit_text(row['unit'])}".rstrip()
        for label, cell, own in zip(labels, row["cells"], more["cells"], strict=True):
            change = cell["change"]["text"] if cell["change"] else ""
            spread = own["spread"]
            text = UNKNOWN if spread is None else _engine.format_number(spread)
            cells = [Cell(cell["value"], cell["text"]), Cell(spread, text), word(change)]
            rows.append([word(title), word(label), *cells, word(sign_text(own))])
    title = f"Over {over['recordings']} recordings: means, spread, paired changes, sign test"
    headings = ["metric", "gov", "mean", "sd", "change", "sign test"]
    return [Table("over", title, headings, rows, keys=2)]


def _simulation(result: "results.Simulation") -> Post:
    options, name = result["options"], result["workload"]["name"]
    has_io = any(run["metrics"].get("iops") is not None for run in result["runs"])
    tables = [compared(result["comparison"])]
    rows = []
    base = result["comparison"]["base"]
    key = "iops" if has_io else "throughput"
    first = result["runs"][base]["metrics"].get(key) if base is not None else None
    for run, short in zip(result["runs"], _short(result), strict=True):
        for seed in run["seeds"]:
            idles = missed_cells(seed["metrics"])
            score = seed["metrics"].get(key)
            head = [
                word(name),
                word(short),
                number(seed["seed"]),
                number(score, 0 if has_io else 2),
            ]
            rows.append([*head, *idles] if has_io else [*head, change_cell(score, first), *idles])
    if has_io:
        headings = ["workload", "gov", "iter", "iops", *RUN, "ratio", *SIDES]
    else:
        headings = ["test", "gov", "i", "score", "%change", *RUN, "miss_rt", *SIDES]
    what = "IO a second" if has_io else "passes a second; %change against the first's mean"
    tables.append(Table("runs", f"Each seed: {what}", headings, rows, keys=3))
    tables += _states(result, "")
    seeds = f"{options['seeds']} seed{'s' * (options['seeds'] != 1)}"
    seconds = options["duration_ns"] / 1e9
    machine = result["platform"]["name"]
    title = f"{name}: simulation on {machine}, {seeds} of {seconds:.2f} s, tick {options['hz']} Hz"
    return Post(title, [_where(result)], tables, _below(result))


def _diff(result: "shapes.Diff") -> Post:
    facts = [
        f"{i['label']}: {i['before'] or 'boot'} to {i['after']}"
        + (f", {i['elapsed_ns'] / 1e9:.2f} s" if i["elapsed_ns"] else "")
        + (f", {i['governor']}" if i["governor"] else "")
        for i in result["intervals"]
    ]
    tables = []
    for group in result["groups"]:
        cpus = _engine.format_cpu_list(group["cpus"])
        if len(group["columns"]) > 1:
            tables.append(_diff_totals(group, cpus))
        for column in group["columns"]:
            states = zip(group["states"], column["states"], strict=True)
            rows = [[word(f"{s['index']} {s['name']}"), *count_cells(c)] for s, c in states]
            rows.append([word("all"), *count_cells(column["total"])])
            of = "" if column["residency_of"] == "elapsed" else "; time% of all idle time"
            title = f"CPU {cpus}, {column['label']}{of}"
            tables.append(states_table(title, ["state"], rows))
            if column.get("got"):
                tables.append(_diff_got(group, column))
    notes = [note["text"] for interval in result["intervals"] for note in interval["notes"]]
    label = ", ".join(dict.fromkeys(interval["label"] for interval in result["intervals"]))
    return Post(f"idle counters: {label}", facts, tables, list(dict.fromkeys(notes)))


def _diff_got(group: "shapes.DiffGroup", column: "shapes.DiffColumn") -> Table:
    rows = []
    for got in column["got"]:
        names = [group["states"][place]["name"] for place in got["states"]]
        ratios = [number(share(got[key], 1), 2) for key in ("requested_ratio", "got_ratio")]
        rows.append([word(got["counter"]), word(", ".join(names) or UNKNOWN), *ratios])
    headings = ["counter", "requested by", "requested%", "got%"]
    return Table("got", f"{column['label']}, requested and got", headings, rows, keys=2)


def _diff_totals(group: "shapes.DiffGroup", cpus: str) -> Table:
    rows = []
    for column in group["columns"]:
        total = column["total"]
        ratios = [share(total["above_ratio"], 1), share(total["below_ratio"], 1)]
        cells = [word(column["label"]), number(total["usage"]), number(total["mean_sleep_us"], 1)]
        for key, value in zip(("above", "below"), ratios, strict=True):
            change = (column["changes"] or {}).get(key)
            points = None if change is None else 100 * change["difference"]
            cells += [number(value, 2), number(points, 2, is_signed=True)]
            ends = [UNKNOWN] if change is None else [f"{100 * change[e]:+.2f}" for e in _ENDS]  # type: ignore[literal-required]
            cells.append(word("..".join(ends)))
        rows.append(cells)
    per = ["points", "95 %"]
    headings = ["", "usage", "mean µs", "above%", *per, "below%", *per]
    # CSV finds a column by its heading.
    headings[4:6] = ["above points", "above 95 %"]
    headings[7:9] = ["below points", "below 95 %"]
    return Table("totals", f"CPU {cpus}, changes against the first", headings, rows)


def _ab(result: "shapes.Ab") -> Post:
    command = shlex.join(result["command"])
    tables = []
    if result["comparison"] is not None:
        tables.append(compared(result["comparison"]))
    test = _test_name(result["command"])
    first = [
        r["figure"] for r in result["runs"] if r["governor"] == result["governors"][0]["label"]
    ]
    known = [figure for figure in first if figure is not None]
    base = sum(known) / len(known) if known else None
    rows = []
    labels = [governor["label"] for governor in result["governors"]]
    short = dict(zip(labels, short_labels(labels), strict=True))
    for run in result["runs"]:
        states = [state for group in run["counters"]["groups"] for state in group["states"]]
        above, below, usage = (total(states, key) for key in ("above", "below", "usage"))
        figure = [number(run["figure"], 2), change_cell(run["figure"], base)]
        head = [word(test), word(short[run["governor"]]), number(run["round"])]
        rows.append([*head, *figure, *miss_cells(usage, above, below)])
    headings = ["test", "gov", "i", "score", "%change", *RUN, "miss_rt", *SIDES]
    tables.append(Table("runs", "%change against the first's mean", headings, rows, keys=3))
    for label in labels:
        of = [run for run in result["runs"] if run["governor"] == label]
        rows = []
        for place, group in enumerate(of[0]["counters"]["groups"] if of else []):
            cpus = _engine.format_cpu_list(group["cpus"])
            elapsed = total([run["counters"] for run in of], "elapsed_ns")
            whole_us = None if elapsed is None else elapsed / 1e3 * len(group["cpus"])
            for index, state in enumerate(group["states"]):
                each = [run["counters"]["groups"][place]["states"][index] for run in of]
                sums: dict[str, Any] = {key: total(each, key) for key in COUNTERS}
                sums["residency_ratio"] = share(sums["time_us"], whole_us, 1)
                rows.append([word(cpus), word(f"{index} {state['name']}"), *count_cells(sums)])
        tables.append(states_table(f"{short[label]}, all rounds", ["CPUs", "state"], rows))
    rounds = f"{result['finished_rounds']} of {result['rounds']} rounds"
    facts = [f"Linux {result['kernel']}, driver {result['driver']}, {result['cpu_count']} CPUs"]
    return Post(f"{command}: {rounds}", facts, tables, [])


def _reproduction(result: "shapes.Reproduction") -> Post:
    from torpor.results import judge

    tables = []
    for table in result["tables"]:
        columns = list(table["rows"][0]["cells"]) if table["rows"] else []
        headings = [table["title"]]
        for column in columns:
            headings += [f"{column}: published", f"{column}: here"]
        rows = []
        for row in table["rows"]:
            cells = [word(row["title"])]
            for column in columns:
                cell = row["cells"][column]
                mark = "*" * cell["is_calibrated"]
                ours = cell["ours"]
                text = UNKNOWN if ours is None else _engine.format_number(ours) + mark
                cells += [_published(cell["published"]), Cell(ours, text)]
            rows.append(cells)
        tables.append(Table("study", "", headings, rows, together=2))
    seeds = f"{result['seeds']} seed{'s' * (result['seeds'] != 1)}"
    facts = [f"Source: {source}" for source in result["source"]]
    machines = ", ".join(result["platforms"])
    durations = " or ".join(result["durations"])
    facts.append(f"Simulated on {machines}, {durations} a run, {seeds}; * calibrated")
    unmodelled = [
        f"{row['title']}: not modelled: {row['not_modelled']}"
        for table in result["tables"]
        for row in table["rows"]
        if row["not_modelled"]
    ]
    notes = [judge.summary(result["counts"]), *unmodelled, *result["notes"], *result["failures"]]
    return Post(f"{result['study']}: {result['title']}", facts, tables, notes)


def _published(value: float | list[float] | str | None) -> Cell:
    if isinstance(value, list):
        return word("..".join(_engine.format_number(end) for end in value))
    if isinstance(value, str):
        return word(value)
    return Cell(value, UNKNOWN if value is None else _engine.format_number(value))


def _check(result: "results.Check") -> Post:
    rows = [
        [word(f["kind"]), number(f["count"]), number(f["call"]), number(f["seed"]), word(f["what"])]
        for f in result["findings"]
    ]
    headings = ["finding", "decisions", "call", "seed", "what"]
    title = (
        f"{result['governor']}: {result['decisions']} decisions, {counted(len(rows), 'finding')}"
    )
    facts = [
        f"{counted(result['sequences'], 'sequence')}, seed {result['seed']}, {result['hz']} Hz"
    ]
    if timing := result["timing"]:
        median, most = timing["p50_ns"], timing["p99_ns"]
        facts.append(
            f"time per decision: median {median} ns, p99 {most} ns, worst {timing['worst_ns']} ns"
        )
    if result["percpu_bytes"] is not None:
        facts.append(f"memory per CPU: {result['percpu_bytes']} bytes")
    notes = [f"ended early: {result['ended_early']}"] if result["ended_early"] else []
    return Post(title, facts, [Table("findings", "", headings, rows)] if rows else [], notes)


def _beside(result: "shapes.Beside") -> Post:
    facts = [f"{source['label']}: {source['what']}" for source in result["sources"]]
    return Post("Results side by side", facts, [compared(result["comparison"])], result["notes"])


_KINDS: dict[str, Callable[[Any], Post]] = {
    "replay": _replay,
    "simulation": _simulation,
    "diff": _diff,
    "ab": _ab,
    "reproduction": _reproduction,
    "fidelity": fidelity,
    "outcomes": outcomes,
    "trace_stats": trace_stats,
    "check": _check,
    "beside": _beside,
}
_ENDS = ("low", "high")


def _where(result: "Result") -> str:
    options = result["options"]
    facts = [f"{result['platform']['title']}"]
    if options["latency_limit_ns"] is not None:
        facts.append(f"latency limit {options['latency_limit_ns'] / 1e3:g} us")
    for disabled in options["disabled_states"]:
        cpu = "" if disabled["cpu"] is None else f" of CPU {disabled['cpu']}"
        facts.append(f"state {disabled['state']}{cpu} disabled")
    return f"{', '.join(facts)}; Torpor {result['torpor']['version']}"


def _below(result: "Result") -> list[str]:
    notes = []
    for section in sections(result):
        notes += [
            f"{run['governor']} failed: {run['error']}" for run in section["runs"] if run["error"]
        ]
        if text := base_text(section["comparison"]):
            notes.append(text)
        if "trace" in section:
            if agreement := section.get("agreement"):
                notes.append(agreement_text(agreement, "--recorded-on"))
            losses = section["trace"]["losses"]
            notes += [f"{x['count']} x {x['advice']}" for x in losses if x["severity"] != "info"]
    return [*dict.fromkeys(notes), *result["notes"]]


def _short(section: "Section") -> list[str]:
    return short_labels([run["governor"] for run in section["runs"]])


def _states(section: "Section", of: str) -> list[Table]:
    tables = []
    for run, short in zip(section["runs"], _short(section), strict=True):
        rows = []
        for cluster in run["clusters"]:
            slept_ns = sum(state["time_ns"] for state in cluster["states"])
            whole_ns = cluster["running_ns"] + slept_ns
            for state in cluster["states"]:
                counts = {**state, "time_us": state["time_ns"] / 1e3}
                counts["residency_ratio"] = share(state["time_ns"], whole_ns, 1)
                name = f"{state['index']} {state['name']}"
                rows.append([word(cluster["name"]), word(name), *count_cells(counts)])
        if rows:
            tables.append(states_table(f"{of}{short}", ["cluster", "state"], rows))
    return tables


def _test_name(command: Sequence[str]) -> str:
    return command[0].rpartition("/")[2]
