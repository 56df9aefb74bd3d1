# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A kind of result: everything that Torpor knows about it, in one object."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torpor.results import types as results
from torpor.results.catalogue import common_key, counts
from torpor.results.picture import Picture
from torpor.results.record import Record
from torpor.results.table import Post, Verdict

#: Clusters of one column: each with its CPUs, time awake, and states.
Clusters = list[dict[str, Any]]


class Column(NamedTuple):
    """Metrics of one run, to compare with runs of other results."""

    label: str
    values: dict[str, float | None]
    #: Other inputs on which the numbers depend, by name.
    of: dict[str, str]


class Sample(NamedTuple):
    """Metrics of one run of a scenario, to hold against limits."""

    scenario: str
    #: Governor, or label of counters.
    column: str
    #: Seed by which two results pair.
    number: int
    values: Mapping[str, float | None]


class Input(NamedTuple):
    """An input of a result, as its page names it."""

    name: str
    description: str
    sha256: str | None


def recordings_input(result: Any) -> list[Input]:
    """Return the recording from which a result was made."""
    trace = result.get("trace")
    return [Input("trace", trace["path"], trace["sha256"])] if trace else []


class Growing(NamedTuple):
    """A file of JSON lines that a command appends to while it runs."""

    #: Return whether a file with this first line is of the kind.
    begins: Callable[[Mapping[str, Any]], bool]
    #: Result of the whole lines so far. The second argument checks a line that is no result
    #: against its type.
    result: Callable[[Sequence[Any], Callable[[Any, Any], None]], Any]
    #: TypedDicts of its lines that no result has.
    lines: tuple[type, ...] = ()


class Kind(NamedTuple):
    """A kind of result. A function that is None does not apply to it."""

    name: str
    #: Tables, for mail, pages, notebooks and the terminal.
    post: Callable[[Any], Post]
    #: Reason why a page has no trace for Perfetto, and how to get one.
    no_trace: str
    #: Sentences of ``torpor show`` and of pages after the verdict, of the same governor.
    explain: Callable[[Any, str | None], list[str]] | None = None
    #: Its one comparison; the name of a governor may be given.
    verdict: Callable[[Any, str | None], Verdict | None] = lambda _result, _governor: None
    #: Class of a loaded result.
    record: type[Record] = Record
    #: TypedDict of its JSON; None if the engine makes it and has the schema.
    shape: type | None = None
    #: Metrics to compare with other results.
    columns: Callable[[Any], Iterator[Column]] | None = None
    #: Metrics to hold against limits.
    samples: Callable[[Any], Iterator[Sample]] | None = None
    #: Inputs that its page names.
    inputs: Callable[[Any], list[Input]] = recordings_input
    #: Pictures of its page.
    pictures: Callable[[Any], list[Picture]] = lambda _result: []
    #: File that grows until the result is complete.
    growing: Growing | None = None
    #: Its parts that contradict one another, in words, in a result of the right shape.
    contradictions: Callable[[Any], Iterator[str]] = lambda _result: iter(())
    #: Recordings whose decisions the machine that the user named does not explain.
    unverified: Callable[[Any], list[str]] = lambda _result: []
    #: What a file's text becomes, and the folder of its tables; None if it is a ``record``.
    opened: Callable[[str, Path | None], Any] | None = None
    #: Whether it has governors' runs on a platform, whose page is that of governors.
    has_runs: bool = False


_SAVED = "it was made from a result alone. `torpor {} --report` makes a page with a trace; {}"
CONVERT = "`torpor trace convert RECORDING FILE.perfetto-trace` writes it."
#: Reason of results that consist of counters.
COUNTED = (
    "counters have no timeline. `torpor record -- COMMAND` records what the machine does, and "
    "`torpor trace stats RECORDING --report` hands it over."
)


def saved_by(command: str, writes: str = CONVERT) -> str:
    """Return the reason of a saved result; ``command`` makes a page with a trace."""
    return _SAVED.format(command, writes)


def cluster(
    name: str, cpus: list[int], states: Sequence[Mapping[str, Any]], whole_ns: float | None
) -> dict[str, Any]:
    """Return the states of some CPUs for a picture; ``whole_ns`` is their time, awake or asleep."""
    own = [
        {
            "index": index,
            "name": state["name"],
            "time_ns": state["time_ns"],
            "usage": state["usage"] or 0,
            "above": state["above"],
            "below": state["below"],
        }
        for index, state in enumerate(states)
    ]
    slept_ns = sum(state["time_ns"] for state in own)
    running_ns = 0 if whole_ns is None else max(0, whole_ns - slept_ns)
    return {
        "name": name,
        "cpus": cpus,
        "running_ns": running_ns,
        "states": own,
        "has_clock": whole_ns is not None,
    }


def with_rates(values: "results.Metrics", seconds: float) -> dict[str, float | None]:
    """Return metrics by common names, with counts as rates."""
    found = {common_key(key): value for key, value in values.items()}
    for key in counts() & found.keys():
        count = found.pop(key)
        if count is not None and seconds:
            found[f"{key}_per_s"] = count / seconds
    return found
