# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The kernel's own counters of idle states: snapshots of them, and what was counted between."""

import json
import os
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from torpor import _engine
from torpor._engine import CountersError, TorporError
from torpor.files import write_whole
from torpor.records import Record, headed

SYSFS = "/sys/devices/system/cpu"
COUNTERS = ("usage", "time_us", "above", "below", "rejected")


class Snapshot:
    """A machine's idle states and their counters at one time.

    :func:`snapshot` makes one; :func:`diff` compares some.
    """

    def __init__(self, text: str, name: str) -> None:
        """Hold the text of a saved snapshot; ``name`` is what it is called in a result."""
        self._text = text
        self._data: dict[str, Any] = json.loads(text)["snapshot"]
        self.name = name

    def to_dict(self) -> dict[str, Any]:
        """Return ``machine``, ``cpus`` (each with its ``states``), ``problems`` and ``notes``.

        A value that the dump lacks is None, never 0. Counters are the kernel's: ``usage``,
        ``time_us``, ``above``, ``below``, ``rejected``.
        """
        return self._data

    def to_json(self) -> str:
        """Return the text of the file that :meth:`write` writes."""
        return self._text

    def write(self, path: str | os.PathLike[str]) -> None:
        """Save it; the same snapshot gives the same bytes."""
        write_whole(path, self._text)

    def __repr__(self) -> str:
        machine, cpus = self._data["machine"], self._data["cpus"]
        return f"<torpor.Snapshot {self.name}: {len(cpus)} CPUs, driver {machine['driver']}>"


def snapshot(
    source: str | os.PathLike[str] | None = None, *, root: str | os.PathLike[str] = SYSFS
) -> Snapshot:
    """Take a snapshot of this machine, or read one from ``source``.

    ``source`` is a saved snapshot, a directory or tar file with a copy of ``root``, or text: what
    ``grep . /sys/devices/system/cpu/cpu*/cpuidle/state*/*``, ``head`` or ``cat`` printed, as it
    was or as a mail made it. What a file is shows in its content.

    Raises :class:`torpor.CountersError` when there are no idle states in it, as on most virtual
    machines, or when a file holds two dumps.
    """
    if source is not None:
        return Snapshot(_engine.read_counters(os.fspath(source)), os.fspath(source))
    text = _engine.take_counters(os.fspath(root), time.time_ns(), time.monotonic_ns())
    return Snapshot(text, "now")


def diff(
    *snapshots: Snapshot | str | os.PathLike[str],
    labels: Sequence[str] | None = None,
    by: str = "table",
    is_paired: bool = False,
) -> Record:
    """Count what happened between snapshots.

    Each snapshot but the first ends an interval that its predecessor began. With ``is_paired``
    every two are an interval of their own; a single snapshot counts from boot. ``labels`` name the
    intervals; those of one name are rounds of one thing and counted together. ``by`` is ``table``,
    which groups CPUs with the same idle states, or ``cpu``.

    Returns ``intervals`` (``label``, ``before``, ``after``, ``governor``, ``kernel_release``,
    ``elapsed_ns``, ``is_since_boot``, ``notes``) and ``groups``. A group has its ``cpus``,
    ``states`` and ``columns``, one a label: ``cpus``, ``rounds``, ``states`` and ``total`` with the
    counts of :data:`COUNTERS`, ``mean_sleep_us``, ``above_ratio`` and ``below_ratio`` (of
    ``usage``) and ``residency_ratio``. ``residency_of`` says what that is a share of: ``elapsed``
    time, or all ``idle`` time where no clock is known. ``changes`` compares ``above`` and ``below``
    with the first column: ``difference``, ``low`` and ``high`` (95 %), ``is_significant``.

    Raises :class:`torpor.CountersError` when a snapshot cannot be read or none can be compared.
    """
    taken = [s if isinstance(s, Snapshot) else snapshot(s) for s in snapshots]
    intervals = _intervals(taken, labels, is_paired)
    if by not in ("table", "cpu"):
        raise TorporError(f"by is `{by}`: expected table or cpu")
    if not any(interval["cpus"] for interval in intervals):
        reasons = dict.fromkeys(n["text"] for interval in intervals for n in interval["notes"])
        raise CountersError(
            "no CPU's counters can be compared: "
            + "; ".join(reasons)
            + "\nhint: compare snapshots of one machine, taken in one boot"
        )
    groups = [_group(intervals, members) for members in _members(intervals, by)]
    for interval in intervals:
        del interval["cpus"]
    return headed("diff", {"intervals": intervals, "groups": groups})


def _intervals(
    taken: list[Snapshot], labels: Sequence[str] | None, is_paired: bool
) -> list[dict[str, Any]]:
    if not taken:
        raise TorporError("no snapshot given")
    pairs: list[tuple[Snapshot | None, Snapshot]]
    if len(taken) == 1:
        pairs = [(None, taken[0])]
    elif is_paired:
        if len(taken) % 2:
            raise TorporError(
                f"{len(taken)} snapshots are no pairs: expected BEFORE AFTER for each interval"
            )
        pairs = list(zip(taken[::2], taken[1::2], strict=True))
    else:
        pairs = list(pairwise(taken))
    names = list(labels) if labels else _names([after.name for _, after in pairs])
    if len(names) != len(pairs):
        raise TorporError(
            f"{len(names)} labels for {len(pairs)} intervals: expected one for each, or none"
        )
    return [
        _interval(label, before, after) for label, (before, after) in zip(names, pairs, strict=True)
    ]


