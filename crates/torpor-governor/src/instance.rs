// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One loaded governor with its CPUs, and the calls into it.

use crate::GovernorError;
use crate::abi::{
    self, CpuidleDevice, CpuidleDriver, CpuidleGovernor, KapiCpu, KapiHost, Reflect, Select,
};
use crate::fault::{Call, Cause, Fault};
use crate::guard::{self, Caught};
use crate::load::Loaded;
use crate::memory::Plan;
use crate::states::States;
use std::fmt;
use torpor_machine::units::{CpuId, Duration, Instant};

/// The CPUs of an [`Instance`]. `slot` in its calls is the index here.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    pub cpus: &'a [CpuSetup<'a>],
}

/// One CPU. CPUs with equal state tables share a driver, like the CPUs of a cluster in a kernel.
#[derive(Clone, Copy, Debug)]
pub struct CpuSetup<'a> {
    pub cpu: CpuId,
    /// 1 to 10 states, shallowest first.
    pub states: &'a [StateDesc],
    /// `arch_scale_cpu_capacity()` when the CPU is enabled: 1024 for the biggest CPUs.
    pub capacity: u64,
}

impl<'a> CpuSetup<'a> {
    /// Describes a CPU of full capacity.
    pub fn new(cpu: CpuId, states: &'a [StateDesc]) -> CpuSetup<'a> {
        CpuSetup { cpu, states, capacity: 1024 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDesc {
    pub name: String,
    pub exit_latency: Duration,
    pub target_residency: Duration,
    pub is_polling: bool,
    pub is_disabled: bool,
}

/// Kernel's answers to a governor during one `select`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Inputs {
    /// `local_clock()`.
    pub now: Instant,
    /// `tick_nohz_get_sleep_length()`; can be negative.
    pub sleep_length: Duration,
    /// `delta_next` of the same call: time to the next event, including the tick; can be negative.
    pub delta_next: Duration,
    pub tick_stopped: bool,
    /// `Duration::MAX` for no limit; the governor then gets [`NO_LATENCY_LIMIT`].
    pub latency_req: Duration,
    pub nr_iowait: u32,
    /// `sched_cpu_util()`.
    pub util: u64,
    /// `arch_scale_cpu_capacity()`.
    pub capacity: u64,
    /// `this_cpu_load()` of kernels up to 3.15: 1024 for one task that always runs.
    pub load_avg: u64,
}

/// The latency limit of a kernel without any request: 2000 s, the default of the system-wide limit,
/// which is lower than a CPU's own "no constraint".
pub const NO_LATENCY_LIMIT: Duration = Duration(2_000_000_000_000);

impl Default for Inputs {
    fn default() -> Inputs {
        Inputs {
            now: Instant(0),
            sleep_length: Duration::MAX,
            delta_next: Duration::MAX,
            tick_stopped: false,
            latency_req: Duration::MAX,
            nr_iowait: 0,
            util: 0,
            capacity: 1024,
            load_avg: 0,
        }
    }
}

impl fmt::Display for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "now_ns={} sleep_length_ns={} delta_next_ns={} tick_stopped={} latency_req_ns={} \
             nr_iowait={} util={} capacity={} load_avg={}",
            self.now.0,
            self.sleep_length.0,
            self.delta_next.0,
            self.tick_stopped,
            self.latency_req.0.min(NO_LATENCY_LIMIT.0),
            self.nr_iowait,
            self.util,
            self.capacity,
            self.load_avg
        )
    }
}

/// A governor's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Selection {
    pub state: i32,
    pub stop_tick: bool,
    /// Whether the governor called `tick_nohz_get_sleep_length()`.
    pub asked_sleep_length: bool,
}

/// A governor's private image for the CPUs of one run.
pub struct Instance {
    select: Select,
    reflect: Option<Reflect>,
    host: *mut KapiHost,
    slots: Box<[Slot]>,
    fault: Option<Fault>,
    governor: *const CpuidleGovernor,
    loaded: Loaded,
}

