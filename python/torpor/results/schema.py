# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The shape of results that are put together in Python, and the JSON schema of all results.

``torpor.results`` has the shape of those that the engine makes. docs/generate.py writes it from
the engine's schema; nobody edits it.
"""

import json
import types
from collections.abc import Mapping
from typing import (
    Any,
    Literal,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from torpor import _engine
from torpor.results.types import Comparison, KernelInfo, TraceInfo, VerdictCheck, Version


class Counts(TypedDict):
    """Counters of some states; null where a kernel does not have one."""

    usage: int | None
    time_us: int | None
    above: int | None
    below: int | None
    rejected: int | None


class DiffCounts(Counts):
    """The same, and what follows from them."""

    mean_sleep_us: float | None
    #: Share of ``usage``.
    above_ratio: float | None
    below_ratio: float | None
    residency_ratio: float | None


class DiffStateCounts(DiffCounts):
    """Counts of one state."""

    is_off: bool


class DiffState(TypedDict):
    """An idle state of a group."""

    index: int
    name: str
    latency_us: int | None
    residency_us: int | None


class ShareChange(TypedDict):
    """Difference of a share from the first column's, with its 95 % interval."""

    difference: float
    low: float
    high: float
    is_significant: bool


class DiffGot(TypedDict):
    """A state of the hardware's, as its own counter has it, and who asked for it."""

    counter: str
    #: Indices of the states that ask for it, and their share of time together.
    states: list[int]
    requested_ratio: float | None
    got_ratio: float


class DiffColumn(TypedDict):
    """Counts of a group of CPUs over the intervals of one label."""

    label: str
    rounds: int
    cpus: list[int]
    elapsed_ns: int | None
    #: Base of ``residency_ratio``: elapsed time, or all idle time.
    residency_of: Literal["elapsed", "idle"]
    states: list[DiffStateCounts]
    total: DiffCounts
    #: Changes of ``above`` and ``below``, by name; null in the first column.
    changes: dict[str, ShareChange | None] | None
    #: Hardware's residency; empty if it was not counted.
    got: list[DiffGot]


class DiffGroup(TypedDict):
    """CPUs that share their idle states."""

    cpus: list[int]
    states: list[DiffState]
    columns: list[DiffColumn]


class Note(TypedDict):
    """Note that a reader of the counts must know."""

    kind: str
    #: Empty where it holds for the machine.
    cpus: list[int]
    text: str


class Interval(TypedDict):
    """Between two snapshots, or from boot to one."""

    label: str
    before: str | None
    after: str
    governor: str | None
    driver: str | None
    kernel_release: str | None
    elapsed_ns: int | None
    clock: str | None
    is_since_boot: bool
    notes: list[Note]


class Diff(TypedDict):
    """Result of ``torpor diff`` and ``torpor stat``."""

    format: int
    kind: Literal["diff"]
    torpor: Version
    intervals: list[Interval]
    groups: list[DiffGroup]


class Judged(TypedDict):
    """Number of judged cells, and of right ones."""

    right: int
    of: int


class StateDelta(DiffState, Counts):
    """Counts of a CPU's state between two snapshots."""

    is_off: bool


class CpuDelta(TypedDict):
    """Counts of a CPU."""

    cpu: int
    states: list[StateDelta]


class Delta(TypedDict):
    """Counts between two snapshots, before a result groups them."""

    elapsed_ns: int | None
    clock: str | None
    is_since_boot: bool
    cpus: list[CpuDelta]
    notes: list[Note]


class SnapshotMachine(TypedDict):
    """Facts about its machine in a dump."""

    title: str | None
    driver: str | None
    governor: str | None
    kernel_release: str | None
    hz: int | None
    boot_id: str | None
    taken_at_ns: int | None
    monotonic_ns: int | None
    uptime_ns: int | None


class SnapshotState(Counts):
    """An idle state of a CPU, and its counters."""

    index: int
    name: str | None
    desc: str | None
    latency_us: int | None
    residency_us: int | None
    disable: int | None
    default_status: str | None
    s2idle_usage: int | None
    s2idle_time_us: int | None


