// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A recording as one timeline: the sleeps of each CPU, what ended them, and the tasks that ran.
//!
//! Everything that reads a recording (replay inputs, statistics, verification, workloads) is a
//! [`Fold`] over its [`Moment`]s: one for each event, with the [`Change`] that the event makes. One
//! pass feeds any number of folds, and holds one sleep and one task a CPU.
//!
//! ```
//! use torpor_engine::timeline::{Change, Run, Sleep, Timeline};
//! use torpor_machine::units::{CpuId, Instant, StateIdx};
//! use torpor_trace::{Event, EventKind, PrevState};
//!
//! let mut timeline = Timeline::default();
//! let mut change =
//!     |at, cpu, kind| timeline.observe(&Event { time: Instant(at), cpu: CpuId(cpu), kind });
//! // CPU 1 falls asleep, CPU 0 wakes task 7 for it, and CPU 1 wakes up and runs the task.
//! let entry = EventKind::CpuIdle { state: StateIdx(2) };
//! assert_eq!(change(10, 1, entry), Change::Slept { before: None, lost: None });
//! let waking = EventKind::SchedWaking { pid: 7, target_cpu: CpuId(1) };
//! assert_eq!(change(90, 0, waking), Change::None);
//! let exit = EventKind::CpuIdle { state: StateIdx::RUNNING };
//! assert_eq!(change(99, 1, exit), Change::Woke { is_known: true });
//! let (prev_pid, prev_state, next_comm) = (0, PrevState::Runnable, None);
//! let switch = EventKind::SchedSwitch { prev_pid, prev_state, next_pid: 7, next_comm };
//! // Now all is known about the sleep: only the switch shows which CPU the waking was for.
//! let sleep = Sleep {
//!     exit: Some(Instant(99)),
//!     woken: Some(Instant(90)),
//!     ran: Some(None),
//!     ..Sleep::begun(CpuId(1), StateIdx(2), Instant(10))
//! };
//! let idle = Run { pid: 0, comm: None, since: Instant(10) };
//! assert_eq!(
//!     change(101, 1, switch),
//!     Change::Switched { left: Some(idle), before: Some(sleep) }
//! );
//! ```
//!
//! Recordings lose events. A CPU that enters an idle state, or runs a task, has left the state
//! before, so a sleep without an exit ends there, with `exit` unknown. A CPU in an idle state runs
//! the idle task, whatever was switched to last. Events of one instant come in the order of CPUs,
//! which means nothing: what another CPU does at the instant of an exit counts as in the sleep.

use torpor_machine::units::{CpuId, Instant, StateIdx};
use torpor_trace::{
    Event, EventKind, InterruptCause, Name, Names, Sink, SoFar, Trace, Wakeups, Woken,
};

/// A sleep of a CPU, with what other CPUs did to end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    pub cpu: CpuId,
    pub state: StateIdx,
    pub entry: Instant,
    /// `None` while it lasts, and if the recording lacks its end.
    pub exit: Option<Instant>,
    /// Time of the first `sched_waking` on another CPU that gave this one a task.
    pub woken: Option<Instant>,
    /// Time and purpose of the first IPI from another CPU.
    pub sent: Option<(Instant, InterruptCause)>,
    /// Time of the first reschedule IPI from another CPU.
    pub resched_sent: Option<Instant>,
    /// The task that ran after it, and its name if known; `None` if the CPU slept again.
    pub ran: Option<Option<Name>>,
}

impl Sleep {
    pub fn begun(cpu: CpuId, state: StateIdx, entry: Instant) -> Sleep {
        let (exit, woken, sent, resched_sent, ran) = (None, None, None, None, None);
        Sleep { cpu, state, entry, exit, woken, sent, resched_sent, ran }
    }

    /// Returns true if the CPU was asleep at that time.
    pub fn covers(&self, time: Instant) -> bool {
        self.entry <= time && self.exit.is_none_or(|exit| time <= exit)
    }
}