#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub cpu: *mut KapiCpu,
    pub dev: *mut CpuidleDevice,
    pub drv: *mut CpuidleDriver,
    pub state_count: u32,
}

// SAFETY: all pointers point into memory that `loaded` alone owns; each guarded call looks up the
// thread that it runs on.
unsafe impl Send for Instance {}

impl Instance {
    /// Loads the image, sets the parameters, runs the initcalls and enables each CPU.
    pub(crate) fn new(
        governor: &crate::policy::Policy,
        setup: &Setup<'_>,
    ) -> Result<Instance, GovernorError> {
        let mut plan = Plan::new();
        let states = States::plan(governor.policy_label(), setup, &mut plan)?;
        let cpus: Vec<(CpuId, u64)> = setup.cpus.iter().map(|c| (c.cpu, c.capacity)).collect();
        let mut loaded = governor.load(&cpus, plan)?;
        let slots = states.write(&loaded);
        loaded.start(governor.chosen_params())?;
        let chosen = loaded.governor(governor.name())?;
        // SAFETY: `governor` has checked that the structure lies in the image.
        let (select, reflect) = unsafe { ((*chosen).select, (*chosen).reflect) };
        let mut instance = Instance {
            select: select.expect("registering without select is refused"),
            reflect,
            host: loaded.host,
            slots,
            fault: None,
            governor: chosen,
            loaded,
        };
        for slot in 0..instance.slots.len() {
            instance.enable(slot)?;
        }
        Ok(instance)
    }

    /// Calls `enable` for a CPU, as CPU hotplug or a switch of governors does. The CPUs of a new
    /// [`Instance`] are enabled.
    pub fn enable(&mut self, slot: usize) -> Result<(), GovernorError> {
        // SAFETY: `governor` lies in the loaded image.
        let function = unsafe { (*self.governor).enable };
        let code = self.call(slot, Call::Enable, function)?;
        if code == 0 {
            return Ok(());
        }
        let policy = self.loaded.label.clone();
        Err(GovernorError::Refused { policy, call: "enable()", code })
    }

    /// Calls `disable` for a CPU.
    pub fn disable(&mut self, slot: usize) -> Result<(), GovernorError> {
        // SAFETY: `governor` lies in the loaded image.
        let function = unsafe { (*self.governor).disable };
        self.call(slot, Call::Disable, function)?;
        Ok(())
    }

