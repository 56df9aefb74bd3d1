// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Frequency policies: `governors/cpufreq/cpufreq.h` tells what each call means.

use crate::abi::{CpufreqDomain, CpufreqOpp, CpufreqOps, KapiCpu};
use crate::fault::{Call, Cause, Fault};
use crate::guard::{self, Caught};
use crate::ioboost::BOOST_MAX;
use crate::load::Loaded;
use crate::memory::Plan;
use crate::policy::{Compiled, Policy};
use crate::{GovernorError, Kind, Release};
use std::cell::OnceCell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use torpor_units::{CpuId, Duration, Instant};

pub use crate::abi::CpufreqCpu;

/// `CPUFREQ_IOWAIT` and `CPUFREQ_INEFFICIENT` of the header.
const IOWAIT: u32 = 1 << 0;
const INEFFICIENT: u32 = 1 << 0;
const FRESH: CpufreqDomain = CpufreqDomain {
    cpus: std::ptr::null(),
    opps: std::ptr::null(),
    nr_cpus: 0,
    nr_opps: 0,
    transition_latency_ns: 0,
    transition_delay_ns: -1,
    due_ns: 0,
    release: 0,
    reserved: 0,
    state: [0; 16],
};

/// A compiled frequency policy with its parameters, ready to be instantiated. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CpufreqPolicy(Arc<Policy>);

impl CpufreqPolicy {
    pub(crate) fn new(
        compiled: Compiled,
        chosen: &[(String, String)],
    ) -> Result<CpufreqPolicy, GovernorError> {
        // What it registers shows only when it has started once.
        let try_it = |policy: &Policy| {
            let domain = FreqDomain {
                cpus: &[CpuId(0)],
                capacity: 1024,
                opps: &[FreqOpp { freq_khz: 1_000_000, is_inefficient: false }],
                transition_latency: Duration::ZERO,
                transition_delay: None,
            };
            let setup = CpufreqSetup { domains: &[domain], release: Release::default() };
            CpufreqInstance::new(policy, &setup)?;
            Ok(0)
        };
        let (policy, _) = Policy::new(compiled, chosen, try_it)?;
        Ok(CpufreqPolicy(Arc::new(policy)))
    }

    /// Loads a private image for the domains of a run.
    pub fn instantiate(&self, setup: &CpufreqSetup<'_>) -> Result<CpufreqInstance, GovernorError> {
        CpufreqInstance::new(&self.0, setup)
    }
}

impl Deref for CpufreqPolicy {
    type Target = Policy;

    fn deref(&self) -> &Policy {
        &self.0
    }
}

/// The machine that a frequency policy is to serve. `domain` and `place` in the calls are the
/// positions here and in [`FreqDomain::cpus`].
#[derive(Clone, Copy, Debug)]
pub struct CpufreqSetup<'a> {
    pub domains: &'a [FreqDomain<'a>],
    /// The kernel that is simulated.
    pub release: Release,
}

/// CPUs that share a clock.
#[derive(Clone, Copy, Debug)]
pub struct FreqDomain<'a> {
    pub cpus: &'a [CpuId],
    pub capacity: u64,
    /// Rising. One without is never asked about.
    pub opps: &'a [FreqOpp],
    pub transition_latency: Duration,
    pub transition_delay: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreqOpp {
    pub freq_khz: u32,
    pub is_inefficient: bool,
}

/// A frequency policy's private image, serving the domains of one run.
///
/// After a fault every call answers that fault.
pub struct CpufreqInstance {
    ops: CpufreqOps,
    fault: OnceCell<Fault>,
    domains: Box<[Domain]>,
    loaded: Loaded,
}

/// Where a domain lies in the image's memory. The policy may write there what it likes, so its
/// pointers and counts are not read back.
struct Domain {
    start: *mut CpufreqDomain,
    fresh: CpufreqDomain,
    cpus: *mut CpufreqCpu,
    /// The first of its CPUs among all.
    first: usize,
    cpu_count: usize,
    opp_count: usize,
}

// SAFETY: all pointers lead into memory that `loaded` owns, which nobody else refers to; guarded
// calls look up the thread they run on each time.
unsafe impl Send for CpufreqInstance {}

