// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Converts a recording into the inputs of a replay.
//!
//! Events that the recorded governor caused are not inputs: ticks that woke the CPU and polling
//! that timed out are merged away, and every replayed governor produces its own. The rest is one
//! [`Span`] for each wake-up that would have come under any governor.

mod draft;
mod follow;
mod growing;
mod infer;
mod segment;
mod spans;
mod tasks;
mod tick;
mod timers;
mod util;

use crate::timeline::Folding;
use std::collections::BTreeMap;
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Hz, Instant};
use torpor_trace::Trace;

pub use draft::Draft;
pub use follow::Follower;
pub(crate) use growing::Growing;
pub(crate) use segment::{RCU_HOLD, RCU_SOFTIRQ};
pub(crate) use tasks::Waits;
pub use tick::TickGrid;
pub(crate) use tick::{TickFunction, tick_function};
pub(crate) use timers::{OVERDUE, TimerTracker};
pub(crate) use util::{Tracker, after_idling, note_frequencies};

/// Source of a span's time to the next timer, best first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[repr(u8)]
pub enum SleepSource {
    /// The kernel's own value, from a return probe on `tick_nohz_get_sleep_length`.
    Probe,
    /// Timer start, cancel and expire events.
    TimerEvents,
    /// No timer events: the local interrupt that woke a sleeping task counts as its timer.
    WakingTimer,
    /// No timer is known: governors see only the tick.
    TickOnly,
}

impl SleepSource {
    pub const ALL: [SleepSource; 4] = [
        SleepSource::Probe,
        SleepSource::TimerEvents,
        SleepSource::WakingTimer,
        SleepSource::TickOnly,
    ];

    pub const fn key(self) -> &'static str {
        match self {
            SleepSource::Probe => "probe",
            SleepSource::TimerEvents => "timer_events",
            SleepSource::WakingTimer => "waking_timer",
            SleepSource::TickOnly => "tick_only",
        }
    }

    pub const fn class(self) -> SleepClass {
        match self {
            SleepSource::Probe | SleepSource::TimerEvents => SleepClass::Recorded,
            SleepSource::WakingTimer => SleepClass::Guessed,
            SleepSource::TickOnly => SleepClass::None,
        }
    }
}

/// Knowledge that a source of the time to the next timer gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SleepClass {
    /// The recording shows the armed timers, or what the kernel computed of them.
    Recorded,
    /// Hindsight: the recording shows what ended the sleep.
    Guessed,
    None,
}

/// Source of a wake-up event's time, best first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[repr(u8)]
pub enum WakeStamp {
    /// `sched_waking` or an IPI's send event on another CPU.
    WakingEvent,
    /// The expiry time of the timer that fired.
    TimerExpiry,
    /// The first interrupt event on the CPU itself.
    InterruptEvent,
    /// The `cpu_idle` exit, less the recorded state's exit latency where the machine is known.
    ExitStamp,
}

impl WakeStamp {
    pub const ALL: [WakeStamp; 4] = [
        WakeStamp::WakingEvent,
        WakeStamp::TimerExpiry,
        WakeStamp::InterruptEvent,
        WakeStamp::ExitStamp,
    ];

    pub const fn key(self) -> &'static str {
        match self {
            WakeStamp::WakingEvent => "waking_event",
            WakeStamp::TimerExpiry => "timer_expiry",
            WakeStamp::InterruptEvent => "interrupt_event",
            WakeStamp::ExitStamp => "exit_stamp",
        }
    }
}

/// One recorded stretch of idleness between two pieces of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The CPU had nothing to run: the idle loop began (or began again after an interrupt).
    pub start: Instant,
    /// Time of the event that ended it. Never before `start`.
    pub wake: Instant,
    /// The CPU ran again in the recording. Never before `wake`.
    pub resume: Instant,
    /// The earliest hrtimer known at `start`, without the tick's.
    pub next_hrtimer: Instant,
    /// The earliest timer-wheel event known at `start`.
    pub next_wheel: Instant,
    /// The CPU's frequency at `start`; 0 if not recorded.
    pub freq_khz: u32,
    /// Position among the platform's OPPs, set by [`Recording::bind_opps`].
    pub opp: u16,
    /// Utilization of the CPU at `start`, in 1024ths of the biggest CPU; set by a [`Follower`].
    pub util: u16,
    pub source: SleepSource,
    pub stamp: WakeStamp,
    /// A task ran afterwards, so the tick was restarted. Otherwise an interrupt was handled and the
    /// idle loop went round again with the tick unchanged.
    pub ends_visit: bool,
    /// Another CPU gave this one a task or asked it to reschedule, which takes an interrupt unless
    /// the CPU polls.
    pub is_resched: bool,
    /// Tasks waiting for IO at `start` that slept last on this CPU; this and the next field are set
    /// by a [`Follower`].
    pub nr_iowait: u16,
    /// Tasks on the runqueue at the last tick before `start`.
    pub nr_running: u16,
    /// RCU needed the CPU at `start`, which keeps the tick from being stopped for a while.
    pub rcu_holds_tick: bool,
}

