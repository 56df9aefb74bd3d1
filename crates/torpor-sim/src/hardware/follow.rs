// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Follows the kernel's decisions on each CPU that a call has touched.

use super::cpu::Sleep;
use super::work::{Ipi, Seen, Slept, TaskId, Work};
use super::{Event, Sim};
use crate::kernel::Overheads;
use crate::kernel::abi::{self, NEVER};
use torpor_machine::units::{Duration, Instant};

impl<W: Work> Sim<W> {
    /// Applies the kernel's decisions.
    pub(super) fn follow(&mut self) {
        self.take_timers();
        let mut one_polls = false;
        for word in 0..self.cpus.len().div_ceil(64) {
            let mut touched = self.instance.take_touched(word);
            while touched != 0 {
                let cpu = 64 * word + touched.trailing_zeros() as usize;
                self.look_at(cpu);
                one_polls |= self.cpus[cpu].asleep.as_ref().is_some_and(Sleep::polls);
                touched &= touched - 1;
            }
        }
        if one_polls {
            self.look_at_polling();
        }
    }

    /// Ends the polling of CPUs with `need_resched()`, which their loops see at the next look.
    fn look_at_polling(&mut self) {
        for at in 0..self.polling.len() {
            let cpu = self.polling[at];
            let now = self.now;
            let it = &mut self.cpus[cpu];
            let sleep = it.asleep.as_mut().expect("a polling CPU is asleep");
            if sleep.event.is_none() && self.instance.needs_resched(cpu) {
                sleep.event = Some(now);
                sleep.is_resched = true;
                let state = &self.machine.clusters[it.cluster].states[sleep.state];
                let poll_loop = state.poll_loop.expect("the state polls");
                let at = poll_loop.notices(sleep.since, now.max(sleep.since));
                self.queue.push(at, cpu, Event::Awake(sleep.number));
            }
        }
    }

    pub(super) fn look_at(&mut self, cpu: usize) {
        self.spend(cpu);
        let abi::Cpu { timer_ns, sent, task, khz, idle_state, sleeps, .. } =
            *self.instance.cpu(cpu);
        let is_over = |sleep: &mut Sleep| sleep.number != sleeps || idle_state < 0;
        if let Some(sleep) = self.cpus[cpu].asleep.take_if(is_over) {
            self.end_sleep(cpu, sleep, task != 0);
        }
        if sent != 0 {
            self.instance.cpu_mut(cpu).sent = 0;
            let sender = self.instance.acting_cpu();
            self.stats.ipis += 1;
            if let Some(ipi) = Ipi::of(sent) {
                self.work.watch(sender, self.now, Seen::SentIpi { to: cpu, ipi });
            }
            self.queue.push(self.now + self.machine.ipi_delivery, cpu, Event::Ipi(sent));
        }
        self.queue_timer(cpu, timer_ns);
        if khz != self.cpus[cpu].khz {
            self.account(cpu);
            self.cpus[cpu].khz = khz;
            self.set_costs(cpu);
            self.work.watch(cpu, self.now, Seen::Frequency { khz });
            self.plan_done(cpu);
        }
        if task != self.cpus[cpu].task {
            self.show_timers(cpu, self.instance.cpu(cpu).switches);
            self.account(cpu);
            self.changes(cpu, task);
        }
        self.show_timers(cpu, u64::MAX);
        if idle_state >= 0 && self.cpus[cpu].asleep.is_none() {
            self.begin_sleep(cpu);
        }
    }

    /// Ends a sleep that another CPU's call has ended; the CPU may already be asleep again.
    fn end_sleep(&mut self, cpu: usize, sleep: Sleep, has_task: bool) {
        self.polling.retain(|other| *other != cpu);
        if sleep.since <= self.now {
            let slept = Slept { has_task, ..sleep.slept(self.now) };
            self.left(cpu, slept);
        } else if let Some(last_man) = &mut self.machine.last_man {
            // The hardware had not entered the state yet.
            last_man.leave(cpu, self.now);
        }
    }

