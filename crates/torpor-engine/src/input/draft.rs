// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reconstructs a recording's spans while its events pass: memory holds the spans, not the events.

use super::infer::InferredTimers;
use super::segment::Collector;
use super::spans::{Evidence, Joiner};
use super::tick::{self, TickGrid};
use super::{CpuInput, InputStats, Recording, SleepSource, Span, WakeStamp};
use crate::timeline::{Fold, Moment, Timeline};
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Instant};
use torpor_trace::{Carries, Event, SoFar};

/// Builds a [`Recording`] from a timeline, without its task information.
///
/// FIDELITY(recording-head): the tick, the kinds of events and the timers armed before the
/// recording began are learned from the first part, which must be long enough, and hold for all.
pub struct Draft {
    recorded_on: Option<Platform>,
    reading: Option<Reading>,
    /// By CPU number.
    joiners: Vec<Joiner>,
    freq_max_khz: Vec<u32>,
    stats: InputStats,
}

/// Findings of the first part.
struct Reading {
    collector: Collector,
    carries: Carries,
    /// From the tick's own timer, or the softirq that it raises.
    exact_tick: Option<TickGrid>,
    /// Complete with the sleeps of the first part.
    evidence: Option<Evidence>,
}

impl Draft {
    /// Starts a draft. `recorded_on` is the machine of the recording, if known: its exit latencies
    /// turn `cpu_idle` exit stamps into the times of the wake-up events.
    pub fn new(recorded_on: Option<&Platform>) -> Draft {
        let stamps = WakeStamp::ALL.map(|stamp| (stamp.key(), 0)).into();
        Draft {
            recorded_on: recorded_on.cloned(),
            reading: None,
            joiners: Vec::new(),
            freq_max_khz: Vec::new(),
            stats: InputStats { stamps, ..InputStats::default() },
        }
    }

    /// Returns the recording, which has ended.
    pub fn finish(mut self) -> Recording {
        self.infer_timers();
        self.judge_rcu();
        let taken = self.joiners.iter_mut().map(|joiner| std::mem::take(&mut joiner.spans));
        let spans: Vec<Vec<Span>> = taken.collect();
        let inputs = spans.into_iter().enumerate();
        let inputs = inputs.map(|(number, spans)| self.input(number, spans));
        Recording {
            cpus: inputs.filter(|input| !input.spans.is_empty()).collect(),
            tick: self.tick(),
            freq_max_khz: std::mem::take(&mut self.freq_max_khz),
            stats: self.stats,
        }
    }

    /// Returns the CPU's inputs, given its spans, once the recording has ended.
    pub(super) fn input(&self, number: usize, spans: Vec<Span>) -> CpuInput {
        let mut cut = self
            .reading
            .as_ref()
            .map_or_else(Default::default, |reading| reading.collector.cut(number));
        cut.from = self.joiners.get(number).and_then(Joiner::open_since).or(cut.from);
        CpuInput { cpu: CpuId(number as u32), spans, cut }
    }

    /// Returns the recorded tick, once sleeps became spans.
    pub(super) fn tick(&self) -> Option<TickGrid> {
        self.reading.as_ref()?.evidence.as_ref()?.tick
    }

    /// Takes the CPU's spans so far out.
    pub(super) fn take_spans(&mut self, number: usize) -> Vec<Span> {
        let joiner = self.joiners.get_mut(number);
        joiner.map_or_else(Vec::new, |joiner| std::mem::take(&mut joiner.spans))
    }

    /// Returns the start of the span that the CPU is in, or whose end is not known yet, given the
    /// beginning of a sleep that is not settled. All earlier ones are complete.
    pub(super) fn open_start(&self, number: usize, entry: Option<Instant>) -> Option<Instant> {
        let joiner = self.joiners.get(number);
        let entry = joiner.and_then(Joiner::open_since).or(entry)?;
        Some(joiner.map_or(entry, |joiner| joiner.not_before(entry)))
    }

    pub(super) fn stats(&self) -> &InputStats {
        &self.stats
    }

