// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Recordings of other people, if they are present next to the project.

use crate::support::count;
use torpor_trace::{EventKind, PrevState, Probe, UNKNOWN_PID};

fn is_idle(kind: &EventKind) -> bool {
    matches!(kind, EventKind::CpuIdle { .. })
}

fn is_switch(kind: &EventKind) -> bool {
    matches!(kind, EventKind::SchedSwitch { .. })
}

/// Counts are those of the recordings' README, from Perfetto's trace processor.
#[test]
fn the_pixel_6a_has_its_readmes_counts() {
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

/// Compact scheduling omits the previous task, but other events name the task that they interrupt.
#[test]
fn pixel_6a_names_most_previous_tasks() {
    let Some(path) = crate::support::shared_trace("pixel6a-startup.perfetto-trace") else { return };
    let trace = torpor_trace::read(&path).unwrap();
    let unknown =
        count(&trace, |kind| matches!(kind, EventKind::SchedSwitch { prev_pid: UNKNOWN_PID, .. }));
    assert!(unknown <= 8, "{unknown} of 11086 switches without a previous task");
    // The idle task is always runnable when it is switched out.
    let idle_asleep = count(&trace, |kind| match kind {
        EventKind::SchedSwitch { prev_pid: 0, prev_state, .. } => {
            *prev_state != PrevState::Runnable
        }
        _ => false,
    });
    assert_eq!(idle_asleep, 0);
}

#[test]
fn the_android_emulator_has_its_readmes_counts() {
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

/// Counts are those of the recording's README and `trace-cmd report | grep -c`.
#[test]
fn juno_is_the_same_in_both_versions() {
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

/// The probes are four bytes into their functions, and timers are recorded by address.
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
            trace.names.symbol(*function) == Some("tick_nohz_handler")
        }
        _ => false,
    });
    assert!(ticks > 100, "{ticks}");
    let unnamed = count(&trace, |kind| match kind {
        EventKind::HrtimerStart { function, .. } | EventKind::TimerStart { function, .. } => {
            trace.names.symbol(*function).is_none()
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
