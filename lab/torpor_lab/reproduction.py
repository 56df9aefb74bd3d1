# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Published tables, simulated and judged: ``torpor study run``."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, TypedDict

from torpor.plugin import (
    POINTED,
    UNKNOWN,
    Cell,
    Input,
    Kind,
    Picture,
    Post,
    Table,
    cannot_show,
    counted,
    format_number,
    numbers,
    shapes,
    types,
    word,
)
from torpor_lab import judge
from torpor_lab.record import Reproduction as ReproductionRecord


class Judged(TypedDict):
    """Number of judged cells, and of right ones."""

    right: int
    of: int


#: Judged cells of every aspect.
JudgedCounts = Annotated[dict[judge.Aspect, Judged], shapes.Meta(min_length=len(judge.ASPECTS))]


class StudyCell(TypedDict):
    """A cell of a published table and the simulated value."""

    #: A number, a range, or ``more`` or ``less`` than the first column.
    published: float | shapes.Pair | str | None
    ours: float | None
    #: The least and the greatest seed.
    spread: shapes.Pair | None
    is_calibrated: bool
    #: Why it is no prediction that counts: ``repeated`` (the same simulated cell has counted, or
    #: was calibrated, before), ``mechanical`` (it is so by the metric's definition).
    not_counted: Literal["repeated", "mechanical"] | None
    #: By aspect (``sign``, ``order``, ``size``, ``range``); null where nothing was judged.
    right: dict[str, bool] | None
    #: Whether ``ours`` is among the published runs; null where none were published.
    is_in_spread: bool | None


class StudyRow(TypedDict):
    """A row of a published table."""

    title: str
    #: Why there is no simulated value.
    not_modelled: str | None
    cells: dict[str, StudyCell]


class StudyTable(TypedDict):
    """A published table."""

    title: str
    rows: list[StudyRow]
    #: Each column's highest row, if the study asks for it.
    most: dict[str, str]


class Off(TypedDict):
    """By how much predictions are off."""

    median: float
    #: The least and the greatest median that one seed alone has; null with one seed.
    spread: shapes.Pair | None
    #: Number of predictions.
    of: int


class JudgedColumn(TypedDict):
    """A column over all tables of a study."""

    column: str
    counts: JudgedCounts
    #: Medians: of levels in per cent, of changes from the first column in percentage points.
    level_off_pct: float | None
    change_off_pp: float | None
    #: The same for the prediction that nothing changes.
    no_change_off_pp: float | None
    beats_no_change: bool | None


class Predictor(TypedDict):
    """Predictor without knowledge: every column is as the first, or changes as a reference does."""

    name: str
    counts: JudgedCounts
    change_off_pp: float | None


class SecondBase(TypedDict):
    """Changes from each table's second column."""

    columns: list[str]
    counts: JudgedCounts
    change_off_pp: Off | None


class Ceiling(TypedDict):
    """What a repeat of the same measurement would reach in the cells with published runs."""

    #: Mean number of right cells, by aspect.
    mean_right: dict[str, float]
    #: The simulation in the same cells.
    here: JudgedCounts


class StudyJudged(TypedDict):
    """A study beyond its counts."""

    columns: list[JudgedColumn]
    level_off_pct: Off | None
    change_off_pp: Off | None
    predictors: Annotated[list[Predictor], shapes.Some]
    second_base: SecondBase | None
    ceiling: Ceiling | None


class Reproduction(TypedDict):
    """Result of ``torpor study run``, one for each study."""

    format: int
    kind: Literal["reproduction"]
    torpor: types.Version
    study: str
    title: str
    source: list[str]
    calibration: str
    #: Kernel that decided.
    kernel: types.KernelInfo | None
    platforms: list[str]
    durations: list[str]
    seeds: int
    tables: list[StudyTable]
    #: By aspect.
    counts: JudgedCounts
    judged: StudyJudged
    notes: list[str]
    #: Columns that a hosted kernel cannot serve, each with why.
    left_out: list[str]
    failures: list[str]


_ASPECTS = ("signs", "orders", "sizes", "ranges")


def post(result: Reproduction) -> Post:
    """Return each published table with the simulated values, and how the study was judged."""
    tables = [_study(table) for table in result["tables"]]
    if result["judged"]["columns"]:
        tables.append(_judged(result))
    machines, durations = ", ".join(result["platforms"]), " or ".join(result["durations"])
    facts = [
        *(f"Source: {source}" for source in result["source"]),
        f"Simulated on {machines}, {durations} a run, {counted(result['seeds'], 'seed')}; "
        f"* calibrated, = counted before, ° so by definition{_in_spread(result)}",
        f"{_decided(result)} decides.",
        judge.summary(result["counts"]),
    ]
    return Post(f"{result['study']}: {result['title']}", facts, tables, _notes(result))


def _in_spread(result: Reproduction) -> str:
    has_runs = result["judged"]["ceiling"] is not None
    return ", ~ wrong, but among the published runs" if has_runs else ""


