# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What is posted of each kind of result, in the layouts that the kernel's mailing lists use.

- Runs, by device: ``device gov iter iops idles idle_miss ratio belows aboves``.
- Runs, by test: ``test gov i score %change idles idle_miss miss_rt belows aboves``.
- States: ``time time% usage above above% below below%`` of each cluster and state. Those of
  ``diff`` are what the counters grew by, which the lists write with a delta.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torpor import _engine
from torpor._engine import TorporError
from torpor.comparison import base_text, section_name, sections, short_labels, unit_text

from .model import UNKNOWN, Cell, Post, Table, number, share, word

if TYPE_CHECKING:
    from torpor import results, shapes
    from torpor.comparison import Result, Section

_COUNTED = ("time", "time%", "usage", "above", "above%", "below", "below%")
_RUN = ("idles", "idle_miss")


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
                rows.append([word(short), *_missed(run["metrics"])])
        tables.append(Table("runs", f"{of}all CPUs", ["gov", *_RUN, "ratio", *_SIDES], rows))
        tables += _states(section, of)
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
            idles = _missed(seed["metrics"])
            score = seed["metrics"].get(key)
            head = [
                word(name),
                word(short),
                number(seed["seed"]),
                number(score, 0 if has_io else 2),
            ]
            rows.append([*head, *idles] if has_io else [*head, _change(score, first), *idles])
    if has_io:
        headings = ["workload", "gov", "iter", "iops", *_RUN, "ratio", *_SIDES]
    else:
        headings = ["test", "gov", "i", "score", "%change", *_RUN, "miss_rt", *_SIDES]
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
            rows = [[word(f"{s['index']} {s['name']}"), *_counted(c)] for s, c in states]
            rows.append([word("all"), *_counted(column["total"])])
            of = "" if column["residency_of"] == "elapsed" else "; time% of all idle time"
            title = f"CPU {cpus}, {column['label']}{of}"
            tables.append(_states_table(title, ["state"], rows))
    notes = [note["text"] for interval in result["intervals"] for note in interval["notes"]]
    label = ", ".join(dict.fromkeys(interval["label"] for interval in result["intervals"]))
    return Post(f"idle counters: {label}", facts, tables, list(dict.fromkeys(notes)))


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
    headings = ["", "usage", "mean us", "above%", *per, "below%", *per]
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
        above, below, usage = (_total(states, key) for key in ("above", "below", "usage"))
        figure = [number(run["figure"], 2), _change(run["figure"], base)]
        head = [word(test), word(short[run["governor"]]), number(run["round"])]
        rows.append([*head, *figure, *_misses(usage, above, below)])
    headings = ["test", "gov", "i", "score", "%change", *_RUN, "miss_rt", *_SIDES]
    tables.append(Table("runs", "%change against the first's mean", headings, rows, keys=3))
    for label in labels:
        of = [run for run in result["runs"] if run["governor"] == label]
        rows = []
        for place, group in enumerate(of[0]["counters"]["groups"] if of else []):
            cpus = _engine.format_cpu_list(group["cpus"])
            elapsed = _total([run["counters"] for run in of], "elapsed_ns")
            whole_us = None if elapsed is None else elapsed / 1e3 * len(group["cpus"])
            for index, state in enumerate(group["states"]):
                each = [run["counters"]["groups"][place]["states"][index] for run in of]
                sums: dict[str, Any] = {key: _total(each, key) for key in _COUNTERS}
                sums["residency_ratio"] = share(sums["time_us"], whole_us, 1)
                rows.append([word(cpus), word(f"{index} {state['name']}"), *_counted(sums)])
        tables.append(_states_table(f"{short[label]}, all rounds", ["CPUs", "state"], rows))
    rounds = f"{result['finished_rounds']} of {result['rounds']} rounds"
    facts = [f"Linux {result['kernel']}, driver {result['driver']}, {result['cpu_count']} CPUs"]
    return Post(f"{command}: {rounds}", facts, tables, [])


def _reproduction(result: "shapes.Reproduction") -> Post:
    from torpor.studies import judge

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


def _fidelity(result: "results.Fidelity") -> Post:
    decisions = result["decisions"]
    counters = [
        [word(str(c["cpu"])), word(f"{c['state']} {c['name']}"), *_counter(c)]
        for c in result["counters"]
    ]
    headings = [
        "CPU",
        "state",
        "usage",
        "sysfs usage",
        "above",
        "miss above",
        "below",
        "miss below",
    ]
    tables = [
        compared(result["comparison"]),
        Table("counters", "Counters: of the sleeps, and the kernel's", headings, counters, keys=2),
    ]
    title = f"{result['trace']['path']}: {decisions['compared']} decisions on {result['platform']}"
    return Post(title, [], tables, list(result["notes"]))


