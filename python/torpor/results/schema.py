# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The JSON schema of all results, and the shape of snapshots.

A kind of result that Python makes has its shape in its own module; ``torpor.results.types`` has
those of the engine.
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
from torpor.results.kinds import KINDS
from torpor.results.kinds.ab import AbHead
from torpor.results.kinds.diff import Counts


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


_SIMPLE = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}


def schema() -> dict[str, Any]:
    """Return the JSON schema (2020-12) of every kind of result.

    ``$defs`` has every record, with what its fields mean; ``kinds`` names that of each kind.

    >>> " ".join(sorted(schema()["kinds"])[:9])
    'ab beside check diff fidelity latency outcomes replay reproduction'
    """
    found: dict[str, Any] = json.loads(_engine.schema())
    for kind in sorted(KINDS.values(), key=lambda kind: kind.name):
        if kind.shape is not None:
            found["kinds"][kind.name] = kind.shape.__name__
            _of(kind.shape, found["$defs"])
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
