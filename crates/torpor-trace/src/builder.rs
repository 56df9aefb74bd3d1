// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Collects events of every reader: checks each event's borders, interns names, sorts, sums up.

use crate::bytes::STEP_BYTES;
use crate::gap::Gaps;
use crate::hrtimers::{Hrtimers, is_hrtimer};
use crate::kallsyms::Kallsyms;
use crate::loss::{self, LossKind, Tally};
use crate::model::{Carries, Event, EventKind, Function, InterruptCause, Meta, Name, Names, Trace};
use crate::stop::Stop;
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::SyncSender;
use torpor_machine::units::{CpuId, Instant};

/// The largest `CONFIG_NR_CPUS` of any architecture.
pub(crate) const CPUS_MAX: u32 = 8192;

/// Estimates from a recording as a whole, such as the clock of its timers, come from its first
/// events, which are held back until there are so many of them. Shorter recordings are seen whole.
const HEAD_EVENTS: usize = 1 << 20;
/// Events that are sorted and passed on at once.
const BATCH_EVENTS: usize = 1 << 16;

/// Events in order of time, all later than those of the batch before; or none, to tell only how
/// far the reader is.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub events: Vec<Event>,
    /// Names that were not in the batches before.
    pub names: Vec<Box<str>>,
    /// Contents of these events and those of the batches before, and the CPUs they show.
    pub carries: Carries,
    pub cpu_count: u32,
    /// Bytes of the file that have been read.
    pub read_bytes: u64,
    /// Unpacked, and in memory until the end.
    pub unpacked_bytes: u64,
}

/// Memory that an event takes: itself, its place while events are sorted, and its share of the
/// segment and the span that a replay makes of a sleep's two events.
pub(crate) const EVENT_HELD_BYTES: u64 = 200;

/// Destination of batches.
#[derive(Debug)]
enum Output {
    Kept(Vec<Event>),
    Sent(SyncSender<Batch>),
}

#[derive(Debug)]
pub(crate) struct Builder {
    pub meta: Meta,
    pub names: Names,
    pub event_counts: BTreeMap<String, u64>,
    pub losses: Tally,
    /// Names of timer functions. Where both are empty, they keep what they have.
    pub symbols: Kallsyms,
    pub functions: HashMap<u64, Option<Name>>,
    /// Progress of the reader, and when it was reported last.
    read_bytes: u64,
    told_bytes: u64,
    hrtimers: Hrtimers,
    /// Events that an earlier one may still follow.
    pending: Vec<Event>,
    /// With so many events pending it is time to pass some on.
    pending_max: usize,
    /// No more than these fit in memory.
    pending_most: usize,
    is_over_memory: bool,
    unpacked_bytes: u64,
    settled_ns: u64,
    /// Every event before this was passed on.
    passed_ns: u64,
    comms: CommCache,
    /// `sched_wakeup` events, and whether there is a `sched_waking`.
    wakeups: u64,
    has_wakings: bool,
    carries: Carries,
    cpu_count: u32,
    window: Option<(Instant, Instant)>,
    gaps: Gaps,
    names_sent: usize,
    output: Output,
    stop: Stop,
}

impl Builder {
    /// Keeps the events for [`finish`](Builder::finish).
    pub(crate) fn new(format: &'static str, stop: Stop) -> Builder {
        Builder::with_output(format, stop, Output::Kept(Vec::new()))
    }

    /// Passes the events on while the recording is being read.
    pub(crate) fn sending(format: &'static str, stop: Stop, batches: SyncSender<Batch>) -> Builder {
        Builder::with_output(format, stop, Output::Sent(batches))
    }

    fn with_output(format: &'static str, stop: Stop, output: Output) -> Builder {
        Builder {
            meta: Meta { format: format.to_owned(), ..Meta::default() },
            names: Names::default(),
            event_counts: BTreeMap::new(),
            losses: Tally::default(),
            symbols: Kallsyms::default(),
            functions: HashMap::new(),
            read_bytes: 0,
            told_bytes: 0,
            hrtimers: Hrtimers::default(),
            pending: Vec::new(),
            pending_max: HEAD_EVENTS,
            pending_most: usize::MAX,
            is_over_memory: false,
            unpacked_bytes: 0,
            settled_ns: 0,
            passed_ns: 0,
            comms: CommCache::default(),
            wakeups: 0,
            has_wakings: false,
            carries: Carries::default(),
            cpu_count: 0,
            window: None,
            gaps: Gaps::default(),
            names_sent: 0,
            output,
            stop,
        }
    }

