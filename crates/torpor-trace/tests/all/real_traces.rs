// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Recordings that other people made, where they are present next to the project.

use std::process::Command;
use torpor_trace::{Event, EventKind, PrevState, Probe, Trace, UNKNOWN_PID};

fn count(trace: &Trace, is_it: impl Fn(&EventKind) -> bool) -> usize {
    trace.events.iter().filter(|event| is_it(&event.kind)).count()
}

fn is_idle(kind: &EventKind) -> bool {
    matches!(kind, EventKind::CpuIdle { .. })
}

fn is_switch(kind: &EventKind) -> bool {
    matches!(kind, EventKind::SchedSwitch { .. })
}

/// Counts as the recordings' own README has them, taken with Perfetto's trace processor.
#[test]
fn pixel_6a_has_the_counts_its_readme_states() {
    let Some(path) = crate::support::shared_trace("pixel6a-startup.perfetto-trace") else { return };
    let trace = torpor_trace::read(&path).unwrap();
    assert_eq!(count(&trace, is_idle), 6809);
    assert_eq!(count(&trace, is_switch), 11086);
    assert_eq!(count(&trace, |kind| matches!(kind, EventKind::CpuFrequency { .. })), 1442);
    assert_eq!(trace.meta.cpu_count, 8);
    assert_eq!(trace.meta.clock, "boot");
    assert_eq!(trace.meta.arch.as_deref(), Some("aarch64"));
    let release = trace.meta.kernel_release.as_deref().unwrap();
    assert!(release.starts_with("5.10.107-android13"), "{release}");
    assert!(trace.carries.cpu_idle && trace.carries.switches && trace.carries.wakings);
    assert!(!trace.carries.hrtimers && !trace.carries.interrupts);
    assert_eq!(trace.event_counts["cpu_idle"], 6809);
    assert_eq!(trace.event_counts["sched_switch"], 11086);
    assert!(trace.events.is_sorted_by_key(|event| event.time));
}

/// Compact scheduling leaves the previous task out, but every other event names the task that it
/// interrupted: enough to name all of them here.
#[test]
fn pixel_6a_names_most_previous_tasks() {
    let Some(path) = crate::support::shared_trace("pixel6a-startup.perfetto-trace") else { return };
    let trace = torpor_trace::read(&path).unwrap();
    let unknown =
        count(&trace, |kind| matches!(kind, EventKind::SchedSwitch { prev_pid: UNKNOWN_PID, .. }));
    assert!(unknown <= 8, "{unknown} of 11086 switches without a previous task");
    // The idle task is left while runnable, always: a wrong pairing would show here.
    let idle_asleep = count(&trace, |kind| match kind {
        EventKind::SchedSwitch { prev_pid: 0, prev_state, .. } => {
            *prev_state != PrevState::Runnable
        }
        _ => false,
    });
    assert_eq!(idle_asleep, 0);
}

#[test]
fn android_emulator_has_the_counts_its_readme_states() {
    let Some(path) = crate::support::shared_trace("emulator-android12.pftrace") else { return };
    let trace = torpor_trace::read(&path).unwrap();
    assert_eq!(count(&trace, is_idle), 12_853);
    assert_eq!(count(&trace, is_switch), 23_536);
    assert_eq!(trace.event_counts["sched_wakeup"], 13_907);
    assert_eq!(trace.meta.cpu_count, 4);
    assert_eq!(trace.meta.arch.as_deref(), Some("x86_64"));
}

/// Counts of `perf script | grep -c cpu_idle`.
#[test]
fn perf_recordings_have_their_events() {
    for (name, events) in [("perf_cpu_idle.data", 132), ("perf_cpu_idle_zstd.data", 494)] {
        let Some(path) = crate::support::shared_trace(name) else { return };
        let trace = torpor_trace::read(&path).unwrap();
        assert_eq!(count(&trace, is_idle), events, "{name}");
        assert_eq!(trace.events.len(), events, "{name}");
        assert_eq!(trace.losses, [], "{name}");
        assert_eq!(trace.meta.arch.as_deref(), Some("x86_64"));
    }
}

