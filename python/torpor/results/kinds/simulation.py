# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Simulations of a workload under several governors."""

from collections.abc import Sequence

import torpor
from torpor.results import runs
from torpor.results import types as results
from torpor.results.brief import brief
from torpor.results.cells import RUN, SIDES, change_cell, compared, missed_cells
from torpor.results.kind import Kind, saved_by
from torpor.results.table import Post, Table, counted, number, word


def post(result: "results.Simulation") -> Post:
    """Return the comparison, flows and tasks, and details by seed and by state."""
    options, name = result["options"], result["workload"]["name"]
    tables = [compared(result["comparison"]), *load(result), _seeds(result)]
    tables += runs.states(result)
    seconds, machine = options["duration_ns"] / 1e9, result["platform"]["name"]
    title = (
        f"{name}: simulation on {machine}, {counted(options['seeds'], 'seed')} of {seconds:.2f} s, "
        f"tick {options['hz']} Hz"
    )
    count = sum(len(cluster["cpus"]) for cluster in result["platform"]["clusters"])
    machine_fact = runs.machine_fact(result, options.get("writes", ()))
    facts = [f"{runs.cpus_text(result, count)}: {machine_fact}"]
    more = runs.settings(result, options.get("writes", ()))
    basis = ", ".join([title, runs.cpus_text(result, count), *more])
    return Post(title, facts, tables, runs.notes(result), brief=brief(result, basis))


def load(result: "results.Simulation") -> list[Table]:
    """Return the tables by parts of the load: tasks, control groups, times between changes."""
    return [*tasks(result), *cgroups(result), *sections(result)]


def tasks(result: "results.Simulation") -> list[Table]:
    """Return the comparison of each flow and kind of task; a single one is a detail."""
    named = [*result.get("flow_comparisons", ()), *result.get("task_comparisons", ())]
    if not named:
        return []
    is_single = len({one["name"] for one in named}) < 2
    return [_together(named, "tasks", "By flow and task")._replace(is_detail=is_single)]


def cgroups(result: "results.Simulation") -> list[Table]:
    """Return the comparison of each control group, if there are any."""
    named = result.get("cgroup_comparisons", ())
    return [_together(named, "cgroups", "By control group")] if named else []


def _together(named: "Sequence[results.NamedComparison]", name: str, title: str) -> Table:
    """Return comparisons as one table whose rows begin with a comparison's name."""
    tables = [compared(one["comparison"]) for one in named]
    rows = [
        [row[0]._replace(text=f"{one['name']}: {row[0].text}"), *row[1:]]
        for one, table in zip(named, tables, strict=True)
        for row in table.rows
    ]
    return tables[0]._replace(name=name, title=title, rows=rows)


#: Metrics of a section in text, with their decimals; the result has all.
_OF_SECTIONS = {
    "sleeps": 0,
    "above_pct": 2,
    "below_pct": 2,
    "idle_power_mw": 2,
    "power_mw": 1,
    "busy_pct": 2,
    "freq_busy_khz": 0,
}


def sections(result: "results.Simulation") -> list[Table]:
    """Return the parts of each run between the changes of the workload's timeline."""
    parts = [(run, part) for run in result["runs"] for part in run.get("sections", ())]
    if not parts:
        return []
    known = {info["key"]: info for info in result["catalogue"]}
    shown = [known[key] for key in _OF_SECTIONS if key in known]
    names = dict(zip(map(id, result["runs"]), runs.short_names(result), strict=True))
    rows = [
        [
            word(names[id(run)]),
            number(part["from_ns"] / 1e9, 2),
            number(part["to_ns"] / 1e9, 2),
            *(number(part["metrics"][i["key"]], _OF_SECTIONS[i["key"]]) for i in shown),
        ]
        for run, part in parts
    ]
    headings = ["governor", "from s", "to s"]
    headings += [f"{info['title']} {info['unit']}".strip() for info in shown]
    return [Table("sections", "Between changes", headings, rows, keys=3)]


def _seeds(result: "results.Simulation") -> Table:
    has_io = any(run["metrics"].get("iops") is not None for run in result["runs"])
    base = result["comparison"]["base"]
    key = "iops" if has_io else "throughput"
    first = result["runs"][base]["metrics"].get(key) if base is not None else None
    rows = []
    for run, short in zip(result["runs"], runs.short_names(result), strict=True):
        for seed in run["seeds"]:
            score = seed["metrics"].get(key)
            row = [word(result["workload"]["name"]), word(short), number(seed["seed"])]
            row.append(number(score, 0 if has_io else 2))
            row += [] if has_io else [change_cell(score, first)]
            rows.append([*row, *missed_cells(seed["metrics"])])
    if has_io:
        headings = ["workload", "gov", "iter", "iops", *RUN, "ratio", *SIDES]
    else:
        headings = ["test", "gov", "i", "score", "%change", *RUN, "miss_rt", *SIDES]
    what = "IO a second" if has_io else "passes a second; %change against the first's mean"
    return Table("runs", f"Each seed: {what}", headings, rows, keys=3, is_detail=True)


KIND = Kind(
    "simulation",
    post,
    saved_by("simulate", "`--trace FILE.perfetto-trace` writes it."),
    runs.explain,
    columns=runs.columns,
    samples=runs.samples,
    verdict=runs.verdict,
    inputs=runs.inputs,
    contradictions=runs.contradictions,
    opened=lambda text, _folder: torpor.Simulation(text),
    has_runs=True,
)
