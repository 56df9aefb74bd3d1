// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A foreign boost gets what the header promises, and one that fails ends in a clear error.

use super::{instance, resolve};
use torpor_governor::{Cause, Fault, Flags, IoBoostInstance, set_call_limit};
use torpor_units::{Hz, Instant};

fn failing(how: u32) -> IoBoostInstance {
    instance(&format!("{},how={how}", path()))
}

fn path() -> String {
    format!("{}/tests/ioboost/failing.c", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn each_call_gets_what_the_header_promises() {
    let mut boost = failing(0);
    let both = Flags::IOWAIT | Flags::WAKEUP;
    boost.enqueue(1, 3, Instant(100), both).unwrap();
    boost.enqueue(1, 3, Instant(20), both).unwrap();
    boost.dequeue(1, 3, Instant(30), Flags::SLEEP).unwrap();
    assert_eq!(boost.task_boost(3).unwrap(), 124, "100 + 20, and the second CPU is number 4");
    boost.set_uclamp_max(3, 600);
    assert_eq!(boost.task_uclamp_min(3).unwrap(), 600 + (1 | 4) + (2 << 4));
    boost.reset_task(3);
    assert_eq!(boost.task_boost(3).unwrap(), 0);
    assert_eq!(boost.task_uclamp_min(3).unwrap(), 1024, "unlimited");

    boost.update(1, Instant(1 << 40), Flags::IOWAIT).unwrap();
    assert_eq!(boost.cpu_boost(1, Instant((1 << 40) + 7), 500).unwrap(), 508);
    assert_eq!(boost.cpu_boost(0, Instant(7), 500).unwrap(), 507, "the other CPU's are its own");
    assert_eq!((boost.rq_boost(0).unwrap(), boost.rq_boost(1).unwrap()), (700, 704));
    assert_eq!((boost.cpu_count(), boost.task_count()), (2, 4));
}

#[test]
fn instances_share_nothing() {
    let (mut one, other) = (failing(0), failing(0));
    one.enqueue(0, 0, Instant(100), Flags::NONE).unwrap();
    assert_eq!((one.task_boost(0).unwrap(), other.task_boost(0).unwrap()), (100, 0));
}

fn fault_in_enqueue(how: u32) -> Fault {
    let mut boost = failing(how);
    let fault = boost.enqueue(1, 2, Instant(12), Flags::IOWAIT).expect_err("it fails");
    let text = fault.to_string();
    assert!(text.starts_with("IO boost `"), "{text}");
    assert!(text.contains(&format!("failing.c,how={how}`: enqueue() on cpu4")), "{text}");
    assert!(text.contains("task=2") && text.contains("flags=IOWAIT"), "{text}");
    // It stays failed; others do not care.
    assert_eq!(boost.update(0, Instant(13), Flags::NONE), Err(fault.clone()));
    assert_eq!((boost.rq_boost(0), boost.fault()), (Err(fault.clone()), Some(&fault)));
    failing(0).enqueue(1, 2, Instant(12), Flags::IOWAIT).unwrap();
    fault
}

#[test]
fn a_fault_names_call_and_inputs() {
    let signal = |address| Cause::Signal { signo: libc::SIGSEGV, address };
    assert_eq!(fault_in_enqueue(1).detail().cause, signal(0));
    assert!(matches!(&fault_in_enqueue(2).detail().cause, Cause::Bug { file, .. }
        if file.ends_with("failing.c")));
    assert!(matches!(fault_in_enqueue(3).detail().cause, Cause::Signal { .. }));
    set_call_limit(std::time::Duration::from_millis(300));
    assert_eq!(fault_in_enqueue(4).detail().cause, Cause::TimedOut);
}

#[test]
fn an_answer_that_is_no_utilization_is_refused() {
    for (how, boost) in [(5, 2048), (6, u32::MAX)] {
        let fault = failing(how).cpu_boost(0, Instant(5), 1024).expect_err("too high");
        assert_eq!(fault.detail().cause, Cause::NoSuchBoost { boost });
        let text = fault.to_string();
        assert!(text.contains("cpu_boost() on cpu0 answered"), "{text}");
        assert!(text.contains("utilization is 0 to 1024") && text.contains("max_cap=1024"));
    }
    let text = failing(7).task_boost(1).expect_err("too high").to_string();
    assert!(text.contains("task_boost() answered 1025") && text.contains("task=1"), "{text}");
    let fault = failing(8).rq_boost(1).expect_err("no such CPU");
    assert!(matches!(fault.detail().cause, Cause::Bug { line: 1000, .. }), "{fault}");
}

#[test]
fn one_that_does_not_start_says_why() {
    let error = resolve(&format!("{},how=9", path()), Hz::H250).expect_err("it refuses");
    assert!(error.to_string().contains("init() refused with error -19"), "{error}");
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("boosts");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("unknown_call.c");
    std::fs::write(&path, "#include \"ioboost.h\"\nint x(void)\n{\n\treturn cpu_rq(0);\n}\n")
        .unwrap();
    let error = resolve(path.to_str().unwrap(), Hz::H250).expect_err("no such function");
    let text = error.to_string();
    assert!(text.contains("does not compile: the kapi has no function cpu_rq()"), "{text}");
}
