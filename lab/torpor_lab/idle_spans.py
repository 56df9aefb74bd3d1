# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Idle spans one by one, and a bound for governors with limited knowledge."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypedDict

from torpor import EngineError, GovernorError, replay
from torpor.plugin import (
    MachineOptions,
    PartOptions,
    WholeFile,
    csv_text,
    documented,
    recorded_on,
    to_json,
)
from torpor.plugin import Spans as EngineSpans
from torpor.plugin import spans as engine_spans

if TYPE_CHECKING:
    from typing_extensions import Unpack

_Path = str | os.PathLike[str]
_Progress = Callable[[str, int, int], None]


class SpanOptions(MachineOptions, PartOptions, total=False):
    """Options of :func:`torpor_lab.spans`."""


class Spans:
    """The idle spans of recordings on a machine, one row each, made when they are read.

    polars, pandas and pyarrow read it as an Arrow stream. Columns: ``trace``, ``cpu``, ``span``,
    ``time_ns``; what was known when it began (``sleep_length_ns`` to the next timer and its
    ``source``, ``to_tick_ns``, ``busy_ns`` of work before, lengths of the three spans before,
    ``util``, ``nr_iowait``, ``nr_running``, ``freq_khz``); what came (``length_ns``, ``cause``,
    ``brings_task``); ``best_state``, the cheapest for one sleep; and of each state, for one sleep
    through the span with the tick stopped, ``stateN_energy_uj``, ``stateN_delay_ns`` and
    ``stateN_outcome`` (fit, above, below; null where the state is disabled).
    """

    def __init__(self, found: EngineSpans) -> None:
        """Hold what the engine has read."""
        self._found = found

    def __len__(self) -> int:
        """Return the number of rows."""
        return sum(self._found.row_counts)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow C stream."""
        return self._found.__arrow_c_stream__(requested_schema)

    def batches(self) -> Iterator[Any]:
        """Yield the rows, some ten thousand at a time."""
        number = 0
        while (table := self._found.batch(number)) is not None:
            yield table
            number += 1

    def write(self, path: _Path) -> None:
        """Write ``.csv``, ``.arrow`` or, for any other name, Parquet; a batch at a time.

        Raises OSError if the file cannot be written.
        """
        if os.fspath(path).endswith(".csv"):
            with WholeFile(os.fspath(path)) as file:
                for text in self.csv():
                    file.write(text.encode())
        else:
            self._found.write(os.fspath(path))

    def csv(self) -> Iterator[str]:
        """Yield the rows as CSV, a batch at a time, the first with the names of the columns."""
        for number, table in enumerate(self.batches()):
            columns = table.to_dict()
            headings = None if number else columns
            yield csv_text(zip(*columns.values(), strict=True), headings)

    def __repr__(self) -> str:
        return f"<torpor_lab.Spans: {len(self)} rows>"


@documented(SpanOptions)
def spans(
    traces: _Path | Iterable[_Path],
    *,
    platform: _Path,
    progress: _Progress | None = None,
    **given: "Unpack[SpanOptions]",
) -> Spans:
    """Read the idle spans of recordings: what was known, what came, what each state would cost.

    Args:
        traces: One recording or several.
        platform: Name of a built-in machine, or the path of a TOML file.
        progress: Called periodically with (what, done, total).
        {options}

    Raises:
        TraceError: A file is missing or unreadable.
        PlatformError: The machine is unknown, or its file is wrong.
        EngineError: The options do not fit together.

    >>> found = torpor_lab.spans(recording, platform="pixel6")
    >>> len(found), next(found.batches()).to_dict()["cause"][:3]
    (5158, ['interrupt', 'timer', 'timer'])
    """
    return Spans(_spans(_paths(traces), platform, progress, given))


class Bound(TypedDict):
    """Cost of the best governor with limited knowledge."""

    #: Knowledge of the governor; the base and the oracles have names instead.
    knows: str
    #: It may wake the CPU by timers of its own.
    own_timers: bool
    #: Kinds of spans that it distinguishes; None for the base and the oracles.
    cells: int | None
    #: Trained on the whole recording, and on the other parts of it. None if no plans are late by so
    #: little.
    energy_uj: float | None
    cross_validated_uj: float | None
    #: Share of the base's gap to the oracle that is closed, in percent.
    closed_pct: float | None
    cross_validated_pct: float | None


@documented(SpanOptions)
def bound(
    traces: _Path | Iterable[_Path],
    *,
    platform: _Path,
    base: str = "teo",
    progress: _Progress | None = None,
    **given: "Unpack[SpanOptions]",
) -> list[Bound]:
    """Find the best that a governor could do that knows only so much, at the base's delay.

    Args:
        traces: One recording or several, whose energies are added.
        platform: Name of a built-in machine, or the path of a TOML file.
        base: The governor whose mean delay is kept, on each recording, and whose gap is closed.
        progress: Called periodically with (what, done, total).
        {options}

    Raises as :func:`spans`, and GovernorError for an unknown base.

    >>> for row in torpor_lab.bound(recording, platform="pixel6")[:2]:
    ...     print(row["knows"], round(row["closed_pct"]))
    teo 0
    timer, tick 22
    """
    paths = _paths(traces)
    # Choices of a span decide about their CPU alone: the oracle must minimise the same.
    replays = given | {"decisions": False, "strip": False, "others": "busy"}
    sums: dict[tuple[str, bool], list[Any]] = {}

    def add(knows: str, own_timers: bool, cells: int | None, *energies: float | None) -> None:
        row = sums.setdefault((knows, own_timers), [0 if cells is not None else None, 0.0, 0.0])
        values = (cells, *energies)
        row[:] = [
            None if a is None or b is None else a + b for a, b in zip(row, values, strict=True)
        ]

    for path in paths:
        ran = replay(path, platform=platform, governors=[base, "oracle"], **replays)  # type: ignore[arg-type]
        of_base, of_oracle = (_cpu_energy_uj(run) for run in ran.runs)
        add(base, False, None, of_base, of_base)
        delay_us = ran.runs[0]["metrics"]["delay_mean_us"] or 0.0
        delay = f"{delay_us * 1000:.0f}ns"
        found = _spans([path], platform, progress, given)
        for row in found.bounds(0, delay):
            pairs = [row[key] and row[key][0] for key in ("in_sample", "cross_validated")]
            add(row["knows"], row["own_timers"], row["cells"], *pairs)
        within = f"oracle,latency<={delay}"
        ran = replay(path, platform=platform, governors=[within], **replays)  # type: ignore[arg-type]
        energy = None if ran.runs[0]["error"] else _cpu_energy_uj(ran.runs[0])
        add(f"oracle at {base}'s delay", False, None, energy, energy)
        add("oracle", False, None, of_oracle, of_oracle)
    whole, least = sums[base, False][1], sums["oracle", False][1]

    def closed(energy: float | None) -> float | None:
        return (
            None if energy is None or whole == least else 100 * (whole - energy) / (whole - least)
        )

    return [
        Bound(
            knows=knows,
            own_timers=own_timers,
            cells=cells,
            energy_uj=energy,
            cross_validated_uj=learnt,
            closed_pct=closed(energy),
            cross_validated_pct=closed(learnt),
        )
        for (knows, own_timers), (cells, energy, learnt) in sums.items()
    ]


def _cpu_energy_uj(run: Any) -> float:
    """Return the energy of the idle CPUs of a run: a span's choice decides nothing else."""
    if run["error"]:
        raise GovernorError(run["error"])
    metrics: dict[str, float | None] = run["metrics"]
    energy_uj, power_mw = metrics["idle_energy_uj"], metrics["idle_power_mw"]
    if energy_uj is None or power_mw is None:
        raise EngineError(
            "a bound needs energy, but the machine's power is not known\n"
            "hint: `torpor platform list` shows which machines have power"
        )
    # Given where CPUs are one part of several.
    of_cpus_mw = metrics.get("cpu_idle_power_mw")
    return energy_uj if of_cpus_mw is None or not power_mw else energy_uj * of_cpus_mw / power_mw


def _paths(traces: _Path | Iterable[_Path]) -> list[str]:
    if isinstance(traces, str | os.PathLike):
        traces = [traces]
    return [os.fspath(trace) for trace in traces]


def _spans(
    paths: list[str], platform: _Path, progress: _Progress | None, given: SpanOptions
) -> EngineSpans:
    machines = {} if given.get("recorded_on") else recorded_on(paths)
    wanted = to_json(SpanOptions, given, identified=machines)
    return engine_spans(paths, os.fspath(platform), wanted, progress)
