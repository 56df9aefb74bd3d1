// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Verifying a recording.

use crate::errors::{counters_error, engine_error, platform_error};
use crate::hosting::{catalog, governor_specs, warn};
use crate::plain::Plain;
use crate::result::read as read_options;
use crate::watch::watched;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use torpor_engine::verify::{Fidelity, VerifyOptions, VerifyRequest};
use torpor_machine::platform::Platform;

/// Verifies a recording; its result. See `torpor.fidelity`.
#[pyfunction]
#[pyo3(signature = (trace, platform, governors, counters, options, progress = None))]
pub(crate) fn verify(
    py: Python<'_>,
    trace: PathBuf,
    platform: &str,
    governors: Vec<OsString>,
    counters: Option<(PathBuf, PathBuf)>,
    options: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Plain<Fidelity>> {
    let read = |path: &PathBuf| torpor_machine::counters::read(path).map_err(counters_error);
    let options: VerifyOptions = read_options(options)?;
    let isolate = options.isolate;
    let request = VerifyRequest {
        trace,
        platform: Platform::resolve(platform).map_err(platform_error)?,
        governors: governor_specs(&governors)?,
        counters: match &counters {
            Some((before, after)) => Some((read(before)?, read(after)?)),
            None => None,
        },
        options,
    };
    let (fidelity, catalog) = watched(py, progress, |watch| {
        let catalog = catalog(isolate, Some(watch.stop()));
        (torpor_engine::verify::verify(&request, &catalog, watch), catalog)
    })?;
    warn(py, &catalog)?;
    fidelity.map(Plain).map_err(engine_error)
}
