// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures the reading of a perf.data against `perf script` on the same file.
//!
//! `cargo bench -p torpor-benches --bench read_perf`. Exits with status 1 if one core reads less than
//! five times the events per second that perf prints to /dev/null.
//!
//! The input is recorded by perf on this machine under a load of wake-ups. If that is not permitted
//! it is the demo's recording, which is too short to hide perf's start-up.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use torpor_benches::{Limit, best, require};

const GOAL_RATIO: f64 = 5.0;
const ROUNDS: usize = 5;
const EVENTS: &str = "power:cpu_idle,sched:sched_switch,sched:sched_waking,timer:hrtimer_start,\
                      timer:hrtimer_cancel,timer:hrtimer_expire_entry,irq:softirq_raise,\
                      irq:softirq_entry,irq:softirq_exit";
/// Two processes that pass a byte back and forth.
const LOAD: &str = "perf bench sched pipe -l 300000";

fn run(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn record(path: &Path) -> bool {
    let mut perf = Command::new("perf");
    perf.args(["record", "-a", "-m", "8192", "-k", "CLOCK_MONOTONIC", "-e", EVENTS, "-o"]);
    run(perf.arg(path).args(["--", "sh", "-c", LOAD]))
}

fn main() {
    let own = std::env::temp_dir().join(format!("torpor-bench-{}.data", std::process::id()));
    let (name, path) = if record(&own) {
        ("recorded here", own.clone())
    } else {
        let demo = "../demo/web-server.perf.data";
        println!("not run on a recording of this machine: perf is absent or may not record");
        ("the demo", PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(demo))
    };
    let bytes = std::fs::read(&path).expect("a recording is readable");
    let trace = torpor_trace::bench_support::parse(&bytes);
    let recorded: u64 = trace.event_counts.values().sum();
    println!("input: {name}, {:.1} MB, {recorded} events", bytes.len() as f64 / 1e6);
    drop(trace);
    let rate = |took: Duration| recorded as f64 / took.as_secs_f64() / 1e6;

    let parse = rate(best(ROUNDS, || {
        black_box(torpor_trace::bench_support::parse(black_box(&bytes)));
    }));
    println!("events, one core             {parse:8.2} M events/s");
    let mut script = Command::new("perf");
    script.args(["script", "--force", "-i"]).arg(&path);
    let is_there = run(&mut script);
    let peer = is_there.then(|| {
        rate(best(1, || {
            run(&mut script);
        }))
    });
    // Without a recording there is no file.
    let _ = std::fs::remove_file(&own);
    let Some(peer) = peer else {
        println!("not run: perf script, which is absent or cannot read the file");
        return;
    };
    println!("perf script > /dev/null      {peer:8.2} M events/s   {:.1} times", parse / peer);
    require("perf.data to perf script", parse / peer, Limit::NotBelow(GOAL_RATIO));
}
