# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Replay of recordings: the call, and the object that holds what came out."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torpor import _engine
from torpor.comparison import to_csv

#: What stands in a comparison unless you say otherwise. The first is what the others are compared
#: with: menu, as in published tables; then its rival, both references, and the bound.
DEFAULT_GOVERNORS = ("menu", "teo", "shallowest", "deepest", "oracle")

_Path = str | os.PathLike[str]


class Replay:
    """The outcome of :func:`replay`.

    Tables (each an object with ``__arrow_c_stream__``: hand it to ``polars.DataFrame``,
    ``pyarrow.table`` or ``pandas.DataFrame.from_arrow``):

    - ``summary``: one row a trace and governor, one column a metric of the catalogue.
    - ``states``: one row a trace, governor, cluster and idle state.
    - ``latency``: the histogram of wake-up latency, one row a bucket.
    - ``decisions``: one row a decision, when asked for.

    The unit is the last part of a column's name; a null is a value that is not known.
    """

    def __init__(self, result: _engine.Result) -> None:
        self._result = result
        self._parsed: dict[str, Any] | None = None

    @property
    def summary(self) -> _engine.Table:
        """One row a trace and governor: ``trace``, ``governor``, ``error``, then every metric."""
        return self._result.table("summary")

    @property
    def states(self) -> _engine.Table:
        """One row an idle state: ``usage``, ``above``, ``below``, ``rejected``, ``time_ns``."""
        return self._result.table("states")

    @property
    def latency(self) -> _engine.Table:
        """Wake-up latency: ``upper_bound_ns`` and ``count`` of each histogram bucket."""
        return self._result.table("latency")

    @property
    def decisions(self) -> _engine.Table:
        """Every decision: ``cpu``, ``time_ns``, ``state``, ``stop_tick``, ``sleep_length_ns``, ...

        Raises :class:`torpor.EngineError` if the replay was made with ``decisions=False``.
        """
        return self._result.table("decisions")

    @property
    def notes(self) -> list[str]:
        """The limits of what this replay can claim, each said once."""
        return list(self._dict["notes"])

    @property
    def failures(self) -> dict[str, str]:
        """Governors that did not finish, with the reason; the others' results stand."""
        return {
            run["governor"]: run["error"]
            for trace in self._dict["traces"]
            for run in trace["runs"]
            if run["error"]
        }

    def to_json(self) -> str:
        """Return the whole result as JSON text, the same bytes for the same inputs."""
        return self._result.json()

    def to_dict(self) -> dict[str, Any]:
        """Return the whole result as plain Python data; yours to change."""
        return json.loads(self._result.json())

    def to_csv(self) -> str:
        """Return ``summary`` as CSV; a field that is not known is empty."""
        return to_csv(self._dict)

    def write_report(self, path: _Path) -> None:
        """Write the result as one HTML page that needs no network.

        Raises OSError if the file cannot be written.
        """
        from torpor import report

        report.write(self._dict, path)

    def write_table(self, name: str, path: _Path) -> None:
        """Write the table ``name`` as Parquet, or as Arrow IPC if ``path`` ends in ``.arrow``."""
        self._result.table(name).write(os.fspath(path))

    @property
    def _dict(self) -> dict[str, Any]:
        if self._parsed is None:
            self._parsed = json.loads(self._result.json())
        return self._parsed

    def __repr__(self) -> str:
        traces = self._dict["traces"]
        names = [run["governor"] for run in traces[0]["runs"]] if traces else []
        machine = self._dict["platform"]["name"]
        return f"<torpor.Replay of {len(traces)} on {machine}: {', '.join(names)}>"

    def _repr_html_(self) -> str:
        from torpor.notebook import to_html

        return to_html(self._dict)


def replay(
    traces: _Path | Iterable[_Path],
    *,
    platform: _Path,
    governors: str | Iterable[str] = DEFAULT_GOVERNORS,
    latency_limit: str | None = None,
    hz: int | None = None,
    disabled_states: Iterable[int | tuple[int, int]] = (),
    recorded_on: _Path | None = None,
    cpus: str | Iterable[int] | None = None,
    cpu_map: Mapping[int, int] | None = None,
    threads: int | None = None,
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
        recorded_on: Machine of the recording, if known: its exit latencies place the wake-ups.
        cpus: Recorded CPUs to replay, as ``"0-3,7"`` or as numbers; default: all.
        cpu_map: Recorded CPU to CPU of ``platform``; default: the same number.
        threads: Worker threads; default: one a core. The result does not depend on it.
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
    >>> [run["governor"] for run in result.to_dict()["traces"][0]["runs"]]
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
        "recorded_on": None if recorded_on is None else os.fspath(recorded_on),
        "cpus": None if cpus is None else list(cpus),
        "cpu_map": None if cpu_map is None else {str(k): v for k, v in cpu_map.items()},
        "threads": threads,
        "decisions": decisions,
        "strip": strip,
    }
    return Replay(
        _engine.replay(
            [os.fspath(t) for t in traces],
            os.fspath(platform),
            list(governors),
            json.dumps(options),
            progress,
        )
    )


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
