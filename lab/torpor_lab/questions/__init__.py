# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Questions that grids of simulations and replays answer, one TOML file each."""

import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from torpor import TorporError, load_trace, sweep
from torpor.plugin import (
    Progress,
    axes,
    cause,
    class_of,
    commits,
    contrasts,
    metric_info,
    platform_content,
    power_of,
    shapes,
    toml_file,
    unknown_name,
)

FOLDER = Path(__file__).parent
ALL = "all"


class QuestionError(TorporError):
    """A question is unknown, its file is wrong, or it has no answer."""


class _Base(TypedDict, total=False):
    base: dict[str, str | list[str]]


class _Contrast(_Base):
    """Two sides, or one whose level is the question."""

    name: str
    other: dict[str, str | list[str]]


class _Sides(TypedDict, total=False):
    contrast: list[_Contrast]
    #: Rows of the tables in addition to the machines' classes.
    by: Literal["machine", "source"]
    #: Governors one after another, each against the one before; or a range of commits.
    steps: list[Annotated[list[str], shapes.Some]]


class Question(_Sides):
    """A question's file; paths of its workloads begin with a dot, and are relative to it."""

    question: str
    #: Keys of metrics, that of the answer first; `a/b` is one as a share of another.
    metrics: Annotated[list[str], shapes.Some]
    #: Sweeps' files.
    grid: Annotated[list[dict[str, Any]], shapes.Some]
    #: Assumptions that a reader should know, in words.
    limits: list[str]


class Mean(TypedDict):
    """A metric's change over the machines of a class; in points of a share, else in percent."""

    contrast: str
    #: Of machines, or "all".
    of: str
    metric: str
    machines: int
    scenarios: int
    mean: float
    #: 95 % interval over machines; None for less than three.
    low: float | None
    high: float | None


class Turn(TypedDict):
    """A scenario in which every seed says the opposite of the mean over all machines."""

    contrast: str
    metric: str
    machine: str
    source: str
    change: float


class Answer(TypedDict):
    """What a question's grids say."""

    question: str
    metrics: list[str]
    seeds: int
    means: list[Mean]
    #: Contrasts that are steps of one history, oldest first, by their governor.
    steps: dict[str, list[str]]
    turns: list[Turn]
    #: Points that ended in an error, and those without a partner.
    failed: int
    #: The first of them.
    error: str | None
    alone: int
    limits: list[str]
    #: Machines by where their power comes from.
    power: dict[str, list[str]]


def names() -> list[str]:
    """Return the questions that ship."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str | os.PathLike[str]) -> Question:
    """Read a question: its name, or the path of a file.

    Raises QuestionError for what is no question.
    """
    text = os.fspath(name)
    path = Path(text) if text.endswith(".toml") else FOLDER / f"{text}.toml"
    if not text.endswith(".toml") and text not in names():
        raise QuestionError(unknown_name("question", text, names(), "or the path of a .toml file"))
    try:
        found: Question = toml_file(path, Question, QuestionError, "read question")
        for grid in found["grid"]:
            if problem := shapes.problem(axes.file_shape(), grid, is_strict=True):
                raise QuestionError(f"read question `{path}`: `grid`: {problem}")
            own = grid.get("axes", {})
            own["workload"] = [_beside(path, each) for each in _listed(own.get("workload", []))]
    except OSError as error:
        raise QuestionError(f"read question `{path}`: {cause(error)}") from None
    if not found.get("contrast") and not found.get("steps"):
        raise QuestionError(f"read question `{path}`: neither `contrast` nor `steps` is there")
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _beside(path: Path, workload: str) -> str:
    return os.path.normpath(path.parent / workload) if workload.startswith(".") else workload


def points(
    question: Question,
    *,
    only: Mapping[str, list[str]] | None = None,
    seeds: int | None = None,
    duration: str | None = None,
) -> list[axes.Point]:
    """Return the points of a question's grids, or those that match one pattern of each column."""
    found: dict[axes.Point, None] = {}
    for grid in question["grid"]:
        own = axes.axes_of(grid)
        own.seeds = own.seeds if seeds is None else seeds
        if duration is not None and own.workload:
            own.options["duration"] = duration
        found.update(dict.fromkeys(own.points()))
    return _fitting([point for point in found if _is_wanted(point, only or {})])


def _fitting(wanted: list[axes.Point]) -> list[axes.Point]:
    """Leave out replays of recordings on machines with too few CPUs for them."""
    count: dict[str, int] = {}
    have: dict[str, int] = {}
    for point in wanted:
        if point.kind == "replay" and point.source not in count:
            count[point.source] = load_trace(point.source).info["cpu_count"]
        if point.kind == "replay" and point.platform not in have:
            clusters = platform_content(point.platform)["cluster"]
            last = (number for each in clusters for number in re.findall(r"\d+", each["cpus"]))
            have[point.platform] = 1 + max(map(int, last))
    return [p for p in wanted if p.kind != "replay" or count[p.source] <= have[p.platform]]


def _is_wanted(point: axes.Point, only: Mapping[str, list[str]]) -> bool:
    for name, patterns in only.items():
        if not hasattr(point, name):
            known = list(axes.Point.__dataclass_fields__)
            raise QuestionError(unknown_name("column", name, known, ""))
        value = str(getattr(point, name))
        # Of a machine its name alone counts, too: a contrast needs its variants.
        own = {value, axes.split_numbers(value)[0]} if name == "platform" else {value}
        if not any(fnmatchcase(each, pattern) for each in own for pattern in patterns):
            return False
    return True


