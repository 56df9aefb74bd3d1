# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""From axes to points: patterns, ranges, products, ties and exclusions."""

import glob
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Annotated, Any, TypedDict, get_type_hints

from torpor import _engine
from torpor._engine import TorporError
from torpor.machine.toml import toml_file
from torpor.run import options
from torpor.run.option import Option
from torpor.run.sweeps import commits

#: A range of whole numbers in a parameter: ``shift=1..10``.
_RANGE = r"(-?\d+)\.\.(-?\d+)"
_PATTERN = r"[*?\[]"
#: Numbers after the name of a machine or a workload.
_NUMBERS = r"(?s)(.*?)((?:,[\w.*-]+=[^,]*)*)"

#: Prefixes of the names of platforms', workloads' and devices' numbers.
PLACES = ("platform.", "workload.", "device.")

#: Axes of a replay; the others apply only to simulations.
_OF_REPLAY = {"trace", "platform", "governor", "hz", "latency_limit"}


class SweepError(TorporError):
    """A sweep cannot begin; the message names the axis, its value and what is allowed."""


@dataclass(frozen=True)
class Point:
    """One governor in one scenario with one seed. An axis that does not apply is None."""

    kind: str
    source: str
    platform: str
    governor: str
    kernel: str | None = None
    kernel_args: str | None = None
    cpufreq: str | None = None
    io_boost: str | None = None
    scheduler: str | None = None
    hz: int | None = None
    latency_limit: str | None = None
    seed: int | None = None
    #: Every other option that decides something, as canonical JSON.
    options: str = "{}"
    #: Whether the distance to the oracle is computed along with it (simulations).
    has_oracle: bool = False

    @property
    def scenario(self) -> tuple[object, ...]:
        """All but the governor and the seed."""
        return tuple(
            getattr(self, f.name) for f in fields(self) if f.name not in ("governor", "seed")
        )