/// Counts as the recording's own README and `trace-cmd report | grep -c` have them.
#[test]
fn juno_says_the_same_in_both_versions() {
    let files = ["juno-sched-load.v6.dat", "juno-sched-load.v7.zstd.dat"];
    let Some(paths) =
        files.map(crate::support::shared_trace).into_iter().collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let [v6, v7] = [0, 1].map(|index| torpor_trace::read(&paths[index]).unwrap());
    assert_eq!(v6.events, v7.events);
    assert_eq!(v6.event_counts, v7.event_counts);
    assert_eq!((v6.losses.len(), v7.losses.len()), (0, 0));
    assert_eq!(count(&v6, is_idle), 474);
    assert_eq!(count(&v6, is_switch), 399);
    assert_eq!(count(&v6, |kind| matches!(kind, EventKind::CpuFrequency { .. })), 16);
    assert_eq!(v6.event_counts["sched_load_cfs_rq"], 2437);
    assert_eq!(v6.meta.cpu_count, 6);
    assert_eq!(v7.meta.clock, "local");
}

/// Probes sit four bytes into their function there, and timers are given by address.
#[test]
fn guest_recordings_have_probes_and_named_timers() {
    let Some(path) = crate::support::shared_trace("guest/x86-6.12-menu-probes/trace.dat") else {
        return;
    };
    let trace = torpor_trace::read(&path).unwrap();
    assert_eq!(trace.losses, []);
    assert_eq!(trace.meta.clock, "mono");
    assert_eq!(trace.meta.arch.as_deref(), Some("x86_64"));
    let probes = [
        ("sl", Probe::SleepLength),
        ("sel", Probe::Select),
        ("stop", Probe::StopTick),
        ("retain", Probe::RetainTick),
        ("ienter", Probe::IdleEnter),
        ("iirq", Probe::IrqExit),
        ("reflect", Probe::Reflect),
        ("nxt", Probe::NextEvent),
        ("rcu", Probe::RcuNeedsCpu),
    ];
    for (name, probe) in probes {
        let found = count(
            &trace,
            |kind| matches!(kind, EventKind::Probed { probe: is, .. } if *is == probe),
        );
        assert_eq!(found as u64, trace.event_counts[name], "{name}");
    }
    let ticks = count(&trace, |kind| match kind {
        EventKind::HrtimerExpireEntry { function, .. } => {
            function.symbol.is_some_and(|name| trace.names.text(name) == "tick_nohz_handler")
        }
        _ => false,
    });
    assert!(ticks > 100, "{ticks}");
    let unnamed = count(&trace, |kind| match kind {
        EventKind::HrtimerStart { function, .. } | EventKind::TimerStart { function, .. } => {
            function.symbol.is_none()
        }
        _ => false,
    });
    assert_eq!(unnamed, 0);
    let marks: Vec<&str> = trace
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Marker { text } => Some(trace.names.text(text)),
            _ => None,
        })
        .collect();
    assert!(marks[0].starts_with("SNAP_BEGIN") && marks[2].starts_with("SNAP_END"), "{marks:?}");
}