class SnapshotCpu(TypedDict):
    """A CPU and its idle states."""

    cpu: int
    driver: str | None
    is_online: bool | None
    capacity: int | None
    freqs_khz: list[int]
    states: list[SnapshotState]


class SnapshotProblem(TypedDict):
    """A value that cannot be used."""

    path: str
    reason: str


class SnapshotData(TypedDict):
    """A snapshot; None is what the dump does not tell."""

    machine: SnapshotMachine
    cpus: list[SnapshotCpu]
    problems: list[SnapshotProblem]
    notes: list[str]


class StudyCell(TypedDict):
    """A cell of a published table and the simulated value."""

    #: A number, a range, or ``more`` or ``less`` than the first column.
    published: float | list[float] | str | None
    ours: float | None
    #: The least and the greatest seed.
    spread: list[float] | None
    is_calibrated: bool
    #: Why it is no prediction that counts: ``repeated`` (the same simulated cell has counted, or
    #: was calibrated, before), ``mechanical`` (it is so by the metric's definition).
    not_counted: Literal["repeated", "mechanical"] | None
    #: By aspect (``sign``, ``order``, ``size``, ``range``); null where nothing was judged.
    right: dict[str, bool] | None


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
    #: Each column's highest row, where the study asks for it.
    most: dict[str, str]


class Off(TypedDict):
    """By how much predictions are off."""

    median: float
    #: The least and the greatest median that one seed alone has; null with one seed.
    spread: list[float] | None
    #: Number of predictions.
    of: int


class JudgedColumn(TypedDict):
    """A column over all tables of a study."""

    column: str
    counts: dict[str, Judged]
    #: Medians: of levels in per cent, of changes from the first column in percentage points.
    level_off_pct: float | None
    change_off_pp: float | None
    #: The same of who says that nothing changes.
    no_change_off_pp: float | None
    beats_no_change: bool | None


class Predictor(TypedDict):
    """Predictor without knowledge: every column is as the first, or changes as a reference does."""

    name: str
    counts: dict[str, Judged]
    change_off_pp: float | None


class SecondBase(TypedDict):
    """Changes from each table's second column."""

    columns: list[str]
    counts: dict[str, Judged]
    change_off_pp: Off | None


class StudyJudged(TypedDict):
    """A study beyond its counts."""

    columns: list[JudgedColumn]
    level_off_pct: Off | None
    change_off_pp: Off | None
    predictors: list[Predictor]
    second_base: SecondBase | None


class Reproduction(TypedDict):
    """Result of ``torpor study run``, one for each study."""

    format: int
    kind: Literal["reproduction"]
    torpor: Version
    study: str
    title: str
    source: list[str]
    calibration: str
    #: Kernel that decided.
    kernel: KernelInfo | None
    platforms: list[str]
    durations: list[str]
    seeds: int
    tables: list[StudyTable]
    #: By aspect.
    counts: dict[str, Judged]
    judged: StudyJudged
    notes: list[str]
    #: Columns that a hosted kernel cannot serve, each with why.
    left_out: list[str]
    failures: list[str]


class AbGovernor(TypedDict):
    """A governor as it was asked for, and as the kernel has it."""

    label: str
    name: str
    #: The module that brings it; null for one of the kernel's own.
    module: str | None
    parameters: list[str]


class AbState(Counts):
    """Counters of one state over one run."""

    name: str


class AbGroup(TypedDict):
    """CPUs that share their idle states."""

    cpus: list[int]
    states: list[AbState]


class AbCounters(TypedDict):
    """Counts during one run."""

    elapsed_ns: int | None
    notes: list[str]
    groups: list[AbGroup]


class AbRun(TypedDict):
    """The command once, under one governor."""

    round: int
    governor: str
    began_at_ns: int
    duration_ns: int
    #: Figure that the command itself printed.
    figure: float | None
    #: By kind of zone: ``package``, ``dram``, ``platform``.
    energy_uj: dict[str, int]
    counters: AbCounters
    output: str