def _names(paths: list[str]) -> list[str]:
    """The stems of files where they differ, else whole paths, else numbered."""
    stems = [Path(path).stem for path in paths]
    for names in (stems, paths):
        if len(set(names)) == len(names):
            return names
    return [f"{path} ({number})" for number, path in enumerate(paths, 1)]


def _interval(label: str, before: Snapshot | None, after: Snapshot) -> dict[str, Any]:
    if before is None:
        delta = json.loads(_engine.counters_since_boot(after.to_json()))
    else:
        delta = json.loads(_engine.counters_between(before.to_json(), after.to_json()))
    for taken in filter(None, (before, after)):
        delta["notes"] += _notes_of(taken)
    machine = after.to_dict()["machine"]
    return {
        "label": label,
        "before": before and before.name,
        "after": after.name,
        "governor": machine["governor"],
        "driver": machine["driver"],
        "kernel_release": machine["kernel_release"],
        **delta,
    }


def _notes_of(taken: Snapshot) -> list[dict[str, Any]]:
    """What its reader told, and what it could not use: each reason once, with the first place."""
    data = taken.to_dict()
    told = [("read", note) for note in data["notes"]]
    places: dict[str, list[str]] = {}
    for problem in data["problems"]:
        places.setdefault(problem["reason"], []).append(problem["path"])
    for reason, paths in places.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        told.append(("damage", f"`{paths[0]}` {reason}{more}"))
    return [{"kind": kind, "cpus": [], "text": f"{taken.name}: {text}"} for kind, text in told]


def _members(intervals: list[dict[str, Any]], by: str) -> Iterable[dict[int, Any]]:
    """Sets of CPUs, each as the states that they share."""
    groups: dict[Any, dict[int, Any]] = {}
    for interval in intervals:
        for cpu in interval["cpus"]:
            states = [
                {key: state[key] for key in ("index", "name", "latency_us", "residency_us")}
                for state in cpu["states"]
            ]
            table = json.dumps(states)
            key = (cpu["cpu"], table) if by == "cpu" else table
            groups.setdefault(key, {})[cpu["cpu"]] = states
    return sorted(groups.values(), key=lambda members: min(members))


def _group(intervals: list[dict[str, Any]], members: dict[int, Any]) -> dict[str, Any]:
    states = next(iter(members.values()))
    columns = []
    for label in dict.fromkeys(interval["label"] for interval in intervals):
        rounds = [
            (interval, [c for c in interval["cpus"] if _is_member(c, members, states)])
            for interval in intervals
            if interval["label"] == label
        ]
        if any(cpus for _, cpus in rounds):
            columns.append(_column(label, rounds, len(states)))
    for column in columns:
        column["changes"] = None if column is columns[0] else _changes(columns[0], column)
    for column in columns:
        del column["clusters"]
    return {"cpus": sorted(members), "states": states, "columns": columns}


def _is_member(cpu: dict[str, Any], members: dict[int, Any], states: list[Any]) -> bool:
    names = [(s["index"], s["name"], s["latency_us"], s["residency_us"]) for s in cpu["states"]]
    wanted = [(s["index"], s["name"], s["latency_us"], s["residency_us"]) for s in states]
    return cpu["cpu"] in members and names == wanted


def _column(label: str, rounds: list[tuple[Any, list[Any]]], state_count: int) -> dict[str, Any]:
    cpus = [cpu for _, cpus in rounds for cpu in cpus]
    # The time of all CPUs together; not known as soon as one round's is not.
    spans = [interval["elapsed_ns"] for interval, members in rounds if members]
    is_timed = all(span is not None for span in spans)
    cpu_time_us = None
    if is_timed:
        cpu_time_us = sum(i["elapsed_ns"] * len(members) for i, members in rounds if members) / 1e3
    states = [_counts([cpu["states"][place] for cpu in cpus]) for place in range(state_count)]
    for place, state in enumerate(states):
        state["is_off"] = any(cpu["states"][place]["is_off"] for cpu in cpus)
    total = _counts([state for cpu in cpus for state in cpu["states"]])
    whole_us = cpu_time_us if is_timed else total["time_us"]
    for entry in (*states, total):
        entry["residency_ratio"] = _ratio(entry["time_us"], whole_us)
    return {
        "label": label,
        "rounds": len(spans),
        "cpus": sorted({cpu["cpu"] for cpu in cpus}),
        "elapsed_ns": sum(spans) if is_timed else None,
        "residency_of": "elapsed" if is_timed else "idle",
        "states": states,
        "total": total,
        "clusters": [_counts(cpu["states"]) for cpu in cpus],
    }


def _counts(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Sums, and shares over those states that have both numbers."""
    sums = {key: _sum(state[key] for state in states) for key in COUNTERS}

    def ratio(key: str, of: str) -> float | None:
        both = [s for s in states if s[key] is not None and s[of] is not None]
        return _ratio(_sum(s[key] for s in both), _sum(s[of] for s in both))

    return {
        **sums,
        "mean_sleep_us": ratio("time_us", "usage"),
        "above_ratio": ratio("above", "usage"),
        "below_ratio": ratio("below", "usage"),
    }


def _changes(first: dict[str, Any], column: dict[str, Any]) -> dict[str, Any]:
    changes = {}
    for key in ("above", "below"):
        pairs = [
            [(c[key], c["usage"]) for c in side["clusters"] if None not in (c[key], c["usage"])]
            for side in (first, column)
        ]
        changes[key] = json.loads(_engine.compare_shares(*pairs))
    return changes


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
