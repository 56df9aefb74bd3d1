// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Small Perfetto traces, checked by hand.

use crate::support::proto::{bundle, cpu_idle, event, message, trace};
use crate::support::{kinds, loss};
use std::io::Write;
use torpor_machine::units::{CpuId, Instant, StateIdx};
use torpor_trace::{
    EventKind, InterruptCause, PrevState, Severity, Trace, TraceError, UNKNOWN_PID, read_bytes,
    read_with_kallsyms,
};

const RUNNING: u32 = u32::MAX;

fn read(bytes: &[u8]) -> Trace {
    read_bytes("test.pftrace", bytes).unwrap()
}

fn one_idle() -> crate::support::proto::Message {
    bundle(message().number(1, 2).message(2, cpu_idle(1_000, 2, 1)))
}

/// CPU 0's buffer is written first, but CPU 1's event is older.
#[test]
fn events_of_all_cpus_come_in_order_of_time() {
    let bytes = trace([
        bundle(
            message()
                .number(1, 0)
                .message(2, cpu_idle(2_000, 0, 1))
                .message(2, cpu_idle(5_000, 0, RUNNING)),
        ),
        bundle(message().number(1, 1).message(2, cpu_idle(1_500, 1, 2))),
    ]);
    let trace = read(&bytes);
    let read: Vec<_> = trace.events.iter().map(|e| (e.time.0, e.cpu.0, e.kind)).collect();
    let idle = |state| EventKind::CpuIdle { state: StateIdx(state) };
    assert_eq!(read, [(1_500, 1, idle(2)), (2_000, 0, idle(1)), (5_000, 0, idle(-1))]);
    assert_eq!(trace.meta.cpu_count, 2);
    assert_eq!(trace.meta.clock, "boot");
    assert_eq!(trace.event_counts["cpu_idle"], 3);
    assert!(trace.carries.cpu_idle && !trace.carries.switches);
    assert_eq!(trace.losses, []);
}

/// Two switches at 100 and 100 + 50: idle to `cat` (pid 7), then `cat`, asleep, back to idle.
/// The cpu_idle event at 90 was recorded by task 0, so the first switch is away from task 0.
#[test]
fn compact_switches_are_decoded() {
    let compact = message()
        .packed(1, &[100, 50])
        .packed(2, &[0, 1])
        .packed(3, &[7, 0])
        .packed(4, &[120, 120])
        .bytes(5, "cat")
        .bytes(5, "swapper/3")
        .packed(6, &[0, 1])
        .packed(7, &[120])
        .packed(8, &[9])
        .packed(9, &[5])
        .packed(10, &[120])
        .packed(11, &[0]);
    let bundle_message =
        message().number(1, 3).message(2, cpu_idle(90, 3, RUNNING)).message(4, compact);
    let trace = read(&trace([bundle(bundle_message)]));
    let cat = trace.names.clone().intern("cat");
    let swapper = trace.names.clone().intern("swapper/3");
    let switch = |prev_pid, prev_state, next_pid, comm| EventKind::SchedSwitch {
        prev_pid,
        prev_state,
        next_pid,
        next_comm: Some(comm),
    };
    let read: Vec<_> = trace.events[1..].iter().map(|e| (e.time.0, e.kind)).collect();
    let expected = [
        (100, switch(0, PrevState::Runnable, 7, cat)),
        (120, EventKind::SchedWaking { pid: 9, target_cpu: CpuId(5) }),
        (150, switch(7, PrevState::Sleeping, 0, swapper)),
    ];
    assert_eq!(read, expected);
    assert_eq!(trace.names.text(cat), "cat");
    assert_eq!(trace.event_counts["sched_switch"], 2);
}

