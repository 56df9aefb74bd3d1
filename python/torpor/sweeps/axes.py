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
from pathlib import Path
from typing import Any

from torpor import _engine
from torpor._engine import TorporError

#: A range of whole numbers in a parameter: ``shift=1..10``.
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_PATTERN = re.compile(r"[*?\[]")

#: Axes that mean something to a replay; the rest belongs to simulations.
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
    cpufreq: str | None = None
    io_boost: str | None = None
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
    """What varies. Each axis is a list; a product over an empty one leaves the option out.

    ``ties`` replaces the product of the axes that it names by the combinations that it lists.
    ``excluded`` drops the points that match all patterns of an entry.
    """

    trace: list[str] = field(default_factory=list)
    workload: list[str] = field(default_factory=list)
    platform: list[str] = field(default_factory=list)
    governor: list[str] = field(default_factory=list)
    kernel: list[str] = field(default_factory=list)
    cpufreq: list[str] = field(default_factory=list)
    io_boost: list[str] = field(default_factory=list)
    hz: list[int] = field(default_factory=list)
    latency_limit: list[str] = field(default_factory=list)
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
                raise SweepError(f"the axis `{name}` is given both by itself and in `tie`")
            values[name] = [value for row in self.ties for value in row.get(name, [])]
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
        options = json.dumps(self.options, sort_keys=True)
        own = {
            name: chosen[name]
            for name in _AXES
            if name in chosen
            and name not in ("trace", "workload")
            and (not is_replay or name in _OF_REPLAY)
        }
        if is_replay:
            # Options of a simulation mean nothing to a replay, and would make points of their own.
            own |= {"kind": "replay", "source": chosen["trace"], "options": "{}"}
            yield Point(**own)
            return
        has_oracle = "oracle" in self.governor
        if own["governor"] == "oracle":
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
    from torpor.studies.files import toml

    text = Path(path).read_text(encoding="utf-8")
    try:
        data = toml(text)
    except ValueError as error:
        raise SweepError(f"read sweep `{path}`: {error}") from None
    allowed = {"axes", "options", "tie", "exclude"}
    for name in data:
        if name not in allowed:
            raise SweepError(
                f"read sweep `{path}`: unknown key `{name}`: expected one of "
                f"{', '.join(sorted(allowed))}"
            )
    axes = Axes(
        options=dict(data.get("options", {})),
        ties=[dict(row) for row in data.get("tie", [])],
        excluded=list(data.get("exclude", [])),
    )
    for name, value in data.get("axes", {}).items():
        if name in ("seeds", "seed"):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SweepError(
                    f"read sweep `{path}`: axes.{name} is {value!r}: expected 1 or more"
                )
            setattr(axes, name, value)
        elif name in _AXES:
            setattr(axes, name, _listed(value))
        else:
            raise SweepError(
                f"read sweep `{path}`: unknown axis `{name}`: expected one of "
                f"{', '.join((*_AXES, 'seeds', 'seed'))}"
            )
    return axes


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _as_is(values: list[Any]) -> list[Any]:
    return values


def _traces(patterns: list[str]) -> list[str]:
    found: list[str] = []
    for pattern in patterns:
        matched = sorted(glob.glob(pattern, recursive=True)) or [pattern] * os.path.exists(pattern)
        if not matched:
            raise SweepError(f"no recording matches `{pattern}`")
        found += matched
    return found


def _named(axis: str, known: list[str]) -> Any:
    def expand(patterns: list[str]) -> list[str]:
        found: list[str] = []
        for pattern in patterns:
            if not _PATTERN.search(pattern) or os.path.exists(pattern):
                found.append(pattern)
                continue
            matched = [name for name in known if fnmatchcase(name, pattern)]
            matched = matched or sorted(glob.glob(pattern, recursive=True))
            if not matched:
                raise SweepError(
                    f"no {axis} matches `{pattern}`: expected one of {', '.join(known)}, or a file"
                )
            found += matched
        return found

    return expand


def _governors(specs: list[str]) -> list[str]:
    return [each for spec in specs for each in expand_params(spec)]


def expand_params(spec: str) -> list[str]:
    """Return a governor's name once for each value of its parameters.

    ``A..B`` are the whole numbers from A to B, ``A|B|C`` the values given.

    >>> expand_params("./my.c,shift=1..3")
    ['./my.c,shift=1', './my.c,shift=2', './my.c,shift=3']
    >>> expand_params("teo,a=1|5,b=0..1")
    ['teo,a=1,b=0', 'teo,a=1,b=1', 'teo,a=5,b=0', 'teo,a=5,b=1']
    """
    name, *params = spec.split(",")
    choices = []
    for param in params:
        key, equals, text = param.partition("=")
        values = []
        for part in text.split("|"):
            bounds = _RANGE.fullmatch(part)
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
    return [entry["name"] for entry in json.loads(lister())]


_AXES = (
    *("trace", "workload", "platform", "governor", "kernel"),
    *("cpufreq", "io_boost", "hz", "latency_limit"),
)
_EXPAND: dict[str, Any] = {
    "trace": _traces,
    "workload": _named("workload", _known(_engine.workloads)),
    "platform": _named("platform", _known(_engine.platforms)),
    "governor": _governors,
}
