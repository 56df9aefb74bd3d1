# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor record`: a recording of this machine, and its description for a replay."""

import shlex
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import click

from torpor import TorporError
from torpor.cli import options, progress
from torpor.cli.console import note_if_never_idle, print_note, write_stdout
from torpor.cli.deliver import check_new
from torpor.cli.exits import EXIT_FINDING, leave_if
from torpor.cli.options import argument, like, option
from torpor.cli.values import duration_ns
from torpor.machine import counters
from torpor.machine import cstate_counters as residency
from torpor.machine import running as live
from torpor.machine.record import recipes
from torpor.machine.record.machine import Machine, read
from torpor.run import recordings

if TYPE_CHECKING:
    from torpor.machine.record import session
    from torpor.results.kinds import diff as shapes

_OUTPUT = Path("torpor.trace")
_RECIPE_SECONDS = 10
#: Beyond, the recorder's own wake-ups are left to `torpor trace stats`, which takes its time.
_STATS_BYTES_MAX = 256 << 20


class Backend(str, Enum):
    """As --backend takes it."""

    AUTO = "auto"
    TRACEFS = "tracefs"
    PERF = "perf"


class Recipe(str, Enum):
    """As --print takes it."""

    PERF = "perf"
    TRACE_CMD = "trace-cmd"
    PERFETTO = "perfetto"
    TRACEFS = "tracefs"


_RecipeName = Annotated[
    Recipe | None,
    option(
        "--print TOOL",
        "Print how to record with perf, trace-cmd, perfetto or a bare shell (tracefs), "
        "and record nothing.",
    ),
]