def _notes(result: Reproduction) -> list[str]:
    notes = []
    for table in result["tables"]:
        notes += [f"{column}: most with {title}" for column, title in table["most"].items()]
        notes += [
            f"{row['title']}: not modelled: {row['not_modelled']}"
            for row in table["rows"]
            if row["not_modelled"]
        ]
    if result["judged"]["columns"]:
        notes += _remarks(result["judged"])
    notes += [f"Calibration: {result['calibration']}", *result["notes"]]
    notes += [f"Left out: {text}" for text in result["left_out"]]
    return [*notes, *(f"Failed: {failure}" for failure in result["failures"])]


def _study(table: StudyTable) -> Table:
    """Return a line each for what was published, simulated, its range over seeds, and judged."""
    columns = list(table["rows"][0]["cells"]) if table["rows"] else []
    rows: list[list[Cell]] = []
    for row in table["rows"]:
        cells = [row["cells"][column] for column in columns]
        published = [_published(cell["published"]) for cell in cells]
        ours = [_ours(cell) for cell in cells]
        spread = [_published(cell["spread"]) for cell in cells]
        right = [word(_right(cell)) for cell in cells]
        has_published = any(cell["published"] is not None for cell in cells)
        has_range = any(isinstance(cell["published"], list) for cell in cells)
        is_judged = any(cell.text for cell in right)
        lines = [("published", published)] * has_published + [("here", ours)]
        lines += [("seeds", spread)] * has_range + [("right", right)] * is_judged
        title = row["title"]
        rows += [[word(title), word(name), *line] for name, line in lines]
    return Table("study", "", [table["title"], "", *columns], rows, keys=2)


def _ours(cell: StudyCell) -> Cell:
    mark = {"repeated": "=", "mechanical": "°"}.get(cell["not_counted"] or "", "")
    mark = "*" if cell["is_calibrated"] else mark
    if cell["is_in_spread"] and cell["right"] and not all(cell["right"].values()):
        mark = "~"
    found = _published(cell["ours"])
    return found._replace(text=found.text + mark)


def _published(value: float | list[float] | str | None) -> Cell:
    """Return a number, a range or a sign."""
    if isinstance(value, str):
        return word(value)
    if isinstance(value, list):
        return word("–".join(format_number(end) for end in value))
    return Cell(value, UNKNOWN if value is None else format_number(value))


def _right(cell: StudyCell) -> str:
    """Return which of the judged aspects are right."""
    right = cell["right"]
    if right is None:
        return ""
    found = [aspect for aspect in judge.ASPECTS if right.get(aspect)]
    if len(right) > 1 and len(found) == len(right):
        return "all"
    return " ".join(found) or "nothing"


def _judged(result: Reproduction) -> Table:
    """Return the counts and median errors by column, of all columns, and of the predictors."""
    judged = result["judged"]
    rows = []
    for column in judged["columns"]:
        mark = " !" if column["beats_no_change"] is False else ""
        off = column["level_off_pct"], column["change_off_pp"], column["no_change_off_pp"]
        rows.append([word(column["column"] + mark), *_counts(column["counts"]), *_errors(*off)])
    rows.append([word("all"), *_counts(result["counts"]), *_all_errors(judged)])
    if (second := judged["second_base"]) is not None:
        title = f"changes from {', '.join(second['columns'])}"
        errors = _errors(None, _median(second["change_off_pp"]), None)
        rows.append([word(title), *_counts(second["counts"]), *errors])
    if (ceiling := judged["ceiling"]) is not None:
        rows += _ceiling(ceiling)
    for predictor in judged["predictors"]:
        errors = _errors(None, predictor["change_off_pp"], None)
        title = f"predictor: {predictor['name']}"
        rows.append([word(title), *_counts(predictor["counts"]), *errors])
    headings = ["Column; median errors", *_ASPECTS, "of level", "of change", "if no change"]
    return Table("judged", "", headings, rows)


def _ceiling(ceiling: Ceiling) -> list[list[Cell]]:
    """Return a line for the repeat and one for the simulation in the same cells."""
    of = {aspect: ceiling["here"][aspect]["of"] for aspect in judge.ASPECTS}
    mean = ceiling["mean_right"]
    repeat = [word(f"{mean[a]:.0f}/{of[a]}" if of[a] else "") for a in judge.ASPECTS]
    none = _errors(None, None, None)
    return [
        [word("a repeat on the same board"), *repeat, *none],
        [word("the same cells here"), *_counts(ceiling["here"]), *none],
    ]


def _counts(counts: JudgedCounts) -> list[Cell]:
    found = (counts[aspect] for aspect in judge.ASPECTS)
    return [word(f"{one['right']}/{one['of']}" if one["of"] else "") for one in found]


def _errors(level_pct: float | None, change_pp: float | None, flat_pp: float | None) -> list[Cell]:
    values = (level_pct, " %"), (change_pp, " pp"), (flat_pp, " pp")
    return [Cell(v, "" if v is None else format_number(v) + unit) for v, unit in values]


