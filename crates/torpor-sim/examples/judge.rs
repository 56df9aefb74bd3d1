// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `judge [KERNEL [SECONDS [WORKLOAD[@MACHINE]...]]]`: Torpor's own scheduler against a kernel's
//! (6.12's), decision by decision.
//!
//! The kernel decides; at each decision our code is asked the same of the same machine. Rows are
//! kinds of decisions: how many, how many of them equal, and how far off the others are (median).
//! Then both simulate by themselves. Needs `linux-source-6.12`.

use torpor_engine::Unwatched;
use torpor_governor::Catalog;
use torpor_platform::Platform;
use torpor_result::Values;
use torpor_sim::machine::hosted::{Score, Verdict};
use torpor_sim::{Options, Request, Session, workload};
use torpor_units::Duration;

const WORKLOADS: &[&str] = &["frames", "periodic", "requests", "pipe", "messaging", "fio-io-uring"];
const MACHINES: &[(&str, &str)] =
    &[("pixel6", "schedutil"), ("pixel6", "performance"), ("i5-10600k", "schedutil")];

const FIGURES: &[(&str, &str, f64)] = &[
    ("power_mw", "mW", 1.0),
    ("freq_busy_khz", "GHz, busy", 1e-6),
    ("wakeups", "sleeps", 1.0),
    ("above_pct", "too deep %", 1.0),
    ("below_pct", "too shallow %", 1.0),
    ("migrations", "migrations", 1.0),
    ("preemptions", "preemptions", 1.0),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let kernel = args.next().unwrap_or("6.12".to_owned());
    let seconds: f64 = args.next().as_deref().unwrap_or("2").parse()?;
    let named: Vec<String> = args.collect();
    let all = WORKLOADS.iter().map(|name| (*name).to_owned());
    let workloads = if named.is_empty() { all.collect() } else { named };
    let catalog = Catalog::new(Default::default());
    let mut requests = Vec::new();
    for name in &workloads {
        let (name, only) = match name.split_once('@') {
            Some((name, machine)) => (name, vec![(machine, "schedutil"), (machine, "performance")]),
            None => (name.as_str(), MACHINES.to_vec()),
        };
        for (platform, cpufreq) in only {
            let request = Request {
                workload: workload::resolve(name)?,
                platform: Platform::resolve(platform)?,
                governors: vec!["menu".parse()?],
                options: Options {
                    duration: Duration((seconds * 1e9) as i64),
                    kernels: vec![kernel.parse()?],
                    cpufreq: vec![cpufreq.parse()?],
                    ..Options::default()
                },
            };
            requests.push((format!("| {name} | {platform} | {cpufreq}"), request));
        }
    }
    println!("| workload | machine | cpufreq | decision | asked | equal % | off by (median) |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (row, request) in &requests {
        let request = request.resolved()?;
        let session = Session::new(&request, &catalog)?;
        let verdict = session.judge(0, 1).map_err(|halt| halt.to_string())?;
        for (kind, score, unit) in kinds(&verdict) {
            if score.asked > 0 {
                let off = score.typical_off();
                let off = off.map_or(String::new(), |off| format!("{off:.3} {unit}"));
                let equal = score.equal_pct();
                println!("{row} | {kind} | {} | {equal:.1} | {off} |", score.asked);
            }
        }
        let (seen, all) = (verdict.seen_sleeps, verdict.sleeps);
        let seen_pct = 100.0 * seen as f64 / all.max(1) as f64;
        println!("{row} | sleep noticed | {all} | {seen_pct:.3} |  |");
    }
    let titles: Vec<&str> = FIGURES.iter().map(|(_, title, _)| *title).collect();
    println!("\nEach figure: Linux {kernel} / ours.\n");
    println!("| workload | machine | cpufreq | {} |", titles.join(" | "));
    println!("|{}", " --- |".repeat(3 + titles.len()));
    for (row, hosted) in requests {
        let mut own = hosted.clone();
        own.options.kernels.clear();
        own.governors = vec![format!("menu@{kernel}").parse()?];
        let mut values = Vec::new();
        for request in [hosted, own] {
            let outcome = torpor_sim::run(&request, &catalog, &Unwatched)?;
            let run = &outcome.runs[0].run;
            if let Some(error) = &run.error {
                return Err(error.clone().into());
            }
            values.push(run.metrics.clone());
        }
        let cells = FIGURES.iter().map(|(key, _, factor)| {
            let shown = |values: &Values| match values[*key] {
                Some(value) => format!("{:.*}", if *factor < 1.0 { 2 } else { 1 }, value * factor),
                None => "-".to_owned(),
            };
            format!("{} / {}", shown(&values[0]), shown(&values[1]))
        });
        println!("{row} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    Ok(())
}

fn kinds(verdict: &Verdict) -> [(&'static str, &Score, &'static str); 7] {
    [
        ("CPU of a wake-up", &verdict.placement, "of capacity"),
        ("its cluster", &verdict.cluster, "of capacity"),
        ("placed at all", &verdict.kept, ""),
        ("preemption", &verdict.preemption, ""),
        ("overutilized", &verdict.overutilized, ""),
        ("frequency", &verdict.frequency, "times"),
        ("next timer", &verdict.next_timer, "µs"),
    ]
}
