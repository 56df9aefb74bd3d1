# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A patch series against its base: ``torpor try``."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

from torpor import _engine
from torpor.results.catalogue import RUNS, metrics, unit_text
from torpor.results.comparison import correction_text
from torpor.results.kind import Input, Kind, Sample
from torpor.results.picture import Block, Picture, Row, Rows
from torpor.results.sentences import cannot_show
from torpor.results.table import (
    UNKNOWN,
    Brief,
    Cell,
    Post,
    Table,
    Verdict,
    counted,
    minus,
    number,
    word,
)
from torpor.results.types import Version

#: What a file of the series is for.
Effect = Literal["governor", "hosted", "none"]


class TrialPatch(TypedDict):
    """A patch of the series."""

    number: int
    total: int
    subject: str
    author: str | None
    message_id: str | None
    patch_id: str


class TrialSeries(TypedDict):
    """A series as it was read."""

    subject: str
    version: str
    message_id: str | None
    patch_id: str
    patches: list[TrialPatch]
    #: Numbers of the patches of the series that were not in the source.
    missing: list[int]
    notes: list[str]


class TrialBase(TypedDict):
    """The kernel that the series is applied to."""

    name: str
    #: Why it was chosen.
    why: str


class TrialFile(TypedDict):
    """A file that the series changes."""

    path: str
    effect: Effect
    why: str


class TrialColumn(TypedDict):
    """The base with some of the patches."""

    label: str
    patches: list[int]
    subject: str
    #: Label of the earlier column that has the same code, so that nothing was run again.
    same_as: str | None
    #: Whether the code that it changes runs here.
    has_effect: bool
    #: Why it could not be made or run; null if it was.
    error: str | None


class TrialSample(TypedDict):
    """Metrics of one run."""

    number: int
    values: dict[str, float | None]


class TrialChange(TypedDict):
    """Change of a metric from the base's, paired by seed."""

    metric: str
    difference: float
    relative_pct: float | None
    low: float | None
    high: float | None
    #: Chance of such a change without any, corrected for all tests of its column.
    p: float | None
    is_significant: bool | None


class TrialCell(TypedDict):
    """A column in a scenario."""

    label: str
    error: str | None
    samples: list[TrialSample]
    #: Decisions that differ from the base's; null in a simulation.
    differing: int | None
    #: Whether any metric of any run differs from the base's.
    differs: bool
    #: Whether it differs from the column before.
    steps: bool
    changes: list[TrialChange]


class TrialReference(TypedDict):
    """A reference beside the columns of a replay."""

    governor: str
    values: dict[str, float | None]


class TrialScenario(TypedDict):
    """A governor on a machine with a recording or a workload."""

    kind: Literal["replay", "simulation"]
    #: Class of the machine: phones, desktops, servers, boards.
    machines: str
    platform: str
    source: str
    governor: str
    #: Decisions of the base; null in a simulation.
    decisions: int | None
    cells: list[TrialCell]
    references: list[TrialReference]


class TrialBreach(TypedDict):
    """A rule of ``torpor governor check`` that one column breaks and the other does not."""

    kind: str
    what: str
    #: Label of the first column that has it; null if it was not looked for.
    since: str | None


class TrialCheck(TypedDict):
    """Breaches of a governor before and after the series."""

    governor: str
    #: Kinds of breach at the base, and with the whole series.
    before: list[str]
    after: list[str]
    new: list[TrialBreach]
    mended: list[str]
    #: Why it could not be checked.
    error: str | None


class TrialLimit(TypedDict):
    """A limit that the whole series breaks."""

    scenario: str
    metric: str
    limit: str
    base: float | None
    candidate: float
    change: float | None


class Trial(TypedDict):
    """Result of ``torpor try``."""

    format: int
    kind: Literal["trial"]
    torpor: Version
    series: TrialSeries
    base: TrialBase
    files: list[TrialFile]
    columns: list[TrialColumn]
    scenarios: list[TrialScenario]
    checks: list[TrialCheck]
    #: Comparisons for which the chances of a column are corrected; the most of any.
    tests: int
    limits: list[TrialLimit]
    #: Command that repeats it.
    command: str | None


