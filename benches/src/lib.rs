// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Code shared by the benchmarks.

pub mod bare;

use std::path::PathBuf;
use std::time::{Duration, Instant};
use torpor_engine::{Loaded, Options, Outcome, Request, Unwatched, run_on};
use torpor_governor::Catalog;
use torpor_machine::platform::Platform;

/// Returns the time of the fastest round, the one least disturbed by other load.
pub fn best(rounds: usize, mut work: impl FnMut()) -> Duration {
    let round = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..rounds).map(round).min().expect("at least one round")
}

/// Returns the CPU time of the round that took least.
pub fn best_cpu(rounds: usize, mut work: impl FnMut()) -> Duration {
    let round = |_| {
        let start = cpu_s();
        work();
        Duration::from_secs_f64((cpu_s() - start).max(0.0))
    };
    (0..rounds).map(round).min().expect("at least one round")
}

/// Returns the CPU time of this thread, in seconds, which excludes other load.
pub fn cpu_s() -> f64 {
    clock_s(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the CPU time of this process, in seconds.
pub fn process_cpu_s() -> f64 {
    clock_s(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock_s(clock: libc::clockid_t) -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills in a local variable.
    let result = unsafe { libc::clock_gettime(clock, &raw mut now) };
    assert_eq!(result, 0, "Linux has this clock");
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Replays recordings in one thread. Returns the CPU time, in seconds, and the outcome.
pub fn replayed(
    traces: Vec<PathBuf>,
    loaded: &[&Loaded],
    platform: &Platform,
    governors: &[&str],
) -> (f64, Outcome) {
    let governors = governors.iter().map(|name| name.parse().unwrap_or_else(|e| panic!("{e}")));
    let request = Request {
        traces,
        platform: platform.clone(),
        governors: governors.collect(),
        options: Options { threads: Some(1), ..Options::default() },
    };
    let catalog = Catalog::new(Default::default());
    let started_s = process_cpu_s();
    let outcome = run_on(&request, loaded, &catalog, &Unwatched).unwrap_or_else(|e| panic!("{e}"));
    (process_cpu_s() - started_s, outcome)
}

/// A file in the system's temporary folder, removed on drop.
pub struct Temporary(pub PathBuf);

impl Temporary {
    pub fn new(extension: &str, bytes: &[u8]) -> Temporary {
        let name = format!("torpor-bench-{}.{extension}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the path of a recording next to the project, or prints that it is absent.
pub fn shared_trace(name: &str) -> Option<std::path::PathBuf> {
    let path = format!("{}/../../shared/traces/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::path::Path::new(&path).exists() {
        return Some(path.into());
    }
    println!("not run on {name}: ../shared/traces is absent");
    None
}

/// A limit of what is measured.
#[derive(Clone, Copy)]
pub enum Limit {
    NotAbove(f64),
    NotBelow(f64),
}

/// Prints a line of the table that `make bench` makes (`benches/table.py`); returns whether the
/// value is within its limit.
pub fn aim(what: &str, value: f64, limit: Limit) -> bool {
    let (word, number, is_met) = match limit {
        Limit::NotAbove(most) => ("most", most, value <= most),
        Limit::NotBelow(least) => ("least", least, value >= least),
    };
    println!("aim: {what}: {value:.3}, at {word} {number}");
    is_met
}

/// The same, and ends the process with status 1 if it is not.
pub fn require(what: &str, value: f64, limit: Limit) {
    if !aim(what, value, limit) {
        std::process::exit(1);
    }
}

/// Returns the governors named on the command line, else the built-in ones. Options, such as
/// cargo's `--bench`, are ignored.
pub fn named_governors() -> Vec<String> {
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if !named.is_empty() {
        return named;
    }
    torpor_governor::Catalog::builtin_names().map(str::to_owned).collect()
}
