// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A replay's outcome, and the call that makes one.

use crate::columns;
use crate::errors::{EngineError, engine_error, platform_error, value_error};
use crate::hosting::{catalog, governor_specs, warn};
use crate::plain::Plain;
use crate::record::Record;
use crate::table::Table;
use crate::watch::{watched, watched_to_the_end};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use torpor_engine::{Loaded, Options, Outcome, Request, TraceInfo};
use torpor_machine::platform::Platform;

/// Result of a replay, and its decisions.
#[pyclass(frozen, module = "torpor._engine")]
pub struct Result {
    outcome: Arc<Outcome>,
    has_decisions: bool,
}

/// The metrics and the error of a run.
type Row<'a> = (BTreeMap<&'a str, Option<f64>>, Option<&'a str>);

#[pymethods]
impl Result {
    /// The whole result, without the decisions.
    fn record(&self) -> Record {
        Record::of_outcome(&self.outcome)
    }

    /// The row of each run, recording by recording: a small part of the whole. A metric that is no
    /// number is not known, as in JSON.
    fn rows(&self) -> Vec<Row<'_>> {
        let runs = self.outcome.traces.iter().flat_map(|trace| &trace.runs);
        let known = |(key, value): (&&'static str, &Option<f64>)| {
            (*key, value.filter(|value| value.is_finite()))
        };
        runs.map(|run| (run.metrics.iter().map(known).collect(), run.error.as_deref())).collect()
    }

    /// The table of decisions.
    fn decisions(&self, py: Python<'_>) -> PyResult<Table> {
        if !self.has_decisions {
            return Err(EngineError::new_err(
                "this replay kept no decisions\nhint: replay with `decisions=True`",
            ));
        }
        py.detach(|| columns::decisions(&self.outcome))
            .map(Table::new)
            .map_err(|error| EngineError::new_err(format!("table `decisions`: {error}")))
    }

    /// Writes the recording with a track of choices for each governor and CPU.
    fn write_trace(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let [trace] = self.outcome.traces.as_slice() else {
            return Err(EngineError::new_err(format!(
                "tracks belong to one recording, and this replay has {}\n\
                 hint: replay them one by one",
                self.outcome.traces.len()
            )));
        };
        if !self.has_decisions {
            return Err(EngineError::new_err(
                "this replay kept no decisions\nhint: replay with `decisions=True`",
            ));
        }
        py.detach(|| crate::tracks::write(trace, &path))
    }
}

/// Options as Python gives them.
pub(crate) fn read<T: DeserializeOwned>(options: &str) -> PyResult<T> {
    torpor_result::options::read(options).map_err(value_error)
}

/// Replays recordings; see `torpor.replay`.
#[pyfunction]
#[pyo3(signature = (traces, platform, governors, options, progress = None))]
pub(crate) fn replay(
    py: Python<'_>,
    traces: Vec<PathBuf>,
    platform: &str,
    governors: Vec<OsString>,
    options: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Result> {
    replayed(py, traces, None, platform, &governors, options, progress)
}

fn replayed(
    py: Python<'_>,
    traces: Vec<PathBuf>,
    loaded: Option<&Loaded>,
    platform: &str,
    governors: &[OsString],
    options: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Result> {
    let options: Options = read(options)?;
    let platform = Platform::resolve(platform).map_err(platform_error)?;
    let (isolate, threads) = (options.isolate, options.threads);
    let request = Request { traces, platform, governors: governor_specs(governors)?, options };
    let has_decisions = request.options.decisions;
    let ((outcome, catalog), seen) = watched_to_the_end(py, progress, threads, |watch| {
        let catalog = catalog(isolate, Some(watch.stop()));
        (torpor_engine::run_on(&request, loaded.as_slice(), &catalog, watch), catalog)
    });
    seen?;
    warn(py, &catalog)?;
    let outcome = outcome.map_err(engine_error)?;
    Ok(Result { outcome: Arc::new(outcome), has_decisions })
}

/// A recording in memory.
#[pyclass(frozen, module = "torpor._engine")]
pub struct LoadedTrace(Loaded);

#[pymethods]
impl LoadedTrace {
    /// The result's `trace` object.
    fn info(&self) -> Plain<TraceInfo> {
        Plain(self.0.info())
    }

    /// Memory that its events use, in bytes.
    fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }

    /// Replays it; see `torpor.Trace.replay`.
    #[pyo3(signature = (platform, governors, options, progress = None))]
    fn replay(
        &self,
        py: Python<'_>,
        platform: &str,
        governors: Vec<OsString>,
        options: &str,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Result> {
        replayed(py, Vec::new(), Some(&self.0), platform, &governors, options, progress)
    }
}

/// Reads a recording into memory; see `torpor.load_trace`.
#[pyfunction]
#[pyo3(signature = (path, memory = None))]
pub(crate) fn load_trace(
    py: Python<'_>,
    path: PathBuf,
    memory: Option<u64>,
) -> PyResult<LoadedTrace> {
    let loaded = watched(py, None, |watch| Loaded::read(&path, memory, watch))?;
    loaded.map(LoadedTrace).map_err(engine_error)
}
