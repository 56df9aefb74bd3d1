// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Options of a simulation.

use crate::kernel::{DEFAULT_KERNEL, KernelSpec, Write};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use std::path::PathBuf;
use torpor_engine::oracle::Aim;
use torpor_engine::{DisabledState, asks_for_oracle, enable_states, state_names};
use torpor_governor::{GovernorSpec, IoBoostSpec, SchedulerSpec};
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Hz, Instant};
use torpor_result::options::{self, Given, LatencyLimits};

use crate::columns::cpufreq;
use crate::cpufreq::Cpufreq;
use crate::error::SimError;
use crate::workload::{self, Workload};

/// Returns the requested kernels, else the default one.
pub(crate) fn kernels(options: &Options) -> Vec<KernelSpec> {
    let Ok(default) = DEFAULT_KERNEL.parse::<KernelSpec>();
    match &options.kernels[..] {
        [] => vec![default],
        asked => asked.to_vec(),
    }
}

/// Request for a simulation: every governor, with every frequency policy and IO boost, on the same
/// workload with several seeds.
#[derive(Clone, Debug)]
pub struct Request {
    pub workload: Workload,
    pub platform: Platform,
    pub governors: Vec<GovernorSpec>,
    pub options: Options,
}

// Defaults are in `python/torpor/run/options.py`, which declares the options.
#[derive(Clone, Debug, Default, JsonSchema, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "SimulateAsked")]
pub struct Options {
    #[serde(rename(serialize = "duration_ns"), deserialize_with = "options::duration")]
    pub duration: Duration,
    #[serde(rename(serialize = "warm_up_ns"), deserialize_with = "options::duration")]
    pub warm_up: Duration,
    pub seed: u64,
    pub seeds: u32,
    #[serde(deserialize_with = "options::some_hz")]
    pub hz: Option<Hz>,
    #[serde(deserialize_with = "options::texts", serialize_with = "as_texts")]
    #[schemars(with = "Vec<String>")]
    pub cpufreq: Vec<Cpufreq>,
    #[serde(deserialize_with = "options::texts", skip_serializing)]
    #[schemars(with = "Vec<String>")]
    pub io_boosts: Vec<IoBoostSpec>,
    #[serde(deserialize_with = "options::texts", skip_serializing)]
    #[schemars(with = "Vec<String>")]
    pub schedulers: Vec<SchedulerSpec>,
    #[serde(deserialize_with = "options::texts", skip_serializing)]
    #[schemars(with = "Vec<String>")]
    pub kernels: Vec<KernelSpec>,
    /// The user's part of the kernels' command lines.
    pub kernel_args: Option<String>,
    #[serde(rename(serialize = "latency_limit_ns"))]
    #[schemars(with = "Option<i64>")]
    pub latency_limit: LatencyLimits,
    pub disabled_states: Vec<DisabledState>,
    #[serde(deserialize_with = "state_names")]
    pub enabled_states: Vec<String>,
    pub background: Option<String>,
    pub device: Option<String>,
    #[serde(deserialize_with = "options::texts", serialize_with = "as_texts")]
    #[schemars(with = "Vec<String>")]
    pub writes: Vec<Write>,
    #[serde(deserialize_with = "options::some_cpus")]
    pub cpus: Option<Vec<CpuId>>,
    #[serde(skip_serializing)]
    pub threads: Option<usize>,
    #[serde(skip_serializing)]
    pub isolate: Option<bool>,
    #[serde(skip_serializing)]
    pub trace: Option<PathBuf>,
    /// Aim of the oracle to compare each governor with; [`crate::run`] sets it if the oracle is
    /// among the governors.
    #[serde(skip)]
    pub against_oracle: Option<Aim>,
    /// Whether the kernel's own work takes no time: a workload from a recording includes it in the
    /// work of tasks.
    #[serde(skip)]
    pub is_kernel_free: bool,
    #[serde(skip_serializing)]
    pub strip: bool,
    pub given: Given,
}

fn as_texts<S: Serializer, T: ToString>(values: &[T], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(values.iter().map(T::to_string))
}

