// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The layout of `khost/include/khost.h`. Sizes are checked against the image's when it is loaded.

use std::ffi::{c_char, c_int, c_ulong, c_void};

pub(crate) const ABI: u32 = 17;
pub(crate) const CPUS_MAX: usize = 1024;
pub(crate) const STATES_MAX: usize = 10;
pub(crate) const OPPS_MAX: usize = 64;
pub(crate) const NAME_LEN: usize = 16;
pub(crate) const TRACE_MAX: usize = 24;
pub(crate) const STAT_LEN: usize = 512;

pub(crate) const IRQ_TIMER: u32 = 1;
pub(crate) const IRQ_RESCHEDULE: u32 = 2;
pub(crate) const IRQ_CALL: u32 = 4;
pub(crate) const IRQ_DEVICE: u32 = 8;
pub(crate) const HRTIMER_CANCEL: u32 = 2;
pub(crate) const HRTIMER_EXPIRE_ENTRY: u32 = 3;
pub(crate) const HRTIMER_EXPIRE_EXIT: u32 = 4;
pub(crate) const TICK_STOP: u32 = 5;
pub(crate) const TICK_KEPT: u32 = 6;
pub(crate) const SCHED_WAKING: u32 = 7;
pub(crate) const SCHED_WAKEUP: u32 = 8;
pub(crate) const SCHED_WAKEUP_NEW: u32 = 9;
pub(crate) const NEED_RESCHED: c_ulong = 1 << 3;

/// `timer_ns` of a clock event device that is not set.
pub(crate) const NEVER: u64 = u64::MAX;

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Cpu {
    pub timer_ns: u64,
    pub raised: u32,
    pub sent: u32,
    pub irqs_off: u32,
    pub idle_state: i32,
    pub poll_until_ns: u64,
    pub task: u32,
    pub khz: u32,
    pub flags: *const c_ulong,
    pub switches: u64,
    pub tick_stopped: u32,
    pub step_ps: u32,
    pub remote_step_ps: u32,
    pub switch_ns: u32,
    pub ipi_send_ns: u32,
    pub governor_timer_ns: u32,
    pub timer_programming_ns: u32,
    pub irq_ns: u32,
    pub sleeps: u32,
    pub busy_until_ns: u64,
    pub counted_ps: u64,
    pub figured_ns: u64,
    pub entered_ns: u64,
    pub governor_starts: u32,
    pub governor_timers: u32,
    pub is_rejected: u32,
    pub timer_programmings: u64,
    pub states_off: u32,
    pub is_offline: u32,
    pub latency_limit_ns: u64,
}