def _counter(counter: "results.Counter") -> list[Cell]:
    sysfs = counter["sysfs"]
    usage = None if sysfs is None else sysfs["usage"]
    counts = (counter["above"], counter["miss_above"], counter["below"], counter["miss_below"])
    return [number(counter["usage"]), number(usage), *map(number, counts)]


def _trace_stats(result: "results.TraceStats") -> Post:
    trace, source = result["trace"], result["verdict_source"]
    span_ns = trace["duration_ns"]
    per_s = 1e9 / span_ns if span_ns else None
    groups: dict[tuple[str, int, str], list[results.StateStats]] = {}
    cpus: dict[str, set[int]] = {}
    for state in result["states"]:
        cluster = state["cluster"] or "all"
        key = (cluster, state["state"], state["name"] or "")
        groups.setdefault(key, []).append(state)
        cpus.setdefault(cluster, set()).add(state["cpu"])
    rows = []
    for (cluster, index, name), of in sorted(groups.items()):
        sums: dict[str, Any] = {key: _total(of, key) for key in ("above", "below", "rejected")}
        sums["usage"] = sum(state["usage"] for state in of)
        time_ns = sum(state["time_ns"] for state in of)
        sums["time_us"] = time_ns / 1e3
        sums["residency_ratio"] = share(time_ns, span_ns * len(cpus[cluster]), 1)
        rows.append([word(cluster), word(f"{index} {name}".rstrip()), *_counted(sums)])
    tables = [_states_table("", ["cluster", "state"], rows)]
    rows = [
        [
            *(word(row["kind"]), word(row["name"]), number(row["count"])),
            *(number(share(row["count"], result["sleeps"]), 1), _rate(row["count"], per_s)),
            *(number(share(row["slept_ns"], row["count"], 1e-3), 1), *_wrong(row, row["count"])),
        ]
        for row in result["wakeups"]
    ]
    headings = ["woken by", "", "wake-ups", "%", "1/s", "mean us", *_COUNTED[3:]]
    tables.append(Table("wakeups", "What ended sleeps", headings, rows, keys=2))
    rows = [
        [
            *(word(row["comm"]), number(row["wakeups"]), _rate(row["wakeups"], per_s)),
            *(number(row["switches"]), number(row["run_ns"] / 1e6, 2)),
            *_wrong(row, row["wakeups"]),
        ]
        for row in result["tasks"]
    ]
    headings = ["task", "first", "1/s", "switches", "ran ms", *_COUNTED[3:]]
    tables.append(Table("tasks", "Tasks, and how often first after a sleep", headings, rows))
    rows = [
        [
            *(word(row["kind"]), word(row["name"]), number(row["count"])),
            *(_rate(row["count"], per_s), number(share(row["handler_ns"], row["count"], 1e-3), 2)),
        ]
        for row in result["interrupts"]
    ]
    headings = ["interrupt", "", "count", "1/s", "handler us"]
    tables.append(Table("interrupts", "Interrupts, asleep or awake", headings, rows, keys=2))
    rows = [
        [
            *(word(f"{row['state']} {row['name'] or ''}".rstrip()), number(row["count"])),
            *(number(row[key] / 1e3, 2) for key in ("mean_ns", "p50_ns", "p99_ns", "max_ns")),
        ]
        for row in result["latency"]
    ]
    headings = ["state", "count", "mean us", "p50 us", "p99 us", "max us"]
    tables.append(Table("latency", "From the event to the cpu_idle exit", headings, rows))
    kernel = f", Linux {trace['kernel_release']}" if trace["kernel_release"] else ""
    facts = [f"{trace['cpu_count']} CPUs, {span_ns / 1e9:.2f} s{kernel}, {result['sleeps']} sleeps"]
    words = {"cpu_idle_miss": "the kernel's own, from cpu_idle_miss", None: "not known"}
    judged = words.get(source, f"by the states of {result['platform']}")
    facts.append(f"above and below: {judged}")
    shown = [table for table in tables if table.rows]
    notes = [f"{loss['count']} x {loss['advice']}" for loss in trace["losses"]]
    return Post(f"{trace['path']}: what the machine did", facts, shown, notes)


def _check(result: "results.Check") -> Post:
    rows = [
        [word(f["kind"]), number(f["count"]), number(f["call"]), number(f["seed"]), word(f["what"])]
        for f in result["findings"]
    ]
    headings = ["finding", "decisions", "call", "seed", "what"]
    title = f"{result['governor']}: {result['decisions']} decisions, {len(rows)} findings"
    return Post(title, [], [Table("findings", "", headings, rows)] if rows else [], [])


