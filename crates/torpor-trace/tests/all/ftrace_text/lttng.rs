// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! LTTng's events as babeltrace prints them.

use crate::support::losses;
use torpor_machine::units::{CpuId, Instant, StateIdx};
use torpor_trace::{EventKind, read_bytes};

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
