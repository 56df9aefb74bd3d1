// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `torpor._engine`: glue between Python and the engine, and nothing else.
//!
//! Results stay in Rust as a [`record::Record`]; JSON text and Arrow streams are views of it. No
//! work is done here that the engine could do.

#![warn(unreachable_pub)]

mod check;
mod columns;
mod compare;
mod content;
mod counters;
mod errors;
mod fidelity;
mod files;
mod hosting;
mod idle_predict;
mod kernel;
mod lists;
mod panics;
mod patch;
mod plain;
mod record;
mod result;
mod schema;
mod shadow;
mod simulate;
mod spans;
mod stats;
mod table;
mod tracks;
mod watch;

use pyo3::prelude::*;

#[pymodule]
mod _engine {
    use super::*;

    #[pymodule_export]
    use super::check::{check, check_kinds};
    #[pymodule_export]
    use super::compare::{
        Moments, compare, compare_shares, format_number, half_width, holm, metrics,
    };
    #[pymodule_export]
    use super::content::{platform_content, platform_text, workload_content};
    #[pymodule_export]
    use super::counters::{
        counters_between, counters_since_boot, read_counters, read_dump, take_counters,
    };
    #[pymodule_export]
    use super::errors::{
        CountersError, EngineError, GovernorError, MemoryBoundError, PatchError, PlatformError,
        TorporError, TraceError, WorkloadError,
    };
    #[pymodule_export]
    use super::fidelity::verify;
    #[pymodule_export]
    use super::files::WholeFile;
    #[pymodule_export]
    use super::idle_predict::IdlePredict;
    #[pymodule_export]
    use super::kernel::{
        default_kernel, governor_source, has_hosted_kernel, hosted_inputs, hosted_kernel_id,
        scheduler_files,
    };
    #[pymodule_export]
    use super::lists::{
        convert_trace, cpufreqs, format_cpu_list, governors, import_platform, ioboosts,
        machine_named, missing_file, parse_cpu_list, parse_duration_ns, platform_toml, platforms,
        trace_formats, trace_info, unknown_name, what_file,
    };
    #[pymodule_export]
    use super::patch::{apply_series, read_series};
    #[pymodule_export]
    use super::record::Record;
    #[pymodule_export]
    use super::result::{LoadedTrace, Result, load_trace, replay};
    #[pymodule_export]
    use super::schema::{schema, toml_schema};
    #[pymodule_export]
    use super::shadow::ShadowSession;
    #[pymodule_export]
    use super::simulate::{check_extraction, extract_workload, simulate, workload_toml, workloads};
    #[pymodule_export]
    use super::spans::{Spans, spans};
    #[pymodule_export]
    use super::stats::{measure_latency, trace_sleeps, trace_stats};
    #[pymodule_export]
    use super::table::{Table, filled_table, parse_parquet, read_table, table_names, tables};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("FORMAT", torpor_result::record::FORMAT)?;
        module
            .add("COMMIT", Some(env!("TORPOR_BUILT_FROM")).filter(|commit| !commit.is_empty()))?;
        module.add("TARGET", env!("TORPOR_TARGET"))?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
