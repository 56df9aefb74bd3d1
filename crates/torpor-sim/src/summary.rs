// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! From counters to what is shown.

use crate::catalogue;
use crate::cpufreq::Cpufreq;
use crate::frequency::frequency;
use crate::machine::Counted;
use crate::options::Request;
use crate::oracle::AgainstOracle;
use crate::outcome::{
    DeviceOutcome, GovernorOutcome, PerfDomainOutcome, Policies, SeedOutcome, TaskOutcome,
};
use crate::stats::Interval;
use std::collections::BTreeMap;
use torpor_engine::latency::Latencies;
use torpor_engine::outcome::LatencyOutcome;
use torpor_engine::summary::{self, CpuCounts, Described, RunCounts, power_mw};
use torpor_engine::totals::CpuTotals;
use torpor_platform::{Platform, Scope, StatePower};
use torpor_units::{CpuId, Duration, Energy};

type Metrics = BTreeMap<&'static str, Option<f64>>;

/// One seed under one governor, or why there is none.
pub type SeedRun = Result<Counted, String>;

/// A column over all its seeds. The first that failed speaks for all.
pub fn column(
    described: Described,
    policies: Policies,
    request: &Request,
    runs: Vec<(u64, SeedRun)>,
) -> GovernorOutcome {
    let platform = &request.platform;
    let mut failed = None;
    let mut done = Vec::new();
    for (seed, run) in runs {
        match run {
            Ok(counted) => done.push((seed, counted)),
            Err(error) => {
                failed.get_or_insert_with(|| format!("{error} (seed {seed})"));
            }
        }
    }
    let seeds: Vec<SeedOutcome> = done
        .iter()
        .map(|(seed, counted)| SeedOutcome { seed: *seed, metrics: of_one(platform, counted) })
        .collect();
    let events = done.iter().map(|(_, c)| c.events).sum();
    let tasks = tasks(request, &done);
    let perf_domains = perf_domains(platform, done.iter().map(|(_, counted)| counted));
    let devices = devices(request, &done);
    let whole = match failed {
        Some(error) => Err(error),
        None => Ok(together(platform, done.iter().map(|(_, counted)| counted))),
    };
    let mut run = summary::run_outcome(described, platform, whole);
    run.metrics = catalogue::metrics()
        .iter()
        .map(|m| {
            (m.key, mean(seeds.iter().map(|s| s.metrics[m.key])).filter(|_| run.error.is_none()))
        })
        .collect();
    GovernorOutcome {
        run,
        policies,
        perf_domains,
        seeds,
        differences: BTreeMap::new(),
        tasks,
        devices,
        events,
    }
}

fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Fills in each governor's paired differences from the first.
pub fn compare(governors: &mut [GovernorOutcome]) {
    let Some((first, others)) = governors.split_first_mut() else { return };
    for other in others {
        let pairs = || {
            first.seeds.iter().filter_map(|a| {
                let b = other.seeds.iter().find(|b| b.seed == a.seed)?;
                Some((&a.metrics, &b.metrics))
            })
        };
        other.differences = catalogue::metrics()
            .iter()
            .filter_map(|m| {
                let differences: Option<Vec<f64>> =
                    pairs().map(|(a, b)| Some(b[m.key]? - a[m.key]?)).collect();
                Some((m.key, Interval::of(&differences?)?))
            })
            .collect();
    }
}

/// Several runs as if they were one long one.
fn together<'a, 'b>(
    platform: &'a Platform,
    runs: impl Iterator<Item = &'b Counted>,
) -> RunCounts<'a> {
    let mut cpus: Vec<CpuCounts<'a>> = Vec::new();
    let mut clusters: BTreeMap<usize, (Energy, Duration)> = BTreeMap::new();
    for counted in runs {
        if cpus.is_empty() {
            cpus = counted.cpus.iter().enumerate().map(|(n, _)| nobody(platform, n)).collect();
        }
        for (sum, cpu) in cpus.iter_mut().zip(&counted.cpus) {
            sum.window += counted.span;
            sum.totals.add(&cpu.totals);
        }
        for (number, energy) in counted.static_energy.iter().enumerate() {
            let sum = clusters.entry(number).or_insert((Energy::ZERO, Duration::ZERO));
            sum.0 += *energy;
            sum.1 += counted.span;
        }
    }
    // A run may have none by its frequencies, and counts; where none has any, there is none.
    clusters.retain(|_, (energy, _)| *energy > Energy::ZERO);
    RunCounts { cpus, clusters, decisions: Vec::new() }
}