/// The previous task of the first switch is unknown, and of the first one after a gap.
#[test]
fn a_gap_makes_the_previous_task_unknown() {
    let switch = |time: u64, pid: u64| {
        message().packed(1, &[time]).packed(2, &[1]).packed(3, &[pid]).packed(6, &[0])
    };
    let bytes = trace([
        bundle(message().number(1, 0).message(4, switch(10, 5))),
        bundle(message().number(1, 0).message(4, switch(20, 6))),
        bundle(message().number(1, 0).number(3, 1).message(4, switch(30, 7))),
    ]);
    let trace = read(&bytes);
    let prev: Vec<_> = trace
        .events
        .iter()
        .map(|event| match event.kind {
            EventKind::SchedSwitch { prev_pid, .. } => prev_pid,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(prev, [UNKNOWN_PID, 5, UNKNOWN_PID]);
    assert_eq!(loss(&trace, "switches_without_prev_pid"), 2);
    assert_eq!(loss(&trace, "ftrace_gaps"), 1);
}

#[test]
fn arrays_of_different_length_are_paired() {
    let compact =
        message().packed(1, &[100, 50]).packed(2, &[0]).packed(3, &[7, 0]).packed(6, &[0]);
    let trace = read(&trace([bundle(message().number(1, 0).message(4, compact))]));
    assert_eq!(trace.events.len(), 1);
    assert_eq!(loss(&trace, "compact_sched_short_arrays"), 1);
}

/// A timer in the monotonic clock on a machine that was suspended for 3 s: boot = mono + 3 s.
#[test]
fn hrtimers_move_to_the_clock_of_the_events() {
    let clock = |id: u64, time: u64| message().number(1, id).number(2, time);
    let snapshot =
        message().message(1, clock(6, 10_000_000_000)).message(1, clock(3, 7_000_000_000));
    let start = message().number(1, 0xaa).number(2, 0xf0).number(3, 8_000_000_000).number(4, 8);
    let bytes = trace([
        message().message(6, snapshot),
        bundle(message().number(1, 0).message(2, event(10_500_000_000, 1, 551, start))),
    ]);
    let trace = read_with_kallsyms("test", &bytes, Some(b"f0 t tick_nohz_handler\n")).unwrap();
    let EventKind::HrtimerStart { timer, function, expires, .. } = trace.events[0].kind else {
        panic!("{:?}", trace.events[0]);
    };
    assert_eq!(trace.names.timer_address(timer), 0xaa);
    assert_eq!(expires.get(), Instant(11_000_000_000));
    assert_eq!(trace.names.symbol(function), Some("tick_nohz_handler"));
    assert!(trace.carries.hrtimers);
}

/// The symbol's table comes after the bundle that uses it, in the same packet.
#[test]
fn interned_symbols_name_functions() {
    let entry = message().number(1, 0xaa).number(2, 4_000_000).number(3, 1);
    let symbols = message().message(26, message().number(1, 1).bytes(2, "hrtimer_wakeup"));
    let packet = bundle(message().number(1, 0).message(2, event(4_000_100, 1, 553, entry)))
        .message(12, symbols);
    let trace = read(&trace([packet]));
    let EventKind::HrtimerExpireEntry { function, now, .. } = trace.events[0].kind else {
        panic!("{:?}", trace.events[0]);
    };
    assert_eq!(trace.names.symbol(function), Some("hrtimer_wakeup"));
    // Without a snapshot, this timer, 100 ns late, gives the offset.
    assert_eq!(now.get(), Instant(4_000_100));
    assert_eq!(loss(&trace, "hrtimers_in_estimated_clock"), 1);
}

#[test]
fn tracepoints_outside_the_schema_are_read() {
    let field = |name: &str, value: u64| message().bytes(1, name).number(5, value);
    let old_style = message()
        .bytes(1, "tick_stop")
        .message(2, field("success", 1))
        .message(2, field("dependency", 0));
    let proto_field = |name: &str, number: u64| message().bytes(1, name).number(3, number);
    let descriptor = message().number(1, 70_000).bytes(3, "power").message(
        2,
        message()
            .bytes(1, "cpu_idle_miss")
            .message(2, proto_field("cpu_id", 1))
            .message(2, proto_field("state", 2))
            .message(2, proto_field("below", 3)),
    );
    let new_style = message().number(1, 4).number(2, 1).number(3, 1);
    let bytes = trace([bundle(
        message()
            .number(1, 0)
            .message(11, descriptor)
            .message(2, event(10, 0, 327, old_style))
            .message(2, event(20, 0, 70_000, new_style)),
    )]);
    let trace = read(&bytes);
    assert_eq!(trace.events[0].kind, EventKind::TickStop { success: true });
    assert_eq!(trace.events[1].kind, EventKind::CpuIdleMiss { state: StateIdx(1), below: true });
    assert_eq!(trace.events[1].cpu, CpuId(4));
    assert_eq!(trace.event_counts["tick_stop"], 1);
    assert_eq!(trace.event_counts["cpu_idle_miss"], 1);
}

#[test]
fn ipis_have_a_cause() {
    let raise = message().number(1, 0b101).bytes(2, "Rescheduling interrupts");
    let entry = message().bytes(1, "Function call interrupts");
    let bytes = trace([bundle(
        message()
            .number(1, 1)
            .message(2, event(10, 0, 23, raise))
            .message(2, event(20, 0, 21, entry)),
    )]);
    let trace = read(&bytes);
    let send =
        |cpu| EventKind::IpiSend { target_cpu: CpuId(cpu), cause: InterruptCause::Reschedule };
    let entry = EventKind::InterruptEntry { cause: InterruptCause::CallFunction };
    assert_eq!(kinds(&trace), [send(0), send(2), entry]);
    assert!(trace.carries.ipis && !trace.carries.interrupts);
}

#[test]
fn blocked_reasons_have_io_waits() {
    let reason = |time, pid, io_wait| {
        event(time, 0, 18, message().number(1, pid).number(2, 0xffff).number(3, io_wait))
    };
    let events = [cpu_idle(1, 0, 0), reason(2, 7, 1), reason(3, 8, 0)];
    let events = events.into_iter().fold(message().number(1, 0), |b, e| b.message(2, e));
    let trace = read(&trace([bundle(events)]));
    let expected =
        [(7, true), (8, false)].map(|(pid, io_wait)| EventKind::BlockedReason { pid, io_wait });
    assert_eq!(kinds(&trace)[1..], expected);
}

#[test]
fn recorders_losses_are_differences_of_reports() {
    let cpu =
        |overrun: u64, dropped: u64| message().number(1, 0).number(3, overrun).number(8, dropped);
    let stats = |phase: u64, cpu| message().message(34, message().number(1, phase).message(2, cpu));
    let bytes = trace([one_idle(), stats(1, cpu(100, 1)), stats(2, cpu(142, 1))]);
    let trace = read(&bytes);
    assert_eq!(loss(&trace, "ftrace_overrun_events"), 42);
    assert_eq!(loss(&trace, "ftrace_dropped_events"), 0);
    assert_eq!(trace.losses[0].severity, Severity::Loss);
}

#[test]
fn packed_traces_read_like_plain_ones() {
    let plain = trace([one_idle(), one_idle()]);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    zlib.write_all(&plain).unwrap();
    let in_zlib = trace([message().bytes(50, zlib.finish().unwrap())]);
    let in_zstd = trace([message().bytes(133, zstd::encode_all(&plain[..], 3).unwrap())]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&plain).unwrap();
    let in_gzip = gzip.finish().unwrap();
    let expected = read(&plain).events;
    assert_eq!(expected.len(), 2);
    for bytes in [in_zlib, in_zstd, in_gzip] {
        let trace = read(&bytes);
        assert_eq!(trace.events, expected);
        assert_eq!(trace.losses, []);
    }
}

#[test]
fn a_compressed_packet_cannot_hold_another() {
    let zip = |bytes: &[u8]| trace([message().bytes(133, zstd::encode_all(bytes, 3).unwrap())]);
    let nested = zip(&zip(&trace([one_idle()])));
    let trace = read(&nested);
    assert!(trace.events.is_empty());
    assert_eq!(loss(&trace, "malformed_records"), 1);
}

/// A trace cut in the last event of its first or second packet keeps all others.
#[test]
fn a_cut_trace_keeps_its_whole_events() {
    let last = bundle(
        message().number(1, 0).message(2, cpu_idle(10, 0, 1)).message(2, cpu_idle(20, 0, RUNNING)),
    );
    for (whole, events) in [(trace([last.clone()]), 1), (trace([one_idle(), last]), 2)] {
        let trace = read(&whole[..whole.len() - 3]);
        assert_eq!((trace.events.len(), loss(&trace, "truncated_file")), (events, 1));
        assert_eq!(trace.losses[0].severity, Severity::Damage);
    }
}

#[test]
fn impossible_cpus_and_times_are_counted() {
    let bytes = trace([
        bundle(message().number(1, 9_000).message(2, cpu_idle(10, 0, 1))),
        bundle(
            message()
                .number(1, 0)
                .message(2, cpu_idle(10, 8_192, 1))
                .message(2, cpu_idle(u64::MAX, 0, 1))
                .message(2, cpu_idle(10, 0, 256)),
        ),
    ]);
    let trace = read(&bytes);
    assert!(trace.events.is_empty());
    assert_eq!(loss(&trace, "cpu_out_of_range_events"), 2);
    assert_eq!(loss(&trace, "time_out_of_range_events"), 1);
    assert_eq!(loss(&trace, "state_out_of_range_events"), 1);
}

#[test]
fn a_trace_without_idle_events_is_read() {
    let bytes = trace([message().number(8, 5)]);
    let trace = read(&bytes);
    assert!(trace.events.is_empty() && !trace.carries.cpu_idle);
    assert_eq!(trace.losses, []);
}

#[test]
fn other_files_are_refused_with_a_hint() {
    let text = |bytes: &[u8]| read_bytes("a.bin", bytes).unwrap_err().to_string();
    assert!(text(b"").contains("`a.bin`: the file is empty"));
    let error = text(b"hello, world");
    assert!(error.contains("68 65 6c 6c 6f"), "{error}");
    assert!(error.contains("expected one of: perf.data") && error.contains("hint:"), "{error}");
    assert!(text(b"# tracer: nop\n").contains("found no line of an event"));
    assert!(text(b"\x17\x08\x44tracing6\0").contains("trace.dat"));
    assert!(text(b"\n# tracer: nop\n").contains("expected one of"));
    // A first packet without any whole field.
    let error = read_bytes("b", &[0x0a, 0x20, 0x0a, 0x10]).unwrap_err();
    assert!(matches!(error, TraceError::Malformed { offset: 0, .. }), "{error}");
}
