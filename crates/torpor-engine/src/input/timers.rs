// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The armed timers: the recorded kernel's bookkeeping, rebuilt from its timer events.

use super::tick::{TickFunction, TickGrid};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_trace::{Event, EventKind, FunctionId, Timer};

/// `flags` of `struct timer_list` (include/linux/timer.h): the low 18 bits are the CPU; a
/// deferrable timer waits for the CPU to be awake anyway; a pinned one stays on its CPU.
const TIMER_CPU_MASK: u32 = 0x0003_FFFF;
const TIMER_DEFERRABLE: u32 = 0x0008_0000;
const TIMER_PINNED: u32 = 0x0010_0000;

/// A timer this late has fired or been stopped without an event (lost events, hotplug).
pub(crate) const OVERDUE: Duration = Duration(4_000_000);

/// Armed timers of one kind, by CPU and time.
#[derive(Default)]
struct Armed {
    at: FxHashMap<Timer, (CpuId, Instant)>,
    by_cpu: BTreeMap<CpuId, BTreeSet<(Instant, Timer)>>,
}

impl Armed {
    fn start(&mut self, timer: Timer, cpu: CpuId, expires: Instant) {
        let before = self.at.insert(timer, (cpu, expires));
        self.forget(timer, before);
        self.by_cpu.entry(cpu).or_default().insert((expires, timer));
    }

    fn stop(&mut self, timer: Timer) -> Option<Instant> {
        let before = self.at.remove(&timer);
        self.forget(timer, before)
    }

    fn forget(&mut self, timer: Timer, before: Option<(CpuId, Instant)>) -> Option<Instant> {
        let (cpu, expires) = before?;
        self.by_cpu.get_mut(&cpu)?.remove(&(expires, timer));
        Some(expires)
    }

    /// Returns the earliest timer of a CPU. A timer that is long overdue was stopped without an
    /// event and is skipped.
    fn next(&self, cpu: CpuId, now: Instant) -> Instant {
        let from = (now - OVERDUE, Timer(0));
        self.by_cpu
            .get(&cpu)
            .and_then(|set| set.range(from..).next())
            .map_or(Instant::NEVER, |(expires, _)| *expires)
    }

    fn next_of_all(&self, now: Instant) -> Instant {
        self.by_cpu.keys().map(|cpu| self.next(*cpu, now)).min().unwrap_or(Instant::NEVER)
    }
}

/// Follows timer events and returns the next timer of a CPU, without the tick's.
pub(crate) struct TimerTracker {
    hrtimers: Armed,
    /// Wheel timers that stay on their CPU, and those that another CPU may take over.
    pinned: Armed,
    global: Armed,
    tick: Option<TickFunction>,
    deferrable: FxHashSet<Timer>,
    jiffies: Option<JiffyClock>,
}

/// Kind of an expiry event.
pub(crate) enum Expiry {
    Tick,
    Timer {
        expires: Instant,
    },
    /// A deferrable timer, which causes no wake-up.
    Deferred,
}

impl TimerTracker {
    /// Adds timers that were armed before the recording began: their expiry shows when and where
    /// they were due, and the next arming shows their flags. FIDELITY(recording-head): only
    /// `events`, the first of the recording or all of them, are searched.
    pub(crate) fn new(events: &[Event], tick: Option<&TickFunction>) -> TimerTracker {
        let mut tracker = TimerTracker {
            hrtimers: Armed::default(),
            pinned: Armed::default(),
            global: Armed::default(),
            tick: tick.cloned(),
            deferrable: FxHashSet::default(),
            jiffies: tick.and_then(|t| JiffyClock::fit(events, t.grid)),
        };
        let mut started = FxHashSet::default();
        // A wheel timer is cancelled just before it expires, by the event.
        let mut taken_off = FxHashSet::default();
        // Wheel timers whose first event is an expiry, and where and when they were due.
        let mut armed_before: BTreeMap<Timer, (CpuId, u64)> = BTreeMap::new();
        for event in events {
            match event.kind {
                EventKind::HrtimerStart { timer, .. } | EventKind::HrtimerCancel { timer } => {
                    started.insert(timer);
                }
                EventKind::TimerCancel { timer } if started.insert(timer) => {
                    taken_off.insert(timer);
                }
                EventKind::TimerStart { timer, flags, .. } => {
                    started.insert(timer);
                    taken_off.remove(&timer);
                    if let Some((cpu, jiffies)) = armed_before.remove(&timer) {
                        tracker.start_wheel(timer, flags & !TIMER_CPU_MASK | cpu.0, jiffies);
                    }
                }
                EventKind::HrtimerExpireEntry { timer, function, now } => {
                    let is_first = started.insert(timer);
                    if is_first && !tracker.is_tick(function) {
                        tracker.hrtimers.start(timer, event.cpu, now.get());
                    }
                }
                EventKind::TimerExpireEntry { timer, now_jiffies, .. }
                    if started.insert(timer) || taken_off.remove(&timer) =>
                {
                    armed_before.insert(timer, (event.cpu, now_jiffies.get()));
                }
                _ => {}
            }
        }
        for (timer, (cpu, jiffies)) in armed_before {
            tracker.start_wheel(timer, cpu.0, jiffies);
        }
        tracker
    }