#: Metrics of a table, and how a sentence says that they fall or rise.
LEADS: dict[str, tuple[str, str]] = {
    "power_mw": ("less power", "more power"),
    "idle_power_mw": ("less idle power", "more idle power"),
    "relative_idle_power_pct": ("less idle power", "more idle power"),
    "latency_mean_us": ("less wake-up latency", "more wake-up latency"),
    "task_latency_p99_us": ("less p99 task latency", "more p99 task latency"),
    "throughput": ("less throughput", "more throughput"),
    "freq_transitions_per_s": ("fewer frequency changes", "more frequency changes"),
    "above_pct": ("sleeps too deep", "sleeps too deep"),
    "below_pct": ("sleeps too shallow", "sleeps too shallow"),
}


#: Changes, in percent or points, that only the tables of each run have.
_SMALL = 0.5


#: The catalogue's groups of which the verdict names one metric each; the last only if no other.
_GROUPS = ("power", "delay", "work", "depth")
#: Change for the worse, in percent, that the verdict names although chance may have made it.
_LARGE = 5.0


def name_of(result: Trial) -> str:
    """Return the series by what it touches and its version: ``teo v3``."""
    own = [f for f in result["files"] if f["effect"] != "none"] or result["files"]
    # A header is of a file that is named.
    own = [f for f in own if f["path"].endswith(".c")] or own
    stems = dict.fromkeys(f["path"].rpartition("/")[2].partition(".")[0] for f in own)
    version = result["series"]["version"]
    return ", ".join([*stems][:3]) + (f" v{version}" if version != "1" else "")


def last_of(result: Trial) -> TrialColumn:
    """Return the column with the most patches that ran."""
    ran = [column for column in result["columns"] if column["error"] is None]
    return max(ran, key=lambda column: len(column["patches"]))


def cell_of(scenario: TrialScenario, label: str) -> TrialCell | None:
    """Return a column's cell, if it ran there."""
    return next((cell for cell in scenario["cells"] if cell["label"] == label), None)


def differing(result: Trial, label: str) -> tuple[int, int, int, int, int]:
    """Return decisions that differ, all, recordings, simulations that differ, all of a column."""
    found = [0, 0, 0, 0, 0]
    for scenario in result["scenarios"]:
        cell = cell_of(scenario, label)
        if cell is None or cell["error"]:
            continue
        if scenario["kind"] == "replay":
            found[0] += cell["differing"] or 0
            found[1] += scenario["decisions"] or 0
            found[2] += 1
        else:
            runs = max(len(cell["samples"]), 1)
            found[3] += runs * cell["differs"]
            found[4] += runs
    return found[0], found[1], found[2], found[3], found[4]


def verdict(result: Trial) -> str:
    """Return the first line of the answer, as a title."""
    last = last_of(result)
    broken = list(dict.fromkeys(b["kind"] for c in result["checks"] for b in c["new"]))
    breaks = f"breaks {', '.join(f'`{kind}`' for kind in broken)}" if broken else ""
    changed, decisions, recordings, differ, runs = differing(result, last["label"])
    if (failed := result["columns"][-1])["error"]:
        reason = str(failed["error"]).partition("\n")[0]
        return f"{name_of(result)}: {failed['label']} does not run: {reason}"
    if not any(column["has_effect"] for column in result["columns"]):
        return f"{name_of(result)}: no file of it has an effect here."
    if not changed and not differ:
        seen = [f"No decision of {decisions:,} differs in {counted(recordings, 'recording')}"]
        seen = seen if recordings else []
        if runs:
            lead = ", and no metric" if seen else "No metric differs"
            seen.append(f"{lead} in {counted(runs, 'simulation')}")
        end = f"; it {breaks}." if breaks else ": no functional change seen."
        return "".join(seen) + end
    parts = [text for text in _by_machines(result, last["label"]) if text]
    if not parts:
        parts = [_undecided(changed, decisions, differ, runs)]
    text = f"{name_of(result)}: {'; '.join(parts)}"
    return f"{text}; {breaks}." if breaks else f"{text}."