def _all_errors(judged: StudyJudged) -> list[Cell]:
    flat = judged["predictors"][0]["change_off_pp"]
    return _errors(_median(judged["level_off_pct"]), _median(judged["change_off_pp"]), flat)


def _median(off: Off | None) -> float | None:
    return off and off["median"]


def _remarks(judged: StudyJudged) -> list[str]:
    lost = [column["column"] for column in judged["columns"] if column["beats_no_change"] is False]
    texts = [f"! no better than a predictor of no change: {', '.join(lost)}"] if lost else []
    spreads = (("level", judged["level_off_pct"], " %"), ("change", judged["change_off_pp"], " pp"))
    single = [
        f"{what} {format_number(off['spread'][0])} to {format_number(off['spread'][1])}{unit}"
        for what, off, unit in spreads
        if off is not None and off["spread"] is not None
    ]
    return [*texts, *([f"Median errors of single seeds: {', '.join(single)}"] if single else [])]


def counts_table(results: Sequence[Reproduction]) -> Table:
    """Return the counts of each study and of all, by the kernel that decided."""
    rows = [
        [
            word(one["study"]),
            word(_decided(one)),
            *_counts(one["counts"]),
            *_all_errors(one["judged"]),
        ]
        for one in results
        if one["judged"]["columns"]
    ]
    for way in dict.fromkeys(map(_decided, results)):
        total: Any = {
            aspect: {
                key: sum(one["counts"][aspect][key] for one in results if _decided(one) == way)
                for key in ("right", "of")
            }
            for aspect in judge.ASPECTS
        }
        rows.append([word("all"), word(way), *_counts(total), *_errors(None, None, None)])
    headings = ["Counts", "decided by", *_ASPECTS, "of level", "of change", "if no change"]
    return Table("counts", "", headings, rows)


def _decided(result: Reproduction) -> str:
    kernel = result["kernel"]
    return "No kernel" if kernel is None else f"Linux {kernel['release']}"


def explain(result: Reproduction, _governor: str | None) -> list[str]:
    judged = result["counts"]
    parts = [
        f"{count['right']} of {counted(count['of'], aspect)}"
        for aspect, count in judged.items()
        if count["of"]
    ]
    cells = [
        (table["title"], row["title"], column, cell)
        for table in result["tables"]
        for row in table["rows"]
        for column, cell in row["cells"].items()
    ]
    calibrated = sum(cell["is_calibrated"] for *_, cell in cells)
    wrong = [each for each in cells if each[3]["right"] and not all(each[3]["right"].values())]
    far = None
    for _, row_title, column, cell in wrong:
        published, ours = cell["published"], cell["ours"]
        if isinstance(published, int | float) and published and ours is not None:
            ratio = abs(ours / published - 1)
            if far is None or ratio > far[0]:
                figures = f"{format_number(ours)}, published {format_number(published)}"
                far = (ratio, f"{row_title}, {column}: {figures}")
    missing = [r["title"] for t in result["tables"] for r in t["rows"] if r["not_modelled"]]
    reasons = [f"{calibrated} of {len(cells)} cells are calibrated and predict nothing"]
    if missing:
        reasons.append(f"{len(missing)} rows are not modelled ({', '.join(missing)})")
    return [
        f"{result['study']}: {numbers.listing(parts) or '0 of 0 cells'} are right "
        f"({counted(result['seeds'], 'seed')}).",
        f"{len(wrong)} cells are wrong in one aspect at least"
        + (f"; the farthest is {far[1]}." if far else "."),
        cannot_show(reasons),
    ]


def inputs(result: Reproduction) -> list[Input]:
    """Return the kernel that was simulated."""
    kernel = result["kernel"]
    return [Input("kernel", kernel["release"], kernel["source_sha256"])] if kernel else []


def contradictions(result: Reproduction) -> Iterator[str]:
    """Compare the columns of each table's rows."""
    for table in result["tables"]:
        for row in table["rows"]:
            if row["cells"].keys() != table["rows"][0]["cells"].keys():
                yield f"`{row['title']}` has other columns than the first row of its table"


def pictures(result: Reproduction) -> list[Picture]:
    """Return the changes, published and simulated, as a picture of a page."""
    from torpor_lab import charts

    lead = (
        "Each number against the first column of its row: across, as published; up, as simulated. "
        "On the line both agree; in the shaded quarters even the sign is wrong. Hollow: calibrated "
        f"or not judged. {POINTED}"
    )
    drawn = charts.changes(result)
    return [Picture("Changes, published and simulated", lead, [drawn])] if drawn else []


_NO_TRACE = (
    "the simulations of a study are many, and none is kept. "
    "`torpor simulate WORKLOAD -p PLATFORM --trace FILE.perfetto-trace` writes one."
)
KIND = Kind(
    "reproduction",
    post,
    _NO_TRACE,
    explain,
    record=ReproductionRecord,
    contradictions=contradictions,
    pictures=pictures,
    shape=Reproduction,
    inputs=inputs,
)