    /// Puts a CPU into the state that the kernel has entered.
    fn begin_sleep(&mut self, cpu: usize) {
        let abi::Cpu {
            timer_ns,
            idle_state,
            poll_until_ns,
            tick_stopped,
            entered_ns,
            sleeps,
            is_rejected,
            ..
        } = *self.instance.cpu(cpu);
        let state = idle_state as usize;
        let states = &self.machine.clusters[self.cpus[cpu].cluster].states;
        let demotion = states.get(state).and_then(|s| s.demotion).filter(|_| is_rejected == 0);
        let got = self.cpus[cpu].history.got(state, demotion);
        let last_man = &mut self.machine.last_man;
        let last_man = last_man.as_mut().filter(|_| is_rejected == 0);
        let entry_saved = last_man.map(|all| all.enter(cpu, got));
        let sleep = Sleep {
            number: sleeps,
            state,
            got,
            undemoted: None,
            entered: Instant(entered_ns as i64),
            since: self.now.max(self.cpus[cpu].from),
            poll_until_ns,
            timer: if timer_ns == NEVER { Instant::NEVER } else { Instant(timer_ns as i64) },
            tick_stopped: tick_stopped != 0,
            event: None,
            is_resched: false,
            entry_saved: entry_saved.unwrap_or(Duration::ZERO),
            is_rejected: is_rejected != 0,
            timer_starts: std::mem::take(&mut self.instance.cpu_mut(cpu).governor_starts),
        };
        self.cpus[cpu].asleep = Some(sleep);
        if sleep.polls() {
            self.polling.push(cpu);
        }
        if let Some(time) = demotion.and_then(|rule| rule.undemote).filter(|_| got != state) {
            self.queue.push(sleep.since + time, cpu, Event::Undemotes(sleeps));
        }
        if poll_until_ns != 0 {
            self.queue.push(Instant(poll_until_ns as i64), cpu, Event::PollEnd(poll_until_ns));
        }
        match sleep.since > self.now {
            true => self.queue.push(sleep.since, cpu, Event::Sleeps),
            false => self.tell_sleep(cpu),
        }
    }

    pub(super) fn tell_sleep(&mut self, cpu: usize) {
        let Some(sleep) = self.cpus[cpu].asleep.filter(|sleep| sleep.since == self.now) else {
            return;
        };
        let Sleep { state, entered, is_rejected, got, .. } = sleep;
        self.work.watch(cpu, self.now, Seen::Sleeps { state, entered, is_rejected, got });
    }

    /// A demoted CPU enters the requested state, unless the sleep is over, or nearly.
    pub(super) fn undemote(&mut self, cpu: usize, number: u32) {
        let is_that = |sleep: &&mut Sleep| sleep.number == number && sleep.event.is_none();
        let Some(sleep) = self.cpus[cpu].asleep.as_mut().filter(is_that) else { return };
        sleep.undemoted = Some(self.now);
        if let Some(last_man) = &mut self.machine.last_man {
            sleep.entry_saved = last_man.deepen(cpu, sleep.state);
        }
        self.work.watch(cpu, self.now, Seen::Undemotes);
    }

    /// The CPU runs another task, or none.
    pub(super) fn changes(&mut self, cpu: usize, task: u32) {
        let before = std::mem::replace(&mut self.cpus[cpu].task, task);
        self.cpus[cpu].turn += 1;
        self.cpus[cpu].done_at = Instant::NEVER;
        if let Some(index) = (before as usize).checked_sub(1) {
            if !self.task(index).has_left {
                self.work.watch(cpu, self.now, Seen::Preempted(TaskId(index)));
            }
        }
        if !self.siblings.is_empty() && (before == 0) != (task == 0) {
            self.share_core(cpu);
        }
        match (task as usize).checked_sub(1) {
            Some(index) => self.begins(cpu, index),
            None => self.work.watch(cpu, self.now, Seen::Idles),
        }
    }

    /// Sets the speed of a core's threads, which busy threads share.
    fn share_core(&mut self, cpu: usize) {
        for nth in 0..=self.siblings[cpu].len() {
            let thread = if nth == 0 { cpu } else { self.siblings[cpu][nth - 1] };
            let works = |other: &usize| self.cpus[*other].task != 0;
            let speed_pct = match self.siblings[thread].iter().any(works) {
                true => u64::from(self.machine.clusters[self.cpus[thread].cluster].smt_speed_pct),
                false => 100,
            };
            if speed_pct == self.cpus[thread].speed_pct {
                continue;
            }
            self.account(thread);
            self.cpus[thread].speed_pct = speed_pct;
            self.set_costs(thread);
            if thread != cpu {
                self.plan_done(thread);
            }
        }
    }

    pub(super) fn queue_timer(&mut self, cpu: usize, timer_ns: u64) {
        if timer_ns < self.cpus[cpu].timer_queued {
            self.cpus[cpu].timer_queued = timer_ns;
            self.queue.push(Instant(timer_ns as i64).max(self.now), cpu, Event::Timer);
        }
    }