    /// The number of events that are held back.
    pub(crate) fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Ends the reading where the events and these unpacked bytes would take more memory.
    pub(crate) fn bounded(mut self, unpacked_bytes: u64, max_bytes: u64) -> Builder {
        let room_bytes = max_bytes.saturating_sub(unpacked_bytes);
        self.pending_most = (room_bytes / EVENT_HELD_BYTES) as usize;
        self.unpacked_bytes = unpacked_bytes;
        self
    }

    /// True if the reading ended for want of memory.
    pub(crate) fn is_over_memory(&self) -> bool {
        self.is_over_memory
    }

    #[cold]
    fn stop_over_memory(&mut self) {
        self.is_over_memory = true;
        self.stop.set();
    }

    /// True while no event was taken in.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.window.is_none()
    }

    /// True if nobody wants the rest. Readers look each time they have read some more.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_set()
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
        if time_ns < self.passed_ns {
            return self.lose(&loss::OUT_OF_ORDER, 1);
        }
        if self.pending.len() >= self.pending_most {
            return self.stop_over_memory();
        }
        self.pending.push(Event { time: Instant(time_ns as i64), cpu: CpuId(cpu), kind });
    }

    /// Says that no event before `time_ns` will follow, on any CPU. Readers of formats that are
    /// in order, or that mark such moments, call it now and then; what they know of clock and
    /// symbols they have to say before.
    #[inline]
    pub(crate) fn settle(&mut self, time_ns: u64) {
        self.settled_ns = self.settled_ns.max(time_ns);
        if self.is_full() {
            self.pass_settled();
        }
    }

    /// So much more of the file has been read.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.read_bytes = self.read_bytes.saturating_add(bytes);
        if self.read_bytes.saturating_sub(self.told_bytes) >= STEP_BYTES as u64 {
            self.send(Vec::new());
        }
    }

    /// True if the next moment that is settled passes events on.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= self.pending_max
    }

    #[cold]
    fn pass_settled(&mut self) {
        sort(&mut self.pending);
        let settled = Instant(self.settled_ns.min(i64::MAX as u64) as i64);
        let count = self.pending.partition_point(|event| event.time < settled);
        // As many again before the next try, so that what cannot be passed on is not sorted
        // over and over.
        self.pending_max =
            self.pending.len().saturating_sub(count).saturating_mul(2).max(BATCH_EVENTS);
        if count > 0 {
            self.passed_ns = self.settled_ns;
            let mut rest =
                Vec::with_capacity(self.pending_max.saturating_add(self.pending_max / 4));
            rest.extend(self.pending.drain(count..));
            let batch = std::mem::replace(&mut self.pending, rest);
            self.pass(batch);
        }
    }

    /// Completes what the reader could not know of an event alone, and passes the events on.
    fn pass(&mut self, mut events: Vec<Event>) {
        let cut = self.gaps.cut(&mut events);
        self.lose(&loss::IMPLAUSIBLE_GAP, cut);
        self.resolve_functions(&mut events);
        if let (Some(first), Some(last)) = (events.first(), events.last()) {
            self.window = Some((self.window.map_or(first.time, |(start, _)| start), last.time));
        }
        let mut hrtimers = 0u64;
        for event in &events {
            hrtimers = hrtimers.saturating_add(is_hrtimer(&event.kind).into());
            match event.kind {
                EventKind::SchedWaking { .. } => self.has_wakings = true,
                EventKind::SchedWakeup { .. } => self.wakeups = self.wakeups.saturating_add(1),
                _ => {}
            }
            let target = target_of(&event.kind).unwrap_or(event.cpu);
            self.cpu_count = self.cpu_count.max(event.cpu.max(target).0.saturating_add(1));
            note(&mut self.carries, &event.kind);
        }
        if hrtimers > 0 {
            let clock = &mut self.meta.clock;
            self.hrtimers.align(&mut events, hrtimers, clock, &mut self.losses);
        }
        if let Output::Kept(_) = &self.output {
            self.pending_most = self.pending_most.saturating_sub(events.len());
        }
        match &mut self.output {
            Output::Kept(kept) if kept.is_empty() => *kept = events,
            Output::Kept(kept) => kept.append(&mut events),
            Output::Sent(_) => self.send(events),
        }
    }

    fn send(&mut self, events: Vec<Event>) {
        let (carries, cpu_count, read_bytes) = (self.carries, self.cpu_count(), self.read_bytes);
        self.told_bytes = read_bytes;
        if let Output::Sent(batches) = &self.output {
            let names = self.names.since(self.names_sent);
            self.names_sent = self.names_sent.saturating_add(names.len());
            // It fails if nobody listens any more; the rest is read for its summary.
            let _ = batches.send(Batch {
                events,
                names,
                carries,
                cpu_count,
                read_bytes,
                unpacked_bytes: self.unpacked_bytes,
            });
        }
    }

    /// As many as were seen, or as the file says it has.
    fn cpu_count(&self) -> u32 {
        self.meta.cpu_count.min(CPUS_MAX).max(self.cpu_count)
    }

    /// A task's name or an interrupt's: there are few of them.
    #[inline]
    pub(crate) fn comm(&mut self, comm: &[u8]) -> Name {
        self.comms.intern(comm, &mut self.names)
    }

    /// Says what the trace's clock is minus `CLOCK_MONOTONIC`, in which the kernel keeps hrtimers.
    /// Where it is not said before events are passed on, it is estimated.
    pub(crate) fn align_hrtimers(&mut self, offset_ns: Option<i64>) {
        self.hrtimers.known_offset_ns = offset_ns;
    }

    /// Gives every timer function its name.
    fn resolve_functions(&mut self, events: &mut [Event]) {
        if self.functions.is_empty() && self.symbols.is_empty() {
            return;
        }
        for event in events {
            if let Some(function) = function_of(&mut event.kind) {
                function.symbol = *self.functions.entry(function.address).or_insert_with(|| {
                    let symbol = self.symbols.symbol(function.address)?;
                    Some(self.names.intern(symbol))
                });
            }
        }
    }

    /// Returns the recording. Events that were passed on are not in it.
    pub(crate) fn finish(mut self) -> Trace {
        let mut rest = std::mem::take(&mut self.pending);
        sort(&mut rest);
        self.pass(rest);
        if !self.has_wakings && self.wakeups > 0 {
            self.lose(&loss::WAKEUPS_FOR_WAKINGS, self.wakeups);
        }
        self.meta.cpu_count = self.cpu_count();
        Trace {
            meta: self.meta,
            events: match self.output {
                Output::Kept(events) => events,
                Output::Sent(_) => Vec::new(),
            },
            window: self.window,
            names: self.names,
            carries: self.carries,
            event_counts: self.event_counts,
            losses: self.losses.into_losses(),
        }
    }
}

