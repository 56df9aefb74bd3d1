// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Scheduler state when a CPU went idle: tasks waiting for IO, and runqueue length at the last
//! tick.
//!
//! FIDELITY(iowait): `sched_blocked_reason` shows, at the end of a sleep, whether it was a wait for
//! IO. Without these events, every uninterruptible sleep counts as one.

use super::{CpuIndex, CpuInput, Span, TickGrid};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use torpor_machine::units::{CpuId, Instant};
use torpor_trace::{Event, EventKind, PrevState, Trace, UNKNOWN_PID};

/// Sets each span's `nr_iowait` and `nr_running` while the events pass.
pub(super) struct Counter {
    index: CpuIndex,
    queues: Vec<Queue>,
    /// The CPU on whose runqueue a task is.
    at: FxHashMap<i32, usize>,
    waits: Waits,
    tick: Option<TickGrid>,
}

impl Counter {
    pub(super) fn new(index: CpuIndex, trace: &Trace, tick: Option<TickGrid>) -> Counter {
        let mut queues: Vec<Queue> = Vec::new();
        queues.resize_with(index.cpu_count(), Queue::default);
        Counter { index, queues, at: FxHashMap::default(), waits: Waits::new(trace), tick }
    }

    pub(super) fn observe(&mut self, events: &[Event], cpus: &mut [CpuInput]) {
        for event in events {
            let number = event.cpu.index();
            let Some(queue) = self.queues.get_mut(number) else { continue };
            if let (Some(cpu), Some(tick)) = (self.index.of(number), self.tick) {
                queue.pass(&mut cpus[cpu].spans, tick, |start| start < event.time);
            }
            self.queue(event);
            if let Some(wait) = self.waits.observe(event) {
                if let Some(cpu) = self.index.of(wait.cpu.index()) {
                    wait.apply(&mut cpus[cpu].spans);
                }
            }
        }
    }

    pub(super) fn finish(&mut self, cpus: &mut [CpuInput]) {
        for (number, queue) in self.queues.iter_mut().enumerate() {
            if let (Some(cpu), Some(tick)) = (self.index.of(number), self.tick) {
                queue.pass(&mut cpus[cpu].spans, tick, |_| true);
            }
        }
        for wait in self.waits.unfinished() {
            if let Some(cpu) = self.index.of(wait.cpu.index()) {
                wait.apply(&mut cpus[cpu].spans);
            }
        }
    }

    /// Returns the number of the CPU's spans that are complete but for waits.
    pub(super) fn passed(&self, number: usize) -> usize {
        if self.tick.is_none() { usize::MAX } else { self.queues[number].next_span }
    }

    /// Forgets the CPU's first `count` spans.
    pub(super) fn drop_spans(&mut self, number: usize, count: usize) {
        let queue = &mut self.queues[number];
        queue.next_span = queue.next_span.saturating_sub(count);
    }

    /// Counts the waits that began before `before` up to `now`, so that spans need not wait for
    /// their ends. A wait whose reason is not known yet does not count.
    pub(super) fn split_waits(&mut self, before: Instant, now: Instant, cpus: &mut [CpuInput]) {
        let reasons = self.waits.reasons;
        for wait in self.waits.by_pid.values_mut().filter(|wait| wait.from < before) {
            if let Some(cpu) = self.index.of(wait.cpu.index()).filter(|_| !reasons) {
                let passed = Wait { until: wait.until.min(now), ..*wait };
                passed.apply(&mut cpus[cpu].spans);
            }
            wait.from = now;
        }
    }

    /// Returns the begin of the CPU's first wait that has not ended.
    pub(super) fn waits_since(&self, cpu: CpuId) -> Instant {
        let waits = self.waits.by_pid.values().filter(|wait| wait.cpu == cpu);
        waits.map(|wait| wait.from).min().unwrap_or(Instant::NEVER)
    }

