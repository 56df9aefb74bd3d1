// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Snapshots and logs of idle counters, which cross as JSON.

use crate::errors::{counters_error, value_error};
use crate::watch::watched;
use pyo3::prelude::*;
use std::path::PathBuf;
use torpor_machine::counters::{Clock, Dump, Snapshot, delta, read_bytes, since_boot, to_json};

/// A snapshot of the running machine.
#[pyfunction]
pub(crate) fn take_counters(
    py: Python<'_>,
    root: PathBuf,
    taken_at_ns: i64,
    monotonic_ns: i64,
) -> PyResult<String> {
    let clock = Clock { taken_at_ns, monotonic_ns };
    let taken = py.detach(|| torpor_machine::counters::take(&root, clock));
    taken.map(|snapshot| to_json(&snapshot)).map_err(counters_error)
}

/// A snapshot from a dump of any form.
#[pyfunction]
pub(crate) fn read_counters(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let read = watched(py, None, |_| torpor_machine::counters::read(&path))?;
    read.map(|snapshot| to_json(&snapshot)).map_err(counters_error)
}

/// Counters as a file has them: `snapshot` or `turbostat`, and the JSON of it.
#[pyfunction]
pub(crate) fn read_dump(py: Python<'_>, path: PathBuf) -> PyResult<(&'static str, String)> {
    let read = watched(py, None, |_| torpor_machine::counters::read_dump(&path))?;
    Ok(match read.map_err(counters_error)? {
        Dump::Snapshot(snapshot) => ("snapshot", to_json(&snapshot)),
        Dump::Turbostat(log) => ("turbostat", serde_json::to_string(&log).map_err(value_error)?),
    })
}

/// Returns the counts between two snapshots, as JSON.
#[pyfunction]
pub(crate) fn counters_between(before: &str, after: &str) -> PyResult<String> {
    let delta = delta(&from_text(before)?, &from_text(after)?);
    serde_json::to_string(&delta).map_err(value_error)
}

/// Returns the counts of a snapshot since boot, as JSON.
#[pyfunction]
pub(crate) fn counters_since_boot(snapshot: &str) -> PyResult<String> {
    serde_json::to_string(&since_boot(&from_text(snapshot)?)).map_err(value_error)
}

fn from_text(text: &str) -> PyResult<Snapshot> {
    read_bytes("snapshot", text.as_bytes()).map_err(counters_error)
}
