// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Snapshots and logs of idle counters, which cross as JSON.

use crate::errors::counters_error;
use crate::plain::Plain;
use crate::watch::watched;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use std::path::PathBuf;
use torpor_machine::counters::{
    Clock, Delta, Dump, Snapshot, delta, read_bytes, since_boot, to_json,
};

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

/// Counters as a file has them: `snapshot` or `turbostat`, and its JSON text or its data.
#[pyfunction]
pub(crate) fn read_dump(
    py: Python<'_>,
    path: PathBuf,
) -> PyResult<(&'static str, Bound<'_, PyAny>)> {
    let read = watched(py, None, |_| torpor_machine::counters::read_dump(&path))?;
    Ok(match read.map_err(counters_error)? {
        Dump::Snapshot(snapshot) => ("snapshot", to_json(&snapshot).into_bound_py_any(py)?),
        Dump::Turbostat(log) => ("turbostat", Plain(log).into_pyobject(py)?),
    })
}

/// Returns the counts between two snapshots.
#[pyfunction]
pub(crate) fn counters_between(before: &str, after: &str) -> PyResult<Plain<Delta>> {
    Ok(Plain(delta(&from_text(before)?, &from_text(after)?)))
}

/// Returns the counts of a snapshot since boot.
#[pyfunction]
pub(crate) fn counters_since_boot(snapshot: &str) -> PyResult<Plain<Delta>> {
    Ok(Plain(since_boot(&from_text(snapshot)?)))
}

fn from_text(text: &str) -> PyResult<Snapshot> {
    read_bytes("snapshot", text.as_bytes()).map_err(counters_error)
}
