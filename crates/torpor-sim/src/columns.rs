// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What a simulation compares: each governor, under each frequency policy, with each IO boost, or
//! in each kernel.

use crate::cpufreq::Cpufreq;
use crate::error::SimError;
use crate::options::{Options, Request};
use crate::outcome::{CpufreqInfo, IoBoostInfo, KernelInfo, Policies};
use std::fmt;
use torpor_engine::{Progress, describe_governor};
use torpor_governor::{
    Catalog, CpufreqPolicy, Governor, GovernorError, GovernorSpec, IoBoost, IoBoostSpec, Place,
    Policy,
};
use torpor_kernel::{Kernel, KernelSpec, Kernels};
use torpor_result::record::Described;
use torpor_units::Hz;

/// What schedutil does of itself in the kernels that are simulated.
pub(crate) const MAINLINE: &str = "iowait";
pub(crate) const NO_BOOST: &str = "none";

pub(crate) struct Column {
    /// Other values that vary are appended to the governor.
    pub label: String,
    spec: GovernorSpec,
    pub decider: Decider,
    pub cpufreq: Cpufreq,
    /// What decides frequencies, if anything does; of a kernel's column, whose own decides, what
    /// is held against it.
    pub frequency: Option<CpufreqPolicy>,
    pub boost: Option<Boost>,
}

/// Who decides.
pub(crate) enum Decider {
    /// A governor, under Torpor's own scheduler.
    Governor(Governor),
    /// A kernel, with one of its governors, and whether its schedutil boosts who waits for IO.
    Kernel { kernel: Box<Kernel>, io_boost: KernelBoost },
}

/// A kernel's IO boost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelBoost {
    /// What its schedutil does.
    Own,
    /// Its schedutil does not hear who wakes up from IO.
    Off,
    /// One from elsewhere, which its scheduler calls.
    Linked(IoBoostSpec),
}

impl KernelBoost {
    fn of(spec: &IoBoostSpec) -> KernelBoost {
        match &spec.to_string()[..] {
            MAINLINE => KernelBoost::Own,
            NO_BOOST => KernelBoost::Off,
            _ => KernelBoost::Linked(spec.clone()),
        }
    }
}

impl fmt::Display for KernelBoost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelBoost::Own => f.write_str(MAINLINE),
            KernelBoost::Off => f.write_str(NO_BOOST),
            KernelBoost::Linked(spec) => spec.fmt(f),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Boost {
    spec: IoBoostSpec,
    pub policy: IoBoost,
}

/// The governors come first: the first column's boost and policy are those of the second, too.
pub(crate) fn columns(
    request: &Request,
    catalog: &Catalog,
    hz: Hz,
    progress: &dyn Progress,
) -> Result<Vec<Column>, SimError> {
    if !request.options.kernels.is_empty() {
        return of_kernels(request, catalog, hz, progress);
    }
    let governors = request.governors.iter();
    let governors =
        governors.map(|spec| catalog.resolve(spec, hz).map(|governor| (spec, governor)));
    let governors: Vec<(&GovernorSpec, Governor)> = governors.collect::<Result<_, _>>()?;
    let asked = &request.options.io_boosts;
    let boosts = asked.iter().map(|spec| boost(spec, catalog, hz));
    let boosts: Vec<Boost> = boosts.collect::<Result<_, _>>()?;
    let cpufreq = cpufreq(request);
    let mut columns = Vec::new();
    for policy in &cpufreq {
        let frequency = frequency(policy, catalog, hz)?;
        let boosts = match &boosts[..] {
            [] if frequency.is_some() => vec![Some(boost(&MAINLINE.parse()?, catalog, hz)?)],
            [] => vec![None],
            boosts => boosts.iter().cloned().map(Some).collect(),
        };
        for boost in boosts {
            columns.extend(governors.iter().map(|(spec, governor)| {
                let mut label = spec.to_string();
                if cpufreq.len() > 1 {
                    label += &format!(" + {policy}");
                }
                if let Some(boost) = boost.as_ref().filter(|_| asked.len() > 1) {
                    label += &format!(" + {}", boost.spec);
                }
                Column {
                    label,
                    spec: (*spec).clone(),
                    decider: Decider::Governor(governor.clone()),
                    cpufreq: policy.clone(),
                    frequency: frequency.clone(),
                    boost: boost.clone(),
                }
            }));
        }
    }
    Ok(columns)
}