    /// Takes an event. Returns the kind of an expiry.
    pub(crate) fn observe(&mut self, event: &Event) -> Option<Expiry> {
        match event.kind {
            EventKind::HrtimerStart { timer, function, expires, .. } if !self.is_tick(function) => {
                self.hrtimers.start(timer, event.cpu, expires.get());
            }
            EventKind::HrtimerCancel { timer } => {
                self.hrtimers.stop(timer);
            }
            EventKind::HrtimerExpireEntry { timer, function, now } => {
                if self.is_tick(function) {
                    return Some(Expiry::Tick);
                }
                let expires = self.hrtimers.stop(timer).unwrap_or(now.get());
                return Some(Expiry::Timer { expires });
            }
            EventKind::TimerStart {
                timer, expires_jiffies, bucket_expiry_jiffies, flags, ..
            } => {
                let computed = || {
                    let expires = expires_jiffies.get();
                    let base = self.jiffies.map_or(expires, |c| c.jiffies(event.time));
                    bucket_expiry(base, expires)
                };
                let due = bucket_expiry_jiffies.map_or_else(computed, |due| due.get().get());
                self.start_wheel(timer, flags, due);
            }
            EventKind::TimerCancel { timer } => {
                self.stop_wheel(timer);
            }
            EventKind::TimerExpireEntry { timer, now_jiffies, .. } => {
                let armed = self.stop_wheel(timer);
                if self.deferrable.contains(&timer) {
                    return Some(Expiry::Deferred);
                }
                let expires = armed.or(self.jiffies.map(|c| c.instant(now_jiffies.get())));
                return Some(Expiry::Timer { expires: expires.unwrap_or(event.time) });
            }
            _ => {}
        }
        None
    }

    pub(crate) fn next_hrtimer(&self, cpu: CpuId, now: Instant) -> Instant {
        self.hrtimers.next(cpu, now)
    }

    /// Returns the earliest wheel timer that was armed on this CPU.
    pub(crate) fn next_wheel(&self, cpu: CpuId, now: Instant) -> Instant {
        self.pinned.next(cpu, now).min(self.global.next(cpu, now))
    }

    /// Returns the wheel timer that an idle CPU must wake up for since Linux 6.9, where timers that
    /// are not pinned are handed to a CPU that is awake. A global timer counts if it is due by
    /// `horizon`, the next tick, as handing it over is not worth it then. If all other CPUs are
    /// idle, the global timers of all CPUs count.
    ///
    /// FIDELITY(timer-hierarchy): one level, and as of the time of the call.
    pub(crate) fn next_wheel_in_hierarchy(
        &self,
        cpu: CpuId,
        now: Instant,
        horizon: Instant,
        others_idle: bool,
    ) -> Instant {
        let own = self.next_wheel(cpu, now);
        if own <= horizon {
            own
        } else if others_idle {
            self.pinned.next(cpu, now).min(self.global.next_of_all(now))
        } else {
            self.pinned.next(cpu, now)
        }
    }

