// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! IO boosts: `governors/ioboost/ioboost.h` tells what each call means.

use crate::abi::{IoboostOps, IoboostTask, KapiCpu};
use crate::fault::{Call, Cause, Fault};
use crate::guard::{self, Caught};
use crate::load::Loaded;
use crate::memory::Plan;
use crate::policy::{Compiled, Policy};
use crate::{GovernorError, Kind};
use std::cell::OnceCell;
use std::fmt;
use std::ops::{BitOr, Deref};
use std::sync::Arc;
use torpor_units::{CpuId, Instant};

/// `SCHED_CAPACITY_SCALE`: the capacity of the biggest CPU, and so the highest boost.
pub(crate) const BOOST_MAX: u32 = 1024;

/// What an event is about: `IOBOOST_*` of the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Flags(u32);

impl Flags {
    pub const NONE: Flags = Flags(0);
    /// The task waits for IO, or wakes from that.
    pub const IOWAIT: Flags = Flags(1 << 0);
    /// The task that is dequeued goes to sleep; without it, it only changes runqueues.
    pub const SLEEP: Flags = Flags(1 << 1);
    /// The task that is enqueued has slept.
    pub const WAKEUP: Flags = Flags(1 << 2);

    /// These flags, or none.
    pub const fn when(self, condition: bool) -> Flags {
        if condition { self } else { Flags::NONE }
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(Flags::IOWAIT, "IOWAIT"), (Flags::SLEEP, "SLEEP"), (Flags::WAKEUP, "WAKEUP")];
        let set = names.iter().filter(|(flag, _)| self.0 & flag.0 != 0).map(|(_, name)| *name);
        match set.collect::<Vec<_>>().join("|") {
            none if none.is_empty() => f.write_str("0"),
            some => f.write_str(&some),
        }
    }
}

/// A compiled IO boost with its parameters, ready to be instantiated. Cheap to clone.
#[derive(Clone, Debug)]
pub struct IoBoost(Arc<Policy>);

impl IoBoost {
    pub(crate) fn new(
        compiled: Compiled,
        chosen: &[(String, String)],
    ) -> Result<IoBoost, GovernorError> {
        // What it registers shows only when it has started once.
        let try_it = |policy: &Policy| {
            IoBoostInstance::new(policy, &IoBoostSetup { cpus: &[(CpuId(0), 1024)], tasks: 0 })?;
            Ok(0)
        };
        let (policy, _) = Policy::new(compiled, chosen, try_it)?;
        Ok(IoBoost(Arc::new(policy)))
    }

    /// Loads a private image for the CPUs and tasks of a run.
    pub fn instantiate(&self, setup: &IoBoostSetup<'_>) -> Result<IoBoostInstance, GovernorError> {
        IoBoostInstance::new(&self.0, setup)
    }
}

impl Deref for IoBoost {
    type Target = Policy;

    fn deref(&self) -> &Policy {
        &self.0
    }
}

/// The machine an IO boost is to serve.
#[derive(Clone, Copy, Debug)]
pub struct IoBoostSetup<'a> {
    /// Each CPU with its capacity, 1024 for the biggest. `slot` in the calls is the position here.
    pub cpus: &'a [(CpuId, u64)],
    /// How many tasks there can be at a time; each takes 64 bytes. `task` in the calls counts them
    /// from 0.
    pub tasks: usize,
}

/// An IO boost's private image, serving the CPUs and tasks of one run.
///
/// A call that the policy does not have costs a branch, and answers 0. After a fault every call
/// answers that fault.
pub struct IoBoostInstance {
    ops: IoboostOps,
    /// Set once: what only asks takes `&self`, because placement asks while it looks around.
    fault: OnceCell<Fault>,
    tasks: *mut IoboostTask,
    task_count: usize,
    loaded: Loaded,
}

// SAFETY: all pointers lead into memory that `loaded` owns, which nobody else refers to; guarded
// calls look up the thread they run on each time.
unsafe impl Send for IoBoostInstance {}

impl IoBoostInstance {
    fn new(boost: &Policy, setup: &IoBoostSetup<'_>) -> Result<IoBoostInstance, GovernorError> {
        let mut plan = Plan::new();
        let tasks_len = setup.tasks * size_of::<IoboostTask>();
        let tasks = plan.block(tasks_len);
        let mut loaded = boost.load(setup.cpus, plan)?;
        loaded.start(boost.chosen_params())?;
        // SAFETY: `ioboost` has checked that the structure lies in the image.
        let ops = unsafe { loaded.ioboost(boost.name())?.read() };
        // A write past the last task meets a page that cannot be touched.
        let tasks = loaded.memory.at_end(tasks, tasks_len, std::ptr::null()).cast();
        let mut instance =
            IoBoostInstance { ops, fault: OnceCell::new(), tasks, task_count: setup.tasks, loaded };
        (0..setup.tasks).for_each(|task| instance.reset_task(task));
        Ok(instance)
    }

