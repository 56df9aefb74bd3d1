// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Flows through several tasks, from begin to end: a frame, a request.
//!
//! FIDELITY(sim-flow): a task ends the first one that it began itself, else the first of all.

use crate::workload::Flow;
use std::collections::VecDeque;
use torpor_machine::units::{Duration, Instant};
use torpor_result::LatencyHistogram;

/// Flows of a name: those under way, and what is counted of those that have ended.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct FlowTotals {
    /// Begin of flows under way, by group of tasks; unused once the run is over.
    #[serde(skip)]
    under_way: Vec<VecDeque<(u32, Instant)>>,
    /// The deadline is the one after a late flow.
    #[serde(skip)]
    is_after_late: bool,
    pub begun: u64,
    pub ended: u64,
    /// Flows that took longer than the deadline.
    pub late: u64,
    pub time: LatencyHistogram,
}

impl FlowTotals {
    pub(super) fn begin(&mut self, group: usize, task: u32, at: Instant) {
        if group >= self.under_way.len() {
            self.under_way.resize_with(group + 1, VecDeque::new);
        }
        self.under_way[group].push_back((task, at));
        self.begun += 1;
    }

    /// Takes what has been counted.
    pub(super) fn take(&mut self) -> FlowTotals {
        FlowTotals {
            begun: std::mem::take(&mut self.begun),
            ended: std::mem::take(&mut self.ended),
            late: std::mem::take(&mut self.late),
            time: std::mem::take(&mut self.time),
            ..FlowTotals::default()
        }
    }

    /// Adds another's counts.
    pub(super) fn add(&mut self, other: &FlowTotals) {
        self.begun += other.begun;
        self.ended += other.ended;
        self.late += other.late;
        self.time.add(&other.time);
    }

    /// Resets the counters.
    pub(super) fn start_over(&mut self) {
        self.begun = self.under_way.iter().map(|group| group.len() as u64).sum();
        (self.ended, self.late, self.time) = (0, 0, LatencyHistogram::default());
    }

    /// Ends a flow of the group and returns its length; none if none is in progress.
    pub(super) fn end(
        &mut self,
        group: usize,
        task: u32,
        now: Instant,
        flow: &Flow,
    ) -> Option<Duration> {
        let under_way = self.under_way.get_mut(group)?;
        let own = under_way.iter().position(|(by, _)| *by == task);
        let (_, begun) = under_way.remove(own.unwrap_or(0))?;
        let took = now.since(begun);
        self.ended += 1;
        let after_late = flow.deadline_after_late.filter(|_| self.is_after_late);
        if after_late.or(flow.deadline).is_some_and(|deadline| took > deadline) {
            self.late += 1;
            self.is_after_late = !self.is_after_late;
        }
        self.time.record(took);
        Some(took)
    }
}
