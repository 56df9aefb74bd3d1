// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Governors that do to their process what they must not: each ends in an error that names it, and
//! the others' results are as they were.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use torpor_engine::{Options, Outcome, Request, Unwatched, run};
use torpor_governor::{Catalog, CatalogOptions, GovernorError, Isolation, set_call_limit};

/// They leave processes behind if they can, which only one test at a time can count.
static ALONE: Mutex<()> = Mutex::new(());

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn hostile(how: u32, from: u32) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/governors/hostile.c");
    format!("{},how={how},from={from}", path.display())
}

fn replay(governors: &[&str]) -> Outcome {
    replay_with(&Catalog::new(Default::default()), governors)
}

fn replay_with(catalog: &Catalog, governors: &[&str]) -> Outcome {
    let request = Request {
        traces: vec![root().join("demo/web-server.perf.data")],
        platform: torpor_platform::resolve("i5-10600k").unwrap(),
        governors: governors.iter().map(|g| g.parse().unwrap()).collect(),
        options: Options { threads: Some(2), ..Options::default() },
    };
    run(&request, catalog, &Unwatched).unwrap_or_else(|e| panic!("{e}"))
}

fn json(outcome: &Outcome, run: usize) -> String {
    serde_json::to_string(&outcome.traces[0].runs[run]).unwrap()
}

/// This process's children, and theirs if they have left them to us.
fn children() -> Vec<String> {
    let pid = std::process::id();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let stat = all.filter_map(|e| std::fs::read_to_string(e.path().join("stat")).ok());
    let of_ours = |stat: &String| {
        let name = stat.contains("(hostile-") || stat.contains("(torpor-");
        let after = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let mut fields = after.split(' ').skip(1);
        fields.next() == Some(pid.to_string().as_str()) || name && after.starts_with("R 1 ")
    };
    stat.filter(of_ours).collect()
}

#[test]
fn each_ends_in_an_error_that_names_it_and_the_others_live_on() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    set_call_limit(std::time::Duration::from_millis(200));
    let expected = [
        (1, "select() on cpu", "SIGSEGV"),
        (2, "select() on cpu", "did not return"),
        (3, "select() on cpu", "SIGSEGV"),
        (4, "", ""),
        (5, "", ""),
        (6, "has ended its process in select()", "status 0"),
        (7, "has ended its process in select()", "status 7"),
        (8, "has ended its process in select()", "SIGKILL"),
        (9, "has ended its process in select()", "SIGABRT"),
        (10, "has ended its process in select()", "SIGSTOP"),
        (11, "has ended its process in select()", "SIGTERM"),
        (12, "has ended its process between its calls", "status 1"),
        (15, "has ended its process in select()", "its CPU time limit, and blocks the signal"),
        (16, "select() on cpu", "did not return"),
        (17, "", "SIG"),
        (18, "", "SIG"),
        (19, "has ended its process in select()", "status 0"),
        (20, "has ended its process in select()", "SIGKILL"),
        (21, "select() on cpu", if cfg!(target_arch = "x86_64") { "SIGFPE" } else { "" }),
        (22, "select() on cpu", "SIG"),
        (23, "answered state 1000", "states 0 to"),
        (24, "answered state -1", "states 0 to"),
        (25, "hit BUG at", "hostile.c"),
        (27, "select() on cpu", "SIGSEGV"),
        (28, "select() on cpu", "SIGSEGV"),
        (29, "has ended its process in select()", "SIGSEGV"),
        (30, "has ended its process in select()", "SIGSEGV"),
        (32, "select() on cpu", "SIGSEGV"),
        (33, "", ""),
        (34, "has ended its process", ""),
    ];
    let alone = replay(&["teo", "menu"]);
    let mut silent = Vec::new();
    for (how, what, more) in expected {
        let spec = hostile(how, 100);
        let outcome = replay(&["teo", &spec, "menu"]);
        let Some(error) = &outcome.traces[0].runs[1].error else {
            silent.push(how);
            continue;
        };
        println!("{how}: {error}");
        let named = error.contains(&format!("hostile.c,how={how},from=100`"));
        assert!(named && error.contains(what) && error.contains(more), "{how}: {error}");
        let is_placed = !error.contains("has ended its process") || error.contains("perf.data`)");
        assert!(is_placed, "{how}: {error}");
        assert_eq!(json(&outcome, 0), json(&alone, 0), "teo beside {how}");
        assert_eq!(json(&outcome, 2), json(&alone, 1), "menu beside {how}");
    }
    assert!(silent.is_empty(), "{silent:?} did not fail");
    assert_eq!(children(), Vec::<String>::new());
}

/// Without processes of their own, where the kernel tells a governor's system calls from ours
/// (x86: since Linux 5.11).
#[test]
fn a_system_call_is_a_fault_where_it_would_end_everything() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let release = (numbers.next(), numbers.next());
    if !cfg!(target_arch = "x86_64") || release < (Some(5), Some(11)) {
        return println!("not run: this kernel does not tell them apart");
    }
    let options = CatalogOptions { isolation: Isolation::None, ..CatalogOptions::default() };
    let catalog = Catalog::new(options);
    let alone = replay_with(&catalog, &["teo", "menu"]);
    // exit_group(), SIGKILL, and a word to standard output.
    for how in [6, 8, 14] {
        let outcome = replay_with(&catalog, &["teo", &hostile(how, 100), "menu"]);
        let error = outcome.traces[0].runs[1].error.as_deref().expect("it is a fault");
        assert!(error.contains(&format!("how={how}")) && error.contains("SIGSYS"), "{error}");
        assert!(error.contains("select() on cpu") && error.contains("inputs:"), "{error}");
        assert_eq!(json(&outcome, 0), json(&alone, 0), "teo beside {how}");
        assert_eq!(json(&outcome, 2), json(&alone, 1), "menu beside {how}");
    }
}

#[test]
fn what_does_no_harm_here_is_no_error() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let well_behaved = replay(&[&hostile(0, 100)]);
    let metrics = |o: &Outcome| serde_json::to_string(&o.traces[0].runs[0].metrics).unwrap();
    for how in [13, 14, 26, 31, 35, 36] {
        let outcome = replay(&[&hostile(how, 100)]);
        assert_eq!(outcome.traces[0].runs[0].error, None, "{how}");
        assert_eq!(metrics(&outcome), metrics(&well_behaved), "{how}");
        assert_eq!(children(), Vec::<String>::new(), "{how}");
    }
}

#[test]
fn one_that_ends_its_process_before_it_decides_is_named_too() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    for (how, what) in [(6, "status 0"), (8, "SIGKILL"), (10, "SIGSTOP"), (1, "SIGSEGV")] {
        let spec = hostile(how, 0).parse().unwrap();
        let error = Catalog::new(Default::default()).resolve(&spec, torpor_units::Hz::H250);
        let error: GovernorError = error.expect_err("it ends in its initcall");
        let text = error.to_string();
        assert!(text.contains("hostile.c") && text.contains("init()"), "{text}");
        assert!(text.contains(what), "{text}");
    }
}
