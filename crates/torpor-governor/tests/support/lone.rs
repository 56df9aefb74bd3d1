// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One CPU, of two states if no others are given, driven by hand.

use super::{resolve, state};
use torpor_governor::{CpuSetup, Inputs, Instance, Selection, Setup, StateDesc};
use torpor_machine::units::{CpuId, Duration, Hz, Instant};

/// A CPU with WFI and a state that takes 160 us to leave and pays off in 2 ms.
pub struct Lone {
    pub governor: Instance,
    pub now: Instant,
}

/// A timer so far away that it decides nothing.
pub const FAR_US: i64 = 1_000_000;

impl Lone {
    pub fn new(spec: &str) -> Lone {
        Lone::of_states(spec, &[state("WFI", 1, 1, false), state("C2", 160, 2_000, false)])
    }

    pub fn of_states(spec: &str, states: &[StateDesc]) -> Lone {
        let governor = resolve(spec, Hz::H250);
        let cpus = [CpuSetup::new(CpuId(0), states)];
        Lone { governor: governor.instantiate(&Setup { cpus: &cpus }).unwrap(), now: Instant(0) }
    }

    pub fn select_within(&mut self, timer_us: i64, limit: Option<Duration>) -> Selection {
        let sleep_length = Duration::from_us(timer_us);
        let mut inputs = Inputs {
            now: self.now,
            sleep_length,
            delta_next: sleep_length.min(Duration::from_us(4_000)),
            ..Inputs::default()
        };
        if let Some(limit) = limit {
            inputs.latency_req = limit;
        }
        self.governor.select(0, &inputs).unwrap()
    }

    pub fn select(&mut self, timer_us: i64) -> Selection {
        self.select_within(timer_us, None)
    }

    pub fn wake(&mut self, choice: Selection, slept_us: i64) {
        self.now += Duration::from_us(slept_us);
        self.governor.set_last_residency(0, Duration::from_us(slept_us));
        self.governor.reflect(0, choice.state, self.now, false).unwrap();
    }

    /// Sleeps of so many us, each with its timer, and 1 ms of work after each.
    pub fn sleep_all(&mut self, sleeps: &[(i64, i64)]) {
        for &(timer_us, slept_us) in sleeps {
            let choice = self.select(timer_us);
            self.wake(choice, slept_us);
            self.now += Duration::from_us(1_000);
        }
    }

    /// When the governor's timer expires, from now.
    pub fn alarm_us(&self) -> Option<i64> {
        self.governor.next_timer(0).map(|at| at.since(self.now).0 / 1_000)
    }
}
