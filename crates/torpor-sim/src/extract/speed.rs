// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Speed of each recorded CPU.

use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration};
use torpor_trace::{EventKind, Trace};

/// The capacity of the biggest CPU (`SCHED_CAPACITY_SCALE`).
const CAPACITY_SCALE: f64 = 1024.0;

struct CpuSpeed {
    capacity_ratio: f64,
    freq_max_khz: u32,
    /// Frequency; 0 if it is not recorded.
    freq_khz: u32,
}

/// Speed of every CPU, relative to the biggest one at its highest frequency.
pub(super) struct Speeds(Vec<CpuSpeed>);

impl Speeds {
    /// Without a platform all CPUs are equal, and the highest recorded frequency is the maximum.
    /// Before a CPU's first `cpu_frequency` event it is assumed to run at that event's frequency.
    pub(super) fn new(trace: &Trace, platform: Option<&Platform>) -> Speeds {
        let of_cpu = |number: usize| {
            let cluster = platform.and_then(|platform| {
                let index = platform.cluster_of(CpuId(number as u32))?;
                Some(&platform.clusters[index])
            });
            CpuSpeed {
                capacity_ratio: cluster.map_or(1.0, |c| f64::from(c.capacity) / CAPACITY_SCALE),
                freq_max_khz: cluster.and_then(|c| c.opps.last()).map_or(0, |opp| opp.freq_khz),
                freq_khz: 0,
            }
        };
        let mut speeds: Vec<CpuSpeed> = (0..trace.meta.cpu_count as usize).map(of_cpu).collect();
        for event in &trace.events {
            let EventKind::CpuFrequency { freq_khz } = event.kind else { continue };
            let Some(speed) = speeds.get_mut(event.cpu.index()) else { continue };
            if speed.freq_khz == 0 {
                speed.freq_khz = freq_khz;
            }
            if platform.is_none() {
                speed.freq_max_khz = speed.freq_max_khz.max(freq_khz);
            }
        }
        Speeds(speeds)
    }

    pub(super) fn set(&mut self, cpu: CpuId, freq_khz: u32) {
        if let Some(speed) = self.0.get_mut(cpu.index()) {
            speed.freq_khz = freq_khz;
        }
    }

    /// Returns the work of a period, in ns of the biggest CPU at its highest frequency.
    pub(super) fn work_ns(&self, cpu: CpuId, time: Duration) -> f64 {
        let Some(speed) = self.0.get(cpu.index()) else { return time.0 as f64 };
        let freq_ratio = match (speed.freq_khz, speed.freq_max_khz) {
            (0, _) | (_, 0) => 1.0,
            (now, max) => (f64::from(now) / f64::from(max)).min(1.0),
        };
        time.0 as f64 * speed.capacity_ratio * freq_ratio
    }
}
