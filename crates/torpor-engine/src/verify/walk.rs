// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Turns events into the calls that the recorded governor got, in one pass.

use super::VerifyOptions;
use super::assumptions::Assumptions;
use super::cpu::{Answers, Asleep, Cpu, IdleEntry};
use super::recorded::{Asked, Calls, Hold, Recorded, Reflected, Step};
use super::tick::TickEvent;
use crate::input::{RCU_HOLD, RCU_SOFTIRQ, TickFunction, TimerTracker};
use crate::model::CpuModel;
use crate::timeline::{Change, Fold, Folding, Moment, Sleep, Timeline};
use std::collections::HashSet;
use torpor_governor::StateDesc;
use torpor_machine::units::{CpuId, Duration, Instant, StateIdx};
use torpor_trace::{Event, EventKind, Probe, Timer, Trace};

/// Marker that a recorder writes to `trace_marker` after switching governors away and back.
const RESET_MARKER: &str = "RESET";

/// Delay from the last event of an interrupt to its `idle_entrytime`: measured with the probe on
/// `tick_nohz_get_sleep_length()` in guests whose instructions take 1 ns each.
const INTERRUPT_EXIT_DELAY: Duration = Duration(700);

/// A CPU of the recorded machine that the recording shows idle.
pub(super) struct MachineCpu {
    pub cpu: CpuId,
    pub model: CpuModel,
    pub states: Vec<StateDesc>,
}

