// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! From counters to what is shown.

use crate::catalogue::METRICS;
use crate::decision::Decision;
use crate::input::{Recording, SleepSource};
use crate::options::{Options, Request};
use crate::outcome::*;
use crate::replay::{Run, Seat};
use crate::totals::{CpuTotals, StateTotals};
use std::collections::BTreeMap;
use torpor_platform::{Cluster, Platform, Scope};
use torpor_units::{CpuId, Duration, Energy, Power};

/// The report's strip holds at most this many sleeps a governor, to stay a small file.
const STRIP_SLEEPS: usize = 20_000;

pub fn platform_info(platform: &Platform) -> PlatformInfo {
    PlatformInfo {
        name: platform.name.clone(),
        title: platform.title.clone(),
        sha256: platform.sha256.clone(),
        hz: platform.hz.get(),
        sources: platform.sources.clone(),
        has_power: platform.has_power(),
        clusters: platform
            .clusters
            .iter()
            .map(|c| ClusterInfo {
                name: c.name.clone(),
                cpus: c.cpus.iter().map(|cpu| cpu.0).collect(),
                capacity: c.capacity,
                states: c
                    .idle_states
                    .iter()
                    .map(|s| StateInfo {
                        name: s.name.clone(),
                        entry_latency_ns: s.entry_latency.0,
                        exit_latency_ns: s.exit_latency.0,
                        latency_ns: s.latency.0,
                        target_residency_ns: s.target_residency.0,
                        polling: s.is_polling(),
                        disabled: s.is_disabled,
                    })
                    .collect(),
            })
            .collect(),
    }
}

pub fn inputs_info(recording: &Recording) -> InputsInfo {
    let mut sources = SleepSource::ALL.map(|_| 0u64);
    for span in recording.cpus.iter().flat_map(|c| &c.spans) {
        sources[span.source as usize] += 1;
    }
    let spans = recording.span_count() as u64;
    InputsInfo {
        spans,
        merged_ticks: recording.stats.merged_ticks,
        merged_poll_timeouts: recording.stats.merged_poll_timeouts,
        cut_sleeps: recording.stats.cut_sleeps,
        unclosed_entries: recording.stats.unclosed_entries,
        tick_hz_recorded: recording.hz().map(|hz| hz.get()),
        sleep_length_sources: by_source(&sources),
        wake_stamp_sources: recording.stats.stamps.clone(),
    }
}

fn by_source(counts: &[u64]) -> BTreeMap<&'static str, u64> {
    SleepSource::ALL.iter().zip(counts).map(|(source, n)| (source.key(), *n)).collect()
}

/// Who decided, for the record.
pub struct Described {
    pub label: String,
    pub name: String,
    pub kind: &'static str,
    pub origin: String,
    pub source_sha256: Option<String>,
    pub params: BTreeMap<String, String>,
}

/// One CPU's counters, and where and how long they were counted.
pub struct CpuCounts<'a> {
    /// As the recording numbers it.
    pub cpu: CpuId,
    /// Position among the platform's clusters, and the cluster.
    pub cluster: (usize, &'a Cluster),
    pub window: Duration,
    pub totals: CpuTotals,
}

/// What one governor's run comes to.
pub struct RunCounts<'a> {
    pub cpus: Vec<CpuCounts<'a>>,
    /// Own energy and common time of each cluster that takes power beside its CPUs.
    pub clusters: BTreeMap<usize, (Energy, Duration)>,
    pub decisions: Vec<Decision>,
}

