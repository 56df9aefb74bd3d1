// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The utilization of every CPU of a recording, from its task switches.
//!
//! FIDELITY(pelt): a recording does not show how busy CPUs and tasks were before it began, so all
//! start at 0; the error halves every 33.6 ms. A task that runs without ever having been woken
//! counts as new and starts with half of what its CPU has left, the most that the kernel gives; the
//! kernel gives less if many tasks share the CPU. Without wake-up events no task is new. Real-time
//! and deadline tasks count as fair ones; interrupts do not. The kernel also updates at ticks and
//! wake-ups, and rounds each time. A task counts for another CPU from its first run there, not from
//! its wake-up or its balancing.

use super::{CpuIndex, CpuInput, Span};
use crate::pelt::{Runqueue, Scale, Task, decay};
use rustc_hash::FxHashMap;
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_trace::{Event, EventKind, PrevState, Trace, UNKNOWN_PID};

/// Interval at which the kernel renews the blocked utilization of idle CPUs.
/// FIDELITY(pelt): the kernel does it on any CPU that is awake; here each CPU does, from
/// its own last update.
const REFRESH: Duration = Duration(32_000_000);
const PERIOD_NS: i64 = 1 << 20;

/// Sets the utilization of each span while the events pass.
pub(crate) struct Tracker {
    index: CpuIndex,
    cpus: Vec<Cpu>,
    tasks: Tasks,
    /// The recording has wake-ups, so a task without one is new.
    wakings: bool,
}

impl Tracker {
    /// Starts at the trace's beginning. `machine` returns a CPU's capacity and, if known, its
    /// highest frequency; the default is that of `freq_max_khz`, by CPU number.
    pub(crate) fn new(
        index: CpuIndex,
        trace: &Trace,
        freq_max_khz: &[u32],
        machine: impl Fn(CpuId) -> (u32, Option<u32>),
    ) -> Tracker {
        let began_ns = trace.window.map_or(0, |(first, _)| first.0 as u64);
        let cpu = |number: usize| {
            let (capacity, known_max) = machine(CpuId(number as u32));
            let recorded_max = freq_max_khz.get(number).copied();
            Cpu {
                rq: Runqueue::new(began_ns, Scale { capacity, freq: 1024 }),
                freq_max_khz: known_max.or(recorded_max).unwrap_or(0),
                next_span: 0,
            }
        };
        let cpus = (0..index.cpu_count()).map(cpu).collect();
        Tracker { index, cpus, tasks: Tasks::default(), wakings: trace.carries.wakings }
    }

    pub(crate) fn observe(&mut self, events: &[Event], inputs: &mut [CpuInput]) {
        for event in events {
            let number = event.cpu.index();
            let Some(cpu) = self.cpus.get_mut(number) else { continue };
            if let Some(input) = self.index.of(number) {
                cpu.pass(&mut inputs[input].spans, |start| start < event.time);
            }
            observe(event, &mut self.cpus, &mut self.tasks, self.wakings);
        }
    }

    /// Returns the number of the CPU's spans that are complete.
    pub(crate) fn passed(&self, number: usize) -> usize {
        self.cpus[number].next_span
    }

    /// Forgets the CPU's first `count` spans.
    pub(crate) fn drop_spans(&mut self, number: usize, count: usize) {
        self.cpus[number].next_span -= count;
    }

    pub(crate) fn finish(&mut self, inputs: &mut [CpuInput]) {
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            if let Some(input) = self.index.of(number) {
                cpu.pass(&mut inputs[input].spans, |_| true);
            }
        }
    }
}

/// Raises each CPU's highest frequency, by CPU number, to the highest one recorded.
pub(crate) fn note_frequencies(freq_max_khz: &mut Vec<u32>, events: &[Event], cpu_count: u32) {
    let cpu_count = freq_max_khz.len().max(cpu_count as usize);
    freq_max_khz.resize(cpu_count, 0);
    for event in events {
        if let EventKind::CpuFrequency { freq_khz } = event.kind {
            if let Some(max) = freq_max_khz.get_mut(event.cpu.index()) {
                *max = freq_khz.max(*max);
            }
        }
    }
}

/// Returns the utilization of a span after `idled`.
#[inline]
pub(crate) fn after_idling(util: u16, idled: Duration) -> u64 {
    if idled < REFRESH { u64::from(util) } else { refreshed(util, idled) }
}

#[cold]
fn refreshed(util: u16, idled: Duration) -> u64 {
    let refreshed_ns = idled.0 - idled.0 % REFRESH.0;
    decay(u64::from(util), (refreshed_ns / PERIOD_NS) as u64)
}

struct Cpu {
    rq: Runqueue,
    freq_max_khz: u32,
    next_span: usize,
}