    /// Makes a task a new one: it has never waited, and nobody limits it. It must not be enqueued.
    pub fn reset_task(&mut self, task: usize) {
        let fresh = IoboostTask { state: [0; 7], uclamp_max: BOOST_MAX, reserved: 0 };
        // SAFETY: `task` checks the number.
        unsafe { self.task(task).write(fresh) };
    }

    /// The task's effective `UCLAMP_MAX`, 1024 unless set.
    pub fn set_uclamp_max(&mut self, task: usize, uclamp_max: u32) {
        // SAFETY: `task` checks the number.
        unsafe { (*self.task(task)).uclamp_max = uclamp_max };
    }

    /// A task enters the runqueue of a CPU, before the [`IoBoostInstance::update`] that this leads
    /// to. Flags: `IOWAIT`, `WAKEUP`.
    #[inline]
    pub fn enqueue(
        &mut self,
        slot: usize,
        task: usize,
        now: Instant,
        flags: Flags,
    ) -> Result<(), Fault> {
        let Some(event) = self.ops.enqueue else { return Ok(()) };
        let (cpu, block) = (self.enter(slot, now)?, self.task(task));
        let call = Call::Enqueue { task, now, flags };
        guard::note(Kind::IoBoost, CpuId(cpu), || call);
        // SAFETY: the function and the task belong to the loaded image.
        let done = unsafe { guard::task_event(event, cpu, block, now.0 as u64, flags.0) };
        done.map_err(|caught| self.poison(slot, call, caught))
    }

    /// A task leaves the runqueue of a CPU. Flags: `IOWAIT`, `SLEEP`.
    #[inline]
    pub fn dequeue(
        &mut self,
        slot: usize,
        task: usize,
        now: Instant,
        flags: Flags,
    ) -> Result<(), Fault> {
        let Some(event) = self.ops.dequeue else { return Ok(()) };
        let (cpu, block) = (self.enter(slot, now)?, self.task(task));
        let call = Call::Dequeue { task, now, flags };
        guard::note(Kind::IoBoost, CpuId(cpu), || call);
        // SAFETY: the function and the task belong to the loaded image.
        let done = unsafe { guard::task_event(event, cpu, block, now.0 as u64, flags.0) };
        done.map_err(|caught| self.poison(slot, call, caught))
    }

    /// `cpufreq_update_util()` of a CPU, whatever the rate limit. Flag: `IOWAIT`.
    #[inline]
    pub fn update(&mut self, slot: usize, now: Instant, flags: Flags) -> Result<(), Fault> {
        let Some(event) = self.ops.update else { return Ok(()) };
        let cpu = self.enter(slot, now)?;
        let call = Call::Update { now, flags };
        guard::note(Kind::IoBoost, CpuId(cpu), || call);
        // SAFETY: the function belongs to the loaded image.
        let done = unsafe { guard::cpu_event(event, cpu, now.0 as u64, flags.0) };
        done.map_err(|caught| self.poison(slot, call, caught))
    }

    /// What schedutil raises the CPU's utilization to, of its capacity `max_cap`; asked once for
    /// each CPU when a frequency is evaluated, because the answer can change what is kept.
    #[inline]
    pub fn cpu_boost(&mut self, slot: usize, now: Instant, max_cap: u64) -> Result<u32, Fault> {
        let Some(boost) = self.ops.cpu_boost else { return Ok(0) };
        let cpu = self.enter(slot, now)?;
        let call = Call::CpuBoost { now, max_cap };
        guard::note(Kind::IoBoost, CpuId(cpu), || call);
        // SAFETY: the function belongs to the loaded image.
        let answer = unsafe { guard::cpu_boost(boost, cpu, now.0 as u64, max_cap) };
        self.judge(slot, call, answer)
    }

    /// What placement takes the task's utilization for at least.
    #[inline]
    pub fn task_boost(&self, task: usize) -> Result<u32, Fault> {
        let Some(boost) = self.ops.task_boost else { return Ok(0) };
        self.check()?;
        let call = Call::TaskBoost { task };
        guard::note(Kind::IoBoost, self.loaded.cpus[0], || call);
        // SAFETY: the function and the task belong to the loaded image.
        let answer = unsafe { guard::utilization(boost, self.task(task).cast_const().cast()) };
        self.judge(0, call, answer)
    }

