// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What every reader writes into: checks each event's borders, interns names, sorts, sums up.

use crate::kallsyms::Kallsyms;
use crate::loss::{self, LossKind, Tally};
use crate::model::{Carries, Event, EventKind, Function, InterruptCause, Meta, Name, Names, Trace};
use std::collections::{BTreeMap, HashMap};
use torpor_units::{CpuId, Instant};

/// The largest `CONFIG_NR_CPUS` of any architecture.
pub(crate) const CPUS_MAX: u32 = 8192;

#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub meta: Meta,
    pub names: Names,
    pub event_counts: BTreeMap<String, u64>,
    pub losses: Tally,
    /// What timer functions get their names from. Where both are empty, they keep what they have.
    pub symbols: Kallsyms,
    pub functions: HashMap<u64, Option<Name>>,
    events: Vec<Event>,
    comms: CommCache,
    settled_ns: u64,
}

impl Builder {
    pub(crate) fn new(format: &'static str) -> Builder {
        Builder {
            meta: Meta { format: format.to_owned(), ..Meta::default() },
            ..Builder::default()
        }
    }

    /// True while no event was taken in.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn lose(&mut self, kind: &'static LossKind, count: u64) {
        self.losses.add(kind, count);
    }

    /// Takes one event, or counts it as lost if its time or CPU cannot be one.
    #[inline]
    pub(crate) fn push(&mut self, time_ns: u64, cpu: u32, kind: EventKind) {
        if cpu >= CPUS_MAX || target_of(&kind).is_some_and(|target| target.0 >= CPUS_MAX) {
            return self.lose(&loss::CPU_OUT_OF_RANGE, 1);
        }
        // i64::MAX is `Instant::NEVER`, which no event can have happened at.
        if time_ns >= i64::MAX as u64 {
            return self.lose(&loss::TIME_OUT_OF_RANGE, 1);
        }
        self.events.push(Event { time: Instant(time_ns as i64), cpu: CpuId(cpu), kind });
    }

    /// Says that no event before `time_ns` will follow, on any CPU. Readers of formats that are
    /// in order, or that mark such moments, call it now and then.
    #[inline]
    pub(crate) fn settle(&mut self, time_ns: u64) {
        self.settled_ns = self.settled_ns.max(time_ns);
    }

    #[inline]
    pub(crate) fn comm(&mut self, comm: &[u8]) -> Name {
        self.comms.intern(comm, &mut self.names)
    }

    /// Gives every timer function its name.
    fn resolve_functions(&mut self) {
        if self.functions.is_empty() && self.symbols.is_empty() {
            return;
        }
        for event in &mut self.events {
            if let Some(function) = function_of(&mut event.kind) {
                function.symbol = *self.functions.entry(function.address).or_insert_with(|| {
                    let symbol = self.symbols.symbol(function.address)?;
                    Some(self.names.intern(symbol))
                });
            }
        }
    }

    /// Moves hrtimer times from `CLOCK_MONOTONIC`, in which the kernel keeps them, to the trace's
    /// clock, so that an expiry can be compared with an event. `offset_ns` is the trace's clock
    /// minus the monotonic one, if known; else it is read off the timers that fired, whose `now`
    /// was taken just before the event's own time.
    ///
    /// FIDELITY(hrtimer-clock): timers of other clock bases (real time) keep their own offset.
    pub(crate) fn align_hrtimers(&mut self, offset_ns: Option<i64>) {
        if self.meta.clock == "mono" && offset_ns.unwrap_or(0) == 0 {
            return;
        }
        let hrtimers = self.events.iter().filter(|event| is_hrtimer(&event.kind)).count() as u64;
        if hrtimers == 0 {
            return;
        }
        let offset_ns = match offset_ns.or_else(|| self.hrtimer_offset_ns()) {
            Some(estimate) => {
                if offset_ns.is_none() {
                    self.lose(&loss::HRTIMER_CLOCK_ESTIMATED, hrtimers);
                }
                estimate
            }
            None => return self.lose(&loss::HRTIMER_CLOCK_UNKNOWN, hrtimers),
        };
        for event in &mut self.events {
            match &mut event.kind {
                EventKind::HrtimerStart { expires, softexpires, .. } => {
                    shift(expires, offset_ns);
                    shift(softexpires, offset_ns);
                }
                EventKind::HrtimerExpireEntry { now, .. } => shift(now, offset_ns),
                _ => {}
            }
        }
    }

    /// The least delay between a firing timer's `now` and its event is the closest to none.
    /// Timers of other clocks are hours away from the median, and left out.
    fn hrtimer_offset_ns(&self) -> Option<i64> {
        let mut offsets: Vec<i64> = self
            .events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::HrtimerExpireEntry { now, .. } => Some(event.time.0 - now.0),
                _ => None,
            })
            .collect();
        offsets.sort_unstable();
        let median = *offsets.get(offsets.len() / 2)?;
        offsets.into_iter().find(|offset| median.saturating_sub(*offset) < 1_000_000)
    }

    pub(crate) fn finish(mut self) -> Trace {
        self.resolve_functions();
        // Stable, so equal times keep the file's order. The standard sort finds the runs that
        // per-CPU buffers leave behind and merges them.
        if !self.events.is_sorted_by_key(|event| event.time) {
            self.events.sort_by_key(|event| event.time);
        }
        let mut carries = Carries::default();
        let mut cpu_count = self.meta.cpu_count.min(CPUS_MAX);
        for event in &self.events {
            cpu_count = cpu_count.max(event.cpu.0 + 1);
            cpu_count = cpu_count.max(target_of(&event.kind).map_or(0, |target| target.0 + 1));
            note(&mut carries, &event.kind);
        }
        self.meta.cpu_count = cpu_count;
        Trace {
            meta: self.meta,
            events: self.events,
            names: self.names,
            carries,
            event_counts: self.event_counts,
            losses: self.losses.into_losses(),
        }
    }
}