impl Cpu {
    /// Sets the spans that begin before the runqueue changes.
    #[inline(always)]
    fn pass(&mut self, spans: &mut [Span], begun: impl Fn(Instant) -> bool) {
        while let Some(span) = spans.get_mut(self.next_span).filter(|s| begun(s.start)) {
            let now_ns = span.start.0 as u64;
            if self.rq.since_update_ns(now_ns) >= REFRESH.0 as u64 {
                self.rq.update(now_ns);
            }
            span.util = self.rq.util();
            self.next_span += 1;
        }
    }
}

type Tasks = FxHashMap<i32, Task>;

/// Follows one event; see [`Tracker`] for `wakings`.
fn observe(event: &Event, cpus: &mut [Cpu], tasks: &mut Tasks, wakings: bool) {
    let (number, now_ns) = (event.cpu.index(), event.time.0 as u64);
    match event.kind {
        EventKind::CpuFrequency { freq_khz } => {
            let cpu = &mut cpus[number];
            let freq = (u64::from(freq_khz) << 10) / u64::from(cpu.freq_max_khz.max(1));
            cpu.rq.set_freq(now_ns, freq.min(1024) as u32);
        }
        // A sleeping task's average is on the CPU where it ran last.
        EventKind::SchedWaking { pid, target_cpu } | EventKind::SchedWakeup { pid, target_cpu } => {
            if let Some(cpu) = cpus.get(target_cpu.index()) {
                tasks.entry(pid).or_insert_with(|| Task::new(target_cpu.index(), &cpu.rq));
            }
        }
        EventKind::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
            // A task without a recorded start has been running since the beginning.
            cpus[number].rq.switch(prev_pid != 0);
            cpus[number].rq.update(now_ns);
            if prev_pid != 0 && prev_pid != UNKNOWN_PID {
                let rq = &cpus[number].rq;
                let task = tasks.entry(prev_pid).or_insert_with(|| Task::new(number, rq));
                task.update(rq, true);
                task.is_runnable = prev_state == PrevState::Runnable;
                if prev_state == PrevState::Dead {
                    if let Some(task) = tasks.remove(&prev_pid) {
                        task.exit(&mut cpus[number].rq);
                    }
                }
            }
            if next_pid != 0 && next_pid != UNKNOWN_PID {
                start(next_pid, number, now_ns, cpus, tasks, wakings);
            }
            cpus[number].rq.switch(next_pid != 0);
        }
        _ => {}
    }
}

