// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures the reading of a trace.dat against `trace-cmd report` on the same file.
//!
//! `cargo bench -p torpor-benches --bench read_dat`. Exits with status 1 if one core reads less than
//! ten times the events per second that trace-cmd prints to /dev/null.
//!
//! The input is a recording whose pages are repeated with shifted times:
//! `../shared/traces/juno-sched-load.v6.dat` if present, else a synthetic one.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Duration;
use torpor_benches::{Limit, best, require, shared_trace};
use torpor_trace::{Event, Sink, SoFar};

#[path = "../../crates/torpor-trace/tests/support/dat.rs"]
mod dat;
#[path = "../../crates/torpor-trace/tests/support/dat_long.rs"]
mod dat_long;
#[path = "../../crates/torpor-trace/tests/support/dat_sample.rs"]
mod dat_sample;

use dat::{Dat, Page, X86_64};

const GOAL_RATIO: f64 = 10.0;
const INPUT_BYTES: u64 = 64 << 20;
const ROUNDS: usize = 5;

/// Returns a recording of two CPUs that wake and sleep every 100 us, 20,000 times.
fn synthetic() -> Dat {
    let cpus = (0..2u32).map(|cpu| {
        let mut pages = vec![Page::new(X86_64, 0)];
        for index in 0..40_000u64 {
            let at = index * 50_000 + u64::from(cpu);
            let event = dat_sample::idle(X86_64, if index % 2 == 0 { -1 } else { 1 }, cpu);
            if !pages.last().is_some_and(|page| page.has_room(event.len())) {
                pages.push(Page::new(X86_64, at));
            }
            let page = pages.pop().expect("there is one");
            pages.push(page.event(at, &event));
        }
        pages
    });
    let instances = vec![("", "mono", cpus.collect())];
    Dat { instances, ..dat_sample::dat(6, "none", X86_64) }
}

fn input() -> (String, Vec<u8>) {
    let (name, file, cpu_count) = match shared_trace("juno-sched-load.v6.dat") {
        Some(path) => ("juno-sched-load", std::fs::read(path).expect("a recording is readable"), 6),
        None => ("synthetic", synthetic().bytes(), 2),
    };
    let copies = dat_long::copies_for(&file, cpu_count, INPUT_BYTES);
    let mut long = Vec::new();
    dat_long::repeat(&file, cpu_count, copies, 2_000_000_000, &mut long)
        .expect("memory is writable");
    (format!("{name} x {copies}"), long)
}

#[derive(Default)]
struct Count(usize);

impl Sink for Count {
    fn events(&mut self, events: Vec<Event>, _: &SoFar<'_>) {
        self.0 += black_box(&events).len();
    }
}

fn main() {
    let (name, bytes) = input();
    let path = std::env::temp_dir().join(format!("torpor-bench-{}.dat", std::process::id()));
    std::fs::write(&path, &bytes).expect("the temporary directory is writable");
    let trace = torpor_trace::bench_support::parse(&bytes);
    let recorded: u64 = trace.event_counts.values().sum();
    let mb = bytes.len() as f64 / 1e6;
    println!("input: {name}, {mb:.1} MB, {recorded} events, {} of use", trace.events.len());
    drop(trace);
    let rate = |took: Duration| recorded as f64 / took.as_secs_f64() / 1e6;

    let parse = rate(best(ROUNDS, || {
        black_box(torpor_trace::bench_support::parse(black_box(&bytes)));
    }));
    let stream = rate(best(ROUNDS, || {
        let mut count = Count::default();
        torpor_trace::stream(&path, &mut count).expect("it is a trace");
    }));
    println!("events, one core             {parse:8.2} M events/s");
    println!("streamed, with SHA-256       {stream:8.2} M events/s   the hash on a second core");
    let mut report = Command::new("trace-cmd");
    report.arg("report").arg(&path).stdout(Stdio::null()).stderr(Stdio::null());
    let is_there = report.status().is_ok_and(|status| status.success());
    let peer = is_there.then(|| rate(best(1, || drop(report.status()))));
    std::fs::remove_file(&path).expect("it was written");
    let Some(peer) = peer else {
        println!("not run: trace-cmd report, which is absent");
        return;
    };
    println!("trace-cmd report > /dev/null {peer:8.2} M events/s   {:.1} times", parse / peer);
    require("trace.dat to trace-cmd report", parse / peer, Limit::NotBelow(GOAL_RATIO));
}
