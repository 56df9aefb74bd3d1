// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Events of LTTng and of perf as babeltrace prints them.

use crate::support::{kinds, losses, spelled};
use torpor_machine::units::{CpuId, Instant, StateIdx};
use torpor_trace::{EventKind, InterruptCause, read_bytes};

const TEXT: &str = r#"[1700000000.000000001] (+?.?????????) host power_cpu_idle: { cpu_id = 2 }, { state = 3, cpu_id = 2 }
[1700000000.000400000] (+0.000399999) host timer_hrtimer_expire_entry: { cpu_id = 2 }, { hrtimer = 0xFFFF9E5A, now = 399000, function = 0xFFFFFFFF8110 }
[1700000000.000400100] (+0.000000100) host irq_handler_entry: { cpu_id = 2 }, { irq = 11, name = "nvme0q1, a" }
[1700000000.000400200] (+0.000000100) host power_cpu_idle: { cpu_id = 2 }, { state = 4294967295, cpu_id = 2 }
[1700000000.000401000] (+0.000000800) host sched_switch: { cpu_id = 2 }, { prev_comm = "swapper/2", prev_tid = 0, prev_prio = 20, prev_state = ( "TASK_RUNNING" : container = 0 ), next_comm = "a = b, c", next_tid = 77, next_prio = 20 }
"#;

#[test]
fn lttng_events_are_the_kernels() {
    let trace = read_bytes("a", TEXT.as_bytes()).unwrap();
    // hrtimers use CLOCK_MONOTONIC, the trace the wall clock.
    assert_eq!(losses(&trace), [("hrtimers_in_estimated_clock", 1)]);
    assert_eq!(trace.meta.format, "ftrace-text");
    let states: Vec<(i64, StateIdx)> = trace
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::CpuIdle { state } => Some((event.time.0, state)),
            _ => None,
        })
        .collect();
    const S: i64 = 1_700_000_000_000_000_000;
    assert_eq!(states, [(S + 1, StateIdx(3)), (S + 400_200, StateIdx::RUNNING)]);
    assert!(trace.events.iter().all(|event| event.cpu == CpuId(2)));
    let switched = trace.events.iter().find_map(|event| match event.kind {
        EventKind::SchedSwitch { prev_pid, next_pid, next_comm, .. } => {
            Some((prev_pid, next_pid, next_comm.map(|name| trace.names.text(name))))
        }
        _ => None,
    });
    assert_eq!(switched, Some((0, 77, Some("a = b, c"))));
    let irq = trace.events.iter().find_map(|event| match event.kind {
        EventKind::IrqEntry { irq, name } => Some((irq, name.map(|name| trace.names.text(name)))),
        _ => None,
    });
    assert_eq!(irq, Some((11, Some("nvme0q1, a"))));
}

#[test]
fn times_of_day_continue_past_midnight() {
    let line = |time: &str, state: u32| {
        format!(
            "[{time}] (+0.0) h power_cpu_idle: {{ cpu_id = 0 }}, {{ state = {state}, cpu_id = 0 }}\n"
        )
    };
    let text = line("23:59:59.999999000", 1) + &line("00:00:00.000001000", u32::MAX);
    let trace = read_bytes("a", text.as_bytes()).unwrap();
    let times: Vec<Instant> = trace.events.iter().map(|event| event.time).collect();
    assert_eq!(times, [Instant(86_399_999_999_000), Instant(86_400_000_001_000)]);
}

#[test]
fn lttng_names_of_interrupts_are_known() {
    let events = ["irq_softirq_raise", "irq_softirq_entry", "irq_softirq_exit"]
        .map(|name| format!("[5.000000001] (+0.0) h {name}: {{ cpu_id = 4 }}, {{ vec = 4 }}\n"));
    let vector = "x86_irq_vectors_local_timer_entry: { cpu_id = 4 }, { vector = 236 }";
    let text = events.concat() + &format!("> [5.000000009] (+0.0) h {vector}\n");
    let trace = read_bytes("a", text.as_bytes()).unwrap();
    let expected = [
        EventKind::SoftirqRaise { vec: 4 },
        EventKind::SoftirqEntry { vec: 4 },
        EventKind::SoftirqExit { vec: 4 },
        EventKind::InterruptEntry { cause: InterruptCause::LocalTimer },
    ];
    assert_eq!((kinds(&trace), losses(&trace)), (expected.to_vec(), vec![]));
}

/// 18446612133000000016 is 0xffff880028e03210.
#[test]
fn decimal_pointers_are_those_in_hexadecimal() {
    let text = |timer: &str, function: &str| {
        format!(
            "[7.000000000] (+0.0) h hrtimer_start: {{ cpu_id = 0 }}, {{ hrtimer = {timer}, \
             function = {function}, expires = 7000900000, softexpires = 7000900000 }}\n\
             [7.000001000] (+0.0) h hrtimer_cancel: {{ cpu_id = 0 }}, {{ hrtimer = {timer} }}\n\
             [7.000002000] (+0.0) h ipi_send_cpu: {{ cpu_id = 0 }}, {{ cpu = 1, callback = 0 }}\n"
        )
    };
    let of = |text: String| {
        let trace = read_bytes("a", text.as_bytes()).unwrap();
        // Nothing fires, so the clock is unknown; the timers have addresses.
        assert_eq!(losses(&trace), [("hrtimers_in_unknown_clock", 1)]);
        spelled(&trace)
    };
    let decimal = of(text("18446612133000000016", "18446744071579558096"));
    assert_eq!(decimal, of(text("0xFFFF880028E03210", "0xFFFFFFFF810AE0D0")));
    assert!(decimal.iter().any(|event| event.contains("Reschedule")), "{decimal:?}");
}

/// The CPU is a field of perf's, or a context where babeltrace shows the packets'.
#[test]
fn perf_in_ctf_is_read() {
    let event = |context: &str, name: &str, fields: &str| {
        format!(
            "[979.400000001] (+?.?????????) {name}: {context}{{ perf_ip = 0x0, perf_tid = 0, \
             perf_cpu = 3, perf_period = 1, common_type = 61, common_pid = 0, {fields} }}\n"
        )
    };
    let state = |state: u32| format!("state = {state}, cpu_id = 3");
    let switch = "prev_comm = \"swapper/3\", prev_pid = 0, prev_prio = 120, prev_state = 0, \
                  next_comm = \"perf, a\", next_pid = 1834, next_prio = 120";
    let text = event("", "power:cpu_idle", &state(2))
        + &event("{ cpu_id = 3 }, ", "power:cpu_idle", &state(u32::MAX))
        + &event("", "sched:sched_switch", switch);
    let trace = read_bytes("a", text.as_bytes()).unwrap();
    assert_eq!(losses(&trace), []);
    assert!(trace.events.iter().all(|event| event.cpu == CpuId(3)));
    let [idle, running, EventKind::SchedSwitch { next_pid: 1834, next_comm, .. }] =
        kinds(&trace)[..]
    else {
        panic!("{:?}", trace.events)
    };
    assert_eq!(idle, EventKind::CpuIdle { state: StateIdx(2) });
    assert_eq!(running, EventKind::CpuIdle { state: StateIdx::RUNNING });
    assert_eq!(next_comm.map(|name| trace.names.text(name)), Some("perf, a"));
}
