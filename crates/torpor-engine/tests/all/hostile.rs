// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Governors that attack their process: each ends in an error that names it, and the others'
//! results do not change.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use torpor_engine::{Options, Outcome, Request, Unwatched, run};
use torpor_governor::{Catalog, CatalogOptions, GovernorError, Isolation, set_call_limit};

/// Some leave processes behind, so only one test at a time can count them.
static ALONE: Mutex<()> = Mutex::new(());

/// System calls that have no effect outside the governor's own process.
const HARMLESS_CALLS: [u32; 4] = [13, 14, 35, 36];
const SIGSYS: &str = "made a system call, which no kernel code does (SIGSYS); its inputs: now_ns=";

/// Returns true if the kernel distinguishes a governor's system calls: on x86 since Linux 5.11.
fn system_calls_are_faults() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let release = (numbers.next(), numbers.next());
    cfg!(target_arch = "x86_64") && release >= (Some(5), Some(11))
}

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
        platform: torpor_machine::platform::resolve("i5-10600k").unwrap(),
        governors: governors.iter().map(|g| g.parse().unwrap()).collect(),
        options: Options { threads: Some(2), ..Options::default() },
    };
    run(&request, catalog, &Unwatched).unwrap_or_else(|e| panic!("{e}"))
}

fn json(outcome: &Outcome, run: usize) -> String {
    serde_json::to_string(&outcome.traces[0].runs[run]).unwrap()
}

/// Returns this process's children and orphaned grandchildren.
fn children() -> Vec<String> {
    let pid = std::process::id();
    // Other tests run compilers and programs meanwhile; a fork has this test's executable.
    let own = std::fs::read_link("/proc/self/exe").unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|e| e.path());
    let forks = all.filter(|path| std::fs::read_link(path.join("exe")).is_ok_and(|exe| exe == own));
    let stat = forks.filter_map(|path| std::fs::read_to_string(path.join("stat")).ok());
    let of_ours = |stat: &String| {
        let name = stat.contains("(hostile-") || stat.contains("(torpor-");
        let after = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let mut fields = after.split(' ').skip(1);
        fields.next() == Some(pid.to_string().as_str()) || name && after.starts_with("R 1 ")
    };
    stat.filter(of_ours).collect()
}

#[test]
fn hostile_governor_ends_alone_with_an_error() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    set_call_limit(std::time::Duration::from_millis(200));
    let expected = [
        (1, "select() on cpu", "SIGSEGV"),
        (2, "select() on cpu", "did not return within its limit (200ms of CPU time"),
        (3, "select() on cpu", "SIGSEGV"),
        (4, "has ended its process in select() on cpu", "SIGSEGV; its inputs: now_ns="),
        (5, "select() on cpu", "its inputs: now_ns="),
        (17, "select() on cpu", "its inputs: now_ns="),
        (21, "select() on cpu", if cfg!(target_arch = "x86_64") { "SIGFPE" } else { "" }),
        (22, "select() on cpu", "SIG"),
        (23, "answered state 1000", "states 0 to"),
        (24, "answered state -1", "states 0 to"),
        (25, "hit BUG at", "hostile.c"),
        (27, "select() on cpu", "SIGSEGV"),
        (28, "select() on cpu", "SIGSEGV"),
        (32, "select() on cpu", "SIGSEGV"),
        (33, "select() on cpu", "its inputs: now_ns="),
    ];
    // Refused only by a kernel that distinguishes system calls.
    let ended = "has ended its process in select() on cpu";
    let elsewhere = [
        (6, ended, "status 0; its inputs: now_ns="),
        (7, ended, "status 7"),
        (8, ended, "SIGKILL; its inputs: now_ns="),
        (9, ended, "SIGABRT"),
        (10, ended, "SIGSTOP"),
        (11, ended, "SIGTERM"),
        (12, "has ended its process after select() on cpu", "status 1"),
        (15, ended, "did not return within its limit"),
        (16, "select() on cpu", "did not return within its limit"),
        (18, "", "SIG"),
        (19, ended, "status 0"),
        (20, ended, "SIGKILL"),
        (29, ended, "SIGSEGV"),
        (30, ended, "SIGSEGV"),
        (34, "has ended its process", ""),
    ];
    let harmless = HARMLESS_CALLS.map(|how| (how, "", ""));
    let calls: Vec<_> = match system_calls_are_faults() {
        true => elsewhere
            .iter()
            .chain(&harmless)
            .map(|(how, ..)| (*how, "select() on cpu", SIGSYS))
            .collect(),
        false => elsewhere.to_vec(),
    };
    let alone = replay(&["teo", "menu"]);
    let mut silent = Vec::new();
    for (how, what, more) in expected.into_iter().chain(calls) {
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

#[test]
fn fatal_system_call_is_a_fault() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !system_calls_are_faults() {
        return println!("not run: this kernel does not distinguish a governor's system calls");
    }
    let options = CatalogOptions { isolation: Isolation::None, ..CatalogOptions::default() };
    let catalog = Catalog::new(options);
    let alone = replay_with(&catalog, &["teo", "menu"]);
    // exit_group(), SIGKILL, and a write to standard output.
    for how in [6, 8, 14] {
        let outcome = replay_with(&catalog, &["teo", &hostile(how, 100), "menu"]);
        let error = outcome.traces[0].runs[1].error.as_deref().expect("it is a fault");
        assert!(error.contains(&format!("how={how}")) && error.contains(SIGSYS), "{error}");
        assert!(error.contains("select() on cpu"), "{error}");
        assert_eq!(json(&outcome, 0), json(&alone, 0), "teo beside {how}");
        assert_eq!(json(&outcome, 2), json(&alone, 1), "menu beside {how}");
    }
}

#[test]
fn harmless_calls_are_no_error() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let well_behaved = replay(&[&hostile(0, 100)]);
    let metrics = |o: &Outcome| serde_json::to_string(&o.traces[0].runs[0].metrics).unwrap();
    let calls = HARMLESS_CALLS.into_iter().filter(|_| !system_calls_are_faults());
    for how in [26, 31].into_iter().chain(calls) {
        let outcome = replay(&[&hostile(how, 100)]);
        assert_eq!(outcome.traces[0].runs[0].error, None, "{how}");
        assert_eq!(metrics(&outcome), metrics(&well_behaved), "{how}");
        assert_eq!(children(), Vec::<String>::new(), "{how}");
    }
}

#[test]
fn exit_before_the_first_decision_is_named() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let calls = [(6, "status 0"), (8, "SIGKILL"), (10, "SIGSTOP")];
    let is_fault = system_calls_are_faults();
    let calls =
        calls.map(|(how, ended)| (how, if is_fault { "made a system call" } else { ended }));
    for (how, what) in calls.into_iter().chain([(1, "SIGSEGV")]) {
        let spec = hostile(how, 0).parse().unwrap();
        let error =
            Catalog::new(Default::default()).resolve(&spec, torpor_machine::units::Hz::H250);
        let error: GovernorError = error.expect_err("it ends in its initcall");
        let text = error.to_string();
        assert!(text.contains("hostile.c") && text.contains("init()"), "{text}");
        assert!(text.contains(what), "{text}");
    }
}
