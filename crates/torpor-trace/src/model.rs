// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The event model, the same for all formats.
//!
//! A reader turns bytes into [`Event`]s, notes the kinds it found ([`Carries`]) and counts losses
//! ([`Loss`]). Neither this module nor its users depend on a file format.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use torpor_machine::units::{CpuId, Instant, StateIdx};

/// One event of the kernel, on one CPU.
///
/// `cpu` is the event's own `cpu_id` field for `cpu_idle` and `cpu_frequency`, else the CPU whose
/// ring buffer held the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub time: Instant,
    pub cpu: CpuId,
    pub kind: EventKind,
}

// Long recordings have tens of millions of events.
const _: () = assert!(size_of::<Event>() == 40);

/// A 64-bit number of an event, aligned to four bytes: with eight, each event would have eight bytes
/// of padding.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub struct Slim<T: Copy>(T);

impl<T: Copy> Slim<T> {
    #[inline]
    pub const fn new(value: T) -> Slim<T> {
        Slim(value)
    }

    #[inline]
    pub const fn get(self) -> T {
        self.0
    }
}

impl<T: Copy> From<T> for Slim<T> {
    #[inline]
    fn from(value: T) -> Slim<T> {
        Slim(value)
    }
}

impl<T: Copy + Serialize> Serialize for Slim<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

impl<'de, T: Copy + Deserialize<'de>> Deserialize<'de> for Slim<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Slim<T>, D::Error> {
        T::deserialize(deserializer).map(Slim)
    }
}

impl<T: Copy + PartialEq> PartialEq for Slim<T> {
    fn eq(&self, other: &Slim<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Copy + Eq> Eq for Slim<T> {}

impl<T: Copy + fmt::Debug> fmt::Debug for Slim<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// An interned text: function symbols and task names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name(pub u32);

/// An interned timer: the address of its structure.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Timer(pub u32);

/// An interned function of timers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct FunctionId(pub u16);

/// The function of a timer: its address, and its symbol if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Function {
    pub address: u64,
    pub symbol: Option<Name>,
}

/// Purpose of an x86 `irq_vectors` event or an arm64 `ipi` event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum InterruptCause {
    LocalTimer,
    Reschedule,
    CallFunction,
    IrqWork,
    Other,
}

/// The state in which a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        value: Slim<i64>,
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
        timer: Timer,
        function: FunctionId,
        expires: Slim<Instant>,
        softexpires: Slim<Instant>,
    },
    HrtimerCancel {
        timer: Timer,
    },
    HrtimerExpireEntry {
        timer: Timer,
        function: FunctionId,
        now: Slim<Instant>,
    },
    HrtimerExpireExit {
        timer: Timer,
    },
    /// `expires` and `bucket_expiry` in jiffies; `bucket_expiry` is absent before Linux 6.3,
    /// and never 0, a jiffy that no timer of a 64-bit kernel waits for.
    TimerStart {
        timer: Timer,
        function: FunctionId,
        expires_jiffies: Slim<u64>,
        bucket_expiry_jiffies: Option<Slim<NonZeroU64>>,
        flags: u32,
    },
    TimerCancel {
        timer: Timer,
    },
    TimerExpireEntry {
        timer: Timer,
        function: FunctionId,
        now_jiffies: Slim<u64>,
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

    pub fn timer_mut(&mut self) -> Option<&mut Timer> {
        match self {
            EventKind::HrtimerStart { timer, .. }
            | EventKind::HrtimerCancel { timer }
            | EventKind::HrtimerExpireEntry { timer, .. }
            | EventKind::HrtimerExpireExit { timer }
            | EventKind::TimerStart { timer, .. }
            | EventKind::TimerCancel { timer }
            | EventKind::TimerExpireEntry { timer, .. } => Some(timer),
            _ => None,
        }
    }

    pub fn function_mut(&mut self) -> Option<&mut FunctionId> {
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Stable key in snake case, such as `ftrace_overrun_events`.
    pub key: String,
    pub severity: Severity,
    pub count: u64,
    /// Description of the loss and its remedy.
    pub advice: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Trace {
    pub meta: Meta,
    /// The cache of recordings has them apart.
    #[serde(skip)]
    pub events: Vec<Event>,
    /// Times of the first and last event, also if the events were streamed.
    pub window: Option<(Instant, Instant)>,
    pub names: Names,
    pub carries: Carries,
    /// Number of events by kernel name, including names that the model lacks.
    pub event_counts: BTreeMap<String, u64>,
    pub losses: Vec<Loss>,
}

/// Texts, timers and timer functions that the events of one trace name by number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "NewNames", into = "NewNames")]
pub struct Names {
    texts: Vec<Box<str>>,
    index: FxHashMap<Box<str>, Name>,
    timers: Vec<u64>,
    timer_index: FxHashMap<u64, Timer>,
    functions: Vec<Function>,
    function_index: FxHashMap<Function, FunctionId>,
}

/// A part of [`Names`], from a place in each table on.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct NewNames {
    texts: Vec<Box<str>>,
    timers: Vec<u64>,
    functions: Vec<Function>,
}

/// Lengths of the tables of [`Names`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NamesCount {
    texts: usize,
    timers: usize,
    functions: usize,
}