fn nobody(platform: &Platform, number: usize) -> CpuCounts<'_> {
    let cpu = CpuId(number as u32);
    let cluster = platform.cluster_of(cpu).expect("every CPU is in a cluster");
    let states = platform.clusters[cluster].idle_states.len();
    CpuCounts {
        cpu,
        cluster: (cluster, &platform.clusters[cluster]),
        window: Duration::ZERO,
        totals: CpuTotals::new(states),
    }
}

fn of_one(platform: &Platform, counted: &Counted) -> Metrics {
    let nameless = Described {
        label: String::new(),
        name: String::new(),
        kind: "governor",
        origin: String::new(),
        source_sha256: None,
        params: BTreeMap::new(),
    };
    let whole = together(platform, [counted].into_iter());
    let mut metrics = summary::run_outcome(nameless, platform, Ok(whole)).metrics;
    let span = counted.span;
    let kinds = || counted.kinds.iter();
    let mut latency = Latencies::default();
    kinds().for_each(|k| latency.add(&k.latency.clone().close()));
    let us = |latency: Option<Duration>| latency.map(Duration::as_us_f64);
    let sum = |field: fn(&crate::machine::KindTotals) -> u64| -> Option<f64> {
        Some(kinds().map(field).sum::<u64>() as f64)
    };
    let busy = counted.cpus.iter().fold(Duration::ZERO, |t, c| t + c.task_time + c.overhead);
    let shared: Energy = counted.shared_energy.iter().copied().sum();
    let energy = energy(platform, counted);
    let frequency = frequency(platform, [counted], 0..platform.clusters.len());
    metrics.extend(io(counted, busy));
    let idle_energy: Energy = counted.cpus.iter().map(|c| c.totals.energy).sum();
    let against = counted.against_oracle.filter(|_| platform.has_power());
    let over_oracle_pct = against
        .filter(|a| a.oracle > Energy::ZERO)
        .map(|against| 100.0 * (idle_energy - against.oracle).0 as f64 / against.oracle.0 as f64);
    let mw = |part: fn(&AgainstOracle) -> Energy| against.map(|a| power_mw(part(&a), span));
    metrics.extend([
        ("over_oracle_pct", over_oracle_pct),
        ("over_oracle_mw", against.map(|a| power_mw(idle_energy - a.oracle, span))),
        ("lost_too_deep_mw", mw(|a| a.too_deep)),
        ("lost_too_shallow_mw", mw(|a| a.too_shallow)),
        ("throughput", sum(|k| k.passes).map(|n| n * 1e9 / span.0 as f64)),
        ("task_latency_mean_us", us(latency.mean())),
        ("task_latency_p99_us", us(latency.quantile(0.99))),
        ("task_latency_max_us", us(latency.max())),
        ("missed_periods", sum(|k| k.missed)),
        ("busy_pct", Some(100.0 * busy.0 as f64 / span.0 as f64 / counted.cpus.len() as f64)),
        ("power_mw", energy.map(|e| power_mw(e, span))),
        ("energy_uj", energy.map(Energy::as_uj_f64)),
        ("freq_khz", frequency.mean_khz),
        ("freq_busy_khz", frequency.busy_khz),
        ("freq_transitions_per_s", frequency.transitions_per_s),
        ("ipis", Some(counted.ipis as f64)),
        ("migrations", sum(|k| k.migrations)),
        ("preemptions", sum(|k| k.preemptions)),
        (
            "package_mw",
            platform.has_power().then(|| power_mw(package_energy(platform, counted), span)),
        ),
        ("shared_state_mw", platform.has_power().then(|| power_mw(shared, span))),
    ]);
    metrics.retain(|key, _| catalogue::metrics().iter().any(|m| m.key == *key));
    metrics
}

