// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Wake-up latencies of idle states: from the cause of a wake-up to the exit from idle.
//!
//! Each sleep counts once: under the event that shows the time of its cause, or under the reason
//! for which it shows no latency. Entry latencies cannot be measured: no event marks the moment at
//! which a CPU has reached its state.

use super::refill::{Bursts, refills};
use super::{
    CauseTime, LatencyStats, LeftOut, LeftOutStats, Measurement, PlatformLines, RefillStats,
    RefillVerdict, Stats,
};
use crate::trace_info::TraceInfo;
use std::collections::{BTreeMap, BTreeSet};
use torpor_machine::platform::{IdleState, Platform};
use torpor_machine::units::{CpuId, Duration};
use torpor_result::record::Head;

/// Cluster of the platform, if known, and index of the state.
type Place = (Option<usize>, usize);

/// Latencies of some recordings, by state and cause.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    times_ns: BTreeMap<(Place, CauseTime), Vec<i64>>,
    left_out: BTreeMap<(Place, LeftOut), u64>,
}

/// The fewest wake-ups whose median describes a state.
const COUNT_MIN: u64 = 20;

/// Number of equally likely values that describe a distribution.
const VALUES: usize = 10;

impl Latencies {
    pub(super) fn add(&mut self, place: Place, measured: Result<(CauseTime, Duration), LeftOut>) {
        match measured {
            Ok((cause, time)) => {
                self.times_ns.entry((place, cause)).or_default().push(time.0);
            }
            Err(reason) => *self.left_out.entry((place, reason)).or_default() += 1,
        }
    }

    fn merge(&mut self, other: Latencies) {
        for (key, times_ns) in other.times_ns {
            self.times_ns.entry(key).or_default().extend(times_ns);
        }
        for (key, count) in other.left_out {
            *self.left_out.entry(key).or_default() += count;
        }
    }

    fn sorted(mut self) -> Latencies {
        self.times_ns.values_mut().for_each(|times_ns| times_ns.sort_unstable());
        self
    }

    pub(super) fn rows(self, platform: Option<&Platform>) -> Vec<LatencyStats> {
        let of = |(&(place, cause), times_ns): (&(Place, CauseTime), &Vec<i64>)| {
            let (cluster, name, state) = described(place, platform);
            let sum: i128 = times_ns.iter().map(|&time_ns| i128::from(time_ns)).sum();
            LatencyStats {
                cluster,
                state: place.1,
                name,
                advertised_ns: state.map(|state| state.latency.0),
                cause,
                count: times_ns.len() as u64,
                min_ns: times_ns[0],
                p10_ns: quantile(times_ns, 10),
                p50_ns: quantile(times_ns, 50),
                p90_ns: quantile(times_ns, 90),
                p99_ns: quantile(times_ns, 99),
                mean_ns: (sum / times_ns.len() as i128) as i64,
            }
        };
        self.sorted().times_ns.iter().map(of).collect()
    }

    /// Returns the lines for a platform's states: of IPIs, or else of timers, for which Intel's
    /// processors wake up early. A `sched_waking` is too early, because the waker selects a CPU
    /// afterwards.
    fn lines(&self, platform: Option<&Platform>, traces: &[TraceInfo]) -> Vec<PlatformLines> {
        let places: BTreeSet<Place> = self.times_ns.keys().map(|(place, _)| *place).collect();
        let of = |&place: &Place| {
            let (cluster, name, state) = described(place, platform);
            // A polling CPU has nothing to leave.
            if state.is_some_and(IdleState::is_polling) {
                return None;
            }
            let causes = [CauseTime::Ipi, CauseTime::Timer];
            let (cause, times_ns) = causes.iter().find_map(|cause| {
                let times_ns = self.times_ns.get(&(place, *cause))?;
                let is_enough = times_ns.len() as u64 >= COUNT_MIN;
                (is_enough && quantile(times_ns, 50) > 0).then_some((*cause, times_ns))
            })?;
            Some(PlatformLines {
                cluster,
                state: place.1,
                name,
                toml: toml(times_ns, cause, traces),
            })
        };
        places.iter().filter_map(of).collect()
    }

    fn left_out(&self, platform: Option<&Platform>) -> Vec<LeftOutStats> {
        let of = |(&(place, reason), &count): (&(Place, LeftOut), &u64)| {
            let (cluster, name, _) = described(place, platform);
            LeftOutStats { cluster, state: place.1, name, reason, count }
        };
        self.left_out.iter().map(of).collect()
    }
}

