# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Governors in turn on the live machine, the same command under each, round by round."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from torpor import _engine
from torpor.machine import counters
from torpor.machine.kernel import governors, journal, support
from torpor.machine.kernel.build import Builder
from torpor.machine.kernel.command import run
from torpor.machine.kernel.errors import KernelError
from torpor.machine.kernel.modules import Governor, resolve
from torpor.machine.kernel.rapl import Meter
from torpor.machine.kernel.system import System
from torpor.machine.record.signals import Signals
from torpor.results.record import Record

if TYPE_CHECKING:
    from torpor.results.kinds import ab as shapes

#: Without a --metric: a number as programs print it, the last one.
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

#: Most output of a command that is kept.
_OUTPUT_CHARS_MAX = 4000


@dataclass(frozen=True)
class Plan:
    """Plan of a comparison."""

    governors: Sequence[str]
    command: Sequence[str]
    rounds: int = 10
    #: With one group, the figure; of several matches the last one counts.
    metric: re.Pattern[str] | None = None
    #: Shuffles each round. Without it every second round runs backwards, so that steady drift
    #: affects all alike.
    seed: int | None = None
    #: Runs of the command before the first round, which do not count.
    warm_up: int = 1
    #: A line of JSON for the head, and one for each run as soon as it ends.
    output: Path | None = None


@dataclass
class Comparison:
    """Conditions of the comparison, and all runs of rounds that were finished."""

    head: shapes.AbHead
    runs: list[shapes.AbRun] = field(default_factory=list)
    stopped_by: signal.Signals | None = None


def result(comparison: Comparison) -> Record:
    """Return a comparison as a result."""
    from torpor.results.kinds.ab import made

    return Record(made(comparison.head, comparison.runs))


@dataclass(frozen=True)
class _Choice:
    """A governor as requested, and its provider: a module or the kernel."""

    label: str
    name: str
    module: Governor | None

    def described(self) -> shapes.AbGovernor:
        return {
            "label": self.label,
            "name": self.name,
            "module": self.module.module if self.module else None,
            "parameters": list(self.module.parameters) if self.module else [],
        }


def compare(
    plan: Plan,
    system: System,
    builder: Builder,
    progress: Callable[[shapes.AbRun], None] = lambda _: None,
) -> Comparison:
    """Run the comparison. Governor and modules are as before, whatever ends it.

    A signal ends it early; what was finished is in the result, and ``stopped_by`` is the signal.
    ``progress`` is given each run. Raises :class:`KernelError` when the machine cannot take part,
    or the command fails.
    """
    _check(plan, system)
    with Signals() as signals, journal.kept(system, "torpor ab") as keeper, ExitStack() as undo:
        choices = [_choose(label, system) for label in plan.governors]
        names = [choice.name for choice in choices]
        if len(set(names)) < len(names):
            raise KernelError(f"the same governor twice, by the kernel's names: {', '.join(names)}")
        wanted = [c.module for c in choices if c.module]
        if wanted:
            support.refuse(system)
        governors.load(system, builder, wanted, undo, keeper)
        governors.keep(system, undo, keeper)
        comparison = Comparison(_head(plan, system, choices))
        rounds = _schedule(plan, choices)
        if system.is_dry_run:
            _tell(system, plan, rounds)
            return comparison
        with ExitStack() as files:
            raw = files.enter_context(open(plan.output, "w")) if plan.output else None
            _write(raw, comparison.head)
            for _ in range(plan.warm_up):
                _, comparison.stopped_by = _measure(plan, system, signals, choices[0], 0)
            for number, order in enumerate(rounds, 1):
                finished = []
                for choice in order:
                    comparison.stopped_by = comparison.stopped_by or signals.wait(0)
                    if comparison.stopped_by:
                        return comparison
                    ran, comparison.stopped_by = _measure(plan, system, signals, choice, number)
                    if comparison.stopped_by:
                        return comparison
                    finished.append(ran)
                    _write(raw, ran)
                    progress(ran)
                comparison.runs += finished
    return comparison


def _check(plan: Plan, system: System) -> None:
    if len(plan.governors) < 2:
        raise KernelError("nothing to compare: expected at least two governors")
    if shutil.which(plan.command[0]) is None:
        raise KernelError(f"no command `{plan.command[0]}` to run")
    support.refuse_without_driver(system)
    support.refuse_others_than_root(system)


def _choose(label: str, system: System) -> _Choice:
    """The kernel's own governors are used by their names; all others become modules."""
    if label in system.governors and not governors.is_ours(system, label):
        return _Choice(label, label, None)
    module = resolve(label)
    return _Choice(label, module.name, module)


