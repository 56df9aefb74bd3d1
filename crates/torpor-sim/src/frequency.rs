// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Frequencies of clocks, from what was counted of them.

use crate::machine::{Counted, Limit};
use std::ops::Range;
use torpor_machine::platform::Platform;
use torpor_machine::units::Duration;
use torpor_result::work::Frequency;

pub(crate) fn frequency<'a>(
    platform: &Platform,
    runs: impl IntoIterator<Item = &'a Counted>,
    clusters: Range<usize>,
) -> Frequency {
    let (mut all, mut busy) = (Weighted::default(), Weighted::default());
    let (mut transitions, mut span) = (0, Duration::ZERO);
    let (mut limited, mut cpu_time) = ([0; Limit::COUNT], 0);
    for counted in runs {
        span += counted.span;
        for number in clusters.clone() {
            let (cluster, domain) = (&platform.clusters[number], &counted.domains[number]);
            let cpus = cluster.cpus.iter().map(|cpu| &counted.cpus[cpu.index()]);
            let online = cpus.filter(|cpu| cpu.is_online);
            let count = online.clone().count() as i64;
            if count == 0 {
                continue;
            }
            transitions += domain.transitions;
            cpu_time += counted.span.0 * count;
            for (sum, time) in limited.iter_mut().zip(domain.limited) {
                *sum += time.0 * count;
            }
            for (opp, time) in domain.time_at.iter().enumerate() {
                let khz = cluster.opps.get(opp).map(|opp| opp.freq_khz);
                all.add(khz, Duration(time.0 * count));
                for cpu in online.clone() {
                    busy.add(khz, cpu.busy_at[opp]);
                }
            }
        }
    }
    let mean_khz = all.mean();
    let limits = platform.limits.as_ref();
    let has_power = limits.is_some_and(|limits| !limits.power.is_empty());
    let has_turbo = platform.clusters.iter().any(|cluster| cluster.turbo.is_some());
    let share = |limit: Limit, is_limited: bool| {
        let pct = 100.0 * limited[limit as usize] as f64 / cpu_time.max(1) as f64;
        is_limited.then_some(pct)
    };
    Frequency {
        mean_khz,
        busy_khz: busy.mean(),
        transitions_per_s: mean_khz.map(|_| transitions as f64 * 1e9 / span.0 as f64),
        power_limited_pct: share(Limit::Power, has_power),
        turbo_limited_pct: share(Limit::Turbo, has_turbo),
    }
}

/// A mean over time of a value that may be unknown.
#[derive(Default)]
struct Weighted {
    khz_ns: i128,
    time: i128,
    is_unknown: bool,
}

impl Weighted {
    fn add(&mut self, khz: Option<u32>, time: Duration) {
        self.is_unknown |= khz.is_none();
        self.khz_ns += i128::from(khz.unwrap_or(0)) * i128::from(time.0);
        self.time += i128::from(time.0);
    }

    fn mean(&self) -> Option<f64> {
        (!self.is_unknown && self.time > 0).then(|| self.khz_ns as f64 / self.time as f64)
    }
}
