// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Recorded sleeps, with what decides whether they would have ended so under another governor.

use super::CutSleeps;
use super::infer::InferredTimers;
use super::tick::TickFunction;
use super::timers::{Expiry, TimerTracker};
use crate::timeline::{Change, Fold, Moment, Sleep, Timeline};
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_trace::{Carries, Event, EventKind, InterruptCause, PrevState, SoFar};

/// One recorded sleep, with the events up to the next entry or task.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub sleep: Sleep,
    /// The exit, or the time by which the CPU had left the state if the recording lacks that.
    pub exit: Instant,
    pub seen: Seen,
}

/// Events of a CPU's own that belong to a sleep.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// An interrupt on this CPU woke a task, onto any CPU.
    pub local_waking: bool,
    pub first_interrupt: Option<Instant>,
    /// The first reschedule interrupt.
    pub resched: Option<Instant>,
    pub tick_expired: bool,
    /// Expiry time of the first timer, other than the tick, that fired.
    pub timer_expired: Option<Instant>,
    pub device_interrupt: bool,
    pub ipi: bool,
    pub next_hrtimer: Instant,
    pub next_wheel: Instant,
    pub freq_khz: u32,
    pub rcu_holds_tick: bool,
}

/// The RCU softirq's number (include/linux/interrupt.h).
pub(crate) const RCU_SOFTIRQ: u32 = 9;
/// RCU is assumed to need the CPU this long after raising its softirq, unless the tick is stopped
/// earlier. In probed guest recordings the window agreed with `rcu_needs_cpu()` in 99.3 % of 9,738
/// queries. FIDELITY(rcu-tick): a proxy for kernel state that no tracepoint shows.
pub(crate) const RCU_HOLD: Duration = Duration(12_500_000);

#[derive(Default)]
struct CpuState {
    /// What belongs to the sleep that is not settled.
    seen: Option<Seen>,
    segments: Vec<Segment>,
    /// The recording has shown a sleep of this CPU, whole or not.
    has_slept: bool,
    cut: CutSleeps,
    freq_khz: u32,
    rcu_raised: Option<Instant>,
}

/// Collects sleeps with their evidence, by CPU.
pub(super) struct Collector {
    timers: TimerTracker,
    /// Only for recordings without timer events.
    inferred: Option<InferredTimers>,
    cpus: Vec<CpuState>,
    pub unclosed_entries: u64,
    /// Sleeps that began before the recording or outlast it, or that lack one end.
    pub cut_sleeps: u64,
}

impl Collector {
    /// Starts from `head`, the recording's first events or all of them, which shows what was there
    /// before the recording began.
    pub(super) fn new(head: &[Event], carries: Carries, tick: Option<&TickFunction>) -> Collector {
        Collector {
            timers: TimerTracker::new(head, tick),
            inferred: (!carries.hrtimers).then(InferredTimers::default),
            cpus: Vec::new(),
            unclosed_entries: 0,
            cut_sleeps: 0,
        }
    }

    /// Returns the exits of complete sleeps that no task ended or followed.
    pub(super) fn taskless_exits(&self) -> impl Iterator<Item = Instant> {
        let done = self.cpus.iter().flat_map(|state| &state.segments);
        done.filter(|s| s.sleep.ran.is_none() && s.remote_waking().is_none()).map(|s| s.exit)
    }

    /// Takes the complete sleeps out, with their CPU numbers.
    pub(super) fn take_done(&mut self) -> impl Iterator<Item = (usize, Segment)> {
        let cpus = self.cpus.iter_mut().enumerate();
        cpus.flat_map(|(cpu, state)| state.segments.drain(..).map(move |segment| (cpu, segment)))
    }

    /// Returns the sleeps at the recording's edges, by CPU number.
    pub(super) fn cut(&self, cpu: usize) -> CutSleeps {
        self.cpus[cpu].cut
    }

    pub(super) fn inferred_mut(&mut self) -> Option<&mut InferredTimers> {
        self.inferred.as_mut()
    }

    /// Returns the timers inferred from the tasks that they woke.
    pub(super) fn inferred(&self) -> Option<&InferredTimers> {
        self.inferred.as_ref()
    }

    fn settle(&mut self, sleep: &Sleep, left: Instant) {
        let Some(here) = self.cpus.get_mut(sleep.cpu.index()) else { return };
        let Some(seen) = here.seen.take() else { return };
        self.unclosed_entries += u64::from(sleep.exit.is_none());
        let exit = sleep.exit.unwrap_or(left);
        here.segments.push(Segment { sleep: *sleep, exit, seen });
    }

    fn fall_asleep(&mut self, cpu: CpuId, time: Instant) {
        let here = &mut self.cpus[cpu.index()];
        here.has_slept = true;
        let rcu_holds_tick = here.rcu_raised.is_some_and(|raised| time.since(raised) < RCU_HOLD);
        here.seen = Some(Seen {
            local_waking: false,
            first_interrupt: None,
            resched: None,
            tick_expired: false,
            timer_expired: None,
            device_interrupt: false,
            ipi: false,
            next_hrtimer: self.timers.next_hrtimer(cpu, time),
            next_wheel: self.timers.next_wheel(cpu, time),
            freq_khz: here.freq_khz,
            rcu_holds_tick,
        });
    }