impl Span {
    /// Returns a span with only its start known.
    pub(crate) fn begun(start: Instant) -> Span {
        Span {
            start,
            wake: start,
            resume: start,
            next_hrtimer: Instant::NEVER,
            next_wheel: Instant::NEVER,
            freq_khz: 0,
            opp: 0,
            util: 0,
            source: SleepSource::TickOnly,
            stamp: WakeStamp::ExitStamp,
            ends_visit: false,
            is_resched: false,
            nr_iowait: 0,
            nr_running: 0,
            rcu_holds_tick: false,
        }
    }
}

// A replay streams through spans: one must fit in a cache line.
const _: () = assert!(size_of::<Span>() <= 64);

/// Inputs of one CPU, in order; `spans[k+1].start − spans[k].resume` is the work between two spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuInput {
    pub cpu: CpuId,
    pub spans: Vec<Span>,
    pub cut: CutSleeps,
}

/// Sleeps that began before the recording or outlast it; they cannot be replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutSleeps {
    /// End of the sleep at the start of the recording.
    pub until: Option<Instant>,
    /// Begin of the sleep at the end of the recording.
    pub from: Option<Instant>,
}

impl CutSleeps {
    /// Returns their parts inside `span`.
    pub fn within(&self, span: (Instant, Instant)) -> [(Instant, Instant); 2] {
        let (start, end) = span;
        let until = self.until.unwrap_or(start).clamp(start, end);
        let from = self.from.unwrap_or(end).clamp(start, end);
        [(start, until), (from, end)]
    }

    /// Returns the rest of `span`, for which the recording shows whole sleeps.
    pub fn observed(&self, span: (Instant, Instant)) -> Duration {
        let cut = self.within(span).map(|(from, to)| to.since(from));
        (span.1.since(span.0) - cut[0] - cut[1]).max(Duration::ZERO)
    }
}

impl CpuInput {
    /// Returns the replayed time: from the first idle entry to the last wake-up.
    pub fn window(&self) -> (Instant, Instant) {
        match (self.spans.first(), self.spans.last()) {
            (Some(first), Some(last)) => (first.start, last.resume),
            _ => (Instant(0), Instant(0)),
        }
    }
}

/// A CPU leaves idle microseconds after the event that wakes it. A longer delay shows that the
/// event was not the cause, or that the CPU could not take the interrupt.
const EXIT_MAX: Duration = Duration(1_000_000);

/// Delay from the event that ends each span to the recorded exit from idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, schemars::JsonSchema, serde::Serialize)]
pub struct EventToExit {
    /// Spans whose event time comes from more than the exit itself.
    pub events: u64,
    /// Exits more than 1 ms after the event.
    pub over_1ms: u64,
    /// Total delay, in ns.
    pub time_ns: i64,
}

impl EventToExit {
    fn add(&mut self, span: &Span) {
        if span.stamp != WakeStamp::ExitStamp {
            let lag = span.resume.since(span.wake);
            self.events += 1;
            self.over_1ms += u64::from(lag > EXIT_MAX);
            self.time_ns += lag.0;
        }
    }

    /// Returns the share of exits over 1 ms, in percent.
    pub fn over_1ms_pct(&self) -> f64 {
        100.0 * self.over_1ms as f64 / self.events.max(1) as f64
    }
}

/// Counters of the conversion from events to spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputStats {
    pub event_to_exit: EventToExit,
    pub merged_ticks: u64,
    pub merged_poll_timeouts: u64,
    /// Sleeps whose exit the recording lacks: the next entry, or a task, shows that they ended.
    pub unclosed_entries: u64,
    /// Recorded sleeps left out because the recording cuts them at its edge.
    pub cut_sleeps: u64,
    /// Sleeps soon after RCU raised its softirq: those that the tick ended, and those longer than a
    /// tick.
    pub rcu_held_ticks: u64,
    pub rcu_stopped_ticks: u64,
    pub stamps: BTreeMap<&'static str, u64>,
}

