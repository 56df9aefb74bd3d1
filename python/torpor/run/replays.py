# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Replay of recordings: the call, and the object that holds what came out."""

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torpor import _engine
from torpor.results.record import Compared, with_columns
from torpor.run import options, recordings

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Governors that are compared by default. The first is what the others are compared with: menu, as
#: in published tables; then its rival, both references, and the bound.
DEFAULT_GOVERNORS = ("menu", "teo", "shallowest", "deepest", "oracle")

_Path = str | os.PathLike[str]


@with_columns("replay")
class Replay(Compared):
    """The outcome of :func:`replay`.

    Tables (each an object with ``__arrow_c_stream__``: hand it to ``polars.DataFrame`` or
    ``pyarrow.table``, or call ``to_polars()`` or ``to_pandas()``):

    - ``summary``: one row a trace and governor, one column a metric of the catalogue.
    - ``states``: one row a trace, governor, CPU and idle state.
    - ``latency``: the histogram of wake-up latency, one row a bucket.
    - ``comparison``: one row a trace, metric and governor, with its change from the base.
    - ``decisions``: one row a decision, when asked for.

    The unit is in a column's metadata (``units``); a null is a value that is not known.
    """

    def __init__(
        self,
        result: str | _engine.Record,
        folder: Path | None = None,
        decided: _engine.Result | None = None,
    ) -> None:
        """Hold a replay, or its JSON text; ``decided`` or ``folder`` have its decisions."""
        super().__init__(result, folder)
        self._decided = decided

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        has_decisions = self._decided is not None or self._file is not None
        return [*super().tables, *["decisions"] * has_decisions]

    @property
    def summary(self) -> _engine.Table:
        """One row a trace and governor: ``trace``, ``governor``, ``error``, then every metric."""
        return self.table("summary")

    @property
    def states(self) -> _engine.Table:
        """One row an idle state: ``usage``, ``above``, ``below``, ``rejected``, ``time_ns``."""
        return self.table("states")

    @property
    def latency(self) -> _engine.Table:
        """Wake-up latency: ``upper_bound_ns`` and ``count`` of each histogram bucket."""
        return self.table("latency")

    @property
    def decisions(self) -> _engine.Table:
        """Every decision of every governor.

        - ``trace``, ``governor``, ``cpu``, ``time_ns``: whose, and when ``select()`` was called.
        - ``state``, ``stop_tick``, ``tick_stopped_before``: the decision, and the tick before it.
        - ``sleep_length_ns``, ``source``: the sleep length that the governor saw, and from where.
        - ``residency_ns``, ``outcome``: how long the sleep was: ``fit``, ``above`` or ``below``.
        - ``wake``, ``latency_ns``: what ended it (``event``, ``tick`` or ``poll_timeout``), and for
          an event, how late the CPU was.
        - ``span``, ``event_ns``, ``cause``: the idle span of the CPU, the time of its event, and
          the event: ``task`` (woken by another CPU), ``other_cpu``, ``timer``, ``interrupt`` or
          ``unknown``.
        - ``to_tick_ns``, ``util``, ``nr_iowait``: what else the governor could see; the first is
          null if the tick was stopped.
        - ``energy_uj``, ``regret_uj``: of the sleep with the tick or timer that ended it, and over
          the cheapest allowed state for its length.
        - ``relative_energy_us``, ``relative_regret_us``: the same where the machine's power is not
          known, in time at the shallowest state's power.
        - ``got``: the state of the hardware at the end, which may demote.

        Raises :class:`torpor.EngineError` if the replay was made with ``decisions=False``, or was
        read from JSON, which does not hold them.
        """
        return self.table("decisions")

    def table(self, name: str) -> _engine.Table:
        """Return a table: hand it to a data frame, or call its ``to_polars`` or ``to_pandas``.

        Raises :class:`torpor.TorporError` for a name that is not one of :attr:`tables`.
        """
        if name != "decisions":
            return super().table(name)
        if self._decided is not None:
            return self._decided.decisions()
        if self._file is not None:
            return _engine.read_table(os.fspath(self._file))
        raise _engine.EngineError(
            "this replay kept no decisions\nhint: replay with `decisions=True`, or with --parquet"
        )

    def write_trace(self, path: _Path) -> None:
        """Write the recording for Perfetto, and each governor's decisions as more tracks.

        A track a CPU: each sleep by its state, with ``too deep`` or ``too shallow``, and inside it
        the wake-up latency. A recording of Perfetto's own keeps all it holds; of any other, what
        Torpor reads is written.

        Raises :class:`torpor.EngineError` if the replay is of several recordings, kept no
        decisions, or the file cannot be written.
        """
        if self._decided is None:
            raise _engine.EngineError("this replay was read from a file: replay again")
        self._decided.write_trace(os.fspath(path))

    @property
    def _file(self) -> Path | None:
        file = self._folder and self._folder / "decisions.parquet"
        return file if file and file.is_file() else None

    def __repr__(self) -> str:
        traces = self._dict["traces"]
        names = [run["governor"] for run in traces[0]["runs"]] if traces else []
        machine = self._dict["platform"]["name"]
        return f"<torpor.Replay of {len(traces)} on {machine}: {', '.join(names)}>"


