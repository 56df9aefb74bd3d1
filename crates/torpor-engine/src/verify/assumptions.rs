// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Assumptions about facts that no event contains.

use super::recorded::Calls;
use std::collections::BTreeMap;
use torpor_machine::counters::Delta;
use torpor_machine::units::{CpuId, Duration};

/// Assumptions about facts that no event contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Assumptions {
    /// Time from the switch to the idle task to its `idle_entrytime`.
    ///
    /// FIDELITY(entry-delay): one time for all entries, although each takes its own.
    pub entry_delay: Duration,
    /// RCU needs the CPU for a while after raising its softirq there.
    pub rcu_stand_in: bool,
    /// Excess of the time between the `cpu_idle` events over `last_residency_ns`.
    ///
    /// FIDELITY(residency-overhead): one time for all sleeps; the kernel's counters show it.
    pub residency_overhead: Duration,
}

/// Residency overhead if no counters show it: the least value observed.
const RESIDENCY_OVERHEAD: Duration = Duration(650);

/// Least number of sleeps in a state for a mean.
const SLEEPS_MIN: u64 = 10;

/// Returns the residency overhead: the median over states of a state's mean. Only states count
/// whose sleeps are all both in the recording and in the kernel's counters. The median ignores a
/// single sleep with a stall between its events and the kernel's clock.
pub(super) fn residency_overhead(calls: &Calls, grown: &Delta) -> Option<Duration> {
    let mut seen: BTreeMap<(CpuId, usize), (u64, i64)> = BTreeMap::new();
    for recorded in &calls.decisions {
        if let Some(reflected) = recorded.reflected {
            let (sleeps, between_ns) = seen.entry((recorded.cpu, reflected.state)).or_default();
            *sleeps += 1;
            *between_ns += reflected.between.0;
        }
    }
    let mut means_ns = Vec::new();
    for cpu in &grown.cpus {
        for state in &cpu.states {
            if let Some(&(sleeps, between_ns)) = seen.get(&(cpu.cpu, state.index as usize)) {
                if sleeps >= SLEEPS_MIN && state.usage == Some(sleeps) {
                    if let Some(time_us) = state.time_us {
                        means_ns.push((between_ns - time_us as i64 * 1_000) / sleeps as i64);
                    }
                }
            }
        }
    }
    means_ns.sort();
    means_ns.get(means_ns.len() / 2).map(|&mean_ns| Duration(mean_ns.max(0)))
}

impl Assumptions {
    /// On hardware, the idle entry's event comes within a microsecond of the switch, which bounds
    /// the delay.
    pub(super) const DEFAULT: Assumptions = Assumptions {
        entry_delay: Duration(800),
        rcu_stand_in: true,
        residency_overhead: RESIDENCY_OVERHEAD,
    };

    /// Delays of guests: 1.7 us if an instruction takes 1 ns, as a probe measured; 4 and 10 us in
    /// two that an emulator ran in real time.
    const ENTRY_DELAYS_NS: [i64; 4] = [800, 1_700, 4_000, 10_000];

    /// Returns all alternatives, the default first.
    pub(super) fn alternatives(self) -> Vec<Assumptions> {
        let with = |delay, rcu_stand_in| Assumptions {
            entry_delay: Duration(delay),
            rcu_stand_in,
            ..self
        };
        let pair = |delay| [with(delay, true), with(delay, false)];
        Assumptions::ENTRY_DELAYS_NS.into_iter().flat_map(pair).collect()
    }
}