def _schedule(plan: Plan, choices: list[_Choice]) -> list[list[_Choice]]:
    stream = None if plan.seed is None else random.Random(plan.seed)
    rounds = []
    for number in range(plan.rounds):
        order = list(choices)
        if stream is not None:
            stream.shuffle(order)
        elif number % 2:
            order.reverse()
        rounds.append(order)
    return rounds


def _tell(system: System, plan: Plan, rounds: list[list[_Choice]]) -> None:
    command = shlex.join(plan.command)
    if plan.warm_up:
        system.tell(f"# {plan.warm_up} × {command}, not counted")
    for number, order in enumerate(rounds, 1):
        labels = ", ".join(choice.label for choice in order)
        system.tell(f"# round {number}: {command} under {labels}")


def _measure(
    plan: Plan, system: System, signals: Signals, choice: _Choice, number: int
) -> tuple[shapes.AbRun, signal.Signals | None]:
    """Run the command once, between two readings of all counters; the signal that ended it."""
    governors.use(system, choice.name, is_for_a_while=True)
    root = system.machine.cpu_dir
    meter = Meter(system.machine)
    before = counters.snapshot(root=root)
    began_at_ns = time.time_ns()
    ended = run(plan.command, signals, catches_output=True, tend=meter.update)
    meter.update()
    after = counters.snapshot(root=root)
    if ended.status:
        raise KernelError(
            f"`{shlex.join(plan.command)}` ended with status {ended.status} under {choice.label}:\n"
            + ended.output[-_OUTPUT_CHARS_MAX:].rstrip()
        )
    if system.governor != choice.name:
        raise KernelError(f"`{system.governor}` is current, but `{choice.name}` was to be measured")
    made: shapes.AbRun = {
        "round": number,
        "governor": choice.label,
        "began_at_ns": began_at_ns,
        "duration_ns": ended.duration_ns,
        "figure": None if ended.stopped_by else figure(ended.output, plan.metric),
        "energy_uj": meter.energy_uj,
        "counters": _counts(before, after),
        "output": ended.output[-_OUTPUT_CHARS_MAX:],
    }
    return made, ended.stopped_by


def figure(output: str, metric: re.Pattern[str] | None) -> float | None:
    """Return the command's own figure: of the last match of ``metric``, else the last number.

    Raises :class:`KernelError` where ``metric`` is given and finds no number.

    >>> figure("x86: 3 runs, mean 12.5 ms\\n", None)
    12.5
    >>> figure("12.5 ms at 99 %", re.compile(r"([\\d.]+) ms"))
    12.5
    """
    if metric is None:
        numbers = _NUMBER.findall(output)
        return float(numbers[-1]) if numbers else None
    matches = metric.findall(output)
    try:
        return float(matches[-1])
    except (IndexError, ValueError):
        found = f"`{matches[-1]}`, which is not a number" if matches else "nothing"
        raise KernelError(
            f"the metric `{metric.pattern}` finds {found}, in:\n{output[-500:].rstrip()}"
        ) from None


def _counts(before: counters.Snapshot, after: counters.Snapshot) -> shapes.AbCounters:
    """Return the counts in between, by CPUs of the same states."""
    found = counters.diff(before, after, labels=["run"])
    (interval,) = found["intervals"]
    return {
        "elapsed_ns": interval["elapsed_ns"],
        "notes": [note["text"] for note in interval["notes"]],
        "groups": [
            {
                "cpus": group["cpus"],
                "states": [
                    {
                        "name": state["name"],
                        "usage": counts["usage"],
                        "time_us": counts["time_us"],
                        "above": counts["above"],
                        "below": counts["below"],
                        "rejected": counts["rejected"],
                    }
                    for state, counts in zip(
                        group["states"], group["columns"][0]["states"], strict=True
                    )
                ],
            }
            for group in found["groups"]
        ],
    }


def _head(plan: Plan, system: System, choices: list[_Choice]) -> shapes.AbHead:
    meter = Meter(system.machine)
    return {
        "torpor": {"version": _engine.__version__},
        "kernel": system.machine.release(),
        "driver": system.driver,
        "cpu_count": len(system.machine.online_cpus()),
        "governors": [choice.described() for choice in choices],
        "command": list(plan.command),
        "rounds": plan.rounds,
        "metric": plan.metric.pattern if plan.metric else None,
        "seed": plan.seed,
        "warm_up": plan.warm_up,
        "energy_zones_unreadable": meter.unreadable,
    }


def _write(file: IO[str] | None, line: shapes.AbHead | shapes.AbRun) -> None:
    """A run may take long, and the machine may not come back from the next."""
    if file is not None:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
