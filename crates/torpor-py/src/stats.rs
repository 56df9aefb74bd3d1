// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Statistics of a recorded machine.

use crate::columns;
use crate::errors::{EngineError, counters_error, engine_error, platform_error};
use crate::plain::Plain;
use crate::table::Table;
use crate::watch::watched;
use pyo3::prelude::*;
use std::path::PathBuf;
use torpor_engine::TraceInfo;
use torpor_engine::stats::{Measurement, Stats, TraceStats, measurement, reading};
use torpor_engine::timeline::Folding;
use torpor_machine::platform::Platform;

/// Returns the statistics of a recorded machine. See `torpor.trace_stats`.
#[pyfunction]
#[pyo3(signature = (path, platform = None, counters = None, progress = None))]
pub(crate) fn trace_stats(
    py: Python<'_>,
    path: PathBuf,
    platform: Option<&str>,
    counters: Option<(PathBuf, PathBuf)>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Plain<TraceStats>> {
    let platform = platform.map(Platform::resolve).transpose().map_err(platform_error)?;
    let read = |path: &PathBuf| torpor_machine::counters::read(path).map_err(counters_error);
    let counted = match &counters {
        Some((before, after)) => {
            Some(torpor_machine::counters::delta(&read(before)?, &read(after)?))
        }
        None => None,
    };
    let mut stats = Folding::new(Stats::new(platform.as_ref()));
    let trace = watched(py, progress, |watch| torpor_engine::stream(&path, &mut stats, watch))?
        .map_err(engine_error)?;
    let stats = stats.finish();
    Ok(Plain(stats.finish(&path.display().to_string(), &trace, counted.as_ref())))
}

/// Returns the wake-up latencies and refills of the recordings of one machine. See
/// `torpor.measure_latency`.
#[pyfunction]
#[pyo3(signature = (paths, platform = None, progress = None))]
pub(crate) fn measure_latency(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    platform: Option<&str>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Plain<Measurement>> {
    let platform = platform.map(Platform::resolve).transpose().map_err(platform_error)?;
    let mut read = Vec::new();
    for path in &paths {
        let mut both = Folding::new(reading(platform.as_ref()));
        let trace = watched(py, progress, |watch| torpor_engine::stream(path, &mut both, watch))?
            .map_err(engine_error)?;
        read.push((TraceInfo::new(&path.display().to_string(), &trace), both.finish()));
    }
    Ok(Plain(measurement(platform.as_ref(), read)))
}

/// Every sleep of a recording; see `torpor.trace_sleeps`.
#[pyfunction]
#[pyo3(signature = (path, progress = None))]
pub(crate) fn trace_sleeps(
    py: Python<'_>,
    path: PathBuf,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Table> {
    let mut stats = Folding::new(Stats::logging());
    let trace = watched(py, progress, |watch| torpor_engine::stream(&path, &mut stats, watch))?
        .map_err(engine_error)?;
    py.detach(|| columns::sleeps(stats.finish().into_log(), &trace.names))
        .map(Table::new)
        .map_err(|error| EngineError::new_err(format!("table `sleeps`: {error}")))
}
