# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Closed-loop simulation: the call, and the object that holds what came out."""

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from torpor import _engine
from torpor.comparison import to_csv
from torpor.replays import disabled_state, duration_ns

#: As in a replay, without the oracle: a simulation's future hangs on the choices.
DEFAULT_GOVERNORS = ("menu", "teo", "shallowest", "deepest")

_Path = str | os.PathLike[str]


class Simulation:
    """The outcome of :func:`simulate`."""

    def __init__(self, result: _engine.Simulation) -> None:
        self._result = result
        self._parsed: dict[str, Any] | None = None

    @property
    def notes(self) -> list[str]:
        """The limits of what this simulation can claim, each said once."""
        return list(self._dict["notes"])

    @property
    def failures(self) -> dict[str, str]:
        """Governors that did not finish, with the reason; the others' results stand."""
        runs = self._dict["traces"][0]["runs"]
        return {run["governor"]: run["error"] for run in runs if run["error"]}

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it: the seeds that every governor had finished are counted."""
        return self._dict["interrupted"]

    def metrics(self, governor: str) -> dict[str, float | None]:
        """Return the means over seeds of one governor, by metric; None is not known."""
        return dict(self._run(governor)["metrics"])

    def differences(self, governor: str) -> dict[str, tuple[float, float, float]]:
        """Return the paired differences from the first governor, by metric.

        Each is (mean, low, high), with low and high the 95 % confidence interval.
        """
        found = self._run(governor)["differences"]
        return {key: (d["mean"], d["low"], d["high"]) for key, d in found.items()}

    def to_json(self) -> str:
        """Return the whole result as JSON text, the same bytes for the same inputs."""
        return self._result.json()

    def to_dict(self) -> dict[str, Any]:
        """Return the whole result as plain Python data; yours to change."""
        return json.loads(self._result.json())

    def to_csv(self) -> str:
        """Return the means over seeds as CSV; a field that is not known is empty."""
        return to_csv(self._dict)

    def write_report(self, path: _Path) -> None:
        """Write the result as one HTML page that needs no network.

        Raises OSError if the file cannot be written.
        """
        from torpor import report

        report.write(self._dict, path)

    @property
    def _dict(self) -> dict[str, Any]:
        if self._parsed is None:
            self._parsed = json.loads(self._result.json())
        return self._parsed

    def _run(self, governor: str) -> dict[str, Any]:
        runs = self._dict["traces"][0]["runs"]
        for run in runs:
            if run["governor"] == governor:
                return run
        raise KeyError(f"{governor!r}: expected one of {[run['governor'] for run in runs]}")

    def __repr__(self) -> str:
        names = [run["governor"] for run in self._dict["traces"][0]["runs"]]
        workload, machine = self._dict["workload"]["name"], self._dict["platform"]["name"]
        return f"<torpor.Simulation of {workload} on {machine}: {', '.join(names)}>"

    def _repr_html_(self) -> str:
        from torpor.notebook import to_html

        return to_html(self._dict)


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
    threads: int | None = None,
    trace: _Path | None = None,
    strip: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Simulation:
    """Simulate a workload on a machine under each governor, with the same seeds.

    Args:
        workload: Name of a workload that ships, or the path of a TOML file.
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
        io_boosts: IO boosts: ``iowait``, ``none``, ``per-task``, ``per-task-v2`` or ``PATH.c``,
            each with ``,param=value`` where wanted. With several, each governor runs with each of
            them, as ``GOVERNOR + BOOST``. Default: what the kernel does, so ``schedutil`` comes
            with ``iowait``; a ``schedutil`` that boosts nothing is ``none``.
        latency_limit: PM QoS bound on the exit latency, with its unit: ``"50us"``.
        disabled_states: Indices of idle states to switch off, or pairs (CPU, index).
        threads: Worker threads; default: one a core. The result does not depend on it.
        trace: Write the first seed of the first governor as a recording: a Perfetto trace if the
            name ends in ``.perfetto-trace``, else ftrace text.
        strip: Keep the busiest CPU's choices of the first seed for the report's time strip.
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
        "threads": threads,
        "trace": None if trace is None else os.fspath(trace),
        "strip": strip,
    }
    return Simulation(
        _engine.simulate(
            os.fspath(workload),
            os.fspath(platform),
            list(governors),
            json.dumps(options),
            progress,
        )
    )