impl From<Names> for NewNames {
    fn from(names: Names) -> NewNames {
        names.since(NamesCount::default())
    }
}

impl From<NewNames> for Names {
    fn from(all: NewNames) -> Names {
        let texts = all.texts.iter().cloned().zip((0..).map(Name)).collect();
        let timers = all.timers.iter().copied().zip((0..).map(Timer)).collect();
        let functions = all.functions.iter().copied().zip((0..).map(FunctionId)).collect();
        let mut names = Names::default();
        (names.index, names.timer_index, names.function_index) = (texts, timers, functions);
        names.extend(all);
        names
    }
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

    /// Interns a timer by its address.
    #[inline]
    pub fn timer(&mut self, address: u64) -> Timer {
        *self.timer_index.entry(address).or_insert_with(|| {
            self.timers.push(address);
            Timer(self.timers.len().wrapping_sub(1) as u32)
        })
    }

    /// Interns a function of timers. Returns `None` if there are 65,536 already: kernels have a few
    /// hundred.
    #[inline]
    pub fn function(&mut self, function: Function) -> Option<FunctionId> {
        if let Some(&id) = self.function_index.get(&function) {
            return Some(id);
        }
        let id = FunctionId(u16::try_from(self.functions.len()).ok()?);
        self.functions.push(function);
        self.function_index.insert(function, id);
        Some(id)
    }

    /// Gives functions their symbols, from the number `first` on. Returns their number.
    pub(crate) fn resolve(
        &mut self,
        first: usize,
        mut symbol: impl FnMut(u64, &mut Names) -> Option<Name>,
    ) -> usize {
        let mut functions = std::mem::take(&mut self.functions);
        for function in functions.iter_mut().skip(first) {
            function.symbol = symbol(function.address, self);
        }
        self.functions = functions;
        self.functions.len()
    }

    pub(crate) fn count(&self) -> NamesCount {
        let Names { texts, timers, functions, .. } = self;
        let (texts, timers, functions) = (texts.len(), timers.len(), functions.len());
        NamesCount { texts, timers, functions }
    }

    /// Returns what was interned since the tables had these lengths.
    pub(crate) fn since(&self, count: NamesCount) -> NewNames {
        NewNames {
            texts: self.texts[count.texts..].to_vec(),
            timers: self.timers[count.timers..].to_vec(),
            functions: self.functions[count.functions..].to_vec(),
        }
    }

    /// Adds the next part of a trace's names, which are then only looked up.
    pub(crate) fn extend(&mut self, new: NewNames) {
        self.texts.extend(new.texts);
        self.timers.extend(new.timers);
        self.functions.extend(new.functions);
    }

    pub fn text(&self, name: Name) -> &str {
        &self.texts[name.0 as usize]
    }

    /// Returns the address of a timer.
    pub fn timer_address(&self, timer: Timer) -> u64 {
        self.timers[timer.0 as usize]
    }

    pub fn function_of(&self, id: FunctionId) -> Function {
        self.functions[usize::from(id.0)]
    }

    /// Returns the text of a function's symbol, if it has one.
    pub fn symbol(&self, id: FunctionId) -> Option<&str> {
        self.function_of(id).symbol.map(|name| self.text(name))
    }
}