/// Bits of a sort key for an event's CPU and for its place among the events.
const CPU_BITS: u32 = 16;
const PLACE_BITS: u32 = 48;
const _: () = assert!(CPUS_MAX <= 1 << CPU_BITS);

/// Orders by time, then CPU, then place in the file: a file's order of events on different CPUs at
/// one time depends on the tool that wrote it. The buffers of CPUs leave many short runs behind,
/// and an event is large: so keys are sorted, and then each event moves once.
fn sort(events: &mut [Event]) {
    if events.is_sorted_by_key(|event| (event.time, event.cpu)) {
        return;
    }
    let key = |(place, event): (usize, &Event)| {
        (event.time.0 as u128) << (CPU_BITS + PLACE_BITS)
            | u128::from(event.cpu.0) << PLACE_BITS
            | place as u128
    };
    let mut keys: Vec<u128> = events.iter().enumerate().map(key).collect();
    keys.sort_unstable();
    let place_of = |key: u128| (key & ((1 << PLACE_BITS) - 1)) as usize;
    for place in 0..events.len() {
        // The event that was here may have been swapped to where an earlier one came from.
        let mut from = place_of(keys[place]);
        while from < place {
            from = place_of(keys[from]);
        }
        keys[place] = from as u128;
        events.swap(place, from);
    }
}

/// The other CPU an event names.
#[inline]
fn target_of(kind: &EventKind) -> Option<CpuId> {
    match kind {
        EventKind::SchedWaking { target_cpu, .. }
        | EventKind::SchedWakeup { target_cpu, .. }
        | EventKind::SchedWakeupNew { target_cpu, .. }
        | EventKind::IpiSend { target_cpu, .. } => Some(*target_cpu),
        _ => None,
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
        EventKind::SchedWaking { .. } | EventKind::SchedWakeup { .. } => carries.wakings = true,
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
        EventKind::SchedWakeupNew { .. }
        | EventKind::BlockedReason { .. }
        | EventKind::Marker { .. } => {}
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
