// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A workload that cannot continue ends with an error that names task, phase and time.

use crate::support::{count, load, machine, request};
use torpor_sim::workload;

fn ends_with(tables: &str) -> String {
    match count(&request(machine(2, ""), load(tables), &["menu"], 1_000)) {
        Ok(_) => panic!("it went on"),
        Err(error) => error,
    }
}

#[test]
fn tasks_waiting_for_each_other_are_a_deadlock() {
    let error = ends_with(
        r#"
[[task]]
name = "a"
phase = [{ run_us = 50 }, { wait = "x" }, { wake = "y" }]
[[task]]
name = "b"
phase = [{ wait = "y" }, { wake = "x" }]
"#,
    );
    // 50 us of work, after the way out of C6.
    assert!(error.starts_with("task `a` (0) at phase[1], 0.00013"), "{error}");
    let all = "deadlock: nothing can wake `a` (0) on channel `x`, `b` (0) on channel `y`";
    assert!(error.ends_with(all), "{error}");
}

#[test]
fn pending_interrupt_prevents_a_deadlock() {
    let workload = load(
        r#"
[[task]]
name = "a"
phase = [{ wait = "x" }, { run_us = 50 }]
[[interrupt]]
name = "nic"
interval_us = 300000
wake = "x"
"#,
    );
    let counted = count(&request(machine(2, ""), workload, &["menu"], 1_000)).unwrap();
    assert_eq!(counted.kinds[0].wakeups, 3);
}

#[test]
fn deadlock_is_found_after_the_last_interrupt() {
    let error = ends_with(
        r#"
[[task]]
name = "a"
phase = [{ wait = "x" }, { run_us = 50 }]
[[interrupt]]
name = "nic"
interval_us = 1000
max = 2
wake = "x"
"#,
    );
    assert!(error.starts_with("task `a` (0) at phase[0], 0.002"), "{error}");
}

#[test]
fn endless_loop_is_an_error() {
    let error =
        ends_with("[[task]]\nname = \"spin\"\nphase = [{ repeat = 5, do = [{ run_us = 0 }] }]\n");
    assert!(error.contains("task `spin` (0) at phase[0]"), "{error}");
    assert!(error.contains("no time passes"), "{error}");
}

#[test]
fn runaway_fork_is_an_error() {
    let error = ends_with(
        "[[task]]\nname = \"f\"\nphase = [{ run_us = 1 }, { spawn = \"f\", count = 2 }]\n",
    );
    assert!(error.contains("more than 20000 tasks are alive"), "{error}");
    assert!(error.starts_with("task `f`"), "{error}");
}

/// Returns the error of reading these tables.
fn refused(tables: &str) -> String {
    let text = format!("name = \"w\"\ntitle = \"w\"\nsource = \"made up\"\n{tables}");
    workload::from_toml("w.toml", &text).unwrap_err().to_string()
}

#[test]
fn errors_in_a_file_name_their_line() {
    let cases = [
        (
            "[[task]]\nname = \"a\"\nphase = [{ wake = \"nobody\" }, { run_us = 5 }]\n",
            "no task waits on this channel",
        ),
        (
            "[[task]]\nname = \"a\"\nphase = [{ wait = \"x\" }]\n",
            "no task or interrupt wakes this channel",
        ),
        (
            "[[task]]\nname = \"a\"\ncount = 3\ngroup = 2\nphase = [{ run_us = 5 }]\n",
            "3 tasks cannot be divided into groups of this size",
        ),
        (
            "[[task]]\nname = \"a\"\ncount = 4\ngroup = 2\nphase = [{ wait = \"x\" }]\n\
             [[interrupt]]\nname = \"i\"\ninterval_us = 9\nwake = \"x\"\n",
            "the number of groups differs: 1 here, 2 elsewhere",
        ),
        ("[[task]]\nname = \"a\"\nphase = [{ spawn = \"bb\" }]\n", "there is no task of this name"),
        (
            "[[task]]\nname = \"a\"\nphase = [{ run_us = 5, sleep_us = 5 }]\n",
            "`run_us` is also given",
        ),
        ("[[task]]\nname = \"a\"\nphase = [{ count = 5 }]\n", "this phase does nothing"),
        ("[[task]]\nname = \"a\"\nphase = [{ repeat = 5 }]\n", "there is nothing to repeat"),
        ("[[task]]\nname = \"a\"\nphase = [{ run_us = -1 }]\n", "this is negative"),
        ("[[task]]\nname = \"a\"\nphase = [{ runs_us = 1 }]\n", "did you mean `run_us`?"),
        (
            "[[task]]\nname = \"a\"\nphase = [{ run_us = { dist = \"gamma\", mean = 5 } }]\n",
            "sd: this key is missing",
        ),
        (
            "[[task]]\nname = \"a\"\nphase = [{ run_us = { dist = \"uniform\", min = 5, max = 1 } }]\n",
            "this is below `min`",
        ),
        (
            "[[task]]\nname = \"a\"\nphase = [{ run_us = 1 }]\n[[task]]\nname = \"a\"\nphase = [{ run_us = 1 }]\n",
            "this name is already used",
        ),
        (
            "[[task]]\nname = \"a\"\nphase = [{ run_us = 1 }]\n[[interrupt]]\nname = \"i\"\ninterval_us = 0\n",
            "the interval is zero",
        ),
        ("task = []\n", "at least one task"),
    ];
    for (tables, words) in cases {
        let error = refused(tables);
        assert!(error.contains(words), "{tables}\n{error}");
        assert!(error.contains("--> w.toml:"), "{error}");
    }
}
