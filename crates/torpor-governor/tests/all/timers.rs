// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Timers that a governor arms, as the host sees them.

use crate::support::{resolve, server_states};
use std::path::Path;
use torpor_governor::{CpuSetup, Inputs, Instance, Setup};
use torpor_machine::units::{CpuId, Hz, Instant};

/// `timers.c` on CPUs 3 and 5.
fn timers(params: &str) -> Instance {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/governors/timers.c");
    let states = server_states();
    let cpus = [3, 5].map(|cpu| CpuSetup::new(CpuId(cpu), &states));
    let governor = resolve(&format!("{}{params}", path.display()), Hz::H250);
    governor.instantiate(&Setup { cpus: &cpus }).unwrap()
}

fn at(now: i64) -> Inputs {
    Inputs { now: Instant(now), ..Inputs::default() }
}

#[test]
fn armed_timer_is_visible_and_expires_when_due() {
    let mut instance = timers("");
    assert_eq!(instance.next_timer(0), None);
    assert_eq!(instance.select(0, &at(1_000)).unwrap().state, 0);
    assert_eq!((instance.next_timer(0), instance.next_timer(1)), (Some(Instant(1_100)), None));

    instance.fire_timer(0, Instant(1_099)).unwrap();
    assert_eq!(instance.next_timer(0), Some(Instant(1_100)), "not yet due");
    instance.fire_timer(0, Instant(1_100)).unwrap();
    assert_eq!(instance.next_timer(0), Some(Instant(1_200)));
    instance.fire_timer(0, Instant(5_000)).unwrap();
    assert_eq!(instance.next_timer(0), None);
    assert_eq!(instance.select(0, &at(6_000)).unwrap().state, 2, "two callbacks have run");
}

#[test]
fn governor_or_host_can_cancel_a_timer() {
    let mut instance = timers("");
    instance.select(0, &at(0)).unwrap();
    // Its reflect() cancels the second.
    instance.reflect(0, 0, Instant(50), false).unwrap();
    instance.fire_timer(0, Instant(1_000)).unwrap();
    assert_eq!(instance.select(0, &at(2_000)).unwrap().state, 1);
    instance.cancel_timers(0);
    assert_eq!(instance.next_timer(0), None);
    instance.fire_timer(0, Instant(9_000)).unwrap();
    assert_eq!(instance.select(0, &at(10_000)).unwrap().state, 1);
    assert_eq!(instance.next_timer(0), Some(Instant(10_100)), "a cancelled timer can start again");
}

#[test]
fn wrong_use_of_timers_is_a_fault() {
    let mut instance = timers(",slip=1");
    instance.select(0, &at(0)).unwrap();
    let fault = instance.fire_timer(0, Instant(100)).unwrap_err().to_string();
    assert!(fault.contains("a timer's callback on cpu3") && fault.contains("now="), "{fault}");
    assert!(instance.select(0, &at(200)).is_err(), "the instance is of no more use");

    for (slip, part) in [(2, "more timers than a CPU can have"), (3, "without a function")] {
        let fault = timers(&format!(",slip={slip}")).select(0, &at(0)).unwrap_err().to_string();
        assert!(fault.contains(part), "{fault}");
    }
}
