// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Random machines and calls, all legal, many at a limit.

use crate::block::{CPUS_MAX, Cpu, STATES_MAX, State, Step, flag, op};
use crate::rng::Rng;
use crate::sequence::{Sequence, plain_step};
use torpor_governor::NO_LATENCY_LIMIT;
use torpor_machine::units::Hz;

/// Largest NR_CPUS of x86-64 and arm64.
const NR_CPUS: u64 = 8192;
/// `PID_MAX_LIMIT`: no more tasks can wait for IO.
const TASKS_MAX: u64 = 1 << 22;

/// Returns the sequence of a seed, the same on every machine. Its table has at least `states_min`
/// states (1 or 2).
pub(crate) fn sequence(seed: u64, hz: Hz, states_min: usize) -> Sequence {
    let mut rng = Rng::new(seed);
    let states = states(&mut rng, states_min);
    let style = Style::random(&mut rng);
    let cpus = cpus(&mut rng, &states);
    let clock_ns = match rng.below(8) {
        0 => 0,
        1 => (1 << 32) - rng.below(1 << 20),
        // Signed readings turn negative here, and the clock wraps.
        2 => (1 << 63) - rng.below(1 << 30),
        3 => u64::MAX - rng.below(1 << 30),
        _ => rng.magnitude(50) as u64,
    };
    let length = match rng.below(8) {
        0 => 1 + rng.below(4),
        1 | 2 => 1 + rng.below(64),
        _ => 500 + rng.below(1500),
    };
    let mut calls = Calls { rng, states: &states, cpus: cpus.len() as u64, tick_ns: hz.tick().0 };
    let steps = (0..length).map(|_| calls.step(&style)).collect();
    Sequence { states, cpus, clock_ns, steps }
}

fn states(rng: &mut Rng, least: usize) -> Vec<State> {
    let count = (1 + rng.below(STATES_MAX as u64)).max(least as u64);
    let is_polling = rng.one_in(2);
    let (mut exit_ns, mut residency_ns) = (0, 0);
    // Step size in bits: small steps crowd the states below a tick period, large ones reach beyond
    // it, and sometimes beyond any machine.
    let bits = match rng.below(16) {
        0 => 40,
        1..=4 => 20 + rng.below(10),
        _ => 8 + rng.below(16),
    };
    (0..count)
        .map(|i| {
            if !(i == 0 && (is_polling || rng.one_in(2))) {
                exit_ns += rng.magnitude(bits.min(20));
                residency_ns += rng.magnitude(bits);
            }
            // A break-even time below the exit latency exists, but is rare.
            if !rng.one_in(8) {
                residency_ns = residency_ns.max(exit_ns);
            }
            State {
                exit_latency_ns: exit_ns,
                target_residency_ns: residency_ns,
                is_polling: u32::from(is_polling && i == 0),
                pad: 0,
            }
        })
        .collect()
}

fn cpus(rng: &mut Rng, states: &[State]) -> Vec<Cpu> {
    let count = if rng.one_in(4) { 2 + rng.below(CPUS_MAX as u64 - 1) } else { 1 };
    let all = (1_u32 << states.len()) - 1;
    let mut cpus: Vec<Cpu> = Vec::new();
    while cpus.len() < count as usize {
        let cpu_id = match rng.below(8) {
            0 => NR_CPUS - 1,
            1 => rng.below(NR_CPUS),
            _ => rng.below(16),
        } as u32;
        let some = (0..states.len()).fold(0, |mask, i| mask | u32::from(rng.one_in(10)) << i);
        let disabled_mask = match rng.below(16) {
            0 => all,
            1 => rng.next() as u32 & all,
            2 => all & !(1 << rng.below(states.len() as u64)),
            3..=9 => 0,
            _ => some,
        };
        if cpus.iter().all(|c| c.cpu_id != cpu_id) {
            cpus.push(Cpu { cpu_id, disabled_mask });
        }
    }
    cpus
}

/// Character of a whole sequence; if each mixed everything, all would be alike.
struct Style {
    sleep_bits: u64,
    timer_bits: u64,
    /// Sleeps in a row before the CPU has something to run.
    idle_visits: u64,
    /// Sleeps repeat one length, give or take.
    period_ns: Option<u64>,
    has_limits: bool,
    has_iowait: bool,
    has_toggles: bool,
    has_hotplug: bool,
    has_extremes: bool,
}

impl Style {
    fn random(rng: &mut Rng) -> Style {
        Style {
            sleep_bits: 10 + rng.below(24),
            timer_bits: 14 + rng.below(22),
            idle_visits: 1 + rng.below(30),
            period_ns: rng.one_in(3).then(|| rng.magnitude(26) as u64),
            has_limits: rng.one_in(2),
            has_iowait: rng.one_in(2),
            has_toggles: rng.one_in(3),
            has_hotplug: rng.one_in(4),
            has_extremes: rng.one_in(4),
        }
    }
}

