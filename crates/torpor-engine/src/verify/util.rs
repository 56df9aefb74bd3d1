// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Utilization at each decision, by the load tracking that replays use.

use super::recorded::Calls;
use super::walk::MachineCpu;
use crate::input::{self, CpuIndex, CpuInput, Recording, Span, Tracker};
use torpor_trace::Trace;

/// Sets the utilization of every decision.
pub(super) fn fill(trace: &Trace, machine: &[MachineCpu], calls: &mut Calls) {
    let empty = |machine_cpu: &MachineCpu| CpuInput {
        cpu: machine_cpu.cpu,
        spans: Vec::new(),
        cut: Default::default(),
    };
    let cpus = machine.iter().map(empty).collect();
    let mut recording = Recording { cpus, ..Recording::default() };
    for decision in &calls.decisions {
        recording.cpus[decision.slot].spans.push(Span::begun(decision.asked.idle_entry));
    }
    let capacity = |cpu| {
        let machine_cpu = machine.iter().find(|machine_cpu| machine_cpu.cpu == cpu);
        (machine_cpu.map_or(1024, |machine_cpu| machine_cpu.model.capacity), None)
    };
    let mut freq_max_khz = Vec::new();
    input::note_frequencies(&mut freq_max_khz, &trace.events, trace.meta.cpu_count);
    let index = CpuIndex::new(&recording, trace.meta.cpu_count);
    let mut tracker = Tracker::new(index, trace, &freq_max_khz, capacity);
    tracker.observe(&trace.events, &mut recording.cpus);
    tracker.finish(&mut recording.cpus);
    let mut next = vec![0; machine.len()];
    for decision in &mut calls.decisions {
        let span = &recording.cpus[decision.slot].spans[next[decision.slot]];
        next[decision.slot] += 1;
        decision.asked.util = decision.asked.probed_util.unwrap_or(u64::from(span.util));
    }
}