@dataclass
class Axes:
    """Axes of a sweep. Each axis is a list; a product over an empty one leaves the option out.

    ``param`` are numbers of platforms and workloads: ``platform.PATH=VALUES``,
    ``workload.PATH=VALUES``, ``device.NAME.PATH=VALUES``. ``ties`` replaces the product of the axes
    that it names by the combinations that it lists. ``excluded`` drops the points that match all
    patterns of an entry.
    """

    trace: Annotated[list[str], Option("Recordings: paths or patterns.", "--trace -t FILE")] = (
        field(default_factory=list)
    )
    workload: Annotated[
        list[str], Option("Workloads: names or files.", "--workload -w WORKLOAD")
    ] = field(default_factory=list)
    platform: Annotated[
        list[str], Option("Machines: names, patterns or files.", "--platform -p P")
    ] = field(default_factory=list)
    governor: Annotated[
        list[str],
        Option(
            "As everywhere, or a pattern: '*' are those that ship, without the oracle. A parameter "
            "may be a range or a list: ./my.c,shift=1..10, teo,util_shift=4|6; a revision may be a "
            "range, of the commits that change the file: teo@linux:v6.12..v7.1.",
            "--governor -g G",
        ),
    ] = field(default_factory=list)
    kernel: Annotated[list[str], Option("Kernels to host (simulations).", "--kernel -k K")] = field(
        default_factory=list
    )
    kernel_args: Annotated[
        list[str],
        Option("Arguments on the kernels' command lines (simulations).", "--kernel-args ARGS"),
    ] = field(default_factory=list)
    cpufreq: Annotated[
        list[str], Option("Frequency policies (simulations).", "--cpufreq POLICY")
    ] = field(default_factory=list)
    io_boost: Annotated[list[str], Option("IO boosts (simulations).", "--io-boost B")] = field(
        default_factory=list
    )
    scheduler: Annotated[
        list[str], Option("Schedulers: eevdf or PATH.bpf.c (simulations).", "--sched S")
    ] = field(default_factory=list)
    hz: Annotated[list[int], Option("Tick rates.", "--hz N", int)] = field(default_factory=list)
    latency_limit: Annotated[
        list[str],
        Option(
            "PM QoS bounds: TIME, or of some CPUs, with commas: 50us,4-7:10us.",
            "--latency-limit TIME",
        ),
    ] = field(default_factory=list)
    write: Annotated[
        list[str],
        Option(
            "What is written to a file of the kernel (simulations), or nothing: ''.",
            "--write PATH=VALUE",
        ),
    ] = field(default_factory=list)
    param: Annotated[
        list[str],
        Option(
            "A number of all platforms or workloads: platform.ipi_delivery_us=1..5, "
            "workload.task.ui.count=1|2, device.emmc.read_us.mean=150|200.",
            "--param PATH=VALUES",
        ),
    ] = field(default_factory=list)
    seeds: int = 10
    seed: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    ties: list[dict[str, Any]] = field(default_factory=list)
    excluded: list[dict[str, Any]] = field(default_factory=list)

    def points(self) -> list[Point]:
        """Return every point, each once, in a fixed order.

        Raises :class:`SweepError` for an axis that is empty where it is needed, and for a pattern
        that matches nothing.
        """
        self._check_options()
        expanded = self._expanded()
        if not expanded["trace"] and not expanded["workload"]:
            raise SweepError(
                "nothing to run: there is neither a recording nor a workload\n"
                "hint: -t FILE for recordings, -w NAME for workloads"
            )
        for name in ("platform", "governor"):
            if not expanded[name]:
                raise SweepError(f"the axis `{name}` is empty: expected at least one")
        found: dict[Point, None] = {}
        for chosen in self._combinations(expanded):
            if self._is_excluded(chosen):
                continue
            found.update(dict.fromkeys(self._points_of(chosen)))
        if not found:
            raise SweepError("`exclude` leaves no point")
        return list(found)

    def _check_options(self) -> None:
        known = [*options.fields(options.SimulateOptions), *REPLAY_OPTIONS]
        known = [name for name in known if name not in POINT_OPTIONS]
        for name in self.options:
            if name not in known:
                raise SweepError(_engine.unknown_name("option", name, known, ""))

    def _expanded(self) -> dict[str, list[Any]]:
        values: dict[str, list[Any]] = {name: list(getattr(self, name)) for name in _AXES}
        for row in self.ties:
            for name, value in row.items():
                if name not in _AXES:
                    raise SweepError(f"`tie` names `{name}`: expected one of {', '.join(_AXES)}")
                row[name] = _EXPAND.get(name, _as_is)(_listed(value))
        for name, expand in _EXPAND.items():
            values[name] = expand(values[name])
        tied = {name for row in self.ties for name in row}
        for name in tied:
            if values[name]:
                raise SweepError(f"the axis `{name}` is given both on its own and in `tie`")
            values[name] = [value for row in self.ties for value in row.get(name, [])]
        for text in self.param:
            place, path = _place_of(text)
            if not values[place]:
                raise SweepError(f"`{text}`: there is no {place}")
            for has in (values, *self.ties):
                if place in has:
                    has[place] = [each for old in has[place] for each in expand_params(old + path)]
        return values

    def _combinations(self, values: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
        tied = {name for row in self.ties for name in row}
        free = [name for name in _AXES if name not in tied and name not in ("trace", "workload")]
        rows: Iterable[dict[str, Any]] = self.ties or [{}]
        for row in rows:
            sources = [
                (name, value)
                for name in ("trace", "workload")
                for value in (row.get(name, []) if name in tied else values[name])
            ]
            others = {name: row[name] for name in row if name not in ("trace", "workload")}
            others |= {name: values[name] or [None] for name in free}
            for (kind, source), *chosen in itertools.product(sources, *others.values()):
                yield {kind: source, **dict(zip(others, chosen, strict=True))}

    def _is_excluded(self, chosen: Mapping[str, Any]) -> bool:
        def matches(entry: Mapping[str, Any]) -> bool:
            for name in entry:
                if name not in _AXES:
                    raise SweepError(
                        f"`exclude` names `{name}`: expected one of {', '.join(_AXES)}"
                    )
            return all(
                any(fnmatchcase(str(chosen.get(name)), str(pattern)) for pattern in _listed(value))
                for name, value in entry.items()
            )

        return any(matches(entry) for entry in self.excluded)

    def _points_of(self, chosen: Mapping[str, Any]) -> Iterator[Point]:
        is_replay = "trace" in chosen
        # A replay ignores options of a simulation, which would only add duplicate points.
        given = {n: v for n, v in self.options.items() if (n in REPLAY_OPTIONS) == is_replay}
        if chosen.get("write") and not is_replay:
            given["writes"] = [*_listed(given.get("writes", [])), chosen["write"]]
        options = json.dumps(given, sort_keys=True)
        own = {
            name: chosen[name]
            for name in _AXES
            if name in chosen
            and name not in ("trace", "workload", "write")
            and (not is_replay or name in _OF_REPLAY)
        }
        if is_replay:
            yield Point(kind="replay", source=chosen["trace"], options=options, **own)
            return
        own["kernel"] = own.get("kernel") or _engine.default_kernel()
        has_oracle = "oracle" in self.governor
        if own["governor"].partition(",")[0] == "oracle":
            # In closed loop the future depends on the choices: the oracle is a distance from each
            # governor, not a column.
            return
        for seed in range(self.seed, self.seed + self.seeds):
            yield Point(
                kind="simulation",
                source=chosen["workload"],
                options=options,
                seed=seed,
                has_oracle=has_oracle,
                **own,
            )


def read_toml(path: str | os.PathLike[str]) -> Axes:
    """Read a sweep's file: tables ``axes`` and ``options``, lists ``tie`` and ``exclude``.

    Paths are relative to the working directory, as on the command line. Raises
    :class:`SweepError` for what does not belong there.
    """
    return axes_of(toml_file(path, file_shape(), SweepError, "read sweep"))


def axes_of(data: Mapping[str, Any]) -> Axes:
    """Return the axes that a sweep's file describes."""
    numbers = ("seeds", "seed")
    given: dict[str, Any] = {
        n: v if n in numbers else _listed(v) for n, v in data.get("axes", {}).items()
    }
    given |= {"ties": data.get("tie", []), "excluded": data.get("exclude", [])}
    return Axes(**given, options=data.get("options", {}))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _as_is(values: list[Any]) -> list[Any]:
    return values


def _traces(patterns: list[str]) -> list[str]:
    found: list[str] = []
    for pattern in patterns:
        matched = sorted(glob.glob(pattern, recursive=True)) or [pattern] * os.path.exists(pattern)
        if not matched:
            why = _engine.missing_file(pattern)
            raise SweepError(f"no recording matches `{pattern}`: {why}")
        found += matched
    return found


def _named(axis: str, lister: Any) -> Any:
    def matching(pattern: str) -> list[str]:
        if not re.search(_PATTERN, pattern) or os.path.exists(pattern):
            return [pattern]
        known = _known(lister)
        matched = [name for name in known if fnmatchcase(name, pattern)]
        matched = matched or sorted(glob.glob(pattern, recursive=True))
        if not matched:
            raise SweepError(
                f"no {axis} matches `{pattern}`: expected one of {', '.join(known)}, or a file"
            )
        return matched

    def expand(typed: list[str]) -> list[str]:
        found: list[str] = []
        for text in typed:
            base, numbers = split_numbers(text)
            found += [each for name in matching(base) for each in expand_params(name + numbers)]
        return found

    return expand


def _governors(typed: list[str]) -> list[str]:
    """Return governors by their patterns, and a range of commits as the files that it made."""
    found: list[str] = []
    for text in typed:
        base, numbers = split_numbers(text)
        bases = commits.expand(base)
        found += [each + numbers for each in bases] if len(bases) > 1 else [text]
    named: list[str] = _named("governor", _engine.governors)(found)
    return named


def _place_of(text: str) -> tuple[str, str]:
    """Return the axis that a ``param`` belongs to, and what follows its names."""
    place, dot, rest = text.partition(".")
    path, equals, values = rest.partition("=")
    if place not in ("platform", "workload", "device") or not (dot and path and equals and values):
        raise SweepError(
            f"`{text}`: expected platform.PATH=VALUES, workload.PATH=VALUES or "
            "device.NAME.PATH=VALUES\n"
            "hint: a governor's parameters follow its name: -g 'teo,util_shift=4|6'"
        )
    if place == "device":
        return "platform", f",io_device.{rest}"
    return place, f",{rest}"


def split_numbers(text: str) -> tuple[str, str]:
    """Split a name from the parameters after it, which keep their comma.

    >>> split_numbers("./a,b.toml,hz=250,ipi_send_us=1")
    ('./a,b.toml', ',hz=250,ipi_send_us=1')
    """
    found = re.fullmatch(_NUMBERS, text)
    return (found[1], found[2]) if found else (text, "")


def expand_params(spec: str) -> list[str]:
    """Return a name once for each value of the parameters after it.

    ``A..B`` are the whole numbers from A to B, ``A|B|C`` the values given.

    >>> expand_params("./my.c,shift=1..3")
    ['./my.c,shift=1', './my.c,shift=2', './my.c,shift=3']
    >>> expand_params("teo,a=1|5,b=0..1")
    ['teo,a=1,b=0', 'teo,a=1,b=1', 'teo,a=5,b=0', 'teo,a=5,b=1']
    """
    name, after = split_numbers(spec)
    params = after.split(",")[1:]
    choices = []
    for param in params:
        key, equals, text = param.partition("=")
        values = []
        for part in text.split("|"):
            bounds = re.fullmatch(_RANGE, part)
            if bounds is None:
                values.append(part)
                continue
            low, high = int(bounds[1]), int(bounds[2])
            if low > high:
                raise SweepError(f"`{spec}`: the range {part} is empty")
            values += [str(value) for value in range(low, high + 1)]
        choices.append([f"{key}{equals}{value}" for value in values])
    return [",".join((name, *chosen)) for chosen in itertools.product(*choices)]


def _known(lister: Any) -> list[str]:
    # The oracle is no governor: only a sweep that names it has it.
    return [entry["name"] for entry in lister() if entry["name"] != "oracle"]


#: The axes as options of a command.
OPTIONS: dict[str, Option] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Axes, include_extras=True).items()
    if hasattr(hint, "__metadata__")
}
#: Axes whose values make points; ``param`` changes values of the others.
_AXES = tuple(name for name in OPTIONS if name != "param")