impl Options {
    /// Returns the start and the end of the measurement.
    pub(crate) fn times(&self) -> (Instant, Instant) {
        (Instant(0) + self.warm_up, Instant(0) + self.warm_up + self.duration)
    }
}

impl Request {
    /// Resolves a request: adds the background, fills in the platform's defaults, changes the
    /// platform as the options say, and moves the oracle from the governors to an option.
    pub fn resolved(&self) -> Result<Request, SimError> {
        let mut request = self.clone();
        let Request { workload, platform, governors, options } = &mut request;
        if let Some(background) = &options.background {
            *workload = workload.with_background(&workload::resolve(background)?);
        }
        workload.place_files(platform, options.device.as_deref())?;
        enable_states(platform, &options.enabled_states)?;
        options.cpufreq = cpufreq(self);
        options.kernels = kernels(&self.options);
        options.hz = Some(hz(options, platform)?);
        check_arguments(options.kernel_args.as_deref().unwrap_or_default())?;
        governors.clear();
        for governor in &self.governors {
            match asks_for_oracle(governor)? {
                Some(aim) if options.against_oracle.is_none_or(|other| other == aim) => {
                    options.against_oracle = Some(aim);
                }
                Some(_) => return Err(SimError::TwoOracles { second: governor.to_string() }),
                None => governors.push(governor.clone()),
            }
        }
        Ok(request)
    }
}

/// Returns the tick rate: the option's, that of the kernels' configurations, or the platform's.
fn hz(options: &Options, platform: &Platform) -> Result<Hz, SimError> {
    let mut chosen = options.hz.map(|hz| (hz, format!("option `hz` is {}", hz.get())));
    for kernel in &options.kernels {
        let Some(hz) = kernel.configuration()?.hz else { continue };
        let (first, why) =
            chosen.get_or_insert_with(|| (hz, format!("kernel `{kernel}` has {}", hz.get())));
        if *first != hz {
            return Err(SimError::Option {
                what: "all kernels of a result have one tick rate",
                given: format!("kernel `{kernel}` has CONFIG_HZ={}, and {why}", hz.get()),
                hint: "add `,CONFIG_HZ=N` to a kernel, or leave out option `hz`".to_owned(),
            });
        }
    }
    Ok(chosen.map_or(platform.hz, |(hz, _)| hz))
}

/// Refuses arguments for which there is an option.
fn check_arguments(arguments: &str) -> Result<(), SimError> {
    for (name, hint) in [
        ("cpuidle.governor", "option `governors` chooses the idle governor"),
        ("cpufreq.default_governor", "option `cpufreq` chooses the frequency governor"),
        ("maxcpus", "option `cpus` is the list of online CPUs"),
        ("nr_cpus", "option `cpus` is the list of online CPUs"),
    ] {
        let is_it = |word: &str| word.split('=').next() == Some(name);
        if arguments.split_whitespace().any(is_it) {
            return Err(SimError::Option {
                what: "the kernel's arguments have nothing for which there is an option",
                given: format!("`{name}` in option `kernel_args`"),
                hint: hint.to_owned(),
            });
        }
    }
    Ok(())
}

/// Costs of the kernel's own work on the biggest CPU at its highest frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overheads {
    /// Cost of an interrupt: the tick, a timer, a device.
    pub interrupt: Duration,
    pub context_switch: Duration,
    /// Cost of sending a reschedule IPI; on a virtual machine this includes the exit to the
    /// hypervisor.
    pub ipi_send: Duration,
    /// Time from sending an IPI to the interrupt on the other CPU.
    pub ipi_delivery: Duration,
    /// Cost of receiving an IPI.
    pub ipi_handling: Duration,
}

impl Overheads {
    pub fn of(platform: &Platform) -> Overheads {
        let torpor_machine::platform::Overheads {
            context_switch,
            ipi_send,
            ipi_delivery,
            ipi_handling,
            virt_exit,
            timer_programming: _,
        } = platform.overheads;
        Overheads {
            interrupt: platform.tick_handling,
            context_switch,
            ipi_send: ipi_send + virt_exit,
            ipi_delivery,
            ipi_handling,
        }
    }
}
