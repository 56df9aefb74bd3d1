# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Closed-loop simulation: the call, and the object that holds what came out."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torpor import _engine
from torpor.results import types as results
from torpor.results.record import Compared, with_columns
from torpor.run import options
from torpor.run.finished import Finished, points
from torpor.run.sweeps.store import open_store

if TYPE_CHECKING:
    from typing_extensions import Unpack


#: As in a replay, without the oracle: a simulation's future depends on the choices.
DEFAULT_GOVERNORS = ("menu", "teo", "shallowest", "deepest")

_Path = str | os.PathLike[str]


@with_columns("simulation")
class Simulation(Compared):
    """The outcome of :func:`simulate`.

    Tables (each an object with ``__arrow_c_stream__``: hand it to ``polars.DataFrame`` or
    ``pyarrow.table``, or call ``to_polars()`` or ``to_pandas()``): ``summary``, ``seeds``,
    ``states``, ``latency``, ``comparison``, ``tasks``, ``devices`` and ``perf_domains``.
    """

    #: Number of runs, each of a governor and a seed, that came from the store.
    resumed_runs: int
    #: Why the store could not keep every run; None if it could.
    store_failure: str | None

    def __init__(
        self,
        result: str | _engine.Record,
        folder: Path | None = None,
        finished: Finished | None = None,
    ) -> None:
        """Hold a simulation, or its JSON text."""
        super().__init__(result, folder)
        self.resumed_runs = finished.found if finished else 0
        self.store_failure = finished.failure if finished else None

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it: the seeds that every governor had finished are counted."""
        return bool(self._dict["interrupted"])

    def metrics(self, governor: str) -> dict[str, float | None]:
        """Return the means over seeds of one governor, by metric; None is not known."""
        return dict(self._run(governor)["metrics"])

    def differences(self, governor: str) -> dict[str, tuple[float, float, float]]:
        """Return the paired differences from the base, by metric.

        The base is the first governor that finished.

        Each is (mean, low, high), with low and high the 95 % confidence interval.
        """
        column = self._dict["runs"].index(self._run(governor))
        changes = {
            row["key"]: row["cells"][column]["change"] for row in self._dict["comparison"]["rows"]
        }
        return {
            key: (change["difference"], change["low"], change["high"])
            for key, change in changes.items()
            if change is not None and change["low"] is not None
        }

    def _run(self, governor: str) -> "results.GovernorOutcome":
        runs: list[results.GovernorOutcome] = self._dict["runs"]
        for run in runs:
            if run["governor"] == governor:
                return run
        raise KeyError(f"{governor!r}: expected one of {[run['governor'] for run in runs]}")

    def __repr__(self) -> str:
        names = [run["governor"] for run in self._dict["runs"]]
        workload, machine = self._dict["workload"]["name"], self._dict["platform"]["name"]
        return f"<torpor.Simulation of {workload} on {machine}: {', '.join(names)}>"


@options.documented(options.SimulateOptions)
def simulate(
    workload: _Path | dict[str, Any],
    *,
    platform: _Path,
    governors: str | Iterable[str] = DEFAULT_GOVERNORS,
    store: _Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    **given: "Unpack[options.SimulateOptions]",
) -> Simulation:
    """Simulate a workload on a machine under each governor, with the same seeds.

    Args:
        workload: Name of a workload that ships, the path of a file (TOML, rt-app's JSON, fio's job
            file), or a command line such as ``perf bench sched pipe -l 1000``; or what a TOML
            file would hold, as ``tomllib`` reads it.
        platform: Name of a built-in machine, or the path of a TOML file.
        governors: ``NAME``, ``PATH.c``, ``NAME@TREE`` or ``NAME@TREE:REV``, each with
            ``,param=value`` where wanted. The first is what the others are compared with.
        store: Keep every finished run in this folder, a store as :func:`sweep` fills it, and take
            from it the runs that an earlier call with the same inputs has finished.
        progress: Called periodically with (what, done, total), in ms of simulated time. Ctrl-C
            works without it too: it ends the call with the seeds that are finished
            (``interrupted``), or is raised if none is, or all are.
        {options}

    With several ``cpufreq``, ``schedulers`` or ``io_boosts``, columns are called
    ``GOVERNOR + POLICY + SCHEDULER + BOOST``. A ``schedutil`` that boosts nothing has the boost
    ``none``.

    Raises:
        WorkloadError: The workload is unknown, or its file is wrong.
        PlatformError: The machine is unknown, or its file is wrong.
        GovernorError: A governor or IO boost is unknown or does not compile. One that crashes
            while it runs raises nothing: see ``Simulation.failures``.
        EngineError: The options do not fit together.

    >>> result = torpor.simulate("periodic", platform="pixel6", duration="1s", seeds=2)
    >>> result.metrics("menu")["throughput"]
    99.0
    """
    if isinstance(governors, str):
        governors = [governors]
    governors = options.each_once("governors", list(governors))
    if not isinstance(workload, dict):
        workload = os.fspath(workload)
    platform = os.fspath(platform)
    wanted = options.to_json(options.SimulateOptions, given)
    finished = None
    if store is not None:
        columns = points(workload, platform, governors, given)
        finished = Finished(open_store(store, create=True), columns, given)
    try:
        found = _engine.simulate(workload, platform, governors, wanted, finished, progress)
    finally:
        if finished is not None:
            finished.close()
    return Simulation(found, finished=finished)