def file_shape() -> Any:
    """Return the type of a sweep's file."""
    from msgspec import Meta

    values: Any = str | float | list[str | float]
    count = Annotated[int, Meta(ge=1)]
    axes = dict.fromkeys(OPTIONS, values) | dict.fromkeys(("seeds", "seed"), count)
    rows = list[dict[str, Any]]
    keys = {"axes": TypedDict("axes", axes, total=False), "options": dict[str, Any]}  # type: ignore[operator]
    return TypedDict("file", keys | {"tie": rows, "exclude": rows}, total=False)  # type: ignore[operator]


#: Options of a simulation that axes, points or the runner decide.
POINT_OPTIONS = (
    *("seeds", "seed", "cpufreq", "kernels", "kernel_args", "io_boosts", "schedulers"),
    *("hz", "latency_limit"),
    *(name for name, (_, o) in options.fields(options.SimulateOptions).items() if not o.decides),
)
#: Options of a replay alone.
REPLAY_OPTIONS = ("recorded_on", "others")
_EXPAND: dict[str, Any] = {
    "trace": _traces,
    "workload": _named("workload", _engine.workloads),
    "platform": _named("platform", _engine.platforms),
    "governor": _governors,
}


def expand_governors(spec: str) -> list[list[str]]:
    """Return the governors that a pattern matches, each with all values of its parameters.

    >>> expand_governors("teo-6.6*,util_shift=4|6")
    [['teo-6.6,util_shift=4', 'teo-6.6,util_shift=6']]
    """
    base, numbers = split_numbers(spec)
    return [expand_params(name + numbers) for name in _EXPAND["governor"]([base])]
