// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! perf.data compared with the text that `perf script` of Linux 6.1 printed (see
//! tests/data/README.md).

use crate::support::perf::{as_stream, compressed, record, u64_at, with_counters};
use crate::support::{losses, own_trace, spelled};
use torpor_trace::{EventKind, Trace, TraceError, read_bytes};

fn plain() -> Vec<u8> {
    std::fs::read(own_trace("plain.data")).unwrap()
}

/// Compares a trace of the committed recording with the text of `perf script`: the events as the
/// text reader has them, except the flags of timers, which perf prints wrongly, and their counts by
/// name.
#[track_caller]
fn assert_matches_perf_script(trace: &Trace) {
    let path = own_trace("plain.perf-script.txt");
    let mut script = torpor_trace::read(&path).unwrap();
    let mut trace = trace.clone();
    for event in script.events.iter_mut().chain(&mut trace.events) {
        if let EventKind::TimerStart { flags, .. } = &mut event.kind {
            *flags &= !ALL_LETTERS;
        }
    }
    assert_eq!(spelled(&trace), spelled(&script));
    let text = std::fs::read_to_string(path).unwrap();
    for (name, count) in &trace.event_counts {
        assert_eq!(text.matches(&format!(":{name}:")).count() as u64, *count, "{name}");
    }
    assert_eq!((trace.events.len(), &trace.losses[..]), (text.lines().count(), &[][..]));
}

/// Flags of timers: deferrable, pinned, irq-safe.
const ALL_LETTERS: u32 = 0x0038_0000;

#[test]
fn every_event_is_what_perf_script_prints() {
    let trace = torpor_trace::read(&own_trace("plain.data")).unwrap();
    assert_matches_perf_script(&trace);
    assert_eq!(trace.meta.clock, "mono");
    assert_eq!(trace.meta.format, "perf.data");
    assert_eq!(trace.meta.cpu_count, 2);
    assert!(trace.meta.kernel_release.as_deref().unwrap().starts_with("6.18"));
    assert_eq!(trace.meta.machine.as_deref(), Some("AMD EPYC"));
    assert!(trace.carries.hrtimers && trace.carries.wheel_timers && trace.carries.tick_stop);
    assert!(trace.carries.interrupts && trace.carries.ipis && trace.carries.softirqs);
}

/// perf's stream has descriptions before the samples. With `-z` the records are one zstd stream,
/// cut where a buffer was full.
#[test]
fn streams_and_packed_records_read_like_the_file() {
    let kallsyms = std::fs::read(own_trace("plain.data.kallsyms")).unwrap();
    for pack in [<[u8]>::to_vec, compressed] {
        let stream = as_stream(&plain(), pack);
        let trace = torpor_trace::read_with_kallsyms("stream", &stream, Some(&kallsyms)).unwrap();
        assert_matches_perf_script(&trace);
    }
}

/// Raw data of IBS happen to be those of a tracepoint, and are never read as one.
#[test]
fn counter_samples_are_no_tracepoints() {
    let kallsyms = std::fs::read(own_trace("plain.data.kallsyms")).unwrap();
    let stream = with_counters(&plain(), 30);
    let mut trace = torpor_trace::read_with_kallsyms("stream", &stream, Some(&kallsyms)).unwrap();
    assert_eq!(trace.event_counts.remove("perf_counter_samples"), Some(60));
    assert_matches_perf_script(&trace);
}

#[test]
fn lost_events_are_counted() {
    let file = plain();
    let stream = as_stream(&file, |records| {
        let lost = [5u64.to_le_bytes(), 42u64.to_le_bytes()].concat();
        [records, &record(2, &lost), &record(13, &7u64.to_le_bytes())].concat()
    });
    let trace = read_bytes("lost", &stream).unwrap();
    assert_eq!(losses(&trace), [("perf_lost_events", 42), ("perf_lost_samples", 7)]);
}

#[test]
fn a_cut_stream_keeps_its_first_events() {
    let file = plain();
    let stream = as_stream(&file, |records| records.to_vec());
    let trace = read_bytes("cut", &stream[..stream.len() - 9_999]).unwrap();
    assert!((100..354).contains(&trace.events.len()), "{}", trace.events.len());
    assert_eq!(trace.losses[0].key, "truncated_file");
}

/// A file describes its events at its end.
#[test]
fn a_cut_file_is_refused_with_the_reason() {
    let file = plain();
    let error = read_bytes("cut.data", &file[..30_000]).unwrap_err();
    assert!(matches!(error, TraceError::Malformed { offset: 30_000, .. }));
    let text = error.to_string();
    assert!(text.contains("`cut.data` as perf.data") && text.contains("were at its end"), "{text}");
    let mut unfinished = file.clone();
    unfinished[48..56].fill(0);
    let text = read_bytes("killed.data", &unfinished).unwrap_err().to_string();
    assert!(text.contains("perf was killed"), "{text}");
}

/// Without `-k CLOCK_MONOTONIC`, the clock's offset is estimated from the timers that fired.
#[test]
fn fired_timers_tie_an_unnamed_clock() {
    let file = plain();
    let mut other_clock = file.clone();
    let (attr_size, attrs_at, attrs_size) =
        (u64_at(&file, 16), u64_at(&file, 24), u64_at(&file, 32));
    for entry in (attrs_at..attrs_at + attrs_size).step_by(attr_size) {
        // use_clockid is bit 25 of the flags, which start at byte 40 of the attribute.
        other_clock[entry + 43] &= !2;
    }
    let exact = read_bytes("mono", &file).unwrap();
    let tied = read_bytes("perf", &other_clock).unwrap();
    assert_eq!(tied.meta.clock, "perf");
    assert_eq!(tied.losses[0].key, "hrtimers_in_estimated_clock");
    // The clocks are the same, so the estimate is the delay of the promptest timer. 5 us is a slow
    // interrupt entry.
    for (exact, tied) in exact.events.iter().zip(&tied.events) {
        if let (
            EventKind::HrtimerStart { expires: exact, .. },
            EventKind::HrtimerStart { expires: tied, .. },
        ) = (exact.kind, tied.kind)
        {
            let (exact, tied) = (exact.get(), tied.get());
            assert!((0..5_000).contains(&(tied.0 - exact.0)), "{exact} {tied}");
        }
    }
}