/// Tells a kernel apart by the content of all it is made from; it is compiled first, if need be.
pub fn kernel_id(
    spec: &KernelSpec,
    hz: Hz,
    catalog: &Catalog,
    progress: &dyn Progress,
) -> Result<String, SimError> {
    let kernel = Kernels::of(catalog).resolve(spec, hz, &told(spec, progress))?;
    Ok(kernel.id().to_owned())
}

fn told<'a>(
    spec: &KernelSpec,
    progress: &'a dyn Progress,
) -> impl Fn(usize, usize) + Sync + use<'a> {
    let what = format!("compiling Linux {spec}");
    move |done: usize, all: usize| progress.advance(&what, done as u64, all as u64)
}

/// Each governor in each kernel, with each IO boost, under each frequency policy.
fn of_kernels(
    request: &Request,
    catalog: &Catalog,
    hz: Hz,
    progress: &dyn Progress,
) -> Result<Vec<Column>, SimError> {
    let Options { kernels: asked, io_boosts, .. } = &request.options;
    let kernels = Kernels::of(catalog);
    let cpufreq = cpufreq(request);
    let boosts = match &io_boosts[..] {
        [] => vec![KernelBoost::Own],
        boosts => boosts.iter().map(KernelBoost::of).collect(),
    };
    let mut compiled = Vec::new();
    for (boost, spec) in boosts.iter().flat_map(|b| asked.iter().map(move |spec| (b, spec))) {
        let tell = told(spec, progress);
        let kernel = match boost {
            KernelBoost::Linked(boost) => {
                let kernel = kernels.resolve(spec, hz, &tell)?;
                kernels.with_io_boost(&kernel, catalog, boost)?
            }
            _ => kernels.resolve(spec, hz, &tell)?,
        };
        compiled.push((boost, kernel));
    }
    let mut columns = Vec::new();
    for policy in &cpufreq {
        // What the judge asks.
        let frequency = match policy.linked() {
            Some(_) => None,
            None => frequency(policy, catalog, hz)?,
        };
        let of_kernel = |of| request.governors.iter().map(move |spec| (of, spec));
        for ((boost, kernel), spec) in compiled.iter().flat_map(of_kernel) {
            let mut label = spec.to_string();
            if asked.len() > 1 {
                label += &format!(" + {}", kernel.name);
            }
            if cpufreq.len() > 1 {
                label += &format!(" + {policy}");
            }
            if boosts.len() > 1 {
                label += &format!(" + {boost}");
            }
            let mut kernel = kernels.with_governor(kernel, catalog, spec)?;
            if let Some(linked) = policy.linked() {
                kernel = kernels.with_cpufreq(&kernel, catalog, linked)?;
            }
            // Where frequencies are held nobody hears of anything.
            let io_boost = match boost {
                KernelBoost::Own if policy.is_held() => KernelBoost::Off,
                boost => (*boost).clone(),
            };
            columns.push(Column {
                label,
                spec: spec.clone(),
                decider: Decider::Kernel { kernel: Box::new(kernel), io_boost },
                cpufreq: policy.clone(),
                frequency: frequency.clone(),
                boost: None,
            });
        }
    }
    Ok(columns)
}

/// The frequency policies that are asked for, else the machine's own.
pub(crate) fn cpufreq(request: &Request) -> Vec<Cpufreq> {
    match &request.options.cpufreq[..] {
        [] => vec![request.platform.cpufreq_governor.into()],
        asked => asked.to_vec(),
    }
}

fn frequency(
    cpufreq: &Cpufreq,
    catalog: &Catalog,
    hz: Hz,
) -> Result<Option<CpufreqPolicy>, GovernorError> {
    cpufreq.policy().map(|spec| catalog.resolve_cpufreq(spec, hz)).transpose()
}

fn boost(spec: &IoBoostSpec, catalog: &Catalog, hz: Hz) -> Result<Boost, GovernorError> {
    Ok(Boost { spec: spec.clone(), policy: catalog.resolve_ioboost(spec, hz)? })
}

