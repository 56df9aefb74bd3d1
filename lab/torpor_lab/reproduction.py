# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Published tables, simulated and judged: ``torpor study run``."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

from torpor.plugin import (
    POINTED,
    UNKNOWN,
    Brief,
    Cell,
    Input,
    Kind,
    Picture,
    Post,
    Table,
    Verdict,
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
    title = f"{result['study']}: {result['title']}"
    seeds = counted(result["seeds"], "seed")
    basis = f"{title}; simulated on {machines}, {seeds}, {_decided(result)} decides."
    failed = [f"Failed: {failure}" for failure in result["failures"]]
    brief = Brief([_aspects(result), _wrong(result)], failed, [basis])
    return Post(title, facts, tables, _notes(result), brief=brief)


#: Wrong cells that a terminal names.
_WRONG = 5


def _aspects(result: Reproduction) -> Table:
    """Return the counts by aspect, and those of predictors without knowledge and of a repeat."""
    judged = result["judged"]
    rows = [[word("here"), *_counts(result["counts"])]]
    if (ceiling := judged["ceiling"]) is not None:
        rows += [row[: 1 + len(_ASPECTS)] for row in _ceiling(ceiling)]
    rows += [
        [word(f"predictor: {one['name']}"), *_counts(one["counts"])] for one in judged["predictors"]
    ]
    return Table("aspects", "Right predictions", ["", *_ASPECTS], rows if judged["columns"] else [])


def _wrong(result: Reproduction) -> Table:
    """Return the wrong cells, the farthest from the published ones first."""
    wrong = [one for one in judged_cells(result) if one.is_so == "wrong"]
    wrong.sort(key=lambda one: -_off(one.cell))
    rows = [
        [
            *(word(one.row), word(one.column), _published(one.cell["published"])),
            *(_published(one.cell["ours"]), word(_not_right(one.cell))),
        ]
        for one in wrong
    ]
    headings = ["", "", "published", "here", "wrong in"]
    return Table("wrong", "Wrong", headings, rows, keys=2, most=_WRONG, more="-v")


def _not_right(cell: StudyCell) -> str:
    return ", ".join(aspect for aspect, is_so in (cell["right"] or {}).items() if not is_so)


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


class Judgement(NamedTuple):
    """A judged cell: right in all that was judged, within the published runs, or wrong."""

    table: str
    row: str
    column: str
    cell: StudyCell
    #: ``right``, ``spread`` or ``wrong``.
    is_so: str


def judged_cells(result: Reproduction) -> list[Judgement]:
    """Return the cells that were judged, each as right, within the published spread, or wrong."""
    found = []
    for table in result["tables"]:
        for row in table["rows"]:
            for column, cell in row["cells"].items():
                if not cell["right"]:
                    continue
                is_so = "right" if all(cell["right"].values()) else "wrong"
                if is_so == "wrong" and cell.get("is_in_spread"):
                    is_so = "spread"
                found.append(Judgement(table["title"], row["title"], column, cell, is_so))
    return found


def verdict(result: Reproduction, _governor: str | None) -> Verdict:
    """Return how many predictions are right, within the published spread, and wrong."""
    cells = judged_cells(result)
    if not cells:
        return Verdict(result["study"], "judges no cell: nothing in it is a prediction")
    counts = Counter(cell.is_so for cell in cells)
    figure = f"predicts {counts['right']} of {len(cells)} cells right"
    if counts["spread"]:
        be = "is" if counts["spread"] == 1 else "are"
        figure += f"; {counts['spread']} more {be} within the published spread"
    if counts["wrong"]:
        be = "is" if counts["wrong"] == 1 else "are"
        figure += f"; {counts['wrong']} {be} wrong in sign, order, size or range"
    return Verdict(result["study"], figure, counted(result["seeds"], "seed"))


def explain(result: Reproduction, _governor: str | None) -> list[str]:
    judged = result["counts"]
    parts = [
        f"{count['right']} of {counted(count['of'], aspect)}"
        for aspect, count in judged.items()
        if count["of"]
    ]
    cells = [
        cell
        for table in result["tables"]
        for row in table["rows"]
        for cell in row["cells"].values()
    ]
    calibrated = sum(cell["is_calibrated"] for cell in cells)
    missing = [r["title"] for t in result["tables"] for r in t["rows"] if r["not_modelled"]]
    reasons = [f"{calibrated} of {len(cells)} cells are calibrated and predict nothing"]
    if missing:
        reasons.append(f"{len(missing)} rows are not modelled ({', '.join(missing)})")
    far = [f"Farthest off: {text}." for text in _farthest(result)]
    return [f"Right: {numbers.listing(parts) or '0 of 0 cells'}.", *far, cannot_show(reasons)]


def _farthest(result: Reproduction) -> list[str]:
    """Return the wrong cell whose value is farthest from the published one."""
    wrong = [one for one in judged_cells(result) if one.is_so == "wrong" and _off(one.cell)]
    if not wrong:
        return []
    one = max(wrong, key=lambda one: _off(one.cell))
    figures = [_published(one.cell[key]).text for key in ("ours", "published")]
    return [f"{one.row}, {one.column}: {figures[0]}, published {figures[1]}"]


def _off(cell: StudyCell) -> float:
    """Return the logarithm of the ratio to the published value; 0 where there is none."""
    published, ours = cell["published"], cell["ours"]
    if not isinstance(published, int | float) or not published or not ours:
        return 0.0
    return abs(math.log(abs(ours / published)))


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
    """Return what is right by aspect, and the changes, published and simulated."""
    from torpor_lab import charts

    found = []
    if judged_cells(result):
        lead = (
            "Judged cells: sign of the change from the first column, order among the columns, size "
            "within a factor of 2, or the published range."
        )
        found.append(
            Picture("Right, within the published spread, wrong", lead, [charts.judged(result)])
        )
    if drawn := charts.changes(result):
        lead = (
            "Each number against the first column of its row: across, as published; up, as "
            "simulated. On the line both agree; in the shaded quarters even the sign is wrong. "
            "Hollow: calibrated, not judged, or beyond the axes, at whose ends it is drawn. "
            f"{POINTED}"
        )
        found.append(Picture("Changes, published and simulated", lead, [drawn]))
    return found


_NO_TRACE = (
    "the simulations of a study are many, and none is kept. "
    "`torpor simulate WORKLOAD -p PLATFORM --trace FILE.perfetto-trace` writes one."
)
KIND = Kind(
    "reproduction",
    post,
    _NO_TRACE,
    explain,
    verdict=verdict,
    record=ReproductionRecord,
    contradictions=contradictions,
    pictures=pictures,
    shape=Reproduction,
    inputs=inputs,
)
