# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The JSON schema of all results, and the shape of snapshots.

A kind of result that Python makes has its shape in its own module; ``torpor.results.types`` has
those of the engine.
"""

import copy
from typing import Any, TypedDict

from torpor.results.kinds import KINDS
from torpor.results.kinds.diff import Counts
from torpor.results.shapes import schemas_of
from torpor.results.types import engine_schema


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
    """A snapshot; None means that the dump lacks the value."""

    machine: SnapshotMachine
    cpus: list[SnapshotCpu]
    problems: list[SnapshotProblem]
    notes: list[str]


def schema() -> dict[str, Any]:
    """Return the JSON schema (2020-12) of every kind of result.

    ``$defs`` has every record, with what its fields mean; ``kinds`` names that of each kind.

    >>> " ".join(sorted(schema()["kinds"])[:9])
    'ab beside check diff fidelity latency outcomes replay reproduction'
    """
    found = copy.deepcopy(engine_schema())
    lines: list[type] = []
    shapes = {kind.name: kind.shape for kind in KINDS.values() if kind.shape}
    for kind in KINDS.values():
        lines += kind.growing.lines if kind.growing else ()
    found["kinds"] |= {name: shapes[name].__name__ for name in sorted(shapes)}
    found["$defs"] = schemas_of(*shapes.values(), *lines) | found["$defs"]
    found["oneOf"] = [{"$ref": f"#/$defs/{name}"} for name in found["kinds"].values()]
    return found
