// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Power is energy divided by the time for which the recording shows whole sleeps.

use std::path::PathBuf;
use torpor_engine::options::Others;
use torpor_engine::outcome::TraceOutcome;
use torpor_engine::{Options, Outcome, Request, Unwatched, run};
use torpor_governor::Catalog;
use torpor_machine::units::CpuId;

/// Writes `cpu_idle` events at (µs, CPU, state) as text; 4294967295 is the exit.
fn recording(name: &str, events: &[(u64, u32, u32)]) -> PathBuf {
    let line = |&(us, cpu, state): &(u64, u32, u32)| {
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        format!("  <idle>-0  [{cpu:03}] d..2  {s}.{us:06}: cpu_idle: state={state} cpu_id={cpu}\n")
    };
    let mut events = events.to_vec();
    events.sort_unstable();
    let lines: String = events.iter().map(line).collect();
    let path = std::env::temp_dir().join(format!("torpor-power-{}-{name}", std::process::id()));
    std::fs::write(&path, format!("# tracer: nop\n#\n{lines}")).expect("it can be written");
    path
}

fn replayed(name: &str, events: &[(u64, u32, u32)]) -> (TraceOutcome, Vec<String>) {
    replayed_on("pixel6", name, events)
}

fn replayed_on(
    platform: &str,
    name: &str,
    events: &[(u64, u32, u32)],
) -> (TraceOutcome, Vec<String>) {
    replayed_with(platform, name, events, Options::default())
}

fn replayed_with(
    platform: &str,
    name: &str,
    events: &[(u64, u32, u32)],
    options: Options,
) -> (TraceOutcome, Vec<String>) {
    let path = recording(name, events);
    let request = Request {
        traces: vec![path.clone()],
        platform: torpor_machine::platform::resolve(platform).unwrap(),
        governors: ["menu", "deepest", "oracle"].map(|g| g.parse().unwrap()).to_vec(),
        options,
    };
    let outcome: Outcome =
        run(&request, &Catalog::new(Default::default()), &Unwatched).expect("it can be replayed");
    std::fs::remove_file(path).expect("it was written");
    let [trace] = <[TraceOutcome; 1]>::try_from(outcome.traces).expect("one recording");
    (trace, outcome.notes)
}

const EXIT: u32 = u32::MAX;

/// CPU 0 sleeps 2.9 ms of each 4.13 ms for 2 s, without ticks; CPU 5 ten times, within 0.1 s of it;
/// CPU 1 once, from before the recording begins, and again to its end.
fn uneven() -> Vec<(u64, u32, u32)> {
    let often = (0..485).flat_map(|n| [(n * 4_130, 0, 1), (n * 4_130 + 2_900, 0, EXIT)]);
    let seldom = (0..10)
        .flat_map(|n| [(1_000_000 + n * 10_000, 5, 1), (1_000_000 + n * 10_000 + 9_100, 5, EXIT)]);
    let cut = [(500_000, 1, EXIT), (600_000, 1, 0), (600_500, 1, EXIT), (1_799_000, 1, 1)];
    often.chain(seldom).chain(cut).collect()
}

#[test]
fn power_times_the_observed_time_is_energy_everywhere() {
    let (trace, notes) = replayed("span", &uneven());
    // From CPU 0's first entry to its last wake-up.
    assert_eq!(trace.inputs.replayed_ns, 484 * 4_130_000 + 2_900_000);
    let span_s = trace.inputs.replayed_ns as f64 / 1e9;
    // CPU 1 slept for 0.5 s and from 1.799 s on, in sleeps with one end only.
    let cut_s = 0.5 + (span_s - 1.799);
    let observed_s = span_s - cut_s / 3.0;
    for run in &trace.runs {
        let near = |power_mw: f64, energy_uj: f64| {
            let given = power_mw * 1e3 * observed_s;
            assert!((given - energy_uj).abs() < 1e-6 * energy_uj.max(1.0), "{given} {energy_uj}");
        };
        near(run.metrics["idle_power_mw"].unwrap(), run.metrics["idle_energy_uj"].unwrap());
        for cluster in &run.clusters {
            near(cluster.idle_power_mw.unwrap(), cluster.idle_energy_uj.unwrap());
        }
        // Shares of time refer to the same time, plus the overrun of the last sleeps.
        let idle: i64 = run.clusters.iter().flat_map(|c| &c.states).map(|s| s.time_ns).sum();
        let share = idle as f64 / 1e7 / (3.0 * observed_s);
        assert!((run.metrics["idle_residency_pct"].unwrap() - share).abs() < 0.05, "{share}");
        let of_clusters: f64 = run.clusters.iter().map(|c| c.idle_energy_uj.unwrap()).sum();
        near(run.metrics["idle_power_mw"].unwrap(), of_clusters);
    }
    assert_eq!(trace.inputs.cut_sleeps, 2);
    assert!((trace.inputs.cut_pct - 100.0 * cut_s / (3.0 * span_s)).abs() < 1e-6);
    assert!(
        notes.iter().any(|n| n.contains("2 recorded sleeps") && n.contains("% of all CPUs' time"))
    );
}

/// Returns the parts of each run's total, in mW.
fn parts(trace: &TraceOutcome) -> Vec<[f64; 4]> {
    let keys = ["idle_power_mw", "cpu_idle_power_mw", "cluster_power_mw", "package_mw"];
    let of = |metrics: &torpor_result::metric::Values| keys.map(|key| metrics[key].unwrap_or(0.0));
    trace.runs.iter().map(|run| of(&run.metrics)).collect()
}