impl CpufreqInstance {
    fn new(policy: &Policy, setup: &CpufreqSetup<'_>) -> Result<CpufreqInstance, GovernorError> {
        let cpus: Vec<(CpuId, u64)> = setup
            .domains
            .iter()
            .flat_map(|domain| domain.cpus.iter().map(|cpu| (*cpu, domain.capacity)))
            .collect();
        let opp_count: usize = setup.domains.iter().map(|domain| domain.opps.len()).sum();
        let lens = [
            setup.domains.len() * size_of::<CpufreqDomain>(),
            cpus.len() * size_of::<CpufreqCpu>(),
            opp_count * size_of::<CpufreqOpp>(),
        ];
        let mut plan = Plan::new();
        let blocks = lens.map(|len| plan.block(len));
        let mut loaded = policy.load(&cpus, plan)?;
        loaded.start(policy.chosen_params())?;
        // SAFETY: `cpufreq` has checked that the structure lies in the image.
        let ops = unsafe { loaded.cpufreq(policy.name())?.read() };
        if ops.update.is_none() {
            let reason = "it registers a frequency policy without update()".to_owned();
            return Err(GovernorError::Image { policy: loaded.label, reason });
        }
        // An access past the last domain, CPU or OPP meets a page that cannot be touched.
        let place = |n: usize| loaded.memory.at_end(blocks[n], lens[n], std::ptr::null());
        let starts = place(0).cast::<CpufreqDomain>();
        let (all_cpus, all_opps) = (place(1).cast::<CpufreqCpu>(), place(2).cast::<CpufreqOpp>());
        let (mut first, mut first_opp) = (0, 0);
        let mut domains = Vec::new();
        for (number, domain) in setup.domains.iter().enumerate() {
            let (own_cpus, own_opps) =
                (all_cpus.wrapping_add(first), all_opps.wrapping_add(first_opp));
            for (place, opp) in domain.opps.iter().enumerate() {
                let flags = if opp.is_inefficient { INEFFICIENT } else { 0 };
                let opp = CpufreqOpp { freq_khz: opp.freq_khz, flags };
                // SAFETY: the block was planned for all OPPs.
                unsafe { own_opps.add(place).write(opp) };
            }
            let Release { major, minor } = setup.release;
            let fresh = CpufreqDomain {
                cpus: own_cpus,
                opps: own_opps,
                nr_cpus: domain.cpus.len() as u32,
                nr_opps: domain.opps.len() as u32,
                transition_latency_ns: domain.transition_latency.0,
                transition_delay_ns: domain.transition_delay.map_or(-1, |delay| delay.0),
                release: u32::from(major) << 16 | u32::from(minor) << 8,
                ..FRESH
            };
            domains.push(Domain {
                start: starts.wrapping_add(number),
                fresh,
                cpus: own_cpus,
                first,
                cpu_count: domain.cpus.len(),
                opp_count: domain.opps.len(),
            });
            first += domain.cpus.len();
            first_opp += domain.opps.len();
        }
        let mut instance =
            CpufreqInstance { ops, fault: OnceCell::new(), domains: domains.into(), loaded };
        for (number, domain) in setup.domains.iter().enumerate() {
            for (place, cpu) in domain.cpus.iter().enumerate() {
                let idle = CpufreqCpu::idle(cpu.0, domain.capacity);
                instance.show(number, place, idle);
            }
            instance.restart(number)?;
        }
        Ok(instance)
    }

    /// Makes a domain a new one, which the policy starts with.
    pub fn restart(&mut self, domain: usize) -> Result<(), GovernorError> {
        let Domain { start, fresh, first, opp_count, .. } = self.domains[domain];
        // SAFETY: it lies in the block that was planned for all domains.
        unsafe { start.write(fresh) };
        let Some(function) = self.ops.start.filter(|_| opp_count > 0) else { return Ok(()) };
        let cpu = self.enter(first, Instant(0))?;
        guard::note(Kind::Cpufreq, CpuId(cpu), || Call::Start);
        // SAFETY: the function and the domain belong to the loaded image; the second argument is
        // ignored.
        let started = unsafe { guard::call(function, start.cast(), std::ptr::null_mut()) };
        let code = started.map_err(|caught| self.poison(first, Call::Start, caught))?;
        if code != 0 {
            let policy = self.loaded.label.clone();
            return Err(GovernorError::Refused { policy, call: "start()", code });
        }
        Ok(())
    }

