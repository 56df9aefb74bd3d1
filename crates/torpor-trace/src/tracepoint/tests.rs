// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Meaning of single tracepoints.

use super::*;

fn record(name: &str, values: &[Value<'static>]) -> Vec<EventKind> {
    let mut builder = Builder::new("test", crate::stop::Stop::default());
    let mut filled = Values::default();
    for (slot, value) in filled.iter_mut().zip(values) {
        *slot = Some(*value);
    }
    let mut context = Context { builder: &mut builder, time_ns: 5, cpu: 3 };
    spec(name).expect("a known tracepoint").record(&mut context, &filled);
    let trace = builder.finish();
    trace.events.into_iter().map(|event| event.kind).collect()
}

#[test]
fn state_4294967295_is_running() {
    let kinds = record("cpu_idle", &[Value::Number(4_294_967_295), Value::Number(0)]);
    assert_eq!(kinds, [EventKind::CpuIdle { state: StateIdx::RUNNING }]);
}

#[test]
fn state_300_is_out_of_range() {
    assert!(record("cpu_idle", &[Value::Number(300), Value::Number(0)]).is_empty());
}

/// S 1, D 2, X 0x10, Z 0x20, parked 0x40 (0x200 before 4.14), idle 0x80; R 0, R+ 0x100.
#[test]
fn prev_state_gives_the_reason_of_a_switch() {
    let all = |states: &[u64], is: PrevState| states.iter().all(|&s| prev_state(s) == is);
    assert!(all(&[0, 0x100, 0x800], PrevState::Runnable));
    assert!(all(&[1, 4, 8, 0x40, 0x80, 0x200], PrevState::Sleeping));
    assert!(all(&[2, 0x102], PrevState::DiskSleep));
    assert!(all(&[0x10, 0x20], PrevState::Dead));
}

/// 0b0000_0101 and, in the second byte, 0b10: CPUs 0, 2 and 9.
/// The big-endian mask has two words of two bytes, 0x0205 and 0x0001: CPUs 0, 2, 9 and 16.
#[test]
fn a_mask_is_one_ipi_per_target() {
    let sent = |targets: &[u32]| -> Vec<EventKind> {
        let kind = |&cpu: &u32| EventKind::IpiSend {
            target_cpu: CpuId(cpu),
            cause: InterruptCause::Reschedule,
        };
        targets.iter().map(kind).collect()
    };
    let little = Value::Bytes(&[5, 2]);
    assert_eq!(record("ipi_send_cpumask", &[little, Value::Number(0)]), sent(&[0, 2, 9]));
    let big = Value::BigEndianWords { bytes: &[2, 5, 0, 1], word_bytes: 2 };
    assert_eq!(record("ipi_send_cpumask", &[big, Value::Number(0)]), sent(&[0, 2, 9, 16]));
}

#[test]
fn marks_of_atrace_are_no_markers() {
    assert!(record("print", &[Value::Bytes(b"B|1858|tick\n")]).is_empty());
    assert!(record("print", &[Value::Bytes(b"E\n")]).is_empty());
    assert_eq!(record("print", &[Value::Bytes(b"governor reset\n")]).len(), 1);
}

#[test]
fn every_name_is_listed_once() {
    let mut names: Vec<_> = SPECS.iter().map(|spec| spec.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SPECS.len());
}
