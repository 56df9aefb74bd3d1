# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Public names and their modules: for type checkers, and for __init__.py, which reads these lines.
# ruff: noqa: I001
# fmt: off
from collections.abc import Callable
from typing import Any

from torpor._engine import CountersError as CountersError, EngineError as EngineError
from torpor._engine import GovernorError as GovernorError, PlatformError as PlatformError
from torpor._engine import PatchError as PatchError, TorporError as TorporError
from torpor._engine import TraceError as TraceError
from torpor._engine import WorkloadError as WorkloadError, __version__ as __version__
from torpor.ask.gates import GateError as GateError, Limit as Limit, gate as gate
from torpor.ask.gates import read_limits as read_limits
from torpor.ask.toml_schemas import toml_schema as toml_schema, toml_schema_path as toml_schema_path
from torpor.ask.tuning import tune as tune
from torpor.machine.catalog import check_extraction as check_extraction
from torpor.machine.catalog import cpufreq_governors as cpufreq_governors
from torpor.machine.catalog import extract_workload as extract_workload, governors as governors
from torpor.machine.catalog import idle_predict_toml as idle_predict_toml
from torpor.machine.catalog import import_platform as import_platform, ioboosts as ioboosts
from torpor.machine.catalog import platform_toml as platform_toml, platforms as platforms
from torpor.machine.catalog import schema as schema, workload_toml as workload_toml
from torpor.machine.catalog import workloads as workloads
from torpor.machine.counters import Snapshot as Snapshot, diff as diff, snapshot as snapshot
from torpor.machine.doctor import doctor as doctor
from torpor.machine.running import Stat as Stat, ab as ab, build_governors as build_governors
from torpor.machine.running import idle_predict as idle_predict, kernel_status as kernel_status
from torpor.machine.running import load_governors as load_governors, record_trace as record_trace
from torpor.machine.running import restore_governor as restore_governor, stat as stat
from torpor.machine.running import unload_governors as unload_governors
from torpor.machine.running import use_governor as use_governor
from torpor.results.compare import compare as compare
from torpor.results.kinds import explain as explain
from torpor.results.load import load as load
from torpor.results.over_recordings import over_recordings as over_recordings
from torpor.results.record import Fidelity as Fidelity, Record as Record
from torpor.run.checks import check as check, check_kinds as check_kinds
from torpor.run.recordings import convert_trace as convert_trace, measure_latency as measure_latency
from torpor.run.recordings import trace_info as trace_info, trace_sleeps as trace_sleeps
from torpor.run.recordings import trace_stats as trace_stats
from torpor.run.replays import DEFAULT_GOVERNORS as DEFAULT_GOVERNORS, Replay as Replay
from torpor.run.replays import Trace as Trace, load_trace as load_trace, replay as replay
from torpor.run.simulations import Simulation as Simulation, simulate as simulate
from torpor.run.sweeps.axes import Axes as Axes, SweepError as SweepError
from torpor.run.sweeps.run import sweep as sweep
from torpor.run.sweeps.store import open_store as open_store
from torpor.run.verification import fidelity as fidelity
from torpor.view.post import post as post

# For plug-ins, whose names are those of their stubs, too.
def exporting(module: dict[str, Any]) -> tuple[Callable[[str], Any], list[str]]: ...
