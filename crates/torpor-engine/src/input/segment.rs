// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Recorded sleeps, with everything that the recording shows about each.

use super::CutSleeps;
use super::infer::InferredTimers;
use super::tick::TickFunction;
use super::timers::{Expiry, TimerTracker};
use torpor_machine::units::{Duration, Instant, StateIdx};
use torpor_trace::{Carries, Event, EventKind, InterruptCause, PrevState, Wakeups, Woken};

/// One recorded sleep, from `cpu_idle` entry to exit, with the events up to the next entry.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub enter: Instant,
    pub exit: Instant,
    pub state: StateIdx,
    /// Time of the first task that another CPU woke onto this one, or of the first IPI that it
    /// sent.
    pub remote_waking: Option<Instant>,
    /// An interrupt on this CPU woke a task, onto any CPU.
    pub local_waking: bool,
    /// Time of the first task that another CPU woke onto this one, or of the first reschedule
    /// interrupt.
    pub resched: Option<Instant>,
    /// There was a reschedule interrupt.
    pub resched_ipi: bool,
    pub first_interrupt: Option<Instant>,
    pub tick_expired: bool,
    /// Expiry time of the first timer, other than the tick, that fired.
    pub timer_expired: Option<Instant>,
    pub device_interrupt: bool,
    pub ipi: bool,
    /// A task ran before the next idle entry.
    pub switched: bool,
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
    open: Option<Segment>,
    /// The segment that has ended and whose following events are being collected.
    closing: Option<Segment>,
    segments: Vec<Segment>,
    /// The recording has shown a sleep of this CPU, whole or not.
    has_slept: bool,
    cut: CutSleeps,
    freq_khz: u32,
    rcu_raised: Option<Instant>,
    /// The task on the CPU; the idle task until another is seen.
    running_pid: i32,
}

