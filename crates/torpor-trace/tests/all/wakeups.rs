// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `sched_wakeup` in every format, with and without `sched_waking`.

use crate::support::proto::{bundle, event, message, trace};
use crate::support::{count, loss};
use std::io::Read;
use std::path::Path;
use torpor_trace::{EventKind, Trace, Wakeups, Woken, read_bytes};

/// Renames an event in place: both names have one length.
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
    loss(trace, "wakeups_for_wakings")
}

fn wakings(trace: &Trace) -> usize {
    count(trace, |kind| matches!(kind, EventKind::SchedWaking { .. }))
}

fn wakeups(trace: &Trace) -> usize {
    count(trace, |kind| matches!(kind, EventKind::SchedWakeup { .. }))
}

/// Only the event's name differs, and the missing `sched_waking` is reported.
#[track_caller]
fn check(name: &str, bytes: &[u8], from: &str, to: &str) {
    let with = read_bytes(name, bytes).unwrap();
    let without = read_bytes(name, &renamed(bytes, from, to)).unwrap();
    assert!(wakings(&with) > 10, "{name}");
    assert_eq!((wakings(&without), wakeups(&without)), (0, wakings(&with)), "{name}");
    assert_eq!((lost(&with), lost(&without)), (0, wakings(&with) as u64), "{name}");
    assert_eq!(without.carries, with.carries, "{name}");
}

#[test]
fn perf_recordings_may_have_wakeups_alone() {
    let path = crate::support::own_trace("plain.data");
    let bytes = std::fs::read(path).unwrap();
    check("perf.data", &bytes, "name: sched_waking", "name: sched_wakeup");
    let text = std::fs::read(crate::support::own_trace("plain.perf-script.txt")).unwrap();
    check("perf script", &text, "sched_waking:", "sched_wakeup:");
}

#[test]
fn trace_cmd_recordings_may_have_wakeups_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/guest");
    let file = std::fs::File::open(root.join("amd64-6.12-menu-mix/trace.dat.gz")).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    check("trace.dat", &bytes, "name: sched_waking", "name: sched_wakeup");
}

/// Compact scheduling has `sched_waking` only.
#[test]
fn perfetto_has_wakings_and_wakeups() {
    let wakeup = |at: u64, pid: u64| {
        event(at, 0, 17, message().bytes(1, "task").number(2, pid).number(3, 120).number(5, 2))
    };
    let with = || message().number(1, 0).message(2, wakeup(10, 7)).message(2, wakeup(20, 8));
    let compact = message().packed(7, &[15]).packed(8, &[9]).packed(9, &[1]).packed(10, &[120]);
    let counts = |bytes: &[u8]| {
        let trace = read_bytes("perfetto", bytes).unwrap();
        (wakings(&trace), wakeups(&trace), lost(&trace))
    };
    assert_eq!(counts(&trace([bundle(with())])), (0, 2, 2));
    assert_eq!(counts(&trace([bundle(with().message(4, compact))])), (1, 2, 0));
}

fn woken(trace: &Trace) -> Vec<Woken> {
    let mut wakeups = Wakeups::default();
    trace.events.iter().filter_map(|event| wakeups.observe(event)).collect()
}

/// Without `sched_wakeup`, the next switch to the task names the CPU.
#[test]
fn switches_name_nearly_the_same_cpus() {
    let Some(path) = crate::support::shared_trace("emulator-android12.pftrace") else { return };
    let with = torpor_trace::read(&path).unwrap();
    let mut without = with.clone();
    without.events.retain(|event| !matches!(event.kind, EventKind::SchedWakeup { .. }));
    let (with, without) = (woken(&with), woken(&without));
    let named: std::collections::BTreeMap<(i32, i64), u32> =
        with.iter().map(|woken| ((woken.pid, woken.at.0), woken.cpu.0)).collect();
    let found = without.iter().filter_map(|w| Some((named.get(&(w.pid, w.at.0))?, w.cpu.0)));
    let (mut same, mut all) = (0, 0);
    for (named, cpu) in found {
        same += usize::from(*named == cpu);
        all += 1;
    }
    println!("{same} of {all} name the same CPU");
    assert!(all > 13_000 && same * 100 >= all * 95, "{same} of {all}");
}