/// The other CPU an event names.
#[inline]
fn target_of(kind: &EventKind) -> Option<CpuId> {
    match kind {
        EventKind::SchedWaking { target_cpu, .. } | EventKind::IpiSend { target_cpu, .. } => {
            Some(*target_cpu)
        }
        _ => None,
    }
}

fn is_hrtimer(kind: &EventKind) -> bool {
    matches!(kind, EventKind::HrtimerStart { .. } | EventKind::HrtimerExpireEntry { .. })
}

fn shift(instant: &mut Instant, offset_ns: i64) {
    if *instant != Instant::NEVER {
        instant.0 = instant.0.saturating_add(offset_ns).max(0);
    }
}

fn function_of(kind: &mut EventKind) -> Option<&mut Function> {
    match kind {
        EventKind::HrtimerStart { function, .. }
        | EventKind::HrtimerExpireEntry { function, .. }
        | EventKind::TimerStart { function, .. }
        | EventKind::TimerExpireEntry { function, .. } => Some(function),
        _ => None,
    }
}

fn note(carries: &mut Carries, kind: &EventKind) {
    match kind {
        EventKind::CpuIdle { .. } => carries.cpu_idle = true,
        EventKind::CpuIdleMiss { .. } => carries.cpu_idle_miss = true,
        EventKind::CpuFrequency { .. } => carries.frequency = true,
        EventKind::SchedSwitch { .. } => carries.switches = true,
        EventKind::SchedWaking { .. } => carries.wakings = true,
        EventKind::IrqEntry { .. } | EventKind::IrqExit { .. } => carries.interrupts = true,
        EventKind::SoftirqRaise { .. }
        | EventKind::SoftirqEntry { .. }
        | EventKind::SoftirqExit { .. } => carries.softirqs = true,
        EventKind::InterruptEntry { cause } | EventKind::InterruptExit { cause } => match cause {
            InterruptCause::LocalTimer | InterruptCause::Other => carries.interrupts = true,
            InterruptCause::Reschedule | InterruptCause::CallFunction | InterruptCause::IrqWork => {
                carries.ipis = true
            }
        },
        EventKind::IpiSend { .. } => carries.ipis = true,
        EventKind::HrtimerStart { .. }
        | EventKind::HrtimerCancel { .. }
        | EventKind::HrtimerExpireEntry { .. }
        | EventKind::HrtimerExpireExit { .. } => carries.hrtimers = true,
        EventKind::TimerStart { .. }
        | EventKind::TimerCancel { .. }
        | EventKind::TimerExpireEntry { .. } => carries.wheel_timers = true,
        EventKind::TickStop { .. } => carries.tick_stop = true,
        EventKind::Probed { .. } => carries.probes = true,
        EventKind::BlockedReason { .. } | EventKind::Marker { .. } => {}
    }
}

/// Remembers the task names met last, so that the common one costs no hashing of a string.
///
/// A kernel task name has at most 15 bytes, which fit two machine words.
#[derive(Debug)]
struct CommCache {
    slots: Box<[([u8; 16], Option<Name>); 256]>,
}

impl Default for CommCache {
    fn default() -> CommCache {
        CommCache { slots: Box::new([([0; 16], None); 256]) }
    }
}

impl CommCache {
    #[inline]
    fn intern(&mut self, comm: &[u8], names: &mut Names) -> Name {
        if comm.len() > 15 {
            return names.intern(&String::from_utf8_lossy(comm));
        }
        let mut key = [0; 16];
        key[..comm.len()].copy_from_slice(comm);
        // The length tells `a` from `a\0`.
        key[15] = comm.len() as u8;
        let word = u128::from_le_bytes(key);
        let mixed = ((word as u64) ^ (word >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = &mut self.slots[(mixed >> 56) as usize];
        match *slot {
            (cached, Some(name)) if cached == key => return name,
            _ => {}
        }
        let name = names.intern(&String::from_utf8_lossy(comm));
        *slot = (key, Some(name));
        name
    }
}