    /// Follows which task is on which runqueue.
    fn queue(&mut self, event: &Event) {
        let (number, time, tick) = (event.cpu.index(), event.time, self.tick);
        let queues = &mut self.queues;
        match event.kind {
            EventKind::SchedWakeup { pid, target_cpu }
            | EventKind::SchedWakeupNew { pid, target_cpu } => {
                let target = target_cpu.index();
                if target >= queues.len() {
                    return;
                }
                if let Entry::Vacant(entry) = self.at.entry(pid) {
                    entry.insert(target);
                    let queue = &mut queues[target];
                    queue.set(queue.now.saturating_add(1), time, tick);
                }
            }
            EventKind::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
                if prev_pid > 0 && prev_state != PrevState::Runnable {
                    self.at.remove(&prev_pid);
                    let queue = &mut queues[number];
                    queue.set(queue.now.saturating_sub(1), time, tick);
                }
                if next_pid == 0 || next_pid == UNKNOWN_PID {
                    // Tasks that were thought to be queued have moved elsewhere.
                    queues[number].set(u16::from(next_pid != 0), time, tick);
                    return;
                }
                match self.at.insert(next_pid, number) {
                    Some(from) if from == number && queues[number].now > 0 => {}
                    from => {
                        if let Some(from) = from.filter(|&from| from != number) {
                            let queue = &mut queues[from];
                            queue.set(queue.now.saturating_sub(1), time, tick);
                        }
                        let queue = &mut queues[number];
                        queue.set(queue.now.saturating_add(1), time, tick);
                    }
                }
            }
            _ => {}
        }
    }
}

/// An uninterruptible sleep. It counts on the CPU where it began until the task is woken.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) cpu: CpuId,
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

impl Wait {
    fn apply(self, spans: &mut [Span]) {
        let first = spans.partition_point(|s| s.start < self.from);
        for span in spans[first..].iter_mut().take_while(|s| s.start < self.until) {
            span.nr_iowait = span.nr_iowait.saturating_add(1);
        }
    }
}

/// Tasks on a CPU's runqueue, the running one included.
#[derive(Default)]
struct Queue {
    now: u16,
    /// At the last tick before the last change.
    at_tick: u16,
    changed: Option<Instant>,
    next_span: usize,
}

impl Queue {
    fn set(&mut self, count: u16, time: Instant, tick: Option<TickGrid>) {
        self.at_tick = self.last_tick(time, tick);
        self.now = count;
        self.changed = Some(time);
    }

    fn last_tick(&self, time: Instant, tick: Option<TickGrid>) -> u16 {
        let Some(tick) = tick else { return 0 };
        let is_since = self.changed.is_none_or(|changed| changed <= tick.floor(time));
        if is_since { self.now } else { self.at_tick }
    }

    /// Sets the spans that begin before the queue changes.
    #[inline(always)]
    fn pass(&mut self, spans: &mut [Span], tick: TickGrid, begun: impl Fn(Instant) -> bool) {
        while let Some(span) = spans.get_mut(self.next_span).filter(|s| begun(s.start)) {
            span.nr_running = self.last_tick(span.start, Some(tick));
            self.next_span += 1;
        }
    }
}

/// Tasks that wait for IO.
pub(crate) struct Waits {
    by_pid: FxHashMap<i32, Wait>,
    /// The recording has `sched_blocked_reason` events.
    reasons: bool,
}

impl Waits {
    pub(crate) fn new(trace: &Trace) -> Waits {
        let reasons = trace.event_counts.contains_key("sched_blocked_reason");
        Waits { by_pid: FxHashMap::default(), reasons }
    }

