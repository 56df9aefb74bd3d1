# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The kernel's own counters of idle states: snapshots of them, and what was counted between."""

import json
import os
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from torpor import _engine
from torpor._engine import CountersError, TorporError
from torpor.machine import cstate_counters as residency
from torpor.machine import turbostat
from torpor.results.files import write_whole
from torpor.results.record import Record, headed
from torpor.results.table import share

if TYPE_CHECKING:
    from torpor.results.kinds.diff import (
        Counts,
        CpuDelta,
        Delta,
        Diff,
        DiffColumn,
        DiffCounts,
        DiffGot,
        DiffGroup,
        DiffState,
        DiffStateCounts,
        Interval,
        Note,
        ShareChange,
        StateDelta,
    )
    from torpor.results.schema import SnapshotData

    _Counter = Literal["usage", "time_us", "above", "below", "rejected"]
    #: The states of each CPU of a group, which are the same.
    _Members = dict[int, list[DiffState]]

SYSFS = "/sys/devices/system/cpu"
COUNTERS: "tuple[_Counter, ...]" = ("usage", "time_us", "above", "below", "rejected")


class _Column(NamedTuple):
    """A column before it is compared, and each CPU's counts in it, by which it is."""

    shown: "DiffColumn"
    clusters: "list[DiffCounts]"


class _Counted(NamedTuple):
    """An interval, and what it counted of each CPU, which a result has by groups."""

    interval: "Interval"
    cpus: "list[CpuDelta]"


