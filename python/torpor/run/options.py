# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Options of the commands: each is declared once, as a field here.

A field has the type that the library takes and an ``Option``: its description, its default,
whether results depend on it, and its form on the command line. Library, command line, help, the
names of points and the reference follow. The engine's struct has a field of the same name, and no
default but "not given": it reads the value and acts on it.
"""

import functools
import inspect
import json
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypedDict, TypeVar, get_args, get_type_hints

from torpor import _engine
from torpor.run.option import Option

_Path = str | os.PathLike[str]
_BOOSTS = ", ".join(boost["name"] for boost in _engine.ioboosts())
_Item = TypeVar("_Item")
_Function = TypeVar("_Function", bound=Callable[..., Any])


LatencyLimit = Annotated[
    str | Iterable[str] | None,
    Option(
        "PM QoS bound on the exit latency, such as 50us, or of some CPUs: CPU:TIME, 0-3:50us.",
        "--latency-limit [CPU:]TIME",
        kind=list,
        default=(),
    ),
]
DisabledStates = Annotated[
    Iterable[int | str | tuple[int, int]],
    Option(
        "Idle states to disable: an index, or CPU:INDEX.",
        "--disable-state [CPU:]N",
        kind=list,
        default=(),
    ),
]
Isolate = Annotated[
    bool | None,
    Option(
        "Run each governor in a separate process, so that a crash does not end yours, or all in "
        "this process; default: separate processes for governors that do not ship with Torpor.",
        "--isolate/--no-isolate",
        kind=bool,
        decides=False,
    ),
]


class MachineOptions(TypedDict, total=False):
    """Options of how a machine idles."""

    latency_limit: LatencyLimit
    hz: Annotated[
        int | None,
        Option(
            "Tick rate, 100, 250, 300 or 1000; default: the recording's where it shows, or the "
            "machine's.",
            "--hz N",
            int,
        ),
    ]
    disabled_states: DisabledStates
    enabled_states: Annotated[
        Iterable[str],
        Option(
            "Idle states to enable that are disabled on the machine: a name or an index.",
            "--enable-state STATE",
            kind=list,
            default=(),
        ),
    ]


class _Run(MachineOptions, total=False):
    """Options that replay and simulation share."""

    threads: Annotated[
        int | None,
        Option(
            "Number of threads; default: one per core.",
            "-j --threads N",
            int,
            least=1,
            decides=False,
        ),
    ]
    isolate: Isolate


Cpus = Annotated[
    str | Iterable[int] | None,
    Option("Recorded CPUs to replay: 0-3,7.", "--cpus --cpu -C LIST"),
]


class PartOptions(TypedDict, total=False):
    """Part of a recording."""

    recorded_on: Annotated[
        _Path | None,
        Option(
            "The recorded machine, whose exit latencies correct the times of wake-ups; default: "
            "the dump that was saved with the recording, or the machine that it names.",
            "--recorded-on P",
        ),
    ]
    cpus: Cpus
    cpu_map: Annotated[
        str | Mapping[int, int] | None,
        Option(
            "Recorded CPU A runs as CPU B of the machine; several may share one.",
            "--cpu-map A:B,...",
        ),
    ]
    start: Annotated[
        str | None, Option("Leave out everything before this time: 1500ms.", "--from TIME")
    ]
    end: Annotated[str | None, Option("Leave out everything after this time: 3s.", "--to TIME")]


class ShadowOptions(MachineOptions, total=False):
    """Options of ``torpor shadow``."""

    cpus: Cpus


class ReplayOptions(_Run, PartOptions, total=False):
    """Options of :func:`torpor.replay`."""

    others: Annotated[
        str | None,
        Option(
            "CPUs of a cluster that are not in the recording: idle, in their deepest state all the "
            "time (the default), or busy, so that their cluster never rests.",
            "--others idle|busy",
        ),
    ]

    by: Annotated[
        str | None,
        Option(
            "Report which task, irq or timer ended the sleeps of a wrong depth, and their latency.",
            "--by task|irq|timer",
        ),
    ]
    time_decisions: Annotated[
        bool,
        Option(
            "Measure the time that the governor's code takes for each decision, on this machine; "
            "with -j 1 nothing else of Torpor runs at the same time.",
            "--time-decisions",
            kind=bool,
            default=False,
        ),
    ]
    decisions: Annotated[
        bool,
        Option(
            "Keep every decision for ``Replay.decisions``: 230 bytes each, 10 million at most.",
            default=True,
            decides=False,
        ),
    ]
    strip: Annotated[
        bool,
        Option(
            "Keep each CPU's first decisions for the report's strips.", default=True, decides=False
        ),
    ]


class SimulateOptions(_Run, total=False):
    """Options of :func:`torpor.simulate`."""

    duration: Annotated[
        str,
        Option(
            "Simulated time per run, such as 10s, the default.", "--duration TIME", default="10s"
        ),
    ]
    warm_up: Annotated[
        str,
        Option(
            "Simulated time before that in which nothing is counted; default: 0s.",
            "--warm-up TIME",
            default="0s",
        ),
    ]
    seeds: Annotated[
        int,
        Option(
            "Runs per governor; all use the same seeds. Default: 10.",
            "--seeds N",
            int,
            least=1,
            default=10,
        ),
    ]
    seed: Annotated[int, Option("The first seed; default: 1.", "--seed N", int, least=0, default=1)]
    cpufreq: Annotated[
        str | Iterable[str],
        Option(
            "cpufreq governor: schedutil, ondemand, conservative, performance, powersave, "
            "userspace,freq_khz=N (or N/M, one for each cluster) or PATH.c, with ,tunable=value. "
            "Each governor runs under each of them. Default: the machine's.",
            "--cpufreq POLICY",
            kind=list,
            default=(),
        ),
    ]
    background: Annotated[
        str | None,
        Option(
            "A second workload on the same machine, such as `background-vm`, the background of an "
            "idle machine; a name, or a .toml file. Default: none.",
            "--background NAME",
        ),
    ]
    device: Annotated[
        str | None,
        Option(
            "The IO device of the files that a workload names, as fio's jobs do: emmc, nvme, sd, "
            "ufs, or one of the machine's. Default: the machine's only one.",
            "--device NAME",
        ),
    ]
    cpus: Annotated[
        str | Iterable[int] | None,
        Option(
            "The machine's CPUs that are online: 0-3,7. The others run no tasks. Default: all.",
            "--cpus --cpu -C LIST",
        ),
    ]
    kernels: Annotated[
        str | Iterable[str],
        Option(
            "The kernel whose scheduler, tick, timers, idle loop and governors decide: a release "
            "(6.1), a tree, a tarball or TREE:REV, each with +SERIES[:N], patches from mails, and "
            "with ,config=FILE or ,CONFIG_X=VALUE. Each governor runs in each of them. Default: "
            "6.12.",
            "--kernel -k K",
            kind=list,
            default=(),
        ),
    ]
    kernel_args: Annotated[
        str | None,
        Option(
            "Arguments on the command line of the kernels, as a boot loader gives them: "
            "`isolcpus=2-7 nohz_full=2-7`.",
            "--kernel-args ARGS",
        ),
    ]
    io_boosts: Annotated[
        str | Iterable[str],
        Option(
            f"IO boost: {_BOOSTS} or PATH.c, each with ,param=value. Each governor runs "
            "with each of them. Default: iowait where the frequency is not held, as in the kernel.",
            "--io-boost B",
            kind=list,
            default=(),
        ),
    ]
    schedulers: Annotated[
        str | Iterable[str],
        Option(
            "Scheduler of normal tasks: eevdf, the kernel's own, or the program of a sched_ext "
            "scheduler (./scx_simple.bpf.c), with ,variable=value for its constants. Each governor "
            "runs with each of them. Default: eevdf.",
            "--sched S",
            kind=list,
            default=(),
        ),
    ]
    writes: Annotated[
        str | Iterable[str],
        Option(
            "What is written to a file of the kernel once it is up, as PATH=VALUE: a path below "
            "/sys, /proc/sys or /dev, which may have *; a sysctl (kernel.sched_energy_aware=0), a "
            "module's parameter (haltpoll.guest_halt_poll_ns=100000), or a file's name alone "
            "(scaling_max_freq=1200000), of all CPUs.",
            "--write PATH=VALUE",
            kind=list,
            default=(),
        ),
    ]
    trace: Annotated[
        _Path | None,
        Option(
            "Write the first governor's first run as a recording: .perfetto-trace, otherwise "
            "ftrace text.",
            "--trace FILE",
            decides=False,
        ),
    ]
    strip: Annotated[
        bool,
        Option(
            "Keep each CPU's first decisions, of the first seed, for the report's strips.",
            default=False,
            decides=False,
        ),
    ]


class FidelityOptions(TypedDict, total=False):
    """Options of :func:`torpor.fidelity`: the recorded machine, and how to judge."""

    latency_limit: LatencyLimit
    disabled_states: DisabledStates
    probes: Annotated[
        bool,
        Option(
            "Use the values that probes recorded; otherwise use timer events.",
            "--probes/--without-probes",
            kind=bool,
            default=True,
        ),
    ]
    fit: Annotated[
        bool,
        Option(
            "Use the assumptions with the best agreement, unless probes make them unnecessary.",
            "--fit/--no-fit",
            kind=bool,
            default=True,
        ),
    ]
    disagreements: Annotated[
        int,
        Option(
            "How many of the first disagreements the result has.",
            kind=int,
            least=0,
            default=10,
        ),
    ]
    isolate: Isolate


@functools.cache
def fields(of: type) -> dict[str, tuple[Any, Option]]:
    """Return every option with its type, in order."""
    hints = get_type_hints(of, include_extras=True)
    return {name: get_args(hint) for name, hint in hints.items()}


def to_json(of: type, given: Mapping[str, Any], **found: object) -> str:
    """Spell options as the engine reads them, with their defaults, and what else was ``found``.

    ``given`` among them is what results repeat. Raises TypeError for a keyword that is none.
    """
    known = fields(of)
    unknown = set(given) - set(known)
    if unknown:
        raise TypeError(f"unexpected options {sorted(unknown)}: expected some of {[*known]}")
    whole = {name: option.default for name, (_, option) in known.items()} | found
    whole |= {name: value for name, value in given.items() if value is not None}
    whole = {name: value for name, value in whole.items() if value is not None}
    return json.dumps({**whole, "given": decisive(of, given)}, default=_plain)


def decisive(of: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given of the options that decide something of a result."""
    known = fields(of)
    return {n: value for n, value in given.items() if value is not None and known[n][1].decides}


