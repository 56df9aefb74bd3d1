// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Options of a replay.

use crate::error::EngineError;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use torpor_governor::GovernorSpec;
use torpor_machine::platform::{Platform, PlatformError};
use torpor_machine::units::{CpuId, Duration, Hz};
use torpor_result::options::{self, Given, LatencyLimits, index};

/// A replay: every governor on every recording, on one machine.
#[derive(Clone, Debug)]
pub struct Request {
    pub traces: Vec<PathBuf>,
    pub platform: Platform,
    pub governors: Vec<GovernorSpec>,
    pub options: Options,
}

/// Options of a replay, as given and as resolved.
// Defaults are in `python/torpor/run/options.py`, which declares the options.
#[derive(Clone, Debug, Default, JsonSchema, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ReplayOptions")]
pub struct Options {
    #[serde(deserialize_with = "options::some_hz")]
    pub hz: Option<Hz>,
    #[serde(rename(serialize = "latency_limit_ns"))]
    #[schemars(with = "Option<i64>")]
    pub latency_limit: LatencyLimits,
    pub disabled_states: Vec<DisabledState>,
    #[serde(deserialize_with = "state_names")]
    pub enabled_states: Vec<String>,
    #[schemars(with = "Option<String>")]
    pub recorded_on: Option<Machine>,
    /// The machines that recordings identify, by path, where the user named none.
    #[serde(skip_serializing)]
    #[schemars(skip)]
    pub identified: BTreeMap<String, Machine>,
    #[serde(deserialize_with = "options::some_cpus")]
    pub cpus: Option<Vec<CpuId>>,
    #[serde(deserialize_with = "options::cpu_pairs")]
    pub cpu_map: BTreeMap<CpuId, CpuId>,
    pub others: Option<Others>,
    #[serde(rename(serialize = "start_ns"), deserialize_with = "options::some_duration")]
    pub start: Option<Duration>,
    #[serde(rename(serialize = "end_ns"), deserialize_with = "options::some_duration")]
    pub end: Option<Duration>,
    pub by: Option<By>,
    pub time_decisions: bool,
    #[serde(skip_serializing)]
    pub threads: Option<usize>,
    #[serde(skip_serializing)]
    pub isolate: Option<bool>,
    #[serde(skip_serializing)]
    pub decisions: bool,
    #[serde(skip_serializing)]
    pub strip: bool,
    pub given: Given,
}

impl Request {
    /// Returns the request with defaults from the platform, and the platform with the enabled
    /// states.
    pub fn resolved(&self) -> Result<Request, EngineError> {
        let mut request = self.clone();
        let Request { platform, options, .. } = &mut request;
        enable_states(platform, &options.enabled_states)?;
        if !platform.has_idle_driver {
            return Err(EngineError::NoIdleDriver { platform: platform.name.clone() });
        }
        if let (Some(start), Some(end)) = (options.start, options.end) {
            if start >= end {
                return Err(EngineError::EndsFirst { start, end });
            }
        }
        options.others.get_or_insert_default();
        let machines = options.recorded_on.iter_mut().chain(options.identified.values_mut());
        machines.into_iter().try_for_each(Machine::load)?;
        Ok(request)
    }
}

pub fn enable_states(platform: &mut Platform, states: &[String]) -> Result<(), PlatformError> {
    states.iter().try_for_each(|state| platform.enable_state(state))
}

/// Key by which sleeps are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The task that ran first afterwards.
    Task,
    /// The interrupt, or the IPI's purpose; all timers as one.
    Irq,
    /// The timer's function; all interrupts as one.
    Timer,
}

/// Assumption about CPUs that are not in the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Others {
    /// They rest in their deepest state all the time: a CPU without recorded events had nothing to
    /// do.
    #[default]
    Idle,
    /// They never rest, so their cluster does not rest either.
    Busy,
}

/// A machine by its name or file, loaded when the request is resolved.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "String")]
pub enum Machine {
    Named(String),
    Known(Box<Platform>),
}

impl Machine {
    fn load(&mut self) -> Result<(), PlatformError> {
        if let Machine::Named(name) = self {
            *self = Platform::resolve(name)?.into();
        }
        Ok(())
    }

    /// Returns the platform of a resolved request.
    pub(crate) fn known(&self) -> Option<&Platform> {
        match self {
            Machine::Named(_) => None,
            Machine::Known(platform) => Some(platform),
        }
    }
}

impl From<String> for Machine {
    fn from(name: String) -> Machine {
        Machine::Named(name)
    }
}

impl From<Platform> for Machine {
    fn from(platform: Platform) -> Machine {
        Machine::Known(Box::new(platform))
    }
}

impl Serialize for Machine {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match self {
            Machine::Named(name) => name,
            Machine::Known(platform) => &platform.name,
        })
    }
}

/// A disabled state, on one platform CPU or on all (sysfs `disable`). A user gives its index, or
/// the CPU and the index: `1`, `[4, 1]` or `"4:1"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct DisabledState {
    pub cpu: Option<CpuId>,
    pub state: usize,
}

impl TryFrom<Value> for DisabledState {
    type Error = String;

    fn try_from(given: Value) -> Result<DisabledState, String> {
        let (cpu, state) = match &given {
            Value::String(text) => match text.split_once(':') {
                None => (None, index(text)),
                Some((cpu, state)) => (Some(index(cpu)), index(state)),
            },
            Value::Array(pair) if pair.len() == 2 => (Some(whole(&pair[0])), whole(&pair[1])),
            alone => (None, whole(alone)),
        };
        let expected = "expected its index, such as 1, or CPU:INDEX, such as 4:1";
        let error = || format!("`{}` is not an idle state: {expected}", unquoted(&given));
        Ok(DisabledState {
            cpu: cpu.map(|cpu| cpu.map(CpuId).ok_or_else(error)).transpose()?,
            state: state.ok_or_else(error)?,
        })
    }
}

fn whole<T: TryFrom<u64>>(value: &Value) -> Option<T> {
    value.as_u64()?.try_into().ok()
}

fn unquoted(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads names or indices of idle states.
pub fn state_names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let given = Vec::<Value>::deserialize(from)?;
    Ok(given.iter().map(unquoted).collect())
}

/// Receives the progress of the work, and can cancel it.
pub trait Progress: Sync {
    fn advance(&self, what: &str, done: u64, total: u64);
    fn cancelled(&self) -> bool;
}

/// Returns the number of worker threads; 0 stands for one per core. The number changes no result,
/// and more than four per core do not help.
pub fn worker_threads(wanted: Option<usize>) -> usize {
    match wanted.unwrap_or(0) {
        // To count the cores takes a dozen system calls.
        few @ 0..=THREADS_PER_CORE => few,
        many => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            many.min(THREADS_PER_CORE * cores)
        }
    }
}

const THREADS_PER_CORE: usize = 4;

/// Ignores progress.
pub struct Unwatched;

impl Progress for Unwatched {
    fn advance(&self, _: &str, _: u64, _: u64) {}
    fn cancelled(&self) -> bool {
        false
    }
}

/// The name of the oracle, used where a governor's name is expected.
pub const ORACLE: &str = "oracle";
