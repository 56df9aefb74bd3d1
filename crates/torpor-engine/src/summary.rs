// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Results of a replay, computed from its counters.

use crate::cluster::has_static_power;
pub use crate::config_notes::config_notes;
use crate::decision::Decision;
use crate::input::{EventToExit, Recording, SleepClass, SleepSource};
use crate::options::{Options, Others};
use crate::outcome::*;
use crate::replay::{PlacedCpu, Run};
use crate::totals::{CpuTotals, StateTotals};
use std::collections::{BTreeMap, BTreeSet};
use torpor_machine::platform::{Cluster, Platform};
use torpor_machine::units::{CpuId, Duration, Energy, Hz, Power};
use torpor_result::idle::power_mw;
use torpor_result::record::Described;
use torpor_result::{Apart, Info, Sums, metric};

pub fn platform_info(platform: &Platform) -> PlatformInfo {
    PlatformInfo {
        name: platform.name.clone(),
        title: platform.title.clone(),
        sha256: platform.sha256.clone(),
        hz: platform.hz.get(),
        sources: platform.sources.clone(),
        has_power: platform.has_power(),
        power_includes: platform.power_includes.clone(),
        power_missing: platform.power_missing.clone(),
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

/// Describes the inputs; `hz` is the tick rate of the replay, `recorded_on` the recorded machine.
pub fn inputs_info(recording: &Recording, hz: Hz, recorded_on: Option<String>) -> InputsInfo {
    let mut sources = SleepSource::ALL.map(|_| 0u64);
    for span in recording.cpus.iter().flat_map(|c| &c.spans) {
        sources[span.source as usize] += 1;
    }
    let spans = recording.span_count() as u64;
    let (start, end) = recording.window();
    InputsInfo {
        spans,
        merged_ticks: recording.stats.merged_ticks,
        merged_poll_timeouts: recording.stats.merged_poll_timeouts,
        cut_sleeps: recording.stats.cut_sleeps,
        replayed_ns: end.since(start).0,
        cut_pct: cut_pct(recording, end.since(start)),
        unclosed_entries: recording.stats.unclosed_entries,
        tick_hz: hz.get(),
        tick_hz_recorded: recording.hz().map(|hz| hz.get()),
        recorded_on,
        sleep_length_sources: by_source(&sources),
        wake_stamp_sources: recording.stats.stamps.clone(),
        event_to_exit: recording.stats.event_to_exit,
    }
}

/// Returns the share of the span that is not observed.
fn cut_pct(recording: &Recording, span: Duration) -> f64 {
    let all = span.0 as f64;
    if all > 0.0 { 100.0 * (all - recording.observed().0 as f64) / all } else { 0.0 }
}

pub(crate) fn by_source(counts: &[u64]) -> SleepLengthSources {
    let mut found = SleepLengthSources::default();
    for (source, count) in SleepSource::ALL.iter().zip(counts) {
        let class = match source.class() {
            SleepClass::Recorded => &mut found.recorded,
            SleepClass::Guessed => &mut found.guessed,
            SleepClass::None => &mut found.none,
        };
        class.insert(source.key(), *count);
    }
    found
}

/// One CPU's counters, its place, and the time they cover.
pub struct CpuCounts<'a> {
    /// Number in the recording.
    pub cpu: CpuId,
    /// Position among the platform's clusters, and the cluster.
    pub cluster: (usize, &'a Cluster),
    pub window: Duration,
    pub totals: CpuTotals,
}

/// Counts of one governor's run.
pub struct RunCounts<'a> {
    pub cpus: Vec<CpuCounts<'a>>,
    /// Own energy of each cluster that takes power in addition to its CPUs.
    pub clusters: BTreeMap<usize, Energy>,
    /// Energy that CPUs take while others keep a shared state from being entered, by cluster.
    pub shared: BTreeMap<usize, Energy>,
    pub package: Option<Energy>,
    /// Time that energies are divided by.
    pub span: Duration,
}

impl<'a> RunCounts<'a> {
    /// Returns the counts of a replay, and its decisions.
    pub fn of_replay(
        platform: &Platform,
        placed: &[PlacedCpu<'a>],
        recording: &Recording,
        run: Run,
    ) -> (RunCounts<'a>, Vec<Decision>) {
        let window = recording.window();
        let cpus = placed.iter().zip(run.cpus).map(|(placed, totals)| CpuCounts {
            cpu: placed.input.cpu,
            cluster: placed.cluster,
            window: placed.input.cut.observed(window) + totals.overrun,
            totals,
        });
        let cpus = cpus.collect();
        let span = recording.observed();
        let package = floor_energy(platform, span);
        let (clusters, shared) = (run.clusters, BTreeMap::new());
        let decisions = run.decisions.into_iter().flatten().collect();
        (RunCounts { cpus, clusters, shared, package, span }, decisions)
    }

    /// Returns the sums that metrics are computed from, without the oracle's and those of a
    /// simulation.
    pub fn sums(&self, platform: &Platform) -> Sums {
        let sum =
            |of: &BTreeMap<usize, Energy>| (!of.is_empty()).then(|| of.values().copied().sum());
        let mut sums = Sums {
            span: self.span,
            has_power: platform.has_power(),
            apart: Apart {
                clusters: sum(&self.clusters),
                shared: sum(&self.shared),
                package: self.package,
            },
            ..Sums::default()
        };
        for cpu in &self.cpus {
            sums.idle.add(&cpu.totals);
            sums.cpu_time_ns += i128::from(cpu.window.0);
            let deepest = cpu.totals.states.get(cpu.cluster.1.deepest());
            sums.deepest += deepest.map_or(Duration::ZERO, |state| state.time);
        }
        sums
    }
}

/// Returns the energy of the package's floor, if the machine has one.
fn floor_energy(platform: &Platform, span: Duration) -> Option<Energy> {
    (platform.floor_power > Power::ZERO).then(|| platform.floor_power.over(span))
}

/// Sums of one cluster, over the CPUs that were run.
struct ClusterSums {
    cpus: Vec<u32>,
    totals: CpuTotals,
    window: Duration,
    /// Energy apart from its CPUs, and of shared states.
    own: Option<Energy>,
    shared: Energy,
}

/// Returns a replay's run with its metrics; `oracle` is the least total energy.
pub fn replayed(
    decider: Described,
    platform: &Platform,
    run: Result<RunCounts<'_>, String>,
    oracle: Option<Energy>,
) -> RunOutcome {
    let sums = run.as_ref().ok().map(|run| Sums { oracle, ..run.sums(platform) });
    let metrics = sums.map(|sums| metric::values(&sums));
    let mut outcome = run_outcome(decider, metric::of_replay(), platform, run);
    if let Some(metrics) = metrics {
        outcome.metrics = metrics;
    }
    outcome
}

/// Returns a run without its metrics.
pub fn run_outcome(
    decider: Described,
    catalogue: &'static [Info],
    platform: &Platform,
    run: Result<RunCounts<'_>, String>,
) -> RunOutcome {
    let mut outcome = RunOutcome::new(decider, catalogue);
    let run = match run {
        Ok(run) => run,
        Err(message) => {
            outcome.sleep_length_sources = by_source(&[0; SleepSource::ALL.len()]);
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
        .map(|(cluster, sums)| cluster_outcome(platform, cluster, sums, run.span))
        .collect();
    outcome.cpus = run
        .cpus
        .iter()
        .map(|counts| CpuOutcome {
            cpu: counts.cpu.0,
            cluster: counts.cluster.1.name.clone(),
            states: states(counts.cluster.1, &counts.totals.states),
        })
        .collect();
    let mut all = CpuTotals::new(0);
    run.cpus.iter().for_each(|cpu| all.add(&cpu.totals));
    outcome.latency = LatencyOutcome::new(&all.latency);
    outcome.sleep_length_sources = by_source(&all.sources);
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
            own: None,
            shared: Energy::ZERO,
        })
        .collect();
    for (&cluster, &energy) in &run.clusters {
        sums[cluster].own = Some(energy);
    }
    for (&cluster, &energy) in &run.shared {
        sums[cluster].shared = energy;
    }
    for counts in &run.cpus {
        let sum = &mut sums[counts.cluster.0];
        sum.cpus.push(counts.cpu.0);
        sum.totals.add(&counts.totals);
        sum.window += counts.window;
    }
    sums
}

fn cluster_outcome(
    platform: &Platform,
    cluster: &Cluster,
    sums: &ClusterSums,
    span: Duration,
) -> ClusterOutcome {
    let known = platform.has_power();
    let total = sums.totals.energy + sums.shared + sums.own.unwrap_or(Energy::ZERO);
    let mw = |energy| known.then(|| power_mw(energy, span));
    ClusterOutcome {
        name: cluster.name.clone(),
        cpus: sums.cpus.clone(),
        running_ns: (sums.window - sums.totals.idle_time()).0,
        idle_energy_uj: known.then(|| total.as_uj_f64()),
        idle_power_mw: mw(total),
        cpu_idle_power_mw: mw(sums.totals.energy),
        cluster_power_mw: sums.own.and_then(mw),
        states: states(cluster, &sums.totals.states),
    }
}

fn states(cluster: &Cluster, totals: &[StateTotals]) -> Vec<StateOutcome> {
    let states = cluster.idle_states.iter().zip(totals).enumerate();
    states.map(|(index, (state, totals))| StateOutcome::new(index, &state.name, totals)).collect()
}

/// Returns the note on recorded sleeps that were not replayed as recorded.
fn left_out(cut_sleeps: u64, cut_pct: f64, unclosed_entries: u64) -> impl Iterator<Item = String> {
    let cut = (cut_sleeps > 0).then(|| {
        format!(
            "{cut_sleeps} recorded sleeps are left out: the recording shows only one of their \
             ends; at its edges they take {cut_pct:.1} % of all CPUs' time, which no figure \
             includes: power and shares are those of the rest"
        )
    });
    let unclosed = (unclosed_entries > 0).then(|| {
        format!(
            "{unclosed_entries} idle entries have no exit before the next entry or task, which is \
             used instead: events are missing"
        )
    });
    cut.into_iter().chain(unclosed)
}

/// Returns the note on demotion: whether the hardware enters the requested states.
pub fn demotion_note(platform: &Platform) -> Option<String> {
    let demoted = platform.clusters.iter().flat_map(|cluster| {
        let states = cluster.idle_states.iter();
        states.filter_map(|state| {
            let rule = state.demotion?;
            let when = if rule.after == 0 { "always" } else { "after short sleeps" };
            let to = &cluster.idle_states[rule.to].name;
            Some(format!("{to} for {}, {when} ({})", state.name, cluster.name))
        })
    });
    let demoted: Vec<String> = demoted.collect();
    if !demoted.is_empty() {
        return Some(format!(
            "the hardware enters {}: `usage`, `time_ns`, above and below are of \
             requested states, energy and latency of those that it got (`got_time_ns`); the oracle's \
             requests are not moved",
            demoted.join(", ")
        ));
    }
    let what = "a requested state counts as entered; hardware may demote";
    platform.has_power().then(|| what.to_owned())
}

/// Returns the note on the replay's tick rate, unless recording and machine agree.
fn tick_note(platform: &Platform, options: &Options, inputs: &InputsInfo) -> Option<String> {
    let (hz, machine) = (inputs.tick_hz, platform.hz.get());
    let name = &platform.name;
    match (inputs.tick_hz_recorded, options.hz) {
        (Some(recorded), Some(_)) if recorded != hz => Some(format!(
            "the recording ticks at {recorded} Hz; it is replayed at {hz} Hz, as asked"
        )),
        (Some(recorded), None) if recorded != machine => Some(format!(
            "the recording ticks at {recorded} Hz, platform `{name}` at {machine} Hz: it is \
             replayed at {recorded} Hz; `--hz {machine}` takes the platform's rate"
        )),
        (None, None) => Some(format!(
            "the recording does not show its tick rate: it is replayed at the {machine} Hz of \
             platform `{name}`; `--hz` takes another"
        )),
        _ => None,
    }
}

/// Returns the note on unrecorded CPUs of clusters with power of their own.
fn others_notes(platform: &Platform, options: &Options, traces: &[TraceOutcome]) -> Vec<String> {
    let missing = |cluster: &Cluster| {
        let runs = traces.iter().filter_map(|t| t.runs.iter().find(|run| run.error.is_none()));
        let own = runs.flat_map(|run| run.clusters.iter().find(|c| c.name == cluster.name));
        let most = own.map(|own| cluster.cpus.len().saturating_sub(own.cpus.len())).max()?;
        let all = cluster.cpus.len();
        (most > 0).then(|| format!("{most} of {all} CPUs of {}", cluster.name))
    };
    let with_power = platform.clusters.iter().filter(|c| has_static_power(c));
    let missing: Vec<String> = with_power.filter_map(missing).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let assumed = match options.others.unwrap_or_default() {
        Others::Idle => {
            "count as resting in their deepest state; `--others busy`: as never resting"
        }
        Others::Busy => "count as never resting; `--others idle`: as in their deepest state",
    };
    vec![format!("not in the recording: {}, which {assumed}", missing.join(", "))]
}

/// Returns the note on the oracle's proof. If no cluster takes power of its own, exact is usual.
fn oracle_note(trace: &TraceOutcome) -> Option<String> {
    let mut runs = trace.runs.iter();
    let has_power =
        |run: &RunOutcome| run.metrics.get("cluster_power_mw").is_some_and(Option::is_some);
    let is_coupled = runs.any(has_power);
    let OracleOutcome { proof, bound_mw, found_mw, gap_pct, found_by } = trace.oracle.as_ref()?;
    let whose = || found_by.as_ref().map_or("found".to_owned(), |column| format!("of `{column}`"));
    match (proof, bound_mw, gap_pct) {
        (Proof::Exact, ..) => is_coupled.then(|| {
            "the oracle is exact: no decisions consume less in CPUs and clusters together"
                .to_owned()
        }),
        (Proof::Bound, Some(bound_mw), Some(gap_pct)) => Some(format!(
            "the oracle is a bound: no governor can be below {bound_mw:.4} mW in CPUs and clusters \
             together; the decisions {} take {found_mw:.4} mW, {gap_pct:.2} % more",
            whose()
        )),
        (Proof::Open, ..) => found_by.as_ref().map(|found_by| {
            format!(
                "the oracle's own decisions are not the cheapest: `{found_by}` takes \
                 {found_mw:.4} mW, which the energy over the oracle counts from"
            )
        }),
        _ => None,
    }
}

/// Returns the notes on the limits of the numbers.
pub fn notes(platform: &Platform, options: &Options, traces: &[TraceOutcome]) -> Vec<String> {
    let mut notes = platform_notes(platform, traces);
    let ticks = traces.iter().filter_map(|t| tick_note(platform, options, &t.inputs));
    notes.extend(ticks.collect::<BTreeSet<String>>());
    notes.extend(others_notes(platform, options, traces));
    let sum = |count: fn(&InputsInfo) -> u64| traces.iter().map(|t| count(&t.inputs)).sum();
    let cut_pct = traces.iter().map(|t| t.inputs.cut_pct).fold(0.0, f64::max);
    notes.extend(left_out(sum(|i| i.cut_sleeps), cut_pct, sum(|i| i.unclosed_entries)));
    notes.extend(traces.iter().filter_map(oracle_note));
    notes.extend(evidence_notes(traces));
    notes
}

/// Returns the note on the source of exit latencies.
pub fn latency_note(platform: &Platform) -> String {
    let (measured, advertised) = platform.states_by_latency();
    torpor_result::latency::source_note(&platform.name, &measured, &advertised)
}

/// Returns the note on sleeps that are short against exit latencies that nobody measured, if they
/// are at least a tenth of a governor's.
///
/// A sleep is short if the mean sleep in its state is shorter than ten exits: the exit then decides
/// on much of what the sleep costs.
pub fn short_sleeps_note<'a>(
    platform: &Platform,
    runs: impl Iterator<Item = &'a RunOutcome>,
) -> Option<String> {
    const EXITS: i64 = 10;
    const SHARE_MIN_PCT: f64 = 10.0;
    let is_short = |cluster: &ClusterOutcome, state: &StateOutcome| {
        let of_platform = platform.clusters.iter().find(|of| of.name == cluster.name);
        let known = of_platform.and_then(|of| of.idle_states.get(state.index));
        known.is_some_and(|known| {
            known.is_advertised()
                && state.time_ns / EXITS < known.exit_latency.0 * state.usage as i64
        })
    };
    let mut sleeps: Vec<(&str, u64, u64)> = Vec::new();
    for run in runs {
        let place = sleeps.iter().position(|(name, ..)| *name == run.governor);
        let place = place.unwrap_or_else(|| {
            sleeps.push((&run.governor, 0, 0));
            sleeps.len() - 1
        });
        for cluster in &run.clusters {
            for state in &cluster.states {
                sleeps[place].1 += if is_short(cluster, state) { state.usage } else { 0 };
                sleeps[place].2 += state.usage;
            }
        }
    }
    let share = |short: u64, all: u64| 100.0 * short as f64 / all.max(1) as f64;
    let shares = sleeps.iter().map(|&(name, short, all)| (name, share(short, all)));
    let shares = shares.filter(|(_, share)| *share >= SHARE_MIN_PCT);
    let list: Vec<String> = shares.map(|(name, share)| format!("{name} {share:.0} %")).collect();
    (!list.is_empty()).then(|| {
        format!(
            "sleeps in states whose mean sleep is shorter than {EXITS} advertised exit latencies: \
             {}; what they cost depends on latencies that were not measured on `{}`",
            list.join(", "),
            platform.name
        )
    })
}

/// Returns the notes on what the platform's model leaves out.
fn platform_notes(platform: &Platform, traces: &[TraceOutcome]) -> Vec<String> {
    let mut notes = vec![
        "open-loop replay: a slower wake-up delays the work that follows, but does not change \
         what the work is or who does it"
            .to_owned(),
        latency_note(platform),
    ];
    notes.extend(demotion_note(platform));
    if !platform.has_power() {
        notes.push(format!(
            "the idle power of `{}` is not published: energy is not known; relative energy and the \
             oracle follow from target residencies, in units of the shallowest state's power",
            platform.name
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
    if platform.clusters.iter().any(Cluster::has_shared_states) {
        notes.push(
            "states that a cluster or package shares are costed as if each CPU entered them alone"
                .to_owned(),
        );
    }
    notes
}

/// Returns the notes on what the recordings do not show.
fn evidence_notes(traces: &[TraceOutcome]) -> Vec<String> {
    let mut notes = Vec::new();
    let unknown = traces.iter().flat_map(|t| t.inputs.sleep_length_sources.none.values());
    let spans: u64 = traces.iter().map(|t| t.inputs.spans).sum();
    if 2 * unknown.sum::<u64>() > spans {
        notes.push(
            "for most sleeps the recording shows no timer, so governors see none: the result is \
             unfair to those that use the next timer; record timer events or sched_waking"
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
    notes.extend(traces.iter().filter_map(|t| late_exits(t.inputs.event_to_exit)));
    let is_unknown = |t: &&TraceOutcome| {
        t.inputs.recorded_on.is_none() && t.inputs.wake_stamp_sources["exit_stamp"] > 0
    };
    let unknown: Vec<&str> =
        traces.iter().filter(is_unknown).map(|t| t.trace.path.as_str()).collect();
    if !unknown.is_empty() {
        let of =
            if traces.len() > 1 { format!(" of {}", unknown.join(", ")) } else { String::new() };
        notes.push(format!(
            "the recorded machine{of} is not known: where the cpu_idle exit alone shows a wake-up, \
             it counts as the time of the event, and a polling time-out as an event; \
             --recorded-on names the machine"
        ));
    }
    notes
}

/// Share of late exits above which the events do not explain the exits.
const LATE_EXITS_PCT: f64 = 1.0;

/// Returns a note if the wake-up events do not explain the exits from idle.
pub(crate) fn late_exits(found: EventToExit) -> Option<String> {
    let share = found.over_1ms_pct();
    (share > LATE_EXITS_PCT).then(|| {
        format!(
            "{share:.1} % of {} recorded wake-ups left idle more than 1 ms after their event: for \
             these, the event was probably another one",
            found.events
        )
    })
}

#[cfg(test)]
mod tests {
    use super::left_out;

    #[test]
    fn only_skipped_sleeps_are_noted() {
        assert_eq!(left_out(0, 0.0, 0).count(), 0);
        let notes: Vec<String> = left_out(2, 12.34, 0).collect();
        assert!(notes.len() == 1 && notes[0].starts_with("2 recorded sleeps"), "{notes:?}");
        assert!(notes[0].contains("12.3 % of all CPUs' time"), "{notes:?}");
        assert!(left_out(0, 0.0, 7).next().unwrap().starts_with("7 idle entries"));
    }
}
