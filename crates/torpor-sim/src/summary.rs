// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Makes results of counters.

use crate::cpufreq::Cpufreq;
use crate::frequency::frequency;
use crate::machine::{Counted, FlowTotals};
use crate::options::Request;
use crate::outcome::{
    CgroupOutcome, DeviceOutcome, FlowOutcome, GovernorOutcome, KernelInfo, NamedComparison,
    PerfDomainOutcome, Policies, SectionOutcome, SeedOutcome, TaskOutcome,
};
use crate::workload::{Flow, Workload};
use std::collections::BTreeMap;
use torpor_engine::cluster::has_static_power;
use torpor_engine::summary::{self, CpuCounts, RunCounts};
use torpor_machine::platform::{Cluster, IdleState, Platform, StatePower};
use torpor_machine::toml::format_cpu_list;
use torpor_machine::units::{CpuId, Duration, Energy, Instant, Power};
use torpor_result::metric::Place;
use torpor_result::record::{Described, LatencyOutcome};
use torpor_result::work::Flows;
use torpor_result::{
    CgroupTotals, Comparison, CpuTotals, Info, Latencies, LatencyHistogram, Sampling, Sums,
    TaskTotals, Values, Work, metric, work,
};

/// Run of one seed, or its error.
pub(crate) type SeedRun = Result<Counted, String>;

/// Returns a column over all its seeds, with the first error if one failed.
pub(crate) fn column(
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
                let of = &request.workload.name;
                failed
                    .get_or_insert_with(|| format!("{error} (simulation of `{of}`, seed {seed})"));
            }
        }
    }
    let seeds: Vec<SeedOutcome> = done
        .iter()
        .map(|(seed, counted)| SeedOutcome {
            seed: *seed,
            metrics: of_one(request, counted),
            tasks: counted.kinds.iter().map(|kind| work::of_tasks(kind, counted.span)).collect(),
            flows: (counted.flows.iter().zip(&request.workload.flows))
                .map(|(totals, flow)| of_flow(totals, flow, counted.span))
                .collect(),
            cgroups: counted.cgroups.iter().map(|g| work::of_cgroups(g, counted.span)).collect(),
        })
        .collect();
    let events = done.iter().map(|(_, c)| c.events).sum();
    let tasks = tasks(request, &done);
    let perf_domains = perf_domains(platform, done.iter().map(|(_, counted)| counted));
    let devices = devices(request, &done);
    let flows = flows(request, &done);
    let cgroups = cgroups(request, &done);
    let sections = match failed {
        Some(_) => Vec::new(),
        None => sections(request, &done),
    };
    let whole = match failed {
        Some(error) => Err(error),
        None => Ok(together(platform, done.iter().map(|(_, counted)| counted))),
    };
    let catalogue = metric::of_simulation();
    let mut run = summary::run_outcome(described, catalogue, platform, whole);
    if run.error.is_none() {
        for (key, value) in &mut run.metrics {
            *value = mean(seeds.iter().map(|seed| seed.metrics[key]));
        }
    }
    GovernorOutcome {
        run,
        policies,
        perf_domains,
        seeds,
        tasks,
        devices,
        flows,
        cgroups,
        sections,
        events,
    }
}

/// Returns the parts of the runs between changes, which come at the same times with every seed.
fn sections(request: &Request, runs: &[(u64, Counted)]) -> Vec<SectionOutcome> {
    let Some((_, first)) = runs.first() else { return Vec::new() };
    let of_seeds = |nth: usize| runs.iter().filter_map(move |(_, run)| run.sections.get(nth));
    let section = |(nth, one): (usize, &Counted)| {
        let all: Vec<Values> = of_seeds(nth).map(|section| of_one(request, section)).collect();
        let of_key = |key: &str| mean(all.iter().map(|values| values[key]));
        SectionOutcome {
            from_ns: one.from.0,
            to_ns: (one.from + one.span).0,
            metrics: all[0].keys().map(|key| (*key, of_key(key))).collect(),
        }
    };
    first.sections.iter().enumerate().map(section).collect()
}

fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Compares the columns, paired by seed.
pub(crate) fn compare(runs: &[GovernorOutcome]) -> Comparison {
    let column = |one: &GovernorOutcome| {
        one.run.column(one.seeds.iter().map(|seed| (seed.seed, &seed.metrics)))
    };
    let columns: Vec<_> = runs.iter().map(column).collect();
    torpor_result::compare(metric::of_simulation(), &columns, sampling(runs))
}

/// Returns `Exact` if several seeds gave equal runs: without randomness nothing is chance.
fn sampling(runs: &[GovernorOutcome]) -> Sampling {
    let is_equal = |run: &GovernorOutcome| {
        run.seeds.len() > 1 && run.seeds.windows(2).all(|two| two[0].metrics == two[1].metrics)
    };
    let mut finished = runs.iter().filter(|run| run.run.error.is_none()).peekable();
    match finished.peek().is_some() && finished.all(is_equal) {
        true => Sampling::Exact,
        false => Sampling::Paired,
    }
}

pub(crate) fn compare_tasks(workload: &Workload, runs: &[GovernorOutcome]) -> Vec<NamedComparison> {
    let names = workload.tasks.iter().map(|task| &task.name);
    compare_named(names, &work::task_catalogue(), runs, |seed| &seed.tasks)
}

pub(crate) fn compare_flows(workload: &Workload, runs: &[GovernorOutcome]) -> Vec<NamedComparison> {
    let names = workload.flows.iter().map(|flow| &flow.name);
    compare_named(names, &work::flow_catalogue(), runs, |seed| &seed.flows)
}

pub(crate) fn compare_cgroups(
    workload: &Workload,
    runs: &[GovernorOutcome],
) -> Vec<NamedComparison> {
    let names = workload.cgroups.iter().map(|cgroup| &cgroup.path);
    compare_named(names, &work::cgroup_catalogue(), runs, |seed| &seed.cgroups)
}

fn compare_named<'a>(
    names: impl Iterator<Item = &'a String>,
    catalogue: &[Info],
    runs: &[GovernorOutcome],
    of: fn(&SeedOutcome) -> &Vec<Values>,
) -> Vec<NamedComparison> {
    let sampling = sampling(runs);
    names
        .enumerate()
        .map(|(index, name)| {
            let column = |one: &GovernorOutcome| {
                one.run.column(one.seeds.iter().map(|seed| (seed.seed, &of(seed)[index])))
            };
            let columns: Vec<_> = runs.iter().map(column).collect();
            let comparison = torpor_result::compare(catalogue, &columns, sampling);
            NamedComparison { name: name.clone(), comparison }
        })
        .collect()
}

/// Returns the sums of several runs.
fn together<'a, 'b>(
    platform: &'a Platform,
    runs: impl Iterator<Item = &'b Counted>,
) -> RunCounts<'a> {
    let mut cpus: Vec<CpuCounts<'a>> = Vec::new();
    let mut clusters: BTreeMap<usize, Energy> = BTreeMap::new();
    let mut shared: BTreeMap<usize, Energy> = BTreeMap::new();
    let (mut package, mut span) = (Energy::ZERO, Duration::ZERO);
    for counted in runs {
        if cpus.is_empty() {
            let online = counted.cpus.iter().enumerate().filter(|(_, cpu)| cpu.is_online);
            cpus = online.map(|(n, _)| never_online(platform, n)).collect();
        }
        for (sum, cpu) in cpus.iter_mut().zip(counted.cpus.iter().filter(|cpu| cpu.is_online)) {
            sum.window += counted.span;
            sum.totals.add(&cpu.totals);
        }
        for (sums, own) in
            [(&mut clusters, &counted.static_energy), (&mut shared, &counted.shared_energy)]
        {
            for (number, energy) in own.iter().enumerate() {
                *sums.entry(number).or_insert(Energy::ZERO) += *energy;
            }
        }
        package += package_energy(platform, counted);
        span += counted.span;
    }
    // The machine's static power counts in every run, at any frequency.
    clusters.retain(|&number, _| has_static_power(&platform.clusters[number]));
    shared.retain(|&number, _| platform.clusters[number].has_shared_states());
    let package = Some(package).filter(|_| platform.has_package_power());
    RunCounts { cpus, clusters, shared, package, span }
}

