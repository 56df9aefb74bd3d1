// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A replay's outcome, and the call that makes one.

use crate::columns;
use crate::errors::{EngineError, engine_error, governor_error, platform_error, value_error};
use crate::table::Table;
use crate::watch::watched;
use pyo3::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use torpor_engine::{DisabledState, Options, Outcome, Request};
use torpor_governor::{Catalog, GovernorSpec};
use torpor_platform::Platform;
use torpor_units::{CpuId, Duration, Hz};

/// What came out of a replay: JSON, and tables by name.
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

    /// The table `summary`, `states`, `latency` or `decisions`.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let lay_out = match name {
            "summary" => columns::summary,
            "states" => columns::states,
            "latency" => columns::latency,
            "decisions" if self.has_decisions => columns::decisions,
            "decisions" => {
                return Err(EngineError::new_err(
                    "this replay kept no decisions\nhint: replay with `decisions=True`",
                ));
            }
            _ => {
                return Err(EngineError::new_err(format!(
                    "`{name}` is no table: expected summary, states, latency or decisions"
                )));
            }
        };
        py.detach(|| lay_out(&self.outcome))
            .map(Table::new)
            .map_err(|error| EngineError::new_err(format!("table `{name}`: {error}")))
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
    recorded_on: Option<String>,
    cpus: Option<Vec<u32>>,
    cpu_map: Option<BTreeMap<u32, u32>>,
    threads: Option<usize>,
    #[serde(default)]
    decisions: bool,
    #[serde(default)]
    strip: bool,
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

impl OptionsText {
    fn parse(text: &str) -> PyResult<Options> {
        let typed: OptionsText = serde_json::from_str(text)
            .map_err(|error| EngineError::new_err(format!("options: {error}")))?;
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
    governors: Vec<String>,
    options: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Result> {
    let options = OptionsText::parse(options)?;
    let request = Request {
        traces,
        platform: Platform::resolve(platform).map_err(platform_error)?,
        governors: governors
            .iter()
            .map(|text| text.parse::<GovernorSpec>().map_err(governor_error))
            .collect::<PyResult<_>>()?,
        options,
    };
    let has_decisions = request.options.decisions;
    let outcome = watched(py, progress, |watch| {
        torpor_engine::run(&request, &Catalog::new(Default::default()), watch)
    })?
    .map_err(engine_error)?;
    Ok(Result { outcome, has_decisions })
}
