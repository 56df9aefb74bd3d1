// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Damaged recordings: every input gives a trace with its losses, or an error with a place and hint.
//! `tests/damage.rs` cuts and changes recordings systematically.

use crate::support::dat::X86_64;
use crate::support::dat_sample::dat;
use crate::support::made::{perfetto, recordings};
use crate::support::proto::{bundle, event, message, trace};
use crate::support::sound;
use proptest::prelude::*;
use std::sync::OnceLock;
use torpor_trace::{Severity, Trace, read_bytes};

fn has_damage(trace: &Trace) -> bool {
    trace.losses.iter().any(|loss| loss.severity == Severity::Damage)
}

fn original() -> impl Strategy<Value = Vec<u8>> {
    static ORIGINALS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let originals =
        ORIGINALS.get_or_init(|| recordings().into_iter().map(|(_, bytes)| bytes).collect());
    prop::sample::select(&originals[..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Length fields at the start decide about memory.
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
        sound::check(&read_bytes("changed", &bytes));
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
        sound::check(&read_bytes("garbage", &[magic, &bytes].concat()));
    }
}

/// A longer part never has fewer events, and lost events are reported.
#[test]
fn every_truncation_is_reported() {
    let whole = perfetto();
    let all = read_bytes("whole", &whole).unwrap();
    assert!(!has_damage(&all), "{:?}", all.losses);
    let mut most = 0;
    // A part that ends with a packet is a whole trace.
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

/// A trace.dat has its head first, so a cut loses some or all events.
#[test]
fn every_truncation_of_a_trace_dat_is_reported() {
    let mut files: Vec<(Vec<u8>, usize)> = ["none", "zlib", "zstd"]
        .map(|compression| (dat(7, compression, X86_64).bytes(), 97))
        .into();
    files.push((dat(6, "none", X86_64).bytes(), 97));
    let shared = ["juno-sched-load.v6.dat", "juno-sched-load.v7.zstd.dat"];
    for path in shared.map(crate::support::shared_trace).into_iter().flatten() {
        let bytes = std::fs::read(path).expect("a recording is readable");
        // Reading the descriptions of events is slow in a debug build.
        let step = if cfg!(debug_assertions) { bytes.len() / 40 } else { 1_000 };
        files.push((bytes, step));
    }
    for (bytes, step) in files {
        let all = read_bytes("whole", &bytes).unwrap();
        assert!(!has_damage(&all), "{:?}", all.losses);
        for cut in (1..bytes.len()).step_by(step) {
            match read_bytes("part", &bytes[..cut]) {
                Ok(part) => {
                    // Names of sections may follow the events.
                    assert!(has_damage(&part) || part.events == all.events, "cut at {cut}");
                    assert!(part.events.len() <= all.events.len());
                }
                Err(error) => assert!(error.to_string().contains("hint:"), "{error}"),
            }
        }
    }
}

/// Many packets or many names in one packet: time is proportional to size.
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
