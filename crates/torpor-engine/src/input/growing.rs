// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Inputs of a replay while the recording grows: spans leave as soon as nothing changes them.
//!
//! One pass instead of two: a span's start is known at once, so its task information is noted
//! while the events pass, and waits for its end.
//!
//! FIDELITY(growing-recording): what a replay learns from the whole recording (tick, kinds of
//! events, timers armed before, whether RCU holds the tick, the highest frequency) is learned from
//! its head. A wait for IO that is not over after [`WAIT_MAX`] counts by what is known then, and a
//! timer that is inferred from the task it wakes is searched for [`TIMER_MAX`].

use super::draft::Draft;
use super::tasks::Counter;
use super::util::Tracker;
use super::{CpuIndex, CpuInput, CutSleeps, InputStats, Recording, SleepSource, Span, TickGrid};
use crate::timeline::Folding;
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_trace::{Event, EventKind, SoFar, Trace};

/// Longest wait for IO that spans are held for.
const WAIT_MAX: Duration = Duration(1_000_000_000);
/// Longest time to an inferred timer that spans are held for.
const TIMER_MAX: Duration = Duration(10_000_000_000);

/// Turns the events of a growing recording into spans.
pub(crate) struct Growing {
    draft: Folding<Draft>,
    counter: Counter,
    tracker: Tracker,
    /// Spans that have begun, in order, with what the tasks add to them; by CPU number.
    begun: Vec<CpuInput>,
    /// The first of them, complete.
    complete: Vec<Vec<Span>>,
    clears_rcu: bool,
    /// Time of the last event.
    now: Instant,
}

impl Growing {
    /// Starts with a recording's head. `machine` is that of a [`Follower`](super::Follower).
    pub(crate) fn new(
        head: &[Event],
        so_far: &SoFar<'_>,
        recorded_on: Option<&Platform>,
        machine: impl Fn(CpuId) -> (u32, Option<u32>),
    ) -> Growing {
        let mut draft = Folding::new(Draft::new(recorded_on));
        draft.observe(head, so_far);
        draft.fold.draw();
        let cpus = 0..so_far.cpu_count;
        let input =
            |number| CpuInput { cpu: CpuId(number), spans: Vec::new(), cut: Default::default() };
        let begun: Vec<CpuInput> = cpus.map(input).collect();
        let recording = Recording { cpus: begun, ..Recording::default() };
        let index = CpuIndex::new(&recording, so_far.cpu_count);
        let trace = described(head, so_far);
        let mut growing = Growing {
            counter: Counter::new(index.clone(), &trace, draft.fold.tick()),
            tracker: Tracker::new(index, &trace, draft.fold.freq_max_khz(), machine),
            complete: vec![Vec::new(); recording.cpus.len()],
            begun: recording.cpus,
            clears_rcu: draft.fold.is_rcu_wrong(),
            draft,
            now: Instant(i64::MIN),
        };
        growing.follow(head);
        growing
    }

    pub(crate) fn tick(&self) -> Option<TickGrid> {
        self.draft.fold.tick()
    }

    pub(crate) fn freq_max_khz(&self) -> &[u32] {
        self.draft.fold.freq_max_khz()
    }

    /// Returns the counters so far.
    pub(crate) fn stats(&self) -> &InputStats {
        self.draft.fold.stats()
    }

    /// Returns the CPU's sleep at the recording's beginning.
    pub(crate) fn cut_at_start(&self, number: usize) -> CutSleeps {
        CutSleeps { from: None, ..self.draft.fold.input(number, Vec::new()).cut }
    }

    #[cfg(test)]
    pub(crate) fn held_spans(&self) -> usize {
        self.complete.iter().map(Vec::len).sum::<usize>()
            + self.begun.iter().map(|begun| begun.spans.len()).sum::<usize>()
    }

    pub(crate) fn cpu_count(&self) -> usize {
        self.begun.len()
    }

    /// Takes the next events, in order of time.
    pub(crate) fn push(&mut self, events: &[Event], so_far: &SoFar<'_>) {
        // A CPU that the head does not know has no place, and its spans would stay.
        let so_far = SoFar { cpu_count: self.begun.len() as u32, ..*so_far };
        self.draft.observe(events, &so_far);
        self.draft.fold.draw();
        self.follow(events);
    }