def limits_text(given: Mapping[str, Any]) -> str | None:
    """Return the latency limits that were given, as one text."""
    limits = given.get("latency_limit") or None
    return limits if isinstance(limits, str) or limits is None else ",".join(limits)


def not_empty(name: str, values: list[_Item]) -> list[_Item]:
    """Return the values of an argument; raise TorporError if there are none."""
    if not values:
        raise _engine.TorporError(f"option `{name}` is empty: expected at least one")
    return values


def each_once(name: str, values: list[_Item]) -> list[_Item]:
    """Return the values of an argument; raise TorporError if there are none, or one is repeated."""
    for place, value in enumerate(not_empty(name, values)):
        if value in values[:place]:
            raise _engine.TorporError(
                f"option `{name}` names `{value}` twice: two columns would be the same"
            )
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{value!r}: expected a text, a number, or several")


def documented(of: type) -> Callable[[_Function], _Function]:
    """Put options into the signature of a function, and into its docstring for ``{options}``."""

    def document(function: _Function) -> _Function:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=o.default, annotation=t)
            for name, (t, o) in fields(of).items()
        ]
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*own, *more]
        )
        described = "\n".join(
            textwrap.fill(
                f"{name}: {option.help}", 92, subsequent_indent=" " * 4, break_on_hyphens=False
            )
            for name, (_, option) in fields(of).items()
        )
        text = inspect.cleandoc(function.__doc__ or "")
        function.__doc__ = text.replace("    {options}", textwrap.indent(described, " " * 4))
        return function

    return document
