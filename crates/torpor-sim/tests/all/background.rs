// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tests background load, and lengths that come in runs.

use crate::support::{count, frames, load, machine, request};
use torpor_engine::Unwatched;
use torpor_governor::Catalog;
use torpor_machine::units::{Duration, Instant};
use torpor_sim::extract::extract_background;
use torpor_sim::record::Recorder;
use torpor_sim::workload::from_toml;
use torpor_sim::{Session, Workload};
use torpor_trace::{EventKind, Trace};

fn recorded(workload: Workload, cpus: usize, ms: i64) -> Trace {
    let request = request(machine(cpus, ""), workload, &["shallowest"], ms);
    let session = Session::new(&request, &Catalog::new(Default::default())).unwrap();
    let run = session.simulate(0, 1, Recorder::default(), &mut |_| true).unwrap();
    let (_, recorder) = run.unwrap();
    let mut trace = recorder.into_trace(&session.plan(1));
    trace.window = Some((Instant(0), Instant(0) + Duration(ms * 1_000_000)));
    trace
}

#[test]
fn each_cpu_task_starts_staggered_on_every_cpu() {
    let workload = load(
        "[[task]]\nname = \"t\"\neach_cpu = true\nstagger_us = 1000\n\
         phase = [{ run_us = 100 }, { period_us = 10000 }]\n",
    );
    let counted = count(&request(machine(3, ""), workload, &["shallowest"], 1_000)).unwrap();
    assert_eq!(counted.kinds.len(), 3);
    for cpu in &counted.cpus {
        // 100 times 100 us.
        assert_eq!(cpu.task_time, Duration::from_us(10_000));
    }
    assert_eq!(counted.kinds.iter().map(|kind| kind.migrations).sum::<u64>(), 0);
}

/// Both have a channel `c`, whose interrupts wake 10 and 50 times a second.
#[test]
fn background_shares_only_the_machine() {
    let of = |us: u32, work: u32| {
        load(&format!(
            "[[task]]\nname = \"t\"\nphase = [{{ wait = \"c\" }}, {{ run_us = {{ dist = \
             \"exponential\", mean = {work} }} }}]\n\
             [[interrupt]]\nname = \"i\"\nwake = \"c\"\ninterval_us = {us}\n"
        ))
    };
    let (alone, other) = (of(100_000, 40), of(20_000, 30));
    let both = alone.with_background(&other);
    assert_ne!(both.sha256, alone.sha256);
    let run = |w: Workload| count(&request(machine(2, ""), w, &["shallowest"], 10_000)).unwrap();
    let (both, alone) = (run(both), run(alone));
    assert_eq!((both.kinds[0].wakeups, both.kinds[1].wakeups), (99, 499));
    // Its random draws do not change.
    assert_eq!(both.kinds[0].cpu_time, alone.kinds[0].cpu_time);
}

/// Tasks of the background have names of their own, one for each CPU.
#[test]
fn a_recording_has_the_names_of_the_background() {
    let workload = load("[[task]]\nname = \"t\"\nphase = [{ run_us = 50 }, { sleep_us = 500 }]\n");
    let mut request = request(machine(2, ""), workload, &["shallowest"], 1_000);
    request.options.background = Some("background-vm".to_owned());
    let folder = std::env::temp_dir().join(format!("torpor-background-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("run.txt");
    request.options.trace = Some(path.clone());
    torpor_sim::run(&request, &Catalog::new(Default::default()), &Unwatched).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(text.contains("background-vm:"));
}

#[test]
fn recorded_background_does_the_recorded_work() {
    let trace = recorded(frames(""), 2, 4_000);
    let patterns = ["back*".to_owned()];
    let made = extract_background(&trace, None, "b", &patterns, &Unwatched).unwrap();
    let background =
        from_toml("b.toml", &made.document.to_toml()).unwrap_or_else(|e| panic!("{e}"));
    // Its three tasks, and not those that draw frames.
    assert_eq!(background.tasks.len(), 3);
    // For three times as long as was recorded.
    let counted = count(&request(machine(2, ""), background, &["shallowest"], 12_000)).unwrap();
    // 100 us of work and a sleep of 5 ms: 196 times a second.
    for kind in &counted.kinds {
        let per_s = kind.wakeups as f64 / 12.0;
        assert!((per_s / 196.0 - 1.0).abs() < 0.1, "{per_s} a second");
        let work_us = kind.cpu_time.as_us_f64() / kind.wakeups as f64;
        assert!((work_us - 100.0).abs() < 1.0, "{work_us} us");
    }
    let nobody = ["nobody".to_owned()];
    let error = extract_background(&trace, None, "b", &nobody, &Unwatched).err().unwrap();
    assert!(error.to_string().contains("nobody"), "{error}");
}

/// Returns the autocorrelation of the logarithms of a CPU's sleeps.
fn autocorrelation(trace: &Trace) -> f64 {
    let (mut since, mut lengths) = (None, Vec::new());
    for event in &trace.events {
        if let EventKind::CpuIdle { .. } = event.kind {
            match since.take() {
                Some(at) => lengths.push((event.time.since(at).0.max(1) as f64).ln()),
                None => since = Some(event.time),
            }
        }
    }
    let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
    let product = |pair: &[f64]| (pair[0] - mean) * (pair[1] - mean);
    let variance: f64 = lengths.iter().map(|x| (x - mean) * (x - mean)).sum();
    lengths.windows(2).map(product).sum::<f64>() / variance
}

#[test]
fn sleeps_of_an_activity_come_in_runs() {
    let of = |activity: &str, runs: &str| {
        load(&format!(
            "{runs}[[task]]\nname = \"t\"\n{activity}phase = [{{ run_us = 10 }}, \
             {{ sleep_us = {{ dist = \"exponential\", mean = 2000 }} }}]\n"
        ))
    };
    let runs = "[[activity]]\nname = \"page\"\nmean_us = 50000\nsd = 1.0\n";
    let with = recorded(of("activity = \"page\"\n", runs), 1, 20_000);
    let without = recorded(of("", ""), 1, 20_000);
    // A run's factor adds 1 to the variance of an exponential length's logarithm, 1.64.
    let (with, without) = (autocorrelation(&with), autocorrelation(&without));
    // Ticks cut the longest ones into pieces.
    assert!(without.abs() < 0.1, "{without}");
    assert!((0.15..0.5).contains(&with), "{with}");
}