/// Metrics of a workload with IO; nobody knows them of another one.
fn io(counted: &Counted, busy: Duration) -> Metrics {
    let span = counted.span;
    let mut latency = Latencies::default();
    counted.kinds.iter().for_each(|k| latency.add(&k.io_latency.clone().close()));
    let ios: u64 = counted.kinds.iter().map(|k| k.ios).sum();
    let any = |value: f64| (ios > 0).then_some(value);
    let us = |latency: Option<Duration>| latency.map(Duration::as_us_f64);
    let busiest = counted.devices.iter().map(|d| d.busy).max();
    BTreeMap::from([
        ("iops", any(ios as f64 * 1e9 / span.0 as f64)),
        ("io_latency_mean_us", us(latency.mean())),
        ("io_latency_p50_us", us(latency.quantile(0.5))),
        ("io_latency_p99_us", us(latency.quantile(0.99))),
        ("io_latency_max_us", us(latency.max())),
        ("device_util_pct", busiest.and_then(|b| any(100.0 * b.0 as f64 / span.0 as f64))),
        ("cpu_per_io_us", any(busy.as_us_f64() / ios as f64)),
    ])
}

/// Everything that takes power; `None` unless all of it is known.
fn energy(platform: &Platform, counted: &Counted) -> Option<Energy> {
    let clusters = (0..platform.clusters.len()).map(|n| cluster_energy(platform, n, counted));
    let package = package_energy(platform, counted);
    clusters.into_iter().try_fold(package, |sum, energy| Some(sum + energy?))
}

/// Of a cluster's CPUs, busy and idle, and of what they share.
fn cluster_energy(platform: &Platform, number: usize, counted: &Counted) -> Option<Energy> {
    if !platform.has_power() {
        return None;
    }
    let cluster = &platform.clusters[number];
    let mut energy = counted.static_energy[number] + counted.shared_energy[number];
    for cpu in &cluster.cpus {
        let cpu = &counted.cpus[cpu.index()];
        energy += cpu.totals.energy;
        for (opp, time) in cpu.busy_at.iter().enumerate() {
            energy += cluster.opps.get(opp)?.active_power?.over(*time);
        }
    }
    Some(energy)
}

/// Each clock over all seeds.
fn perf_domains<'a>(
    platform: &Platform,
    runs: impl Iterator<Item = &'a Counted> + Clone,
) -> Vec<PerfDomainOutcome> {
    let of_cluster = |(number, cluster): (usize, &torpor_platform::Cluster)| {
        let frequency = frequency(platform, runs.clone(), number..number + 1);
        let energies = runs.clone().map(|counted| cluster_energy(platform, number, counted));
        PerfDomainOutcome {
            name: cluster.name.clone(),
            cpus: cluster.cpus.iter().map(|cpu| cpu.0).collect(),
            freq_khz: frequency.mean_khz,
            freq_busy_khz: frequency.busy_khz,
            freq_transitions_per_s: frequency.transitions_per_s,
            energy_uj: mean(energies.map(|energy| energy.map(Energy::as_uj_f64))),
        }
    };
    platform.clusters.iter().enumerate().map(of_cluster).collect()
}

/// What the package takes beside its CPUs and clusters.
fn package_energy(platform: &Platform, counted: &Counted) -> Energy {
    platform.floor_power.over(counted.span) + counted.awake_energy
}

fn tasks(request: &Request, runs: &[(u64, Counted)]) -> Vec<TaskOutcome> {
    let named = request.workload.tasks.iter().enumerate();
    named
        .map(|(index, kind)| {
            let mut latency = Latencies::default();
            let mut pass_time = Latencies::default();
            let mut io_latency = Latencies::default();
            let mut sum = TaskOutcome {
                name: kind.name.clone(),
                started: 0,
                ended: 0,
                cpu_time_ns: 0,
                wakeups: 0,
                passes: 0,
                missed: 0,
                migrations: 0,
                preemptions: 0,
                ios: 0,
                latency: LatencyOutcome::default(),
                pass_time: LatencyOutcome::default(),
                io_latency: LatencyOutcome::default(),
            };
            for (_, counted) in runs {
                let own = &counted.kinds[index];
                sum.started += own.started;
                sum.ended += own.ended;
                sum.cpu_time_ns += own.cpu_time.0;
                sum.wakeups += own.wakeups;
                sum.passes += own.passes;
                sum.missed += own.missed;
                sum.migrations += own.migrations;
                sum.preemptions += own.preemptions;
                latency.add(&own.latency.clone().close());
                sum.ios += own.ios;
                pass_time.add(&own.pass_time.clone().close());
                io_latency.add(&own.io_latency.clone().close());
            }
            sum.latency = LatencyOutcome::new(&latency);
            sum.pass_time = LatencyOutcome::new(&pass_time);
            sum.io_latency = LatencyOutcome::new(&io_latency);
            sum
        })
        .collect()
}