def _undecided(changed: int, decisions: int, differ: int, runs: int) -> str:
    said = []
    if changed:
        said.append(f"{_percent(changed, decisions)} of {decisions:,} decisions differ")
    elif decisions:
        said.append(f"no decision of {decisions:,} differs")
    if runs:
        said.append(f"{differ} of {counted(runs, 'simulation')} differ")
    return f"{' and '.join(said)}, no metric beyond chance"


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole if whole else 0.0
    return f"{share:.0f} %" if share >= 10 else f"{share:.2g} %"


def machines_of(result: Trial) -> list[str]:
    """Return the classes of machines, in order."""
    return list(dict.fromkeys(scenario["machines"] for scenario in result["scenarios"]))


def _grouped() -> dict[str, list[str]]:
    """Return the metrics of the table by the catalogue's groups; one without is its own."""
    known = metrics(*RUNS)
    groups: dict[str, list[str]] = {}
    for key in LEADS:
        places = known[key]["lead"]["places"]
        groups.setdefault(next((g for g in _GROUPS if g in places), key), []).append(key)
    return groups


def _by_machines(result: Trial, label: str) -> Iterator[str]:
    """Say for each class of machines what changes, by groups: power, latency, throughput, depth."""
    for machines in machines_of(result):
        said: list[_Changes] = []
        for group, keys in _grouped().items():
            found = [_Changes.of(result, machines, label, key) for key in keys]
            beyond = [each for each in found if each.beyond]
            if beyond and not (said and group == _GROUPS[-1]):
                said.append(max(beyond, key=lambda each: abs(each.mean)))
            elif group != _GROUPS[-1] and (worse := [each for each in found if each.is_worse]):
                said.append(max(worse, key=lambda each: abs(each.mean)))
        # A tenth of a percent is no news beside ten percent.
        said = [each for each in said if abs(each.mean) >= _SMALL] or said[:1]
        if any(each.beyond for each in said):
            yield f"{', '.join(each.text() for each in said)} on {machines}"


class _Changes(NamedTuple):
    """Changes of one metric over the scenarios of a class of machines."""

    key: str
    #: Mean change, in percent or percentage points.
    mean: float
    #: Scenarios with a change, and those beyond chance.
    scenarios: int
    beyond: int

    @classmethod
    def of(cls, result: Trial, machines: str, label: str, key: str) -> "_Changes":
        is_share = metrics(*RUNS)[key]["kind"] == "share"
        found = [
            change
            for scenario in result["scenarios"]
            if scenario["machines"] == machines and (cell := cell_of(scenario, label))
            for change in cell["changes"]
            if change["metric"] == key and change["p"] is not None
        ]
        sizes = [c["difference"] if is_share else c["relative_pct"] or 0.0 for c in found]
        mean = sum(sizes) / len(sizes) if sizes else 0.0
        return cls(key, mean, len(found), sum(bool(c["is_significant"]) for c in found))

    @property
    def is_worse(self) -> bool:
        """Whether a change within chance is large and for the worse, so that it must be named."""
        known = metrics(*RUNS)[self.key]
        sign = {"lower": 1, "higher": -1}.get(known["direction"], 0)
        return not self.beyond and sign * self.mean >= _LARGE

    def text(self) -> str:
        words = LEADS[self.key][self.mean > 0]
        size = abs(self.mean)
        number = f"{size:.0f}" if size >= 10 else f"{size:.2g}"
        if metrics(*RUNS)[self.key]["kind"] == "share":
            size_text = f"{number} points {'more' if self.mean > 0 else 'fewer'} {words}"
        else:
            size_text = f"{number} % {words}"
        if not self.beyond:
            return f"{size_text} (within chance)"
        of = f" (beyond chance on {self.beyond} of {self.scenarios})"
        return size_text + of * (self.beyond < self.scenarios)


