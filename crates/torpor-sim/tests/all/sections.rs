// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Sections of a load, each with its own tasks and interrupts.

use crate::support::{count, load, machine, request};
use torpor_machine::units::Duration;

const SECTIONS: &str = r#"
[[section]]
name = "single"
duration_us = 30000

[[section]]
name = "parallel"
duration_us = 10000

[[task]]
name = "one"
during = "single"
phase = [{ run_us = 500 }, { period_us = 1000 }]

[[task]]
name = "many"
count = 2
during = ["parallel"]
phase = [{ run_us = 400 }, { sleep_us = 600 }]

[[task]]
name = "always"
phase = [{ run_us = 100 }, { period_us = 2000 }]

[[interrupt]]
name = "nic"
during = "parallel"
interval_us = 500
"#;

#[test]
fn tasks_run_in_their_sections_alone() {
    let counted = count(&request(machine(2, ""), load(SECTIONS), &["menu"], 1_000)).unwrap();
    let passes = |kind: usize| counted.kinds[kind].passes;
    // 25 cycles of 40 ms: 30 periods, 10 passes of each of two tasks, 20 interrupts.
    assert!((735..=750).contains(&passes(0)), "{}", passes(0));
    assert!((450..=500).contains(&passes(1)), "{}", passes(1));
    assert!((495..=500).contains(&passes(2)), "{}", passes(2));
    // Periods do not pass in the sections of others, or each cycle would have ten.
    assert!(counted.kinds[0].missed <= 10, "{}", counted.kinds[0].missed);
    assert!(counted.kinds[0].pass_time.latencies().max().unwrap() < Duration::from_us(5_000));
}

#[test]
fn interrupts_come_in_their_sections_alone() {
    let only = SECTIONS.split("[[task]]").next().unwrap().to_owned()
        + "[[task]]\nname = \"t\"\nphase = [{ wait = \"w\" }, { run_us = 10 }]\n\
           [[interrupt]]\nname = \"nic\"\nduring = \"parallel\"\ninterval_us = 500\nwake = \"w\"\n";
    let counted = count(&request(machine(1, ""), load(&only), &["menu"], 1_000)).unwrap();
    assert!((498..=500).contains(&counted.kinds[0].passes), "{}", counted.kinds[0].passes);
}

#[test]
fn unknown_sections_are_errors() {
    let head = "name = \"x\"\ntitle = \"x\"\nsource = \"x\"\n";
    let wrong = format!("{head}{}", SECTIONS.replace("\"single\"\nphase", "\"solo\"\nphase"));
    let error = torpor_sim::workload::from_toml("x", &wrong).unwrap_err().to_string();
    assert!(
        error.contains("no section of this name") && error.contains("single, parallel"),
        "{error}"
    );
    let wrong = format!("{head}{}", SECTIONS.replace("duration_us = 10000", "duration_us = 0"));
    let error = torpor_sim::workload::from_toml("x", &wrong).unwrap_err().to_string();
    assert!(error.contains("the section has no length"), "{error}");
}