    fn start_wheel(&mut self, timer: Timer, flags: u32, due_jiffies: u64) {
        if flags & TIMER_DEFERRABLE != 0 {
            self.stop_wheel(timer);
            self.deferrable.insert(timer);
        } else if let Some(clock) = self.jiffies {
            self.deferrable.remove(&timer);
            let (mut base, mut other) = (&mut self.global, &mut self.pinned);
            if flags & TIMER_PINNED != 0 {
                std::mem::swap(&mut base, &mut other);
            }
            other.stop(timer);
            base.start(timer, CpuId(flags & TIMER_CPU_MASK), clock.instant(due_jiffies));
        }
    }

    fn stop_wheel(&mut self, timer: Timer) -> Option<Instant> {
        self.pinned.stop(timer).or_else(|| self.global.stop(timer))
    }

    fn is_tick(&self, function: FunctionId) -> bool {
        self.tick.as_ref().is_some_and(|t| t.is(function))
    }
}

/// Converts jiffies to nanoseconds, by the time of jiffy 0. Expiries of wheel timers give it: the
/// softirq handles them within the tick that advanced `jiffies`.
#[derive(Clone, Copy)]
struct JiffyClock {
    zero: i128,
    tick_ns: i128,
}

impl JiffyClock {
    fn fit(events: &[Event], grid: TickGrid) -> Option<JiffyClock> {
        let tick_ns = i128::from(grid.hz.tick().0);
        let mut zeros: BTreeMap<i128, u32> = BTreeMap::new();
        for event in events {
            if let EventKind::TimerExpireEntry { now_jiffies, .. } = event.kind {
                let tick = i128::from(grid.floor(event.time).0);
                *zeros.entry(tick - i128::from(now_jiffies.get()) * tick_ns).or_default() += 1;
            }
        }
        // A late softirq names an old jiffy, so wrong answers lie above the true one.
        let most = zeros.values().copied().max()?;
        let zero = zeros.into_iter().find(|(_, n)| *n == most)?.0;
        Some(JiffyClock { zero, tick_ns })
    }

