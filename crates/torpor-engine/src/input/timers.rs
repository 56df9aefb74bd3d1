// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Which timers are armed: the recorded kernel's own bookkeeping, rebuilt from its timer events.

use super::tick::{TickFunction, TickGrid};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use torpor_trace::{Event, EventKind, Trace};
use torpor_units::{CpuId, Duration, Instant};

/// `flags` of `struct timer_list`: the low 18 bits are the CPU, this bit marks a timer that waits
/// for the CPU to be awake anyway (include/linux/timer.h).
const TIMER_CPU_MASK: u32 = 0x0003_FFFF;
const TIMER_DEFERRABLE: u32 = 0x0008_0000;

/// A timer this late has fired or been stopped without an event (lost events, hotplug).
const OVERDUE: Duration = Duration(4_000_000);

/// Armed timers of one kind, by CPU and time.
#[derive(Default)]
struct Armed {
    at: HashMap<u64, (CpuId, Instant)>,
    by_cpu: BTreeMap<CpuId, BTreeSet<(Instant, u64)>>,
}

impl Armed {
    fn start(&mut self, timer: u64, cpu: CpuId, expires: Instant) {
        self.stop(timer);
        self.at.insert(timer, (cpu, expires));
        self.by_cpu.entry(cpu).or_default().insert((expires, timer));
    }

    fn stop(&mut self, timer: u64) -> Option<Instant> {
        let (cpu, expires) = self.at.remove(&timer)?;
        if let Some(set) = self.by_cpu.get_mut(&cpu) {
            set.remove(&(expires, timer));
        }
        Some(expires)
    }

    /// The earliest timer of a CPU. One that is long overdue was stopped unseen and is passed over.
    fn next(&self, cpu: CpuId, now: Instant) -> Instant {
        let from = (now - OVERDUE, 0);
        self.by_cpu
            .get(&cpu)
            .and_then(|set| set.range(from..).next())
            .map_or(Instant::NEVER, |(expires, _)| *expires)
    }
}

/// Follows timer events and answers which timer is next on a CPU, the tick's own left out.
pub struct TimerTracker {
    hrtimers: Armed,
    wheel: Armed,
    tick: Option<TickFunction>,
    deferrable: HashSet<u64>,
    jiffies: Option<JiffyClock>,
}

/// What an expiry event tells about the wake-up it may have caused.
pub enum Expiry {
    Tick,
    Timer {
        expires: Instant,
    },
    /// A deferrable timer rides along with a wake-up and causes none.
    Deferred,
}

impl TimerTracker {
    /// Timers armed before the recording began are added by hindsight: their expiry tells when
    /// and where they were due.
    pub fn new(trace: &Trace, tick: Option<&TickFunction>) -> TimerTracker {
        let mut tracker = TimerTracker {
            hrtimers: Armed::default(),
            wheel: Armed::default(),
            tick: tick.cloned(),
            deferrable: HashSet::new(),
            jiffies: tick.and_then(|t| JiffyClock::fit(trace, t.grid)),
        };
        let mut started = HashSet::new();
        for event in &trace.events {
            match event.kind {
                EventKind::HrtimerStart { timer, .. }
                | EventKind::HrtimerCancel { timer }
                | EventKind::TimerStart { timer, .. }
                | EventKind::TimerCancel { timer } => {
                    started.insert(timer);
                }
                EventKind::HrtimerExpireEntry { timer, function, now } => {
                    let is_first = started.insert(timer);
                    if is_first && !tracker.is_tick(function) {
                        tracker.hrtimers.start(timer, event.cpu, now);
                    }
                }
                EventKind::TimerExpireEntry { timer, now_jiffies, .. } => {
                    if started.insert(timer)
                        && let Some(clock) = tracker.jiffies
                    {
                        tracker.wheel.start(timer, event.cpu, clock.instant(now_jiffies));
                    }
                }
                _ => {}
            }
        }
        tracker
    }

    /// Takes one event in; an expiry is answered with what it was.
    pub fn observe(&mut self, event: &Event) -> Option<Expiry> {
        match event.kind {
            EventKind::HrtimerStart { timer, function, expires, .. } if !self.is_tick(function) => {
                self.hrtimers.start(timer, event.cpu, expires);
            }
            EventKind::HrtimerCancel { timer } => {
                self.hrtimers.stop(timer);
            }
            EventKind::HrtimerExpireEntry { timer, function, now } => {
                if self.is_tick(function) {
                    return Some(Expiry::Tick);
                }
                let expires = self.hrtimers.stop(timer).unwrap_or(now);
                return Some(Expiry::Timer { expires });
            }
            EventKind::TimerStart {
                timer, expires_jiffies, bucket_expiry_jiffies, flags, ..
            } => {
                if flags & TIMER_DEFERRABLE != 0 {
                    self.deferrable.insert(timer);
                } else if let Some(clock) = self.jiffies {
                    self.deferrable.remove(&timer);
                    let due = bucket_expiry_jiffies.unwrap_or(expires_jiffies);
                    let cpu = CpuId(flags & TIMER_CPU_MASK);
                    self.wheel.start(timer, cpu, clock.instant(due));
                }
            }
            EventKind::TimerCancel { timer } => {
                self.wheel.stop(timer);
            }
            EventKind::TimerExpireEntry { timer, now_jiffies, .. } => {
                let armed = self.wheel.stop(timer);
                if self.deferrable.contains(&timer) {
                    return Some(Expiry::Deferred);
                }
                let expires = armed.or(self.jiffies.map(|c| c.instant(now_jiffies)));
                return Some(Expiry::Timer { expires: expires.unwrap_or(event.time) });
            }
            _ => {}
        }
        None
    }

    pub fn next_hrtimer(&self, cpu: CpuId, now: Instant) -> Instant {
        self.hrtimers.next(cpu, now)
    }

    pub fn next_wheel(&self, cpu: CpuId, now: Instant) -> Instant {
        self.wheel.next(cpu, now)
    }

    fn is_tick(&self, function: torpor_trace::Function) -> bool {
        self.tick.as_ref().is_some_and(|t| t.is(function))
    }
}

/// Jiffies to nanoseconds: jiffy 0's instant, found from expiries of wheel timers, which the
/// softirq handles within the tick that advanced `jiffies`.
#[derive(Clone, Copy)]
struct JiffyClock {
    zero: i128,
    tick_ns: i128,
}

impl JiffyClock {
    fn fit(trace: &Trace, grid: TickGrid) -> Option<JiffyClock> {
        let tick_ns = i128::from(grid.hz.tick().0);
        let mut zeros: BTreeMap<i128, u32> = BTreeMap::new();
        for event in &trace.events {
            if let EventKind::TimerExpireEntry { now_jiffies, .. } = event.kind {
                let tick = i128::from(grid.floor(event.time).0);
                *zeros.entry(tick - i128::from(now_jiffies) * tick_ns).or_default() += 1;
            }
        }
        // A late softirq names an old jiffy, so stray answers lie above the true one.
        let most = zeros.values().copied().max()?;
        let zero = zeros.into_iter().find(|(_, n)| *n == most)?.0;
        Some(JiffyClock { zero, tick_ns })
    }

    fn instant(self, jiffies: u64) -> Instant {
        let ns = self.zero + i128::from(jiffies) * self.tick_ns;
        Instant(ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    }
}