impl Cpu {
    /// Returns the time that the kernel's work has taken since the last call; `clock.c` has the
    /// same rule.
    #[inline]
    pub(crate) fn take_spent_ns(&mut self) -> u64 {
        let counted_ns = std::mem::take(&mut self.counted_ps) / 1_000;
        counted_ns.max(std::mem::take(&mut self.figured_ns))
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct State {
    pub name: [c_char; NAME_LEN],
    pub exit_latency_ns: u32,
    pub target_residency_ns: u32,
    pub polling: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Opp {
    pub khz: u32,
    pub power_uw: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Cluster {
    pub capacity: u32,
    pub package: u32,
    pub cache: u32,
    pub states: u32,
    pub opps: u32,
    pub transition_latency_ns: u32,
    pub transition_delay_us: u32,
    pub fast_switch: u32,
    pub default_idle: u32,
    pub state: [State; STATES_MAX],
    pub opp: [Opp; OPPS_MAX],
}

#[repr(C)]
pub(crate) struct Machine {
    pub cpus: u32,
    pub clusters: u32,
    pub cluster: *const Cluster,
    pub cluster_of: [u16; CPUS_MAX],
    pub core_of: [u16; CPUS_MAX],
    pub governor: [c_char; NAME_LEN],
    pub linked: [[c_char; NAME_LEN]; 4],
    pub command_line: *const c_char,
    pub records: u32,
    pub no_iowait_boost: u32,
    pub online: [u64; CPUS_MAX / 64],
    pub no_idle_driver: u32,
    pub seed: u64,
    pub groups: u32,
    pub group: *const *const c_char,
    pub has_writes: u32,
    pub has_later_writes: u32,
}

#[repr(C)]
pub(crate) struct Write {
    pub change: *const Change,
    pub file: u32,
    pub path: *const c_char,
    pub value: *const c_char,
}

#[repr(C)]
pub(crate) struct TaskSetup {
    pub name: [c_char; NAME_LEN],
    pub number: u32,
    pub forked_on: u32,
    pub group: u32,
    pub timer_slack_ns: u64,
    pub attributes: Attributes,
}

#[repr(C)]
pub(crate) struct Attributes {
    pub policy: u32,
    pub priority: u32,
    pub nice: c_int,
    pub uclamp_min: u32,
    pub uclamp_max: u32,
    pub slice_ns: u64,
    pub affinity: [u64; CPUS_MAX / 64],
}

#[repr(C)]
pub(crate) struct Change {
    pub task: *mut c_void,
    pub attributes: Attributes,
}

/// Usage of an idle state in sysfs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub usage: u64,
    pub time_ns: u64,
    pub above: u64,
    pub below: u64,
    pub rejected: u64,
}

/// Event of a tracepoint of the kernel.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub kind: u32,
    pub cpu: u32,
    pub task: u32,
    pub target: u32,
    pub switches: u64,
    pub timer: *const c_void,
    pub function: *const c_void,
    pub expires_ns: u64,
    pub softexpires_ns: u64,
}

#[repr(C)]
pub(crate) struct Host {
    pub context: *mut c_void,
    pub allocate: extern "C" fn(*mut c_void, c_ulong) -> *mut c_void,
    pub allocate_stack: extern "C" fn(*mut c_void, c_ulong) -> *mut c_void,
    pub traced: extern "C" fn(*mut c_void, *const Event),
    pub log: extern "C" fn(*mut c_void, *const c_char, c_ulong),
    pub trouble:
        extern "C" fn(*mut c_void, u32, *const c_char, c_ulong, *const *const c_void, c_ulong),
    pub rejects: Option<extern "C" fn(*mut c_void, u32, u32) -> u64>,
    pub poll_ends: extern "C" fn(*mut c_void, u32, u64, u64) -> u64,
    pub file: extern "C" fn(*mut c_void, *const c_char, u32),
    pub next_write: extern "C" fn(*mut c_void) -> *const Write,
}

/// Calls have the same signature, so that one guard covers all of them.
pub(crate) type Call = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;

#[repr(C)]
pub(crate) struct Calls {
    pub abi: u32,
    pub cpu_size: u32,
    pub machine_size: u32,
    pub cluster_size: u32,
    pub task_setup_size: u32,
    pub host_size: u32,
    pub hz: u32,
    pub now_ns: *mut u64,
    pub cpus: *mut Cpu,
    pub touched: *mut u64,
    pub acting_cpu: *const c_int,
    pub boot: Call,
    pub interrupt: Call,
    pub task_new: Call,
    pub block: Call,
    pub block_io: Call,
    pub sleep: Call,
    pub yield_cpu: Call,
    pub exit: Call,
    pub wake: Call,
    pub wake_sync: Call,
    pub change: Call,
    pub completes: Call,
    pub idle_usage: Call,
    pub known_argument: extern "C" fn(c_ulong) -> *const c_char,
    pub group_stat: Call,
    pub files_generation: *const u32,
    pub list_files: Call,
    pub write: Call,
    pub shell_cpu: Call,
}

/// Returns a name as a C string, truncated to the array.
pub(crate) fn name(text: &str) -> [c_char; NAME_LEN] {
    let mut name = [0; NAME_LEN];
    for (to, byte) in name[..NAME_LEN - 1].iter_mut().zip(text.bytes()) {
        *to = byte as c_char;
    }
    name
}
