// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Verifying a recording.

use crate::errors::{EngineError, counters_error, engine_error, platform_error, value_error};
use crate::hosting::{catalog, governor_specs, warn};
use crate::result::DisabledText;
use crate::watch::watched;
use pyo3::prelude::*;
use serde::Deserialize;
use std::ffi::OsString;
use std::path::PathBuf;
use torpor_engine::verify::{VerifyOptions, VerifyRequest};
use torpor_platform::Platform;
use torpor_units::{Duration, Instant};

/// [`VerifyOptions`] as Python writes them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionsText {
    use_probes: bool,
    fit: bool,
    latency_limit_ns: Option<i64>,
    disabled_states: Vec<DisabledText>,
    reset_at_ns: Option<i64>,
    disagreements: usize,
    #[serde(default)]
    isolate: Option<bool>,
}

impl OptionsText {
    fn read(text: &str) -> PyResult<OptionsText> {
        serde_json::from_str(text)
            .map_err(|error| EngineError::new_err(format!("options: {error}")))
    }

    fn parse(self) -> PyResult<VerifyOptions> {
        let typed = self;
        Ok(VerifyOptions {
            use_probes: typed.use_probes,
            fit: typed.fit,
            latency_limit: typed.latency_limit_ns.map(Duration),
            disabled_states: typed.disabled_states.iter().map(DisabledText::parse).collect(),
            reset_at: typed.reset_at_ns.map(Instant),
            disagreements: typed.disagreements,
        })
    }
}

/// Verifies a recording; its result as JSON. See `torpor.fidelity`.
#[pyfunction]
#[pyo3(signature = (trace, platform, governors, counters, options, progress = None))]
pub fn verify(
    py: Python<'_>,
    trace: PathBuf,
    platform: &str,
    governors: Vec<OsString>,
    counters: Option<(PathBuf, PathBuf)>,
    options: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let read = |path: &PathBuf| torpor_counters::read(path).map_err(counters_error);
    let options = OptionsText::read(options)?;
    let isolate = options.isolate;
    let request = VerifyRequest {
        trace,
        platform: Platform::resolve(platform).map_err(platform_error)?,
        governors: governor_specs(&governors)?,
        counters: match &counters {
            Some((before, after)) => Some((read(before)?, read(after)?)),
            None => None,
        },
        options: options.parse()?,
    };
    let (fidelity, catalog) = watched(py, progress, |watch| {
        let catalog = catalog(isolate, Some(watch.stop()));
        (torpor_engine::verify::verify(&request, &catalog, watch), catalog)
    })?;
    warn(py, &catalog)?;
    let fidelity = fidelity.map_err(engine_error)?;
    serde_json::to_string(&fidelity).map_err(value_error)
}