    /// Follows the tasks, after the spans.
    fn follow(&mut self, events: &[Event]) {
        self.collect();
        self.counter.observe(events, &mut self.begun);
        self.tracker.observe(events, &mut self.begun);
        self.now = events.last().map_or(self.now, |event| event.time);
        let before = self.now - WAIT_MAX;
        self.counter.split_waits(before, self.now, &mut self.begun);
    }

    /// Notes the spans that have begun, and those that are complete.
    fn collect(&mut self) {
        for (number, begun) in self.begun.iter_mut().enumerate() {
            let complete = &mut self.complete[number];
            let mut spans = self.draft.fold.take_spans(number);
            if self.clears_rcu {
                spans.iter_mut().for_each(|span| span.rcu_holds_tick = false);
            }
            complete.append(&mut spans);
            let known = begun.spans.len();
            if let Some(more) = complete.get(known..) {
                begun.spans.extend_from_slice(more);
            }
            if begun.spans.len() == complete.len() {
                let sleep = self.draft.timeline.sleep(CpuId(number as u32));
                let open = self.draft.fold.open_start(number, sleep.map(|sleep| sleep.entry));
                begun.spans.extend(open.map(Span::begun));
            }
        }
    }

    /// Takes the CPU's spans that nothing changes any more; after the end, all.
    pub(crate) fn release(&mut self, number: usize) -> Vec<Span> {
        let waits_since = self.counter.waits_since(CpuId(number as u32));
        let complete = &self.complete[number];
        let passed = self.tracker.passed(number).min(self.counter.passed(number));
        let settled = complete.partition_point(|span| span.start < waits_since);
        let mut count = settled.min(passed).min(complete.len());
        count = self.infer(number, count, self.now - TIMER_MAX);
        self.take(number, count)
    }

    /// Sets the inferred timers of the CPU's first `count` spans, up to an unknown one whose start
    /// is after `given_up`. Returns the number of those that are known.
    fn infer(&mut self, number: usize, count: usize, given_up: Instant) -> usize {
        let Some(timers) = self.draft.fold.inferred() else { return count };
        for (index, span) in self.complete[number][..count].iter_mut().enumerate() {
            match timers.next_after(CpuId(number as u32), span.start) {
                Some(expires) => {
                    (span.next_hrtimer, span.source) = (expires, SleepSource::WakingTimer);
                }
                None if span.start > given_up => return index,
                None => (span.next_hrtimer, span.source) = (Instant::NEVER, SleepSource::TickOnly),
            }
        }
        count
    }

    fn take(&mut self, number: usize, count: usize) -> Vec<Span> {
        let begun = self.begun[number].spans.drain(..count);
        let spans = self.complete[number].drain(..count).zip(begun);
        let spans = spans.map(|(span, begun)| {
            debug_assert_eq!(span.start, begun.start, "the start was known");
            let Span { util, nr_iowait, nr_running, .. } = begun;
            Span { util, nr_iowait, nr_running, ..span }
        });
        let spans = spans.collect();
        self.tracker.drop_spans(number, count);
        self.counter.drop_spans(number, count);
        spans
    }

    /// Ends the recording. Returns the CPUs' last spans, and the sleeps at its edges.
    pub(crate) fn finish(&mut self) -> Vec<CpuInput> {
        self.draft.end();
        self.collect();
        for (begun, complete) in self.begun.iter_mut().zip(&self.complete) {
            // The last one is cut.
            begun.spans.truncate(complete.len());
        }
        self.counter.finish(&mut self.begun);
        self.tracker.finish(&mut self.begun);
        let inputs = (0..self.begun.len()).map(|number| {
            let count = self.complete[number].len();
            self.infer(number, count, Instant::NEVER);
            let spans = self.take(number, count);
            self.draft.fold.input(number, spans)
        });
        inputs.collect()
    }
}

/// Describes a recording's head to those that follow tasks.
fn described(head: &[Event], so_far: &SoFar<'_>) -> Trace {
    let window = head.first().zip(head.last()).map(|(first, last)| (first.time, last.time));
    let is_reason = |event: &&Event| matches!(event.kind, EventKind::BlockedReason { .. });
    let reasons = head.iter().filter(is_reason).count() as u64;
    let mut trace = Trace { window, carries: so_far.carries, ..Trace::default() };
    trace.meta.cpu_count = so_far.cpu_count;
    if reasons > 0 {
        trace.event_counts.insert("sched_blocked_reason".to_owned(), reasons);
    }
    trace
}
