// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Recordings without `sched_waking`: their `sched_wakeup` stands for it, in every format.

mod support;

use std::io::Read;
use std::path::Path;
use support::proto::{bundle, event, message, trace};
use torpor_trace::{EventKind, Trace, read_bytes};

/// The two names are of one length, so that a recording of any format can be renamed in place.
fn renamed(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> = memchr::memmem::find_iter(&bytes, from.as_bytes()).collect();
    assert!(!places.is_empty(), "no `{from}`");
    for place in places {
        bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}

fn lost(trace: &Trace) -> u64 {
    let of_wakeups = trace.losses.iter().find(|loss| loss.key == "wakeups_for_wakings");
    of_wakeups.map_or(0, |loss| loss.count)
}

fn wakings(trace: &Trace) -> usize {
    let is_waking = |kind: &EventKind| matches!(kind, EventKind::SchedWaking { .. });
    trace.events.iter().filter(|event| is_waking(&event.kind)).count()
}

/// Only the name differs, so all else is the same; and the fall-back is reported.
#[track_caller]
fn check(name: &str, bytes: &[u8], from: &str, to: &str) {
    let with = read_bytes(name, bytes).unwrap();
    let without = read_bytes(name, &renamed(bytes, from, to)).unwrap();
    assert!(wakings(&with) > 10, "{name}");
    assert_eq!(without.events, with.events, "{name}");
    assert_eq!((lost(&with), lost(&without)), (0, wakings(&with) as u64), "{name}");
    assert_eq!(without.carries, with.carries, "{name}");
}

#[test]
fn of_perf() {
    let path = support::own_trace("plain.data");
    let bytes = std::fs::read(path).unwrap();
    check("perf.data", &bytes, "name: sched_waking", "name: sched_wakeup");
    let text = std::fs::read(support::own_trace("plain.perf-script.txt")).unwrap();
    check("perf script", &text, "sched_waking:", "sched_wakeup:");
}

#[test]
fn of_trace_cmd() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/guest");
    let file = std::fs::File::open(root.join("amd64-6.12-menu-mix/trace.dat.gz")).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    check("trace.dat", &bytes, "name: sched_waking", "name: sched_wakeup");
}

/// Compact scheduling holds wakings alone; where it has some, other wake-ups are superfluous.
#[test]
fn of_perfetto() {
    let wakeup = |at: u64, pid: u64| {
        event(at, 0, 17, message().bytes(1, "task").number(2, pid).number(3, 120).number(5, 2))
    };
    let with = || message().number(1, 0).message(2, wakeup(10, 7)).message(2, wakeup(20, 8));
    let compact = message().packed(7, &[15]).packed(8, &[9]).packed(9, &[1]).packed(10, &[120]);
    let pids = |bytes: &[u8]| {
        let trace = read_bytes("perfetto", bytes).unwrap();
        let pid = |kind: &EventKind| match kind {
            EventKind::SchedWaking { pid, .. } => Some(*pid),
            _ => None,
        };
        let pids: Vec<i32> = trace.events.iter().filter_map(|event| pid(&event.kind)).collect();
        (pids, lost(&trace))
    };
    assert_eq!(pids(&trace([bundle(with())])), (vec![7, 8], 2));
    assert_eq!(pids(&trace([bundle(with().message(4, compact))])), (vec![9], 0));
}

/// A guest's recording that has both, one wake-up for each waking but at its very ends.
#[test]
fn of_a_recording_that_has_both() {
    let Some(path) = support::shared_trace("guest/x86-6.12-teo-mix-cpufreq/trace.txt") else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    if !text.contains(" sched_wakeup: ") || !text.contains(" sched_waking: ") {
        println!("not run: the recording does not have both");
        return;
    }
    let without: String =
        text.lines().filter(|l| !l.contains(" sched_waking: ")).map(|l| format!("{l}\n")).collect();
    let with = read_bytes("both", text.as_bytes()).unwrap();
    let without = read_bytes("one", without.as_bytes()).unwrap();
    assert_eq!(lost(&with), 0);
    assert_eq!(lost(&without), wakings(&without) as u64);
    let (with, without) = (wakings(&with) as f64, wakings(&without) as f64);
    println!("{with} wakings, {without} wake-ups");
    assert!((0.99..=1.01).contains(&(without / with)), "{without} of {with}");
}