/// A task on a CPU; the idle task has pid 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub pid: i32,
    pub comm: Option<Name>,
    pub since: Instant,
}

/// A turn of a CPU's timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    None,
    /// The CPU fell asleep. `before` is its last sleep if no task ran since then, `lost` a task
    /// from which the switch to the idle task is not recorded.
    Slept {
        before: Option<Sleep>,
        lost: Option<Run>,
    },
    /// The CPU left an idle state; the recording shows the entry if `is_known`.
    Woke {
        is_known: bool,
    },
    /// The CPU left a task (`None` is unknown) for another. `before` is the sleep that a task, not
    /// the idle task, has followed.
    Switched {
        left: Option<Run>,
        before: Option<Sleep>,
    },
}

impl Change {
    /// Returns the sleep about which nothing more will be shown.
    pub fn settled(&self) -> Option<&Sleep> {
        match self {
            Change::Slept { before, .. } | Change::Switched { before, .. } => before.as_ref(),
            Change::None | Change::Woke { .. } => None,
        }
    }
}

/// The CPUs at one moment of a recording.
#[derive(Default)]
pub struct Timeline {
    cpus: Vec<Cpu>,
    wakeups: Wakeups,
}

#[derive(Clone, Copy, Default)]
struct Cpu {
    sleep: Option<Sleep>,
    running: Option<Run>,
}

impl Timeline {
    /// Takes the next event, in order of time.
    #[inline]
    pub fn observe(&mut self, event: &Event) -> Change {
        if let Some(woken) = self.wakeups.observe(event) {
            self.wake(woken);
        }
        let Event { time, cpu, .. } = *event;
        match event.kind {
            EventKind::CpuIdle { state } if state == StateIdx::RUNNING => self.exit(cpu, time),
            EventKind::CpuIdle { state } => {
                let before = self.cpu(cpu).sleep.replace(Sleep::begun(cpu, state, time));
                Change::Slept { before, lost: self.idle(cpu, time) }
            }
            EventKind::SchedSwitch { next_pid, next_comm, .. } => {
                let here = self.cpu(cpu);
                let next = Run { pid: next_pid, comm: next_comm, since: time };
                let left = here.running.replace(next);
                let before = here.sleep.take_if(|_| next_pid != 0);
                let before = before.map(|sleep| Sleep { ran: Some(next_comm), ..sleep });
                Change::Switched { left, before }
            }
            EventKind::IpiSend { target_cpu, cause } => {
                if let Some(sleep) = self.called(cpu, target_cpu, time) {
                    sleep.sent.get_or_insert((time, cause));
                    if cause == InterruptCause::Reschedule {
                        sleep.resched_sent.get_or_insert(time);
                    }
                }
                Change::None
            }
            _ => Change::None,
        }
    }

    /// Returns the CPU's current sleep, or its last one if no task has run since then.
    #[inline]
    pub fn sleep(&self, cpu: CpuId) -> Option<&Sleep> {
        self.cpus.get(cpu.index())?.sleep.as_ref()
    }

    /// Returns the CPU's task, interrupted or not, if known.
    #[inline]
    pub fn running(&self, cpu: CpuId) -> Option<Run> {
        self.cpus.get(cpu.index())?.running
    }

    /// Returns the sleeps that are not settled, by CPU number.
    pub fn unsettled(&self) -> impl Iterator<Item = &Sleep> {
        self.cpus.iter().filter_map(|cpu| cpu.sleep.as_ref())
    }

    fn cpu(&mut self, cpu: CpuId) -> &mut Cpu {
        if cpu.index() >= self.cpus.len() {
            self.cpus.resize(cpu.index() + 1, Cpu::default());
        }
        &mut self.cpus[cpu.index()]
    }

    fn exit(&mut self, cpu: CpuId, time: Instant) -> Change {
        self.idle(cpu, time);
        let open = self.cpu(cpu).sleep.as_mut().filter(|sleep| sleep.exit.is_none());
        let is_known = open.is_some();
        if let Some(sleep) = open {
            sleep.exit = Some(time);
        }
        Change::Woke { is_known }
    }

