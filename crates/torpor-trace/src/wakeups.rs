// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The time and CPU of wake-ups.
//!
//! `sched_waking` has the time and the waker, but the CPU where the task ran last, as the kernel
//! selects a CPU later. `sched_wakeup` has the selected CPU; without it, the next switch to the
//! task shows the CPU.
//! FIDELITY(woken-by-switch): that is another CPU if an idle one pulled the waiting task.

use crate::model::{Event, EventKind, PrevState};
use rustc_hash::FxHashMap;
use torpor_machine::units::{CpuId, Instant};

/// A task that was woken, and the CPU that got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    pub pid: i32,
    /// Time of `sched_waking`, or of `sched_wakeup` if there is no `sched_waking`.
    pub at: Instant,
    /// CPU of the waker.
    pub waker: CpuId,
    /// CPU whose runqueue got the task.
    pub cpu: CpuId,
}

/// Pairs each `sched_waking` with the event that shows the woken CPU.
///
/// ```
/// use torpor_trace::{Event, EventKind, Wakeups};
/// use torpor_machine::units::{CpuId, Instant};
///
/// let event = |time, cpu, kind| Event { time: Instant(time), cpu: CpuId(cpu), kind };
/// let mut wakeups = Wakeups::default();
/// // Task 7 ran on CPU 1 last; it wakes on CPU 3.
/// let waking = EventKind::SchedWaking { pid: 7, target_cpu: CpuId(1) };
/// assert_eq!(wakeups.observe(&event(10, 0, waking)), None);
/// let wakeup = EventKind::SchedWakeup { pid: 7, target_cpu: CpuId(3) };
/// let woken = wakeups.observe(&event(12, 0, wakeup)).unwrap();
/// assert_eq!((woken.at, woken.waker, woken.cpu), (Instant(10), CpuId(0), CpuId(3)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Wakeups {
    /// Time and waker's CPU of each `sched_waking` whose target is unknown so far, by pid.
    pending: FxHashMap<i32, (Instant, CpuId)>,
}

impl Wakeups {
    /// Takes the next event, in order of time. Returns the wake-up whose CPU it shows.
    pub fn observe(&mut self, event: &Event) -> Option<Woken> {
        let (pid, cpu, waking) = match event.kind {
            EventKind::SchedWaking { pid, .. } => {
                self.pending.insert(pid, (event.time, event.cpu));
                return None;
            }
            EventKind::SchedWakeup { pid, target_cpu }
            | EventKind::SchedWakeupNew { pid, target_cpu } => {
                (pid, target_cpu, self.pending.remove(&pid))
            }
            EventKind::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
                // The task still ran when it was woken: no CPU was woken.
                if prev_state == PrevState::Runnable {
                    self.pending.remove(&prev_pid);
                }
                (next_pid, event.cpu, Some(self.pending.remove(&next_pid)?))
            }
            _ => return None,
        };
        let (at, waker) = waking.unwrap_or((event.time, event.cpu));
        Some(Woken { pid, at, waker, cpu })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAKER: CpuId = CpuId(0);

    fn event(time: i64, cpu: u32, kind: EventKind) -> Event {
        Event { time: Instant(time), cpu: CpuId(cpu), kind }
    }

    fn waking(time: i64, pid: i32) -> Event {
        event(time, WAKER.0, EventKind::SchedWaking { pid, target_cpu: CpuId(1) })
    }

    fn switch(time: i64, cpu: u32, prev_pid: i32, prev_state: PrevState, next_pid: i32) -> Event {
        let kind = EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm: None };
        event(time, cpu, kind)
    }

    fn found(events: &[Event]) -> Vec<Woken> {
        let mut wakeups = Wakeups::default();
        events.iter().filter_map(|event| wakeups.observe(event)).collect()
    }

    #[test]
    fn a_wakeup_names_the_cpu() {
        let wakeup = event(12, 3, EventKind::SchedWakeup { pid: 7, target_cpu: CpuId(3) });
        let run = switch(20, 3, 0, PrevState::Runnable, 7);
        let woken = Woken { pid: 7, at: Instant(10), waker: WAKER, cpu: CpuId(3) };
        assert_eq!(found(&[waking(10, 7), wakeup, run]), [woken]);
        // Without a `sched_waking`, the wakeup's own time and CPU count.
        let alone = Woken { at: Instant(12), waker: CpuId(3), ..woken };
        assert_eq!(found(&[wakeup, run]), [alone]);
    }

    #[test]
    fn a_switch_names_the_cpu_without_wakeups() {
        let other = switch(15, 2, 0, PrevState::Runnable, 8);
        let run = switch(20, 4, 0, PrevState::Runnable, 7);
        let woken = Woken { pid: 7, at: Instant(10), waker: WAKER, cpu: CpuId(4) };
        assert_eq!(found(&[waking(10, 7), other, run]), [woken]);
    }

    #[test]
    fn a_waking_alone_names_no_cpu() {
        assert_eq!(found(&[waking(10, 7)]), []);
    }

    #[test]
    fn waking_a_running_task_wakes_no_cpu() {
        let preempted = switch(15, 1, 7, PrevState::Runnable, 8);
        let back = switch(900, 5, 0, PrevState::Runnable, 7);
        assert_eq!(found(&[waking(10, 7), preempted, back]), []);
        // A task that went to sleep after its wake-up was woken on its way.
        let asleep = switch(15, 1, 7, PrevState::Sleeping, 8);
        assert_eq!(found(&[waking(10, 7), asleep, back]).len(), 1);
    }
}