def _beside(result: "shapes.Beside") -> Post:
    facts = [f"{source['label']}: {source['what']}" for source in result["sources"]]
    return Post("Results side by side", facts, [compared(result["comparison"])], result["notes"])


def _states_table(title: str, keys: list[str], rows: list[list[Cell]]) -> Table:
    """States and their counts; a column of refusals where there are any."""
    if not any(row[-1].value for row in rows):
        return Table("states", title, [*keys, *_COUNTED], [row[:-1] for row in rows], len(keys))
    return Table("states", title, [*keys, *_COUNTED, "rejected"], rows, len(keys))


_KINDS: dict[str, Callable[[Any], Post]] = {
    "replay": _replay,
    "simulation": _simulation,
    "diff": _diff,
    "ab": _ab,
    "reproduction": _reproduction,
    "fidelity": _fidelity,
    "trace_stats": _trace_stats,
    "check": _check,
    "beside": _beside,
}
_SIDES = ("belows", "aboves")
_ENDS = ("low", "high")
_COUNTERS = ("usage", "time_us", "above", "below", "rejected")


def compared(comparison: "results.Comparison", title: str = "") -> Table:
    """Return the engine's comparison: a row a metric, a column with its change a governor."""
    labels, base = short_labels(comparison["labels"]), comparison["base"]
    headings = ["metric"]
    with_change = [place for place in range(len(labels)) if place != base]
    order = [*([] if base is None else [base]), *with_change]
    for place in order:
        headings += [labels[place], *([] if place == base else [f"change: {labels[place]}"])]
    rows = []
    for row in comparison["rows"]:
        unit = unit_text(row["unit"])
        cells = [word(f"{row['title']} {unit}".rstrip())]
        for place in order:
            cell = row["cells"][place]
            cells.append(Cell(cell["value"], cell["text"]))
            if place != base:
                change = cell["change"]
                cells.append(word(change["text"] if change else ""))
        rows.append(cells)
    # The base stands in each part of a table that is folded.
    keys = 1 if base is None else 2
    return Table("comparison", title, headings, rows, keys=keys, together=2)


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
            losses = section["trace"]["losses"]
            notes += [f"{x['count']} x {x['advice']}" for x in losses if x["severity"] != "info"]
    return [*dict.fromkeys(notes), *result["notes"]]


def _short(section: "Section") -> list[str]:
    return short_labels([run["governor"] for run in section["runs"]])


def _missed(metrics: Mapping[str, float | None]) -> list[Cell]:
    """Idles, misses, their ratio, belows and aboves, from shares of all sleeps."""
    sleeps = metrics.get("sleeps")

    def count(key: str) -> int | None:
        percent = metrics.get(key)
        return None if sleeps is None or percent is None else round(sleeps * percent / 100)

    return _misses(sleeps, count("above_pct"), count("below_pct"))


def _misses(idles: float | None, above: int | None, below: int | None) -> list[Cell]:
    both = None if above is None or below is None else above + below
    counts = [number(None if idles is None else round(idles)), number(both)]
    return [*counts, number(share(both, idles, 1), 3), number(below), number(above)]


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
                rows.append([word(cluster["name"]), word(name), *_counted(counts)])
        if rows:
            tables.append(_states_table(f"{of}{short}", ["cluster", "state"], rows))
    return tables


def _counted(counts: Mapping[str, Any]) -> list[Cell]:
    """The cells of one state or of all: time (ms) and its share, usage, above, below, rejected."""
    time_us, ratio = counts["time_us"], counts.get("residency_ratio")
    return [
        number(None if time_us is None else time_us / 1e3, 1),
        number(share(ratio, 1), 2),
        number(counts["usage"]),
        *_wrong(counts, counts["usage"]),
        number(counts.get("rejected")),
    ]


def _wrong(counts: Mapping[str, Any], of: int | None) -> list[Cell]:
    pairs = [(counts["above"], of), (counts["below"], of)]
    return [c for part, all_ in pairs for c in (number(part), number(share(part, all_), 2))]


def _rate(count: int, per_s: float | None) -> Cell:
    return number(None if per_s is None else count * per_s, 1)


def _change(value: float | None, base: float | None) -> Cell:
    change = None if value is None or not base else 100 * (value / base - 1)
    return number(change, 2, is_signed=True)


def _total(of: Iterable[Mapping[str, Any]], key: str) -> int | None:
    """A sum; half a sum would be a wrong figure."""
    counts = [each.get(key) for each in of]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _test_name(command: Sequence[str]) -> str:
    return command[0].rpartition("/")[2]