/// Returns the names of a cluster and its state, and the state.
fn described(
    place: Place,
    platform: Option<&Platform>,
) -> (Option<String>, Option<String>, Option<&IdleState>) {
    let cluster = platform.zip(place.0).map(|(platform, cluster)| &platform.clusters[cluster]);
    let state = cluster.and_then(|cluster| cluster.idle_states.get(place.1));
    (cluster.map(|cluster| cluster.name.clone()), state.map(|state| state.name.clone()), state)
}

/// Returns the value that this share of the sorted times, in percent, does not exceed.
fn quantile(times_ns: &[i64], pct: usize) -> i64 {
    let rank = (times_ns.len() * pct).div_ceil(100);
    times_ns[rank.max(1) - 1]
}

fn us(time_ns: i64) -> String {
    ((time_ns as f64 / 10.0).round() / 100.0).to_string()
}

/// Returns the names of the recordings.
fn files(traces: &[TraceInfo]) -> String {
    let file = |trace: &TraceInfo| {
        let name = std::path::Path::new(&trace.path).file_name();
        name.map_or_else(|| trace.path.clone(), |name| name.to_string_lossy().into_owned())
    };
    let mut files: Vec<String> = traces.iter().map(file).collect();
    files.dedup();
    files.join(", ")
}

fn toml(times_ns: &[i64], cause: CauseTime, traces: &[TraceInfo]) -> Vec<String> {
    let source = format!(
        "torpor platform measure: median of {} wake-ups by {} in {}",
        times_ns.len(),
        cause.text(),
        files(traces)
    );
    let step = 100 / VALUES;
    let values: Vec<i64> = (0..VALUES).map(|n| quantile(times_ns, n * step + step / 2)).collect();
    let mut lines = vec![
        format!("measured_exit_latency_us = {}", us(quantile(times_ns, 50))),
        format!("measured_latency_source = {}", serde_json::Value::from(source)),
    ];
    // A length is not negative.
    if values[0] >= 0 {
        let values: Vec<String> = values.into_iter().map(us).collect();
        let values = format!("{{ dist = \"empirical\", values = [{}] }}", values.join(", "));
        lines.push(format!("# or, all of it: measured_exit_latency_us = {values}"));
    }
    lines
}

/// Returns the lines for a state whose refill is measured.
fn refill_lines(refill: &RefillStats, traces: &[TraceInfo]) -> Option<PlatformLines> {
    let known = refill.refill_ns.zip(refill.low_ns).zip(refill.high_ns);
    let ((time_ns, low_ns), high_ns) =
        known.filter(|_| refill.verdict == RefillVerdict::Measured)?;
    let source = format!(
        "torpor platform measure: {} to {} by {} pairs of bursts in {}",
        us(low_ns),
        us(high_ns),
        refill.pairs,
        files(traces)
    );
    let toml = vec![
        format!("refill_us = {}", us(time_ns)),
        format!("refill_source = {}", serde_json::Value::from(source)),
    ];
    let RefillStats { cluster, state, name, .. } = refill.clone();
    Some(PlatformLines { cluster: Some(cluster), state, name, toml })
}

/// What has read a recording.
pub type Reading<'a> = (Stats<'a>, Bursts<'a>);

/// Returns a reader of recordings of this machine.
pub fn reading(platform: Option<&Platform>) -> Reading<'_> {
    (Stats::new(platform), Bursts::new(platform))
}

/// Returns the latencies and refills of recordings of one machine, each with what has read it.
pub fn measurement(
    platform: Option<&Platform>,
    read: Vec<(TraceInfo, Reading<'_>)>,
) -> Measurement {
    let (mut recordings, mut latencies, mut cut_sleeps) = (Vec::new(), Latencies::default(), 0);
    let mut bursts = Vec::new();
    for (info, (stats, of_tasks)) in read {
        recordings.push(info);
        latencies.merge(stats.latency);
        cut_sleeps += stats.cut_sleeps;
        bursts.push(of_tasks);
    }
    let latencies = latencies.sorted();
    let refill = refills(platform, &bursts);
    let mut lines = latencies.lines(platform, &recordings);
    lines.extend(refill.iter().filter_map(|refill| refill_lines(refill, &recordings)));
    Measurement {
        head: Head::of("latency"),
        platform: platform.map(|platform| platform.name.clone()),
        cut_sleeps,
        left_out: latencies.left_out(platform),
        refill,
        lines,
        latency: latencies.rows(platform),
        recordings,
    }
}

impl Stats<'_> {
    /// Returns the place of a CPU's state, and its advertised latency.
    pub(super) fn place(&self, cpu: CpuId, state: usize) -> (Place, Duration) {
        let place = (self.platform.and_then(|platform| platform.cluster_of(cpu)), state);
        let advertised = described(place, self.platform).2.map(|state| state.latency);
        (place, advertised.unwrap_or(Duration::ZERO))
    }
}
