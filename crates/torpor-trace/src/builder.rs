// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Collects the events of a reader: checks ranges, interns names, sorts, and passes batches on.
//!
//! Recorders write a buffer per CPU, so events arrive nearly sorted: one of CPU 1 at 5 ms may
//! follow one of CPU 0 at 7 ms. The builder holds events back until the reader says that no
//! earlier one can come (`settled_ns`), sorts them by (time, CPU, sequence), and passes them on:
//!
//! ```text
//! reader: 0:1ms 0:7ms 1:5ms, settled at 5ms     pending: 0:7ms     passed: 0:1ms 1:5ms
//! ```
//!
//! The first batch is the *head*, up to a million events: what holds for a whole recording (the
//! clock of its timers, names of timer functions) is estimated from it before anybody sees an
//! event. Later batches are smaller. With `Output::Kept` there is one batch, the recording.

use crate::bytes::STEP_BYTES;
use crate::cursor::ends;
use crate::gap::Gaps;
use crate::hrtimers::{Hrtimers, is_hrtimer};
use crate::huge;
use crate::kallsyms::Kallsyms;
use crate::loss::{self, LossKind, Tally};
use crate::model::{
    Carries, Event, EventKind, InterruptCause, Meta, Name, Names, NamesCount, NewNames, Trace,
};
use crate::stop::Stop;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::SyncSender;
use torpor_machine::units::{CpuId, Instant};

/// The largest `CONFIG_NR_CPUS` of any architecture.
pub(crate) const CPUS_MAX: u32 = 8192;

/// Events held back before the first batch. Properties of a whole recording, such as the clock of
/// its timers, are estimated from them; a shorter recording is one batch.
const HEAD_EVENTS: usize = 1 << 20;
/// Events from which memory is taken for all of the head.
const LONG_EVENTS: usize = 1 << 17;
/// Events of each later batch.
const BATCH_EVENTS: usize = 1 << 16;

/// The head of a recording that is read while it grows: as many events, or as much time. It is
/// shorter than [`HEAD_EVENTS`], as its events are held in memory, and somebody waits for it.
const LIVE_HEAD_EVENTS: usize = 1 << 17;
const LIVE_HEAD_NS: u64 = 10_000_000_000;
/// Time from one of its later batches to the next.
const LIVE_STEP_NS: u64 = 100_000_000;

/// Events in order of time, all later than those of the batch before. A batch without events
/// reports progress.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Batch {
    /// The cache has them apart.
    #[serde(skip)]
    pub events: Vec<Event>,
    /// Names that earlier batches lack.
    pub names: NewNames,
    /// Kinds of events up to this batch, and the CPUs they name.
    pub carries: Carries,
    pub cpu_count: u32,
    /// The recorded machine's name, once it was read.
    pub machine: Option<String>,
    /// Events so far that the recorder could not keep.
    pub lost_events: u64,
    /// Bytes of the file that have been read.
    pub read_bytes: u64,
    /// Bytes of the recording that are in memory until the end.
    #[serde(skip)]
    pub held_bytes: u64,
}

/// Memory of an event: itself, its sort key, and its share of the segment and the span that a
/// replay builds from a sleep.
pub(crate) const EVENT_HELD_BYTES: u64 = 168;

/// Destination of batches.
#[derive(Debug)]
enum Output {
    Kept(Vec<Event>),
    Sent(SyncSender<Batch>),
    /// Kept until the reader's caller takes them.
    Waiting(Vec<Batch>),
}