class Snapshot:
    """A machine's idle states and their counters at one time.

    :func:`snapshot` makes one; :func:`diff` compares some.
    """

    def __init__(self, text: str, name: str) -> None:
        """Hold the text of a saved snapshot; ``name`` is what it is called in a result."""
        self._text = text
        self._data: SnapshotData = json.loads(text)["snapshot"]
        self.name = name

    def to_dict(self) -> "SnapshotData":
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
    ``grep . /sys/devices/system/cpu/cpu*/cpuidle/state*/*``, ``head``, ``cat`` or ``cpupower
    idle-info`` printed, as it was or as a mail made it. What a file is shows in its content; gzip,
    zstd, xz and bzip2 are unpacked.

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

    A log of turbostat is an interval of its own, with its states as requested; the states that
    the hardware reports are in ``notes``.

    Raises :class:`torpor.CountersError` when a snapshot cannot be read or none can be compared.
    """
    dumps = [s if isinstance(s, Snapshot) else _read(s) for s in snapshots]
    logs = [dump for dump in dumps if isinstance(dump, turbostat.Log)]
    taken = [dump for dump in dumps if isinstance(dump, Snapshot)]
    if logs and taken:
        raise TorporError(
            "logs of turbostat and snapshots cannot be compared: expected one kind\n"
            "hint: diff each kind alone, save both with --format json, and `torpor compare` the two"
        )
    intervals = _of_logs(logs, labels) if logs else _intervals(taken, labels, is_paired)
    if by not in ("table", "cpu"):
        raise TorporError(f"by is `{by}`: expected table or cpu")
    if not any(counted.cpus for counted in intervals):
        notes = [note for counted in intervals for note in counted.interval["notes"]]
        reasons = dict.fromkeys(note["text"] for note in notes)
        raise CountersError(
            "no CPU's counters can be compared: "
            + "; ".join(reasons)
            + "\nhint: compare snapshots of one machine, taken in one boot"
        )
    groups = [_group(intervals, members) for members in _members(intervals, by)]
    if logs:
        _share_out(groups, dict(zip((c.interval["label"] for c in intervals), logs, strict=True)))
    return headed("diff", {"intervals": [c.interval for c in intervals], "groups": groups})


def _read(source: str | os.PathLike[str]) -> Snapshot | turbostat.Log:
    path = os.fspath(source)
    kind, read = _engine.read_dump(path)
    return turbostat.Log(path, read) if kind == "turbostat" else Snapshot(read, path)


def _of_logs(logs: list[turbostat.Log], labels: Sequence[str] | None) -> list[_Counted]:
    """Each log is an interval of its own."""
    names = list(labels) if labels else _names([log.path for log in logs])
    if len(names) != len(logs) or len(set(names)) != len(names):
        raise TorporError(
            f"{len(names)} labels for {len(logs)} logs of turbostat: expected another for each"
        )
    return [
        _Counted(
            {
                "label": name,
                "before": f"the beginning of {log.path}",
                "after": log.path,
                "governor": log.data["governor"],
                "driver": log.data["driver"],
                "kernel_release": None,
                "elapsed_ns": log.data["elapsed_ns"],
                "clock": None if log.data["elapsed_ns"] is None else "turbostat",
                "is_since_boot": False,
                "notes": [{"kind": "read", "cpus": [], "text": t} for t in turbostat.notes(log)],
            },
            log.cpus,
        )
        for name, log in zip(names, logs, strict=True)
    ]


def _share_out(groups: "list[DiffGroup]", logs: "dict[str, turbostat.Log]") -> None:
    """Take shares of time as turbostat printed them, which needs no clock."""
    for group in groups:
        for column in group["columns"]:
            shares = logs[column["label"]].shares
            column["residency_of"] = "elapsed"
            ratios = []
            for place, state in enumerate(column["states"]):
                known = [s for cpu in column["cpus"] if (s := shares[cpu][place]) is not None]
                state["residency_ratio"] = sum(known) / len(known) if known else None
                ratios.append(state["residency_ratio"])
            all_known = [ratio for ratio in ratios if ratio is not None]
            column["total"]["residency_ratio"] = sum(all_known) if all_known else None
            log = logs[column["label"]]
            column["got"] = _got(group["states"], log.descs, column, log.got_of)


def add_hardware(result: "Diff", got: residency.Got, taken: Snapshot) -> None:
    """Add the hardware's counters to an interval that has only requested states.

    ``taken`` is a snapshot of the machine, for the descriptions of its states. A core's counters
    are those of its first CPU, so groups of single CPUs have them there alone.
    """
    all_states = [state for cpu in taken.to_dict()["cpus"] for state in cpu["states"]]
    descs = {state["name"] or f"state{state['index']}": state["desc"] for state in all_states}
    for group in result["groups"]:
        for column in group["columns"]:
            column["got"] = _got(group["states"], descs, column, got.of_cpus)
    shares = [f"{name} {value:.2f} %" for name, value in got.of_package.items()]
    texts = [f"the package got, by the hardware's counters: {', '.join(shares)}"] if shares else []
    texts += [got.note] if got.note else []
    notes = [cast("Note", {"kind": "read", "cpus": [], "text": text}) for text in texts]
    result["intervals"][-1]["notes"] += notes


def _got(
    states: "list[DiffState]",
    descs: dict[str, str | None],
    column: "DiffColumn",
    got_of: "dict[int, dict[str, float]]",
) -> "list[DiffGot]":
    """Compare the states that CPUs requested with those that their cores entered."""
    asked = [turbostat.counter_of(state["name"], descs.get(state["name"])) for state in states]
    found: list[DiffGot] = []
    lines = [got_of[cpu] for cpu in column["cpus"] if cpu in got_of]
    for counter in dict.fromkeys(name for line in lines for name in line):
        # A core's columns are in the line of its first CPU.
        percents = [line[counter] for line in lines if counter in line]
        asking = [n for n, of in enumerate(asked) if of == counter]
        ratios = [column["states"][n]["residency_ratio"] for n in asking]
        known = [ratio for ratio in ratios if ratio is not None]
        found.append(
            {
                "counter": counter,
                "states": asking,
                "requested_ratio": sum(known) if known else None,
                "got_ratio": sum(percents) / len(percents) / 100,
            }
        )
    return found


def _intervals(
    taken: list[Snapshot], labels: Sequence[str] | None, is_paired: bool
) -> list[_Counted]:
    if not taken:
        raise TorporError("no snapshot given")
    pairs: list[tuple[Snapshot | None, Snapshot]]
    if len(taken) == 1:
        pairs = [(None, taken[0])]
    elif is_paired:
        if len(taken) % 2:
            raise TorporError(
                f"{len(taken)} snapshots are not pairs: expected BEFORE AFTER for each interval"
            )
        pairs = list(zip(taken[::2], taken[1::2], strict=True))
    else:
        pairs = list(pairwise(taken))
    names = list(labels) if labels else _names([after.name for _, after in pairs])
    if len(names) != len(pairs):
        raise TorporError(
            f"{len(names)} labels for {len(pairs)} intervals: expected one per interval, or none"
        )
    return [
        _interval(label, before, after) for label, (before, after) in zip(names, pairs, strict=True)
    ]


def _names(paths: list[str]) -> list[str]:
    """The stems of files if they differ, else whole paths, else numbers."""
    stems = [Path(path).stem for path in paths]
    for names in (stems, paths):
        if len(set(names)) == len(names):
            return names
    return [f"{path} ({number})" for number, path in enumerate(paths, 1)]


def _interval(label: str, before: Snapshot | None, after: Snapshot) -> _Counted:
    if before is None:
        delta: Delta = _engine.counters_since_boot(after.to_json())
    else:
        delta = _engine.counters_between(before.to_json(), after.to_json())
    machine = after.to_dict()["machine"]
    interval: Interval = {
        "label": label,
        "before": before.name if before else None,
        "after": after.name,
        "governor": machine["governor"],
        "driver": machine["driver"],
        "kernel_release": machine["kernel_release"],
        "elapsed_ns": delta["elapsed_ns"],
        "clock": delta["clock"],
        "is_since_boot": delta["is_since_boot"],
        "notes": delta["notes"],
    }
    for taken in filter(None, (before, after)):
        interval["notes"] += _notes_of(taken)
    return _Counted(interval, delta["cpus"])


def _notes_of(taken: Snapshot) -> "list[Note]":
    """Return the reader's problems: each reason once, with the first place."""
    data = taken.to_dict()
    found = [("read", note) for note in data["notes"]]
    places: dict[str, list[str]] = {}
    for problem in data["problems"]:
        places.setdefault(problem["reason"], []).append(problem["path"])
    for reason, paths in places.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        found.append(("damage", f"`{paths[0]}` {reason}{more}"))
    return [{"kind": kind, "cpus": [], "text": f"{taken.name}: {text}"} for kind, text in found]


def _table(states: "Sequence[StateDelta]") -> "list[DiffState]":
    """Return what identifies a CPU's states for a comparison."""
    return [
        {
            "index": state["index"],
            "name": state["name"],
            "latency_us": state["latency_us"],
            "residency_us": state["residency_us"],
        }
        for state in states
    ]


def _members(intervals: list[_Counted], by: str) -> "Iterable[_Members]":
    """Sets of CPUs, each as the states that they share."""
    groups: dict[tuple[int | None, str], _Members] = {}
    for counted in intervals:
        for cpu in counted.cpus:
            states = _table(cpu["states"])
            key = (cpu["cpu"] if by == "cpu" else None, json.dumps(states))
            groups.setdefault(key, {})[cpu["cpu"]] = states
    return sorted(groups.values(), key=lambda members: min(members))


def _group(intervals: list[_Counted], members: "_Members") -> "DiffGroup":
    states = next(iter(members.values()))
    columns: list[_Column] = []
    for label in dict.fromkeys(counted.interval["label"] for counted in intervals):
        rounds = [
            (interval, [c for c in cpus if c["cpu"] in members and _table(c["states"]) == states])
            for interval, cpus in intervals
            if interval["label"] == label
        ]
        if any(cpus for _, cpus in rounds):
            columns.append(_column(label, rounds, len(states)))
    for column in columns[1:]:
        column.shown["changes"] = _changes(columns[0], column)
    return {"cpus": sorted(members), "states": states, "columns": [c.shown for c in columns]}


def _column(
    label: str, rounds: "list[tuple[Interval, list[CpuDelta]]]", state_count: int
) -> _Column:
    cpus = [cpu for _, cpus in rounds for cpu in cpus]
    # The time of all CPUs together; unknown if any round's is.
    spans = [(interval["elapsed_ns"], len(members)) for interval, members in rounds if members]
    known = [(span, count) for span, count in spans if span is not None]
    is_timed = len(known) == len(spans)
    total = _counts([state for cpu in cpus for state in cpu["states"]])
    whole_us = sum(span * count for span, count in known) / 1e3 if is_timed else total["time_us"]
    total["residency_ratio"] = share(total["time_us"], whole_us, 1)
    states: list[DiffStateCounts] = []
    for place in range(state_count):
        of_all = [cpu["states"][place] for cpu in cpus]
        counts = _counts(of_all)
        counts["residency_ratio"] = share(counts["time_us"], whole_us, 1)
        is_off = any(state["is_off"] for state in of_all)
        states.append({**counts, "is_off": is_off})
    shown: DiffColumn = {
        "label": label,
        "rounds": len(spans),
        "cpus": sorted({cpu["cpu"] for cpu in cpus}),
        "elapsed_ns": sum(span for span, _ in known) if is_timed else None,
        "residency_of": "elapsed" if is_timed else "idle",
        "states": states,
        "total": total,
        "changes": None,
        "got": [],
    }
    return _Column(shown, [_counts(cpu["states"]) for cpu in cpus])


def _counts(states: "Sequence[Counts]") -> "DiffCounts":
    """Sums, and shares over those states that have both numbers."""

    def ratio(key: "_Counter", of: "_Counter") -> float | None:
        both = [s for s in states if s[key] is not None and s[of] is not None]
        return share(_sum(s[key] for s in both), _sum(s[of] for s in both), 1)

    return {
        "usage": _sum(state["usage"] for state in states),
        "time_us": _sum(state["time_us"] for state in states),
        "above": _sum(state["above"] for state in states),
        "below": _sum(state["below"] for state in states),
        "rejected": _sum(state["rejected"] for state in states),
        "mean_sleep_us": ratio("time_us", "usage"),
        "above_ratio": ratio("above", "usage"),
        "below_ratio": ratio("below", "usage"),
        "residency_ratio": None,
    }


def _changes(first: _Column, column: _Column) -> "dict[str, ShareChange | None]":
    changes: dict[str, ShareChange | None] = {}
    keys: tuple[_Counter, ...] = ("above", "below")
    for key in keys:
        change = _engine.compare_shares(_pairs(first, key), _pairs(column, key))
        changes[key] = change
    return changes


def _pairs(column: _Column, key: "_Counter") -> list[tuple[int, int]]:
    """A counter and ``usage`` of each CPU that has both."""
    pairs = [(counts[key], counts["usage"]) for counts in column.clusters]
    return [(n, usage) for n, usage in pairs if n is not None and usage is not None]


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