    fn instant(self, jiffies: u64) -> Instant {
        let ns = self.zero + i128::from(jiffies) * self.tick_ns;
        Instant(ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    }

    fn jiffies(self, at: Instant) -> u64 {
        ((i128::from(at.0) - self.zero).div_euclid(self.tick_ns)).max(0) as u64
    }
}

/// Levels of the wheel, buckets of each, and the factor from one level to the next (`LVL_DEPTH` is
/// 9 from 250 Hz on, `LVL_SIZE`, `LVL_CLK_SHIFT`).
const WHEEL_LEVELS: u32 = 9;
const WHEEL_BUCKETS: u64 = 64;
const WHEEL_LEVEL_SHIFT: u32 = 3;

/// Returns the jiffy in which a timer fires that is due at `expires` and armed in jiffy `now`: the
/// end of its bucket, whose width depends on the distance. Kernels before 6.3 do not record it.
fn bucket_expiry(now: u64, expires: u64) -> u64 {
    let ahead = expires.saturating_sub(now);
    let level = (0..WHEEL_LEVELS - 1)
        .find(|level| ahead < (WHEEL_BUCKETS - 1) << (level * WHEEL_LEVEL_SHIFT))
        .unwrap_or(WHEEL_LEVELS - 1);
    let shift = level * WHEEL_LEVEL_SHIFT;
    ((expires.max(now) >> shift) + 1) << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;
    use torpor_trace::Slim;

    const TICK: i64 = 4_000_000;
    const FUNCTION: FunctionId = FunctionId(7);

    /// Returns a tracker at 250 Hz whose jiffy 0 is at 0.
    fn tracker() -> TimerTracker {
        TimerTracker {
            hrtimers: Armed::default(),
            pinned: Armed::default(),
            global: Armed::default(),
            tick: None,
            deferrable: FxHashSet::default(),
            jiffies: Some(JiffyClock { zero: 0, tick_ns: i128::from(TICK) }),
        }
    }

    fn start(tracker: &mut TimerTracker, timer: u32, due: u64, flags: u32) {
        let kind = EventKind::TimerStart {
            timer: Timer(timer),
            function: FUNCTION,
            expires_jiffies: (due - 1).into(),
            bucket_expiry_jiffies: NonZeroU64::new(due).map(Slim::new),
            flags,
        };
        tracker.observe(&Event { time: Instant(0), cpu: CpuId(0), kind });
    }

    #[test]
    fn wheel_buckets_widen_with_distance() {
        // Level 0 has a granularity of 1 jiffy, level 1 of 8, level 2 of 64; a timer fires at the
        // end of its bucket.
        assert_eq!(bucket_expiry(1_000, 1_000), 1_001);
        assert_eq!(bucket_expiry(1_000, 1_062), 1_063);
        assert_eq!(bucket_expiry(1_000, 1_063), 1_064);
        assert_eq!(bucket_expiry(1_000, 1_064), 1_072);
        assert_eq!(bucket_expiry(1_000, 1_000 + 503), 1_504);
        assert_eq!(bucket_expiry(1_000, 1_000 + 504), 1_536);
        // Overdue timers fire at the next jiffy.
        assert_eq!(bucket_expiry(1_000, 900), 1_001);
    }

    #[test]
    fn global_timer_goes_to_an_awake_cpu() {
        let mut tracker = tracker();
        start(&mut tracker, 1, 10, TIMER_PINNED);
        start(&mut tracker, 2, 5, 0);
        start(&mut tracker, 3, 4, 1);
        let next = |horizon: i64, others_idle| {
            let horizon = Instant(horizon * TICK);
            tracker.next_wheel_in_hierarchy(CpuId(0), Instant(0), horizon, others_idle).0 / TICK
        };
        assert_eq!(tracker.next_wheel(CpuId(0), Instant(0)).0, 5 * TICK, "before 6.9");
        assert_eq!(next(1, false), 10, "CPU 1 is awake and takes the global timer");
        assert_eq!(next(1, true), 4, "no other CPU is: CPU 1's timer counts, too");
        assert_eq!(next(5, false), 5, "too near to be handed over");
    }

    /// The softirq takes a timer off the wheel, which writes a cancellation, before it expires.
    #[test]
    fn early_timers_are_known_by_their_expiry() {
        let mut events = Vec::new();
        let mut push = |at: i64, kind| {
            events.push(Event { time: Instant(at), cpu: CpuId(0), kind });
        };
        let expiry = |timer, now_jiffies| {
            let function = FUNCTION;
            let timer = Timer(timer);
            EventKind::TimerExpireEntry { timer, function, now_jiffies: Slim::new(now_jiffies) }
        };
        push(1, EventKind::TimerCancel { timer: Timer(9) });
        push(10 * TICK, EventKind::TimerCancel { timer: Timer(1) });
        push(10 * TICK + 1, expiry(1, 10));
        push(12 * TICK, EventKind::TimerCancel { timer: Timer(2) });
        push(12 * TICK + 1, expiry(2, 12));
        push(12 * TICK + 2, {
            let (function, flags) = (FUNCTION, TIMER_PINNED);
            let bucket_expiry_jiffies = NonZeroU64::new(15).map(Slim::new);
            let expires_jiffies = Slim::new(14);
            EventKind::TimerStart {
                timer: Timer(2),
                function,
                expires_jiffies,
                bucket_expiry_jiffies,
                flags,
            }
        });
        let grid = TickGrid::new(torpor_machine::units::Hz::H250, Duration::ZERO);
        let tracker = TimerTracker::new(&events, Some(&TickFunction::new(FunctionId(5), grid)));
        assert_eq!(tracker.global.next(CpuId(0), Instant(0)), Instant(10 * TICK));
        assert_eq!(tracker.pinned.next(CpuId(0), Instant(0)), Instant(12 * TICK));
    }

    #[test]
    fn deferrable_timers_wake_no_cpu() {
        let mut tracker = tracker();
        start(&mut tracker, 1, 10, TIMER_DEFERRABLE);
        assert_eq!(tracker.next_wheel(CpuId(0), Instant(0)), Instant::NEVER);
        let expiry = EventKind::TimerExpireEntry {
            timer: Timer(1),
            function: FUNCTION,
            now_jiffies: Slim::new(10),
        };
        let event = Event { time: Instant(10 * TICK), cpu: CpuId(0), kind: expiry };
        assert!(matches!(tracker.observe(&event), Some(Expiry::Deferred)));
    }
}