impl<'a> RunCounts<'a> {
    /// Of a replay.
    pub fn of_replay(seats: &[Seat<'a>], run: Run) -> RunCounts<'a> {
        let cpus = seats.iter().zip(run.cpus).map(|(seat, totals)| {
            let (start, end) = seat.input.window();
            CpuCounts {
                cpu: seat.input.cpu,
                cluster: seat.cluster,
                window: end.since(start),
                totals,
            }
        });
        RunCounts { cpus: cpus.collect(), clusters: run.clusters, decisions: run.decisions }
    }
}

/// Sums of one cluster, over the CPUs that were run.
struct ClusterSums {
    cpus: Vec<u32>,
    totals: CpuTotals,
    window: Duration,
    power_mw: f64,
    static_mw: Option<f64>,
}

pub fn run_outcome(
    described: Described,
    platform: &Platform,
    run: Result<RunCounts<'_>, String>,
) -> RunOutcome {
    let mut outcome = RunOutcome {
        governor: described.label,
        name: described.name,
        kind: described.kind,
        origin: described.origin,
        source_sha256: described.source_sha256,
        params: described.params,
        error: None,
        metrics: METRICS.iter().map(|m| (m.key, None)).collect(),
        clusters: Vec::new(),
        latency: LatencyOutcome::default(),
        sleep_length_sources: by_source(&[0; SleepSource::ALL.len()]),
        cpus: Vec::new(),
        decisions: Vec::new(),
    };
    let run = match run {
        Ok(run) => run,
        Err(message) => {
            outcome.error = Some(message);
            return outcome;
        }
    };
    let sums = cluster_sums(platform, &run);
    outcome.clusters = platform
        .clusters
        .iter()
        .zip(&sums)
        .filter(|(_, sums)| !sums.cpus.is_empty())
        .map(|(cluster, sums)| cluster_outcome(platform, cluster, sums))
        .collect();
    outcome.cpus = run
        .cpus
        .iter()
        .map(|counts| CpuOutcome {
            cpu: counts.cpu,
            cluster: counts.cluster.1.name.clone(),
            states: states(counts.cluster.1, &counts.totals.states),
        })
        .collect();
    let mut all = CpuTotals::new(0);
    run.cpus.iter().for_each(|cpu| all.add(&cpu.totals));
    let window: i128 = sums.iter().map(|s| i128::from(s.window.0)).sum();
    outcome.metrics = metrics(platform, &sums, &all, window);
    outcome.latency = LatencyOutcome::new(&all.latency);
    outcome.sleep_length_sources = by_source(&all.sources);
    outcome.decisions = run.decisions;
    outcome
}

fn cluster_sums(platform: &Platform, run: &RunCounts<'_>) -> Vec<ClusterSums> {
    let mut sums: Vec<ClusterSums> = platform
        .clusters
        .iter()
        .map(|cluster| ClusterSums {
            cpus: Vec::new(),
            totals: CpuTotals::new(cluster.idle_states.len()),
            window: Duration::ZERO,
            power_mw: 0.0,
            static_mw: None,
        })
        .collect();
    for (&cluster, &(energy, time)) in &run.clusters {
        sums[cluster].static_mw = Some(power_mw(energy, time));
    }
    for counts in &run.cpus {
        let sum = &mut sums[counts.cluster.0];
        sum.cpus.push(counts.cpu.0);
        sum.totals.add(&counts.totals);
        sum.window += counts.window;
        sum.power_mw += power_mw(counts.totals.energy, counts.window);
    }
    sums
}

/// Energy over time; 0 for no time.
pub fn power_mw(energy: Energy, time: Duration) -> f64 {
    if time <= Duration::ZERO { 0.0 } else { energy.as_uj_f64() * 1e6 / time.0 as f64 }
}

fn cluster_outcome(platform: &Platform, cluster: &Cluster, sums: &ClusterSums) -> ClusterOutcome {
    let known = platform.has_power();
    ClusterOutcome {
        name: cluster.name.clone(),
        cpus: sums.cpus.clone(),
        running_ns: (sums.window - sums.totals.idle_time()).0.max(0),
        idle_energy_uj: known.then(|| sums.totals.energy.as_uj_f64()),
        idle_power_mw: known.then_some(sums.power_mw),
        cluster_power_mw: sums.static_mw,
        states: states(cluster, &sums.totals.states),
    }
}

fn states(cluster: &Cluster, totals: &[StateTotals]) -> Vec<StateOutcome> {
    cluster
        .idle_states
        .iter()
        .zip(totals)
        .enumerate()
        .map(|(index, (state, t))| StateOutcome {
            name: state.name.clone(),
            index,
            usage: t.usage,
            above: t.above,
            below: t.below,
            rejected: t.rejected,
            time_ns: t.time.0,
        })
        .collect()
}

fn metrics(
    platform: &Platform,
    clusters: &[ClusterSums],
    all: &CpuTotals,
    window_ns: i128,
) -> BTreeMap<&'static str, Option<f64>> {
    let sum = |field: fn(&StateTotals) -> u64| -> u64 { all.states.iter().map(field).sum() };
    let sleeps = sum(|s| s.usage);
    let share = |part: f64, whole: f64| (whole > 0.0).then(|| 100.0 * part / whole);
    let of_sleeps = |count: u64| share(count as f64, sleeps as f64);
    let of_time = |time: Duration| share(time.0 as f64, window_ns as f64);
    let deepest = clusters
        .iter()
        .filter_map(|c| c.totals.states.last())
        .fold(Duration::ZERO, |sum, s| sum + s.time);
    let us = |latency: Option<Duration>| latency.map(Duration::as_us_f64);
    let known = platform.has_power();
    BTreeMap::from([
        ("wakeups", Some(all.wakeups as f64)),
        ("sleeps", Some(sleeps as f64)),
        ("above_pct", of_sleeps(sum(|s| s.above))),
        ("below_pct", of_sleeps(sum(|s| s.below))),
        ("deepest_residency_pct", of_time(deepest)),
        ("idle_residency_pct", of_time(all.idle_time())),
        ("latency_mean_us", us(all.latency.mean())),
        ("latency_p50_us", us(all.latency.quantile(0.50))),
        ("latency_p99_us", us(all.latency.quantile(0.99))),
        ("latency_max_us", us(all.latency.max())),
        ("forbidden_sleeps", Some(all.forbidden as f64)),
        ("idle_power_mw", known.then(|| clusters.iter().map(|c| c.power_mw).sum())),
        ("cluster_power_mw", clusters.iter().filter_map(|c| c.static_mw).reduce(|a, b| a + b)),
        ("idle_energy_uj", known.then(|| all.energy.as_uj_f64())),
        ("over_oracle_pct", None),
        ("tick_wakeups", Some(all.tick_wakeups as f64)),
        ("governor_timer_wakeups", Some(all.governor_timer_wakeups as f64)),
        ("poll_timeouts", Some(all.poll_timeouts as f64)),
        ("poll_interrupts", Some(all.poll_interrupts as f64)),
        ("ipis_saved", Some(all.ipis_saved as f64)),
        ("delay_total_us", Some(all.delay_total.as_us_f64())),
        ("absorbed_spans", Some(all.absorbed_spans as f64)),
    ])
}

/// Fills in each run's distance from the oracle, if one ran and energies are known.
pub fn compare_with_oracle(runs: &mut [RunOutcome]) {
    let energy = |run: &RunOutcome| run.metrics["idle_energy_uj"];
    let Some(best) = runs.iter().find(|r| r.kind == "oracle").and_then(energy) else { return };
    for run in runs.iter_mut() {
        let over = energy(run).filter(|_| best > 0.0).map(|e| 100.0 * (e - best) / best);
        run.metrics.insert("over_oracle_pct", over);
    }
}

/// The busiest CPU's sleeps under every governor.
pub fn strip(
    request: &Request,
    seats: &[Seat<'_>],
    seat: usize,
    runs: &[Result<Run, String>],
) -> Strip {
    let input = seats[seat].input;
    let (start, end) = input.window();
    let mut truncated_at = end;
    for run in runs.iter().flatten() {
        let mut own = run.decisions.iter().filter(|d| d.slot == seat);
        if let Some(cut) = own.nth(STRIP_SLEEPS) {
            truncated_at = truncated_at.min(cut.from);
        }
    }
    let rows = request
        .governors
        .iter()
        .zip(runs)
        .filter_map(|(spec, run)| {
            let run = run.as_ref().ok()?;
            let segments = run
                .decisions
                .iter()
                .filter(|d| d.slot == seat && d.from < truncated_at)
                .map(|d| (d.from.0, d.resume.0, d.state))
                .collect();
            Some(StripRow { governor: spec.to_string(), segments })
        })
        .collect();
    Strip {
        cpu: input.cpu.0,
        start_ns: start.0,
        end_ns: truncated_at.0,
        truncated: truncated_at < end,
        rows,
    }
}

/// What of the recorded sleeps is not replayed as it was.
fn left_out(cut_sleeps: u64, unclosed_entries: u64) -> impl Iterator<Item = String> {
    let told = [
        (cut_sleeps, "recorded sleeps are left out: the recording shows one end of them only"),
        (
            unclosed_entries,
            "idle entries have no exit before the next entry, which is taken for it: events are \
             missing",
        ),
    ];
    told.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"))
}

/// What the numbers do not say, where it applies.
pub fn notes(platform: &Platform, options: &Options, traces: &[TraceOutcome]) -> Vec<String> {
    let mut notes = vec![
        "open-loop replay: a slower wake-up delays the work behind it, but does not change what \
         the work is or who does it"
            .to_owned(),
    ];
    if platform.has_power() {
        notes.push("a state asked for is taken as the state got; hardware may demote".to_owned());
    } else {
        notes.push(format!(
            "nobody has published idle power for `{}`: energy is not known; the oracle goes by \
             target residencies",
            platform.name
        ));
    }
    if platform.floor_power > Power::ZERO {
        notes.push(format!(
            "idle power is that of the replayed CPUs; the package takes {:.0} mW on top",
            platform.floor_power.as_mw_f64()
        ));
    }
    if platform.awake_power > Power::ZERO {
        notes.push(format!(
            "left out: {:.0} mW of the package while any CPU works or polls",
            platform.awake_power.as_mw_f64()
        ));
    }
    let has_opps = platform.clusters.iter().any(|c| c.opps.len() > 1);
    if has_opps && platform.has_power() && traces.iter().any(|t| !t.trace.carries.frequency) {
        notes.push(
            "no cpu_frequency events in the recording: idle power is that at the lowest OPP"
                .to_owned(),
        );
    }
    if platform.clusters.iter().flat_map(|c| &c.idle_states).any(|s| s.scope != Scope::Cpu) {
        notes.push(
            "states that a cluster or package shares are costed as if each CPU entered them alone"
                .to_owned(),
        );
    }
    let sum = |count: fn(&InputsInfo) -> u64| traces.iter().map(|t| count(&t.inputs)).sum();
    notes.extend(left_out(sum(|i| i.cut_sleeps), sum(|i| i.unclosed_entries)));
    let by_source =
        |key| -> u64 { traces.iter().map(|t| t.inputs.sleep_length_sources[key]).sum() };
    let spans: u64 = traces.iter().map(|t| t.inputs.spans).sum();
    if 2 * by_source(SleepSource::TickOnly.key()) > spans {
        notes.push(
            "for most sleeps the recording tells no timer, so governors are told of none: those \
             that go by the next timer are not judged fairly; record timer events or sched_waking"
                .to_owned(),
        );
    }
    if traces.iter().any(|t| !t.trace.carries.switches) {
        notes
            .push("without task switches no CPU counts as utilized, whatever ran on it".to_owned());
    }
    if let Some(events) = traces.iter().find_map(|t| t.agreement.as_ref()?.first_events) {
        notes.push(format!(
            "the agreement is that of the recording's first {events} events; `torpor fidelity` \
             judges all"
        ));
    }
    let stamps = |key| -> u64 { traces.iter().map(|t| t.inputs.wake_stamp_sources[key]).sum() };
    if options.recorded_on.is_none() && stamps("exit_stamp") > 0 {
        notes.push(
            "where only the cpu_idle exit is known, it is taken for the moment of the event; name \
             the recorded machine with --recorded-on to subtract its exit latency"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::left_out;

    #[test]
    fn only_what_was_left_out_is_told() {
        assert_eq!(left_out(0, 0).count(), 0);
        let told: Vec<String> = left_out(2, 0).collect();
        assert!(told.len() == 1 && told[0].starts_with("2 recorded sleeps"), "{told:?}");
        assert!(left_out(0, 7).next().unwrap().starts_with("7 idle entries"));
    }
}