/// The kernels of all columns, each once.
pub(crate) fn kernels(columns: &[Column]) -> Vec<KernelInfo> {
    let mut all: Vec<KernelInfo> = Vec::new();
    for column in columns {
        if let Decider::Kernel { kernel, .. } = &column.decider {
            if !all.iter().any(|known| known.kernel == kernel.name) {
                all.push(KernelInfo {
                    kernel: kernel.name.clone(),
                    release: kernel.release.to_string(),
                    hosted_files: kernel.hosted.len() as u64,
                    image_sha256: crate::journal::sha256(kernel.image_bytes()),
                });
            }
        }
    }
    all
}

/// The frequency policies of all columns that Torpor calls, each once.
pub(crate) fn cpufreq_policies(columns: &[Column]) -> Vec<CpufreqInfo> {
    let mut all: Vec<CpufreqInfo> = Vec::new();
    for column in columns.iter().filter(|column| column.is_ours()) {
        let cpufreq = column.cpufreq.to_string();
        let is_new = !all.iter().any(|known| known.cpufreq == cpufreq);
        if let Some(policy) = column.frequency.as_ref().filter(|_| is_new) {
            all.push(CpufreqInfo {
                cpufreq,
                source_sha256: policy.source_sha256().to_owned(),
                params: policy.param_settings().into_iter().collect(),
            });
        }
    }
    all
}

/// The IO boosts of all columns, each once.
pub(crate) fn io_boosts(columns: &[Column]) -> Vec<IoBoostInfo> {
    let mut all: Vec<IoBoostInfo> = Vec::new();
    for boost in columns.iter().filter_map(|column| column.boost.as_ref()) {
        let info = boost.describe();
        if !all.iter().any(|known| known.io_boost == info.io_boost) {
            all.push(info);
        }
    }
    all
}

impl Column {
    pub(crate) fn describe(&self) -> Described {
        let label = self.label.clone();
        match &self.decider {
            Decider::Governor(governor) => {
                Described { label, ..describe_governor(&self.spec, governor) }
            }
            Decider::Kernel { kernel, .. } => Described {
                label,
                name: kernel.governor.name.clone().unwrap_or_default(),
                kind: "governor",
                origin: match self.spec.place() {
                    Place::Builtin { .. } if !kernel.governor.is_foreign => {
                        format!("kernel {} (Linux {})", kernel.name, kernel.release)
                    }
                    _ => self.spec.to_string(),
                },
                source_sha256: None,
                params: kernel.governor.params.iter().cloned().collect(),
                config: self.spec.config().iter().cloned().collect(),
            },
        }
    }

    /// Torpor's own scheduler decides, with policies that it calls.
    fn is_ours(&self) -> bool {
        matches!(self.decider, Decider::Governor(_))
    }

    /// What runs as it is given: a governor, a frequency policy, and an IO boost.
    pub(crate) fn foreign(&self) -> impl Iterator<Item = &Policy> {
        let governor = match &self.decider {
            Decider::Governor(governor) => Some(&**governor),
            Decider::Kernel { .. } => None,
        };
        let frequency = self.frequency.as_deref().filter(|_| self.is_ours());
        let boost = self.boost.as_ref().map(|boost| &*boost.policy);
        [governor, frequency, boost].into_iter().flatten()
    }

    pub(crate) fn policies(&self) -> Policies {
        let boost = self.boost.as_ref();
        let own = boost.map_or(NO_BOOST.to_owned(), |boost| boost.spec.to_string());
        let (kernel, io_boost) = match &self.decider {
            Decider::Governor(_) => (None, own),
            Decider::Kernel { kernel, io_boost } => {
                (Some(kernel.name.clone()), io_boost.to_string())
            }
        };
        Policies { kernel, cpufreq: self.cpufreq.to_string(), io_boost }
    }
}

impl Boost {
    fn describe(&self) -> IoBoostInfo {
        IoBoostInfo {
            io_boost: self.spec.to_string(),
            source_sha256: self.policy.source_sha256().to_owned(),
            params: self.policy.param_settings().into_iter().collect(),
        }
    }
}