fn devices(request: &Request, runs: &[(u64, Counted)]) -> Vec<DeviceOutcome> {
    let span: i64 = runs.iter().map(|(_, counted)| counted.span.0).sum();
    let of_all = |index: usize| runs.iter().map(move |(_, counted)| &counted.devices[index]);
    let named = request.workload.devices.iter().enumerate();
    named
        .map(|(index, device)| {
            let mut response = Latencies::default();
            of_all(index).for_each(|d| response.add(&d.response.clone().close()));
            let share = |ns: f64| if span > 0 { ns / span as f64 } else { 0.0 };
            DeviceOutcome {
                name: device.name().to_owned(),
                requests: of_all(index).map(|d| d.requests).sum(),
                util_pct: share(100.0 * of_all(index).map(|d| d.busy.0).sum::<i64>() as f64),
                queue_size: share(of_all(index).map(|d| d.queue_time).sum::<i128>() as f64),
                response: LatencyOutcome::new(&response),
            }
        })
        .collect()
}

/// What the numbers do not say, where it applies.
pub fn notes(request: &Request, cpufreq: &[Cpufreq]) -> Vec<String> {
    let platform = &request.platform;
    let frequencies = match cpufreq {
        [Cpufreq::Performance] => "at the highest frequency".to_owned(),
        _ if platform.clusters.iter().all(|c| c.opps.is_empty()) => {
            format!("at one frequency, as nobody has told the OPPs of `{}`", platform.name)
        }
        [only] => format!("under {only}"),
        several => format!("under {} frequency policies", several.len()),
    };
    let mut notes = vec![format!(
        "closed-loop simulation of {:.6} s {frequencies}: metrics are means over {} \
         seeds, and every governor meets the same ones",
        request.options.duration.0 as f64 / 1e9,
        request.options.seeds
    )];
    let boosts = &request.options.io_boosts;
    if !boosts.is_empty() && !cpufreq.iter().all(|c| c.is_schedutil()) {
        notes.push(
            "an IO boost raises frequencies under schedutil alone; under another policy it only \
             counts where tasks are placed"
                .to_owned(),
        );
    }
    notes.push(
        "the scheduler follows the kernel's rules in outline (docs/fidelity.md, `sched-`)"
            .to_owned(),
    );
    if platform.has_power() {
        notes.push("a state asked for is taken as the state got; hardware may demote".to_owned());
    } else {
        notes.push(format!(
            "nobody has published idle power for `{}`: energy is not known",
            platform.name
        ));
    }
    if request.options.against_oracle {
        notes.push(
            "the oracle replays the idleness of each governor's own run: it says what that could \
             have cost, not what would have happened had it chosen"
                .to_owned(),
        );
    }
    let typical: Vec<String> = request
        .workload
        .devices
        .iter()
        .filter(|device| device.ships(platform))
        .map(|device| format!("`{}`", device.name()))
        .collect();
    if !typical.is_empty() {
        notes.push(format!(
            "no measured IO device of `{}`: {} by data sheets and choice (platforms/io_devices)",
            platform.name,
            typical.join(", ")
        ));
    }
    let shares =
        |s: &torpor_platform::IdleState| s.scope != Scope::Cpu && s.power != StatePower::Unknown;
    if platform.clusters.iter().flat_map(|c| &c.idle_states).any(shares) {
        notes.push(
            "idle power has states that a cluster or package shares as if each CPU entered them \
             alone; power has what they fail to save while others are awake"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(energy: i128) -> Counted {
        Counted {
            span: Duration(1_000),
            cpus: Vec::new(),
            kinds: Vec::new(),
            devices: Vec::new(),
            ipis: 0,
            events: 0,
            static_energy: vec![Energy(energy), Energy::ZERO],
            shared_energy: Vec::new(),
            awake_energy: Energy::ZERO,
            domains: Vec::new(),
            alive: Vec::new(),
            against_oracle: None,
        }
    }

    /// The second run had a frequency without static power all along: the mean is half.
    #[test]
    fn a_run_without_static_energy_counts_in_the_mean_of_those_with() {
        let platform = torpor_platform::resolve("pixel6").unwrap();
        let counts = together(&platform, [run(80), run(0)].iter());
        let clusters: Vec<_> = counts.clusters.into_iter().collect();
        assert_eq!(clusters, [(0, (Energy(80), Duration(2_000)))]);
    }
}
