// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! No governor consumes less than the oracle in CPUs and clusters together, on any recording.

use std::path::{Path, PathBuf};
use torpor_engine::outcome::{Proof, TraceOutcome};
use torpor_engine::{Options, Request, Unwatched, run};
use torpor_governor::Catalog;

const GOVERNORS: [&str; 6] = ["menu", "teo", "ladder", "deepest", "shallowest", "oracle"];

/// Machines whose clusters consume power apart from their CPUs.
const MACHINES: [&str; 3] = ["pixel6", "pixel-watch-2", "rk3399"];

fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/guest");
    let entries = std::fs::read_dir(&folder).expect("the recordings are there");
    let traces = entries.map(|entry| entry.expect("it can be listed").path());
    let mut traces: Vec<PathBuf> =
        traces.map(|path| path.join("trace.dat.gz")).filter(|path| path.exists()).collect();
    traces.sort();
    traces
}

fn replayed(traces: Vec<PathBuf>, machine: &str) -> Vec<TraceOutcome> {
    let request = Request {
        traces,
        platform: torpor_machine::platform::resolve(machine).expect("it is built in"),
        governors: GOVERNORS.map(|name| name.parse().expect("a name")).to_vec(),
        options: Options::default(),
    };
    let catalog = Catalog::new(Default::default());
    run(&request, &catalog, &Unwatched).expect("it can be replayed").traces
}

/// Checks the bound. Returns the share by which the decisions found are above it; 0 only if they
/// are proven optimal.
fn bounded(trace: &TraceOutcome, machine: &str) -> f64 {
    let oracle = trace.oracle.as_ref().expect("power is known");
    let what = format!("{} on {machine}", trace.trace.path);
    for run in &trace.runs {
        let over = run.metrics["over_oracle_pct"].expect("power is known");
        assert!(over >= -1e-9, "{what}: {} is {over} % over the oracle", run.governor);
    }
    let bound_mw = oracle.bound_mw.unwrap_or_else(|| panic!("{what}: no bound"));
    assert_eq!(oracle.proof == Proof::Exact, bound_mw == oracle.found_mw, "{what}");
    oracle.found_mw / bound_mw - 1.0
}

#[test]
fn no_governor_is_below_the_oracle_in_total() {
    let traces = recordings();
    assert!(traces.len() >= 40, "{}", traces.len());
    let mut exact = 0;
    for machine in MACHINES {
        for trace in replayed(traces.clone(), machine) {
            let gap = bounded(&trace, machine);
            assert!(gap < 0.25, "{} on {machine}: {gap}", trace.trace.path);
            exact += usize::from(gap == 0.0);
        }
    }
    assert!(exact >= 60, "{exact}");
}

#[test]
fn a_whole_phones_oracle_is_exact() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let path = shared.join("pixel6a-startup.perfetto-trace");
    if !path.exists() {
        eprintln!("not run: {} is not here", path.display());
        return;
    }
    let gap = bounded(&replayed(vec![path], "pixel6")[0], "pixel6");
    assert!(gap == 0.0, "{gap}");
}
