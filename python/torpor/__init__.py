# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs Linux CPU-idle governors against recorded traces and says what each costs.

>>> import torpor
>>> [p["name"] for p in torpor.platforms() if p["name"].startswith("pixel")]
['pixel-watch-2', 'pixel10', 'pixel6', 'pixel9']

:func:`replay` is the main job. What it returns, :class:`Replay`, holds tables that polars, pandas
and pyarrow open without a copy. Every error is a :class:`TorporError`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torpor._engine import (
        CountersError,
        EngineError,
        GovernorError,
        PlatformError,
        TorporError,
        TraceError,
        WorkloadError,
        __version__,
    )
    from torpor.ask.gates import GateError, Limit, gate, read_limits
    from torpor.ask.studies import StudyError, reproduce
    from torpor.ask.studies.io_boost import io_boost as io_boost_study
    from torpor.ask.toml_schemas import toml_schema, toml_schema_path
    from torpor.ask.tuning import tune
    from torpor.machine.catalog import (
        check_extraction,
        cpufreq_governors,
        extract_workload,
        governors,
        idle_predict_toml,
        import_platform,
        ioboosts,
        platform_toml,
        platforms,
        schema,
        workload_toml,
        workloads,
    )
    from torpor.machine.counters import Snapshot, diff, snapshot
    from torpor.machine.doctor import doctor
    from torpor.machine.running import (
        Stat,
        ab,
        build_governors,
        idle_predict,
        kernel_status,
        load_governors,
        record_trace,
        restore_governor,
        stat,
        unload_governors,
        use_governor,
    )
    from torpor.results.compare import compare
    from torpor.results.kinds import explain
    from torpor.results.load import load
    from torpor.results.over_recordings import over_recordings
    from torpor.results.record import Fidelity, Record, Reproduction
    from torpor.run.checks import check, check_kinds
    from torpor.run.idle_spans import Spans, bound, spans
    from torpor.run.recordings import (
        convert_trace,
        measure_latency,
        trace_info,
        trace_sleeps,
        trace_stats,
    )
    from torpor.run.replays import DEFAULT_GOVERNORS, Replay, Trace, load_trace, replay
    from torpor.run.simulations import Simulation, simulate
    from torpor.run.sweeps.axes import Axes, SweepError
    from torpor.run.sweeps.run import sweep
    from torpor.run.sweeps.store import open_store
    from torpor.run.verification import fidelity
    from torpor.view import plot
    from torpor.view.post import post

__all__ = [
    "DEFAULT_GOVERNORS",
    "Axes",
    "CountersError",
    "EngineError",
    "Fidelity",
    "GateError",
    "GovernorError",
    "Limit",
    "PlatformError",
    "Record",
    "Replay",
    "Reproduction",
    "Simulation",
    "Snapshot",
    "Spans",
    "Stat",
    "StudyError",
    "SweepError",
    "TorporError",
    "Trace",
    "TraceError",
    "WorkloadError",
    "__version__",
    "ab",
    "bound",
    "build_governors",
    "check",
    "check_extraction",
    "check_kinds",
    "compare",
    "convert_trace",
    "cpufreq_governors",
    "diff",
    "doctor",
    "explain",
    "extract_workload",
    "fidelity",
    "gate",
    "governors",
    "idle_predict",
    "idle_predict_toml",
    "import_platform",
    "io_boost_study",
    "ioboosts",
    "kernel_status",
    "load",
    "load_governors",
    "load_trace",
    "measure_latency",
    "open_store",
    "over_recordings",
    "platform_toml",
    "platforms",
    "plot",
    "post",
    "read_limits",
    "record_trace",
    "replay",
    "reproduce",
    "restore_governor",
    "schema",
    "simulate",
    "snapshot",
    "spans",
    "stat",
    "sweep",
    "toml_schema",
    "toml_schema_path",
    "trace_info",
    "trace_sleeps",
    "trace_stats",
    "tune",
    "unload_governors",
    "use_governor",
    "workload_toml",
    "workloads",
]

# Loaded on first use. Until the command line handles SIGINT, Ctrl-C prints Python's traceback; the
# fewer the imports before that, the shorter the time.
_NAMES = {
    "_engine": "CountersError EngineError GovernorError PlatformError "
    "TorporError TraceError WorkloadError __version__",
    "run.checks": "check check_kinds",
    "machine.counters": "Snapshot diff snapshot",
    "machine.doctor": "doctor",
    "results.kinds": "explain",
    "ask.gates": "GateError Limit gate read_limits",
    "run.idle_spans": "Spans bound spans",
    "machine.catalog": "check_extraction extract_workload cpufreq_governors governors "
    "idle_predict_toml import_platform ioboosts platform_toml platforms schema "
    "workload_toml workloads",
    "machine.running": "Stat ab build_governors idle_predict kernel_status load_governors "
    "record_trace restore_governor stat unload_governors use_governor",
    "view.post": "post",
    "run.recordings": "convert_trace measure_latency trace_info trace_sleeps trace_stats",
    "results.load": "load",
    "results.record": "Fidelity Record Reproduction",
    "run.replays": "DEFAULT_GOVERNORS Replay Trace load_trace replay",
    "results.over_recordings": "over_recordings",
    "results.compare": "compare",
    "run.simulations": "Simulation simulate",
    "ask.studies": "StudyError reproduce",
    "ask.studies.io_boost": "io_boost_study",
    "run.sweeps.axes": "Axes SweepError",
    "run.sweeps.run": "sweep",
    "run.sweeps.store": "open_store",
    "ask.toml_schemas": "toml_schema toml_schema_path",
    "ask.tuning": "tune",
    "run.verification": "fidelity",
}
#: Names that differ in their own module.
_RENAMED = {"io_boost_study": "io_boost"}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(import_module(f"torpor.{_HOMES[name]}"), _RENAMED.get(name, name))
        globals()[name] = found
        return found
    if name == "plot":
        return import_module("torpor.view.plot")
    raise AttributeError(f"module `torpor` has no attribute `{name}`", name=name, obj=__name__)


def __dir__() -> list[str]:
    return sorted(__all__)