/// A recording as replay inputs.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Only CPUs that the recording shows idle at least once, in order.
    pub cpus: Vec<CpuInput>,
    pub tick: Option<TickGrid>,
    /// The highest recorded frequency of each CPU, by number; 0 if none is recorded.
    pub freq_max_khz: Vec<u32>,
    pub stats: InputStats,
}

impl Recording {
    /// Reconstructs the inputs of a recording in memory, without its task information. See
    /// [`Draft::new`] for `recorded_on`.
    pub fn new(trace: &Trace, recorded_on: Option<&Platform>) -> Recording {
        Folding::whole(trace, Draft::new(recorded_on)).finish()
    }

    /// Sets each span's OPP: the platform's lowest one at or above the recorded frequency, or else
    /// the highest. Without a recorded frequency it is the lowest OPP.
    pub fn bind_opps(&mut self, platform: &Platform, place: impl Fn(CpuId) -> CpuId) {
        for input in &mut self.cpus {
            let Some(cluster) = platform.cluster_of(place(input.cpu)) else { continue };
            let opps = &platform.clusters[cluster].opps;
            for span in &mut input.spans {
                let at_or_above = opps.partition_point(|o| o.freq_khz < span.freq_khz);
                span.opp = at_or_above.min(opps.len().saturating_sub(1)) as u16;
            }
        }
    }

    /// Returns the replayed span: from the first CPU's first idle entry to the last CPU's last
    /// wake-up.
    pub fn window(&self) -> (Instant, Instant) {
        let windows = || self.cpus.iter().map(CpuInput::window);
        let start = windows().map(|(start, _)| start).min();
        let end = windows().map(|(_, end)| end).max();
        (start.unwrap_or(Instant(0)), end.unwrap_or(Instant(0)))
    }

    /// Keeps the spans that lie between two moments; cut spans count as cut by the recording's
    /// edge.
    pub fn keep_between(&mut self, from: Instant, to: Instant) {
        for input in &mut self.cpus {
            let first = input.spans.partition_point(|span| span.start < from);
            let last = input.spans.partition_point(|span| span.resume <= to).max(first);
            let before = first.checked_sub(1).map(|index| input.spans[index].resume);
            let after = input.spans.get(last).map(|span| span.start);
            if let Some(until) = before.filter(|&resume| resume > from) {
                input.cut.until = Some(until);
                self.stats.cut_sleeps += 1;
            }
            if let Some(since) = after.filter(|&start| start < to) {
                input.cut.from = Some(since);
                self.stats.cut_sleeps += 1;
            }
            input.spans.truncate(last);
            input.spans.drain(..first);
        }
        self.cpus.retain(|input| !input.spans.is_empty());
    }

    /// Returns the time by which to divide energies: the mean over CPUs of the replayed span
    /// without the cut sleeps, whose energy is not known either.
    ///
    /// FIDELITY(recording-edges): cut sleeps count nowhere.
    pub fn observed(&self) -> Duration {
        let span = self.window();
        let sum: i64 = self.cpus.iter().map(|input| input.cut.observed(span).0).sum();
        Duration(sum / self.cpus.len().max(1) as i64)
    }

    /// Returns the longest time that a CPU was idle.
    pub fn longest_idle(&self) -> Duration {
        let lengths = self.cpus.iter().flat_map(|c| &c.spans).map(|s| s.wake.since(s.start));
        lengths.max().unwrap_or(Duration::ZERO)
    }

    pub fn span_count(&self) -> usize {
        self.cpus.iter().map(|c| c.spans.len()).sum()
    }

    /// Returns the recorded kernel's tick rate, if the recording shows it.
    pub fn hz(&self) -> Option<Hz> {
        self.tick.map(|t| t.hz)
    }
}

/// Index of each CPU in a recording, by CPU number.
#[derive(Clone)]
pub struct CpuIndex(Vec<Option<usize>>);

impl CpuIndex {
    pub fn new(recording: &Recording, cpu_count: u32) -> CpuIndex {
        let mut indices = vec![None; cpu_count as usize];
        for (index, input) in recording.cpus.iter().enumerate() {
            if let Some(of_cpu) = indices.get_mut(input.cpu.index()) {
                *of_cpu = Some(index);
            }
        }
        CpuIndex(indices)
    }

    pub fn cpu_count(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub fn of(&self, number: usize) -> Option<usize> {
        self.0.get(number).copied().flatten()
    }
}