fn never_online(platform: &Platform, number: usize) -> CpuCounts<'_> {
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

/// Returns the metrics of one run.
pub(crate) fn of_one(request: &Request, counted: &Counted) -> Values {
    let platform = &request.platform;
    let mut tasks = TaskTotals::default();
    counted.kinds.iter().for_each(|kind| tasks.add(kind));
    let has_power = platform.has_power();
    let against = counted.against_oracle.filter(|_| has_power);
    let mut flow_time = LatencyHistogram::default();
    counted.flows.iter().for_each(|flow| flow_time.add(&flow.time));
    let timed = || counted.flows.iter().zip(&request.workload.flows);
    let timed = || timed().filter(|(_, flow)| flow.deadline.is_some()).map(|(totals, _)| totals);
    let flows = |field: fn(&FlowTotals) -> u64| timed().map(field).sum();
    let work = Work {
        span: counted.span,
        flow_time,
        flows_ended: flows(|flow| flow.ended),
        flows_late: flows(|flow| flow.late),
        tasks,
        busy: counted.cpus.iter().fold(Duration::ZERO, |t, c| t + c.task_time + c.overhead),
        device_busy: counted.devices.iter().map(|d| d.busy).max(),
        energy: energy(platform, counted),
        frequency: frequency(platform, [counted], 0..platform.clusters.len()),
        ejected: counted.ejection.as_ref().map(|ejection| {
            let end = Instant(0) + request.options.warm_up + request.options.duration;
            end.since(ejection.at).min(counted.span)
        }),
        ipis: counted.ipis,
        timer_programmings: counted.timer_programmings,
        lost_too_deep: against.map(|a| a.too_deep),
        lost_too_shallow: against.map(|a| a.too_shallow),
    };
    let whole = together(platform, [counted].into_iter());
    let sums = whole.sums(platform);
    // The oracle chooses states of CPUs; all other energy is unchanged.
    let rest = sums.total() - sums.idle.energy;
    let oracle = counted.against_oracle.map(|a| a.oracle + rest);
    metric::values(&Sums { oracle, work: Some(work), ..sums })
}

/// Returns the total energy; `None` unless all of it is known.
fn energy(platform: &Platform, counted: &Counted) -> Option<Energy> {
    let clusters = (0..platform.clusters.len()).map(|n| cluster_energy(platform, n, counted));
    let package = package_energy(platform, counted);
    clusters.into_iter().try_fold(package, |sum, energy| Some(sum + energy?))
}

/// Returns the energy of a cluster's CPUs, busy and idle, and of their shared parts.
fn cluster_energy(platform: &Platform, number: usize, counted: &Counted) -> Option<Energy> {
    if !platform.has_power() {
        return None;
    }
    let cluster = &platform.clusters[number];
    let mut energy = counted.static_energy[number] + counted.shared_energy[number];
    for cpu in &cluster.cpus {
        let cpu = &counted.cpus[cpu.index()];
        if !cpu.is_online {
            energy += offline_power(cluster)?.over(counted.span);
        }
        energy += cpu.totals.energy;
        for (opp, time) in cpu.busy_at.iter().enumerate() {
            energy += cluster.opps.get(opp)?.active_power?.over(*time);
        }
    }
    Some(energy)
}

/// Returns the power of one CPU in its deepest state, at the lowest frequency.
fn offline_power(cluster: &Cluster) -> Option<Power> {
    match &cluster.idle_states[cluster.deepest()].power {
        StatePower::Unknown => None,
        StatePower::Constant(power) => Some(*power),
        StatePower::PerOpp(powers) => powers.first().copied(),
    }
}

