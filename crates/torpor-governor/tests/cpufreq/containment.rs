// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A foreign policy gets what the header promises, and one that fails ends in a clear error.

use super::{Machine, OPPS_KHZ, busy, instance, resolve};
use torpor_governor::{Cause, CpufreqCpu, CpufreqInstance, Fault, set_call_limit};
use torpor_units::{Duration, Instant};

fn failing(how: u32) -> CpufreqInstance {
    instance(&format!("{},how={how}", path()))
}

fn path() -> String {
    format!("{}/tests/cpufreq/failing.c", env!("CARGO_MANIFEST_DIR"))
}

/// `failing.c` adds up every number that it is shown, each times another.
#[test]
fn each_call_gets_what_the_header_promises() {
    let machine =
        Machine { latency: Duration(7), delay: Some(Duration(11)), ..Machine::new(&[100, 200]) };
    let mut policy = machine.run(&format!("{}@6.1", path())).unwrap();
    let shown = CpufreqCpu {
        util: 2,
        runnable: 3,
        boost: 5,
        perf_min: 7,
        capacity: 11,
        idle_calls: 13,
        cpu: 4,
        uclamp_min: 17,
        uclamp_max: 19,
        reserved: 0,
    };
    policy.show(0, 1, shown);
    policy.update(0, 1, Instant(23), true).unwrap();
    let of_cpu = 2 + 2 * 3 + 3 * 5 + 4 * 7 + 5 * 11 + 6 * 13 + 7 * 4 + 8 * 17 + 9 * 19;
    let of_domain = 2 * 10 + 2 * 20 + 200 * 30 + 7 * 40 + 11 * 50;
    let seen = policy.performance(0).unwrap();
    // Now, the flag, and 1 for 6.1.
    assert_eq!(seen, (of_cpu + of_domain + 23 + 1 + 1) % 1024);
    assert_eq!(policy.performance(1).unwrap(), 0, "the other domain's state is its own");
    policy.restart(0).unwrap();
    assert_eq!(policy.performance(0).unwrap(), 0, "as new");
}

#[test]
fn a_policy_says_before_when_it_is_not_to_be_asked() {
    let mut policy = failing(20);
    assert!(policy.is_due(0, Instant(0)), "at first at any time");
    policy.update(0, 0, Instant(5), false).unwrap();
    assert!(!policy.is_due(0, Instant(104)) && policy.is_due(0, Instant(105)));
    assert!(policy.is_due(1, Instant(0)), "the other domain");
}

fn fault_in_update(how: u32) -> Fault {
    let mut policy = failing(how);
    let fault = policy.update(0, 1, Instant(12), true).expect_err("it fails");
    let text = fault.to_string();
    assert!(text.starts_with("frequency policy `"), "{text}");
    assert!(text.contains(&format!("failing.c,how={how}`: update() on cpu4")), "{text}");
    assert!(text.contains("now=0.000000012 s") && text.contains("flags=IOWAIT"), "{text}");
    // It stays failed; others do not care.
    assert_eq!(policy.update(1, 0, Instant(13), false), Err(fault.clone()));
    assert_eq!((policy.performance(0), policy.fault()), (Err(fault.clone()), Some(&fault)));
    failing(0).update(0, 1, Instant(12), false).unwrap();
    fault
}

#[test]
fn a_fault_names_call_and_inputs() {
    let signal = |address| Cause::Signal { signo: libc::SIGSEGV, address };
    assert_eq!(fault_in_update(1).detail().cause, signal(0));
    assert!(matches!(&fault_in_update(2).detail().cause, Cause::Bug { file, .. }
        if file.ends_with("failing.c")));
    // Past the last CPU, domain and OPP.
    for how in [3, 4, 5] {
        assert!(matches!(fault_in_update(how).detail().cause, Cause::Signal { .. }), "{how}");
    }
    set_call_limit(std::time::Duration::from_millis(300));
    assert_eq!(fault_in_update(6).detail().cause, Cause::TimedOut);
}

#[test]
fn an_answer_that_is_no_opp_is_refused() {
    for (how, index) in [(7, 4), (8, -2), (9, i32::MAX)] {
        let fault = fault_in_update(how);
        assert_eq!(fault.detail().cause, Cause::NoSuchOpp { index, opp_count: 4 });
        assert!(fault.to_string().contains("but the clock has OPPs 0 to 3"), "{fault}");
    }
    for (how, boost) in [(10, 1025), (11, u32::MAX)] {
        let fault = failing(how).performance(1).expect_err("too high");
        assert_eq!(fault.detail().cause, Cause::NoSuchBoost { boost });
        assert!(fault.to_string().contains("performance() on cpu2 answered"), "{fault}");
    }
}

/// What it writes into the domain is its own loss.
#[test]
fn a_domain_that_is_overwritten_harms_nobody_else() {
    let mut policy = failing(12);
    assert_eq!(policy.update(0, 0, Instant(1), false), Ok(Some(1)));
    assert!(!policy.is_due(0, Instant(i64::MAX)));
    policy.show(0, 1, busy(1));
    assert_eq!(policy.update(0, 1, Instant(2), false), Ok(Some(1)));
    assert!(policy.is_due(1, Instant(0)));
    policy.restart(0).unwrap();
    assert!(policy.is_due(0, Instant(0)));
}

#[test]
fn one_that_does_not_start_says_why() {
    for (how, part) in [
        (13, "init() refused with error -19"),
        (14, "start() refused with error -22"),
        (15, "it registers a frequency policy without update()"),
    ] {
        let error = resolve(&format!("{},how={how}", path())).expect_err("it refuses");
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = Machine::new(&OPPS_KHZ).run(&format!("{},how=16", path())).expect_err("it fails");
    assert!(error.to_string().contains("start() on cpu0 hit BUG"), "{error}");
}
