# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Closed-loop simulation: the call, and the object that holds what came out."""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from torpor import _engine, journals
from torpor.records import Compared
from torpor.replays import disabled_state, duration_ns

#: As in a replay, without the oracle: a simulation's future hangs on the choices.
DEFAULT_GOVERNORS = ("menu", "teo", "shallowest", "deepest")

_Path = str | os.PathLike[str]


class Simulation(Compared):
    """The outcome of :func:`simulate`.

    Tables (each an object with ``__arrow_c_stream__``: hand it to ``polars.DataFrame`` or
    ``pyarrow.table``, or call ``to_polars()`` or ``to_pandas()``): ``summary``, ``seeds``,
    ``states``, ``latency``, ``comparison``, ``tasks``, ``devices`` and ``perf_domains``.
    """

    def __init__(
        self, text: str, folder: Path | None = None, made: _engine.Simulation | None = None
    ) -> None:
        """Hold the JSON text of a simulation; ``made`` knows of its journal."""
        super().__init__(text, folder)
        self._made = made

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it: the seeds that every governor had finished are counted."""
        return bool(self._dict["interrupted"])

    @property
    def resumed_runs(self) -> int:
        """How many runs, each of a governor and a seed, were taken from the journal."""
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

    def _run(self, governor: str) -> dict[str, Any]:
        runs = self._dict["runs"]
        for run in runs:
            if run["governor"] == governor:
                return dict(run)
        raise KeyError(f"{governor!r}: expected one of {[run['governor'] for run in runs]}")

    def __repr__(self) -> str:
        names = [run["governor"] for run in self._dict["runs"]]
        workload, machine = self._dict["workload"]["name"], self._dict["platform"]["name"]
        return f"<torpor.Simulation of {workload} on {machine}: {', '.join(names)}>"


def simulate(
    workload: _Path,
    *,
    platform: _Path,
    governors: str | Iterable[str] = DEFAULT_GOVERNORS,
    duration: str = "10s",
    seeds: int = 10,
    seed: int = 1,
    hz: int | None = None,
    cpufreq: str | Iterable[str] = (),
    io_boosts: str | Iterable[str] = (),
    latency_limit: str | None = None,
    disabled_states: Iterable[int | tuple[int, int]] = (),
    enabled_states: Iterable[str] = (),
    threads: int | None = None,
    isolate: bool | None = None,
    trace: _Path | None = None,
    strip: bool = False,
    journal: _Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Simulation:
    """Simulate a workload on a machine under each governor, with the same seeds.

    Args:
        workload: Name of a workload that ships, the path of a file (TOML, rt-app's JSON, fio's job
            file), or a command line such as ``perf bench sched pipe -l 1000``.
        platform: Name of a built-in machine, or the path of a TOML file.
        governors: ``NAME``, ``PATH.c``, ``NAME@TREE`` or ``NAME@TREE:REV``, each with
            ``,param=value`` where wanted. The first is what the others are compared with.
        duration: Simulated time a run, with its unit.
        seeds: Runs a governor. Every governor meets the same ones.
        seed: The first seed; the others follow it.
        hz: Tick rate of the modelled kernel (100, 250, 300 or 1000); default: the machine's own.
        cpufreq: Frequency policies: ``performance``, ``powersave``, ``userspace,freq_khz=N`` (or
            ``N/M``, one for each cluster) or ``schedutil``, the last with ``@6.1`` or ``@6.12``
            (the default) and ``,rate_limit_us=N`` where wanted; default: the machine's own. With
            several, each governor runs under each of them, as ``GOVERNOR + POLICY``.
        io_boosts: IO boosts: a name of :func:`torpor.ioboosts` or ``PATH.c``, each with
            ``,param=value`` where wanted. With several, each governor runs with each of them, as
            ``GOVERNOR + BOOST``. Default: what the kernel does, so ``schedutil`` comes with
            ``iowait``; a ``schedutil`` that boosts nothing is ``none``.
        latency_limit: PM QoS bound on the exit latency, with its unit: ``"50us"``.
        disabled_states: Indices of idle states to switch off, or pairs (CPU, index).
        enabled_states: Names or indices of idle states to switch on that the machine has off.
        threads: Worker threads; default: one a core. The result does not depend on it.
        isolate: Run each governor and IO boost in a process of its own, so that nothing it does to
            that ends yours; default: those that do not ship with Torpor. The result does not depend
            on it.
        trace: Write the first seed of the first governor as a recording: a Perfetto trace if the
            name ends in ``.perfetto-trace``, else ftrace text.
        strip: Keep the busiest CPU's choices of the first seed for the report's time strip.
        journal: Keep every finished run in this file, and take from it what an earlier call with
            the same inputs has finished. Nobody removes it.
        progress: Called now and then with (what, done, total), in ms of simulated time. Ctrl-C
            works without it too: it ends the call with what is finished (``interrupted``).

    Raises:
        WorkloadError: The workload is unknown, or its file is wrong.
        PlatformError: The machine is unknown, or its file is wrong.
        GovernorError: A governor or IO boost is unknown or does not compile. One that crashes
            while it runs raises nothing: see ``Simulation.failures``.
        EngineError: The options do not fit together.

    >>> result = torpor.simulate("periodic", platform="pixel6", duration="1s", seeds=2)
    >>> result.metrics("menu")["throughput"]
    98.0
    """
    if isinstance(governors, str):
        governors = [governors]
    if isinstance(cpufreq, str):
        cpufreq = [cpufreq]
    if isinstance(io_boosts, str):
        io_boosts = [io_boosts]
    options = {
        "duration_ns": duration_ns(duration),
        "seed": seed,
        "seeds": seeds,
        "hz": hz,
        "cpufreq": list(cpufreq),
        "io_boosts": list(io_boosts),
        "latency_limit_ns": None if latency_limit is None else duration_ns(latency_limit),
        "disabled_states": [disabled_state(d) for d in disabled_states],
        "enabled_states": list(enabled_states),
        "threads": threads,
        "isolate": isolate,
        "trace": None if trace is None else os.fspath(trace),
        "strip": strip,
        "journal": journals.options(journal),
    }
    found = _engine.simulate(
        os.fspath(workload),
        os.fspath(platform),
        list(governors),
        json.dumps(options),
        progress,
    )
    return Simulation(found.json(), made=found)
