// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Calls of a function on another CPU: the caller waits for the IPI's handling.

use crate::support::{count, load, machine, near, polling_machine, request};
use torpor_governor::Catalog;
use torpor_machine::units::Duration;
use torpor_sim::{Workload, workload};

/// Calls of CPU 1 without pause; nothing else runs anywhere.
fn calls(more: &str) -> Workload {
    load(&format!("[[task]]\nname = \"t\"\ncpus = \"0\"\nphase = [{{ call = \"1\"{more} }}]\n"))
}

const IPI: &str = "ipi_delivery_us = 1\nipi_handling_us = 4\noverhead_source = \"made up\"";

#[test]
fn call_lasts_for_exit_latency_and_handling() {
    // The IPI's way of 1 us, the way out of C1 (2) or C6 (85), 4 to handle it, and the function.
    for (governor, more, round_us) in [
        ("shallowest", "", 1 + 2 + 4),
        ("deepest", "", 1 + 85 + 4),
        ("deepest", ", handling_us = 30", 1 + 85 + 4 + 30),
    ] {
        let counted = count(&request(machine(2, IPI), calls(more), &[governor], 100)).unwrap();
        let rounds = counted.kinds[0].passes;
        near(rounds as f64, 100_000.0 / f64::from(round_us), 0.01);
        // It waits in a loop, not asleep.
        let (busy, all) = (counted.cpus[0].task_time, Duration::from_us(100_000));
        assert!(all - busy <= Duration::from_us(200), "{governor}{more}: {busy}");
        assert_eq!(counted.kinds[0].wakeups, 0);
    }
}

#[test]
fn polling_or_busy_cpu_answers_at_once() {
    let polling = polling_machine(2, IPI);
    let counted = count(&request(polling, calls(""), &["shallowest"], 100)).unwrap();
    // 5 us; now and then polling times out, and the CPU asks its governor again.
    let rounds = counted.kinds[0].passes;
    assert!((19_800..=20_000).contains(&rounds), "{rounds} calls");
    let busy = load(
        "[[task]]\nname = \"t\"\ncpus = \"0\"\nphase = [{ call = \"1\" }]\n\
         [[task]]\nname = \"other\"\ncpus = \"1\"\nphase = [{ run_us = 1000 }]\n",
    );
    let counted = count(&request(machine(2, IPI), busy, &["deepest"], 100)).unwrap();
    // Both CPUs have to leave C6 first.
    assert!((19_970..=20_000).contains(&counted.kinds[0].passes), "{}", counted.kinds[0].passes);
    // Each call takes 4 us from the other's work.
    let rest = 100 - 100 * 4 / 5;
    assert!(counted.kinds[1].passes.abs_diff(rest) <= 1, "{}", counted.kinds[1].passes);
}

#[test]
fn sleeping_caller_wakes_from_its_own_idle_state() {
    let workload = calls(", asleep = true");
    let counted = count(&request(machine(2, IPI), workload, &["deepest"], 100)).unwrap();
    // An IPI in each direction, each with its delivery, the exit from C6 and 4 us to handle it. The
    // caller is woken when the other begins to handle it.
    let rounds = counted.kinds[0].passes;
    assert!(rounds.abs_diff(100_000 / (2 * (1 + 85) + 4)) <= 2, "{rounds} calls");
    assert!(counted.kinds[0].wakeups.abs_diff(rounds) <= 1);
    assert!(counted.cpus[0].task_time < Duration::from_us(10), "{}", counted.cpus[0].task_time);
}

#[test]
fn call_on_own_cpu_needs_no_ipi() {
    let own = load(
        "[[task]]\nname = \"t\"\ncpus = \"0\"\nphase = [{ call = \"0\", handling_us = 7 }, { run_us = 3 }]\n",
    );
    let counted = count(&request(machine(2, IPI), own, &["deepest"], 100)).unwrap();
    assert!((9_985..=10_000).contains(&counted.kinds[0].passes), "{}", counted.kinds[0].passes);
    let offline =
        load("[[task]]\nname = \"t\"\ncpus = \"0\"\nphase = [{ call = \"1\" }, { run_us = 10 }]\n");
    let mut request = request(machine(2, IPI), offline, &["deepest"], 100);
    request.options.cpus = Some(vec![torpor_machine::units::CpuId(0)]);
    let counted = count(&request).unwrap();
    assert!((9_985..=10_000).contains(&counted.kinds[0].passes), "{}", counted.kinds[0].passes);
}

#[test]
fn mutual_calls_do_not_deadlock() {
    let both = load(
        "[[task]]\nname = \"a\"\ncpus = \"0\"\nphase = [{ call = \"1\" }]\n\
         [[task]]\nname = \"b\"\ncpus = \"1\"\nphase = [{ call = \"0\" }]\n",
    );
    let counted = count(&request(machine(2, IPI), both, &["deepest"], 100)).unwrap();
    for kind in &counted.kinds {
        // 5 us, and up to another 4 for the other's call.
        assert!((11_000..=20_000).contains(&kind.passes), "{}", kind.passes);
    }
}

#[test]
fn a_call_names_cpus_that_the_machine_has() {
    let error = |tables: &str| {
        let text = format!("name = \"w\"\ntitle = \"w\"\nsource = \"made up\"\n{tables}");
        workload::from_toml("test.toml", &text).unwrap_err().to_string()
    };
    let message = error("[[task]]\nname = \"t\"\nphase = [{ run_us = 1, handling_us = 1 }]\n");
    assert!(message.contains("not allowed with `run_us`"), "{message}");
    let message = error("[[task]]\nname = \"t\"\nphase = [{ call = \"x\" }]\n");
    assert!(message.contains("call"), "{message}");
    let run = torpor_sim::run(
        &request(machine(1, ""), calls(""), &["deepest"], 10),
        &Catalog::new(Default::default()),
        &torpor_engine::Unwatched,
    );
    let message = run.unwrap_err().to_string();
    assert!(message.contains("names cpu1"), "{message}");
}