pub(super) struct Walk<'a> {
    trace: &'a Trace,
    machine: &'a [MachineCpu],
    tick: TickFunction,
    tick_timers: HashSet<Timer>,
    timers: TimerTracker,
    has_hierarchy: bool,
    assumptions: Assumptions,
    uses_probes: bool,
    probes_select: bool,
    is_monotonic: bool,
    uses_markers: bool,
    /// A coming reset.
    reset_at: Option<Instant>,
    cpus: Vec<Cpu>,
    calls: Calls,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        trace: &'a Trace,
        tick: TickFunction,
        machine: &'a [MachineCpu],
        assumptions: Assumptions,
        options: &VerifyOptions,
    ) -> Walk<'a> {
        let uses_probes = options.probes;
        let is_monotonic = trace.meta.clock == "mono";
        let reset_at = options.reset_at.filter(|_| is_monotonic);
        let start = trace.events.first().map_or(Instant(0), |event| event.time);
        let slot = |cpu| machine.iter().position(|machine_cpu| machine_cpu.cpu == CpuId(cpu));
        let probes = |wanted| {
            uses_probes
                && trace
                    .events
                    .iter()
                    .any(|e| matches!(e.kind, EventKind::Probed { probe, .. } if probe == wanted))
        };
        Walk {
            trace,
            machine,
            tick_timers: tick_timers(trace, &tick),
            timers: TimerTracker::new(&trace.events, Some(&tick)),
            tick,
            has_hierarchy: has_timer_hierarchy(trace),
            assumptions,
            uses_probes,
            probes_select: probes(Probe::Select),
            is_monotonic,
            uses_markers: reset_at.is_none(),
            reset_at,
            cpus: (0..trace.meta.cpu_count).map(|cpu| Cpu::new(slot(cpu), start)).collect(),
            calls: Calls::default(),
        }
    }

    pub(super) fn run(self) -> Calls {
        let trace = self.trace;
        Folding::whole(trace, self).calls
    }

    fn observe(&mut self, moment: &Moment<'_>) {
        let Event { time: at, cpu: id, kind } = *moment.event;
        let number = id.index();
        let cpu = &mut self.cpus[number];
        match kind {
            EventKind::TickStop { success } => {
                if success {
                    cpu.tick.stop();
                }
                return;
            }
            EventKind::HrtimerStart { function, expires, .. } if self.tick.is(function) => {
                match cpu.tick.start(expires.get()) {
                    TickEvent::Handler => cpu.interrupted(at),
                    TickEvent::Stopping => {}
                    TickEvent::Restart => self.restart(number, at),
                }
                return;
            }
            EventKind::HrtimerCancel { timer } if self.tick_timers.contains(&timer) => {
                return cpu.tick.cancel();
            }
            _ => cpu.tick.other_event(),
        }
        match kind {
            EventKind::SchedSwitch { prev_pid, next_pid, .. } => {
                if prev_pid == 0 {
                    self.leave(number);
                }
                if next_pid == 0 {
                    self.cpus[number].begin_loop(at);
                }
            }
            EventKind::CpuIdle { state } => match moment.change {
                Change::Woke { is_known } => {
                    let sleep = moment.timeline.sleep(id).filter(|_| is_known);
                    self.wake(number, at, sleep);
                }
                _ => self.enter(number, at, state),
            },
            EventKind::Probed { probe, value } if self.uses_probes => {
                self.probed(number, at, probe, value.get());
            }
            EventKind::HrtimerExpireEntry { function, .. } if self.tick.is(function) => {
                cpu.got_tick |= cpu.is_idle;
                cpu.tick.expire();
                cpu.interrupted(at);
            }
            EventKind::SoftirqRaise { vec } => {
                if vec == RCU_SOFTIRQ {
                    cpu.rcu_raised = Some(at);
                }
                cpu.interrupted(at);
            }
            kind if belongs_to_interrupt(&kind) => cpu.interrupted(at),
            _ => {}
        }
    }

    /// Leaves the idle task for another task.
    fn leave(&mut self, number: usize) {
        if let Some(decision) = self.cpus[number].unreflected {
            if let Some(reflected) = &mut self.calls.decisions[decision].reflected {
                reflected.ran_task = true;
            }
        }
        self.reflect(number);
        self.give_up(number);
        let cpu = &mut self.cpus[number];
        cpu.is_idle = false;
        cpu.got_tick = false;
        cpu.asleep = None;
        cpu.tick.leave();
    }

    /// Begins the idle loop again without another task between.
    ///
    /// FIDELITY(silent-restart): only the restart of a stopped tick shows it.
    fn restart(&mut self, number: usize, at: Instant) {
        if self.cpus[number].is_idle {
            self.reflect(number);
            self.give_up(number);
            self.cpus[number].begin_loop(at);
        }
    }

    fn enter(&mut self, number: usize, at: Instant, state: StateIdx) {
        self.reflect(number);
        self.cpus[number].is_idle = true;
        let selected = self.cpus[number].selected.take();
        let asked = match selected {
            // Probes would have shown a select: no governor was called.
            None if self.probes_select => None,
            None => state.index().and_then(|state| self.ask(number, at, state)),
            selected => selected,
        };
        let cpu = &mut self.cpus[number];
        cpu.asleep = None;
        if let Some(mut recorded) = asked {
            recorded.at = at;
            recorded.entered = state.index();
            let asked = &mut recorded.asked;
            asked.tick_is_stopped = cpu.tick.is_stopped;
            if cpu.tick.is_stopped {
                asked.next_wheel = cpu.tick.armed.unwrap_or(Instant::NEVER);
                asked.hold = Hold::Stopped;
            }
            let decision = self.calls.decisions.len();
            cpu.asleep = Some(Asleep { decision, was_interrupted: false });
            self.calls.decisions.push(recorded);
            self.calls.steps.push(Step::Ask(decision));
        }
        cpu.answers = Answers::default();
        cpu.tick.entered();
    }

    fn wake(&mut self, number: usize, at: Instant, sleep: Option<&Sleep>) {
        let cpu = &mut self.cpus[number];
        cpu.is_idle = true;
        let Some((asleep, sleep)) = cpu.asleep.take().zip(sleep) else { return };
        let recorded = &mut self.calls.decisions[asleep.decision];
        let model = &self.machine[recorded.slot].model;
        let Some(index) = recorded.entered else { return };
        let Some(state) = model.states.get(index) else { return };
        let between = at.since(sleep.entry);
        let residency = Duration((between - self.assumptions.residency_overhead).0.max(0));
        recorded.reflected = Some(Reflected {
            state: index,
            residency,
            got_tick: false,
            between,
            is_polling: state.is_polling,
            ran_task: false,
            clock: at,
            verdict: model.verdict(index, residency),
        });
        cpu.unreflected = Some(asleep.decision);
        cpu.clock = at;
        // Something woke it, unless polling just ended.
        if !asleep.was_interrupted && !state.is_polling {
            cpu.idle_entry = IdleEntry::InterruptEnded(at);
        }
    }

    fn probed(&mut self, number: usize, at: Instant, probe: Probe, value: i64) {
        match probe {
            Probe::SleepLength | Probe::NextEvent | Probe::RcuNeedsCpu | Probe::Util => {
                self.reflect(number);
                let answers = &mut self.cpus[number].answers;
                match probe {
                    Probe::SleepLength => answers.sleep_length = Some(Duration(value)),
                    Probe::NextEvent => answers.next_event = Some(value),
                    Probe::Util => answers.util = u64::try_from(value).ok(),
                    _ => answers.rcu_needs_cpu = Some(value != 0),
                }
            }
            Probe::Select => {
                self.reflect(number);
                self.give_up(number);
                if let Ok(state) = usize::try_from(value) {
                    self.cpus[number].selected = self.ask(number, at, state);
                }
            }
            Probe::Reflect => self.reflect(number),
            Probe::IdleEnter => {
                self.reflect(number);
                self.give_up(number);
                let cpu = &mut self.cpus[number];
                cpu.begin_loop(at);
                cpu.idle_entry = IdleEntry::Probed(at);
            }
            Probe::IrqExit => {
                let cpu = &mut self.cpus[number];
                cpu.interrupted(at);
                if cpu.is_idle {
                    cpu.idle_entry = IdleEntry::Probed(at);
                }
            }
            Probe::StopTick | Probe::RetainTick => {}
        }
    }

    /// Reports the sleep that has ended to the governor, once.
    fn reflect(&mut self, number: usize) {
        let cpu = &mut self.cpus[number];
        let Some(decision) = cpu.unreflected.take() else { return };
        if let Some(reflected) = &mut self.calls.decisions[decision].reflected {
            reflected.got_tick = std::mem::take(&mut cpu.got_tick);
            reflected.clock = cpu.clock;
        }
        self.calls.steps.push(Step::Reflect(decision));
    }

    /// Adds a select that no idle entry followed.
    ///
    /// FIDELITY(hidden-select): only a probe shows it.
    fn give_up(&mut self, number: usize) {
        if let Some(recorded) = self.cpus[number].selected.take() {
            self.calls.steps.push(Step::Ask(self.calls.decisions.len()));
            self.calls.decisions.push(recorded);
        }
    }

    /// Returns true if the governor was enabled again before this event.
    fn is_reset_at(&mut self, event: &Event) -> bool {
        match event.kind {
            EventKind::Marker { text } if self.uses_markers => {
                self.trace.names.text(text).trim() == RESET_MARKER
            }
            _ => self.reset_at.take_if(|at| *at <= event.time).is_some(),
        }
    }

    fn reset(&mut self) {
        for number in 0..self.cpus.len() {
            self.reflect(number);
        }
        self.calls.steps.push(Step::Reset);
        self.calls.resets += 1;
        self.calls.known_from = self.calls.decisions.len();
        // Switching governors wakes all CPUs, so CPUs that sleep now have called the new one.
        for cpu in &self.cpus {
            if let Some(asleep) = cpu.asleep {
                self.calls.steps.push(Step::Ask(asleep.decision));
            }
        }
    }

    /// Returns the governor's inputs as known before the tick is stopped or kept.
    fn ask(&self, number: usize, at: Instant, state: usize) -> Option<Recorded> {
        let cpu = &self.cpus[number];
        // A probe can have any value.
        let slot = cpu.slot.filter(|&slot| state < self.machine[slot].states.len())?;
        let id = self.machine[slot].cpu;
        let period = self.tick.grid.hz.tick();
        let estimate = match cpu.idle_entry {
            IdleEntry::LoopBegan(began) => began + self.assumptions.entry_delay,
            IdleEntry::InterruptEnded(last) => last + INTERRUPT_EXIT_DELAY,
            IdleEntry::Probed(exact) => exact,
        };
        let idle_entry = estimate.min(at);
        let jiffy = self.tick.grid.floor(idle_entry);
        let (armed, tick_was_stopped) = cpu.tick.when_asked();
        let not_armed = if tick_was_stopped { Instant::NEVER } else { jiffy + period };
        let mut next_wheel = if self.has_hierarchy {
            let mut others = self.cpus.iter().enumerate().filter(|(other, _)| *other != number);
            let others_idle = others.all(|(_, other)| other.tick.is_stopped);
            self.timers.next_wheel_in_hierarchy(id, idle_entry, jiffy + period, others_idle)
        } else {
            self.timers.next_wheel(id, idle_entry)
        };
        let hold = match cpu.answers {
            Answers { next_event: Some(event), .. } if self.is_monotonic => {
                if event != 0 {
                    next_wheel = Instant(event.max(0));
                }
                Hold::Probed(event == 0)
            }
            Answers { rcu_needs_cpu: Some(needed), .. } => Hold::Probed(needed),
            _ => {
                let is_recent = |raised| at.since(raised) < RCU_HOLD;
                let held = self.assumptions.rcu_stand_in && cpu.rcu_raised.is_some_and(is_recent);
                Hold::StandIn(held)
            }
        };
        let asked = Asked {
            clock: cpu.clock.max(idle_entry).min(at),
            idle_entry,
            next_hrtimer: self.timers.next_hrtimer(id, idle_entry),
            next_wheel,
            tick: armed.unwrap_or(not_armed),
            jiffy,
            tick_period: period,
            tick_was_stopped,
            tick_is_stopped: false,
            hold,
            probed: cpu.answers.sleep_length,
            probed_util: cpu.answers.util,
            util: 0,
            nr_iowait: 0,
        };
        Some(Recorded {
            cpu: id,
            slot,
            at,
            state,
            entered: None,
            asked: asked.refined(),
            reflected: None,
        })
    }
}