/// Divides events into sleeps, by CPU.
pub(super) struct Collector {
    timers: TimerTracker,
    /// Only for recordings without timer events.
    inferred: Option<InferredTimers>,
    wakeups: Wakeups,
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
            wakeups: Wakeups::default(),
            cpus: Vec::new(),
            unclosed_entries: 0,
            cut_sleeps: 0,
        }
    }

    /// Takes the next events, of `cpu_count` CPUs.
    pub(super) fn observe(&mut self, events: &[Event], cpu_count: u32) {
        let cpu_count = self.cpus.len().max(cpu_count as usize);
        self.cpus.resize_with(cpu_count, CpuState::default);
        for event in events {
            let expiry = self.timers.observe(event);
            if let Some(woken) = self.wakeups.observe(event) {
                self.wake(woken);
            }
            if event.cpu.index() >= cpu_count {
                continue;
            }
            match event.kind {
                EventKind::CpuIdle { state } if state == StateIdx::RUNNING => self.wake_up(event),
                EventKind::CpuIdle { state } => self.fall_asleep(event, state),
                _ => self.note(event),
            }
            if let Some(expiry) = expiry {
                if let Some(segment) = self.cpus[event.cpu.index()].current() {
                    segment.expire(expiry, event.time);
                }
            }
        }
    }

    /// Completes the last sleeps at the end of the recording.
    pub(super) fn finish(&mut self) {
        for state in &mut self.cpus {
            state.segments.extend(state.closing.take());
            state.cut.from = state.open.take().map(|segment| segment.enter);
            self.cut_sleeps += u64::from(state.cut.from.is_some());
        }
    }

    /// Returns the sleeps at the recording's edges, by CPU number.
    pub(super) fn cut(&self, cpu: usize) -> CutSleeps {
        self.cpus[cpu].cut
    }

    /// Returns the exits of complete sleeps that no task ended or followed.
    pub(super) fn taskless_exits(&self) -> impl Iterator<Item = Instant> {
        let done = self.cpus.iter().flat_map(|state| &state.segments);
        done.filter(|s| !s.switched && s.remote_waking.is_none()).map(|s| s.exit)
    }

    /// Takes the complete sleeps out, with their CPU numbers.
    pub(super) fn take_done(&mut self) -> impl Iterator<Item = (usize, Segment)> {
        let cpus = self.cpus.iter_mut().enumerate();
        cpus.flat_map(|(cpu, state)| state.segments.drain(..).map(move |segment| (cpu, segment)))
    }

    /// Returns the beginning of the CPU's last sleep, if that is not complete.
    pub(super) fn last_enter(&self, cpu: usize) -> Option<Instant> {
        let state = self.cpus.get(cpu)?;
        state.open.as_ref().or(state.closing.as_ref()).map(|segment| segment.enter)
    }

    pub(super) fn inferred_mut(&mut self) -> Option<&mut InferredTimers> {
        self.inferred.as_mut()
    }

    /// Returns the timers inferred from the tasks that they woke.
    pub(super) fn inferred(&self) -> Option<&InferredTimers> {
        self.inferred.as_ref()
    }

    fn wake_up(&mut self, event: &Event) {
        let here = &mut self.cpus[event.cpu.index()];
        match here.open.take() {
            Some(mut segment) => {
                segment.exit = event.time;
                here.closing = Some(segment);
            }
            // The sleep began before the recording did, or its entry was lost.
            None => {
                self.cut_sleeps += 1;
                if !here.has_slept {
                    here.cut.until = Some(event.time);
                }
            }
        }
        here.has_slept = true;
    }

    fn fall_asleep(&mut self, event: &Event, state: StateIdx) {
        let (time, cpu) = (event.time, event.cpu);
        let here = &mut self.cpus[cpu.index()];
        if let Some(mut lost) = here.open.take() {
            self.unclosed_entries += 1;
            lost.exit = time;
            here.closing = Some(lost);
        }
        here.segments.extend(here.closing.take());
        here.has_slept = true;
        let rcu_holds_tick = here.rcu_raised.is_some_and(|raised| time.since(raised) < RCU_HOLD);
        here.open = Some(Segment {
            enter: time,
            exit: time,
            state,
            remote_waking: None,
            local_waking: false,
            resched: None,
            resched_ipi: false,
            first_interrupt: None,
            tick_expired: false,
            timer_expired: None,
            device_interrupt: false,
            ipi: false,
            switched: false,
            next_hrtimer: self.timers.next_hrtimer(cpu, time),
            next_wheel: self.timers.next_wheel(cpu, time),
            freq_khz: here.freq_khz,
            rcu_holds_tick,
        });
    }

    /// Notes that another CPU woke a task onto a sleeping CPU.
    fn wake(&mut self, woken: Woken) {
        if woken.waker == woken.cpu {
            return;
        }
        let target = self.cpus.get_mut(woken.cpu.index());
        if let Some(segment) = target.and_then(|target| target.asleep_at(woken.at)) {
            advance(&mut segment.remote_waking, woken.at);
            advance(&mut segment.resched, woken.at);
        }
    }

    /// Notes an event of a CPU that sleeps or has just woken up.
    fn note(&mut self, event: &Event) {
        let (time, cpu) = (event.time, event.cpu);
        let here = &mut self.cpus[cpu.index()];
        match event.kind {
            EventKind::CpuFrequency { freq_khz } => here.freq_khz = freq_khz,
            EventKind::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
                here.running_pid = next_pid;
                // An exited task never wakes again, and a recording has any number of them.
                if prev_pid != 0 && prev_state != PrevState::Dead {
                    if let Some(inferred) = &mut self.inferred {
                        inferred.switched_out(prev_pid, time);
                    }
                }
                if next_pid != 0 {
                    if let Some(segment) = &mut here.closing {
                        segment.switched = true;
                    }
                }
            }
            EventKind::SchedWaking { pid, target_cpu } => {
                // While no task runs, an interrupt did the waking. A task's timer is armed where
                // the task ran last.
                let is_interrupt = here.running_pid == 0;
                if let Some(inferred) = &mut self.inferred {
                    let is_timer = is_interrupt && target_cpu == cpu;
                    inferred.woken(pid, is_timer.then_some(cpu), time);
                }
                if let Some(segment) = here.current().filter(|_| is_interrupt) {
                    segment.local_waking = true;
                }
            }
            EventKind::IpiSend { target_cpu, cause } if target_cpu != cpu => {
                let asleep = self.cpus.get_mut(target_cpu.index());
                if let Some(segment) = asleep.and_then(|asleep| asleep.open.as_mut()) {
                    segment.remote_waking.get_or_insert(time);
                    if cause == InterruptCause::Reschedule {
                        segment.reschedule(time);
                    }
                }
            }
            EventKind::IrqEntry { .. } => {
                if let Some(segment) = here.current() {
                    segment.device_interrupt = true;
                    segment.first_interrupt.get_or_insert(time);
                }
            }
            EventKind::InterruptEntry { cause } => {
                if let Some(segment) = here.current() {
                    segment.first_interrupt.get_or_insert(time);
                    match cause {
                        InterruptCause::LocalTimer => {}
                        InterruptCause::Other => segment.device_interrupt = true,
                        InterruptCause::Reschedule => {
                            segment.ipi = true;
                            segment.reschedule(time);
                        }
                        _ => segment.ipi = true,
                    }
                }
            }
            EventKind::SoftirqRaise { vec: RCU_SOFTIRQ } => here.rcu_raised = Some(time),
            // RCU would have kept it.
            EventKind::TickStop { success: true } => here.rcu_raised = None,
            _ => {}
        }
    }
}

impl Segment {
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

    fn reschedule(&mut self, time: Instant) {
        self.resched.get_or_insert(time);
        self.resched_ipi = true;
    }
}

/// Keeps the earlier time.
fn advance(first: &mut Option<Instant>, time: Instant) {
    *first = Some(first.map_or(time, |first| first.min(time)));
}

impl CpuState {
    /// Returns the last sleep, if the CPU was in it at that time and no task has run since.
    fn asleep_at(&mut self, time: Instant) -> Option<&mut Segment> {
        let is_open = self.open.is_some();
        let segment = self.current()?;
        (segment.enter <= time && (is_open || time <= segment.exit)).then_some(segment)
    }

    /// Returns the sleep that an event on this CPU belongs to: the open one, or the last one if no
    /// task has run since.
    fn current(&mut self) -> Option<&mut Segment> {
        match &mut self.open {
            Some(segment) => Some(segment),
            None => self.closing.as_mut().filter(|s| !s.switched),
        }
    }
}
