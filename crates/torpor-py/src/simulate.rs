// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Simulations, and the workloads that ship.

use crate::content::of_python;
use crate::errors::{engine_error, platform_error, sim_error};
use crate::hosting::{catalog, governor_specs, warn};
use crate::plain::Plain;
use crate::record::Record;
use crate::result::read;
use crate::watch::{watched, watched_to_the_end};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use torpor_machine::platform::Platform;
use torpor_machine::toml::Document;
use torpor_result::Values;
use torpor_sim::machine::Counted;
use torpor_sim::{Finished, Options, Request, extract, workload};

/// Finished runs, of which Python's `get` and `put` know.
struct Kept {
    object: Py<PyAny>,
    /// The first exception of Python.
    failed: Mutex<Option<PyErr>>,
}

impl Kept {
    fn noted<T>(&self, found: PyResult<T>) -> Option<T> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        found.map_err(|error| failed.get_or_insert(error)).ok()
    }
}

impl Finished for Kept {
    fn get(&self, column: usize, seed: u64) -> Option<Counted> {
        let found = Python::attach(|py| {
            self.object.call_method1(py, "get", (column, seed))?.extract::<Option<String>>(py)
        });
        serde_json::from_str(&self.noted(found)??).ok()
    }

    fn put(&self, column: usize, seed: u64, counted: &Counted, metrics: &Values) {
        let counts = json!(counted).to_string();
        let kept = Python::attach(|py| {
            self.object.call_method1(py, "put", (column, seed, Plain(metrics), counts))
        });
        self.noted(kept);
    }
}

/// Simulates a workload; see `torpor.simulate`. An interrupt returns the seeds that are finished if
/// it cost some of the others, and is raised otherwise: a caller that looks at `interrupted`, or
/// simulates one seed, cannot miss it. `finished` has `get(column, seed)` for the counts of a run
/// and `put(column, seed, metrics, counts)`, which any thread calls.
#[pyfunction]
#[pyo3(signature = (workload, platform, governors, options, finished = None, progress = None))]
pub(crate) fn simulate(
    py: Python<'_>,
    workload: &Bound<'_, PyAny>,
    platform: &str,
    governors: Vec<OsString>,
    options: &str,
    finished: Option<Py<PyAny>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Record> {
    let options: Options = read(options)?;
    let (isolate, threads) = (options.isolate, options.threads);
    let kept = finished.map(|object| Kept { object, failed: Mutex::default() });
    let request = Request {
        workload: workload_of(workload)?,
        platform: Platform::resolve(platform).map_err(platform_error)?,
        governors: governor_specs(&governors)?,
        options,
    };
    let ((outcome, catalog), seen) = watched_to_the_end(py, progress, threads, |watch| {
        let catalog = catalog(isolate, Some(watch.stop()));
        let finished = kept.as_ref().map(|kept| kept as &dyn Finished);
        (torpor_sim::run_unfinished(&request, &catalog, watch, finished), catalog)
    });
    if let Some(error) = kept.and_then(|kept| kept.failed.into_inner().ok()?) {
        return Err(error);
    }
    warn(py, &catalog)?;
    match (outcome, seen) {
        (Ok(outcome), Ok(())) => Ok(Record::of_outcome(&Arc::new(outcome))),
        (Ok(outcome), Err(stop))
            if outcome.interrupted
                && stop.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) =>
        {
            Ok(Record::of_outcome(&Arc::new(outcome)))
        }
        (_, Err(stop)) => Err(stop),
        (Err(error), Ok(())) => Err(sim_error(error)),
    }
}

/// Returns the workload of this name, or with this content.
fn workload_of(given: &Bound<'_, PyAny>) -> PyResult<workload::Workload> {
    let made = match given.cast::<PyDict>() {
        Ok(content) => {
            let document = Document::of("the workload", "", of_python(content)?);
            workload::from_document(&document)
        }
        Err(_) => workload::resolve(&given.extract::<String>()?),
    };
    made.map_err(sim_error)
}

/// A recording as a workload: the TOML text, and what it holds.
#[pyfunction]
#[pyo3(signature = (path, platform, name, background = None))]
pub(crate) fn extract_workload(
    py: Python<'_>,
    path: PathBuf,
    platform: Option<&str>,
    name: &str,
    background: Option<Vec<String>>,
) -> PyResult<(String, Plain<Value>)> {
    let platform = platform.map(Platform::resolve).transpose().map_err(platform_error)?;
    watched(py, None, |watch| {
        let trace = torpor_engine::whole(&path, watch).map_err(engine_error)?;
        let machine = platform.as_ref();
        let made = match &background {
            None => extract::extract(&trace, machine, name, watch),
            Some(tasks) => extract::extract_background(&trace, machine, name, tasks, watch),
        };
        let made = made.map_err(sim_error)?;
        Ok((made.document.to_toml().into_owned(), Plain(json!(made.summary))))
    })?
}

/// Compares the simulation of a recording with the recording.
#[pyfunction]
pub(crate) fn check_extraction(
    py: Python<'_>,
    path: PathBuf,
    platform: &str,
    governor: &str,
) -> PyResult<Plain<Value>> {
    let platform = Platform::resolve(platform).map_err(platform_error)?;
    watched(py, None, |watch| {
        let trace = torpor_engine::whole(&path, watch).map_err(engine_error)?;
        let check = extract::check(&trace, &platform, governor, watch).map_err(sim_error)?;
        Ok(Plain(json!(check)))
    })?
}

/// The workloads that ship.
#[pyfunction]
pub(crate) fn workloads() -> Plain<Value> {
    let all: Vec<_> = workload::builtins()
        .iter()
        .map(|b| {
            let tasks: Vec<&str> = b.workload.tasks.iter().map(|t| t.name.as_str()).collect();
            json!({ "name": b.name, "title": b.workload.title, "tasks": tasks })
        })
        .collect();
    Plain(json!(all))
}

/// The TOML text of a workload, with the numbers after its name.
#[pyfunction]
pub(crate) fn workload_toml(name: &str) -> PyResult<String> {
    let document = workload::document(name).map_err(sim_error)?;
    workload::from_document(&document).map_err(sim_error)?;
    Ok(document.to_toml().into_owned())
}
