// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A replay of a recording that grows.

use crate::errors::{EngineError, engine_error, platform_error, value_error};
use crate::hosting::{catalog, governor_specs, warn};
use crate::plain::Plain;
use crate::result::read;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard, PoisonError};
use torpor_engine::live::{Plan, Report, Shadow};
use torpor_machine::platform::Platform;

/// The request of a shadow: what `replay` takes, without recordings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    platform: String,
    governors: Vec<String>,
    #[serde(default)]
    options: Value,
    /// Name of the recording in results and errors.
    #[serde(default = "standard_input")]
    name: String,
}

fn standard_input() -> String {
    "-".to_owned()
}

/// Governors in the shadow of a running machine.
#[pyclass(frozen, module = "torpor._engine")]
pub struct ShadowSession(Mutex<Shadow>);

impl ShadowSession {
    fn lock(&self) -> MutexGuard<'_, Shadow> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl ShadowSession {
    #[new]
    fn new(py: Python<'_>, request_json: &str) -> PyResult<ShadowSession> {
        let asked: Asked = serde_json::from_str(request_json).map_err(value_error)?;
        let options =
            if asked.options.is_null() { "{}".to_owned() } else { asked.options.to_string() };
        let options: torpor_engine::Options = read(&options)?;
        let platform = Platform::resolve(&asked.platform).map_err(platform_error)?;
        let names: Vec<OsString> = asked.governors.into_iter().map(OsString::from).collect();
        let governors = governor_specs(&names)?;
        let catalog = catalog(Some(false), None);
        let plan = Plan { name: asked.name, platform, governors, options };
        let shadow = py.detach(|| Shadow::new(plan, catalog)).map_err(engine_error)?;
        warn(py, shadow.catalog())?;
        Ok(ShadowSession(Mutex::new(shadow)))
    }

    /// Takes the next bytes of the recording, cut anywhere. Returns the number of events so far.
    fn push(&self, py: Python<'_>, data: &[u8]) -> PyResult<u64> {
        py.detach(|| self.lock().push(data)).map_err(engine_error)
    }

    /// Replays what is settled. Returns the state, and the windows closed since the last call.
    #[pyo3(signature = (until_end = false))]
    fn advance(&self, py: Python<'_>, until_end: bool) -> PyResult<Plain<Report>> {
        py.detach(|| self.lock().advance(until_end)).map(Plain).map_err(engine_error)
    }

    /// Ends the recording. Returns the complete result, as a replay of the same events would.
    fn result(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.lock().result().map(json)).map_err(engine_error)?
    }
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value)
        .map_err(|error| EngineError::new_err(format!("write the result as JSON: {error}")))
}
