# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Options of the commands: each is one field here, which library, command line and help share.

A field has the type that the library takes and an :class:`Option`: what is told of it, and how the
command line spells it. The engine reads, checks and records what was given, so nothing else in
Python names an option.
"""

import functools
import inspect
import json
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple, TypedDict, TypeVar, get_args, get_type_hints

from torpor import _engine

_Path = str | os.PathLike[str]
_BOOSTS = ", ".join(boost["name"] for boost in json.loads(_engine.ioboosts()))
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Option(NamedTuple):
    """What is told of an option beside its name and type."""

    help: str
    #: As on the command line; the library alone has it if there are none.
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    #: What the command line gives: a text, several texts, a number or a switch.
    kind: type = str
    #: The least number.
    least: int | None = None
    #: Where nothing else is given; the engine knows it, too.
    default: object = None
    #: It decides something of the result.
    decides: bool = True


LatencyLimit = Annotated[
    str | None,
    Option("PM QoS bound on the exit latency, such as 50us.", ("--latency-limit",), "TIME"),
]
DisabledStates = Annotated[
    Iterable[int | str | tuple[int, int]],
    Option(
        "Idle states to switch off: the index, or CPU:INDEX.",
        ("--disable-state",),
        "[CPU:]N",
        kind=list,
        default=(),
    ),
]
Isolate = Annotated[
    bool | None,
    Option(
        "Run each governor in a process of its own, so that nothing it does to that ends yours, or "
        "all in this one; default: those that do not ship in their own.",
        ("--isolate/--no-isolate",),
        kind=bool,
        decides=False,
    ),
]


class _Run(TypedDict, total=False):
    """What replay and simulation share."""

    latency_limit: LatencyLimit
    hz: Annotated[
        int | None,
        Option("Tick rate, 100, 250, 300 or 1000; default: the machine's.", ("--hz",), "N", int),
    ]
    disabled_states: DisabledStates
    enabled_states: Annotated[
        Iterable[str],
        Option(
            "Idle states to switch on that the machine has off: the name or the index.",
            ("--enable-state",),
            "STATE",
            kind=list,
            default=(),
        ),
    ]
    threads: Annotated[
        int | None,
        Option(
            "Threads; default: one a core.", ("-j", "--threads"), "N", int, least=1, decides=False
        ),
    ]
    isolate: Isolate


class ReplayOptions(_Run, total=False):
    """Of :func:`torpor.replay`."""

    recorded_on: Annotated[
        _Path | None,
        Option(
            "Machine of the recording, if known: its exit latencies place the wake-ups.",
            ("--recorded-on",),
            "P",
        ),
    ]
    cpus: Annotated[
        str | Iterable[int] | None,
        Option("Recorded CPUs to replay: 0-3,7.", ("--cpus", "--cpu", "-C"), "LIST"),
    ]
    cpu_map: Annotated[
        str | Mapping[int, int] | None,
        Option(
            "Recorded CPU A runs as CPU B of the machine; several may share one.",
            ("--cpu-map",),
            "A:B,...",
        ),
    ]
    start: Annotated[
        str | None, Option("Leave out what comes sooner: 1500ms.", ("--from",), "TIME")
    ]
    end: Annotated[str | None, Option("Leave out what comes later: 3s.", ("--to",), "TIME")]
    by: Annotated[
        str | None,
        Option(
            "Say which task, irq or timer ended the sleeps of a wrong depth, and met the latency.",
            ("--by",),
            "task|irq|timer",
        ),
    ]
    time_decisions: Annotated[
        bool,
        Option(
            "Measure what the governor's code takes for each decision, on this machine; with -j 1 "
            "nothing of ours runs beside it.",
            ("--time-decisions",),
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
        Option("Keep one CPU's choices for the report's time strip.", default=True, decides=False),
    ]


class SimulateOptions(_Run, total=False):
    """Of :func:`torpor.simulate`."""

    duration: Annotated[
        str,
        Option(
            "Simulated time a run, such as 10s, the default.",
            ("--duration",),
            "TIME",
            default="10s",
        ),
    ]
    seeds: Annotated[
        int,
        Option(
            "Runs a governor; all meet the same seeds. Default: 10.",
            ("--seeds",),
            "N",
            int,
            least=1,
            default=10,
        ),
    ]
    seed: Annotated[
        int, Option("The first seed; default: 1.", ("--seed",), "N", int, least=0, default=1)
    ]
    cpufreq: Annotated[
        str | Iterable[str],
        Option(
            "Frequency policy: performance, powersave, userspace,freq_khz=N (or N/M, one for each "
            "cluster) or schedutil[@6.1|@6.12][,rate_limit_us=N]. Each governor runs "
            "under each of them. Default: the machine's.",
            ("--cpufreq",),
            "POLICY",
            kind=list,
            default=(),
        ),
    ]
    cpus: Annotated[
        str | Iterable[int] | None,
        Option(
            "The machine's CPUs that are online: 0-3,7. The others take no work. Default: all.",
            ("--cpus", "--cpu", "-C"),
            "LIST",
        ),
    ]
    kernels: Annotated[
        str | Iterable[str],
        Option(
            "Let a Linux kernel's own source decide: scheduler, tick, timers, idle loop, "
            "governors, schedutil. A release at hand (6.12), a tree, a tarball or TREE:REV. Each "
            "governor runs in each of them. Default: Torpor's own scheduler.",
            ("--kernel", "-k"),
            "K",
            kind=list,
            default=(),
        ),
    ]
    io_boosts: Annotated[
        str | Iterable[str],
        Option(
            f"IO boost: {_BOOSTS} or PATH.c, each with ,param=value. Each governor runs "
            "with each of them. Default: iowait under schedutil, as in the kernel.",
            ("--io-boost",),
            "B",
            kind=list,
            default=(),
        ),
    ]
    trace: Annotated[
        _Path | None,
        Option(
            "Write the first governor's first run as a recording: .perfetto-trace, else ftrace "
            "text.",
            ("--trace",),
            "FILE",
            decides=False,
        ),
    ]
    strip: Annotated[
        bool,
        Option(
            "Keep the busiest CPU's choices of the first seed for the report's time strip.",
            default=False,
            decides=False,
        ),
    ]


class FidelityOptions(TypedDict, total=False):
    """Of :func:`torpor.fidelity`: the recorded machine, and how to judge."""

    latency_limit: LatencyLimit
    disabled_states: DisabledStates
    probes: Annotated[
        bool,
        Option(
            "Take the answers that probes recorded; else timer events have to do.",
            ("--probes/--without-probes",),
            kind=bool,
            default=True,
        ),
    ]
    fit: Annotated[
        bool,
        Option(
            "Choose the assumptions that agree best, where no probe makes them needless.",
            ("--fit/--no-fit",),
            kind=bool,
            default=True,
        ),
    ]
    disagreements: Annotated[
        int,
        Option(
            "How many of the first ones to show; default: 10.",
            ("--disagreements",),
            "N",
            int,
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
    """Spell options as the engine reads them, and what was ``found`` beside them.

    Raises TypeError for a keyword that is none of them.
    """
    unknown = set(given) - set(fields(of))
    if unknown:
        raise TypeError(f"unexpected options {sorted(unknown)}: expected some of {[*fields(of)]}")
    return json.dumps({**given, **found}, default=_plain)


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
        told = "\n".join(
            textwrap.fill(
                f"{name}: {option.help}", 92, subsequent_indent=" " * 4, break_on_hyphens=False
            )
            for name, (_, option) in fields(of).items()
        )
        text = inspect.cleandoc(function.__doc__ or "")
        function.__doc__ = text.replace("    {options}", textwrap.indent(told, " " * 4))
        return function

    return document