    fn call(
        &mut self,
        slot: usize,
        call: Call,
        function: Option<abi::GuardedCall>,
    ) -> Result<i32, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let Some(function) = function else { return Ok(0) };
        let Slot { cpu, dev, drv, .. } = self.slots[slot];
        guard::note(self.cpu_id(slot), || call);
        // SAFETY: the function, driver and device belong to the loaded image.
        let result = unsafe {
            (*self.host).cpu = cpu;
            guard::call(function, drv.cast(), dev.cast())
        };
        result.map_err(|caught| self.poison(slot, call, caught))
    }

    /// Calls `select` with `*stop_tick` true, as the kernel does.
    ///
    /// An index outside the table is a [`Fault`]: a kernel would read past its driver. Do not call
    /// it for a driver with one state, for which a kernel does not call it and `haltpoll` returns 1.
    #[inline(always)]
    pub fn select(&mut self, slot: usize, inputs: &Inputs) -> Result<Selection, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let Slot { cpu, dev, drv, state_count } = self.slots[slot];
        guard::note(self.cpu_id(slot), || Call::Select(*inputs));
        // SAFETY: the pointers point into the image's memory, which `&mut self` borrows.
        let result = unsafe {
            (*self.host).cpu = cpu;
            let cpu = &mut *cpu;
            cpu.now_ns = inputs.now.0 as u64;
            cpu.sleep_length_ns = inputs.sleep_length.0;
            cpu.delta_next_ns = inputs.delta_next.0;
            cpu.latency_req_ns = inputs.latency_req.0.min(NO_LATENCY_LIMIT.0);
            cpu.util = inputs.util;
            cpu.capacity = inputs.capacity;
            cpu.load_avg = inputs.load_avg;
            cpu.nr_iowait = inputs.nr_iowait;
            cpu.tick_stopped = inputs.tick_stopped;
            cpu.stop_tick = 1;
            cpu.asked_sleep_length = 0;
            guard::select(self.select, drv, dev, &raw mut cpu.stop_tick)
        };
        match result {
            Ok(index) if (index as u32) < state_count => {
                // SAFETY: as above.
                let cpu = unsafe { &*cpu };
                Ok(Selection {
                    state: index,
                    stop_tick: cpu.stop_tick != 0,
                    asked_sleep_length: cpu.asked_sleep_length != 0,
                })
            }
            Ok(index) => Err(self.poison_index(slot, *inputs, index)),
            Err(caught) => Err(self.poison(slot, Call::Select(*inputs), caught)),
        }
    }

    /// Calls `reflect` after the CPU woke from state `index`. Set the residency first. The kernel
    /// does not call it if the driver rejected the entry.
    #[inline(always)]
    pub fn reflect(
        &mut self,
        slot: usize,
        index: i32,
        now: Instant,
        got_tick: bool,
    ) -> Result<(), Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let Slot { cpu, dev, .. } = self.slots[slot];
        let Some(reflect) = self.reflect else { return Ok(()) };
        let call = Call::Reflect { index, now, got_tick };
        guard::note(self.cpu_id(slot), || call);
        // SAFETY: as in `select`.
        let result = unsafe {
            (*self.host).cpu = cpu;
            (*cpu).now_ns = now.0 as u64;
            (*cpu).got_tick = got_tick;
            guard::reflect(reflect, dev, index)
        };
        result.map_err(|caught| self.poison(slot, call, caught))
    }

    /// Returns the expiry of the first of the governor's timers on this CPU, if one is armed. It can
    /// be in the past.
    #[inline]
    pub fn next_timer(&self, slot: usize) -> Option<Instant> {
        // SAFETY: as in `select`.
        let cpu = unsafe { &*self.slots[slot].cpu };
        if cpu.nr_timers == 0 { None } else { earliest_timer(cpu) }
    }

    /// Returns the number of times that the governor has started a timer on this CPU.
    #[inline]
    pub fn timer_starts(&self, slot: usize) -> u64 {
        // SAFETY: as in `select`.
        unsafe { (*self.slots[slot].cpu).timer_starts }
    }

    /// Runs the callbacks of the CPU's timers that are due at `now`, earliest first. The number of
    /// callbacks is limited, since a callback can arm its timer for `now` again.
    pub fn fire_timer(&mut self, slot: usize, now: Instant) -> Result<(), Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        for _ in 0..abi::TIMERS_MAX {
            let function = self.loaded.fire_timer;
            guard::note(self.cpu_id(slot), || Call::Timer { now });
            // SAFETY: as in `select`; the image defines the function.
            let fired = unsafe {
                (*self.host).cpu = self.slots[slot].cpu;
                (*self.slots[slot].cpu).now_ns = now.0 as u64;
                guard::call(function, std::ptr::null_mut(), std::ptr::null_mut())
            };
            if fired.map_err(|caught| self.poison(slot, Call::Timer { now }, caught))? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Disarms all timers of a CPU without calling the governor.
    pub fn cancel_timers(&mut self, slot: usize) {
        // SAFETY: as in `select`.
        unsafe { (*self.slots[slot].cpu).nr_timers = 0 };
    }

    /// Sets `dev->last_residency_ns`: the measured residency, 0 for an entry that did not happen.
    #[inline]
    pub fn set_last_residency(&mut self, slot: usize, residency: Duration) {
        self.device(slot).last_residency_ns = residency.0 as u64;
    }

    /// Sets `dev->poll_time_limit`: whether the polling state gave up. The kernel clears it on entry
    /// to a polling state; `teo` of 6.1 clears it, too.
    #[inline]
    pub fn set_poll_time_limit(&mut self, slot: usize, reached: bool) {
        let device = self.device(slot);
        device.flags &= !abi::DEVICE_POLL_TIME_LIMIT;
        device.flags |= if reached { abi::DEVICE_POLL_TIME_LIMIT } else { 0 };
    }

    pub fn poll_time_limit(&self, slot: usize) -> bool {
        // SAFETY: the device lies in the instance's memory.
        unsafe { (*self.slots[slot].dev).flags & abi::DEVICE_POLL_TIME_LIMIT != 0 }
    }

    /// Returns `dev->poll_limit_ns`: the polling time; with 0, `cpuidle_poll_time()` computes it.
    #[inline]
    pub fn poll_limit_ns(&self, slot: usize) -> u64 {
        // SAFETY: the device lies in the instance's memory.
        unsafe { (*self.slots[slot].dev).poll_limit_ns }
    }

    /// Sets `dev->poll_limit_ns`, as `cpuidle_poll_time()` does.
    #[inline]
    pub fn set_poll_limit_ns(&mut self, slot: usize, limit_ns: u64) {
        self.device(slot).poll_limit_ns = limit_ns;
    }

    pub fn set_state_disabled(&mut self, slot: usize, state: usize, disabled: bool) {
        assert!(state < self.slots[slot].state_count as usize, "state {state} is not in the table");
        let usage = &mut self.device(slot).states_usage[state];
        usage.disable = if disabled { abi::DISABLED_BY_USER } else { 0 };
    }

    pub fn last_state_idx(&self, slot: usize) -> i32 {
        // SAFETY: the device lies in the instance's memory.
        unsafe { (*self.slots[slot].dev).last_state_idx }
    }

    /// Returns whether the governor's statics have changed since its init, so that its CPUs share
    /// state. Per-CPU data, parameters and the kapi's data do not count.
    pub fn statics_changed(&self) -> bool {
        self.loaded.statics_changed()
    }

    /// Returns the number of `WARN_ON`s that fired and the place of the first.
    pub fn warnings(&self) -> Option<(u64, String)> {
        self.loaded.warnings()
    }

    /// Returns a module parameter's current value, as sysfs prints it.
    pub fn param(&self, name: &str) -> Option<String> {
        self.loaded.param(name)
    }

    /// Writes a module parameter, like a user through sysfs.
    pub fn set_param(&mut self, name: &str, value: &str) -> Result<(), GovernorError> {
        self.loaded.set_param(name, value)
    }

    pub fn cpu_count(&self) -> usize {
        self.slots.len()
    }

    pub fn rating(&self) -> u32 {
        // SAFETY: `governor` lies in the loaded image.
        unsafe { (*self.governor).rating }
    }

    fn device(&mut self, slot: usize) -> &mut CpuidleDevice {
        // SAFETY: the device lies in the instance's memory, which `&mut self` borrows.
        unsafe { &mut *self.slots[slot].dev }
    }

    #[cold]
    fn poison(&mut self, slot: usize, call: Call, caught: Caught) -> Fault {
        let cpu = self.cpu_id(slot);
        self.fault.insert(self.loaded.fault(cpu, call, caught)).clone()
    }

    #[cold]
    fn poison_index(&mut self, slot: usize, inputs: Inputs, index: i32) -> Fault {
        let state_count = self.slots[slot].state_count as usize;
        let cause = Cause::NoSuchState { index, state_count };
        let fault = Fault::new(&self.loaded.label, self.cpu_id(slot), Call::Select(inputs), cause);
        self.fault.insert(fault).clone()
    }

    fn cpu_id(&self, slot: usize) -> CpuId {
        self.loaded.cpus[slot]
    }
}

#[cold]
fn earliest_timer(cpu: &KapiCpu) -> Option<Instant> {
    // The image could have written any count.
    let armed = (cpu.nr_timers as usize).min(abi::TIMERS_MAX);
    cpu.timers[..armed].iter().map(|t| Instant(t.expires_ns)).min()
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance")
            .field("governor", &self.loaded.label.text)
            .finish_non_exhaustive()
    }
}
