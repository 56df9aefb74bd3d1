// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One CPU of the replayed machine: the length and the cost of its sleeps.

use crate::cluster;
use crate::cost::CostTable;
use crate::input::TickGrid;
use torpor_governor::StateDesc;
use torpor_machine::platform::{Cluster, Demotion, IdleState, Platform, PollLoop};
use torpor_machine::units::{Duration, Instant};

/// `CPUIDLE_POLL_MIN`: a state with a shorter target residency does not limit polling.
const POLL_MIN: Duration = Duration::from_us(10);
/// `CPUIDLE_POLL_MAX` is the tick period divided by this.
const POLL_MAX_TICK_SHARE: i64 = 16;

/// Fields of an idle state that the loop needs.
#[derive(Clone, Copy, Debug)]
pub struct StateModel {
    pub entry_latency: Duration,
    pub exit_latency: Duration,
    /// The governor's `exit_latency_ns`.
    pub latency: Duration,
    pub target_residency: Duration,
    pub is_polling: bool,
    pub is_enabled: bool,
    /// A governor that respects the latency limit may choose it; see [`CpuModel::allowed`].
    pub is_allowed: bool,
    /// A shallower state is enabled: without one, no sleep is too deep.
    has_shallower: bool,
    /// Least residency that is too shallow: the exit latency plus the target residency of the first
    /// enabled deeper state.
    below_from: Duration,
}

/// A CPU with the options of the run.
#[derive(Clone, Debug)]
pub struct CpuModel {
    pub states: Vec<StateModel>,
    pub costs: CostTable,
    pub tick: TickGrid,
    pub tick_handling: Duration,
    /// Time that a governor needs to start and to cancel a timer of its own.
    pub timer_start: Duration,
    pub latency_limit: Duration,
    pub capacity: u32,
    /// Poll loop of state 0, if it polls.
    pub poll_loop: Option<PollLoop>,
    /// Answer of `cpuidle_poll_time()` if no governor has set a limit.
    pub default_poll_limit: Duration,
    /// The deepest state that the platform enables.
    pub deepest: usize,
    /// By state; empty if the hardware does not demote.
    pub demotions: Vec<Option<Demotion>>,
    /// The cluster takes power of its own unless all CPUs are in their deepest state.
    pub watches_deepest: bool,
}

/// Cause of a sleep's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SleepEnd {
    /// The recorded event.
    Event,
    /// The tick, which the governor kept.
    Tick,
    /// A timer that the governor armed.
    GovernorTimer,
    /// The polling limit.
    PollTimeout,
}

/// A sleep from entry to the CPU running again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    pub resume: Instant,
    pub end: SleepEnd,
    /// The tick's interrupt came during the sleep.
    pub got_tick: bool,
    /// The governor's timer expired during the sleep.
    pub got_timer: bool,
}

/// Times of interrupts that are not recorded; `Instant::NEVER` for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarms {
    pub tick: Instant,
    /// The governor's own timer.
    pub timer: Instant,
}

impl Alarms {
    pub const NONE: Alarms = Alarms::tick(Instant::NEVER);

    pub const fn tick(tick: Instant) -> Alarms {
        Alarms { tick, timer: Instant::NEVER }
    }
}

/// The kernel's verdict on a sleep (`cpuidle_enter_state()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Verdict {
    Fit,
    /// Too deep.
    Above,
    /// Too shallow.
    Below,
}

impl CpuModel {
    pub fn new(
        platform: &Platform,
        table: &Cluster,
        tick: TickGrid,
        latency_limit: Duration,
        is_disabled: impl Fn(usize) -> bool,
    ) -> CpuModel {
        let mut states: Vec<StateModel> = table
            .idle_states
            .iter()
            .enumerate()
            .map(|(index, s)| StateModel {
                entry_latency: s.entry_latency,
                exit_latency: s.exit_latency,
                latency: s.latency,
                target_residency: s.target_residency,
                is_polling: s.is_polling(),
                is_enabled: !s.is_disabled && !is_disabled(index),
                is_allowed: false,
                has_shallower: false,
                below_from: Duration::MAX,
            })
            .collect();
        derive(&mut states, latency_limit);
        let default_poll_limit = poll_limit(&states, tick.hz.tick());
        CpuModel {
            states,
            costs: CostTable::new(table, platform.has_power(), Duration::MAX),
            tick,
            tick_handling: platform.tick_handling,
            timer_start: platform.timer_start,
            latency_limit,
            capacity: table.capacity,
            poll_loop: table.idle_states[0].poll_loop,
            default_poll_limit,
            deepest: table.deepest(),
            demotions: demotions(table),
            watches_deepest: cluster::has_static_power(table),
        }
    }

    /// Sets the longest idle time, which decides the relative power of states whose power is
    /// unknown.
    pub fn within(mut self, table: &Cluster, longest: Duration) -> CpuModel {
        self.costs = CostTable::new(table, self.costs.is_known(), longest);
        self
    }