    /// Follows the tasks. Returns a wait for IO that has ended.
    #[inline]
    pub(crate) fn observe(&mut self, event: &Event) -> Option<Wait> {
        let time = event.time;
        match event.kind {
            EventKind::SchedWakeup { pid, .. }
            | EventKind::SchedWakeupNew { pid, .. }
            | EventKind::SchedWaking { pid, .. } => self.wake(pid, time),
            EventKind::BlockedReason { pid, io_wait } => {
                self.end(pid, time).filter(|_| io_wait && self.reasons)
            }
            EventKind::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
                if prev_state == PrevState::DiskSleep && prev_pid > 0 {
                    let wait = Wait { cpu: event.cpu, from: time, until: Instant::NEVER };
                    self.by_pid.insert(prev_pid, wait);
                }
                // Its wake-up was lost.
                self.end(next_pid, time).filter(|_| !self.reasons)
            }
            _ => None,
        }
    }

    /// Ends a task's wait; if the recording has reasons, the reason follows later.
    fn wake(&mut self, pid: i32, time: Instant) -> Option<Wait> {
        if !self.reasons {
            return self.end(pid, time);
        }
        let wait = self.by_pid.get_mut(&pid)?;
        wait.until = wait.until.min(time);
        None
    }

    #[inline]
    fn end(&mut self, pid: i32, time: Instant) -> Option<Wait> {
        // Usually no task waits, and every wake-up and switch checks this.
        if self.by_pid.is_empty() {
            return None;
        }
        let wait = self.by_pid.remove(&pid)?;
        Some(Wait { until: wait.until.min(time), ..wait })
    }

    /// Returns the waits that outlast the recording. If the recording has reasons and this wait has
    /// none, it does not count.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = Wait> {
        let reasons = self.reasons;
        self.by_pid.values().copied().filter(move |_| !reasons)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{Follower, Recording};
    use crate::testing::spans;
    use torpor_machine::units::{Duration, Hz};

    fn event(cpu: u32, at_us: i64, kind: EventKind) -> Event {
        Event { time: Instant(at_us * 1_000), cpu: CpuId(cpu), kind }
    }

    fn switch(cpu: u32, at_us: i64, prev_pid: i32, prev_state: PrevState, next_pid: i32) -> Event {
        event(
            cpu,
            at_us,
            EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm: None },
        )
    }

    fn wakeup(cpu: u32, at_us: i64, pid: i32, target: u32) -> Event {
        event(cpu, at_us, EventKind::SchedWakeup { pid, target_cpu: CpuId(target) })
    }

    fn waking(cpu: u32, at_us: i64, pid: i32, target: u32) -> Event {
        event(cpu, at_us, EventKind::SchedWaking { pid, target_cpu: CpuId(target) })
    }

    fn reason(at_us: i64, pid: i32, io_wait: bool) -> Event {
        event(1, at_us, EventKind::BlockedReason { pid, io_wait })
    }

    /// Returns (tasks waiting for IO, tasks running at the last tick) of CPU 0 at these times.
    fn counted(events: Vec<Event>, at_us: &[i64]) -> Vec<(u16, u16)> {
        let mut trace = Trace { events, ..Trace::default() };
        trace.meta.cpu_count = 2;
        let is_reason = |e: &&Event| matches!(e.kind, EventKind::BlockedReason { .. });
        let reasons = trace.events.iter().filter(is_reason).count() as u64;
        if reasons > 0 {
            trace.event_counts.insert("sched_blocked_reason".to_owned(), reasons);
        }
        let like = spans(&[(1, 1)])[0];
        let at = |us: &i64| Span { start: Instant(us * 1_000), ..like };
        let input = CpuInput {
            cpu: CpuId(0),
            spans: at_us.iter().map(at).collect(),
            cut: Default::default(),
        };
        let tick = Some(TickGrid::new(Hz::H1000, Duration::ZERO));
        let mut recording = Recording { cpus: vec![input], tick, ..Recording::default() };
        let mut follower = Follower::new(&mut recording, &trace, |_| (1024, None));
        follower.observe(&trace.events);
        follower.finish();
        recording.cpus[0].spans.iter().map(|s| (s.nr_iowait, s.nr_running)).collect()
    }

    #[test]
    fn uninterruptible_sleep_counts_on_its_first_cpu() {
        let events = vec![
            switch(0, 10, 0, PrevState::Runnable, 7),
            switch(0, 20, 7, PrevState::DiskSleep, 8),
            switch(0, 30, 8, PrevState::Sleeping, 0),
            waking(1, 50, 7, 0),
            switch(1, 60, 0, PrevState::Runnable, 7),
        ];
        let waits: Vec<u16> = counted(events, &[5, 30, 49, 50]).iter().map(|c| c.0).collect();
        assert_eq!(waits, [0, 1, 1, 0]);
    }

    #[test]
    fn recorded_wait_reason_decides_iowait() {
        let slept = |io_wait| {
            let events = vec![
                switch(0, 20, 7, PrevState::DiskSleep, 8),
                switch(0, 25, 8, PrevState::DiskSleep, 0),
                waking(1, 50, 7, 0),
                reason(51, 7, io_wait),
                // Task 8 never wakes, so its reason is not known.
            ];
            counted(events, &[30, 50])
        };
        assert_eq!(slept(true), [(1, 0), (0, 0)]);
        assert_eq!(slept(false), [(0, 0), (0, 0)]);
    }

    #[test]
    fn the_load_is_that_of_the_last_tick() {
        let events = vec![
            switch(0, 900, 0, PrevState::Runnable, 7),
            wakeup(0, 950, 8, 0),
            // The tick at 1000 us finds both; it is over when the CPU idles.
            switch(0, 1_100, 7, PrevState::Sleeping, 8),
            switch(0, 1_200, 8, PrevState::Sleeping, 0),
            // Task 9 moves away before it runs.
            wakeup(1, 1_900, 9, 0),
            switch(1, 1_950, 0, PrevState::Runnable, 9),
        ];
        let running: Vec<u16> =
            counted(events, &[800, 1_200, 1_300, 1_960, 2_100]).iter().map(|c| c.1).collect();
        assert_eq!(running, [0, 2, 2, 2, 0]);
    }
}