    /// Notes that the CPU is in the idle task. Returns the task from which the switch was lost.
    fn idle(&mut self, cpu: CpuId, time: Instant) -> Option<Run> {
        let running = &mut self.cpu(cpu).running;
        if running.is_some_and(|run| run.pid == 0) {
            return None;
        }
        running.replace(Run { pid: 0, comm: None, since: time })
    }

    fn wake(&mut self, Woken { waker, cpu, at, .. }: Woken) {
        if let Some(sleep) = self.called(waker, cpu, at) {
            sleep.woken = Some(sleep.woken.map_or(at, |first| first.min(at)));
        }
    }

    /// Returns the sleep of a CPU that another one reaches at that time.
    fn called(&mut self, from: CpuId, target: CpuId, time: Instant) -> Option<&mut Sleep> {
        let target = self.cpus.get_mut(target.index()).filter(|_| from != target)?;
        target.sleep.as_mut().filter(|sleep| sleep.covers(time))
    }
}

/// An event on the timeline.
pub struct Moment<'a> {
    pub event: &'a Event,
    pub change: Change,
    /// The CPUs after the change.
    pub timeline: &'a Timeline,
    pub names: &'a Names,
}

/// Makes something of a recording's timeline.
pub trait Fold {
    /// Prepares for the next events. The first part is a recording's head, or all of it.
    fn part(&mut self, events: &[Event], so_far: &SoFar<'_>) {
        let _ = (events, so_far);
    }

    fn take(&mut self, moment: &Moment<'_>);

    /// Takes the recording's end.
    fn end(&mut self, timeline: &Timeline) {
        let _ = timeline;
    }

    /// Returns the memory that it holds, in bytes.
    fn held_bytes(&self) -> u64 {
        0
    }
}

impl<A: Fold, B: Fold> Fold for (A, B) {
    fn part(&mut self, events: &[Event], so_far: &SoFar<'_>) {
        self.0.part(events, so_far);
        self.1.part(events, so_far);
    }

    fn take(&mut self, moment: &Moment<'_>) {
        self.0.take(moment);
        self.1.take(moment);
    }

    fn end(&mut self, timeline: &Timeline) {
        self.0.end(timeline);
        self.1.end(timeline);
    }

    fn held_bytes(&self) -> u64 {
        self.0.held_bytes().saturating_add(self.1.held_bytes())
    }
}

/// A fold, or none.
impl<F: Fold> Fold for Option<F> {
    fn part(&mut self, events: &[Event], so_far: &SoFar<'_>) {
        self.iter_mut().for_each(|fold| fold.part(events, so_far));
    }

    fn take(&mut self, moment: &Moment<'_>) {
        if let Some(fold) = self {
            fold.take(moment);
        }
    }

    fn end(&mut self, timeline: &Timeline) {
        self.iter_mut().for_each(|fold| fold.end(timeline));
    }

    fn held_bytes(&self) -> u64 {
        self.as_ref().map_or(0, Fold::held_bytes)
    }
}

/// Folds a recording while it is read.
#[derive(Default)]
pub struct Folding<F> {
    pub timeline: Timeline,
    pub fold: F,
}

impl<F: Fold> Folding<F> {
    pub fn new(fold: F) -> Folding<F> {
        Folding { timeline: Timeline::default(), fold }
    }

    /// Folds a recording in memory.
    pub fn whole(trace: &Trace, fold: F) -> F {
        let mut folding = Folding::new(fold);
        folding.observe(&trace.events, &SoFar::whole(trace));
        folding.finish()
    }

    /// Takes the next events, in order of time.
    pub fn observe(&mut self, events: &[Event], so_far: &SoFar<'_>) {
        self.fold.part(events, so_far);
        for event in events {
            let change = self.timeline.observe(event);
            let (timeline, names) = (&self.timeline, so_far.names);
            self.fold.take(&Moment { event, change, timeline, names });
        }
    }

