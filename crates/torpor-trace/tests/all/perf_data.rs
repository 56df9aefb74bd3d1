// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! perf.data against perf itself: every event of the project's recordings, field by field, as
//! `perf script` of Linux 6.1 printed it (tests/data/README.md says how both were made).

use crate::support::perf::{as_stream, compressed, record, u64_at};
use std::path::Path;
use torpor_trace::{
    Event, EventKind, Function, InterruptCause, PrevState, Trace, TraceError, read_bytes,
};

/// Returns the value of `key=` in a line of `perf script`.
fn value<'a>(line: &'a str, key: &str) -> &'a str {
    let start = line.find(&format!(" {key}=")).unwrap_or_else(|| panic!("no {key} in {line}"));
    let rest = &line[start + key.len() + 2..];
    // A task's name may hold spaces; it ends where the next key of the tracepoint begins.
    match key {
        "next_comm" => rest.split(" next_pid=").next().unwrap(),
        _ => rest.split_whitespace().next().unwrap_or(""),
    }
}

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

/// The facts of a line of `perf script`, in the words of `our_facts`.
fn their_facts(line: &str) -> String {
    let (cpu, rest) = line.trim_start()[1..].split_once(']').unwrap();
    let (time, rest) = rest.trim_start().split_once(": ").unwrap();
    let (event, line) = rest.trim_start().split_once(": ").unwrap_or((rest.trim(), ""));
    let event = event.trim_end_matches(':');
    let time_ns = number(&time.replace('.', ""));
    let (line, cpu) = (format!(" {line}"), number(cpu));
    let v = |key| value(&line, key);
    let name = event.split_once(':').unwrap().1;
    let facts = match name {
        "cpu_idle" => format!("state {} of cpu {}", number(v("state")) as i32, v("cpu_id")),
        "sched_switch" => format!(
            "{} ({}) to {} `{}`",
            v("prev_pid"),
            if v("prev_state").starts_with('R') { "runnable" } else { "asleep" },
            v("next_pid"),
            v("next_comm")
        ),
        "sched_waking" => format!("{} on {}", v("pid"), number(v("target_cpu"))),
        "irq_handler_entry" => format!("{} `{}`", v("irq"), v("name")),
        "irq_handler_exit" => v("irq").to_owned(),
        "softirq_raise" | "softirq_entry" | "softirq_exit" => v("vec").to_owned(),
        "ipi_send_cpu" => format!("to {} callback {}", v("cpu"), v("callback") != "0x0"),
        "hrtimer_start" => format!(
            "{} {} at {} soft {}",
            number(v("hrtimer")),
            v("function"),
            v("expires"),
            v("softexpires")
        ),
        "hrtimer_expire_entry" => {
            format!("{} {} at {}", number(v("hrtimer")), v("function"), v("now"))
        }
        "hrtimer_cancel" | "hrtimer_expire_exit" => number(v("hrtimer")).to_string(),
        // perf prints every flag as set (its __print_flags is wrong); cpu and idx are right.
        "timer_start" => format!(
            "{} {} at {} bucket {} cpu {} idx {}",
            number(v("timer")),
            v("function"),
            v("expires"),
            v("bucket_expiry"),
            v("cpu"),
            v("idx")
        ),
        "timer_cancel" => number(v("timer")).to_string(),
        "timer_expire_entry" => {
            format!("{} {} at {}", number(v("timer")), v("function"), v("now"))
        }
        "tick_stop" => format!("success {}", v("success")),
        _ if event.starts_with("irq_vectors:") => String::new(),
        other => panic!("an event this test does not know: {other}"),
    };
    format!("{time_ns} cpu {cpu} {name} {facts}")
}

