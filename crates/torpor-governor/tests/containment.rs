// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A failing governor ends in an error with its cause; the process and other governors continue.

mod support;

use std::path::Path;
use support::{server_states, try_resolve};
use torpor_governor::{
    Cause, CpuSetup, Fault, GovernorError, Inputs, Instance, Setup, set_call_limit,
};
use torpor_machine::units::{CpuId, Duration, Instant};

fn broken(params: &str) -> Result<Instance, GovernorError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/governors/broken.c");
    instance(&format!("{}{params}", path.display()))
}

fn instance(text: &str) -> Result<Instance, GovernorError> {
    let states = server_states();
    try_resolve(text)?.instantiate(&Setup { cpus: &[CpuSetup::new(CpuId(3), &states)] })
}

fn inputs() -> Inputs {
    Inputs { now: Instant(12), sleep_length: Duration(345), ..Inputs::default() }
}

/// Fails in select(), between calls of another instance and another governor.
fn fault_in_select(how: u32) -> Fault {
    let mut healthy = broken(",how=0").unwrap();
    let mut teo = instance("teo").unwrap();
    healthy.select(0, &inputs()).unwrap();
    let before = teo.select(0, &inputs()).unwrap();

    let mut failing = broken(&format!(",how={how}")).unwrap();
    let fault = failing.select(0, &inputs()).expect_err("it fails");
    let text = fault.to_string();
    assert!(text.contains(&format!("broken.c,how={how}`")), "{text}");
    assert!(text.contains("select() on cpu3"), "{text}");
    assert!(text.contains("now_ns=12 sleep_length_ns=345"), "{text}");

    assert_eq!(failing.select(0, &inputs()), Err(fault.clone()), "it stays failed");
    assert_eq!(failing.reflect(0, 0, Instant(0), false), Err(fault.clone()));
    healthy.select(0, &inputs()).unwrap();
    assert_eq!(teo.select(0, &inputs()).unwrap(), before);
    println!("{text}");
    fault
}

fn signal(fault: &Fault) -> i32 {
    match fault.detail().cause {
        Cause::Signal { signo, .. } => signo,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_null_pointer_is_contained() {
    let fault = fault_in_select(1);
    assert_eq!(fault.detail().cause, Cause::Signal { signo: libc::SIGSEGV, address: 0 });
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_division_by_zero_is_contained() {
    assert_eq!(signal(&fault_in_select(2)), libc::SIGFPE);
}

#[test]
fn endless_recursion_is_contained_on_any_thread() {
    assert_eq!(signal(&fault_in_select(3)), libc::SIGSEGV);
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let fault = small.spawn(|| fault_in_select(3)).unwrap().join().unwrap();
    assert_eq!(signal(&fault), libc::SIGSEGV);
    // The same thread can fail again and again.
    for _ in 0..3 {
        fault_in_select(3);
    }
}

#[test]
fn an_endless_loop_is_ended() {
    set_call_limit(std::time::Duration::from_millis(300));
    assert_eq!(fault_in_select(4).detail().cause, Cause::TimedOut);
    // Two at once, on threads of their own.
    let spin = || std::thread::spawn(|| fault_in_select(4));
    for thread in [spin(), spin()] {
        assert_eq!(thread.join().unwrap().detail().cause, Cause::TimedOut);
    }
}

#[test]
fn bug_reports_its_place() {
    let fault = fault_in_select(5);
    let Cause::Bug { file, line } = &fault.detail().cause else { panic!("{fault}") };
    assert!(file.ends_with("broken.c") && *line > 0, "{fault}");
}

#[test]
fn state_outside_the_table_is_refused() {
    let cause = Cause::NoSuchState { index: 4, state_count: 4 };
    assert_eq!(fault_in_select(6).detail().cause, cause);
    let cause = Cause::NoSuchState { index: -1, state_count: 4 };
    assert_eq!(fault_in_select(11).detail().cause, cause);
}

#[test]
fn write_past_governor_data_is_caught() {
    assert_eq!(signal(&fault_in_select(7)), libc::SIGSEGV);
    assert_eq!(signal(&fault_in_select(9)), libc::SIGSEGV);
}

#[test]
fn unknown_cpu_is_detected() {
    assert!(matches!(fault_in_select(8).detail().cause, Cause::Bug { line: 1000, .. }));
}

#[test]
fn a_jump_into_nowhere_is_contained() {
    assert_eq!(signal(&fault_in_select(10)), libc::SIGSEGV);
}

#[test]
fn reflect_and_enable_are_guarded_too() {
    let mut failing = broken(",where=1,how=1").unwrap();
    failing.select(0, &inputs()).unwrap();
    let text = failing.reflect(0, 2, Instant(99), true).expect_err("it fails").to_string();
    assert!(text.contains("reflect() on cpu3"), "{text}");
    assert!(text.contains("index=2") && text.contains("got_tick=true"), "{text}");

    let error = broken(",where=2,how=5").expect_err("it fails").to_string();
    assert!(error.contains("enable() on cpu") && error.contains("hit BUG at"), "{error}");
    let error = broken(",where=2,how=11").expect_err("it refuses").to_string();
    assert!(error.contains("enable() refused with error -1"), "{error}");
    let error = broken(",where=3").expect_err("it refuses").to_string();
    assert!(error.contains("init() refused with error -19"), "{error}");
    let error = broken(",where=4").expect_err("it does not register").to_string();
    assert!(error.contains("registers no governor"), "{error}");
}

#[test]
fn warnings_are_counted() {
    let mut instance = broken(",how=-1").unwrap();
    assert_eq!(instance.warnings(), None);
    instance.select(0, &inputs()).unwrap();
    instance.select(0, &inputs()).unwrap();
    let (count, place) = instance.warnings().expect("it has warned");
    assert!(count == 2 && place.contains("broken.c:"), "{count} {place}");
}

/// A fault outside a governor goes to the previous handler: here the default, which ends the
/// process.
#[test]
fn a_fault_outside_a_governor_is_not_swallowed() {
    instance("menu").unwrap().select(0, &inputs()).unwrap();
    // SAFETY: the child touches nothing but a null pointer, which is the point.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: none; the write is the fault that is tested.
        unsafe {
            let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &limit);
            std::ptr::null_mut::<u8>().write_volatile(1);
            libc::_exit(0);
        }
    }
    let mut status = 0;
    // SAFETY: the child is this process's, and `status` its own.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:#x}");
}

/// A forked child has no watchdog of its parent's; it starts its own.
#[test]
fn a_forked_child_ends_endless_loops_too() {
    set_call_limit(std::time::Duration::from_millis(300));
    let mut failing = broken(",how=4").unwrap();
    let mut teo = instance("teo").unwrap();
    teo.select(0, &inputs()).unwrap();
    // SAFETY: the child only calls governors and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let fault = failing.select(0, &inputs()).expect_err("it fails");
        let ended = fault.detail().cause == Cause::TimedOut && teo.select(0, &inputs()).is_ok();
        // SAFETY: it only ends the child.
        unsafe { libc::_exit(if ended { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's, and `status` its own.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
}
