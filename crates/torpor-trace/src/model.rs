// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The event model, the same for all formats.
//!
//! A reader turns bytes into [`Event`]s, notes the kinds it found ([`Carries`]) and counts losses
//! ([`Loss`]). Neither this module nor its users depend on a file format.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use torpor_machine::units::{CpuId, Instant, StateIdx};

/// One event of the kernel, on one CPU.
///
/// `cpu` is the event's own `cpu_id` field for `cpu_idle` and `cpu_frequency`, else the CPU whose
/// ring buffer held the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub time: Instant,
    pub cpu: CpuId,
    pub kind: EventKind,
}

/// An interned text: function symbols and task names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u32);

/// The function of a timer: its address, and its symbol if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    pub address: u64,
    pub symbol: Option<Name>,
}

/// Purpose of an x86 `irq_vectors` event or an arm64 `ipi` event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterruptCause {
    LocalTimer,
    Reschedule,
    CallFunction,
    IrqWork,
    Other,
}

/// The state in which a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PrevState {
    /// Preempted or yielded; waits for a CPU.
    Runnable,
    /// Sleeps interruptibly, is an idle kernel thread, or is stopped.
    Sleeping,
    /// Sleeps uninterruptibly (`D`), as tasks that wait for IO do.
    DiskSleep,
    /// Has exited.
    Dead,
}

/// A kernel function that a dynamic probe (kprobe, kretprobe or fprobe) watched, and the meaning of
/// the probe's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// `cpuidle_select()` returned: the state's index, or an error.
    Select,
    /// `cpuidle_reflect()` was called: the state that was entered, if recorded.
    Reflect,
    /// `tick_nohz_get_sleep_length()` returned: ns.
    SleepLength,
    /// `tick_nohz_next_event()` returned: the `CLOCK_MONOTONIC` time in ns, 0 if the tick must stay.
    NextEvent,
    /// `rcu_needs_cpu()` returned.
    RcuNeedsCpu,
    /// `sched_cpu_util()` returned.
    Util,
    /// `tick_nohz_idle_stop_tick()` was called.
    StopTick,
    /// `tick_nohz_idle_retain_tick()` was called.
    RetainTick,
    /// `tick_nohz_idle_enter()` was called.
    IdleEnter,
    /// `tick_nohz_irq_exit()` returned.
    IrqExit,
}

/// The pid of a task that a recording does not name. The kernel's start at 0.
pub const UNKNOWN_PID: i32 = -1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// `power:cpu_idle`; state −1 is the exit.
    CpuIdle {
        state: StateIdx,
    },
    /// `power:cpu_idle_miss`; `below` is the kernel's field: true if the state was too shallow.
    CpuIdleMiss {
        state: StateIdx,
        below: bool,
    },
    CpuFrequency {
        freq_khz: u32,
    },
    /// `prev_pid` is 0 for the idle task, [`UNKNOWN_PID`] if not recorded.
    SchedSwitch {
        prev_pid: i32,
        prev_state: PrevState,
        next_pid: i32,
        next_comm: Option<Name>,
    },
    /// `sched_waking`; the waker runs on `Event::cpu`. `target_cpu` is the CPU where the task ran
    /// last: the kernel writes the event before it selects a CPU. [`Wakeups`](crate::Wakeups) finds
    /// the CPU that was woken.
    SchedWaking {
        pid: i32,
        target_cpu: CpuId,
    },
    /// `sched_wakeup`: the task is on the runqueue of `target_cpu`. The woken CPU itself may write
    /// it, after it has left its idle state.
    SchedWakeup {
        pid: i32,
        target_cpu: CpuId,
    },
    /// `sched_wakeup_new`: a new task is on the runqueue of `target_cpu`.
    SchedWakeupNew {
        pid: i32,
        target_cpu: CpuId,
    },
    /// `sched_blocked_reason`: `io_wait` is true if the waking task had waited for IO.
    BlockedReason {
        pid: i32,
        io_wait: bool,
    },
    /// A dynamic probe on a function of the idle loop; `value` is 0 if the probe has none.
    Probed {
        probe: Probe,
        value: i64,
    },
    /// `name` is the driver's name, as in `/proc/interrupts`.
    IrqEntry {
        irq: u32,
        name: Option<Name>,
    },
    IrqExit {
        irq: u32,
    },
    SoftirqRaise {
        vec: u32,
    },
    SoftirqEntry {
        vec: u32,
    },
    SoftirqExit {
        vec: u32,
    },
    /// `irq_vectors:*_entry` / `_exit` and arm64 `ipi_entry` / `ipi_exit`: the receiving side.
    InterruptEntry {
        cause: InterruptCause,
    },
    InterruptExit {
        cause: InterruptCause,
    },
    /// `ipi_raise`, `ipi_send_cpu`, `ipi_send_cpumask`: the sending side, one event a target.
    IpiSend {
        target_cpu: CpuId,
        cause: InterruptCause,
    },
    HrtimerStart {
        timer: u64,
        function: Function,
        expires: Instant,
        softexpires: Instant,
    },
    HrtimerCancel {
        timer: u64,
    },
    HrtimerExpireEntry {
        timer: u64,
        function: Function,
        now: Instant,
    },
    HrtimerExpireExit {
        timer: u64,
    },
    /// `expires` and `bucket_expiry` in jiffies; `bucket_expiry` is absent before Linux 6.3.
    TimerStart {
        timer: u64,
        function: Function,
        expires_jiffies: u64,
        bucket_expiry_jiffies: Option<u64>,
        flags: u32,
    },
    TimerCancel {
        timer: u64,
    },
    TimerExpireEntry {
        timer: u64,
        function: Function,
        now_jiffies: u64,
    },
    TickStop {
        success: bool,
    },
    /// A line written to `trace_marker`.
    Marker {
        text: Name,
    },
}

