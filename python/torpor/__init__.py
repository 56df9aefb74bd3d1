# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs Linux CPU-idle governors against recorded traces and says what each costs.

>>> import torpor
>>> [p["name"] for p in torpor.platforms() if p["has_power"]]
['i5-10600k', 'pixel-watch-2', 'pixel6', 'rk3399']

:func:`replay` is the main job. What it returns, :class:`Replay`, holds tables that polars, pandas
and pyarrow open without a copy. Every error is a :class:`TorporError`.
"""

from importlib import import_module
from importlib.util import find_spec
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
    from torpor.checks import check, check_kinds
    from torpor.counters import Snapshot, diff, snapshot
    from torpor.diagnosis import doctor
    from torpor.explanation import explain
    from torpor.gates import GateError, Limit, gate, read_limits
    from torpor.idle_spans import Spans, bound, spans
    from torpor.library import (
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
        toml_schema,
        toml_schema_path,
        workload_toml,
        workloads,
    )
    from torpor.live import (
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
    from torpor.posting import post
    from torpor.recordings import convert_trace, trace_info, trace_sleeps, trace_stats
    from torpor.records import Fidelity, Record, Reproduction, load
    from torpor.replays import DEFAULT_GOVERNORS, Replay, Trace, load_trace, replay
    from torpor.several import over_recordings
    from torpor.side_by_side import compare
    from torpor.simulations import Simulation, simulate
    from torpor.studies import StudyError, reproduce
    from torpor.studies.io_boost import io_boost as io_boost_study
    from torpor.sweeps import Axes, SweepError, open_store, sweep
    from torpor.sweeps.tuning import tune
    from torpor.verification import fidelity

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
    "open_store",
    "over_recordings",
    "platform_toml",
    "platforms",
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

# Loaded when they are first asked for: until the command line has its hand on Ctrl-C, an interrupt
# is Python's own, and the less there is to import, the shorter that is.
_NAMES = {
    "_engine": "CountersError EngineError GovernorError PlatformError "
    "TorporError TraceError WorkloadError __version__",
    "checks": "check check_kinds",
    "counters": "Snapshot diff snapshot",
    "diagnosis": "doctor",
    "explanation": "explain",
    "gates": "GateError Limit gate read_limits",
    "idle_spans": "Spans bound spans",
    "library": "check_extraction extract_workload cpufreq_governors governors "
    "idle_predict_toml import_platform ioboosts platform_toml platforms schema toml_schema "
    "toml_schema_path workload_toml workloads",
    "live": "Stat ab build_governors idle_predict kernel_status load_governors record_trace "
    "restore_governor stat unload_governors use_governor",
    "posting": "post",
    "recordings": "convert_trace trace_info trace_sleeps trace_stats",
    "records": "Fidelity Record Reproduction load",
    "replays": "DEFAULT_GOVERNORS Replay Trace load_trace replay",
    "several": "over_recordings",
    "side_by_side": "compare",
    "simulations": "Simulation simulate",
    "studies": "StudyError reproduce",
    "studies.io_boost": "io_boost_study",
    "sweeps": "Axes SweepError open_store sweep",
    "sweeps.tuning": "tune",
    "verification": "fidelity",
}
#: What has another name in its own module.
_RENAMED = {"io_boost_study": "io_boost"}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(import_module(f"torpor.{_HOMES[name]}"), _RENAMED.get(name, name))
        globals()[name] = found
        return found
    # A module of the package, which is there without having been imported.
    if not name.startswith("_") and find_spec(f"torpor.{name}") is not None:
        return import_module(f"torpor.{name}")
    raise AttributeError(f"module `torpor` has no attribute `{name}`", name=name, obj=__name__)


def __dir__() -> list[str]:
    return sorted(__all__)