/// Returns each frequency domain over all seeds.
fn perf_domains<'a>(
    platform: &Platform,
    runs: impl Iterator<Item = &'a Counted> + Clone,
) -> Vec<PerfDomainOutcome> {
    let is_online = |cpu: &CpuId| runs.clone().all(|run| run.cpus[cpu.index()].is_online);
    let of_cluster = |(number, cluster): (usize, &Cluster)| {
        let frequency = frequency(platform, runs.clone(), number..number + 1);
        let energies = runs.clone().map(|counted| cluster_energy(platform, number, counted));
        PerfDomainOutcome {
            name: cluster.name.clone(),
            cpus: cluster.cpus.iter().filter(|cpu| is_online(cpu)).map(|cpu| cpu.0).collect(),
            freq_khz: frequency.mean_khz,
            freq_busy_khz: frequency.busy_khz,
            freq_transitions_per_s: frequency.transitions_per_s,
            energy_uj: mean(energies.map(|energy| energy.map(Energy::as_uj_f64))),
        }
    };
    platform.clusters.iter().enumerate().map(of_cluster).collect()
}

/// Returns the energy of the package in addition to its CPUs and clusters.
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
                latency.add(&own.latency.latencies());
                sum.ios += own.ios;
                pass_time.add(&own.pass_time.latencies());
                io_latency.add(&own.io_latency.latencies());
            }
            sum.latency = LatencyOutcome::new(&latency);
            sum.pass_time = LatencyOutcome::new(&pass_time);
            sum.io_latency = LatencyOutcome::new(&io_latency);
            sum
        })
        .collect()
}

fn of_flow(totals: &FlowTotals, flow: &Flow, span: Duration) -> Values {
    let late = flow.deadline.map(|_| totals.late);
    work::of_flows(&Flows { time: totals.time.latencies(), late }, span)
}

fn flows(request: &Request, runs: &[(u64, Counted)]) -> Vec<FlowOutcome> {
    let named = request.workload.flows.iter().enumerate();
    named
        .map(|(index, flow)| {
            let all = || runs.iter().map(move |(_, counted)| &counted.flows[index]);
            let mut time = Latencies::default();
            all().for_each(|flow| time.add(&flow.time.latencies()));
            FlowOutcome {
                name: flow.name.clone(),
                deadline_ns: flow.deadline.map(Duration::ns),
                begun: all().map(|flow| flow.begun).sum(),
                ended: all().map(|flow| flow.ended).sum(),
                late: all().map(|flow| flow.late).sum(),
                time: LatencyOutcome::new(&time),
            }
        })
        .collect()
}

