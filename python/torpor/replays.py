# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Replay of recordings: the call, and the object that holds what came out."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from torpor import _engine
from torpor.records import Compared

#: What stands in a comparison unless you say otherwise. The first is what the others are compared
#: with: menu, as in published tables; then its rival, both references, and the bound.
DEFAULT_GOVERNORS = ("menu", "teo", "shallowest", "deepest", "oracle")

_Path = str | os.PathLike[str]


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
        self, text: str, folder: Path | None = None, decided: _engine.Result | None = None
    ) -> None:
        """Hold the JSON text of a replay; ``decided`` or ``folder`` have its decisions."""
        super().__init__(text, folder)
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
        """Every decision: ``cpu``, ``time_ns``, ``state``, ``stop_tick``, ``sleep_length_ns``, ...

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

    @property
    def _file(self) -> Path | None:
        file = self._folder and self._folder / "decisions.parquet"
        return file if file and file.is_file() else None

    def __repr__(self) -> str:
        traces = self._dict["traces"]
        names = [run["governor"] for run in traces[0]["runs"]] if traces else []
        machine = self._dict["platform"]["name"]
        return f"<torpor.Replay of {len(traces)} on {machine}: {', '.join(names)}>"


def replay(
    traces: _Path | Iterable[_Path],
    *,
    platform: _Path,
    governors: str | Iterable[str] = DEFAULT_GOVERNORS,
    latency_limit: str | None = None,
    hz: int | None = None,
    disabled_states: Iterable[int | tuple[int, int]] = (),
    enabled_states: Iterable[str] = (),
    recorded_on: _Path | None = None,
    cpus: str | Iterable[int] | None = None,
    cpu_map: Mapping[int, int] | None = None,
    start: str | None = None,
    end: str | None = None,
    threads: int | None = None,
    isolate: bool | None = None,
    decisions: bool = True,
    strip: bool = True,
    progress: Callable[[str, int, int], None] | None = None,
) -> Replay:
    """Replay recordings against governors on a machine.

    Args:
        traces: One recording or several; the format is found from the content.
        platform: Name of a built-in machine, or the path of a TOML file.
        governors: ``NAME``, ``PATH.c``, ``NAME@TREE`` or ``NAME@TREE:REV``, each with
            ``,param=value`` where wanted. The first is what the others are compared with.
        latency_limit: PM QoS bound on the exit latency, with its unit: ``"50us"``.
        hz: Tick rate of the modelled kernel (100, 250, 300 or 1000); default: the machine's own.
        disabled_states: Indices of idle states to switch off, or pairs (CPU, index).
        enabled_states: Names or indices of idle states to switch on that the machine has off.
        recorded_on: Machine of the recording, if known: its exit latencies place the wake-ups.
        cpus: Recorded CPUs to replay, as ``"0-3,7"`` or as numbers; default: all.
        cpu_map: Recorded CPU to CPU of ``platform``; default: the same number. Several may run
            as one, each as if it were alone there.
        start: Only what comes later than this after the first event: ``"1.5s"``.
        end: Only what comes sooner than this after the first event.
        threads: Worker threads; default: one a core. The result does not depend on it.
        isolate: Run each governor in a process of its own, so that nothing it does to that ends
            yours; default: those that do not ship with Torpor. The result does not depend on it.
        decisions: Keep every decision (some 60 bytes each) for ``Replay.decisions``.
        strip: Keep one CPU's choices for the report's time strip.
        progress: Called now and then with (what, done, total). Ctrl-C works without it too.

    Raises:
        TraceError: A file is missing or unreadable.
        PlatformError: The machine is unknown, or its file is wrong.
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
    if isinstance(governors, str):
        governors = [governors]
    if isinstance(cpus, str):
        cpus = _engine.parse_cpu_list(cpus)
    options = {
        "hz": hz,
        "latency_limit_ns": None if latency_limit is None else duration_ns(latency_limit),
        "disabled_states": [disabled_state(d) for d in disabled_states],
        "enabled_states": list(enabled_states),
        "recorded_on": None if recorded_on is None else os.fspath(recorded_on),
        "cpus": None if cpus is None else list(cpus),
        "cpu_map": None if cpu_map is None else {str(k): v for k, v in cpu_map.items()},
        "from_ns": None if start is None else duration_ns(start),
        "to_ns": None if end is None else duration_ns(end),
        "threads": threads,
        "isolate": isolate,
        "decisions": decisions,
        "strip": strip,
    }
    found = _engine.replay(
        [os.fspath(t) for t in traces],
        os.fspath(platform),
        list(governors),
        json.dumps(options),
        progress,
    )
    return Replay(found.json(), decided=found if decisions else None)


def duration_ns(text: str) -> int:
    """Read ``"50us"``."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r}: expected a text with a unit, such as '50us'")
    return _engine.parse_duration_ns(text)


def disabled_state(state: int | tuple[int, int]) -> dict[str, int | None]:
    """Spell an idle state to switch off as the engine takes it."""
    if isinstance(state, int):
        return {"cpu": None, "state": state}
    cpu, index = state
    return {"cpu": cpu, "state": index}