impl Fold for Walk<'_> {
    fn take(&mut self, moment: &Moment<'_>) {
        if self.is_reset_at(moment.event) {
            self.reset();
        }
        self.timers.observe(moment.event);
        if moment.event.cpu.index() < self.cpus.len() {
            self.observe(moment);
        }
    }

    fn end(&mut self, _: &Timeline) {
        (0..self.cpus.len()).for_each(|number| self.reflect(number));
    }
}

/// Returns true for events that only an interrupt or a softirq of the idle task writes.
fn belongs_to_interrupt(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::IrqEntry { .. }
            | EventKind::IrqExit { .. }
            | EventKind::SoftirqEntry { .. }
            | EventKind::SoftirqExit { .. }
            | EventKind::InterruptEntry { .. }
            | EventKind::InterruptExit { .. }
            | EventKind::HrtimerStart { .. }
            | EventKind::HrtimerCancel { .. }
            | EventKind::HrtimerExpireEntry { .. }
            | EventKind::HrtimerExpireExit { .. }
            | EventKind::TimerStart { .. }
            | EventKind::TimerCancel { .. }
            | EventKind::TimerExpireEntry { .. }
            | EventKind::SchedWaking { .. }
            | EventKind::SchedWakeup { .. }
            | EventKind::SchedWakeupNew { .. }
    )
}

fn tick_timers(trace: &Trace, tick: &TickFunction) -> HashSet<Timer> {
    let timer = |event: &Event| match event.kind {
        EventKind::HrtimerStart { timer, function, .. }
        | EventKind::HrtimerExpireEntry { timer, function, .. } => {
            tick.is(function).then_some(timer)
        }
        _ => None,
    };
    trace.events.iter().filter_map(timer).collect()
}

/// Returns true if idle CPUs hand their timers to a hierarchy, as since Linux 6.9. If the recording
/// does not name its kernel, the tick's handler shows it, which was renamed in 6.8.
fn has_timer_hierarchy(trace: &Trace) -> bool {
    let release = trace.meta.kernel_release.as_deref().unwrap_or("");
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 9),
        _ => trace.events.iter().any(|event| match event.kind {
            EventKind::HrtimerStart { function, .. } => {
                trace.names.symbol(function) == Some("tick_nohz_handler")
            }
            _ => false,
        }),
    }
}
