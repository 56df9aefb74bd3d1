# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The Rust engine. A result stays there; JSON text and Arrow streams are views of it.

Other data comes as Python's plain data, the same as its JSON has.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypedDict, final, type_check_only

__all__ = [
    "COMMIT",
    "FORMAT",
    "TARGET",
    "CountersError",
    "EngineError",
    "GovernorError",
    "IdlePredict",
    "LoadedTrace",
    "MemoryBoundError",
    "Moments",
    "PatchError",
    "PlatformError",
    "Record",
    "Result",
    "ShadowSession",
    "Spans",
    "Table",
    "TorporError",
    "TraceError",
    "WholeFile",
    "WorkloadError",
    "__version__",
    "apply_series",
    "check",
    "check_extraction",
    "check_kinds",
    "compare",
    "compare_shares",
    "convert_trace",
    "counters_between",
    "counters_since_boot",
    "cpufreqs",
    "default_kernel",
    "extract_workload",
    "filled_table",
    "format_cpu_list",
    "format_number",
    "governor_source",
    "governors",
    "half_width",
    "has_hosted_kernel",
    "holm",
    "hosted_inputs",
    "hosted_kernel_id",
    "import_platform",
    "ioboosts",
    "load_trace",
    "machine_named",
    "measure_latency",
    "metrics",
    "missing_file",
    "parse_cpu_list",
    "parse_duration_ns",
    "parse_parquet",
    "platform_content",
    "platform_text",
    "platform_toml",
    "platforms",
    "read_counters",
    "read_dump",
    "read_series",
    "read_table",
    "replay",
    "scheduler_files",
    "schema",
    "simulate",
    "spans",
    "table_names",
    "tables",
    "take_counters",
    "toml_schema",
    "trace_formats",
    "trace_info",
    "trace_sleeps",
    "trace_stats",
    "unknown_name",
    "verify",
    "what_file",
    "workload_content",
    "workload_toml",
    "workloads",
]

__version__: str
COMMIT: str | None
TARGET: str
FORMAT: int

class TorporError(Exception): ...
class TraceError(TorporError): ...
class MemoryBoundError(TraceError): ...
class CountersError(TorporError): ...
class PlatformError(TorporError): ...
class GovernorError(TorporError): ...
class WorkloadError(TorporError): ...
class PatchError(TorporError): ...
class EngineError(TorporError): ...

@final
class Table:
    @property
    def column_names(self) -> list[str]: ...
    @property
    def num_rows(self) -> int: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    @property
    def units(self) -> dict[str, str]: ...
    def to_polars(self) -> Any: ...
    def to_pandas(self) -> Any: ...
    def to_dict(self) -> dict[str, list[Any]]: ...
    def to_parquet(self) -> bytes: ...
    def write(self, path: str) -> None: ...

@type_check_only
class GovernorSource(TypedDict):
    name: str
    is_builtin: bool
    main: str
    files: dict[str, bytes]
    params: list[tuple[str, str]]

@type_check_only
class PatchFile(TypedDict):
    path: str
    old_path: str | None
    old_blob: str | None
    new_blob: str | None
    kind: Literal["modify", "add", "delete", "rename", "copy", "binary"]
    hunks: int
    added: int
    removed: int

@type_check_only
class Patch(TypedDict):
    number: int
    total: int
    subject: str
    message_id: str | None
    author: str | None
    date: str | None
    patch_id: str
    message: str
    files: list[PatchFile]

@type_check_only
class Series(TypedDict):
    subject: str
    version: str
    message_id: str | None
    cover: str | None
    base_commit: str | None
    prerequisites: list[str]
    patch_id: str
    missing: list[int]
    notes: list[str]
    patches: list[Patch]

@type_check_only
class AppliedFile(TypedDict):
    patch: int
    path: str
    offsets: list[int]

@type_check_only
class Reject(TypedDict):
    patch: int
    subject: str
    path: str
    hunk: int | None
    hunks: int
    heading: str
    line: int | None
    expected: str | None
    found: str | None
    reason: str
    text: str

@type_check_only
class AppliedSeries(TypedDict):
    applied: list[AppliedFile]
    changed: list[str]
    deleted: list[str]
    rejects: list[Reject]

@final
class WholeFile:
    def __new__(cls, path: str) -> WholeFile: ...
    def write(self, data: bytes) -> int: ...
    def tell(self) -> int: ...
    def __enter__(self) -> WholeFile: ...
    def __exit__(
        self,
        exc_type: object | None,
        exc_value: object | None,
        traceback: object | None,
    ) -> None: ...

@final
class Record:
    def __new__(cls, result: str | dict[str, Any]) -> Record: ...
    def json(self) -> str: ...
    def table(self, name: str) -> Table: ...

@final
class Result:
    def record(self) -> Record: ...
    def rows(self) -> list[tuple[dict[str, float | None], str | None]]: ...
    def decisions(self) -> Table: ...
    def write_trace(self, path: str) -> None: ...

@final
class Moments:
    def __new__(cls, values: Sequence[float] = ...) -> Moments: ...
    def add(self, value: float) -> None: ...
    @property
    def count(self) -> int: ...
    def interval(self) -> tuple[float, float | None, float | None]: ...

