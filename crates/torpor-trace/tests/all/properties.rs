// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Damaged recordings: whatever the bytes, a reader ends with a trace that tells its losses, or
//! with an error that says where and why.

use crate::support::dat::{Machine, X86_64};
use crate::support::dat_sample::dat;
use crate::support::perf::{as_stream, compressed};
use crate::support::proto::{Message, bundle, cpu_idle, event, message, trace};
use proptest::prelude::*;
use std::sync::OnceLock;
use torpor_trace::{Severity, Trace, TraceError, read_bytes};

fn is_sound(outcome: &Result<Trace, TraceError>) -> Result<(), TestCaseError> {
    crate::support::is_sound(outcome).map_err(TestCaseError::fail)
}

fn has_damage(trace: &Trace) -> bool {
    trace.losses.iter().any(|loss| loss.severity == Severity::Damage)
}

/// A trace with a packet of every kind this crate reads.
fn synthetic() -> Vec<u8> {
    let compact = message()
        .packed(1, &[100, 50, 70])
        .packed(2, &[0, 1, 256])
        .packed(3, &[7, 0, 9])
        .bytes(5, "cat")
        .bytes(5, "swapper/0")
        .packed(6, &[0, 1, 0])
        .packed(7, &[120])
        .packed(8, &[9])
        .packed(9, &[5]);
    let generic =
        message().bytes(1, "tick_stop").message(2, message().bytes(1, "success").number(5, 1));
    let start = message().number(1, 0xaa).number(2, 1).number(3, 8_000).number(4, 8_000);
    let events = message()
        .number(1, 0)
        .message(2, cpu_idle(90, 0, u32::MAX))
        .message(2, event(95, 0, 551, start))
        .message(2, event(96, 0, 327, generic))
        .message(4, compact);
    let plain: Vec<Message> = vec![
        message().message(45, message().message(1, message().bytes(3, "6.12.0"))),
        message().message(34, message().number(1, 2).message(2, message().number(3, 4))),
        bundle(events).message(12, message().message(26, message().number(1, 1).bytes(2, "f"))),
        bundle(message().number(1, 1).message(2, cpu_idle(500, 1, 2))),
    ];
    let packed = zstd::encode_all(&trace(plain.clone())[..], 3).expect("memory is writable");
    trace(plain.into_iter().chain([message().bytes(133, packed)]))
}

/// The same recording as text, and that in a web page.
fn texts() -> [Vec<u8>; 2] {
    let trace =
        torpor_trace::read(&crate::support::own_trace("plain.data")).expect("it is committed");
    let mut text = Vec::new();
    torpor_trace::write_ftrace_text(&trace, &mut text).expect("memory is writable");
    let start = &b"<!DOCTYPE html><script class=\"trace-data\" type=\"application/text\">\n"[..];
    let page = [start, &text, b"</script></html>"].concat();
    [text, page]
}

/// Recordings to damage: hand-made, the committed one, and the shared ones where present.
fn originals() -> &'static [Vec<u8>] {
    static ORIGINALS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    ORIGINALS.get_or_init(|| {
        let mut all = vec![synthetic()];
        // A stream survives being cut, as it describes its events before they come.
        let file = std::fs::read(crate::support::own_trace("plain.data")).expect("it is committed");
        all.push(as_stream(&file, |records| records.to_vec()));
        all.push(as_stream(&file, compressed));
        all.push(file);
        let shared =
            ["perf_cpu_idle.data", "perf_cpu_idle_zstd.data"].map(crate::support::shared_trace);
        for path in shared.into_iter().flatten() {
            all.push(std::fs::read(path).expect("a recording is readable"));
        }
        all.extend(texts());
        let big_endian = Machine { is_big_endian: true, long_bytes: 4, page_bytes: 4096 };
        all.push(dat(6, "none", X86_64).bytes());
        all.push(dat(6, "none", big_endian).bytes());
        all.push(dat(7, "none", big_endian).bytes());
        all.push(dat(7, "zlib", X86_64).bytes());
        all.push(dat(7, "zstd", X86_64).bytes());
        // The first packets of a large trace are enough, and fast.
        let large = ["pixel6a-startup.perfetto-trace", "emulator-android12.pftrace"];
        for path in large.map(crate::support::shared_trace).into_iter().flatten() {
            let bytes = std::fs::read(path).expect("a recording is readable");
            all.push(bytes[..100_000].to_vec());
        }
        all
    })
}