fn cgroups(request: &Request, runs: &[(u64, Counted)]) -> Vec<CgroupOutcome> {
    let named = request.workload.cgroups.iter().enumerate();
    named
        .map(|(index, cgroup)| {
            let mut sum = CgroupTotals::default();
            runs.iter().for_each(|(_, counted)| sum.add(&counted.cgroups[index]));
            CgroupOutcome {
                name: cgroup.path.clone(),
                cpu_time_ns: sum.cpu_time.0,
                nr_periods: sum.periods,
                nr_throttled: sum.throttled,
                throttled_ns: sum.throttled_time.0,
                nr_bursts: sum.bursts,
                burst_ns: sum.burst_time.0,
            }
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
            of_all(index).for_each(|d| response.add(&d.response.latencies()));
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

/// Largest difference between seeds that agree, in percentage points. Seeds of a governor that
/// learns one of two habits early differ by far more.
const AGREE_PCT: f64 = 10.0;

/// Returns notes on seeds that do not differ, and on those whose results differ so widely that a
/// mean would hide it.
pub(crate) fn seed_notes(runs: &[GovernorOutcome]) -> Vec<String> {
    if sampling(runs) == Sampling::Exact {
        let note = "the runs are equal for all seeds, because nothing in the load is random: every \
                    difference is exact for this load, and no interval shows how others vary";
        return vec![note.to_owned()];
    }
    let of_depth = |info: &&Info| info.lead.places.iter().any(|(place, _)| *place == Place::Depth);
    let all = metric::of_simulation().iter().filter(of_depth);
    let metrics = runs.iter().flat_map(|outcome| all.clone().map(move |info| (outcome, info)));
    metrics
        .filter_map(|(outcome, info)| {
            let values = outcome.seeds.iter().filter_map(|seed| seed.metrics[&*info.key]);
            let (low, high) = values.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
            (high - low > AGREE_PCT).then(|| {
                format!(
                    "seeds disagree under {}: {} from {low:.1} to {high:.1} %, so the mean represents \
                     none of them; --warm-up leaves out the start, --seeds 1 --seed N shows one",
                    outcome.run.governor,
                    info.noun()
                )
            })
        })
        .collect()
}

/// Returns the note on the seeds in which the kernel ejected a column's scheduler.
pub(crate) fn ejection_note(label: &str, runs: &[(u64, SeedRun)]) -> Option<String> {
    let ended = |(seed, run): &(u64, SeedRun)| Some((*seed, run.as_ref().ok()?.ejection.clone()?));
    let all: Vec<_> = runs.iter().filter_map(ended).collect();
    let (seed, first) = all.first()?;
    Some(format!(
        "{label}: the kernel ejected the scheduler in {} of {} seeds, in seed {seed} at {:.6} s: {}; \
         the fair class has the tasks from then on",
        all.len(),
        runs.len(),
        first.at.0 as f64 / 1e9,
        first.reason
    ))
}

/// Returns the note on the length of a simulation, its frequencies and its seeds.
fn run_note(request: &Request) -> String {
    let Request { platform, options, .. } = request;
    let frequencies = match &options.cpufreq[..] {
        [Cpufreq::OfKernel { name: "performance", .. }] => "at the highest frequency".to_owned(),
        _ if platform.clusters.iter().all(|c| c.opps.is_empty()) => {
            format!("at one frequency, because the OPPs of `{}` are not known", platform.name)
        }
        [only] => format!("under {only}"),
        several => format!("under {} cpufreq governors", several.len()),
    };
    format!(
        "closed-loop simulation of {:.6} s {frequencies}{}: metrics are means over {} \
         seeds, and every governor uses the same ones{}",
        options.duration.0 as f64 / 1e9,
        match options.warm_up {
            Duration::ZERO => String::new(),
            warm_up => format!(", after {:.6} s that do not count", warm_up.0 as f64 / 1e9),
        },
        options.seeds,
        match options.background {
            Some(_) => "",
            None => "; the workload's tasks are the machine's only ones (--background)",
        }
    )
}

/// Returns the notes on the limits of a resolved request's numbers.
pub(crate) fn notes(request: &Request, kernels: &[KernelInfo]) -> Vec<String> {
    let Request { platform, options, .. } = request;
    let mut notes = vec![run_note(request), torpor_engine::summary::latency_note(platform)];
    if let Some(online) = &options.cpus {
        notes.push(format!(
            "CPU {} of {} online: the others run no task and no interrupt, and the power of \
             their deepest state",
            format_cpu_list(online),
            platform.cpu_count()
        ));
    }
    if !options.io_boosts.is_empty() && options.cpufreq.iter().any(Cpufreq::is_held) {
        notes.push(
            "an IO boost raises frequencies only if the cpufreq governor follows utilization; with \
             a fixed frequency it only affects placement"
                .to_owned(),
        );
    }
    notes.extend(request.workload.notes.iter().cloned());
    notes.extend(kernels.iter().map(|info| {
        format!(
            "Linux {} (--kernel {}) decides: its scheduler, tick, timers, idle loop, governors and \
             schedutil are {} of its files, as they are there (docs/concepts/hosted-kernel.md)",
            info.release, info.kernel, info.hosted_files
        )
    }));
    notes.extend(kernels.iter().filter_map(config_note));
    notes.extend(kernels.iter().filter_map(unknown_note));
    notes.extend(summary::demotion_note(platform));
    if !platform.has_power() {
        notes.push(format!(
            "the idle power of `{}` is not published: energy is not known; relative energy \
             follows from target residencies, in units of the shallowest state's power",
            platform.name
        ));
    }
    notes.extend(rejects_note(platform));
    if options.against_oracle.is_some() {
        notes.push(
            "the oracle replays the idle spans of each governor's own run: it shows what these could \
             have cost, not what would have happened with its decisions"
                .to_owned(),
        );
    }
    notes.extend(devices_note(request));
    notes
}

fn config_note(info: &KernelInfo) -> Option<String> {
    let listed = |options: &BTreeMap<String, String>| {
        options.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
    };
    let mut parts = Vec::new();
    if !info.config.is_empty() {
        parts.push(format!("differs from the default by {}", listed(&info.config)));
    }
    if !info.options_not_taken.is_empty() {
        parts.push(format!("does not take {}", listed(&info.options_not_taken)));
    }
    if info.options_without_effect > 0 {
        parts.push(format!(
            "has {} other options that have no effect here",
            info.options_without_effect
        ));
    }
    (!parts.is_empty()).then(|| format!("--kernel {} {}", info.kernel, parts.join("; ")))
}

fn unknown_note(info: &KernelInfo) -> Option<String> {
    let names = &info.unknown_functions;
    let what = if names.len() == 1 { "function is" } else { "functions are" };
    (!names.is_empty()).then(|| {
        format!(
            "--kernel {}: {} {what} not hosted, and a run that reached one would end there: {}",
            info.kernel,
            names.len(),
            names.join(", ")
        )
    })
}

fn rejects_note(platform: &Platform) -> Option<String> {
    let rejecting = platform.clusters.iter().flat_map(|cluster| {
        let of_state = |state: &IdleState| {
            let pct = state.rejects?.pct;
            Some(format!("{pct} % of the entries into {} ({})", state.name, cluster.name))
        };
        cluster.idle_states.iter().filter_map(of_state)
    });
    let rejecting: Vec<String> = rejecting.collect();
    let list = rejecting.join(", ");
    (!list.is_empty()).then(|| format!("the driver rejects {list}; the oracle's are all accepted"))
}

fn devices_note(request: &Request) -> Option<String> {
    let platform = &request.platform;
    let devices = request.workload.devices.iter().filter(|device| device.ships(platform));
    let names: Vec<String> = devices.map(|device| format!("`{}`", device.name())).collect();
    let list = names.join(", ");
    let note = format!(
        "no measured IO device of `{}`: {list} by data sheets and choice (platforms/io_devices)",
        platform.name
    );
    (!list.is_empty()).then_some(note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use torpor_machine::units::Instant;

    fn run(energy: i128) -> Counted {
        Counted {
            sections: Vec::new(),
            from: Instant(0),
            span: Duration(1_000),
            cpus: Vec::new(),
            kinds: Vec::new(),
            devices: Vec::new(),
            flows: Vec::new(),
            ipis: 0,
            timer_programmings: 0,
            events: 0,
            static_energy: vec![Energy(energy), Energy::ZERO],
            shared_energy: Vec::new(),
            awake_energy: Energy::ZERO,
            domains: Vec::new(),
            cgroups: Vec::new(),
            ejection: None,
            alive: Vec::new(),
            against_oracle: None,
        }
    }

    /// The second run had a frequency without static power all along: the mean is half.
    #[test]
    fn run_without_static_energy_counts_in_the_mean() {
        let platform = torpor_machine::platform::resolve("pixel6").unwrap();
        let counts = together(&platform, [run(80), run(0)].iter());
        assert_eq!(counts.clusters.into_iter().collect::<Vec<_>>(), [(0, Energy(80))]);
        assert_eq!(counts.span, Duration(2_000));
    }
}