    /// Notes the end of a sleep that began before the recording did, or whose entry was lost.
    fn wake_unseen(&mut self, cpu: CpuId, time: Instant) {
        self.cut_sleeps += 1;
        let here = &mut self.cpus[cpu.index()];
        if !std::mem::replace(&mut here.has_slept, true) {
            here.cut.until = Some(time);
        }
    }

    /// Notes an event of a CPU that sleeps or has just woken up.
    fn note(&mut self, event: &Event, timeline: &Timeline) {
        let Event { time, cpu, .. } = *event;
        let here = &mut self.cpus[cpu.index()];
        match event.kind {
            EventKind::CpuFrequency { freq_khz } => here.freq_khz = freq_khz,
            // An exited task never wakes again, and a recording has any number of them.
            EventKind::SchedSwitch { prev_pid, prev_state, .. }
                if prev_pid != 0 && prev_state != PrevState::Dead =>
            {
                if let Some(inferred) = &mut self.inferred {
                    inferred.switched_out(prev_pid, time);
                }
            }
            EventKind::SchedWaking { pid, target_cpu } => {
                // While no task runs, an interrupt did the waking. A task's timer is armed where
                // the task ran last.
                let is_interrupt = timeline.running(cpu).is_none_or(|run| run.pid == 0);
                if let Some(inferred) = &mut self.inferred {
                    let is_timer = is_interrupt && target_cpu == cpu;
                    inferred.woken(pid, is_timer.then_some(cpu), time);
                }
                if let Some(seen) = here.seen.as_mut().filter(|_| is_interrupt) {
                    seen.local_waking = true;
                }
            }
            EventKind::IrqEntry { .. } => {
                if let Some(seen) = &mut here.seen {
                    seen.device_interrupt = true;
                    seen.first_interrupt.get_or_insert(time);
                }
            }
            EventKind::InterruptEntry { cause } => {
                if let Some(seen) = &mut here.seen {
                    seen.interrupt(cause, time);
                }
            }
            EventKind::SoftirqRaise { vec: RCU_SOFTIRQ } => here.rcu_raised = Some(time),
            // RCU would have kept it.
            EventKind::TickStop { success: true } => here.rcu_raised = None,
            _ => {}
        }
    }
}

impl Fold for Collector {
    fn part(&mut self, _: &[Event], so_far: &SoFar<'_>) {
        let cpu_count = self.cpus.len().max(so_far.cpu_count as usize);
        self.cpus.resize_with(cpu_count, CpuState::default);
    }

    fn take(&mut self, moment: &Moment<'_>) {
        let Event { time, cpu, .. } = *moment.event;
        let expiry = self.timers.observe(moment.event);
        if cpu.index() >= self.cpus.len() {
            return;
        }
        if let Some(sleep) = moment.change.settled() {
            self.settle(sleep, time);
        }
        match moment.change {
            Change::Slept { .. } => self.fall_asleep(cpu, time),
            Change::Woke { is_known: false } => self.wake_unseen(cpu, time),
            _ => self.note(moment.event, moment.timeline),
        }
        if let (Some(expiry), Some(seen)) = (expiry, &mut self.cpus[cpu.index()].seen) {
            seen.expire(expiry, time);
        }
    }

    /// Completes the last sleeps.
    fn end(&mut self, timeline: &Timeline) {
        for sleep in timeline.unsettled() {
            if sleep.exit.is_some() {
                self.settle(sleep, sleep.entry);
            } else if let Some(here) = self.cpus.get_mut(sleep.cpu.index()) {
                here.cut.from = Some(sleep.entry);
                self.cut_sleeps += 1;
            }
        }
    }
}

impl Segment {
    /// Returns the time of the first task that another CPU woke onto this one, or of the first IPI
    /// that it sent.
    pub(super) fn remote_waking(&self) -> Option<Instant> {
        let Sleep { woken, sent, .. } = self.sleep;
        woken.into_iter().chain(sent.map(|(at, _)| at)).min()
    }

    /// Returns the time of the first task that another CPU woke onto this one, or of the first
    /// reschedule interrupt.
    pub(super) fn resched(&self) -> Option<Instant> {
        let Sleep { woken, resched_sent, .. } = self.sleep;
        woken.into_iter().chain(resched_sent).chain(self.seen.resched).min()
    }

    /// Returns true if there was a reschedule interrupt.
    pub(super) fn has_resched_ipi(&self) -> bool {
        self.sleep.resched_sent.is_some() || self.seen.resched.is_some()
    }
}

impl Seen {
    fn interrupt(&mut self, cause: InterruptCause, time: Instant) {
        self.first_interrupt.get_or_insert(time);
        match cause {
            InterruptCause::LocalTimer => {}
            InterruptCause::Other => self.device_interrupt = true,
            _ => self.ipi = true,
        }
        if cause == InterruptCause::Reschedule {
            self.resched.get_or_insert(time);
        }
    }

    fn expire(&mut self, expiry: Expiry, time: Instant) {
        match expiry {
            Expiry::Tick => self.tick_expired = true,
            Expiry::Timer { expires } => {
                self.timer_expired.get_or_insert(expires);
            }
            Expiry::Deferred => {}
        }
        self.first_interrupt.get_or_insert(time);
    }
}
