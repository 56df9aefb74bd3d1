# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Closed-loop simulation: the call, and the object that holds what came out."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from torpor import _engine
from torpor.results.record import Compared, with_columns
from torpor.run import journals, options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from torpor.results import types as results

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

    def __init__(
        self,
        result: str | _engine.Record,
        folder: Path | None = None,
        made: _engine.Simulation | None = None,
    ) -> None:
        """Hold a simulation, or its JSON text; ``made`` knows of its journal."""
        super().__init__(result, folder)
        self._made = made

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it: the seeds that every governor had finished are counted."""
        return bool(self._dict["interrupted"])

    @property
    def resumed_runs(self) -> int:
        """Number of runs, each of a governor and a seed, that came from the journal."""
        return 0 if self._made is None else self._made.resumed_runs

    @property
    def journal_failure(self) -> str | None:
        """Why the journal could not keep every run; None where it could."""
        return None if self._made is None else self._made.journal_failure

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
    workload: _Path,
    *,
    platform: _Path,
    governors: str | Iterable[str] = DEFAULT_GOVERNORS,
    journal: _Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    **given: "Unpack[options.SimulateOptions]",
) -> Simulation:
    """Simulate a workload on a machine under each governor, with the same seeds.

    Args:
        workload: Name of a workload that ships, the path of a file (TOML, rt-app's JSON, fio's job
            file), or a command line such as ``perf bench sched pipe -l 1000``.
        platform: Name of a built-in machine, or the path of a TOML file.
        governors: ``NAME``, ``PATH.c``, ``NAME@TREE`` or ``NAME@TREE:REV``, each with
            ``,param=value`` where wanted. The first is what the others are compared with.
        journal: Keep every finished run in this file, and take from it what an earlier call with
            the same inputs has finished. Nobody removes it.
        progress: Called periodically with (what, done, total), in ms of simulated time. Ctrl-C
            works without it too: it ends the call with the seeds that are finished
            (``interrupted``), or is raised if none is, or all are.
        {options}

    With several ``cpufreq`` or ``io_boosts``, columns are called ``GOVERNOR + POLICY + BOOST``. A
    ``schedutil`` that boosts nothing has the boost ``none``.

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
    found = _engine.simulate(
        os.fspath(workload),
        os.fspath(platform),
        list(governors),
        options.to_json(options.SimulateOptions, given),
        None if journal is None else (os.fspath(journal), journals.engine_id()),
        progress,
    )
    return Simulation(found.record(), made=found)