impl EventKind {
    /// Returns the other CPU that an event names.
    #[inline]
    pub fn target_cpu(&self) -> Option<CpuId> {
        match self {
            EventKind::SchedWaking { target_cpu, .. }
            | EventKind::SchedWakeup { target_cpu, .. }
            | EventKind::SchedWakeupNew { target_cpu, .. }
            | EventKind::IpiSend { target_cpu, .. } => Some(*target_cpu),
            _ => None,
        }
    }

    pub fn function_mut(&mut self) -> Option<&mut Function> {
        match self {
            EventKind::HrtimerStart { function, .. }
            | EventKind::HrtimerExpireEntry { function, .. }
            | EventKind::TimerStart { function, .. }
            | EventKind::TimerExpireEntry { function, .. } => Some(function),
            _ => None,
        }
    }
}

/// The kinds of events in a recording.
///
/// A replay is only as good as its inputs, so every result shows these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carries {
    pub cpu_idle: bool,
    pub cpu_idle_miss: bool,
    pub frequency: bool,
    pub switches: bool,
    /// `sched_waking`, or `sched_wakeup` instead.
    pub wakings: bool,
    pub hrtimers: bool,
    pub wheel_timers: bool,
    pub tick_stop: bool,
    pub interrupts: bool,
    pub ipis: bool,
    pub softirqs: bool,
    pub probes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// All inputs of a replay are complete.
    Info,
    /// Some inputs are missing; results are valid, with less support.
    Loss,
    /// The file is damaged.
    Damage,
}

impl Severity {
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Loss => "loss",
            Severity::Damage => "damage",
        }
    }
}

/// A count of what a reader skipped or could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Stable key in snake case, such as `ftrace_overrun_events`.
    pub key: String,
    pub severity: Severity,
    pub count: u64,
    /// Description of the loss and its remedy.
    pub advice: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Name of the [format](crate::Format), such as `perf.data`.
    pub format: String,
    /// The clock of all times, by the kernel's name: `boot`, `mono`, `perf`.
    pub clock: String,
    pub kernel_release: Option<String>,
    pub machine: Option<String>,
    pub arch: Option<String>,
    /// SHA-256 of the file on disk.
    pub sha256: String,
    /// Highest CPU number seen plus one, or the header's count if larger.
    pub cpu_count: u32,
}

/// A recording: events in order of time, then CPU, then position in the file.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub meta: Meta,
    pub events: Vec<Event>,
    /// Times of the first and last event, also if the events were streamed.
    pub window: Option<(Instant, Instant)>,
    pub names: Names,
    pub carries: Carries,
    /// Number of events by kernel name, including names that the model lacks.
    pub event_counts: BTreeMap<String, u64>,
    pub losses: Vec<Loss>,
}

/// Interned texts of one trace.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<Box<str>>,
    index: FxHashMap<Box<str>, Name>,
}

impl Names {
    pub fn intern(&mut self, text: &str) -> Name {
        if let Some(&name) = self.index.get(text) {
            return name;
        }
        let name = Name(self.texts.len() as u32);
        self.texts.push(text.into());
        self.index.insert(text.into(), name);
        name
    }

    /// Returns the texts after the first `count`, in order.
    pub(crate) fn since(&self, count: usize) -> Vec<Box<str>> {
        self.texts[count..].to_vec()
    }

    /// Adds texts that are not in the table yet.
    pub(crate) fn extend(&mut self, texts: Vec<Box<str>>) {
        for text in texts {
            self.intern(&text);
        }
    }

    pub fn text(&self, name: Name) -> &str {
        &self.texts[name.0 as usize]
    }
}