def post(result: Trial) -> Post:
    """Return the verdict, a table of classes of machines with a column a patch, and the details."""
    series, base = result["series"], result["base"]
    size = len(series["patches"])
    facts = [f"{series['subject']}, {size} patch{'es' * (size != 1)}, on {base['name']}"]
    facts += [text for text in [steps_text(result)] if text]
    facts += [f"message-id: {series['message_id']}"] * bool(series["message_id"])
    facts += [f"base: {base['name']}, {base['why']}; patch-id: {series['patch_id'][:12]}"]
    tables = [_whole_table(result)] if result["scenarios"] else []
    tables += [_check_table(result)] * bool(result["checks"])
    tables += [_limits_table(result)] * bool(result["limits"])
    tables.append(_columns_table(result))
    tables += [_machines_table(result, machines) for machines in machines_of(result)]
    return Post(verdict(result), facts, tables, _notes(result), brief=_brief(result, tables, facts))


def _brief(result: Trial, tables: Sequence[Table], facts: Sequence[str]) -> Brief:
    """Return the classes of machines, new breaches and broken limits."""
    is_broken = any(check["new"] or check["error"] for check in result["checks"])
    shown = [
        table
        for table in tables
        if table.name in ("changes", "limits") or (table.name == "check" and is_broken)
    ]
    notes = [text for text in [steps_text(result), _files_text(result)] if text]
    if missing := result["series"]["missing"]:
        notes.insert(0, f"not in what was read: patch {', '.join(map(str, missing))}")
    basis = [text for text in [_bound_text(result)] if text]
    return Brief(shown, notes, [*basis, facts[0]])


def steps_text(result: Trial) -> str:
    """Say which patches change what the patches before them do, and which change nothing."""
    changing: list[str] = []
    alike: list[str] = []
    for column in result["columns"][1:]:
        cells = [cell_of(scenario, column["label"]) for scenario in result["scenarios"]]
        own = [cell for cell in cells if cell is not None and cell["error"] is None]
        if own and column["patches"]:
            having = changing if any(cell["steps"] for cell in own) else alike
            having.append(str(column["patches"][-1]))
    if len(changing) + len(alike) < 2:
        return ""
    said = [f"{_patches(changing)} decisions or metrics"] * bool(changing)
    said += [f"{_patches(alike)} none"] * bool(alike)
    return "; ".join(said)


def _patches(numbers: Sequence[str]) -> str:
    *others, last = numbers
    if not others:
        return f"patch {last} changes"
    return f"patches {', '.join(others)} and {last} change"


def _whole_table(result: Trial) -> Table:
    """Return mean changes over the scenarios of each class of machines."""
    labels = [column["label"] for column in result["columns"]]
    rows: list[list[Cell]] = []
    for machines in machines_of(result):
        own = [s for s in result["scenarios"] if s["machines"] == machines]
        counts = []
        for kind, what in (("replay", "recording"), ("simulation", "workload")):
            sources = {s["source"] for s in own if s["kind"] == kind}
            counts += [counted(len(sources), what)] * bool(sources)
        rows.append([word(f"{machines}, {', '.join(counts)}"), *[word("")] * len(labels)])
        rows += _class_rows(own, labels)
    return Table("changes", "", ["mean change from base, %", *labels], rows)


def _class_rows(own: Sequence[TrialScenario], labels: Sequence[str]) -> list[list[Cell]]:
    rows = []
    replays = [s for s in own if s["kind"] == "replay"]
    decisions = sum(s["decisions"] or 0 for s in replays)
    if decisions:
        cells = [Cell(decisions, f"{decisions:,}")]
        for label in labels[1:]:
            having = [cell for s in replays if (cell := cell_of(s, label))]
            count = sum(cell["differing"] or 0 for cell in having)
            cells.append(_size_cell(100 * count / decisions, ""))
        rows.append([word("  decisions that differ"), *cells])
    for kind, words in (("replay", "replayed"), ("simulation", "simulated")):
        for key in LEADS:
            known = metrics(*RUNS)[key]
            cells = [Cell(None, UNKNOWN)]
            cells += [_mean_cell([s for s in own if s["kind"] == kind], x, key) for x in labels[1:]]
            if any(_is_shown(cell) for cell in cells):
                unit = ", points" if known["kind"] == "share" else ""
                rows.append([word(f"  {known['noun']}, {words}{unit}"), *cells])
    if not any(cell.value for row in rows for cell in row[2:]):
        return [[word("  no difference"), *[word("")] * len(labels)]]
    return rows