// One arm per event.
#[allow(clippy::too_many_lines)]
fn our_facts(trace: &Trace, event: &Event) -> String {
    let name_of = |function: Function| match function.symbol {
        Some(symbol) => trace.names.text(symbol).to_owned(),
        None => format!("{:#x}", function.address),
    };
    let (name, facts) = match event.kind {
        // The event's CPU is the one it is about, which on x86 is the one that recorded it.
        EventKind::CpuIdle { state } => {
            ("cpu_idle", format!("state {} of cpu {}", state.0, event.cpu.0))
        }
        EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm } => (
            "sched_switch",
            format!(
                "{prev_pid} ({}) to {next_pid} `{}`",
                if prev_state == PrevState::Runnable { "runnable" } else { "asleep" },
                trace.names.text(next_comm.unwrap())
            ),
        ),
        EventKind::SchedWaking { pid, target_cpu } => {
            ("sched_waking", format!("{pid} on {}", target_cpu.0))
        }
        EventKind::IrqEntry { irq, name } => {
            let name = name.map_or("", |name| trace.names.text(name));
            ("irq_handler_entry", format!("{irq} `{name}`"))
        }
        EventKind::IrqExit { irq } => ("irq_handler_exit", irq.to_string()),
        EventKind::SoftirqRaise { vec } => ("softirq_raise", vec.to_string()),
        EventKind::SoftirqEntry { vec } => ("softirq_entry", vec.to_string()),
        EventKind::SoftirqExit { vec } => ("softirq_exit", vec.to_string()),
        EventKind::IpiSend { target_cpu, cause } => (
            "ipi_send_cpu",
            format!("to {} callback {}", target_cpu.0, cause == InterruptCause::CallFunction),
        ),
        EventKind::HrtimerStart { timer, function, expires, softexpires } => (
            "hrtimer_start",
            format!("{timer} {} at {} soft {}", name_of(function), expires.0, softexpires.0),
        ),
        EventKind::HrtimerCancel { timer } => ("hrtimer_cancel", timer.to_string()),
        EventKind::HrtimerExpireEntry { timer, function, now } => {
            ("hrtimer_expire_entry", format!("{timer} {} at {}", name_of(function), now.0))
        }
        EventKind::HrtimerExpireExit { timer } => ("hrtimer_expire_exit", timer.to_string()),
        EventKind::TimerStart {
            timer,
            function,
            expires_jiffies,
            bucket_expiry_jiffies,
            flags,
        } => (
            "timer_start",
            format!(
                "{timer} {} at {expires_jiffies} bucket {} cpu {} idx {}",
                name_of(function),
                bucket_expiry_jiffies.unwrap(),
                flags & 0x3_ffff,
                flags >> 22
            ),
        ),
        EventKind::TimerCancel { timer } => ("timer_cancel", timer.to_string()),
        EventKind::TimerExpireEntry { timer, function, now_jiffies } => {
            ("timer_expire_entry", format!("{timer} {} at {now_jiffies}", name_of(function)))
        }
        EventKind::TickStop { success } => ("tick_stop", format!("success {}", u8::from(success))),
        EventKind::InterruptEntry { cause } => (
            match cause {
                InterruptCause::LocalTimer => "local_timer_entry",
                InterruptCause::Reschedule => "reschedule_entry",
                InterruptCause::CallFunction => "call_function_single_entry",
                other => panic!("{other:?}"),
            },
            String::new(),
        ),
        EventKind::InterruptExit { cause } => (
            match cause {
                InterruptCause::LocalTimer => "local_timer_exit",
                InterruptCause::Reschedule => "reschedule_exit",
                InterruptCause::CallFunction => "call_function_single_exit",
                other => panic!("{other:?}"),
            },
            String::new(),
        ),
        other => panic!("{other:?}"),
    };
    format!("{} cpu {} {name} {facts}", event.time.0, event.cpu.0)
}

fn assert_matches_perf_script(trace: &Trace, script: &Path) {
    let script = std::fs::read_to_string(script).unwrap();
    let theirs: Vec<String> = script.lines().map(their_facts).collect();
    let ours: Vec<String> = trace.events.iter().map(|event| our_facts(trace, event)).collect();
    for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours, theirs, "event {index}");
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn every_event_is_what_perf_script_prints() {
    let trace = torpor_trace::read(&crate::support::own_trace("plain.data")).unwrap();
    assert_matches_perf_script(&trace, &crate::support::own_trace("plain.perf-script.txt"));
    assert_eq!(trace.losses, []);
    assert_eq!(trace.meta.clock, "mono");
    assert_eq!(trace.meta.format, "perf.data");
    assert_eq!(trace.meta.cpu_count, 2);
    assert!(trace.meta.kernel_release.as_deref().unwrap().starts_with("6.18"));
    assert_eq!(trace.meta.machine.as_deref(), Some("AMD EPYC"));
    assert!(trace.carries.hrtimers && trace.carries.wheel_timers && trace.carries.tick_stop);
    assert!(trace.carries.interrupts && trace.carries.ipis && trace.carries.softirqs);
}

