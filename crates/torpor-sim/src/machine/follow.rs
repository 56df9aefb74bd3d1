// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Follows the kernel's decisions on each CPU that a call has touched.

use super::irq::cause_of;
use super::sleep::Sleep;
use super::{Event, Machine, Sink};
use crate::kernel::Overheads;
use crate::kernel::abi;
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_trace::EventKind;

impl<S: Sink> Machine<'_, S> {
    /// Applies the kernel's decisions.
    pub(super) fn follow(&mut self) {
        self.take_tracepoints();
        let mut one_polls = false;
        for word in 0..self.instance.cpu_count().div_ceil(64) {
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
        let now = self.world.now;
        for at in 0..self.polling.len() {
            let cpu = self.polling[at];
            let it = &mut self.cpus[cpu];
            let sleep = it.asleep.as_mut().expect("a polling CPU is asleep");
            if sleep.event.is_none() && self.instance.needs_resched(cpu) {
                sleep.event = Some(now);
                sleep.is_resched = true;
                let state = &self.hardware.clusters[it.cluster].states[sleep.state];
                let poll_loop = state.poll_loop.expect("the state polls");
                let at = poll_loop.notices(sleep.since, now.max(sleep.since));
                self.world.queue.push(at, cpu, Event::Awake(sleep.number));
            }
        }
    }

    pub(super) fn look_at(&mut self, cpu: usize) {
        self.spend(cpu);
        let abi::Cpu { timer_ns, sent, task, khz, idle_state, sleeps, .. } =
            *self.instance.cpu(cpu);
        let is_over = |sleep: &mut Sleep| sleep.number != sleeps || idle_state < 0;
        if let Some(sleep) = self.cpus[cpu].asleep.take_if(is_over) {
            self.end_sleep(cpu, &sleep, task != 0);
        }
        if sent != 0 {
            self.send_ipi(cpu, sent);
        }
        self.queue_timer(cpu, timer_ns);
        if khz != self.cpus[cpu].requested_khz {
            self.change_frequency(cpu, khz);
        }
        if task != self.cpus[cpu].task {
            self.show_tracepoints(cpu, self.instance.cpu(cpu).switches);
            self.account(cpu);
            self.switch(cpu, task);
        }
        self.show_tracepoints(cpu, u64::MAX);
        if idle_state >= 0 && self.cpus[cpu].asleep.is_none() {
            self.begin_sleep(cpu);
        }
    }

    /// Delivers the IPI that the acting CPU has sent to another.
    fn send_ipi(&mut self, to: usize, bits: u32) {
        self.instance.cpu_mut(to).sent = 0;
        if let Some(cause) = cause_of(bits) {
            self.world.ipis += 1;
            let target_cpu = CpuId(to as u32);
            self.emit(self.instance.acting_cpu(), EventKind::IpiSend { target_cpu, cause });
        }
        self.world.queue.push(self.world.now + self.hardware.ipi_delivery, to, Event::Ipi(bits));
    }

    /// The kernel requests a frequency for a CPU's clock.
    fn change_frequency(&mut self, number: usize, khz: u32) {
        let domain = &self.domains[self.cpus[number].cluster];
        let before = domain.opp_of(self.cpus[number].requested_khz);
        let changes = domain.opp_of(khz) != before;
        self.cpus[number].requested_khz = khz;
        self.deliver_frequency(number);
        if S::RECORDS && changes {
            self.record_frequency(number);
        }
    }

    /// Gives a CPU the frequency that the kernel has requested, as far as the limits allow.
    pub(super) fn deliver_frequency(&mut self, number: usize) {
        self.account(number);
        let (now, cluster) = (self.world.now, self.cpus[number].cluster);
        let domain = &mut self.domains[cluster];
        let requested_khz = self.cpus[number].requested_khz;
        let requested = domain.opp_of(requested_khz);
        let changes = domain.request(requested, now);
        let opp = domain.opp;
        let held_khz = domain.freq_khz().filter(|_| opp != requested);
        self.cpus[number].khz = held_khz.unwrap_or(requested_khz);
        self.set_costs(number);
        if changes {
            self.rest.set_opp(cluster, opp, now);
        }
        self.split_sleep(number, opp);
        self.cpus[number].opp = opp;
        self.plan_done(number);
    }

    /// The CPU runs another task, or none.
    fn switch(&mut self, cpu: usize, task: u32) {
        let before = std::mem::replace(&mut self.cpus[cpu].task, task);
        self.cpus[cpu].turn += 1;
        self.cpus[cpu].done_at = Instant::NEVER;
        if let Some(id) = self.slot(before) {
            let preempted = &self.world.tasks[id as usize];
            self.world.kinds[preempted.kind].preemptions += u64::from(!preempted.has_left);
        }
        if !self.world.plan.topology.siblings.is_empty() && (before == 0) != (task == 0) {
            self.share_core(cpu);
        }
        match task {
            0 => self.record_switch(cpu, before, self.world.now),
            _ => self.begins(cpu, before),
        }
    }

    /// Sets the speed of a core's threads, which busy threads share.
    fn share_core(&mut self, cpu: usize) {
        let topology = self.world.plan.topology;
        let siblings = &topology.siblings[cpu];
        let is_online = |thread: &usize| topology.online.contains(*thread);
        for thread in std::iter::once(cpu).chain(siblings.iter().copied().filter(is_online)) {
            let works = |other: &usize| self.cpus[*other].task != 0;
            let speed_pct = match topology.siblings[thread].iter().any(works) {
                true => u64::from(topology.smt_speed_pct[thread]),
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
            let at = Instant(timer_ns as i64).max(self.world.now);
            self.world.queue.push(at, cpu, Event::Timer);
        }
    }

    /// A task has the CPU, which has had `before`.
    fn begins(&mut self, cpu: usize, before: u32) {
        let now = self.world.now;
        let from = self.cpus[cpu].from.max(now);
        let switch = Duration(self.instance.cpu(cpu).switch_ns.into());
        if let Some(id) = self.slot(self.cpus[cpu].task) {
            let task = &mut self.world.tasks[id as usize];
            task.has_left = false;
            let has_moved = std::mem::replace(&mut task.cpu, cpu) != cpu;
            let migrates = std::mem::replace(&mut task.has_run, true) && has_moved;
            self.world.kinds[task.kind].migrations += u64::from(migrates);
            self.world.timer_wakes(id, self.cpus[cpu].interrupted);
            self.world.begins(id, from);
            self.record_switch(cpu, before, (from - switch).max(now));
        }
        let cold = std::mem::take(&mut self.cpus[cpu].cold);
        if cold > Duration::ZERO {
            let cold = self.cpus[cpu].time_for(cold);
            self.delay(cpu, cold, cold);
        }
        self.plan_done(cpu);
    }

    /// Sets the costs of the kernel's work on a CPU at its present speed.
    pub(super) fn set_costs(&mut self, cpu: usize) {
        let costs = self.hardware.overheads;
        let Overheads { step_ps, remote_step_ps, context_switch, ipi_send, governor_timer, .. } =
            costs;
        let scaled = |cost: i64| self.cpus[cpu].time_for(Duration(cost)).0 as u32;
        let steps = (scaled(step_ps.into()), scaled(remote_step_ps.into()));
        let figures = (scaled(context_switch.0), scaled(ipi_send.0), scaled(governor_timer.0));
        let programming = scaled(costs.timer_programming.0);
        let it = self.instance.cpu_mut(cpu);
        it.timer_programming_ns = programming;
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
        self.delay(cpu, time, (time - of_sleep).max(Duration::ZERO));
        self.plan_done(cpu);
    }

    /// Keeps the CPU busy for `length`, of which `time` counts as the kernel's work.
    fn delay(&mut self, cpu: usize, length: Duration, time: Duration) {
        self.account(cpu);
        let it = &mut self.cpus[cpu];
        it.from = it.from.max(self.world.now) + length;
        it.overhead += time;
        it.count_busy(time);
        self.instance.cpu_mut(cpu).busy_until_ns = it.from.0 as u64;
    }

    /// Plans the end of the task's computation.
    pub(super) fn plan_done(&mut self, cpu: usize) {
        if self.cpus[cpu].task == 0 {
            return;
        }
        let slot = self.slot(self.cpus[cpu].task);
        let left = slot.map_or(Duration::ZERO, |id| self.world.tasks[id as usize].left);
        let it = &mut self.cpus[cpu];
        it.done_at = it.from.max(self.world.now) + it.time_for(left);
        self.queue_done(cpu);
    }

    pub(super) fn queue_done(&mut self, cpu: usize) {
        let it = &mut self.cpus[cpu];
        if it.done_at < it.done_queued {
            it.done_queued = it.done_at;
            let at = it.done_at;
            self.world.queue.push(at, cpu, Event::Done);
        }
    }

    /// Accounts the work of a CPU's task up to now.
    pub(super) fn account(&mut self, cpu: usize) {
        let now = self.world.now;
        let it = &mut self.cpus[cpu];
        if now <= it.from {
            return;
        }
        let time = now.since(it.from);
        it.from = now;
        if it.task == 0 {
            return;
        }
        it.task_time += time;
        it.count_busy(time);
        let done = it.done_in(time);
        if let Some(id) = self.slot(self.cpus[cpu].task) {
            let task = &mut self.world.tasks[id as usize];
            task.left = (task.left - done).max(Duration::ZERO);
            task.cpu_time += time;
        }
    }
}