def _is_shown(cell: Cell) -> bool:
    """Whether a change matters in the table: beyond chance, or not small."""
    return isinstance(cell.value, float) and ("*" in cell.text or abs(cell.value) >= _SMALL)


def _mean_cell(own: Sequence[TrialScenario], label: str, key: str) -> Cell:
    """Return the mean change of a metric over scenarios that know it."""
    known, sizes, beyond = metrics(*RUNS)[key], [], 0
    for scenario in own:
        cell = cell_of(scenario, label)
        if cell is None or cell["error"] or _mean(scenario["cells"][0], key) is None:
            continue
        change = next((c for c in cell["changes"] if c["metric"] == key), None)
        size = change and change["difference" if known["kind"] == "share" else "relative_pct"]
        sizes.append(size or 0.0)
        beyond += bool(change and change["is_significant"])
    if not sizes:
        return Cell(None, UNKNOWN)
    return _size_cell(sum(sizes) / len(sizes), "*" * bool(beyond), is_signed=True)


def _size_cell(size: float, mark: str, *, is_signed: bool = False) -> Cell:
    if abs(size) < 0.005:
        return Cell(0.0, "0" if not size else "~0")
    return Cell(size, minus(f"{size:{'+' * is_signed}.{1 if abs(size) >= 1 else 2}f}{mark}"))


def _machines_table(result: Trial, machines: str) -> Table:
    """Return every scenario of a class of machines, as values of the base and changes."""
    labels = [column["label"] for column in result["columns"]]
    rows: list[list[Cell]] = []
    for scenario in (s for s in result["scenarios"] if s["machines"] == machines):
        name = f"{_source_name(scenario)}, {scenario['platform']}, {scenario['governor']}"
        rows.append([word(name), *[word("")] * len(labels)])
        if scenario["kind"] == "replay":
            cells = [_differing_cell(scenario, label) for label in labels]
            rows.append([word("  decisions that differ %"), *cells])
        for key in LEADS:
            if row := _metric_row(scenario, key, labels):
                rows.append(row)
    return Table(machines, f"{machines}, each run", ["", *labels], rows, is_detail=True)


def _source_name(scenario: TrialScenario) -> str:
    name = scenario["source"].rpartition("/")[2]
    return f"replay of {name}" if scenario["kind"] == "replay" else name


def _differing_cell(scenario: TrialScenario, label: str) -> Cell:
    cell = cell_of(scenario, label)
    if label == scenario["cells"][0]["label"] or cell is None or cell["error"]:
        return Cell(None, UNKNOWN)
    value = 100 * (cell["differing"] or 0) / (scenario["decisions"] or 1)
    return Cell(value, f"{value:.2f}" if value else "0")


def _metric_row(scenario: TrialScenario, key: str, labels: Sequence[str]) -> list[Cell] | None:
    """Return the base's value and each column's change, or None where it is not known."""
    base = _mean(scenario["cells"][0], key)
    if base is None:
        return None
    known = metrics(*RUNS)[key]
    unit = unit_text(known["unit"])
    cells = [Cell(base, _engine.format_number(base))]
    for label in labels[1:]:
        cells.append(_change_cell(cell_of(scenario, label), known))
    if all(cell.value == 0 for cell in cells):
        return None
    return [Cell(key, f"  {known['title']} {unit}".rstrip(), term=key), *cells]