#[derive(Debug)]
pub(crate) struct Builder {
    pub meta: Meta,
    pub names: Names,
    pub event_counts: BTreeMap<String, u64>,
    pub losses: Tally,
    /// Names of timer functions by address. If both are empty, the events' own names stay.
    pub symbols: Kallsyms,
    pub functions: HashMap<u64, Option<Name>>,
    /// Progress of the reader, and at the last report.
    read_bytes: u64,
    reported_bytes: u64,
    hrtimers: Hrtimers,
    /// Events that an earlier one may still follow.
    pending: Vec<Event>,
    /// Times of the pending events, by which they are sorted; none while they come in order.
    times: Vec<u64>,
    /// Time of the last event while they come in order.
    last_ns: u64,
    /// Number of pending events up to which none needs memory.
    pending_room: usize,
    /// Number of pending events from which settled ones are passed on: first, and at least later.
    flush_at: usize,
    batch_events: usize,
    /// Number of pending events that fit in memory.
    pending_max: usize,
    is_over_memory: bool,
    held_bytes: u64,
    settled_ns: u64,
    /// Every event before this time was passed on.
    passed_ns: u64,
    comms: CommCache,
    /// Number of `sched_wakeup` events.
    wakeups: u64,
    has_wakings: bool,
    carries: Carries,
    cpu_count: u32,
    window: Option<(Instant, Instant)>,
    gaps: Gaps,
    names_sent: NamesCount,
    /// Number of functions whose symbols were looked up.
    resolved: usize,
    output: Output,
    stop: Stop,
    /// The recording grows while it is read: settled events are passed on after little time.
    is_live: bool,
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
            reported_bytes: 0,
            hrtimers: Hrtimers::default(),
            pending: Vec::new(),
            times: Vec::new(),
            last_ns: 0,
            pending_room: 0,
            flush_at: HEAD_EVENTS,
            batch_events: BATCH_EVENTS,
            pending_max: usize::MAX,
            is_over_memory: false,
            held_bytes: 0,
            settled_ns: 0,
            passed_ns: 0,
            comms: CommCache::default(),
            wakeups: 0,
            has_wakings: false,
            carries: Carries::default(),
            cpu_count: 0,
            window: None,
            gaps: Gaps::default(),
            names_sent: NamesCount::default(),
            resolved: 0,
            output,
            stop,
            is_live: false,
        }
    }

    /// Passes settled events on from this number of pending ones on, as in a long recording.
    #[cfg(test)]
    pub(crate) fn passing_at(self, count: usize) -> Builder {
        Builder { flush_at: count, batch_events: count, ..self }
    }

    /// Passes settled events on soon, for a recording that grows while it is read.
    pub(crate) fn live(format: &'static str) -> Builder {
        let out = Builder::with_output(format, Stop::default(), Output::Waiting(Vec::new()));
        Builder { flush_at: LIVE_HEAD_EVENTS, is_live: true, ..out }
    }

    /// Takes the batches passed on since the last call.
    pub(crate) fn take_passed(&mut self) -> Vec<Batch> {
        match &mut self.output {
            Output::Waiting(batches) => std::mem::take(batches),
            Output::Kept(_) | Output::Sent(_) => Vec::new(),
        }
    }

    /// The number of events that are held back.
    pub(crate) fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Limits the memory of the events and of the recording's own bytes; reading stops there.
    pub(crate) fn bounded(mut self, held_bytes: u64, max_bytes: u64) -> Builder {
        let room_bytes = max_bytes.saturating_sub(held_bytes);
        self.pending_max = (room_bytes / EVENT_HELD_BYTES) as usize;
        self.held_bytes = held_bytes;
        self
    }

    /// True if reading stopped at the memory limit.
    pub(crate) fn is_over_memory(&self) -> bool {
        self.is_over_memory
    }

    /// True if there was no event so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.window.is_none()
    }

    /// True if reading was cancelled. Readers poll it.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }

    pub(crate) fn lose(&mut self, kind: &'static LossKind, count: u64) {
        self.losses.add(kind, count);
    }

    /// Counts recorded events of this name, whether they become events of the model or not.
    pub(crate) fn count(&mut self, name: String, count: u64) {
        let sum = self.event_counts.entry(name).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Takes an event, or counts it as lost if its time or CPU is out of range.
    #[inline(always)]
    pub(crate) fn push(&mut self, time_ns: u64, cpu: u32, kind: EventKind) {
        if cpu >= CPUS_MAX || kind.target_cpu().is_some_and(|target| target.0 >= CPUS_MAX) {
            return self.lose(&loss::CPU_OUT_OF_RANGE, 1);
        }
        // i64::MAX is `Instant::NEVER`.
        if time_ns >= i64::MAX as u64 {
            return self.lose(&loss::TIME_OUT_OF_RANGE, 1);
        }
        if time_ns < self.passed_ns {
            return self.lose(&loss::OUT_OF_ORDER, 1);
        }
        if self.pending.len() >= self.pending_room && !self.has_more_room() {
            return;
        }
        if !self.times.is_empty() {
            self.times.push(time_ns);
        } else if time_ns >= self.last_ns {
            self.last_ns = time_ns;
        } else {
            self.note_times(time_ns);
        }
        self.pending.push(Event { time: Instant(time_ns as i64), cpu: CpuId(cpu), kind });
    }

    /// Notes the times of the pending events, which the next one precedes.
    #[cold]
    fn note_times(&mut self, next_ns: u64) {
        self.times.reserve(self.pending.capacity());
        self.times.extend(self.pending.iter().map(|event| event.time.0 as u64));
        self.times.push(next_ns);
    }

    /// Makes room for more events; false if memory allows none.
    #[cold]
    fn has_more_room(&mut self) -> bool {
        let count = self.pending.len();
        if count >= self.pending_max {
            self.is_over_memory = true;
            self.stop.set();
            return false;
        }
        // Room for the whole head at once; pages that no event needs stay unused.
        let wanted = if count < LONG_EVENTS { count.max(4) } else { count.max(HEAD_EVENTS) };
        self.pending.reserve(wanted);
        if count >= LONG_EVENTS {
            huge::advise(&mut self.pending);
        }
        self.pending_room = self.pending.capacity().min(self.pending_max);
        true
    }

    /// States that no event before `time_ns` will follow, on any CPU. Readers of formats that are
    /// in order, or that mark such moments, call it regularly, after setting clock and symbols.
    #[inline]
    pub(crate) fn settle(&mut self, time_ns: u64) {
        self.settled_ns = self.settled_ns.max(time_ns);
        if self.is_full() || self.is_live && self.is_due() {
            self.pass_settled();
        }
    }

    /// Returns true if events of a recording that grows have waited long enough.
    fn is_due(&self) -> bool {
        let first = || self.pending.first().map(|event| event.time.0 as u64);
        let (since, wait_ns) = match self.window {
            None => (first(), LIVE_HEAD_NS),
            Some(_) => (Some(self.passed_ns), LIVE_STEP_NS),
        };
        since.is_some_and(|since| self.settled_ns.saturating_sub(since) >= wait_ns)
    }

    /// Returns the progress of the reader, in bytes.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Adds to the progress of the reader.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.read_bytes = self.read_bytes.saturating_add(bytes);
        if self.read_bytes.saturating_sub(self.reported_bytes) >= STEP_BYTES as u64 {
            self.send(Vec::new());
        }
    }

    /// True if the next [`settle`](Builder::settle) passes events on.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= self.flush_at
    }

    #[cold]
    fn pass_settled(&mut self) {
        sort(&mut self.pending, std::mem::take(&mut self.times));
        let settled = Instant(self.settled_ns.min(i64::MAX as u64) as i64);
        let count = self.pending.partition_point(|event| event.time < settled);
        // Doubling bounds how often unsettled events are sorted again.
        self.flush_at =
            self.pending.len().saturating_sub(count).saturating_mul(2).max(self.batch_events);
        if count > 0 {
            self.passed_ns = self.settled_ns;
            let mut rest = Vec::with_capacity(self.flush_at.saturating_add(self.flush_at / 4));
            rest.extend(self.pending.drain(count..));
            let batch = std::mem::replace(&mut self.pending, rest);
            self.pass(batch);
            self.pending_room = self.pending.capacity().min(self.pending_max);
        }
        self.last_ns = self.pending.last().map_or(0, |event| event.time.0 as u64);
    }

    /// Cuts gaps, names functions, aligns hrtimers, sums up, and passes the events on.
    fn pass(&mut self, mut events: Vec<Event>) {
        let cut = self.gaps.cut(&mut events);
        self.lose(&loss::IMPLAUSIBLE_GAP, cut);
        self.resolve_functions();
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
            let target = event.kind.target_cpu().unwrap_or(event.cpu);
            self.cpu_count = self.cpu_count.max(event.cpu.max(target).0.saturating_add(1));
            note(&mut self.carries, &event.kind);
        }
        if hrtimers > 0 {
            let clock = &mut self.meta.clock;
            self.hrtimers.align(&mut events, hrtimers, clock, &mut self.losses);
        }
        if let Output::Kept(_) = &self.output {
            self.pending_max = self.pending_max.saturating_sub(events.len());
        }
        match &mut self.output {
            Output::Kept(kept) if kept.is_empty() => *kept = events,
            Output::Kept(kept) => kept.append(&mut events),
            Output::Sent(_) | Output::Waiting(_) => self.send(events),
        }
    }

    fn send(&mut self, events: Vec<Event>) {
        let (carries, cpu_count, read_bytes) = (self.carries, self.cpu_count(), self.read_bytes);
        self.reported_bytes = read_bytes;
        let (lost_events, held_bytes) = (self.losses.lost_events(), self.held_bytes);
        let (has_events, machine) = (!events.is_empty(), self.meta.machine.clone());
        let batch = |names| Batch {
            events,
            names,
            carries,
            cpu_count,
            machine,
            lost_events,
            read_bytes,
            held_bytes,
        };
        match &mut self.output {
            Output::Sent(batches) => {
                let mut names = NewNames::default();
                // Functions of events that were not passed on may lack their symbols.
                if has_events {
                    names = self.names.since(self.names_sent);
                    self.names_sent = self.names.count();
                }
                // This fails if the receiver is gone; the rest is then read for its summary alone.
                let _ = batches.send(batch(names));
            }
            // Its caller sees the builder's names.
            Output::Waiting(batches) => batches.push(batch(NewNames::default())),
            Output::Kept(_) => {}
        }
    }

    /// Returns the number of CPUs that events or the file's header name.
    fn cpu_count(&self) -> u32 {
        self.meta.cpu_count.min(CPUS_MAX).max(self.cpu_count)
    }

    /// Interns the name of a task or an interrupt.
    #[inline]
    pub(crate) fn comm(&mut self, comm: &[u8]) -> Name {
        self.comms.intern(comm, &mut self.names)
    }

    /// Sets the offset of the trace's clock from `CLOCK_MONOTONIC`, the clock of hrtimers. Without
    /// it, the offset is estimated.
    pub(crate) fn align_hrtimers(&mut self, offset_ns: Option<i64>) {
        self.hrtimers.known_offset_ns = offset_ns;
    }

    /// Gives every timer function its name.
    fn resolve_functions(&mut self) {
        if self.functions.is_empty() && self.symbols.is_empty() {
            return;
        }
        let Builder { functions, symbols, names, resolved, .. } = self;
        *resolved = names.resolve(*resolved, |address, names| {
            *functions
                .entry(address)
                .or_insert_with(|| Some(names.intern(symbols.symbol(address)?)))
        });
    }

    /// Returns the recording, without the events that were sent.
    pub(crate) fn finish(mut self) -> Trace {
        let mut rest = std::mem::take(&mut self.pending);
        sort(&mut rest, std::mem::take(&mut self.times));
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
                Output::Waiting(batches) => {
                    batches.into_iter().flat_map(|batch| batch.events).collect()
                }
            },
            window: self.window,
            names: self.names,
            carries: self.carries,
            event_counts: self.event_counts,
            losses: self.losses.into_losses(),
        }
    }
}

