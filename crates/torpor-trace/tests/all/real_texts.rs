// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Texts that kernels and trace-cmd wrote, where they are present next to the project. Counts are
//! checked against what a plain search for an event's name finds.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
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
        let path = crate::support::shared_trace(&format!("guest/{name}"))?;
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

fn count(trace: &Trace, is_it: impl Fn(&EventKind) -> bool) -> usize {
    trace.events.iter().filter(|event| is_it(&event.kind)).count()
}

#[test]
fn guests_have_the_counts_of_a_plain_search() {
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
        let lost = trace.losses.iter().map(|loss| (loss.key.as_str(), loss.count));
        let expected = (hidden > 0).then_some(("timers_without_address", hidden));
        assert!(lost.eq(expected), "{name}: {:?}", trace.losses);
    }
}

#[test]
fn the_probes_of_guests_have_names_and_values() {
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
            EventKind::Probed { probe: Probe::Select | Probe::Reflect, value } => Some(value),
            _ => None,
        });
        let searched = text
            .lines()
            .filter(|line| line.contains("<- cpuidle_select)") || line.contains("(cpuidle_reflect"))
            .filter_map(|line| line.rsplit_once('=')?.1.parse::<i64>().ok());
        assert!(chosen.eq(searched), "{name}: the values in the order of the text");
    }
}

/// Counts of the recordings' own README.
#[test]
fn systrace_page_has_the_counts_its_readme_states() {
    let Some(path) = crate::support::shared_trace("surfaceflinger.systrace.html") else { return };
    let trace = torpor_trace::read(&path).unwrap();
    assert_eq!(count(&trace, |kind| matches!(kind, EventKind::CpuIdle { .. })), 621);
    assert_eq!(count(&trace, |kind| matches!(kind, EventKind::SchedSwitch { .. })), 715);
    assert_eq!(count(&trace, |kind| matches!(kind, EventKind::CpuFrequency { .. })), 104);
    assert_eq!(trace.meta.cpu_count, 8);
    // Losses of a phone without sched_waking.
    let losses: Vec<_> = trace.losses.iter().map(|loss| (loss.key.as_str(), loss.count)).collect();
    assert_eq!(losses, [("wakeups_for_wakings", 421)]);
    assert_eq!(trace.event_counts["sched_wakeup"], 421);
    // 160 marks of atrace, two of which are the kernel's own landmarks.
    assert_eq!(trace.event_counts["print"], 160);
    assert_eq!(count(&trace, |kind| matches!(kind, EventKind::Marker { .. })), 2);
}

/// Its last line is an event cut short, and two CPUs' lines stand out of order.
#[test]
fn unsorted_report_is_sorted() {
    let Some(path) = crate::support::shared_trace("idle-unsorted.txt") else { return };
    let trace = torpor_trace::read(&path).unwrap();
    assert_eq!(count(&trace, |kind| matches!(kind, EventKind::CpuIdle { .. })), 8);
    assert_eq!(count(&trace, |kind| matches!(kind, EventKind::SchedSwitch { .. })), 6);
    assert!(trace.events.is_sorted_by_key(|event| event.time));
    let lost: Vec<(&str, u64)> =
        trace.losses.iter().map(|loss| (loss.key.as_str(), loss.count)).collect();
    assert_eq!(lost, [("field_missing_events", 1)]);
}

/// The recorder's own program prints the same ring buffer from its binary file: the same events at
/// the same microseconds, but for the probes, which it gives by address alone.
#[test]
fn trace_cmd_reports_have_the_kernels_events() {
    for name in GUESTS {
        let Some(path) = crate::support::shared_trace(&format!("guest/{name}")) else { return };
        let recording = path.with_file_name("trace.dat");
        let report =
            std::process::Command::new("trace-cmd").args(["report", "-t"]).arg(&recording).output();
        let Ok(report) = report else {
            return println!("not run: trace-cmd is not installed");
        };
        let text = torpor_trace::read(&path).unwrap();
        let report = read_bytes("report", &report.stdout).unwrap();
        assert_eq!(report.event_counts, text.event_counts, "{name}");
        let is_expected =
            |key: &str| matches!(key, "probes_without_symbol" | "timers_without_flags");
        assert!(report.losses.iter().all(|loss| is_expected(&loss.key)), "{name}");
        assert_eq!(comparable(&report), comparable(&text), "{name}");
    }
}

/// Events that both texts hold in full, in microseconds.
fn comparable(trace: &Trace) -> Vec<String> {
    let us = |ns: i64| (ns + 500) / 1_000;
    let mut all: Vec<String> = trace
        .events
        .iter()
        .filter_map(|event| {
            let start = format!("{} {}", us(event.time.0), event.cpu.0);
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
                    function.symbol.map(|name| trace.names.text(name)),
                    expires.0,
                    softexpires.0
                ),
                EventKind::TimerStart { expires_jiffies, bucket_expiry_jiffies, .. } => {
                    format!("{start} {expires_jiffies} {bucket_expiry_jiffies:?}")
                }
                _ => return None,
            })
        })
        .collect();
    // Two events of one microsecond may be in either order.
    all.sort();
    all
}

/// Cut at every thousandth byte, every text is read up to the cut or refused with a hint.
#[test]
fn guests_cut_anywhere_are_read_in_part() {
    for (name, text) in guest_texts() {
        let mut most = 0;
        for cut in (1_000..50_000).step_by(1_000) {
            match read_bytes(name, &text.as_bytes()[..cut]) {
                Ok(part) => {
                    assert!(part.events.len() >= most, "{name} cut at {cut}");
                    most = part.events.len();
                    let is_told = part.losses.iter().any(|loss| loss.key == "truncated_file");
                    let lines = text[..cut].rfind('\n').map_or(0, |end| end + 1);
                    let rest = &text[lines..cut];
                    let whole = read_bytes(name, &text.as_bytes()[..lines]);
                    let is_read = whole.is_ok_and(|whole| whole.events.len() < most);
                    let is_lost = !is_read && !rest.trim().is_empty();
                    assert_eq!(is_told, is_lost, "{name} cut at {cut}");
                }
                Err(error) => assert!(error.to_string().contains("hint:"), "{error}"),
            }
        }
        assert!(most > 200, "{name}");
    }
}
