// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `nr_iowait_cpu()` at each decision: tasks that left the CPU to wait for IO and still wait.

use super::recorded::Calls;
use std::collections::BTreeMap;
use torpor_machine::units::{CpuId, Instant};
use torpor_trace::{EventKind, PrevState, Trace};

/// Sets the count of every decision. `sched_blocked_reason` shows only at the wake-up whether a
/// task waited for IO, so later events are used; without it every uninterruptible sleep counts as a
/// wait.
///
/// FIDELITY(iowait-seen): tasks that left before the recording are not seen, nor, with that event,
/// are those that wake after it.
pub(super) fn fill(trace: &Trace, calls: &mut Calls) {
    let changes = changes(trace);
    let mut waiting: BTreeMap<CpuId, u32> = BTreeMap::new();
    let mut changes = changes.into_iter().peekable();
    for decision in &mut calls.decisions {
        while let Some(((_, _, cpu), is_more)) = changes.next_if(|c| c.0.0 <= decision.at) {
            let count = waiting.entry(cpu).or_default();
            *count = if is_more { *count + 1 } else { count.saturating_sub(1) };
        }
        decision.asked.nr_iowait = waiting.get(&decision.cpu).copied().unwrap_or(0);
    }
}

/// Returns the times at which a count rises (true) or falls, in the order of the recording.
fn changes(trace: &Trace) -> BTreeMap<(Instant, usize, CpuId), bool> {
    let has_reasons = trace.event_counts.contains_key("sched_blocked_reason");
    let mut left: BTreeMap<i32, (Instant, usize, CpuId)> = BTreeMap::new();
    let mut changes = BTreeMap::new();
    for (place, event) in trace.events.iter().enumerate() {
        let woken = match event.kind {
            EventKind::SchedSwitch { prev_pid, prev_state, .. } if prev_pid > 0 => {
                let from = (event.time, place, event.cpu);
                if has_reasons {
                    left.insert(prev_pid, from);
                } else if prev_state == PrevState::DiskSleep {
                    left.insert(prev_pid, from);
                    changes.insert(from, true);
                }
                continue;
            }
            EventKind::BlockedReason { pid, io_wait: true } => pid,
            EventKind::SchedWaking { pid, .. } | EventKind::SchedWakeup { pid, .. }
                if !has_reasons =>
            {
                pid
            }
            _ => continue,
        };
        if let Some(from) = left.remove(&woken) {
            changes.insert(from, true);
            changes.insert((event.time, place, from.2), false);
        }
    }
    changes
}