@final
class Spans:
    @property
    def row_counts(self) -> list[int]: ...
    def batch(self, number: int) -> Table | None: ...
    def bounds(self, recording: int, delay: str) -> Any: ...
    def write(self, path: str) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class LoadedTrace:
    def held_bytes(self) -> int: ...
    def info(self) -> Any: ...
    def replay(
        self,
        platform: str,
        governors: list[str],
        options: str,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Result: ...

@final
class ShadowSession:
    def __new__(cls, request_json: str) -> ShadowSession: ...
    def push(self, data: bytes) -> int: ...
    def advance(self, until_end: bool = False) -> Any: ...
    def result(self) -> str: ...

def check(
    governor: str,
    seed: int,
    decisions: int,
    hz: int,
    progress: Callable[[int], None] | None = None,
) -> Any: ...
def check_kinds() -> Any: ...
def governor_source(spec: str) -> GovernorSource: ...
def scheduler_files(spec: str) -> dict[str, bytes]: ...
def governors() -> Any: ...
def ioboosts() -> Any: ...
def cpufreqs() -> Any: ...
def default_kernel() -> str: ...
def has_hosted_kernel(kernel: str, hz: int) -> bool: ...
def hosted_inputs(
    kernel: str,
    hz: int,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[str]: ...
def hosted_kernel_id(
    kernel: str,
    hz: int,
    is_linked: bool,
    progress: Callable[[str, int, int], None] | None = None,
) -> str: ...
def platforms() -> Any: ...
def platform_toml(name: str) -> str: ...
def platform_content(name: str) -> dict[str, Any]: ...
def platform_text(content: dict[str, Any]) -> str: ...
def import_platform(
    root: str,
    name: str,
    title: str | None = None,
    hz: int | None = None,
    energy_model: str | None = None,
) -> tuple[str, dict[str, Any], list[str]]: ...
def take_counters(root: str, taken_at_ns: int, monotonic_ns: int) -> str: ...
def read_counters(path: str) -> str: ...
def read_dump(path: str) -> tuple[str, Any]: ...
def compare(table: dict[str, Any]) -> Any: ...
def compare_shares(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> Any: ...
def half_width(error: float, freedom: int) -> float: ...
def holm(chances: list[float]) -> list[float]: ...
def format_number(value: float) -> str: ...
def metrics() -> Any: ...
def missing_file(path: str) -> str: ...
def load_trace(path: str, memory: int | None = None) -> LoadedTrace: ...
def filled_table(like: Table, read: Callable[[str], list[Any]]) -> Table: ...
def parse_parquet(data: bytes, columns: list[str] | None = None) -> Table: ...
def read_series(path: str, data: bytes | None = None) -> Series: ...
def apply_series(
    path: str,
    folder: str,
    first: int | None = None,
    last: int | None = None,
    data: bytes | None = None,
) -> AppliedSeries: ...
def read_table(path: str) -> Table: ...
def table_names(kind: str) -> list[str]: ...
def tables() -> Any: ...
def counters_between(before: str, after: str) -> Any: ...
def counters_since_boot(snapshot: str) -> Any: ...
def measure_latency(
    paths: list[str],
    platform: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Any: ...
def trace_formats() -> Any: ...
def machine_named(path: str) -> tuple[str, int] | None: ...
def trace_info(path: str, progress: Callable[[str, int, int], None] | None = None) -> Any: ...
def trace_sleeps(path: str, progress: Callable[[str, int, int], None] | None = None) -> Table: ...
def trace_stats(
    path: str,
    platform: str | None = None,
    counters: tuple[str, str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Any: ...
def convert_trace(path: str, out: str) -> None: ...
def parse_duration_ns(text: str) -> int: ...
def format_cpu_list(cpus: list[int]) -> str: ...
def parse_cpu_list(text: str) -> list[int]: ...
def schema() -> Any: ...
def toml_schema(kind: str) -> str | None: ...
def unknown_name(kind: str, name: str, known: list[str], otherwise: str) -> str: ...
def replay(
    traces: list[str],
    platform: str,
    governors: list[str],
    options: str,
    progress: Callable[[str, int, int], None] | None = None,
) -> Result: ...
def spans(
    traces: list[str],
    platform: str,
    options: str,
    progress: Callable[[str, int, int], None] | None = None,
) -> Spans: ...
def verify(
    trace: str,
    platform: str,
    governors: list[str],
    counters: tuple[str, str] | None,
    options: str,
    progress: Callable[[str, int, int], None] | None = None,
) -> Any: ...
def simulate(
    workload: str | dict[str, Any],
    platform: str,
    governors: list[str],
    options: str,
    finished: Any = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Record: ...

@final
class IdlePredict:
    def __new__(cls, threads: int, loops: int, delay_ns: int, pause_ns: int) -> IdlePredict: ...
    def finish(self) -> Any: ...

def workloads() -> Any: ...
def workload_toml(name: str) -> str: ...
def workload_content(name: str) -> dict[str, Any]: ...
def extract_workload(
    path: str, platform: str | None, name: str, background: list[str] | None = None
) -> tuple[str, Any]: ...
def check_extraction(path: str, platform: str, governor: str) -> Any: ...
def what_file(head: bytes) -> tuple[str, str]: ...
