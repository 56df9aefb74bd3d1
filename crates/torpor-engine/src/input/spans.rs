// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! From recorded sleeps to spans: which wake-ups would have come under any governor, and when.

use super::segment::{Collected, Segment};
use super::tick::{TICK_WAKE_WINDOW, TickGrid};
use super::{CpuInput, InputStats, Recording, SleepSource, Span, WakeStamp};
use torpor_platform::{IdleState, Platform};
use torpor_trace::{Carries, Trace};
use torpor_units::{CpuId, Instant};

/// Why a recorded sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    /// Would have come anyway.
    Event,
    /// The recorded governor kept the tick, and the tick did nothing but wake the CPU.
    Tick,
    /// The recorded governor polled until its limit.
    PollTimeout,
}

/// What the recording can tell apart.
struct Evidence<'a> {
    carries: Carries,
    tick: Option<TickGrid>,
    recorded_on: Option<&'a Platform>,
}

pub fn build(
    trace: &Trace,
    collected: Collected,
    tick: Option<TickGrid>,
    recorded_on: Option<&Platform>,
) -> Recording {
    let evidence = Evidence { carries: trace.carries, tick, recorded_on };
    let mut stats = InputStats {
        unclosed_entries: collected.unclosed_entries,
        cut_sleeps: collected.cut_sleeps,
        ..InputStats::default()
    };
    for stamp in WakeStamp::ALL {
        stats.stamps.insert(stamp.key(), 0);
    }
    let mut cpus = Vec::new();
    for (number, segments) in collected.cpus.iter().enumerate() {
        let cpu = CpuId(number as u32);
        let mut spans = merge(cpu, segments, &evidence, &mut stats);
        if !trace.carries.hrtimers {
            let mut timers = collected.timers.on(cpu);
            for span in &mut spans {
                span.next_hrtimer = timers.next_at(span.start);
                span.source = match span.next_hrtimer {
                    Instant::NEVER => SleepSource::TickOnly,
                    _ => SleepSource::WakingTimer,
                };
            }
        }
        if !spans.is_empty() {
            cpus.push(CpuInput { cpu, spans });
        }
    }
    Recording { cpus, tick, stats }
}

/// Joins sleeps that only a tick or a poll time-out separated.
fn merge(
    cpu: CpuId,
    segments: &[Segment],
    evidence: &Evidence<'_>,
    stats: &mut InputStats,
) -> Vec<Span> {
    let mut spans = Vec::with_capacity(segments.len());
    let mut first: Option<&Segment> = None;
    // Interrupts nest and stamps race by some ns; spans must not.
    let mut busy_until = Instant(i64::MIN);
    for segment in segments {
        let opening = *first.get_or_insert(segment);
        match evidence.wake(cpu, segment) {
            Wake::Tick => stats.merged_ticks += 1,
            Wake::PollTimeout => stats.merged_poll_timeouts += 1,
            Wake::Event => {
                let (wake, stamp) = evidence.moment(cpu, segment);
                let start = opening.enter.max(busy_until);
                let resume = segment.exit.max(start);
                busy_until = resume;
                *stats.stamps.entry(stamp.key()).or_default() += 1;
                spans.push(Span {
                    start,
                    wake: wake.clamp(start, resume),
                    resume,
                    next_hrtimer: opening.next_hrtimer,
                    next_wheel: opening.next_wheel,
                    freq_khz: opening.freq_khz,
                    opp: 0,
                    util: 0,
                    source: SleepSource::TimerEvents,
                    stamp,
                    ends_visit: segment.switched || !evidence.carries.switches,
                    is_resched: (segment.switched || segment.resched_ipi)
                        && segment.resched.is_some_and(|at| at <= wake),
                    nr_iowait: 0,
                    nr_running: 0,
                    rcu_holds_tick: opening.rcu_holds_tick,
                });
                first = None;
            }
        }
    }
    if first.is_some() {
        stats.cut_sleeps += 1;
    }
    spans
}

impl Evidence<'_> {
    fn wake(&self, cpu: CpuId, segment: &Segment) -> Wake {
        let caused = segment.remote_waking.is_some()
            || segment.local_waking
            || segment.timer_expired.is_some()
            || segment.device_interrupt
            || segment.ipi;
        if segment.switched || caused {
            return Wake::Event;
        }
        if segment.tick_expired {
            return Wake::Tick;
        }
        if self.state(cpu, segment).is_some_and(IdleState::is_polling) {
            return Wake::PollTimeout;
        }
        // Nothing visible ended it. With timer events a tick would have shown; without them the
        // tick's place in time is all there is to go by.
        let on_tick = !self.carries.hrtimers
            && self.tick.is_some_and(|grid| {
                segment.exit.since(grid.floor(segment.exit)) <= TICK_WAKE_WINDOW
                    && grid.floor(segment.exit) > segment.enter
            });
        if on_tick { Wake::Tick } else { Wake::Event }
    }

    /// When the event behind a wake-up happened.
    fn moment(&self, cpu: CpuId, segment: &Segment) -> (Instant, WakeStamp) {
        let asleep = |t: &Instant| segment.enter <= *t && *t <= segment.exit;
        if let Some(at) = segment.remote_waking.filter(asleep) {
            let at = segment.timer_expired.filter(asleep).map_or(at, |timer| timer.min(at));
            return (at, WakeStamp::WakingEvent);
        }
        if let Some(at) = segment.timer_expired.filter(asleep) {
            return (at, WakeStamp::TimerExpiry);
        }
        if let Some(at) = segment.first_interrupt.filter(asleep) {
            return (at, WakeStamp::InterruptEvent);
        }
        let paid =
            self.state(cpu, segment).map_or(torpor_units::Duration::ZERO, |s| s.exit_latency);
        (segment.exit - paid, WakeStamp::ExitStamp)
    }

    fn state(&self, cpu: CpuId, segment: &Segment) -> Option<&IdleState> {
        let platform = self.recorded_on?;
        let cluster = platform.cluster_of(cpu)?;
        platform.clusters[cluster].idle_states.get(segment.state.index()?)
    }
}