/// The stream is what perf writes to a pipe: no section table, descriptions before the samples.
#[test]
fn the_stream_of_a_pipe_reads_like_the_file() {
    let file = std::fs::read(crate::support::own_trace("plain.data")).unwrap();
    let kallsyms = std::fs::read(crate::support::own_trace("plain.data.kallsyms")).unwrap();
    let stream = as_stream(&file, |records| records.to_vec());
    let trace = torpor_trace::read_with_kallsyms("stream", &stream, Some(&kallsyms)).unwrap();
    assert_matches_perf_script(&trace, &crate::support::own_trace("plain.perf-script.txt"));
    assert_eq!(trace.losses, []);
}

/// `perf record -z`: one zstd stream over all records, cut where a buffer was full.
#[test]
fn compressed_records_read_like_plain_ones() {
    let file = std::fs::read(crate::support::own_trace("plain.data")).unwrap();
    let kallsyms = std::fs::read(crate::support::own_trace("plain.data.kallsyms")).unwrap();
    let stream = as_stream(&file, compressed);
    let trace = torpor_trace::read_with_kallsyms("stream", &stream, Some(&kallsyms)).unwrap();
    assert_matches_perf_script(&trace, &crate::support::own_trace("plain.perf-script.txt"));
    assert_eq!(trace.losses, []);
}

#[test]
fn lost_events_are_counted() {
    let file = std::fs::read(crate::support::own_trace("plain.data")).unwrap();
    let stream = as_stream(&file, |records| {
        let lost = [5u64.to_le_bytes(), 42u64.to_le_bytes()].concat();
        [records, &record(2, &lost), &record(13, &7u64.to_le_bytes())].concat()
    });
    let trace = read_bytes("lost", &stream).unwrap();
    let counts: Vec<_> = trace.losses.iter().map(|l| (l.key.as_str(), l.count)).collect();
    assert_eq!(counts, [("perf_lost_events", 42), ("perf_lost_samples", 7)]);
}

#[test]
fn a_cut_stream_keeps_its_first_events_and_says_so() {
    let file = std::fs::read(crate::support::own_trace("plain.data")).unwrap();
    let stream = as_stream(&file, |records| records.to_vec());
    let trace = read_bytes("cut", &stream[..stream.len() - 9_999]).unwrap();
    assert!((100..354).contains(&trace.events.len()), "{}", trace.events.len());
    assert_eq!(trace.losses[0].key, "truncated_file");
}

/// A file describes its events at its end, so a cut one cannot be read at all.
#[test]
fn a_cut_file_is_refused_with_the_reason() {
    let file = std::fs::read(crate::support::own_trace("plain.data")).unwrap();
    let error = read_bytes("cut.data", &file[..30_000]).unwrap_err();
    assert!(matches!(error, TraceError::Malformed { offset: 30_000, .. }));
    let text = error.to_string();
    assert!(text.contains("`cut.data` as perf.data") && text.contains("were at its end"), "{text}");
    let mut unfinished = file.clone();
    unfinished[48..56].fill(0);
    let text = read_bytes("killed.data", &unfinished).unwrap_err().to_string();
    assert!(text.contains("perf was killed"), "{text}");
}

/// Without `-k CLOCK_MONOTONIC` the timers' clock is found through the timers that fired.
#[test]
fn fired_timers_tie_an_unnamed_clock() {
    let file = std::fs::read(crate::support::own_trace("plain.data")).unwrap();
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
    // The clocks are in truth the same, so the estimate is its own error: how late the promptest
    // timer was. 5 us is a slow interrupt entry.
    for (exact, tied) in exact.events.iter().zip(&tied.events) {
        if let (
            EventKind::HrtimerStart { expires: exact, .. },
            EventKind::HrtimerStart { expires: tied, .. },
        ) = (exact.kind, tied.kind)
        {
            assert!((0..5_000).contains(&(tied.0 - exact.0)), "{exact} {tied}");
        }
    }
}