fn original() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(originals())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_truncated_recording_is_read_in_part_or_refused(
        bytes in original(),
        cut in any::<prop::sample::Index>(),
    ) {
        is_sound(&read_bytes("cut", &bytes[..cut.index(bytes.len())]))?;
    }

    #[test]
    fn changed_bytes_never_break_the_reader(
        bytes in original(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = bytes;
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        is_sound(&read_bytes("changed", &bytes))?;
    }

    /// Length fields are at the start, so that is where damage asks for the most memory.
    #[test]
    fn a_damaged_start_never_breaks_the_reader(
        bytes in original(),
        start in prop::collection::vec(any::<u8>(), 1..104),
        at in 8usize..300,
    ) {
        let mut bytes = bytes;
        let end = (at + start.len()).min(bytes.len());
        let at = at.min(end);
        bytes[at..end].copy_from_slice(&start[..end - at]);
        is_sound(&read_bytes("changed", &bytes))?;
    }

    #[test]
    fn garbage_is_refused_or_read_soundly(
        magic in prop::sample::select(vec![
            &b""[..],
            b"\x0a",
            b"PERFILE2",
            b"\x1f\x8b\x08\0",
            b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0header_page\0",
            b"\x17\x08\x44tracing7\0\0\x08\0\x10\0\0zstd\x001\0",
            b"# tracer:",
            b"cpus=2\na-1 [000] ",
            b"<html><script class=\"trace-data\">",
        ]),
        bytes in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        is_sound(&read_bytes("garbage", &[magic, &bytes].concat()))?;
    }
}

/// Cut at every byte, a trace never gains events, and never hides that it lost some.
#[test]
fn every_truncation_is_told() {
    let whole = synthetic();
    let all = read_bytes("whole", &whole).unwrap();
    assert!(!has_damage(&all), "{:?}", all.losses);
    let mut most = 0;
    // A shorter trace that ends with a packet is whole.
    let mut ends_of_packets = 0;
    for cut in 1..whole.len() {
        if let Ok(part) = read_bytes("part", &whole[..cut]) {
            assert!(part.events.len() >= most, "cut at {cut}");
            most = part.events.len();
            assert!(most <= all.events.len());
            ends_of_packets += usize::from(!has_damage(&part));
        }
    }
    assert_eq!(ends_of_packets, 4);
}

/// The head of a trace.dat comes first and its events last, so a cut loses all or some of these.
#[test]
fn every_truncation_of_a_trace_dat_is_told() {
    let mut files: Vec<(Vec<u8>, usize)> = ["none", "zlib", "zstd"]
        .map(|compression| (dat(7, compression, X86_64).bytes(), 97))
        .into();
    files.push((dat(6, "none", X86_64).bytes(), 97));
    let shared = ["juno-sched-load.v6.dat", "juno-sched-load.v7.zstd.dat"];
    for path in shared.map(crate::support::shared_trace).into_iter().flatten() {
        let bytes = std::fs::read(path).expect("a recording is readable");
        // Most of a file describes events, which a slow build reads slowly.
        let step = if cfg!(debug_assertions) { bytes.len() / 40 } else { 1_000 };
        files.push((bytes, step));
    }
    for (bytes, step) in files {
        let all = read_bytes("whole", &bytes).unwrap();
        assert!(!has_damage(&all), "{:?}", all.losses);
        for cut in (1..bytes.len()).step_by(step) {
            match read_bytes("part", &bytes[..cut]) {
                Ok(part) => {
                    // After the events there may be names of sections, which nobody needs.
                    assert!(has_damage(&part) || part.events == all.events, "cut at {cut}");
                    assert!(part.events.len() <= all.events.len());
                }
                Err(error) => assert!(error.to_string().contains("hint:"), "{error}"),
            }
        }
    }
}

/// Two million one-byte packets, or a million fields in one: time stays proportional to size.
#[test]
fn size_costs_linear_time() {
    let elapsed = |bytes: &[u8]| {
        let start = std::time::Instant::now();
        let _ = read_bytes("large", bytes);
        start.elapsed()
    };
    let many_packets = |count: usize| [0x0au8, 2, 0x40, 1].repeat(count);
    let many_names = |count: usize| {
        let names = (0..count).fold(message().number(1, 0), |bundle, index| {
            let generic = message().bytes(1, format!("event_{index}"));
            bundle.message(2, event(1, 0, 327, generic))
        });
        trace([bundle(names)])
    };
    for make in [&many_packets as &dyn Fn(usize) -> Vec<u8>, &many_names] {
        let small = elapsed(&make(20_000));
        let large = elapsed(&make(160_000));
        // Eight times the size; a square would take sixty-four times as long.
        assert!(large < small * 32 + std::time::Duration::from_millis(200), "{small:?} {large:?}");
    }
}