#[test]
fn the_total_is_the_sum_of_its_parts() {
    for (total, [cpus, clusters, package]) in
        parts(&replayed("parts", &uneven()).0).iter().map(|[t, parts @ ..]| (*t, *parts))
    {
        assert!(cpus > 0.0 && clusters > cpus && package == 0.0, "{cpus} {clusters} {package}");
        assert!((total - cpus - clusters).abs() < 1e-9 * total, "{total} {cpus} {clusters}");
    }
    // The package of the i5-10600K has a floor of 1.4 W.
    for [total, cpus, clusters, package] in parts(&replayed_on("i5-10600k", "floor", &uneven()).0) {
        assert_eq!((clusters, package), (0.0, 1_400.0));
        assert!((total - cpus - package).abs() < 1e-9 * total, "{total} {cpus}");
    }
}

/// Two of four little CPUs are in the recording. One of two middle CPUs is, but their cluster has
/// no power of its own.
#[test]
fn unrecorded_cpus_can_keep_a_cluster_awake() {
    let with = |others| {
        let options = Options { others, ..Options::default() };
        let (trace, notes) = replayed_with("pixel6", "others", &uneven(), options);
        let clusters = trace.runs[1].clusters.iter();
        let powers: Vec<f64> = clusters.filter_map(|c| c.cluster_power_mw).collect();
        (powers, notes.into_iter().find(|n| n.starts_with("not in the recording")).unwrap())
    };
    let (default, note) = with(None);
    assert!(note.contains("2 of 4 CPUs of little") && !note.contains("mid"), "{note}");
    assert!(note.contains("--others busy"), "{note}");
    assert_eq!(default, with(Some(Others::Idle)).0);
    let (busy, note) = with(Some(Others::Busy));
    assert!(note.contains("never resting; `--others idle`"), "{note}");
    assert_eq!((default.len(), busy.len()), (1, 1));
    assert!(busy.iter().zip(&default).all(|(busy, idle)| busy > idle), "{busy:?} {default:?}");
}

#[test]
fn idle_residency_never_exceeds_100_pct() {
    // The last sleep ends later than recorded: the state that is chosen takes long to leave.
    let (trace, _) =
        replayed("late", &[(0, 0, 1), (2_100, 0, EXIT), (3_500, 0, 1), (6_500, 0, EXIT)]);
    for run in &trace.runs {
        let share = run.metrics["idle_residency_pct"].unwrap();
        assert!(share <= 100.0, "{}: {share} %", run.governor);
        let cluster = &run.clusters[0];
        let idle: i64 = cluster.states.iter().map(|s| s.time_ns).sum();
        assert!(cluster.running_ns >= 0);
        // The time is the recording's plus the overrun of the last sleep.
        let overrun = idle + cluster.running_ns - trace.inputs.replayed_ns;
        assert!((0..1_000_000).contains(&overrun), "{}: {overrun} ns", run.governor);
    }
}

#[test]
fn oracle_bounds_cpu_and_cluster_power() {
    let (trace, notes) = replayed("cluster", &uneven());
    // CPU 0 runs 1.23 ms of each 4.13 ms: for at least that time the LITTLE cluster does not rest.
    let powers: Vec<f64> =
        trace.runs.iter().map(|run| run.metrics["cluster_power_mw"].unwrap()).collect();
    assert!(powers.iter().all(|mw| *mw > 0.0), "{powers:?}");
    let oracle = trace.oracle.as_ref().expect("it is among the governors");
    assert!(notes.iter().any(|note| note.starts_with("the oracle is")), "{notes:?}");
    let bound_mw = oracle.bound_mw.expect("a bound is known");
    assert!(0.0 < bound_mw && bound_mw <= oracle.found_mw);
    for run in &trace.runs {
        let total = run.metrics["idle_power_mw"].unwrap();
        assert!(bound_mw <= total + 1e-9, "{}: {total} mW", run.governor);
    }
}

#[test]
fn recorded_cpus_run_as_if_alone() {
    let path = recording("shared", &uneven());
    let replayed = |cpu_map: &[(u32, u32)]| {
        let request = Request {
            traces: vec![path.clone()],
            platform: torpor_machine::platform::resolve("pixel6").unwrap(),
            governors: vec!["teo".parse().unwrap()],
            options: Options {
                cpu_map: cpu_map.iter().map(|&(from, to)| (CpuId(from), CpuId(to))).collect(),
                ..Options::default()
            },
        };
        let mut outcome = run(&request, &Catalog::new(Default::default()), &Unwatched).unwrap();
        outcome.traces.remove(0).runs.remove(0)
    };
    // CPU 0 is LITTLE, 4 and 5 are the middle ones: the same table for both.
    let apart = replayed(&[(0, 4), (1, 0)]);
    let shared = replayed(&[(0, 5), (1, 0)]);
    std::fs::remove_file(&path).expect("it was written");
    assert_eq!(apart.metrics, shared.metrics);
    assert_eq!(
        shared.cpus.iter().map(|cpu| cpu.states[1].usage).sum::<u64>(),
        apart.clusters.iter().map(|cluster| cluster.states[1].usage).sum::<u64>()
    );
}