@options.documented(options.ReplayOptions)
def replay(
    traces: _Path | Iterable[_Path],
    *,
    platform: _Path | None = None,
    governors: str | Iterable[str] = DEFAULT_GOVERNORS,
    progress: Callable[[str, int, int], None] | None = None,
    **given: "Unpack[options.ReplayOptions]",
) -> Replay:
    """Replay recordings against governors on a machine.

    Args:
        traces: One recording or several; the format is found from the content.
        platform: Name of a built-in machine, or the path of a TOML file or of a dump of sysfs.
            Default: the dump that was saved with the recording, or the machine that it names.
        governors: ``NAME``, ``PATH.c``, ``NAME@TREE`` or ``NAME@TREE:REV``, each with
            ``,param=value`` where wanted. The first is what the others are compared with.
        progress: Called periodically with (what, done, total). Ctrl-C works without it too.
        {options}

    Raises:
        TraceError: A file is missing or unreadable.
        PlatformError: The machine is unknown, its file is wrong, or no recording names it.
        GovernorError: A governor is unknown or does not compile. One that crashes while it runs
            raises nothing: see ``Replay.failures``.
        EngineError: The options do not fit together.

    >>> result = torpor.replay(recording, platform="pixel6", governors=["menu", "teo"])
    >>> [run["governor"] for run in result.runs]
    ['menu', 'teo']
    >>> result.summary.num_rows
    2
    """
    if isinstance(traces, str | os.PathLike):
        traces = [traces]
    paths = options.not_empty("traces", [os.fspath(t) for t in traces])
    if platform is None:
        platform = recordings.recorded_machine(paths)
    engine = functools.partial(_engine.replay, paths)
    wanted = _options(given, lambda: recordings.recorded_on(paths))
    return _replayed(engine, platform, governors, progress, given, wanted)


class Trace:
    """A recording in memory, for many replays: what :func:`load_trace` returns."""

    def __init__(self, loaded: _engine.LoadedTrace) -> None:
        """Hold what the engine has read."""
        self._loaded = loaded

    @property
    def info(self) -> "recordings.Recorded":
        """The result's ``trace`` object: format, clock, CPUs, events, losses."""
        found: recordings.Recorded = self._loaded.info()
        return found

    @functools.cached_property
    def recorded_on(self) -> dict[str, str]:
        """The machine that it identifies, by its path; empty if it identifies none."""
        return recordings.recorded_on([self.info["path"]])

    @property
    def held_bytes(self) -> int:
        """Memory that its events use, in bytes."""
        return self._loaded.held_bytes()

    def replay(
        self,
        *,
        platform: _Path | None = None,
        governors: str | Iterable[str] = DEFAULT_GOVERNORS,
        progress: Callable[[str, int, int], None] | None = None,
        **given: "Unpack[options.ReplayOptions]",
    ) -> Replay:
        """Replay it: as :func:`replay`, with the same result, and without reading it again."""
        if platform is None:
            platform = recordings.recorded_machine([self.info["path"]])
        wanted = _options(given, lambda: self.recorded_on)
        return _replayed(self._loaded.replay, platform, governors, progress, given, wanted)

    def __repr__(self) -> str:
        return f"<torpor.Trace of {self.info['path']}>"


def load_trace(path: _Path, *, memory: int | None = None) -> Trace:
    """Read a recording into memory, all of its events, to replay it many times.

    Args:
        path: The file.
        memory: The most bytes that it may take, unpacked or from a pipe and as events; default:
            half of the machine's memory, and at most 8 GiB.

    Raises:
        TraceError: The file is missing or unreadable, or takes more than ``memory``.

    >>> trace = torpor.load_trace(recording)
    >>> for platform in ("pixel6", "i5-10600k"):
    ...     result = trace.replay(platform=platform, governors="menu")
    ...     print(result.runs[0]["metrics"]["wakeups"])
    5015.0
    5113.0
    """
    return Trace(_engine.load_trace(os.fspath(path), memory))


def measured(
    trace: Trace,
    platform: str,
    governor: str,
    progress: Callable[[str, int, int], None],
    given: options.ReplayOptions,
) -> tuple[dict[str, float | None], str | None]:
    """Return one governor's metrics and its error: a tenth of the work that a whole result is."""
    wanted = _options(given, lambda: trace.recorded_on)
    found = trace._loaded.replay(platform, [governor], wanted, progress)
    (row,) = found.rows()
    return row


def _options(given: Mapping[str, Any], recorded_on: Callable[[], dict[str, str]]) -> str:
    """Return the options as the engine reads them, and the machines that recordings identify."""
    machines = {} if given.get("recorded_on") else recorded_on()
    return options.to_json(options.ReplayOptions, given, identified=machines)


def _replayed(
    engine: Callable[..., _engine.Result],
    platform: _Path,
    governors: str | Iterable[str],
    progress: Callable[[str, int, int], None] | None,
    given: options.ReplayOptions,
    wanted: str,
) -> Replay:
    names = [governors] if isinstance(governors, str) else list(governors)
    options.each_once("governors", names)
    found = engine(os.fspath(platform), names, wanted, progress)
    return Replay(found.record(), decided=found if given.get("decisions", True) else None)