    /// Simulates a sleep in `state` from `from`, given the event at `wake` and other alarms.
    /// Polling states use [`CpuModel::poll`].
    #[inline(always)]
    pub fn sleep(&self, state: usize, from: Instant, wake: Instant, alarms: Alarms) -> Sleep {
        let Alarms { tick, timer } = alarms;
        let s = &self.states[state];
        // An interrupt during the entry is handled only afterwards.
        let interrupted = wake.min(tick).min(timer).max(from + s.entry_latency);
        let resume = interrupted + s.exit_latency;
        let end = if wake <= resume {
            SleepEnd::Event
        } else if tick <= timer {
            SleepEnd::Tick
        } else {
            SleepEnd::GovernorTimer
        };
        Sleep { resume, end, got_tick: tick <= resume, got_timer: timer <= resume }
    }

    /// Simulates a sleep on hardware that enters `to` for `state`. Returns true with it if the
    /// hardware went on to `state`.
    #[cold]
    pub fn sleep_demoted(
        &self,
        (state, to): (usize, usize),
        from: Instant,
        wake: Instant,
        alarms: Alarms,
    ) -> (Sleep, bool) {
        match self.undemoted_at(state, from) {
            Some(at) if wake.min(alarms.tick).min(alarms.timer) >= at => {
                (self.sleep(state, at, wake, alarms), true)
            }
            _ => (self.sleep(to, from, wake, alarms), false),
        }
    }

    /// Returns when a demoted CPU that is still asleep enters `state`.
    pub fn undemoted_at(&self, state: usize, from: Instant) -> Option<Instant> {
        Some(from + self.demotion(state)?.undemote?)
    }

    pub fn demotion(&self, state: usize) -> Option<Demotion> {
        self.demotions.get(state).copied().flatten()
    }

    /// Simulates polling from `from` that times out at `timeout`. It continues after the tick and
    /// the governor's timer.
    #[inline]
    pub fn poll(&self, from: Instant, wake: Instant, alarms: Alarms, timeout: Instant) -> Sleep {
        let poll_loop = self.poll_loop.expect("the state polls");
        let (until, end) = if wake <= timeout {
            (poll_loop.notices(from, wake), SleepEnd::Event)
        } else {
            (timeout, SleepEnd::PollTimeout)
        };
        Sleep {
            resume: until + self.states[0].exit_latency,
            end,
            got_tick: alarms.tick <= until,
            got_timer: alarms.timer <= until,
        }
    }

    /// Returns the time at which polling from `from` gives up.
    #[inline]
    pub fn poll_timeout(&self, from: Instant, limit: Duration) -> Instant {
        self.poll_loop.expect("the state polls").gives_up(from, limit)
    }

    /// Judges a measured residency by the kernel's rule.
    #[inline]
    pub fn verdict(&self, state: usize, residency: Duration) -> Verdict {
        let entered = &self.states[state];
        if residency < entered.target_residency {
            if entered.has_shallower { Verdict::Above } else { Verdict::Fit }
        } else if residency > entered.latency && residency >= entered.below_from {
            Verdict::Below
        } else {
            Verdict::Fit
        }
    }

    /// Returns the states that a governor may choose under the latency limit: enabled and quick
    /// enough. If there is none, the kernel's governors fall back to the first enabled state, or to
    /// state 0.
    pub fn allowed(&self) -> Vec<usize> {
        (0..self.states.len()).filter(|&i| self.states[i].is_allowed).collect()
    }

    /// Returns true if an allowed state polls.
    pub fn may_poll(&self) -> bool {
        self.states.iter().any(|state| state.is_allowed && state.is_polling)
    }

    /// Changes the enabled states and the latency limit.
    pub fn set_limits(&mut self, is_disabled: impl Fn(usize) -> bool, limit: Duration) {
        let states = self.states.iter_mut().enumerate();
        states.for_each(|(index, state)| state.is_enabled = !is_disabled(index));
        self.set_latency_limit(limit);
    }

    /// Changes the latency limit, and the allowed states with it.
    pub fn set_latency_limit(&mut self, limit: Duration) {
        self.latency_limit = limit;
        derive(&mut self.states, limit);
    }
}

fn demotions(table: &Cluster) -> Vec<Option<Demotion>> {
    let all: Vec<_> = table.idle_states.iter().map(|state| state.demotion).collect();
    if all.iter().any(Option::is_some) { all } else { Vec::new() }
}

/// Sets the fields that depend on the enabled states and on the latency limit.
fn derive(states: &mut [StateModel], limit: Duration) {
    let mut has_shallower = false;
    for state in states.iter_mut() {
        state.has_shallower = has_shallower;
        has_shallower |= state.is_enabled;
    }
    let mut deeper: Option<Duration> = None;
    for state in states.iter_mut().rev() {
        state.below_from = deeper.map_or(Duration::MAX, |residency| state.latency + residency);
        if state.is_enabled {
            deeper = Some(state.target_residency);
        }
    }
    for state in states.iter_mut() {
        state.is_allowed = state.is_enabled && state.latency <= limit;
    }
    if !states.iter().any(|s| s.is_allowed) {
        let fallback = states.iter().position(|s| s.is_enabled).unwrap_or(0);
        states[fallback].is_allowed = true;
    }
}