/// Orders by time, then CPU, then place in the file: the order in which a file has simultaneous
/// events of different CPUs depends on the tool that wrote it. Events are large, so keys are sorted
/// and then each event moves once. `times` are those of the events, or none if the events are in
/// order of time.
fn sort(events: &mut [Event], mut times: Vec<u64>) {
    if times.is_empty() {
        if events.is_sorted_by_key(|event| (event.time, event.cpu)) {
            return;
        }
        times = events.iter().map(|event| event.time.0 as u64).collect();
    }
    let (mut keys, place_mask) = sorted_keys(events, times);
    for place in 0..events.len() {
        // An earlier swap may have moved the event that was here.
        let mut from = (keys[place] & place_mask) as usize;
        while from < place {
            from = (keys[from] & place_mask) as usize;
        }
        if from != place {
            keys[place] = from as u64;
            events.swap(place, from);
        }
    }
}

/// Returns keys in the order of their events, and the mask of an event's place in a key.
fn sorted_keys(events: &[Event], times: Vec<u64>) -> (Vec<u64>, u64) {
    let extremes = |(first, last): (u64, u64), time: &u64| (first.min(*time), last.max(*time));
    let (first, last) = times.iter().fold((u64::MAX, 0), extremes);
    let place_bits = u64::BITS.saturating_sub((events.len() as u64).leading_zeros());
    let mut keys = times;
    if last.saturating_sub(first).leading_zeros() < place_bits {
        // A damaged time is years away.
        keys.iter_mut().zip(0..).for_each(|(key, place)| *key = place);
        keys.sort_unstable_by_key(|&place| {
            let event = &events[place as usize];
            (event.time, event.cpu, place)
        });
        return (keys, u64::MAX);
    }
    for (key, place) in keys.iter_mut().zip(0..) {
        *key = key.wrapping_sub(first) << place_bits | place;
    }
    merge_runs(&mut keys);
    let mask = !(u64::MAX << place_bits);
    for simultaneous in keys.chunk_by_mut(|a, b| a >> place_bits == b >> place_bits) {
        if simultaneous.len() > 1 {
            simultaneous.sort_unstable_by_key(|key| (events[(key & mask) as usize].cpu, *key));
        }
    }
    (keys, mask)
}

