// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `torpor governor check`: a governor against random and adversarial legal calls.

use crate::errors::{check_error, parse_hz};
use crate::plain::Plain;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::ffi::OsString;
use torpor_check::{KINDS, Options, Report};
use torpor_governor::GovernorSpec;

/// Returns the kinds of breaches.
#[pyfunction]
pub(crate) fn check_kinds() -> Plain<Value> {
    let list = KINDS
        .iter()
        .map(|info| json!({"name": info.name, "title": info.title, "definition": info.definition}));
    Plain(list.collect())
}

/// Checks one governor; its report. `progress` is called with the decisions made.
#[pyfunction]
#[pyo3(signature = (governor, seed, decisions, hz, progress = None))]
pub(crate) fn check(
    py: Python<'_>,
    governor: OsString,
    seed: u64,
    decisions: u64,
    hz: u32,
    progress: Option<Py<PyAny>>,
) -> PyResult<Plain<Report>> {
    let spec = GovernorSpec::from_os(&governor).map_err(crate::errors::governor_error)?;
    let options = Options { seed, decisions, hz: parse_hz(hz)? };
    // An interrupt, or an error of the callback, is raised once the report is there to be dropped.
    let mut failure = None;
    let mut reported = 0;
    let catalog = crate::hosting::catalog(None, None);
    let report = py.detach(|| {
        torpor_check::check(&catalog, &spec, &options, &mut |made| {
            let is_due = made - reported >= decisions / 100;
            if failure.is_some() || !is_due {
                return failure.is_none();
            }
            reported = made;
            let ok = Python::attach(|py| {
                py.check_signals()?;
                progress.as_ref().map_or(Ok(()), |call| call.call1(py, (made,)).map(drop))
            });
            failure = ok.err();
            failure.is_none()
        })
    });
    py.check_signals()?;
    crate::hosting::warn(py, &catalog)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    report.map(Plain).map_err(check_error)
}
