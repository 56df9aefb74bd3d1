// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Schedulers of sched_ext: programs that are compiled as C decide in the kernel's own class.

use crate::support::{catalog, load, machine, request};
use torpor_engine::Unwatched;
use torpor_sim::outcome::Outcome;
use torpor_sim::{Request, SimError};

const LOAD: &str = r#"
[[task]]
name = "periodic"
count = 3
phase = [{ run_us = 2000 }, { sleep_us = 3000 }]
"#;

fn program(name: &str) -> String {
    format!("{}/tests/sched/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn asked(schedulers: &[&str], ms: i64) -> Request {
    let mut request = request(machine(2, ""), load(LOAD), &["menu"], ms);
    let spec = |scheduler: &&str| match scheduler.contains(".bpf.c") {
        true => program(scheduler).parse().unwrap(),
        false => scheduler.parse().unwrap(),
    };
    request.options.schedulers = schedulers.iter().map(spec).collect();
    request
}

/// Runs it; none if the kernel's source is not here, without which no program is compiled.
fn run(schedulers: &[&str], ms: i64) -> Option<Result<Outcome, SimError>> {
    let run = torpor_sim::run(&asked(schedulers, ms), &catalog(), &Unwatched);
    let is_missing = |error: &SimError| error.to_string().contains("is not on this machine");
    if run.as_ref().err().is_some_and(is_missing) {
        println!("skipped: no source of Linux 6.12");
        return None;
    }
    Some(run)
}

#[test]
fn helpers_of_programs_do_as_they_say() {
    let Some(run) = run(&["eevdf", "helpers.bpf.c"], 300) else { return };
    let outcome = run.unwrap();
    let errors: Vec<_> = outcome.runs.iter().map(|column| &column.run.error).collect();
    assert_eq!(errors, [&None, &None]);
    let busy = |column: usize| outcome.runs[column].run.metrics["busy_pct"].unwrap();
    assert!((busy(0) - busy(1)).abs() < 10.0, "{} and {}", busy(0), busy(1));
    assert_eq!(outcome.runs[0].policies.scheduler, "eevdf");
    assert!(outcome.runs[1].policies.scheduler.ends_with("helpers.bpf.c"));
}

#[test]
fn a_program_gives_the_same_bytes_twice() {
    let Some(first) = run(&["helpers.bpf.c"], 200) else { return };
    let text = |run: Result<Outcome, SimError>| serde_json::to_string(&run.unwrap()).unwrap();
    assert_eq!(text(first), text(run(&["helpers.bpf.c"], 200).unwrap()));
}

#[test]
fn a_scheduler_that_stalls_is_ejected_with_a_note() {
    let Some(run) = run(&["stalls.bpf.c,nth=50"], 2_000) else { return };
    let outcome = run.unwrap();
    assert_eq!(outcome.runs[0].run.error, None);
    let note = outcome.notes.iter().find(|note| note.contains("ejected the scheduler"));
    let note = note.unwrap_or_else(|| panic!("{:?}", outcome.notes));
    assert!(note.contains("\"stalls\" disabled (runnable task stall)"), "{note}");
    let without = outcome.runs[0].run.metrics["ejected_pct"].unwrap();
    assert!((0.1..100.0).contains(&without), "{without} %");
}

#[test]
fn a_load_function_sets_variables_before_the_start() {
    let Some(without) = run(&["helpers.bpf.c,numbers=3,4"], 20) else { return };
    let error = |run: Result<Outcome, SimError>| run.unwrap().runs[0].run.error.clone();
    let refused = error(without).unwrap();
    assert!(refused.contains("does not start: ") && refused.contains("loaded =="), "{refused}");
    assert_eq!(error(run(&["loaded.bpf.c,numbers=3,4"], 20).unwrap()), None);
}

#[test]
fn what_a_scheduler_refuses_names_the_reason() {
    let Some(failing) = run(&["helpers.bpf.c,fails=1"], 20) else { return };
    for (run, parts) in [
        (Some(failing), ["the scheduler does not start", "!fails"]),
        (run(&["helpers.bpf.c,nonesuch=1"], 20), ["has no parameter", "number, fails"]),
        (run(&["helpers.bpf.c,fails=maybe"], 20), ["`maybe` is not a value", ".fails"]),
        (run(&["helpers.bpf.c,fails=0,1"], 20), ["`0,1` is not a value", ".fails"]),
        (run(&["helpers.bpf.c,number=1,2"], 20), ["`1,2` is not a value", ".number"]),
        (run(&["helpers.bpf.c,numbers=1,2,3,4,5"], 20), ["is not a value", ".numbers"]),
    ] {
        let outcome = run.unwrap().unwrap();
        let error = outcome.runs[0].run.error.as_deref().unwrap();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn only_files_and_the_kernels_own_are_schedulers() {
    let refused = |schedulers: &[&str]| {
        torpor_sim::run(&asked(schedulers, 20), &catalog(), &Unwatched).unwrap_err().to_string()
    };
    assert!(refused(&["cfs"]).contains("eevdf, or a path with `.c`"));
    assert!(refused(&["eevdf", "eevdf"]).contains("`eevdf` twice"));
}