    /// Ends the recording.
    pub fn end(&mut self) {
        self.fold.end(&self.timeline);
    }

    pub fn finish(mut self) -> F {
        self.end();
        self.fold
    }
}

impl<F: Fold> Sink for Folding<F> {
    fn events(&mut self, events: Vec<Event>, so_far: &SoFar<'_>) {
        self.observe(&events, so_far);
    }

    fn held_bytes(&self) -> u64 {
        self.fold.held_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torpor_trace::PrevState;

    const IDLE: i32 = -1;

    fn event(at: i64, cpu: u32, kind: EventKind) -> Event {
        Event { time: Instant(at), cpu: CpuId(cpu), kind }
    }

    fn idle(at: i64, cpu: u32, state: i32) -> Event {
        event(at, cpu, EventKind::CpuIdle { state: StateIdx(state) })
    }

    fn switch(at: i64, cpu: u32, next_pid: i32) -> Event {
        let (prev_pid, prev_state, next_comm) = (0, PrevState::Sleeping, None);
        event(at, cpu, EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm })
    }

    fn sent(at: i64, from: u32, to: u32) -> Event {
        let (target_cpu, cause) = (CpuId(to), InterruptCause::Reschedule);
        event(at, from, EventKind::IpiSend { target_cpu, cause })
    }

    /// Returns the sleeps that these events settle.
    fn settled(events: &[Event]) -> Vec<Sleep> {
        let mut timeline = Timeline::default();
        events.iter().filter_map(|event| timeline.observe(event).settled().copied()).collect()
    }

    #[test]
    fn what_comes_next_ends_a_sleep() {
        let begun = |entry| Sleep::begun(CpuId(0), StateIdx(1), Instant(entry));
        let events = [idle(0, 0, 1), idle(10, 0, 1), switch(20, 0, 7), idle(30, 0, IDLE)];
        assert_eq!(settled(&events), [begun(0), Sleep { ran: Some(None), ..begun(10) }]);
        let events = [idle(0, 0, 1), idle(5, 0, IDLE), switch(6, 0, 0), idle(10, 0, 1)];
        assert_eq!(settled(&events), [Sleep { exit: Some(Instant(5)), ..begun(0) }]);
    }

    #[test]
    fn an_idle_entry_ends_a_run() {
        let mut timeline = Timeline::default();
        timeline.observe(&switch(6, 0, 7));
        let lost = Some(Run { pid: 7, comm: None, since: Instant(6) });
        let change = timeline.observe(&idle(9, 0, 1));
        assert_eq!(change, Change::Slept { before: None, lost });
    }

    #[test]
    fn an_instant_has_no_order_of_cpus() {
        for cpus in [[1, 2], [2, 1]] {
            let [own, other] = cpus;
            let mut events = vec![idle(50, own, IDLE), sent(50, other, own)];
            events.sort_by_key(|event| (event.time, event.cpu));
            events.insert(0, idle(0, own, 1));
            // Neither its own IPI nor a later one belongs to the sleep.
            events.extend([sent(50, own, own), sent(51, other, own), switch(60, own, 7)]);
            let [sleep] = settled(&events)[..] else { panic!("one sleep") };
            assert_eq!(sleep.sent, Some((Instant(50), InterruptCause::Reschedule)));
        }
    }

    #[test]
    fn an_idle_state_shows_the_idle_task() {
        let mut timeline = Timeline::default();
        assert_eq!(timeline.running(CpuId(0)), None);
        for event in [idle(5, 0, IDLE), switch(6, 0, 7), idle(9, 0, 1), idle(10, 0, IDLE)] {
            timeline.observe(&event);
        }
        let idle = Run { pid: 0, comm: None, since: Instant(9) };
        assert_eq!(timeline.running(CpuId(0)), Some(idle));
    }
}
