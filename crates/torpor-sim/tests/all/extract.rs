// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Recordings made into workloads, and simulated and compared with what was recorded.

use crate::support::{count, frames, load, machine, request};
use std::path::Path;
use torpor_engine::Unwatched;
use torpor_governor::Catalog;
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_sim::extract::{Check, TaskCheck, check, extract, extract_background};
use torpor_sim::record::Recorder;
use torpor_sim::workload::from_toml;
use torpor_sim::{Session, Workload};
use torpor_trace::{Event, EventKind, PrevState, Trace};

/// A task whose sleeps follow an activity, and one whose sleeps do not.
#[test]
fn activity_is_found_with_size_and_decay() {
    let of = |activity: &str, runs: &str| {
        let workload = load(&format!(
            "{runs}[[task]]\nname = \"t\"\ntimer_slack_us = 0\n{activity}phase = [{{ run_us = 10 }}, \
             {{ sleep_us = {{ dist = \"exponential\", mean = 2000 }} }}]\n"
        ));
        let (trace, _) = recorded(workload, 120_000);
        let summary = extract(&trace, None, "t", &Unwatched).unwrap();
        (summary.summary.activity, summary.document.to_toml().into_owned())
    };
    let (found, text) =
        of("activity = \"a\"\n", "[[activity]]\nname = \"a\"\nmean_us = 100000\nsd = 0.9\n\n");
    // 120 s hold 1200 runs: 3 % of the figures each, and sleeps that reach over a run's end.
    let found = found.expect("an activity");
    assert!((0.75..=1.05).contains(&found.sd), "{found:?}");
    assert!((70_000_000..=130_000_000).contains(&found.mean_ns), "{found:?}");
    // The logarithm of an exponential length has a variance of pi^2 / 6.
    let share = found.sd * found.sd / (found.sd * found.sd + 1.645);
    assert!((found.share - share).abs() < 0.05, "{found:?}, {share}");
    let again = from_toml("t.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    assert!((again.activities[0].sd - found.sd).abs() < 1e-3);
    let (none, text) = of("", "");
    assert!(none.is_none() && !text.contains("[[activity]]"), "{none:?}");
}

/// Tasks with so many wake-ups are held to a share of them; of fewer, one is more than that.
const WAKEUPS_JUDGED: u64 = 20;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn print(name: &str, check: &Check) {
    let sum = |f: fn(&TaskCheck) -> f64| check.tasks.iter().map(f).sum::<f64>();
    println!(
        "{name}: {} tasks; CPU time {:.2} % off, wake-ups {:.2} % off; idle lengths: KS {:.3}, \
         {:.2} decades",
        check.tasks.len(),
        100.0 * (sum(|t| t.simulated_cpu_ns) / sum(|t| t.recorded_cpu_ns) - 1.0),
        100.0 * (sum(|t| t.simulated_wakeups as f64) / sum(|t| t.recorded_wakeups as f64) - 1.0),
        check.idle.ks,
        check.idle.decades,
    );
    let both = [&check.recorded_autocorrelation, &check.simulated_autocorrelation];
    for (recorded, simulated) in both[0].lags.iter().zip(&both[1].lags) {
        println!(
            "  {:>3} to {:>3} ms: sleep lengths {:.2?} / {:.2?}, timers {:.2?} / {:.2?}",
            recorded.from_ns / 1_000_000,
            recorded.to_ns / 1_000_000,
            recorded.sleep_length,
            simulated.sleep_length,
            recorded.timer_distance,
            simulated.timer_distance,
        );
    }
    println!("  {:.2?} / {:.2?}", both[0].activity(), both[1].activity());
    let off = check.tasks.iter().filter(|t| !t.cpu_is_within(0.02) || !t.wakeups_are_within(0.05));
    for task in off {
        println!("  {task:?}");
    }
}

/// The share of tasks whose CPU time, and of those with some wake-ups whose wake-ups, are right.
fn shares(check: &Check) -> (f64, f64) {
    let share = |good: usize, all: usize| good as f64 / all.max(1) as f64;
    let cpu = check.tasks.iter().filter(|t| t.cpu_is_within(0.02)).count();
    let judged = check.tasks.iter().filter(|t| t.recorded_wakeups >= WAKEUPS_JUDGED);
    let wakeups = judged.clone().filter(|t| t.wakeups_are_within(0.05)).count();
    (share(cpu, check.tasks.len()), share(wakeups, judged.count()))
}

const PACKETS: &str = r#"
wake = "packet"

[[task]]
name = "reader"
phase = [{ wait = "packet" }, { run_us = 40 }]
"#;

fn recorded(workload: Workload, ms: i64) -> (Trace, Platform) {
    let request = request(machine(2, ""), workload, &["menu"], ms);
    let session = Session::new(&request, &Catalog::new(Default::default())).unwrap();
    let run = session.simulate(0, 1, Recorder::default(), &mut |_| true).unwrap();
    let (_, recorder) = run.unwrap();
    let mut trace = recorder.into_trace(&session.plan(1));
    trace.window = Some((Instant(0), Instant(0) + Duration(ms * 1_000_000)));
    (trace, request.platform)
}

#[test]
fn extracted_simulation_is_reproduced() {
    let (trace, platform) = recorded(frames(PACKETS), 2_000);
    let check = check(&trace, &platform, "menu", &Unwatched).unwrap();
    print("round trip", &check);
    for task in &check.tasks {
        assert!(task.cpu_is_within(0.02), "{task:?}");
        assert!(task.wakeups_are_within(0.05), "{task:?}");
    }
    assert!(check.idle.ks < 0.05 && check.idle.decades < 0.1, "{:?}", check.idle);
}

#[test]
fn causes_are_distinguished() {
    let (trace, platform) = recorded(frames(PACKETS), 2_000);
    let made = extract(&trace, Some(&platform), "made up!", &Unwatched).unwrap();
    let summary = made.summary;
    let workload = from_toml("made.toml", &made.document.to_toml()).unwrap();
    assert_eq!(workload.name, "made_up_");
    assert_eq!((summary.tasks, workload.tasks.len()), (6, 6));
    // 120 frames, some of which find the task awake; some 666 packets; three times some 390 sleeps
    // and 120 periods.
    assert!((85..=121).contains(&summary.woken_by_tasks), "{summary:?}");
    assert!((550..=780).contains(&summary.woken_by_interrupts), "{summary:?}");
    assert!((1100..=1500).contains(&summary.woken_by_timers), "{summary:?}");
    assert_eq!((summary.timers_guessed, summary.wakings_unseen), (0, 0));
}

/// CPU 0 does a task's 1 ms, wakes another from it, and is idle again.
fn small_trace(freq_khz: Option<u32>) -> Trace {
    let switch = |prev: i32, next: i32| EventKind::SchedSwitch {
        prev_pid: prev,
        prev_state: if prev == 0 { PrevState::Runnable } else { PrevState::Sleeping },
        next_pid: next,
        next_comm: None,
    };
    let at = |us: i64, cpu: u32, kind: EventKind| Event {
        time: Instant(us * 1000),
        cpu: CpuId(cpu),
        kind,
    };
    let mut events = vec![
        at(100, 0, switch(0, 7)),
        at(600, 0, EventKind::SchedWaking { pid: 8, target_cpu: CpuId(1) }),
        at(650, 1, switch(0, 8)),
        at(1100, 0, switch(7, 0)),
        at(1650, 1, switch(8, 0)),
    ];
    if let Some(freq_khz) = freq_khz {
        events.insert(0, at(0, 0, EventKind::CpuFrequency { freq_khz }));
    }
    let mut trace =
        Trace { events, window: Some((Instant(0), Instant(2_000_000))), ..Trace::default() };
    trace.meta.cpu_count = 2;
    trace.carries.switches = true;
    trace.carries.wakings = true;
    trace
}

#[test]
fn work_is_scaled_by_frequency() {
    // At half of the machine's 2 GHz, 500 us before and after the wake-up are 250 us of work.
    let text = extract(&small_trace(Some(1_000_000)), Some(&machine(2, "")), "small", &Unwatched)
        .unwrap()
        .document
        .to_toml()
        .into_owned();
    let waker = "start_us = 100\nrepeat = 1\ntimer_slack_us = 0\nphase = [\n    \
                 { run_us = 250 }, { wake = \"task-8\" }, { run_us = 250 },\n]";
    assert!(text.contains(waker), "{text}");
    let woken = "{ wait = \"task-8\", not_before_us = 600, at_least_us = 600 }, { run_us = 1000 },";
    assert!(text.contains(woken), "{text}");
    // Without a frequency and a machine, time is work.
    let text = extract(&small_trace(None), None, "small", &Unwatched)
        .unwrap()
        .document
        .to_toml()
        .into_owned();
    assert!(text.contains("{ run_us = 500 }, { wake = \"task-8\" }"), "{text}");
}

#[test]
fn failed_extraction_gives_a_hint() {
    let mut trace = small_trace(None);
    let refused = |trace: &Trace| {
        extract(trace, Some(&machine(1, "")), "x", &Unwatched).err().unwrap().to_string()
    };
    let error = refused(&trace);
    assert!(error.contains("2 on `m`") && error.contains("option `platform`"), "{error}");
    trace.carries.switches = false;
    assert!(refused(&trace).contains("requires sched_switch"));
}

#[test]
fn past_sleep_deadline_is_missed() {
    let workload = load(
        r#"
[[task]]
name = "late"
repeat = 1
phase = [{ run_us = 500 }, { until_us = 300 }, { until_us = 900 }, { run_us = 100 }]

[[task]]
name = "early"
repeat = 1
phase = [{ wait = "x", not_before_us = 2000 }, { run_us = 100 }, { wait = "x", not_before_us = 50 }]

[[interrupt]]
name = "x"
at_us = [0, 1000]
wake = "x"
"#,
    );
    let counted = count(&request(machine(2, ""), workload, &["menu"], 10)).unwrap();
    assert_eq!((counted.kinds[0].missed, counted.kinds[0].wakeups), (1, 1));
    // The first is there at 0 or soon after, and taken then or at 2 ms; the second is never waited
    // for: it came at 1 ms.
    assert_eq!((counted.kinds[1].ended, counted.kinds[1].wakeups), (1, 1));
}

#[test]
fn wrong_times_are_errors_with_their_place() {
    let refused = |interrupt: &str| {
        let text = format!(
            "name = \"w\"\ntitle = \"w\"\nsource = \"w\"\n[[task]]\nname = \"t\"\n\
             phase = [{{ run_us = 5 }}]\n[[interrupt]]\nname = \"i\"\n{interrupt}\n"
        );
        from_toml("t.toml", &text).unwrap_err().to_string()
    };
    for (interrupt, told) in [
        ("at_us = [5, 4]", "time runs backwards: 4 after 5"),
        ("at_us = []", "the list is empty"),
        ("at_us = [5]\nburst = 2", "interrupt[0].burst = 2: not allowed with `at_us`"),
        ("at_us = [5]\ninterval_us = 2", "interrupt[0].interval_us = 2"),
        ("handling_us = 2", "an interrupt needs its times"),
    ] {
        let found = refused(interrupt);
        assert!(found.contains(told), "{interrupt}: {found}");
    }
}

#[test]
fn demo_recording_is_reproduced() {
    let trace = torpor_trace::read(&root().join("demo/web-server.perf.data")).unwrap();
    let check = check(&trace, &machine(2, ""), "menu", &Unwatched).unwrap();
    print("demo", &check);
    let (cpu, wakeups) = shares(&check);
    assert!(cpu == 1.0 && wakeups == 1.0, "{cpu} {wakeups}");
    assert!(check.idle.ks < 0.1 && check.idle.decades < 0.2, "{:?}", check.idle);
}

#[test]
fn phone_recording_is_reproduced_closely() {
    let path = root().join("../shared/traces/pixel6a-startup.perfetto-trace");
    if !path.exists() {
        eprintln!("not run: a phone's recording, which is not ours, is absent");
        return;
    }
    let trace = torpor_trace::read(&path).unwrap();
    let check = check(&trace, &Platform::resolve("pixel6").unwrap(), "menu", &Unwatched).unwrap();
    print("phone", &check);
    let (cpu, wakeups) = shares(&check);
    // One wake-up of five is 20 %: of 276 judged tasks 17 are off by more than 5 %, most by one.
    assert!(cpu >= 0.97 && wakeups >= 0.93, "{cpu} {wakeups}");
    let sum = |f: fn(&TaskCheck) -> u64| check.tasks.iter().map(f).sum::<u64>() as f64;
    let off = sum(|t| t.simulated_wakeups) / sum(|t| t.recorded_wakeups) - 1.0;
    assert!(off.abs() < 0.015, "{off}");
    assert!(check.idle.ks < 0.1 && check.idle.decades < 0.4, "{:?}", check.idle);
}

/// Three seconds with a load of their own: seldom, often, and much work.
const PARTS: &str = r#"
[[section]]
name = "seldom"
duration_us = 1200000

[[section]]
name = "often"
duration_us = 1000000

[[section]]
name = "much"
duration_us = 1800000

[[task]]
name = "one"
during = "seldom"
phase = [{ run_us = 100 }, { sleep_us = { dist = "exponential", mean = 4000 } }]

[[task]]
name = "two"
during = "often"
phase = [{ run_us = 150 }, { sleep_us = { dist = "exponential", mean = 700 } }]

[[task]]
name = "three"
during = "much"
phase = [{ run_us = 2500 }, { sleep_us = { dist = "exponential", mean = 2000 } }]
"#;

#[test]
fn sections_of_a_recording_are_found() {
    let (trace, platform) = recorded(load(PARTS), 4_000);
    let patterns = ["*".to_owned()];
    let made = extract_background(&trace, Some(&platform), "parts", &patterns, &Unwatched).unwrap();
    let sections = &made.summary.sections;
    // Work of 100, 150 and 2500 us, and sleeps of 4000, 700 and 2000 us with C6's latency of 85 us,
    // and with the switches.
    let truth = [(1.2, 100.0 / 4_187.0), (1.0, 150.0 / 937.0), (1.8, 2_500.0 / 4_587.0)];
    assert_eq!(sections.len(), 3, "{sections:?}");
    for (section, (length_s, busy)) in sections.iter().zip(truth) {
        assert!((section.duration_ns as f64 / 1e9 / length_s - 1.0).abs() < 0.05, "{section:?}");
        assert!((section.busy_cpus / busy - 1.0).abs() < 0.1, "{section:?}");
    }
    let text = made.document.to_toml();
    let workload = from_toml("parts.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    // Each task is in its own section alone, twice as long as was recorded.
    let (again, _) = recorded(workload, 8_000);
    let found = extract(&again, Some(&platform), "again", &Unwatched).unwrap().summary.sections;
    assert_eq!(found.len(), 6, "{found:?}");
    for (again, first) in found.iter().zip(sections.iter().cycle()) {
        assert!((again.busy_cpus / first.busy_cpus - 1.0).abs() < 0.1, "{again:?} {first:?}");
        assert!((again.switches_per_s / first.switches_per_s - 1.0).abs() < 0.1, "{again:?}");
    }
}

#[test]
fn a_stationary_load_is_one_section() {
    let only = |name: &str| {
        let tasks = PARTS.split_once("[[task]]").unwrap().1;
        let task = tasks.split("[[task]]").find(|task| task.contains(name)).unwrap();
        let task: String = task
            .lines()
            .filter(|line| !line.starts_with("during"))
            .map(|l| format!("{l}\n"))
            .collect();
        load(&format!("[[task]]{task}"))
    };
    for name in ["one", "two", "three"] {
        let (trace, _) = recorded(only(&format!("\"{name}\"")), 4_000);
        let found = extract(&trace, None, name, &Unwatched).unwrap().summary.sections;
        assert_eq!(found.len(), 1, "{name}: {found:?}");
    }
    let (trace, _) = recorded(frames(PACKETS), 4_000);
    let found = extract(&trace, None, "frames", &Unwatched).unwrap().summary.sections;
    assert_eq!(found.len(), 1, "{found:?}");
}