def record(
    command: Annotated[
        list[str] | None, argument("[-- COMMAND...]", "Command to run; the recording ends with it.")
    ] = None,
    output: Annotated[Path, like(live.record_trace, "output", "--output -o FILE")] = _OUTPUT,
    duration: Annotated[str | None, like(live.record_trace, "duration", "TIME")] = None,
    backend: Annotated[Backend, like(live.record_trace, "backend", "B")] = Backend.AUTO,
    buffer_kb: Annotated[
        int | None, like(live.record_trace, "buffer_kb", "--buffer-kb N", least=64)
    ] = None,
    no_probes: Annotated[
        bool, option("--no-probes", "Set no return probes in the kernel.")
    ] = False,
    reset_governor: Annotated[
        bool, like(live.record_trace, "reset_governor", "--reset-governor")
    ] = False,
    force: options.Force = False,
    recipe: _RecipeName = None,
) -> None:
    """Record this machine: idle states, wake-ups, timers, and the governor's inputs.

    Ends with the command, the duration or Ctrl-C. Also writes FILE.before.txt and FILE.after.txt
    (idle states and their counters), FILE.machine.json (kernel, governor, topology, limits, which
    events), and FILE.kallsyms with perf. Changes no setting of the machine by default.

    Exit status: that of COMMAND, if it failed; 1 if events were lost; 2 if nothing was recorded;
    ended by a signal, 128 and its number.
    """
    limit_ns = duration_ns(duration)
    if recipe is not None:
        seconds = _RECIPE_SECONDS if limit_ns is None else max(limit_ns // 10**9, 1)
        write_stdout(recipes.RECIPES[recipe.value](seconds))
        return
    check_new(output, force=force)
    note_if_never_idle(Machine())
    if not command and limit_ns is None:
        print_note("recording until Ctrl-C")
    watch = residency.Watch(counters.SYSFS)
    with progress.if_watched() as bar:
        made = live.record_trace(
            output,
            command=command or (),
            duration=duration,
            backend=backend.value,
            buffer_kb=buffer_kb,
            probes=not no_probes,
            reset_governor=reset_governor,
            force=force,
            progress=bar,
        )
    is_lossy = _tell(made, watch.end())
    leave_if(made.stopped_by)
    if made.status:
        print_note(f"the command ended with status {made.status}")
        raise click.exceptions.Exit(made.status)
    if is_lossy:
        raise click.exceptions.Exit(EXIT_FINDING)


def _counted(made: "session.Recording", hardware: residency.Got) -> list[str]:
    """Return lines on facts without events: entries that the driver refused, states that the
    hardware entered."""
    dumps = [file for file in made.beside if file.name.endswith((".before.txt", ".after.txt"))]
    try:
        taken = [counters.snapshot(dump) for dump in sorted(dumps, reverse=True)]
        result = cast("shapes.Diff", counters.diff(*taken))
    except TorporError:
        return []
    counters.add_hardware(result, hardware, taken[-1])
    notes = []
    for group in result["groups"]:
        of = "time" if group["columns"][0]["residency_of"] == "elapsed" else "idle time"
        for got in group["columns"][0]["got"]:
            names = ", ".join(group["states"][place]["name"] for place in got["states"])
            requested = got["requested_ratio"]
            share = "no state" if requested is None else f"{requested:.2%} of {of} ({names})"
            notes.append(f"note: {got['counter']}: requested {share}, got {got['got_ratio']:.2%}")
        for state, counts in zip(group["states"], group["columns"][0]["states"], strict=True):
            if counts["rejected"]:
                notes.append(
                    f"note: the driver rejected {counts['rejected']:,} entries into state "
                    f"{state['index']} {state['name']} of {counts['usage']:,} (no event shows them)"
                )
    return notes


def _overhead(made: "session.Recording") -> list[str]:
    """Return lines on the recording's own cost: CPU time as the kernel counts it, wake-ups as
    recorded."""
    seconds = made.duration_ns / 1e9
    own, recorder = made.own_cpu_ns, made.recorder_cpu_ns
    times = [f"torpor {own / 1e6:.0f} ms"]
    if recorder is not None:
        times.append(f"{made.backend} {recorder / 1e6:.0f} ms, its start and end included")
    share = (own + (recorder or 0)) / made.duration_ns * 100 if made.duration_ns else 0.0
    note = f"note: the recorder took CPU time: {', '.join(times)} ({share:.2f} % of one CPU)"
    if made.output.stat().st_size > _STATS_BYTES_MAX:
        return [note]
    try:
        tasks = recordings.trace_stats(made.output)["tasks"]
    except TorporError:
        return [note]
    names = {(read(Path("/proc/self/comm")) or "torpor"), made.backend}
    ours = [task for task in tasks if task["comm"] in names]
    if not ours or not seconds:
        return [note]
    wakeups = sum(task["wakeups"] for task in ours)
    shown = ", ".join(sorted({task["comm"] for task in ours}))
    return [f"{note}; {shown} ended {wakeups:,} sleeps ({wakeups / seconds:.1f} per s)"]


def _tell(made: "session.Recording", hardware: residency.Got) -> bool:
    """Print what was recorded and what was not; return whether events were lost."""
    for note in made.notes:
        print_note(f"note: {note}")
    lost_count = made.saved.lost_count or 0
    facts = [
        f"{made.duration_ns / 1e9:.2f} s",
        f"{made.output.stat().st_size / 1e6:.1f} MB",
        f"by {made.backend}",
    ]
    if made.saved.events_count is not None:
        facts.append(f"{made.saved.events_count:,} events")
    try:
        info = recordings.trace_info(made.output)
    except TorporError as error:
        print_note(f"note: {error}")
    else:
        sleeps_count = sum(cpu["sleeps"] for cpu in info["cpus"])
        facts.append(f"{sleeps_count:,} sleeps")
        if not sleeps_count:
            print_note("note: no CPU was seen asleep, so there is nothing to replay")
        damage = [loss for loss in info["losses"] if loss["severity"] == "damage"]
        lost_count = max(lost_count, sum(loss["count"] for loss in damage))
    for counted in _counted(made, hardware):
        print_note(counted)
    for own in _overhead(made):
        print_note(own)
    facts.append(f"{lost_count:,} events lost" if lost_count else "nothing lost")
    print_note(f"recorded {made.output}: {', '.join(facts)}")
    print_note(f"with it: {', '.join(file.name for file in made.beside)}")
    if lost_count:
        print_note("hint: a larger --buffer-kb loses less")
    file = shlex.quote(str(made.output))
    print_note(f"next: torpor trace info {file}")
    if Machine().idle_driver():
        print_note(
            f"      torpor platform import -o mine.toml && torpor replay {file} -p mine.toml"
        )
    else:
        print_note(f"      torpor replay {file} -p NAME (`torpor platform list`)")
    return lost_count > 0