def _mean(cell: TrialCell | None, key: str) -> float | None:
    values = [sample["values"].get(key) for sample in cell["samples"]] if cell else []
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _change_cell(cell: TrialCell | None, known: Mapping[str, Any]) -> Cell:
    if cell is None or cell["error"]:
        return Cell(None, "failed" if cell else UNKNOWN)
    found = next((c for c in cell["changes"] if c["metric"] == known["key"]), None)
    if found is None:
        return Cell(0.0, "0")
    relative = found["relative_pct"]
    if known["kind"] == "share" or relative is None:
        text = f"{found['difference']:+.2f}"
    else:
        text = f"{relative:+.1f} %" if abs(relative) >= 0.05 else f"{relative:+.1g} %"
    text += "*" if found["is_significant"] else ""
    better = None
    if found["is_significant"] and known["direction"] in ("lower", "higher"):
        better = (found["difference"] < 0) == (known["direction"] == "lower")
    return Cell(found["difference"], minus(text), better)


def _check_table(result: Trial) -> Table:
    rows = []
    for check in result["checks"]:
        new = [_breach_text(breach) for breach in check["new"]]
        rows.append(
            [
                word(check["governor"]),
                number(None if check["error"] else len(check["before"])),
                number(None if check["error"] else len(check["after"])),
                word(check["error"] or ", ".join(new) or "none"),
                word(", ".join(check["mended"]) or "none"),
            ]
        )
    headings = ["governor", "base", "all", "new", "mended"]
    return Table("check", "governor check: breaches", headings, rows)


def _breach_text(breach: TrialBreach) -> str:
    since = breach["since"]
    return f"{breach['kind']} (since {since})" if since else breach["kind"]


def _limits_table(result: Trial) -> Table:
    rows = [
        [
            *(word(v["scenario"]), word(v["metric"]), word(v["limit"])),
            *(number(v["base"], 3), number(v["candidate"], 3)),
        ]
        for v in result["limits"]
    ]
    headings = ["broken limit", "metric", "limit", "base", "all"]
    return Table("limits", "", headings, rows, keys=3)


def _columns_table(result: Trial) -> Table:
    rows = []
    for column in result["columns"]:
        of = column["error"] or (f"as {column['same_as']}" if column["same_as"] else "")
        rows.append([word(column["label"]), word(column["subject"]), word(of)])
    return Table("columns", "", ["", "with", ""], rows, keys=3)


def _files_text(result: Trial) -> str:
    """Say which files of the series have an effect."""
    having = [f for f in result["files"] if f["effect"] != "none"]
    others = [f"{f['path']} ({f['why']})" for f in result["files"] if f["effect"] == "none"]
    text = f"{len(having)} of {counted(len(result['files']), 'file')} "
    text += "has an effect here" if len(having) == 1 else "have an effect here"
    text += f": {', '.join(f['path'] for f in having)}" if having else ""
    return text + (f"; without: {', '.join(others)}" if others else "")


def _notes(result: Trial) -> list[str]:
    notes = list(result["series"]["notes"])
    if missing := result["series"]["missing"]:
        notes.append(f"not in what was read: patch {', '.join(map(str, missing))}")
    notes.append(_files_text(result))
    if bound := _bound_text(result):
        notes.append(bound)
    if corrected := correction_text(result["tests"]):
        notes.append(f"marked *: more than chance at 5 %, paired by seed, each column {corrected}")
    notes.append(
        "No real hardware ran. A replay changes no work, a state's latencies are those of the "
        "machine's file, and a state table's truth needs the machine."
    )
    if result["command"]:
        notes.append(f"again: {result['command']}")
    return notes


def _bound_text(result: Trial) -> str | None:
    """Say how far the references are from the base, over the replays."""
    said = []
    for name in ("oracle", "shallowest", "deepest"):
        parts = []
        for scenario in result["scenarios"]:
            for key in ("idle_power_mw", "relative_idle_power_pct"):
                base = _mean(scenario["cells"][0], key)
                own = [r for r in scenario["references"] if r["governor"] == name]
                value = own[0]["values"].get(key) if own else None
                if base and value is not None:
                    parts.append(100 * (value / base - 1))
                    break
        if parts:
            said.append(minus(f"{name} {sum(parts) / len(parts):+.0f} %"))
    return f"beside the base, idle power in replays: {', '.join(said)}" if said else None


