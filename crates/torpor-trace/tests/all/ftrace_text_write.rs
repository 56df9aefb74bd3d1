// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Written text is read back unchanged.

use crate::support::events::{SYMBOLS, names, trace};
use crate::support::{own_trace, spelled};
use proptest::prelude::*;
use torpor_machine::units::{CpuId, Instant};
use torpor_trace::{
    Event, EventKind, InterruptCause, Name, Names, PrevState, Trace, read_bytes, write_ftrace_text,
};

fn written(trace: &Trace) -> Vec<u8> {
    let mut text = Vec::new();
    write_ftrace_text(trace, &mut text).expect("memory is writable");
    text
}

/// Random traces rarely have such a task twice on a CPU.
#[test]
fn task_named_like_a_line_survives() {
    let comm = Name((SYMBOLS.len() + 3) as u32);
    let switch = |time, prev_pid, next_pid| Event {
        time: Instant(time),
        cpu: CpuId(124),
        kind: EventKind::SchedSwitch {
            prev_pid,
            prev_state: PrevState::Runnable,
            next_pid,
            next_comm: Some(comm),
        },
    };
    let events = vec![switch(1_000, 0, 1), switch(2_000, 1, 2), switch(3_000, 2, 1)];
    let trace = Trace { events, names: names(), ..Trace::default() };
    let read = read_bytes("written", &written(&trace)).unwrap();
    assert_eq!(spelled(&read), spelled(&trace));
}

proptest! {
    #[test]
    fn written_text_is_read_back(trace in trace()) {
        let text = written(&trace);
        let read = read_bytes("written", &text).unwrap();
        prop_assert_eq!(spelled(&read), spelled(&trace), "{}", String::from_utf8_lossy(&text));
        let lost = read.losses.iter().filter(|loss| loss.key != "wakeups_for_wakings");
        prop_assert_eq!(lost.count(), 0);
        prop_assert_eq!(&read.meta.clock, &trace.meta.clock);
        prop_assert_eq!(&read.meta.kernel_release, &trace.meta.kernel_release);
        prop_assert_eq!(&read.meta.arch, &trace.meta.arch);
        // Writing again loses nothing.
        let again = read_bytes("again", &written(&read)).unwrap();
        prop_assert_eq!(&again.events, &read.events);
    }

    /// The reader reports a cut inside a line.
    #[test]
    fn a_cut_text_keeps_its_whole_lines(
        trace in trace(),
        cut in any::<prop::sample::Index>(),
    ) {
        let text = written(&trace);
        let cut = &text[..cut.index(text.len())];
        let lines = cut.iter().filter(|byte| **byte == b'\n').count();
        match read_bytes("cut", cut) {
            Ok(read) => {
                let whole = lines - HEADER_LINES;
                let is_read = read.events.len() == whole + 1;
                prop_assert!(is_read || read.events.len() == whole);
                let is_cut = read.losses.iter().any(|loss| loss.key == "truncated_file");
                let rest = cut.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
                prop_assert_eq!(is_cut, !is_read && !rest.trim_ascii().is_empty());
            }
            Err(_) => prop_assert!(lines <= HEADER_LINES),
        }
    }
}

/// Lines of the header, three of them about clock, kernel and machine.
const HEADER_LINES: usize = 9;

/// The committed recording as text, written here and by perf (except the flags of timers: perf
/// prints all of them).
#[test]
fn a_recording_is_the_same_as_text() {
    let recording = torpor_trace::read(&own_trace("plain.data")).unwrap();
    let text = read_bytes("written", &written(&recording)).unwrap();
    assert_eq!(spelled(&text), spelled(&recording));
    assert_eq!(text.event_counts, recording.event_counts);
    let mut plain = recording;
    for event in &mut plain.events {
        if let EventKind::TimerStart { flags, .. } = &mut event.kind {
            *flags &= !ALL_LETTERS;
        }
    }
    let perf = torpor_trace::read(&own_trace("plain.perf-script.txt")).unwrap();
    assert_eq!(spelled(&perf), spelled(&plain));
    assert_eq!(perf.event_counts, plain.event_counts);
}

/// Flags of timers: deferrable, pinned, irq-safe.
const ALL_LETTERS: u32 = 0x0038_0000;

/// A switch names the task that the next event interrupts.
#[test]
fn written_text_looks_like_the_kernels() {
    let mut names = Names::default();
    let cat = names.intern("cat");
    let switch = EventKind::SchedSwitch {
        prev_pid: 0,
        prev_state: PrevState::Runnable,
        next_pid: 42,
        next_comm: Some(cat),
    };
    let at = |us: i64, kind| Event { time: Instant(1_000 * us), cpu: CpuId(3), kind };
    let wakeup = EventKind::SchedWaking { pid: 7, target_cpu: CpuId(1) };
    let ipi = EventKind::IpiSend { target_cpu: CpuId(33), cause: InterruptCause::Reschedule };
    let events = vec![at(5, switch), at(1_000_006, wakeup), at(1_000_007, ipi)];
    let text = written(&Trace { events, names, ..Trace::default() });
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let expected = [
        "           <...>-0       [003] .....     0.000005000: sched_switch: prev_comm=<...> \
         prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=cat next_pid=42 next_prio=120",
        "             cat-42      [003] .....     1.000006000: sched_waking: comm=<...> pid=7 \
         prio=120 target_cpu=001",
        "             cat-42      [003] .....     1.000007000: ipi_raise: \
         target_mask=00000002,00000000 (Rescheduling interrupts)",
    ];
    assert_eq!(lines, expected);
}