fn start(pid: i32, number: usize, now_ns: u64, cpus: &mut [Cpu], tasks: &mut Tasks, wakings: bool) {
    let rq = &mut cpus[number].rq;
    let task = tasks.entry(pid).or_insert_with(|| match wakings {
        true => Task::forked(number, rq),
        false => Task::new(number, rq),
    });
    if task.cpu == number {
        task.update(&cpus[number].rq, false);
    } else {
        task.detach(&mut cpus[task.cpu].rq, now_ns);
        task.attach(&mut cpus[number].rq, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{CpuInput, Follower, Recording};
    use crate::testing::spans;

    const MS: i64 = 1_000_000;

    fn switch(cpu: u32, at_ms: i64, prev_pid: i32, next_pid: i32) -> Event {
        leave(cpu, at_ms, prev_pid, PrevState::Sleeping, next_pid)
    }

    fn leave(cpu: u32, at_ms: i64, prev_pid: i32, prev_state: PrevState, next_pid: i32) -> Event {
        let kind = EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm: None };
        Event { time: Instant(at_ms * MS), cpu: CpuId(cpu), kind }
    }

    /// Returns the utilization of each CPU at the given times.
    fn tracked(events: Vec<Event>, capacity: u32, read: &[(u32, i64)]) -> Vec<u16> {
        tracked_in(Trace { events, ..Trace::default() }, capacity, read)
    }

    fn tracked_in(mut trace: Trace, capacity: u32, read: &[(u32, i64)]) -> Vec<u16> {
        trace.meta.cpu_count = 2;
        let input = |cpu| CpuInput {
            cpu: CpuId(cpu),
            spans: read
                .iter()
                .filter(|(c, _)| *c == cpu)
                .map(|(_, at_ms)| Span { start: Instant(at_ms * MS), ..spans(&[(1, 1)])[0] })
                .collect(),
            cut: Default::default(),
        };
        let cpus = vec![input(0), input(1)];
        trace.window = trace.events.first().zip(trace.events.last()).map(|(a, b)| (a.time, b.time));
        let mut recording = Recording { cpus, ..Recording::default() };
        note_frequencies(&mut recording.freq_max_khz, &trace.events, 2);
        let mut follower = Follower::new(&mut recording, &trace, |_| (capacity, None));
        follower.observe(&trace.events);
        follower.finish();
        let all = recording.cpus.iter().flat_map(|c| &c.spans);
        all.map(|s| s.util).collect()
    }

    #[test]
    fn half_life_of_work_gives_half_utilization() {
        // 34 ms are 32.4 periods: 1024 * (1 - 2^(-32.4/32)) = 516. The average is that of the
        // 32 full ones, 512 and what rounding takes.
        let events = vec![switch(0, 10, 0, 7), switch(0, 44, 7, 0)];
        let util = tracked(events, 1024, &[(0, 5), (0, 44), (0, 50), (0, 76), (0, 5_000)]);
        assert_eq!(util[0], 0);
        assert!((505..520).contains(&util[1]), "{util:?}");
        assert_eq!(util[2], util[1], "not renewed yet");
        // 32 ms on, 30.5 periods: 2^(-30.5/32) = 0.516 is left.
        assert!((255..270).contains(&util[3]), "{util:?}");
        assert_eq!(util[4], 0);
    }

    #[test]
    fn task_running_at_the_start_ran_all_along() {
        let events = vec![switch(1, 0, 0, 0), switch(0, 100, 7, 0)];
        let util = tracked(events, 1024, &[(0, 100)]);
        // 95 full periods: 1024 * (1 - 2^(-95/32)) = 893.
        assert!((885..900).contains(&util[0]), "{util:?}");
    }

    #[test]
    fn utilization_follows_a_task_to_its_cpu() {
        let events = vec![
            switch(0, 0, 0, 7),
            switch(0, 100, 7, 0),
            switch(1, 100, 0, 7),
            switch(1, 101, 7, 0),
            // Makes CPU 0 update, without its former task's share.
            switch(0, 102, 0, 8),
            switch(0, 103, 8, 0),
        ];
        let util = tracked(events, 1024, &[(0, 100), (0, 103), (1, 101)]);
        assert!(util[0] > 880 && util[1] < 30 && util[2] > 880, "{util:?}");
    }

    #[test]
    fn exit_removes_utilization_at_the_next_update() {
        let last = |prev_state| {
            let end = leave(0, 100, 7, prev_state, 0);
            let events = vec![switch(0, 0, 0, 7), end, switch(0, 101, 0, 8), switch(0, 102, 8, 0)];
            tracked(events, 1024, &[(0, 100), (0, 102)])
        };
        let (dead, asleep) = (last(PrevState::Dead), last(PrevState::Sleeping));
        assert_eq!(dead[0], asleep[0], "not before something updates the runqueue");
        assert!(dead[1] < 30 && asleep[1] > 850, "{dead:?} {asleep:?}");
    }

    #[test]
    fn new_task_gets_half_the_spare_capacity() {
        let waking = |pid| Event {
            time: Instant(0),
            cpu: CpuId(0),
            kind: EventKind::SchedWaking { pid, target_cpu: CpuId(0) },
        };
        let events = |pid| vec![waking(7), switch(0, 1, 0, pid), switch(0, 2, pid, 0)];
        let mut old_and_new = Vec::new();
        for pid in [7, 8] {
            let mut trace = Trace { events: events(pid), ..Trace::default() };
            trace.carries.wakings = true;
            old_and_new.push(tracked_in(trace, 1024, &[(0, 2)])[0]);
        }
        // A millisecond of work on top of 0, and of 512.
        assert!(old_and_new[0] < 30 && (512..530).contains(&old_and_new[1]), "{old_and_new:?}");
    }

    #[test]
    fn half_the_frequency_does_half_the_work() {
        let freq = |at_ms, freq_khz| Event {
            time: Instant(at_ms * MS),
            cpu: CpuId(0),
            kind: EventKind::CpuFrequency { freq_khz },
        };
        // Busy for 5 of 10 ms, at 1 GHz; only the last event shows 2 GHz.
        let mut events = vec![freq(0, 1_000_000)];
        for n in 0..100 {
            events.extend([switch(0, 10 * n, 0, 7), switch(0, 10 * n + 5, 7, 0)]);
        }
        events.push(freq(1_000, 2_000_000));
        let at = (0, 995);
        let half = tracked(events.clone(), 1024, &[at])[0];
        // A quarter of full speed, and slightly more as it has just run.
        assert!((255..310).contains(&half), "{half}");
        let little = tracked(events, 512, &[at])[0];
        assert!((120..160).contains(&little), "{little}");
    }

    #[test]
    fn utilization_wanes_while_a_span_lasts() {
        let left = |ms: i64| after_idling(512, Duration(ms * MS));
        assert_eq!((left(0), left(31)), (512, 512));
        // 30 whole periods of 1.05 ms, then 61: 512 * 2^(-30/32), 512 * 2^(-61/32).
        assert_eq!((left(32), left(63), left(64)), (267, 267, 136));
        assert_eq!(left(3_000), 0);
    }
}