    /// What the task's `UCLAMP_MIN` is taken for at least.
    #[inline]
    pub fn task_uclamp_min(&self, task: usize) -> Result<u32, Fault> {
        let Some(boost) = self.ops.task_uclamp_min else { return Ok(0) };
        self.check()?;
        let call = Call::TaskUclampMin { task };
        guard::note(Kind::IoBoost, self.loaded.cpus[0], || call);
        // SAFETY: the function and the task belong to the loaded image.
        let answer = unsafe { guard::utilization(boost, self.task(task).cast_const().cast()) };
        self.judge(0, call, answer)
    }

    /// Whether [`IoBoostInstance::task_uclamp_min`] can ever answer more than 0.
    pub fn sets_uclamp_min(&self) -> bool {
        self.ops.task_uclamp_min.is_some()
    }

    /// Whether any of the questions that placement asks can.
    pub fn counts_in_placement(&self) -> bool {
        let IoboostOps { task_boost, rq_boost, perf_min, .. } = self.ops;
        let of_cpu = rq_boost.is_some() || perf_min.is_some();
        self.sets_uclamp_min() || task_boost.is_some() || of_cpu
    }

    /// Whether any of those that frequencies depend on can.
    pub fn raises_frequency(&self) -> bool {
        self.ops.cpu_boost.is_some() || self.ops.perf_min.is_some()
    }

    /// What placement and energy estimates take the CPU's utilization for at least.
    #[inline]
    pub fn rq_boost(&self, slot: usize) -> Result<u32, Fault> {
        let Some(boost) = self.ops.rq_boost else { return Ok(0) };
        self.check()?;
        let call = Call::RqBoost;
        guard::note(Kind::IoBoost, self.loaded.cpus[slot], || call);
        // SAFETY: the function belongs to the loaded image.
        let answer = unsafe { guard::rq_boost(boost, self.loaded.cpus[slot].0) };
        self.judge(slot, call, answer)
    }

    /// The least performance of the CPU, whatever its clamps, of frequencies and energy estimates.
    #[inline]
    pub fn perf_min(&self, slot: usize) -> Result<u32, Fault> {
        let Some(least) = self.ops.perf_min else { return Ok(0) };
        self.check()?;
        let call = Call::PerfMin;
        guard::note(Kind::IoBoost, self.loaded.cpus[slot], || call);
        // SAFETY: the function belongs to the loaded image.
        let answer = unsafe { guard::rq_boost(least, self.loaded.cpus[slot].0) };
        self.judge(slot, call, answer)
    }

    /// What it has failed with, if it has.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.get()
    }

    /// How many `WARN_ON`s have fired, and where the first did.
    pub fn warnings(&self) -> Option<(u64, String)> {
        self.loaded.warnings()
    }

    /// A module parameter's value now, as sysfs would print it.
    pub fn param(&self, name: &str) -> Option<String> {
        self.loaded.param(name)
    }

    /// Writes a module parameter, as a user does through sysfs while the system runs.
    pub fn set_param(&mut self, name: &str, value: &str) -> Result<(), GovernorError> {
        self.loaded.set_param(name, value)
    }

    pub fn cpu_count(&self) -> usize {
        self.loaded.cpus.len()
    }

    pub fn task_count(&self) -> usize {
        self.task_count
    }

    /// Tells the image which CPU is meant, and the time there.
    #[inline]
    fn enter(&mut self, slot: usize, now: Instant) -> Result<u32, Fault> {
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

    #[inline]
    fn task(&self, task: usize) -> *mut IoboostTask {
        assert!(task < self.task_count, "task {task} of {}", self.task_count);
        self.tasks.wrapping_add(task)
    }

    #[inline]
    fn judge(&self, slot: usize, call: Call, answer: Result<u32, Caught>) -> Result<u32, Fault> {
        match answer {
            Ok(boost) if boost <= BOOST_MAX => Ok(boost),
            Ok(boost) => {
                let cause = Cause::NoSuchBoost { boost };
                let fault = Fault::new(&self.loaded.label, self.loaded.cpus[slot], call, cause);
                Err(self.fault.get_or_init(|| fault).clone())
            }
            Err(caught) => Err(self.poison(slot, call, caught)),
        }
    }

    #[cold]
    fn poison(&self, slot: usize, call: Call, caught: Caught) -> Fault {
        let fault = self.loaded.fault(self.loaded.cpus[slot], call, caught);
        self.fault.get_or_init(|| fault).clone()
    }
}

impl fmt::Debug for IoBoostInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoBoostInstance")
            .field("boost", &self.loaded.label.text)
            .finish_non_exhaustive()
    }
}
