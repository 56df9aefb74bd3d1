// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A replay's outcome, and the call that makes one.

use crate::columns;
use crate::errors::{EngineError, engine_error, platform_error, value_error};
use crate::hosting::{catalog, governor_specs, warn};
use crate::table::Table;
use crate::watch::watched;
use pyo3::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use torpor_engine::{DisabledState, Options, Outcome, Request};
use torpor_platform::Platform;
use torpor_units::{CpuId, Duration, Hz};

/// What came out of a replay: JSON, and the decisions.
#[pyclass(frozen, module = "torpor._engine")]
pub struct Result {
    outcome: Outcome,
    has_decisions: bool,
}

#[pymethods]
impl Result {
    /// The whole result as JSON text, without the decisions.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| serde_json::to_string(&self.outcome))
            .map_err(|error| EngineError::new_err(format!("write the result as JSON: {error}")))
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
}

/// [`Options`] as Python writes them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionsText {
    hz: Option<u32>,
    latency_limit_ns: Option<i64>,
    #[serde(default)]
    disabled_states: Vec<DisabledText>,
    #[serde(default)]
    enabled_states: Vec<String>,
    recorded_on: Option<String>,
    cpus: Option<Vec<u32>>,
    cpu_map: Option<BTreeMap<u32, u32>>,
    #[serde(default)]
    from_ns: Option<i64>,
    #[serde(default)]
    to_ns: Option<i64>,
    threads: Option<usize>,
    #[serde(default)]
    decisions: bool,
    #[serde(default)]
    strip: bool,
    #[serde(default)]
    isolate: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisabledText {
    cpu: Option<u32>,
    state: usize,
}

impl DisabledText {
    pub fn parse(&self) -> DisabledState {
        DisabledState { cpu: self.cpu.map(CpuId), state: self.state }
    }
}

/// The machine as typed, with these states switched on.
pub fn platform(typed: &str, enabled_states: &[String]) -> PyResult<Platform> {
    let mut platform = Platform::resolve(typed).map_err(platform_error)?;
    for state in enabled_states {
        platform.enable_state(state).map_err(platform_error)?;
    }
    Ok(platform)
}

impl OptionsText {
    fn read(text: &str) -> PyResult<OptionsText> {
        serde_json::from_str(text)
            .map_err(|error| EngineError::new_err(format!("options: {error}")))
    }

    fn parse(typed: OptionsText) -> PyResult<Options> {
        let recorded_on = typed.recorded_on.as_deref().map(Platform::resolve).transpose();
        Ok(Options {
            hz: typed.hz.map(parse_hz).transpose()?,
            latency_limit: typed.latency_limit_ns.map(Duration),
            disabled_states: typed.disabled_states.iter().map(DisabledText::parse).collect(),
            recorded_on: recorded_on.map_err(platform_error)?,
            cpus: typed.cpus.map(|cpus| cpus.into_iter().map(CpuId).collect()),
            cpu_map: typed
                .cpu_map
                .unwrap_or_default()
                .into_iter()
                .map(|(from, to)| (CpuId(from), CpuId(to)))
                .collect(),
            from: typed.from_ns.map(Duration),
            to: typed.to_ns.map(Duration),
            threads: typed.threads,
            decisions: typed.decisions,
            strip: typed.strip,
        })
    }
}

/// The tick rate for a number, which must be one that a kernel can be built with.
pub fn parse_hz(hz: u32) -> PyResult<Hz> {
    Hz::from_u32(hz).ok_or_else(|| {
        let known = Hz::ALL.map(|h| h.get().to_string()).join(", ");
        value_error(format!("{hz} is no tick rate of a kernel: expected one of {known}"))
    })
}

/// Replays recordings; see `torpor.replay`.
#[pyfunction]
#[pyo3(signature = (traces, platform, governors, options, progress = None))]
pub fn replay(
    py: Python<'_>,
    traces: Vec<PathBuf>,
    platform: &str,
    governors: Vec<OsString>,
    options: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Result> {
    let typed = OptionsText::read(options)?;
    let platform = self::platform(platform, &typed.enabled_states)?;
    let isolate = typed.isolate;
    let options = OptionsText::parse(typed)?;
    let request = Request { traces, platform, governors: governor_specs(&governors)?, options };
    let has_decisions = request.options.decisions;
    let (outcome, catalog) = watched(py, progress, |watch| {
        let catalog = catalog(isolate, Some(watch.stop()));
        (torpor_engine::run(&request, &catalog, watch), catalog)
    })?;
    warn(py, &catalog)?;
    let outcome = outcome.map_err(engine_error)?;
    Ok(Result { outcome, has_decisions })
}