def explain(result: Trial, _governor: str | None) -> list[str]:
    """Return the verdict, what each patch does, and what the set cannot show."""
    said: list[str] = []
    for column in result["columns"][1:]:
        changed, decisions, _, differ, runs = differing(result, column["label"])
        if column["error"] or column["same_as"] or not decisions + runs:
            continue
        own = [f"{_percent(changed, decisions)} of decisions"] * bool(decisions)
        own += [f"{differ} of {counted(runs, 'simulation')}"] * bool(runs)
        said.append(f"With {column['label']}, {' and '.join(own)} differ from the base.")
    said.append(f"{_files_text(result)}.")
    return [
        *said[:5],
        cannot_show(
            ["what a real machine does, as 0 ran", "whether a table of idle states is true"]
        ),
    ]


#: The longest bar takes this part of its side; the rest is its number's.
_BAR_PART = 0.7


def pictures(result: Trial) -> list[Picture]:
    """Return the change of power with each column, on each class of machines."""
    charts = []
    for machines in machines_of(result):
        own = [s for s in result["scenarios"] if s["machines"] == machines]
        # The first of the table's metrics that a column changes: power, where it is known.
        for key in LEADS:
            cells = [(c, _mean_cell(own, c["label"], key)) for c in result["columns"][1:]]
            if any(isinstance(cell.value, float) and cell.value for _, cell in cells):
                title = f"{machines}: {metrics(*RUNS)[key]['noun']}"
                charts.append(_columns_chart(title, cells))
                break
    lead = (
        "Change from the base in percent, the mean over recordings and workloads: left is less. "
        "Coloured: beyond chance in one of them at least."
    )
    return [Picture("What each column changes", lead, charts)] if charts else []


def _columns_chart(title: str, cells: Sequence[tuple[TrialColumn, Cell]]) -> Rows:
    """Return a bar for each column, from 0 to its change."""
    rows = []
    sizes = [float(cell.value) if isinstance(cell.value, float) else 0.0 for _, cell in cells]
    reach = max(map(abs, sizes)) / _BAR_PART
    for (column, cell), size in zip(cells, sizes, strict=True):
        name, colour = "within chance", "--strong"
        if "*" in cell.text:
            name, colour = ("more", "--above") if size > 0 else ("less", "--oracle")
        # The number is at the free end of the bar.
        ends = (min(size, 0.0), max(size, 0.0))
        text = cell.text if cell.value is not None else UNKNOWN
        left, right = (text, "") if size < 0 else ("", text)
        bar = Block(name, *ends, colour, left or right, f"{column['subject']}: {text}")
        none = Block("", 0.0, 0.0, colour)
        rows.append(Row(column["label"], [bar, none] if size < 0 else [none, bar], height=16.0))
    return Rows(title, "with", rows, (-reach, reach), "change, %", is_beside=True)


def samples(result: Trial) -> Iterator[Sample]:
    """Yield the runs of each column, so that limits can be held between two of them."""
    for scenario in result["scenarios"]:
        name = ", ".join(scenario[key] for key in ("source", "platform", "governor"))
        for cell in scenario["cells"]:
            for sample in cell["samples"]:
                yield Sample(name, cell["label"], sample["number"], sample["values"])


def inputs(result: Trial) -> list[Input]:
    """Return the series and its base."""
    series = result["series"]
    return [Input("series", series["subject"], None), Input("base", result["base"]["name"], None)]


KIND = Kind(
    "trial",
    post,
    "it is of many runs: `torpor replay` of one recording makes a page with a trace.",
    explain,
    verdict=lambda result, _governor: Verdict("", verdict(result)),
    shape=Trial,
    pictures=pictures,
    samples=samples,
    inputs=inputs,
)
