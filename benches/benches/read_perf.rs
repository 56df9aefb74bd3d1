// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures the reading of a perf.data against `perf script` on the same file.
//!
//! `cargo bench -p torpor-benches --bench read_perf`. Ends with status 1 where one core reads less
//! than five times the events a second that perf prints to nowhere.
//!
//! The input is recorded on the spot, by perf, of this machine under a load of wake-ups; where that
//! is not permitted it is the demo's recording, which is too short to hide perf's own start.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const GOAL_RATIO: f64 = 5.0;
const ROUNDS: usize = 5;
const EVENTS: &str = "power:cpu_idle,sched:sched_switch,sched:sched_waking,timer:hrtimer_start,\
                      timer:hrtimer_cancel,timer:hrtimer_expire_entry,irq:softirq_raise,\
                      irq:softirq_entry,irq:softirq_exit";
/// Two processes that hand a byte to and fro.
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

/// The best of some rounds: the one least disturbed by others.
fn best(rounds: usize, mut work: impl FnMut()) -> Duration {
    let round = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..rounds).map(round).min().expect("there are rounds")
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
    // The file does not exist if nothing was recorded.
    let _ = std::fs::remove_file(&own);
    let Some(peer) = peer else {
        println!("not run: perf script, which is absent or cannot read the file");
        return;
    };
    println!("perf script > /dev/null      {peer:8.2} M events/s   {:.1} times", parse / peer);
    if parse < GOAL_RATIO * peer {
        println!("below the goal of {GOAL_RATIO} times");
        std::process::exit(1);
    }
}