    /// A task has the CPU.
    pub(super) fn begins(&mut self, cpu: usize, index: usize) {
        let from = self.cpus[cpu].from.max(self.now);
        let switch = Duration(self.instance.cpu(cpu).switch_ns.into());
        let switched = (from - switch).max(self.now);
        let task = self.task(index);
        task.has_left = false;
        if let Some(woken) = task.woken_at.take() {
            let latency = from.since(woken);
            task.stats.wakeups += 1;
            task.stats.latency_total += latency;
            task.stats.latency_max = task.stats.latency_max.max(latency);
        }
        if task.last_cpu.replace(cpu).is_some_and(|last| last != cpu) {
            task.stats.migrations += 1;
        }
        self.work.watch(cpu, self.now, Seen::Runs { task: TaskId(index), switched, from });
        let cold = std::mem::take(&mut self.cpus[cpu].cold);
        if cold > Duration::ZERO {
            let cold = self.cpus[cpu].time_for(cold);
            self.hold_up(cpu, cold, cold);
        }
        self.plan_done(cpu);
    }

    /// Sets the costs of the kernel's work on a CPU at its present speed.
    pub(super) fn set_costs(&mut self, cpu: usize) {
        let Overheads { step_ps, remote_step_ps, context_switch, ipi_send, governor_timer, .. } =
            self.machine.overheads;
        let scaled = |cost: i64| self.cpus[cpu].time_for(Duration(cost)).0 as u32;
        let steps = (scaled(step_ps.into()), scaled(remote_step_ps.into()));
        let figures = (scaled(context_switch.0), scaled(ipi_send.0), scaled(governor_timer.0));
        let it = self.instance.cpu_mut(cpu);
        (it.step_ps, it.remote_step_ps) = steps;
        (it.switch_ns, it.ipi_send_ns, it.governor_timer_ns) = figures;
    }

    /// Accounts the kernel's own work on a CPU.
    fn spend(&mut self, cpu: usize) {
        let time = Duration(self.instance.cpu_mut(cpu).take_spent_ns() as i64);
        if time == Duration::ZERO {
            return;
        }
        // That is part of the sleep's cost, and of no task's work.
        let of_sleep = std::mem::take(&mut self.cpus[cpu].of_sleep);
        self.hold_up(cpu, time, (time - of_sleep).max(Duration::ZERO));
        self.plan_done(cpu);
    }

    /// The CPU is busy for `length`, of which `time` counts as the kernel's work.
    fn hold_up(&mut self, cpu: usize, length: Duration, time: Duration) {
        self.account(cpu);
        let it = &mut self.cpus[cpu];
        it.from = it.from.max(self.now) + length;
        self.instance.cpu_mut(cpu).busy_until_ns = it.from.0 as u64;
        self.stats.cpus[cpu].held_up += time;
        self.work.watch(cpu, self.now, Seen::HeldUp(time));
    }

    /// Plans the end of the task's computation.
    pub(super) fn plan_done(&mut self, cpu: usize) {
        let it = &self.cpus[cpu];
        let Some(index) = (it.task as usize).checked_sub(1) else { return };
        let (left, from) = (self.tasks[index].as_ref().map_or(Duration::ZERO, |t| t.left), it.from);
        self.cpus[cpu].done_at = from.max(self.now) + self.cpus[cpu].time_for(left);
        self.queue_done(cpu);
    }

    pub(super) fn queue_done(&mut self, cpu: usize) {
        let it = &mut self.cpus[cpu];
        if it.done_at < it.done_queued {
            it.done_queued = it.done_at;
            let at = it.done_at;
            self.queue.push(at, cpu, Event::Done);
        }
    }

    /// Accounts the work of a CPU's task up to now.
    pub(super) fn account(&mut self, cpu: usize) {
        let it = &mut self.cpus[cpu];
        if self.now <= it.from {
            return;
        }
        let time = self.now.since(it.from);
        it.from = self.now;
        if let Some(index) = (it.task as usize).checked_sub(1) {
            let task = self.tasks[index].as_mut().expect("it has the CPU");
            task.left = (task.left - it.done_in(time)).max(Duration::ZERO);
            task.stats.run_time += time;
            self.stats.cpus[cpu].busy += time;
            self.work.watch(cpu, self.now, Seen::Computed { task: TaskId(index), time });
        }
    }
}
