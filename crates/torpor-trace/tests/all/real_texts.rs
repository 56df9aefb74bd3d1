// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Texts of kernels and trace-cmd, if they are present next to the project. Counts are compared with
//! a plain search for the event's name.

use crate::support::{count, loss, losses, shared_trace};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use torpor_trace::{EventKind, PrevState, Probe, Trace, read_bytes};

const GUESTS: [&str; 5] = [
    "arm64-6.12-teo-mix-psci/trace.txt",
    "x86-6.12-menu-idle-predict/trace.txt",
    "x86-6.12-menu-probes/trace.txt",
    "x86-6.12-menu-rich/trace.txt.gz",
    "x86-6.12-teo-mix-cpufreq/trace.txt",
];

fn text_of(path: &Path) -> String {
    let bytes = std::fs::read(path).expect("a recording is readable");
    if path.extension().is_some_and(|extension| extension == "gz") {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("it is text");
        return text;
    }
    String::from_utf8(bytes).expect("it is text")
}

fn guest_texts() -> impl Iterator<Item = (&'static str, String)> {
    GUESTS.into_iter().filter_map(|name| {
        let path = shared_trace(&format!("guest/{name}"))?;
        Some((name, text_of(&path)))
    })
}

/// Lines by the word after the time's colon.
fn counted(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (_, event) = line.split_once(": ").expect("a time and an event");
        let name = event.split_once(':').expect("an event's name").0;
        let name = if name == "tracing_mark_write" { "print" } else { name };
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn counts_equal_those_of_a_plain_search() {
    for (name, text) in guest_texts() {
        let trace = read_bytes(name, text.as_bytes()).unwrap();
        assert_eq!(trace.event_counts, counted(&text), "{name}");
        assert_eq!((trace.meta.clock.as_str(), trace.meta.cpu_count), ("mono", 2), "{name}");
        let of = |event: &str| text.matches(&format!(": {event}: ")).count();
        let is_idle = |kind: &EventKind| matches!(kind, EventKind::CpuIdle { .. });
        assert_eq!(count(&trace, is_idle), of("cpu_idle"), "{name}");
        let is_waking = |kind: &EventKind| matches!(kind, EventKind::SchedWaking { .. });
        assert_eq!(count(&trace, is_waking), of("sched_waking"), "{name}");
        let is_start = |kind: &EventKind| matches!(kind, EventKind::HrtimerStart { .. });
        assert_eq!(count(&trace, is_start), of("hrtimer_start"), "{name}");
        let is_sent = |kind: &EventKind| matches!(kind, EventKind::IpiSend { .. });
        assert_eq!(count(&trace, is_sent), of("ipi_send_cpu") + of("ipi_raise"), "{name}");
        for (letters, state) in [
            (&["R", "R+"][..], PrevState::Runnable),
            (&["S", "I"], PrevState::Sleeping),
            (&["D"], PrevState::DiskSleep),
            (&["Z", "X"], PrevState::Dead),
        ] {
            let of = |letter| text.matches(&format!(" prev_state={letter} ")).count();
            let is_it = |kind: &EventKind| match kind {
                EventKind::SchedSwitch { prev_state, .. } => *prev_state == state,
                _ => false,
            };
            let expected: usize = letters.iter().map(of).sum();
            assert_eq!(count(&trace, is_it), expected, "{name}: {letters:?}");
        }
        let hidden = text.matches("(____ptrval____)").count() as u64;
        let expected = (hidden > 0).then_some(("timers_without_address", hidden));
        assert_eq!(losses(&trace), Vec::from_iter(expected), "{name}");
    }
}

#[test]
fn probes_have_names_and_values() {
    for (name, text) in guest_texts().filter(|(name, _)| name.contains("menu-")) {
        let trace = read_bytes(name, text.as_bytes()).unwrap();
        for (function, probe) in [
            ("<- cpuidle_select)", Probe::Select),
            ("(cpuidle_reflect+0x4/", Probe::Reflect),
            ("<- tick_nohz_get_sleep_length)", Probe::SleepLength),
            ("<- tick_nohz_next_event)", Probe::NextEvent),
            ("<- rcu_needs_cpu)", Probe::RcuNeedsCpu),
            ("(tick_nohz_idle_stop_tick+0x4/", Probe::StopTick),
            ("(tick_nohz_idle_retain_tick+0x4/", Probe::RetainTick),
            ("(tick_nohz_idle_enter+0x4/", Probe::IdleEnter),
            ("<- tick_nohz_irq_exit)", Probe::IrqExit),
        ] {
            let is_it = |kind: &EventKind| matches!(kind, EventKind::Probed { probe: found, .. } if *found == probe);
            assert_eq!(count(&trace, is_it), text.matches(function).count(), "{name}: {function}");
        }
        let chosen = trace.events.iter().filter_map(|event| match event.kind {
            EventKind::Probed { probe: Probe::Select | Probe::Reflect, value } => Some(value.get()),
            _ => None,
        });
        let searched = text
            .lines()
            .filter(|line| line.contains("<- cpuidle_select)") || line.contains("(cpuidle_reflect"))
            .filter_map(|line| line.rsplit_once('=')?.1.parse::<i64>().ok());
        assert!(chosen.eq(searched), "{name}: the values in the order of the text");
    }
}

/// Counts are those of the recordings' README.
#[test]
fn a_systrace_page_has_its_readmes_counts() {
    let Some(path) = shared_trace("surfaceflinger.systrace.html") else { return };
    let trace = torpor_trace::read(&path).unwrap();
    assert_eq!(count(&trace, |kind| matches!(kind, EventKind::CpuIdle { .. })), 621);
    assert_eq!(count(&trace, |kind| matches!(kind, EventKind::SchedSwitch { .. })), 715);
    assert_eq!(count(&trace, |kind| matches!(kind, EventKind::CpuFrequency { .. })), 104);
    assert_eq!(trace.meta.cpu_count, 8);
    assert_eq!(losses(&trace), [("wakeups_for_wakings", 421)]);
    assert_eq!(trace.event_counts["sched_wakeup"], 421);
    // 158 of the 160 marks are atrace's.
    assert_eq!(trace.event_counts["print"], 160);
    assert_eq!(count(&trace, |kind| matches!(kind, EventKind::Marker { .. })), 2);
}

/// Its last line is cut, and lines of two CPUs are out of order.
#[test]
fn unsorted_report_is_sorted() {
    let Some(path) = shared_trace("idle-unsorted.txt") else { return };
    let trace = torpor_trace::read(&path).unwrap();
    assert_eq!(count(&trace, |kind| matches!(kind, EventKind::CpuIdle { .. })), 8);
    assert_eq!(count(&trace, |kind| matches!(kind, EventKind::SchedSwitch { .. })), 6);
    assert!(trace.events.is_sorted_by_key(|event| event.time));
    assert_eq!(losses(&trace), [("field_missing_events", 1)]);
}

/// The kernel's text, trace-cmd's recording of the same ring buffer and its report have the same
/// events at the same microseconds; recording and report have the same nanoseconds. The report has
/// probes by address only.
#[test]
fn trace_cmd_reports_the_same_events() {
    let juno = shared_trace("juno-sched-load.v6.dat").map(|path| (path, None));
    let guests = GUESTS.iter().filter_map(|name| {
        let text = shared_trace(&format!("guest/{name}"))?;
        Some((text.with_file_name("trace.dat"), Some(text)))
    });
    for (path, text) in juno.into_iter().chain(guests) {
        let report = Command::new("trace-cmd").args(["report", "-t"]).arg(&path).output();
        let Ok(report) = report else {
            return println!("not run: trace-cmd is not installed");
        };
        let report = read_bytes("report", &report.stdout).unwrap();
        let is_expected =
            |key: &str| matches!(key, "probes_without_symbol" | "timers_without_flags");
        assert!(report.losses.iter().all(|loss| is_expected(&loss.key)), "{path:?}");
        let recording = torpor_trace::read(&path).unwrap();
        assert!(recording.events.len() > 450, "{path:?}");
        assert_eq!(comparable(&report, 1), comparable(&recording, 1), "{path:?}");
        if let Some(text) = text {
            let text = torpor_trace::read(&text).unwrap();
            assert_eq!(report.event_counts, text.event_counts, "{path:?}");
            assert_eq!(comparable(&report, 1_000), comparable(&text, 1_000), "{path:?}");
        }
    }
}

/// Returns the events that texts hold in full, with times rounded to a unit.
fn comparable(trace: &Trace, unit_ns: i64) -> Vec<String> {
    let rounded = |ns: i64| (ns + unit_ns / 2) / unit_ns;
    let mut all: Vec<String> = trace
        .events
        .iter()
        .filter_map(|event| {
            let start = format!("{} {}", rounded(event.time.0), event.cpu.0);
            Some(match event.kind {
                EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm } => {
                    let comm = next_comm.map(|name| trace.names.text(name));
                    format!("{start} {prev_pid} {prev_state:?} {next_pid} {comm:?}")
                }
                EventKind::IrqEntry { irq, name } => {
                    let name = name.map(|name| trace.names.text(name));
                    format!("{start} irq {irq} {name:?}")
                }
                EventKind::CpuIdle { .. }
                | EventKind::CpuIdleMiss { .. }
                | EventKind::CpuFrequency { .. }
                | EventKind::SchedWaking { .. }
                | EventKind::IrqExit { .. }
                | EventKind::SoftirqRaise { .. }
                | EventKind::SoftirqEntry { .. }
                | EventKind::SoftirqExit { .. }
                | EventKind::InterruptEntry { .. }
                | EventKind::InterruptExit { .. }
                | EventKind::IpiSend { .. }
                | EventKind::TickStop { .. } => format!("{start} {:?}", event.kind),
                EventKind::HrtimerStart { function, expires, softexpires, .. } => format!(
                    "{start} {:?} {} {}",
                    trace.names.symbol(function),
                    expires.get().0,
                    softexpires.get().0
                ),
                EventKind::TimerStart { expires_jiffies, bucket_expiry_jiffies, .. } => {
                    format!("{start} {expires_jiffies:?} {bucket_expiry_jiffies:?}")
                }
                _ => return None,
            })
        })
        .collect();
    // Simultaneous events may be in any order.
    all.sort();
    all
}

/// Cut at every thousandth byte, a text is read up to the cut or refused with a hint.
#[test]
fn texts_cut_anywhere_are_read_in_part() {
    for (name, text) in guest_texts() {
        let mut most = 0;
        for cut in (1_000..50_000).step_by(1_000) {
            match read_bytes(name, &text.as_bytes()[..cut]) {
                Ok(part) => {
                    assert!(part.events.len() >= most, "{name} cut at {cut}");
                    most = part.events.len();
                    let is_reported = loss(&part, "truncated_file") > 0;
                    let lines = text[..cut].rfind('\n').map_or(0, |end| end + 1);
                    let rest = &text[lines..cut];
                    let whole = read_bytes(name, &text.as_bytes()[..lines]);
                    let is_read = whole.is_ok_and(|whole| whole.events.len() < most);
                    let is_lost = !is_read && !rest.trim().is_empty();
                    assert_eq!(is_reported, is_lost, "{name} cut at {cut}");
                }
                Err(error) => assert!(error.to_string().contains("hint:"), "{error}"),
            }
        }
        assert!(most > 200, "{name}");
    }
}