/// `cpuidle_poll_time()`: the target residency of the first enabled deeper state from [`POLL_MIN`]
/// on, but at most a sixteenth of a tick.
fn poll_limit(states: &[StateModel], tick: Duration) -> Duration {
    let most = Duration(tick.0 / POLL_MAX_TICK_SHARE);
    states
        .iter()
        .skip(1)
        .filter(|s| s.is_enabled && s.target_residency >= POLL_MIN)
        .map(|s| s.target_residency.min(most))
        .next()
        .unwrap_or(most)
}

/// Returns the states of a CPU as a governor sees them.
pub fn state_descs(states: &[IdleState], model: &CpuModel) -> Vec<StateDesc> {
    states
        .iter()
        .zip(&model.states)
        .map(|(state, model)| StateDesc {
            name: state.name.clone(),
            exit_latency: model.latency,
            target_residency: model.target_residency,
            is_polling: model.is_polling,
            is_disabled: !model.is_enabled,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn entry_is_uninterruptible_and_exit_always_paid() {
        // State 1: 70 us in, 160 us out.
        let cpu = testing::two_state_cpu();
        let early = cpu.sleep(1, Instant(0), Instant(10_000), Alarms::NONE);
        assert_eq!(early.resume, Instant(230_000));
        let later = cpu.sleep(1, Instant(0), Instant(500_000), Alarms::NONE);
        assert_eq!(later.resume, Instant(660_000));
        assert_eq!(later.end, SleepEnd::Event);
    }

    #[test]
    fn kept_tick_ends_a_sleep_before_the_event() {
        let cpu = testing::two_state_cpu();
        let tick = Instant(1_000_000);
        let by_tick = cpu.sleep(1, Instant(0), Instant(5_000_000), Alarms::tick(tick));
        assert_eq!((by_tick.end, by_tick.got_tick), (SleepEnd::Tick, true));
        // The event comes 100 us after the tick, while the CPU is on its way out.
        let both = cpu.sleep(1, Instant(0), Instant(1_100_000), Alarms::tick(tick));
        assert_eq!((both.end, both.got_tick), (SleepEnd::Event, true));
        assert_eq!(both.resume, Instant(1_160_000));
    }

    #[test]
    fn governors_timer_ends_sleeps_but_not_polls() {
        let alarms = |tick_us: i64, timer_us: i64| Alarms {
            tick: Instant(tick_us * 1_000),
            timer: Instant(timer_us * 1_000),
        };
        let far = Instant(9_000_000);
        // WFI takes 1 us to leave.
        let cpu = testing::two_state_cpu();
        let by_timer = cpu.sleep(0, Instant(0), far, alarms(400, 300));
        assert_eq!((by_timer.resume, by_timer.end), (Instant(301_000), SleepEnd::GovernorTimer));
        assert_eq!((by_timer.got_tick, by_timer.got_timer), (false, true));
        let by_tick = cpu.sleep(0, Instant(0), far, alarms(300, 400));
        assert_eq!((by_tick.end, by_tick.got_timer), (SleepEnd::Tick, false));
        // c2 takes 160 us to leave: the timer expires meanwhile.
        let both = cpu.sleep(1, Instant(0), far, alarms(300, 400));
        assert_eq!((both.end, both.got_tick, both.got_timer), (SleepEnd::Tick, true, true));
        let cpu = testing::x86_cpu();
        let timeout = cpu.poll_timeout(Instant(0), Duration::from_us(20));
        let poll = cpu.poll(Instant(0), far, alarms(400, 10), timeout);
        assert_eq!((poll.resume, poll.end), (Instant(20_000), SleepEnd::PollTimeout));
        assert!(poll.got_timer);
    }

    #[test]
    fn above_and_below_follow_the_kernels_rule() {
        let cpu = testing::two_state_cpu();
        assert_eq!(cpu.verdict(1, Duration::from_us(1_999)), Verdict::Above);
        assert_eq!(cpu.verdict(1, Duration::from_us(2_000)), Verdict::Fit);
        // State 0 has 1 us of exit latency: 2001 us − 1 us reaches state 1's 2000 us.
        assert_eq!(cpu.verdict(0, Duration::from_us(2_000)), Verdict::Fit);
        assert_eq!(cpu.verdict(0, Duration::from_us(2_001)), Verdict::Below);
        assert_eq!(cpu.verdict(0, Duration::ZERO), Verdict::Fit);
    }

    #[test]
    fn disabled_neighbours_make_no_state_wrong() {
        for (disabled, state, us) in [(0, 1, 5), (1, 0, 50_000)] {
            let mut cluster = testing::two_state_cluster();
            cluster.idle_states[disabled].is_disabled = true;
            let cpu = testing::model(&cluster);
            assert_eq!(cpu.verdict(state, Duration::from_us(us)), Verdict::Fit);
        }
    }

    #[test]
    fn first_state_worth_sleeping_limits_polling() {
        let cpu = testing::x86_cpu();
        // C1 (2 us) is below 10 us; C1E's 20 us counts.
        assert_eq!(cpu.default_poll_limit, Duration::from_us(20));
    }
}