/// Sorts keys that consist of runs in order: a recorder reads one CPU's buffer after the other, so
/// only neighbours overlap.
fn merge_runs(keys: &mut [u64]) {
    let mut end = 0_usize;
    let mut ends: Vec<usize> = Vec::new();
    for run in keys.chunk_by(|a, b| a < b) {
        end = end.saturating_add(run.len());
        ends.push(end);
    }
    let mut left = Vec::new();
    while ends.len() > 1 {
        let mut start = 0;
        let merge_pair = |pair: &[usize]| {
            let end = *pair.last()?;
            let run = keys.get_mut(start..end)?;
            merge(run, pair[0].saturating_sub(start), &mut left);
            start = end;
            Some(end)
        };
        ends = ends.chunks(2).filter_map(merge_pair).collect();
    }
}

/// Merges the two runs that meet at `middle`. Only the part in which they overlap moves.
fn merge(keys: &mut [u64], middle: usize, left: &mut Vec<u64>) {
    let (before, after) = keys.split_at(middle);
    let Some(&first) = after.first() else { return };
    let from = before.partition_point(|&key| key < first);
    left.clear();
    left.extend_from_slice(&before[from..]);
    let keys = &mut keys[from..];
    let (mut taken, mut right) = (0_usize, left.len());
    let mut place = 0_usize;
    // Ends as soon as one run does: what remains of the right one is in its place.
    while let (Some(&key), Some(&other)) = (left.get(taken), keys.get(right)) {
        let is_left = key < other;
        keys[place] = if is_left { key } else { other };
        taken = taken.wrapping_add(is_left.into());
        right = right.wrapping_add((!is_left).into());
        place = place.wrapping_add(1);
    }
    let rest = &left[taken..];
    keys[place..place.wrapping_add(rest.len())].copy_from_slice(rest);
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

/// Caches recent task names, so that most need no string hashing. A kernel task name has at most
/// 15 bytes.
#[derive(Debug)]
struct CommCache {
    slots: Box<[CachedComm; 256]>,
}

/// The ends and the length of a name.
type CachedComm = ((u64, u64), usize, Option<Name>);

impl Default for CommCache {
    fn default() -> CommCache {
        CommCache { slots: Box::new([((0, 0), 0, None); 256]) }
    }
}

impl CommCache {
    #[inline]
    fn intern(&mut self, comm: &[u8], names: &mut Names) -> Name {
        if comm.len() > 15 {
            return names.intern(&String::from_utf8_lossy(comm));
        }
        let (first, last) = ends(comm);
        let mixed = (first ^ last.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = &mut self.slots[(mixed >> 56) as usize];
        match *slot {
            (cached, length, Some(name)) if cached == (first, last) && length == comm.len() => {
                return name;
            }
            _ => {}
        }
        let name = names.intern(&String::from_utf8_lossy(comm));
        *slot = ((first, last), comm.len(), Some(name));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torpor_machine::units::StateIdx;

    /// Returns runs of events, most in order, with many at the same time; `spread_ns` is the longest
    /// step of a run.
    fn runs(seed: u64, count: u64, spread_ns: u64) -> Vec<Event> {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % below
        };
        let mut time = 0;
        let event = |place: u64| {
            time = if random(20) == 0 { random(spread_ns * 50) } else { time + random(spread_ns) };
            let kind = EventKind::CpuIdle { state: StateIdx(place as i32) };
            Event { time: Instant(time as i64), cpu: CpuId(random(4) as u32), kind }
        };
        (0..count).map(event).collect()
    }

    #[test]
    fn runs_are_merged_as_if_sorted() {
        for (count, spread_ns) in [(0, 1), (1, 1), (2, 1), (500, 1), (500, 3), (3_000, 900)] {
            for seed in 0..8 {
                let mut events = runs(seed, count, spread_ns);
                if seed == 7 && count > 2 {
                    // Too far from the others for a short key.
                    events[1].time = Instant(i64::MAX - 1);
                }
                let mut expected = events.clone();
                expected.sort_by_key(|event| (event.time, event.cpu));
                let times = events.iter().map(|event| event.time.0 as u64).collect();
                sort(&mut events, times);
                assert_eq!(events, expected, "{count} {spread_ns} {seed}");
            }
        }
    }

    #[test]
    fn names_of_tasks_keep_apart() {
        let mut out = Builder::new("test", Stop::default());
        let texts = ["", "a", "ab", "abc", "abb", "abcd", "abcde", "aaaaaaaa", "kworker/0:1", "x"];
        let long = ["kworker/u16:3-ev", "kworker/u16:2-ev", "a\0", "\0a", "\0", "a\0\0"];
        let all = || texts.iter().chain(&long);
        let names: Vec<Name> = all().map(|text| out.comm(text.as_bytes())).collect();
        for (text, name) in all().zip(names) {
            assert_eq!(out.comm(text.as_bytes()), name);
            assert_eq!(out.names.text(name), *text);
        }
    }
}