class AbHead(TypedDict):
    """Conditions of the comparison."""

    torpor: Version
    kernel: str
    driver: str | None
    cpu_count: int
    governors: list[AbGovernor]
    command: list[str]
    rounds: int
    metric: str | None
    seed: int | None
    warm_up: int
    energy_zones_unreadable: list[str]


class Ab(AbHead):
    """Result of ``torpor ab``."""

    format: int
    kind: Literal["ab"]
    finished_rounds: int
    runs: list[AbRun]
    #: Null where no round was finished.
    comparison: Comparison | None


class BesideSource(TypedDict):
    """Results side by side."""

    label: str
    kind: str
    #: In a sentence: of what, on which machine, made how.
    what: str


class Beside(TypedDict):
    """Result of ``torpor compare``: results side by side, whatever made them."""

    format: int
    kind: Literal["beside"]
    torpor: Version
    sources: list[BesideSource]
    comparison: Comparison
    #: Other differences between the columns, and metrics without a counterpart.
    notes: list[str]


class OutcomesCounts(TypedDict):
    """Counters of sysfs over the recording; null where a kernel does not have one."""

    usage: int | None
    above: int | None
    below: int | None
    rejected: int | None


class OutcomesState(TypedDict):
    """The recorded sleeps of a cluster in one state."""

    cluster: str
    state: int
    name: str | None
    usage: int | None
    time_ns: int | None
    above: int | None
    below: int | None
    #: Null where no dumps were given.
    sysfs: OutcomesCounts | None


class Outcomes(TypedDict):
    """Result of ``torpor fidelity`` for a recording that lacks a governor's inputs."""

    format: int
    kind: Literal["outcomes"]
    torpor: Version
    trace: TraceInfo
    platform: str | None
    sleeps: int
    verdict_source: Literal["cpu_idle_miss", "platform"] | None
    verdicts: VerdictCheck | None
    #: Events that the recording lacks.
    lacks: list[str]
    states: list[OutcomesState]


#: Kinds made in Python; the engine's are in its own schema.
_KINDS: dict[str, Any] = {
    "ab": Ab,
    "beside": Beside,
    "diff": Diff,
    "outcomes": Outcomes,
    "reproduction": Reproduction,
}
_SIMPLE = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}


def schema() -> dict[str, Any]:
    """Return the JSON schema (2020-12) of every kind of result.

    ``$defs`` has every record, with what its fields mean; ``kinds`` names that of each kind.

    >>> " ".join(sorted(schema()["kinds"]))
    'ab beside check diff fidelity outcomes replay reproduction simulation trace_stats'
    """
    found: dict[str, Any] = json.loads(_engine.schema())
    for kind, shape in _KINDS.items():
        found["kinds"][kind] = shape.__name__
        _of(shape, found["$defs"])
    # The first line of what `torpor ab -o` writes; the others are of AbRun.
    _of(AbHead, found["$defs"])
    found["oneOf"] = [{"$ref": f"#/$defs/{name}"} for name in found["kinds"].values()]
    return found


def _of(hint: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; records go to ``defs``."""
    origin, args = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        if hint.__name__ not in defs:
            defs[hint.__name__] = {}
            defs[hint.__name__] |= _record(hint, defs)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(arg, defs) for arg in args]}
    if origin is Literal:
        return {"enum": list(args)}
    if origin is list:
        return {"type": "array", "items": _of(args[0], defs)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(args[1], defs)}
    return {"type": _SIMPLE[hint]}


def _record(shape: Any, defs: dict[str, Any]) -> dict[str, Any]:
    hints: Mapping[str, Any] = get_type_hints(shape)
    return {
        "type": "object",
        "description": shape.__doc__,
        "properties": {name: _of(hint, defs) for name, hint in hints.items()},
        "required": list(hints),
        "additionalProperties": False,
    }