struct Calls<'a> {
    rng: Rng,
    states: &'a [State],
    cpus: u64,
    tick_ns: i64,
}

impl Calls<'_> {
    fn step(&mut self, style: &Style) -> Step {
        let cpu = self.rng.below(self.cpus) as u8;
        if style.has_toggles && self.rng.one_in(30) {
            let arg = self.rng.below(self.states.len() as u64) as u8;
            return Step { op: op::TOGGLE, arg, ..plain_step(cpu) };
        }
        if style.has_hotplug && self.rng.one_in(40) {
            let on = self.rng.below(self.cpus) as u8;
            let left = self.rng.below(self.states.len() as u64 + 1) as u8;
            let flags = if self.rng.one_in(2) { flag::OTHER_GOVERNOR } else { 0 };
            return Step { op: op::REPLUG, arg: on << 4 | left, flags, ..plain_step(cpu) };
        }
        Step {
            sleep_length_ns: self.sleep_length_ns(style),
            event_ns: self.event_ns(),
            latency_req_ns: self.latency_req_ns(style),
            gap_ns: self.rng.magnitude(20) as u64,
            residency_ns: self.residency_ns(style),
            late_ns: self.rng.magnitude(12) as u32,
            lag_ns: self.rng.magnitude(12) as u32,
            nr_iowait: self.nr_iowait(style),
            util: self.rng.below(1025) as u16,
            capacity: 1024,
            op: op::IDLE,
            cpu,
            flags: self.flags(style),
            arg: 0,
            pad: 0,
        }
    }

    fn sleep_length_ns(&mut self, style: &Style) -> i64 {
        let rng = &mut self.rng;
        match rng.below(40) {
            // A timer is overdue; by much if the host of a guest was busy.
            0 => -rng.magnitude(if style.has_extremes { 34 } else { 18 }),
            1 => 0,
            2..=5 if style.has_extremes => i64::MAX - rng.magnitude(62),
            // Near a boundary, where an off-by-one would show.
            6..=11 => {
                let state = rng.below(self.states.len() as u64 + 1) as usize;
                let edge = self.states.get(state).map_or(self.tick_ns, |s| s.target_residency_ns);
                edge + rng.below(3) as i64 - 1
            }
            _ => rng.magnitude(style.timer_bits),
        }
    }

    /// The tick, mostly.
    fn event_ns(&mut self) -> i64 {
        let late_ns = if self.rng.one_in(50) { 2_000 } else { 0 };
        self.rng.below(self.tick_ns as u64) as i64 - late_ns
    }

    fn latency_req_ns(&mut self, style: &Style) -> i64 {
        let rng = &mut self.rng;
        if !style.has_limits || rng.one_in(2) {
            return NO_LATENCY_LIMIT.0;
        }
        match rng.below(6) {
            0 => 0,
            1 => rng.magnitude(24),
            _ => {
                let latency_ns = rng.pick(self.states).exit_latency_ns;
                (latency_ns + rng.below(3) as i64 - 1).clamp(0, NO_LATENCY_LIMIT.0)
            }
        }
    }

    fn residency_ns(&mut self, style: &Style) -> u64 {
        let rng = &mut self.rng;
        match style.period_ns {
            Some(period_ns) if !rng.one_in(8) => period_ns + rng.below(period_ns / 8 + 1),
            _ if rng.one_in(20) => 0,
            _ if style.has_extremes && rng.one_in(20) => rng.magnitude(53) as u64,
            _ => rng.magnitude(style.sleep_bits) as u64,
        }
    }

    fn nr_iowait(&mut self, style: &Style) -> u32 {
        match self.rng.below(6) {
            0 | 1 if style.has_iowait => 1 + self.rng.below(6) as u32,
            2 if style.has_iowait && style.has_extremes => self.rng.below(TASKS_MAX + 1) as u32,
            _ => 0,
        }
    }

    fn flags(&mut self, style: &Style) -> u8 {
        let mut flags = 0;
        let chances = [
            (flag::REJECT, 25),
            (flag::GOT_TICK, 2),
            (flag::POLL_TIMEOUT, 4),
            (flag::BUSY_AFTER, style.idle_visits),
            (flag::SHALLOWER, 20),
            (flag::EARLY_EVENT, 8),
            (flag::TICK_HELD, 10),
        ];
        for (bit, one_in) in chances {
            if self.rng.one_in(one_in) {
                flags |= bit;
            }
        }
        flags
    }
}
