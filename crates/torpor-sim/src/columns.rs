// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The columns of a simulation: each idle governor in each kernel, with each scheduler and each IO
//! boost, under each cpufreq governor.

use crate::cpufreq::Cpufreq;
use crate::error::{Halt, SimError};
use crate::kernel::{Kernel, KernelSpec, Kernels};
use crate::options::{self, Request};
use crate::outcome::{KernelInfo, Policies};
use std::fmt;
use torpor_engine::Progress;
use torpor_governor::{Catalog, GovernorSpec, IoBoostSpec, Label, Place, SchedulerSpec};
use torpor_machine::units::Hz;
use torpor_result::record::Described;

/// IO boost of the kernel's schedutil.
pub(crate) const MAINLINE: &str = "iowait";
pub(crate) const NO_BOOST: &str = "none";
/// Scheduler of normal tasks that the kernel itself has.
pub(crate) const OWN_SCHEDULER: &str = "eevdf";

pub(crate) struct Column {
    /// Name: the governor, and the other policies that differ between columns.
    pub label: String,
    pub spec: GovernorSpec,
    pub kernel: Kernel,
    pub cpufreq: Cpufreq,
    pub io_boost: IoBoost,
    pub scheduler: Scheduler,
    /// Policies of the column that do not ship.
    pub foreign: Vec<Label>,
}

/// The IO boost of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IoBoost {
    /// Schedutil's own, for the CPU of a task that waits for IO.
    Own,
    /// None: schedutil does not receive `SCHED_CPUFREQ_IOWAIT`.
    Off,
    /// A boost that the scheduler calls.
    Called(Box<IoBoostSpec>),
}

impl IoBoost {
    fn new(spec: &IoBoostSpec) -> IoBoost {
        match &spec.to_string()[..] {
            MAINLINE => IoBoost::Own,
            NO_BOOST => IoBoost::Off,
            _ => IoBoost::Called(Box::new(spec.clone())),
        }
    }
}

impl fmt::Display for IoBoost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IoBoost::Own => f.write_str(MAINLINE),
            IoBoost::Off => f.write_str(NO_BOOST),
            IoBoost::Called(spec) => spec.fmt(f),
        }
    }
}

/// The scheduler of a column's normal tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scheduler {
    /// The kernel's fair class.
    #[default]
    Own,
    /// A program of sched_ext.
    Loaded(Box<SchedulerSpec>),
}

impl Scheduler {
    fn new(spec: &SchedulerSpec) -> Result<Scheduler, SimError> {
        match spec.place() {
            Place::Builtin { name } if name == OWN_SCHEDULER && spec.params().is_empty() => {
                Ok(Scheduler::Own)
            }
            Place::Builtin { .. } => Err(SimError::Option {
                what: "a scheduler is the kernel's own or a file",
                given: format!("option `schedulers` {spec}"),
                hint: format!("{OWN_SCHEDULER}, or a path with `.c`, as ./scx_simple.bpf.c"),
            }),
            _ => Ok(Scheduler::Loaded(Box::new(spec.clone()))),
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduler::Own => f.write_str(OWN_SCHEDULER),
            Scheduler::Loaded(spec) => spec.fmt(f),
        }
    }
}

/// Returns a hash of everything that a kernel is made of. Compiles it if it is not cached, or if
/// foreign policies must be linked.
pub fn kernel_id(
    spec: &KernelSpec,
    hz: Hz,
    is_linked: bool,
    catalog: &Catalog,
    progress: &dyn Progress,
) -> Result<String, SimError> {
    let (kernels, reports) = (Kernels::of(catalog), reports(spec, progress));
    let kernel = kernels.resolve(spec, hz, &reports)?;
    if is_linked {
        kernels.with_objects(&kernel, &reports)?;
    }
    Ok(kernel.id().to_owned())
}

/// Returns the files of a kernel's tree that the compiler reads. Compiles the kernel if it is not
/// cached.
pub fn kernel_inputs(
    spec: &KernelSpec,
    hz: Hz,
    catalog: &Catalog,
    progress: &dyn Progress,
) -> Result<Vec<String>, SimError> {
    let kernel = Kernels::of(catalog).resolve_source(spec, hz, &reports(spec, progress))?;
    Ok(kernel.inputs.to_vec())
}

/// Reports the number of a kernel's files that are compiled.
fn reports<'a>(
    kernel: &dyn fmt::Display,
    progress: &'a dyn Progress,
) -> impl Fn(usize, usize) + Sync + use<'a> {
    let what = format!("compiling Linux {kernel}");
    move |done: usize, all: usize| progress.advance(&what, done as u64, all as u64)
}

