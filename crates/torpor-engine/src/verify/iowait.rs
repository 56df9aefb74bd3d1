// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `nr_iowait_cpu()` at each decision: tasks that left the CPU to wait for IO and still wait.

use super::recorded::Calls;
use crate::input::Waits;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use torpor_machine::units::{CpuId, Instant};
use torpor_trace::Trace;

/// Sets the count of every decision. Only at the wake-up does `sched_blocked_reason` show whether a
/// task waited for IO, so later events are used; without it every uninterruptible sleep counts as a
/// wait.
///
/// FIDELITY(iowait-seen): tasks that left before the recording are not seen, nor, with that event,
/// are those that wake after it.
pub(super) fn fill(trace: &Trace, calls: &mut Calls) {
    let mut waits = Waits::new(trace);
    let mut found: Vec<_> = trace.events.iter().filter_map(|event| waits.observe(event)).collect();
    found.extend(waits.unfinished());
    let mut changes: BTreeMap<(Instant, CpuId), i32> = BTreeMap::new();
    for wait in found {
        *changes.entry((wait.from, wait.cpu)).or_default() += 1;
        *changes.entry((wait.until, wait.cpu)).or_default() -= 1;
    }
    let mut waiting: FxHashMap<CpuId, i32> = FxHashMap::default();
    let mut changes = changes.into_iter().peekable();
    for decision in &mut calls.decisions {
        while let Some(((_, cpu), change)) = changes.next_if(|c| c.0.0 <= decision.at) {
            *waiting.entry(cpu).or_default() += change;
        }
        let count = waiting.get(&decision.cpu).copied().unwrap_or(0);
        decision.asked.nr_iowait = count.unsigned_abs();
    }
}