    /// What a CPU is like from now on, until it is shown anew.
    #[inline]
    pub fn show(&self, domain: usize, place: usize, cpu: CpufreqCpu) {
        let domain = &self.domains[domain];
        assert!(place < domain.cpu_count, "CPU {place} of {}", domain.cpu_count);
        // SAFETY: the block has all of the domain's CPUs, and nobody refers to them between calls.
        unsafe { domain.cpus.add(place).write(cpu) };
    }

    /// Whether the policy wants to be asked now.
    #[inline]
    pub fn is_due(&self, domain: usize, now: Instant) -> bool {
        // SAFETY: the block has the domain. Any number is a time.
        now.0 as u64 >= unsafe { (*self.domains[domain].start).due_ns }
    }

    /// A CPU's utilization has changed; all CPUs of the domain were shown. The OPP to go to, if it is
    /// to be another.
    #[inline]
    pub fn update(
        &mut self,
        domain: usize,
        place: usize,
        now: Instant,
        is_iowait: bool,
    ) -> Result<Option<usize>, Fault> {
        let Domain { start, cpus, first, cpu_count, opp_count, .. } = self.domains[domain];
        assert!(place < cpu_count, "CPU {place} of {cpu_count}");
        let update = self.ops.update.expect("it was there at the start");
        let cpu = self.enter(first + place, now)?;
        let call = Call::UpdateFrequency { now, is_iowait };
        guard::note(Kind::Cpufreq, CpuId(cpu), || call);
        let flags = if is_iowait { IOWAIT } else { 0 };
        let shown = cpus.wrapping_add(place);
        // SAFETY: the function, the domain and the CPU belong to the loaded image.
        let answer = unsafe { guard::cpufreq_update(update, start, shown, now.0 as u64, flags) };
        match answer {
            Ok(opp) if opp >= 0 && (opp as usize) < opp_count => Ok(Some(opp as usize)),
            Ok(-1) => Ok(None),
            Ok(index) => Err(self.fail(first + place, call, Cause::NoSuchOpp { index, opp_count })),
            Err(caught) => Err(self.poison(first + place, call, caught)),
        }
    }

    /// Whether [`CpufreqInstance::performance`] can be asked.
    pub fn predicts(&self) -> bool {
        self.ops.performance.is_some()
    }

    /// What the policy would provide for, were the CPUs as they are shown.
    #[inline]
    pub fn performance(&self, domain: usize) -> Result<u32, Fault> {
        let Some(performance) = self.ops.performance else { return Ok(0) };
        self.check()?;
        let Domain { start, first, .. } = self.domains[domain];
        guard::note(Kind::Cpufreq, self.loaded.cpus[first], || Call::Performance);
        // SAFETY: the function and the domain belong to the loaded image.
        match unsafe { guard::utilization(performance, start.cast_const().cast()) } {
            Ok(performance) if performance <= BOOST_MAX => Ok(performance),
            Ok(boost) => Err(self.fail(first, Call::Performance, Cause::NoSuchBoost { boost })),
            Err(caught) => Err(self.poison(first, Call::Performance, caught)),
        }
    }

    /// What it has failed with, if it has.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.get()
    }

    /// Tells the image which CPU is meant, and the time there.
    #[inline]
    fn enter(&self, slot: usize, now: Instant) -> Result<u32, Fault> {
        self.check()?;
        let cpu: *mut KapiCpu = self.loaded.kapi_cpus[slot];
        // SAFETY: both lie in the loaded image's memory.
        unsafe {
            (*self.loaded.host).cpu = cpu;
            (*cpu).now_ns = now.0 as u64;
            Ok((*cpu).cpu_id)
        }
    }

    #[inline]
    fn check(&self) -> Result<(), Fault> {
        match self.fault.get() {
            None => Ok(()),
            Some(fault) => Err(fault.clone()),
        }
    }

    #[cold]
    fn fail(&self, slot: usize, call: Call, cause: Cause) -> Fault {
        let fault = Fault::new(&self.loaded.label, self.loaded.cpus[slot], call, cause);
        self.fault.get_or_init(|| fault).clone()
    }

    #[cold]
    fn poison(&self, slot: usize, call: Call, caught: Caught) -> Fault {
        let fault = self.loaded.fault(self.loaded.cpus[slot], call, caught);
        self.fault.get_or_init(|| fault).clone()
    }
}

impl fmt::Debug for CpufreqInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpufreqInstance")
            .field("policy", &self.loaded.label.text)
            .finish_non_exhaustive()
    }
}
