// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures a replay of the oracle, which plans each CPU before it runs, against one of teo, on
//! recordings in memory and in one thread. Ratios are of CPU time.
//!
//! `cargo bench -p torpor-benches --bench oracle -- [TRACE...]`.

use std::path::{Path, PathBuf};
use torpor_benches::{Limit, aim, replayed};
use torpor_engine::{Loaded, Unwatched};

const ROUNDS: usize = 9;
const AIM: f64 = 3.0;
const LIMIT: f64 = 6.0;
/// The clusters of some take power of their own: their CPUs are planned together, which takes longer
/// than the aim where idle spans are shorter than states take to enter and leave (rk3399).
const MACHINES: [(&str, bool); 4] =
    [("pixel6", true), ("i5-10600k", false), ("rk3399", true), ("icelake-8360y", false)];

fn main() {
    let traces: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let mut traces: Vec<PathBuf> = traces.into_iter().filter(|path| path.is_file()).collect();
    if traces.is_empty() {
        traces = recordings();
    }
    println!("{:<16} {:>8} {:>8} {:>6}  ms a replay", "", "teo", "oracle", "ratio");
    let mut worst = [0.0_f64; 2];
    for trace in traces {
        println!("{}", trace.display());
        let loaded = Loaded::read(&trace, None, &Unwatched).unwrap_or_else(|e| panic!("{e}"));
        for (platform, is_together) in MACHINES {
            let (mut teo_s, mut oracle_s) = (f64::MAX, f64::MAX);
            for _ in 0..ROUNDS {
                teo_s = teo_s.min(cost_s(&loaded, platform, "teo"));
                oracle_s = oracle_s.min(cost_s(&loaded, platform, "oracle"));
            }
            let ratio = oracle_s / teo_s;
            let worst = &mut worst[usize::from(is_together)];
            *worst = worst.max(ratio);
            println!("{platform:<16} {:>8.2} {:>8.2} {ratio:>6.2}", teo_s * 1e3, oracle_s * 1e3);
        }
    }
    let [alone, together] = worst;
    aim("oracle to teo, CPUs alone, worst recording", alone, Limit::NotAbove(AIM));
    aim("oracle to teo, CPUs together, worst recording", together, Limit::NotAbove(AIM));
    std::process::exit(i32::from(alone > LIMIT));
}

/// Returns the demo's recording and those of guests, in order of name.
fn recordings() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let guests = std::fs::read_dir(root.join("tests/data/guest")).expect("recordings are there");
    let guests = guests.map(|entry| entry.expect("readable").path().join("trace.dat.gz"));
    let mut all: Vec<PathBuf> = guests.filter(|path| path.is_file()).collect();
    all.sort();
    all.insert(0, root.join("demo/web-server.perf.data"));
    all
}

fn cost_s(loaded: &Loaded, platform: &str, governor: &str) -> f64 {
    let platform = torpor_machine::platform::resolve(platform).unwrap_or_else(|e| panic!("{e}"));
    replayed(Vec::new(), &[loaded], &platform, &[governor]).0
}