def answer(
    question: Question,
    store: str | os.PathLike[str],
    wanted: list[axes.Point],
    *,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    compiling: Callable[[str, int, int], None] | None = None,
) -> Answer:
    """Run what the store lacks of a question's points, and compare the sides of its contrasts.

    Raises QuestionError where no point is left, or none has a partner.
    """
    if not wanted:
        raise QuestionError("no point is left")
    done = sweep(wanted, store, threads=threads, progress=progress, compiling=compiling)
    if done.is_interrupted:
        raise KeyboardInterrupt
    return answered(question, done.rows().values())


def answered(question: Question, rows: Iterable[Mapping[str, Any]]) -> Answer:
    """Compare the sides of a question's contrasts in rows of a store."""
    kept = [dict(row) for row in rows]
    for key in question["metrics"]:
        part, is_share, whole = key.partition("/")
        for row in kept if is_share else ():
            has_both = row[part] is not None and row[whole]
            row[key] = 100 * row[part] / row[whole] if has_both else None
    means: list[Mean] = []
    turns: list[Turn] = []
    failed = alone = seeds = 0
    machines: set[str] = set()
    steps = dict(_steps(governors) for governors in question.get("steps", []))
    asked = [*question.get("contrast", []), *(each for own in steps.values() for each in own)]
    for each in asked:
        paired = contrasts.contrast(kept, each.get("base"), each["other"])
        failed, alone = failed + paired.failed, alone + paired.alone
        seeds = max([seeds, *(len(several) for several in paired.pairs.values())])
        for key in question["metrics"]:
            metric = metric_of(key)
            changes = paired.changes(metric)
            machines.update(change.machine for change in changes)
            means += _means(each["name"], metric, changes, question.get("by"))
            turns += _turns(each["name"], metric, changes)
    errors = [str(row["error"]) for row in kept if row["error"]]
    if not means:
        whys = [f"{failed} failed"] * bool(failed) + [f"{alone} have no partner"] * bool(alone)
        why = ", ".join(whys) or "no point fits"
        first = f"\nthe first error: {errors[0]}" if errors else ""
        raise QuestionError(f"no pair of points has a metric: {why}{first}")
    return {
        "question": question["question"],
        "metrics": question["metrics"],
        "seeds": seeds,
        "means": means,
        "steps": {name: [each["name"] for each in own] for name, own in steps.items()},
        "turns": turns,
        "failed": failed,
        "error": errors[0] if errors else None,
        "alone": alone,
        "limits": question["limits"],
        "power": _by_power(machines),
    }


def _steps(governors: list[str]) -> tuple[str, list[_Contrast]]:
    """Return a history's name and its contrasts, each governor against the one before."""
    name = governors[0].partition("@")[0]
    if len(governors) == 1 and commits.is_range(governors[0]):
        told = commits.steps(governors[0])
        # A subject may be there twice.
        sides = [(f"{_topic(s.subject, name)} ({s.after[-12:]})", s.before, s.after) for s in told]
    else:
        pairs = itertools.pairwise(governors)
        sides = [
            (f"{before.partition('@')[2]} to {after.partition('@')[2]}", before, after)
            for before, after in pairs
        ]
    return name, [
        _Contrast(name=f"{name} {title}", base={"governor": before}, other={"governor": after})
        for title, before, after in sides
    ]


def _topic(subject: str, governor: str) -> str:
    """Return a commit's subject without what each of a governor's begins with."""
    begin = rf"^(Revert:? )?\"?(cpuidle: )?(governors: )?({governor}: )?"
    return re.sub(begin, r"\1", subject).rstrip('"')


#: A turn is at least this much: a hundredth, or a percentage point.
_LEAST = {"share": 1.0}
_LEAST_RATIO = 0.01


def metric_of(key: str) -> dict[str, Any]:
    """Return a metric of the catalogue, or one as a share of another, `a/b`."""
    part, is_share, whole = key.partition("/")
    found = metric_info(part)
    if not is_share:
        return found
    words = {word: f"{found[word]} as part of {metric_info(whole)[word]}" for word in _WORDS}
    return found | words | {"key": key, "kind": "share", "unit": "%"}


#: What of a metric names it.
_WORDS = ("title", "noun")


def _means(
    name: str,
    metric: Mapping[str, Any],
    changes: list[contrasts.Change],
    by: str | None,
) -> list[Mean]:
    groups: dict[str, list[contrasts.Change]] = {ALL: changes}
    for change in sorted(changes, key=lambda change: class_of(change.machine)):
        groups.setdefault(class_of(change.machine), []).append(change)
    for change in sorted(changes) if by else ():
        row = change.machine if by == "machine" else Path(change.source).stem
        groups.setdefault(row, []).append(change)
    found: list[Mean] = []
    for of, own in groups.items():
        over = contrasts.over_machines(metric, own)
        if over.mean is not None:
            found.append(
                Mean(
                    contrast=name,
                    of=of,
                    metric=metric["key"],
                    machines=over.machines,
                    scenarios=len(own),
                    mean=over.mean,
                    low=over.low,
                    high=over.high,
                )
            )
    return found


def _turns(name: str, metric: Mapping[str, Any], changes: list[contrasts.Change]) -> list[Turn]:
    mean = contrasts.over_machines(metric, changes).mean
    if not mean:
        return []
    least, sign = _LEAST.get(metric["kind"], _LEAST_RATIO), 1.0 if mean > 0 else -1.0
    return [
        Turn(
            contrast=name,
            metric=metric["key"],
            machine=change.machine,
            source=change.source,
            change=contrasts.in_unit(metric, change.part),
        )
        for change in sorted(changes, key=lambda change: change.part * sign)
        if change.is_against(sign, least)
    ]


def _by_power(machines: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for machine in sorted(machines):
        found.setdefault(power_of(machine), []).append(machine)
    return found
