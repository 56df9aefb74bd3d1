// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Turns recorded sleeps into spans: decides which wake-ups would have come under any governor, and
//! when.

use super::segment::Segment;
use super::tick::{TICK_WAKE_WINDOW, TickGrid};
use super::{InputStats, SleepSource, Span, WakeStamp};
use torpor_machine::platform::{IdleState, Platform};
use torpor_machine::units::{CpuId, Hz, Instant};
use torpor_trace::Carries;

/// Cause of a recorded sleep's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    /// An event that comes under any governor.
    Event,
    /// The recorded governor kept the tick, and the tick did nothing but wake the CPU.
    Tick,
    /// The recorded governor polled until its limit.
    PollTimeout,
}

/// Information that the recording contains.
pub(super) struct Evidence {
    pub carries: Carries,
    pub tick: Option<TickGrid>,
    pub recorded_on: Option<Platform>,
}

/// Joins a CPU's sleeps that only a tick or a poll time-out separated.
pub(super) struct Joiner {
    /// The first sleep of the next span.
    first: Option<Segment>,
    /// Interrupts nest and stamps race by some ns; spans must not.
    busy_until: Instant,
    pub spans: Vec<Span>,
}

impl Default for Joiner {
    fn default() -> Joiner {
        Joiner { first: None, busy_until: Instant(i64::MIN), spans: Vec::new() }
    }
}

impl Joiner {
    /// Takes the CPU's next sleep.
    pub(super) fn join(
        &mut self,
        cpu: CpuId,
        segment: Segment,
        evidence: &Evidence,
        stats: &mut InputStats,
    ) {
        let wake = evidence.wake(cpu, &segment);
        if segment.seen.rcu_holds_tick {
            stats.rcu_held_ticks += u64::from(wake == Wake::Tick);
            stats.rcu_stopped_ticks += u64::from(evidence.outlasts_tick(&segment));
        }
        match wake {
            Wake::Tick => stats.merged_ticks += 1,
            Wake::PollTimeout => stats.merged_poll_timeouts += 1,
            Wake::Event => {
                let opening = self.first.take();
                let span = self.span(cpu, opening.as_ref().unwrap_or(&segment), &segment, evidence);
                *stats.stamps.entry(span.stamp.key()).or_default() += 1;
                stats.event_to_exit.add(&span);
                return self.spans.push(span);
            }
        }
        self.first.get_or_insert(segment);
    }

    /// Returns the start of the span that the recording's end cuts.
    pub(super) fn open_since(&self) -> Option<Instant> {
        self.first.as_ref().map(|segment| segment.sleep.entry)
    }

    /// Returns `enter`, or the end of the span before if that is later.
    pub(super) fn not_before(&self, enter: Instant) -> Instant {
        enter.max(self.busy_until)
    }

    fn span(&mut self, cpu: CpuId, opening: &Segment, last: &Segment, evidence: &Evidence) -> Span {
        let (wake, stamp) = evidence.moment(cpu, last);
        let start = self.not_before(opening.sleep.entry);
        let resume = last.exit.max(start);
        self.busy_until = resume;
        Span {
            start,
            wake: wake.clamp(start, resume),
            resume,
            next_hrtimer: opening.seen.next_hrtimer,
            next_wheel: opening.seen.next_wheel,
            freq_khz: opening.seen.freq_khz,
            opp: 0,
            util: 0,
            source: SleepSource::TimerEvents,
            stamp,
            ends_visit: last.sleep.ran.is_some() || !evidence.carries.switches,
            is_resched: (last.sleep.ran.is_some() || last.has_resched_ipi())
                && last.resched().is_some_and(|at| at <= wake),
            nr_iowait: 0,
            nr_running: 0,
            rcu_holds_tick: opening.seen.rcu_holds_tick && !evidence.outlasts_tick(opening),
        }
    }
}

impl Evidence {
    /// Returns true if the sleep is longer than a tick, so the tick was stopped.
    fn outlasts_tick(&self, segment: &Segment) -> bool {
        let tick = self.tick.map_or(Hz::H100, |grid| grid.hz).tick();
        segment.exit.since(segment.sleep.entry) > tick + TICK_WAKE_WINDOW
    }

    fn wake(&self, cpu: CpuId, segment: &Segment) -> Wake {
        let caused = segment.remote_waking().is_some()
            || segment.seen.local_waking
            || segment.seen.timer_expired.is_some()
            || segment.seen.device_interrupt
            || segment.seen.ipi;
        if segment.sleep.ran.is_some() || caused {
            return Wake::Event;
        }
        if segment.seen.tick_expired {
            return Wake::Tick;
        }
        if self.state(cpu, segment).is_some_and(IdleState::is_polling) {
            return Wake::PollTimeout;
        }
        // Nothing visible ended it. Timer events would have shown a tick; without them only the
        // time of the exit indicates one.
        let on_tick = !self.carries.hrtimers
            && self.tick.is_some_and(|grid| {
                segment.exit.since(grid.floor(segment.exit)) <= TICK_WAKE_WINDOW
                    && grid.floor(segment.exit) > segment.sleep.entry
            });
        if on_tick { Wake::Tick } else { Wake::Event }
    }

    /// Returns the time of the event that caused a wake-up, and its source.
    fn moment(&self, cpu: CpuId, segment: &Segment) -> (Instant, WakeStamp) {
        let asleep = |t: &Instant| segment.sleep.entry <= *t && *t <= segment.exit;
        if let Some(at) = segment.remote_waking().filter(asleep) {
            let at = segment.seen.timer_expired.filter(asleep).map_or(at, |timer| timer.min(at));
            return (at, WakeStamp::WakingEvent);
        }
        if let Some(at) = segment.seen.timer_expired.filter(asleep) {
            return (at, WakeStamp::TimerExpiry);
        }
        if let Some(at) = segment.seen.first_interrupt.filter(asleep) {
            return (at, WakeStamp::InterruptEvent);
        }
        let paid = self
            .state(cpu, segment)
            .map_or(torpor_machine::units::Duration::ZERO, |s| s.exit_latency);
        (segment.exit - paid, WakeStamp::ExitStamp)
    }

    fn state(&self, cpu: CpuId, segment: &Segment) -> Option<&IdleState> {
        let platform = self.recorded_on.as_ref()?;
        let cluster = platform.cluster_of(cpu)?;
        platform.clusters[cluster].idle_states.get(segment.sleep.state.index()?)
    }
}