/// One event as `trace-cmd report -t` prints it and as this crate read it, in the same words.
fn words(trace: &Trace, event: &Event) -> Option<String> {
    let text = match event.kind {
        EventKind::CpuIdle { state } => {
            format!("cpu_idle state={} cpu_id={}", state.0 as u32, event.cpu.0)
        }
        EventKind::CpuIdleMiss { state, .. } => {
            format!("cpu_idle_miss cpu_id={} state={}", event.cpu.0, state.0)
        }
        EventKind::HrtimerStart { timer, expires, .. } => {
            format!("hrtimer_start hrtimer={timer:#x} expires={}", expires.0)
        }
        EventKind::HrtimerExpireEntry { timer, now, .. } => {
            format!("hrtimer_expire_entry hrtimer={timer:#x} now={}", now.0)
        }
        EventKind::TimerStart { timer, expires_jiffies, .. } => {
            format!("timer_start timer={timer:#x} expires={expires_jiffies}")
        }
        EventKind::TickStop { success } => format!("tick_stop success={}", u8::from(success)),
        EventKind::SoftirqRaise { vec } => format!("softirq_raise vec={vec}"),
        EventKind::Probed { probe: Probe::SleepLength, value } => format!("sl ret={value}"),
        EventKind::Probed { probe: Probe::Select, value } => format!("sel ret={value}"),
        EventKind::Marker { text } => {
            let text = trace.names.text(text);
            format!("print {}", text.split(' ').next()?)
        }
        _ => return None,
    };
    Some(format!("{} {text}", event.time.0))
}

/// The same of a line such as `<idle>-0 [001] d..1. 14.216316123: cpu_idle: state=1 cpu_id=1`.
fn words_of_line(line: &str) -> Option<String> {
    let (head, rest) = line.split_once(": ")?;
    let time = head.split_whitespace().next_back()?.replace('.', "");
    let (name, fields) = rest.trim_start().split_once(':')?;
    let wanted: &[&str] = match name {
        "cpu_idle" => &["state", "cpu_id"],
        "cpu_idle_miss" => &["cpu_id", "state"],
        "hrtimer_start" => &["hrtimer", "expires"],
        "hrtimer_expire_entry" => &["hrtimer", "now"],
        "timer_start" => &["timer", "expires"],
        "tick_stop" => &["success"],
        "softirq_raise" => &["vec"],
        "sl" | "sel" => &["ret"],
        "print" => &[],
        _ => return None,
    };
    let field = |key: &str| {
        let words = fields.split_whitespace().map(|word| word.trim_end_matches(','));
        words.filter_map(|word| word.split_once('=')).find(|(known, _)| *known == key)
    };
    let mut text = format!("{} {name}", time.parse::<u64>().ok()?);
    for key in wanted {
        let (_, value) = field(key)?;
        text += &format!(" {key}={}", number(value));
    }
    if name == "print" {
        text += &format!(" {}", fields.split_once(": ")?.1.split_whitespace().next()?);
    }
    Some(text)
}

/// Addresses are printed with and without `0x`, a jiffy count perhaps with what it comes to.
fn number(value: &str) -> String {
    let is_address = value.len() == 16 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_address { format!("0x{value}") } else { value.to_owned() }
}

#[test]
fn trace_cmd_reports_the_same_times() {
    let names = [
        "juno-sched-load.v6.dat",
        "guest/x86-6.12-menu-probes/trace.dat",
        "guest/x86-6.12-menu-rich/trace.dat",
        "guest/x86-6.12-teo-mix-cpufreq/trace.dat",
        "guest/arm64-6.12-teo-mix-psci/trace.dat",
    ];
    for path in names.into_iter().filter_map(crate::support::shared_trace) {
        let report = Command::new("trace-cmd").arg("report").arg("-t").arg(&path).output();
        let Ok(report) = report else {
            println!("not run: trace-cmd is absent");
            return;
        };
        let report = String::from_utf8_lossy(&report.stdout);
        let trace = torpor_trace::read(&path).unwrap();
        let mut theirs: Vec<String> = report.lines().filter_map(words_of_line).collect();
        let mut ours: Vec<String> =
            trace.events.iter().filter_map(|event| words(&trace, event)).collect();
        // Events of one time are in no order of their own.
        theirs.sort();
        ours.sort();
        assert!(ours.len() > 450, "{path:?}: {}", ours.len());
        assert_eq!(ours.len(), theirs.len(), "{path:?}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{path:?}");
        }
    }
}