    pub(super) fn freq_max_khz(&self) -> &[u32] {
        &self.freq_max_khz
    }

    /// Returns the timers to infer, for recordings without timer events.
    pub(super) fn inferred(&mut self) -> Option<&mut InferredTimers> {
        self.reading.as_mut()?.collector.inferred_mut()
    }

    /// Returns true if the recorded kernel stopped the tick more often than it kept it for RCU.
    pub(super) fn is_rcu_wrong(&self) -> bool {
        self.stats.rcu_stopped_ticks > self.stats.rcu_held_ticks
    }

    /// Turns complete sleeps into spans.
    pub(super) fn draw(&mut self) {
        let Some(Reading { collector, carries, exact_tick, evidence }) = &mut self.reading else {
            return;
        };
        let evidence = evidence.get_or_insert_with(|| Evidence {
            carries: *carries,
            tick: exact_tick.or_else(|| tick::grid_from_wakeups(collector.taskless_exits())),
            recorded_on: self.recorded_on.clone(),
        });
        for (number, segment) in collector.take_done() {
            if number >= self.joiners.len() {
                self.joiners.resize_with(number + 1, Joiner::default);
            }
            self.joiners[number].join(CpuId(number as u32), segment, evidence, &mut self.stats);
        }
    }

    /// Clears `rcu_holds_tick` if the recorded kernel stopped the tick more often than it kept it.
    fn judge_rcu(&mut self) {
        if self.is_rcu_wrong() {
            for span in self.joiners.iter_mut().flat_map(|joiner| &mut joiner.spans) {
                span.rcu_holds_tick = false;
            }
        }
    }

    /// Infers timers from the tasks they woke, for recordings without timer events.
    fn infer_timers(&mut self) {
        let Some(timers) = self.reading.as_ref().and_then(|r| r.collector.inferred()) else {
            return;
        };
        for (joiner, number) in self.joiners.iter_mut().zip(0..) {
            let mut timers = timers.on(CpuId(number));
            for span in &mut joiner.spans {
                span.next_hrtimer = timers.next_at(span.start);
                span.source = match span.next_hrtimer {
                    Instant::NEVER => SleepSource::TickOnly,
                    _ => SleepSource::WakingTimer,
                };
            }
        }
    }
}

impl Fold for Draft {
    fn part(&mut self, events: &[Event], so_far: &SoFar<'_>) {
        // A recording in one part becomes spans only after all of it was read.
        self.draw();
        super::note_frequencies(&mut self.freq_max_khz, events, so_far.cpu_count);
        let reading = self.reading.get_or_insert_with(|| Reading::new(events, so_far));
        reading.collector.part(events, so_far);
    }

    fn take(&mut self, moment: &Moment<'_>) {
        if let Some(reading) = &mut self.reading {
            reading.collector.take(moment);
        }
    }

    /// Turns the last sleeps into spans, and counts those that the end cuts.
    fn end(&mut self, timeline: &Timeline) {
        if let Some(reading) = &mut self.reading {
            reading.collector.end(timeline);
        }
        self.draw();
        if let Some(Reading { collector, .. }) = &self.reading {
            self.stats.unclosed_entries = collector.unclosed_entries;
            self.stats.cut_sleeps = collector.cut_sleeps;
        }
        self.stats.cut_sleeps += self.joiners.iter().filter_map(Joiner::open_since).count() as u64;
    }

    /// Returns the memory of the spans so far.
    fn held_bytes(&self) -> u64 {
        let spans: usize = self.joiners.iter().map(|joiner| joiner.spans.capacity()).sum();
        spans.saturating_mul(size_of::<Span>()) as u64
    }
}

impl Reading {
    fn new(head: &[Event], so_far: &SoFar<'_>) -> Self {
        let tick_function = tick::tick_function(head, so_far);
        Reading {
            collector: Collector::new(head, so_far.carries, tick_function.as_ref()),
            carries: so_far.carries,
            exact_tick: tick_function
                .map(|function| function.grid)
                .or_else(|| tick::grid_from_softirqs(head)),
            evidence: None,
        }
    }
}