/// Returns the columns, the idle governors of the first kernel first.
pub(crate) fn columns(
    request: &Request,
    catalog: &Catalog,
    hz: Hz,
    progress: &dyn Progress,
) -> Result<Vec<Column>, SimError> {
    let asked = options::kernels(&request.options).len();
    let io_boosts = &request.options.io_boosts;
    let kernels = Kernels::of(catalog);
    let cpufreq = cpufreq(request);
    let boosts = match &io_boosts[..] {
        [] => vec![IoBoost::Own],
        boosts => boosts.iter().map(IoBoost::new).collect(),
    };
    let compiled = scheduled(request, catalog, &kernels, hz, progress)?;
    let schedulers = request.options.schedulers.len();
    let mut boosted = Vec::new();
    for (boost, (scheduler, kernel)) in
        boosts.iter().flat_map(|b| compiled.iter().map(move |k| (b, k)))
    {
        let kernel = match boost {
            IoBoost::Called(spec) => {
                kernels.with_io_boost(kernel, catalog, spec, &reports(&kernel.name, progress))?
            }
            _ => kernel.clone(),
        };
        boosted.push((boost, scheduler, kernel));
    }
    let mut columns = Vec::new();
    for policy in &cpufreq {
        let of_kernel = |of| request.governors.iter().map(move |spec| (of, spec));
        for ((boost, scheduler, kernel), spec) in boosted.iter().flat_map(of_kernel) {
            let mut label = spec.to_string();
            if asked > 1 {
                label += &format!(" + {}", kernel.name);
            }
            if schedulers > 1 {
                label += &format!(" + {scheduler}");
            }
            if cpufreq.len() > 1 {
                label += &format!(" + {policy}");
            }
            if boosts.len() > 1 {
                label += &format!(" + {boost}");
            }
            let reports = reports(&kernel.name, progress);
            let mut kernel = kernels.with_governor(kernel, catalog, spec, &reports)?;
            if let Some(file) = policy.file() {
                kernel = kernels.with_cpufreq(&kernel, catalog, file, &reports)?;
            }
            // Waits for IO have no effect if the frequency is fixed.
            let io_boost = match boost {
                IoBoost::Own if policy.is_held() => IoBoost::Off,
                boost => (*boost).clone(),
            };
            columns.push(Column {
                label,
                spec: spec.clone(),
                kernel,
                cpufreq: policy.clone(),
                io_boost,
                scheduler: (*scheduler).clone(),
                foreign: foreign(spec, policy, boost, scheduler),
            });
        }
    }
    Ok(columns)
}

/// Returns the requested kernels with each requested scheduler.
fn scheduled(
    request: &Request,
    catalog: &Catalog,
    kernels: &Kernels,
    hz: Hz,
    progress: &dyn Progress,
) -> Result<Vec<(Scheduler, Kernel)>, SimError> {
    let schedulers: Vec<Scheduler> = match &request.options.schedulers[..] {
        [] => vec![Scheduler::Own],
        asked => asked.iter().map(Scheduler::new).collect::<Result<_, _>>()?,
    };
    // A missing file is said before any kernel is compiled.
    for scheduler in &schedulers {
        if let Scheduler::Loaded(program) = scheduler {
            catalog.unchecked_files(program)?;
        }
    }
    let mut found = Vec::new();
    for scheduler in schedulers {
        for spec in options::kernels(&request.options) {
            let reports = reports(&spec, progress);
            let mut kernel = kernels.resolve(&spec, hz, &reports)?;
            if let Scheduler::Loaded(program) = &scheduler {
                kernel = kernels.with_scheduler(&kernel, catalog, program, &reports)?;
            }
            found.push((scheduler.clone(), kernel));
        }
    }
    Ok(found)
}

/// Returns the policies of a column that do not ship.
fn foreign(
    governor: &GovernorSpec,
    cpufreq: &Cpufreq,
    boost: &IoBoost,
    scheduler: &Scheduler,
) -> Vec<Label> {
    let is_file = |place: &Place| !matches!(place, Place::Builtin { .. });
    let governor = Some(governor.label()).filter(|_| is_file(governor.place()));
    let cpufreq = cpufreq.file().map(|spec| spec.label());
    let boost = match boost {
        IoBoost::Called(spec) if is_file(spec.place()) => Some(spec.label()),
        _ => None,
    };
    let scheduler = match scheduler {
        Scheduler::Own => None,
        Scheduler::Loaded(spec) => Some(spec.label()),
    };
    [governor, cpufreq, boost, scheduler].into_iter().flatten().collect()
}

/// Returns the requested cpufreq governors, else the machine's own.
pub(crate) fn cpufreq(request: &Request) -> Vec<Cpufreq> {
    match &request.options.cpufreq[..] {
        [] => vec![request.platform.cpufreq_governor.into()],
        asked => asked.to_vec(),
    }
}

pub(crate) fn kernels(columns: &[Column]) -> Vec<KernelInfo> {
    let mut all: Vec<KernelInfo> = Vec::new();
    for Column { kernel, .. } in columns {
        if !all.iter().any(|known| known.kernel == kernel.name) {
            all.push(KernelInfo {
                kernel: kernel.name.clone(),
                release: kernel.release.to_string(),
                hosted_files: kernel.hosted.len() as u64,
                source_sha256: kernel.source_sha256.clone(),
                config: kernel.config.changed(),
                options_without_effect: kernel.config.without_effect.len() as u64,
                options_not_taken: kernel.config.not_taken.clone(),
                unknown_functions: kernel.unknown_functions(),
            });
        }
    }
    all
}

impl Column {
    pub(crate) fn describe(&self) -> Described {
        let governor = &self.kernel.governor;
        Described {
            label: self.label.clone(),
            name: governor.name.clone().unwrap_or_default(),
            kind: "governor",
            origin: match self.spec.place() {
                Place::Builtin { .. } => {
                    self.kernel.own_governor().unwrap_or_else(|| self.spec.to_string())
                }
                _ => self.spec.to_string(),
            },
            source_sha256: None,
            params: governor.params.iter().cloned().collect(),
            config: self.spec.config().iter().cloned().collect(),
        }
    }

    /// Returns the reason of a run's end, with the policies that may have caused it.
    pub(crate) fn explains(&self, halt: &Halt) -> String {
        let labels: Vec<String> = self.foreign.iter().map(Label::to_string).collect();
        match labels.is_empty() {
            true => halt.to_string(),
            false => format!("{}: {halt}", labels.join(", ")),
        }
    }

    pub(crate) fn policies(&self) -> Policies {
        Policies {
            kernel: self.kernel.name.clone(),
            cpufreq: self.cpufreq.to_string(),
            io_boost: self.io_boost.to_string(),
            scheduler: self.scheduler.to_string(),
        }
    }
}
