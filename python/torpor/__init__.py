# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs Linux CPU-idle governors against recorded traces and says what each costs.

>>> import torpor
>>> [p["name"] for p in torpor.platforms() if p["has_power"]]
['i5-10600k', 'pixel6', 'rk3399']

:func:`replay` is the main job. What it returns, :class:`Replay`, holds tables that polars, pandas
and pyarrow open without a copy. Every error is a :class:`TorporError`.
"""

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
from torpor.library import (
    check_extraction,
    extract_workload,
    governors,
    import_platform,
    ioboosts,
    platform_toml,
    platforms,
    schema,
    workload_toml,
    workloads,
)
from torpor.recordings import convert_trace, trace_info, trace_stats
from torpor.records import Record, load
from torpor.replays import DEFAULT_GOVERNORS, Replay, Trace, load_trace, replay
from torpor.simulations import Simulation, simulate
from torpor.studies import StudyError, reproduce
from torpor.verification import fidelity

__all__ = [
    "DEFAULT_GOVERNORS",
    "CountersError",
    "EngineError",
    "GovernorError",
    "PlatformError",
    "Record",
    "Replay",
    "Simulation",
    "Snapshot",
    "StudyError",
    "TorporError",
    "Trace",
    "TraceError",
    "WorkloadError",
    "__version__",
    "check",
    "check_extraction",
    "check_kinds",
    "convert_trace",
    "diff",
    "extract_workload",
    "fidelity",
    "governors",
    "import_platform",
    "ioboosts",
    "load",
    "load_trace",
    "platform_toml",
    "platforms",
    "replay",
    "reproduce",
    "schema",
    "simulate",
    "snapshot",
    "trace_info",
    "trace_stats",
    "workload_toml",
    "workloads",
]
