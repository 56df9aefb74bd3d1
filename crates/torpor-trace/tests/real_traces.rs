// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Recordings that other people made, where they are present beside the project.

mod support;

use torpor_trace::{EventKind, PrevState, Trace, UNKNOWN_PID};

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
    let Some(path) = support::shared_trace("pixel6a-startup.perfetto-trace") else { return };
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
fn pixel_6a_names_the_previous_task_of_almost_every_switch() {
    let Some(path) = support::shared_trace("pixel6a-startup.perfetto-trace") else { return };
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
    let Some(path) = support::shared_trace("emulator-android12.pftrace") else { return };
    let trace = torpor_trace::read(&path).unwrap();
    assert_eq!(count(&trace, is_idle), 12_853);
    assert_eq!(count(&trace, is_switch), 23_536);
    assert_eq!(trace.event_counts["sched_wakeup"], 13_907);
    assert_eq!(trace.meta.cpu_count, 4);
    assert_eq!(trace.meta.arch.as_deref(), Some("x86_64"));
}

/// Counts of `perf script | grep -c cpu_idle`.
#[test]
fn perf_recordings_plain_and_compressed_have_their_events() {
    for (name, events) in [("perf_cpu_idle.data", 132), ("perf_cpu_idle_zstd.data", 494)] {
        let Some(path) = support::shared_trace(name) else { return };
        let trace = torpor_trace::read(&path).unwrap();
        assert_eq!(count(&trace, is_idle), events, "{name}");
        assert_eq!(trace.events.len(), events, "{name}");
        assert_eq!(trace.losses, [], "{name}");
        assert_eq!(trace.meta.arch.as_deref(), Some("x86_64"));
    }
}
