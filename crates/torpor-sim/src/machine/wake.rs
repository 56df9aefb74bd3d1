// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Waking tasks, and telling the CPUs they go to.

use super::boost::Arrival;
use super::cpu::Mode;
use super::task::{Blocked, State, Task};
use super::{Machine, Sink};
use crate::error::Halt;
use torpor_engine::pelt;
use torpor_engine::policy::Policy;
use torpor_units::Instant;

/// `LOAD_AVG_PERIOD` ms: how old the utilization of an idle CPU may get.
const REFRESH_NS: u64 = 32_000_000;

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// `try_to_wake_up()`: on CPU `by`, for an event at `event`.
    pub(super) fn wake(&mut self, id: u32, by: Option<usize>, event: Instant, sync: bool) {
        let task = &mut self.tasks[id as usize];
        match task.state {
            State::Blocked(Blocked::Channel { .. } | Blocked::Barrier(_)) => self.under_way += 1,
            State::Blocked(Blocked::Io(_)) if task.in_iowait => self.cpus[task.cpu].iowait -= 1,
            _ => {}
        }
        task.state = State::Runnable;
        task.woken_by = Some(event);
        self.kinds[task.kind].wakeups += 1;
        self.refresh_an_idle_cpu();
        let target = self.select_cpu(id, by, sync);
        if S::RECORDS {
            self.record_waking(by.unwrap_or(target), id, target);
        }
        self.enqueue(id, target, Arrival::WakeUp);
        self.tell(id, target, by);
    }

    /// What placement knows of idle CPUs gets old: one after another is looked at again, as a busy
    /// CPU of the kernel's does it for the idle ones (`nohz_balance_enter_idle()`).
    fn refresh_an_idle_cpu(&mut self) {
        if !self.plan.topology.is_asymmetric {
            return;
        }
        if let Some(cpu) = self.idle_cpus.first_common(&[], self.refresh_next) {
            self.refresh_next = (cpu + 1) % self.cpus.len();
            if self.cpus[cpu].load.since_update_ns(self.now.0 as u64) >= REFRESH_NS {
                self.touch(cpu);
            }
        }
    }

    /// The task becomes runnable on a CPU.
    pub(super) fn enqueue(&mut self, id: u32, target: usize, arrival: Arrival) {
        let is_new = arrival == Arrival::New;
        self.account(target);
        let is_renewed = self.cpus[target].load.update(self.now.0 as u64);
        let home = self.tasks[id as usize].cpu;
        let is_attached = is_new || home != target;
        if home != target {
            self.migrate(id, home, target);
        } else {
            self.tasks[id as usize].load.update(&self.cpus[target].load, false);
        }
        let (cpu, task) = (&mut self.cpus[target], &mut self.tasks[id as usize]);
        cpu.queue.place(&mut task.entity, is_new, &self.tunables);
        task.load.is_runnable = true;
        cpu.queue.add(id, &task.entity);
        cpu.util_est += task.util_est;
        self.publish_util(target);
        self.publish_count(target);
        self.idle_cpus.remove(target);
        self.enqueued(id, target, arrival, is_renewed || is_attached);
    }

    /// Takes a task's utilization and its place in line from one CPU to another, whose load is up
    /// to date.
    pub(super) fn migrate(&mut self, id: u32, from: usize, to: usize) {
        let (low, high) = self.cpus.split_at_mut(from.max(to));
        let (old, new) = match from < to {
            true => (&mut low[from], &mut high[0]),
            false => (&mut high[0], &mut low[to]),
        };
        let task = &mut self.tasks[id as usize];
        task.load.detach(&mut old.load, self.now.0 as u64);
        task.load.attach(&mut new.load, to);
        new.queue.rebase(&mut task.entity, &old.queue);
        task.cpu = to;
        self.kinds[task.kind].migrations += 1;
        self.publish_util(from);
    }

    /// Makes the CPU look at its queue, if it would not do so of itself. A CPU that polls sees it
    /// in memory; others need an IPI.
    ///
    /// FIDELITY(sim-ipi): the task is on the other CPU's queue at once, where balancing sees it; the
    /// kernel may leave it on a list until the IPI has come.
    pub(super) fn tell(&mut self, id: u32, target: usize, by: Option<usize>) {
        match self.cpus[target].mode {
            Mode::Interrupted => {}
            Mode::Asleep => {
                let pending = self.cpus[target].pending.expect("a CPU asleep is in a state");
                let polls = self.plan.models[target].states[pending.state()].is_polling;
                if self.cpus[target].span.is_resched {
                    // Somebody has told it already.
                    return;
                }
                let at = if polls { self.now } else { self.send_ipi(target, by) };
                self.cpus[target].span.is_resched = by.is_some();
                self.rouse(target, at);
            }
            Mode::Running => {
                self.account(target);
                let cpu = &mut self.cpus[target];
                let running = cpu.running.expect("a running CPU has a task");
                let (running, woken) = (&self.tasks[running as usize], &self.tasks[id as usize]);
                if !cpu.queue.preempts(&running.entity, &woken.entity, &self.tunables) {
                    return;
                }
                if by == Some(target) {
                    cpu.needs_resched = true;
                } else if cpu.ipi == Instant::NEVER {
                    let at = self.send_ipi(target, by);
                    let cpu = &mut self.cpus[target];
                    cpu.ipi = cpu.ipi.min(at);
                    self.plan_ahead(target);
                }
            }
        }
    }

    /// A reschedule IPI; when it arrives. One that nobody sends comes at once: the outside world
    /// starts a task there.
    fn send_ipi(&mut self, target: usize, by: Option<usize>) -> Instant {
        let Some(sender) = by else { return self.now };
        self.ipis += 1;
        if S::RECORDS {
            self.record_ipi(sender, target);
        }
        let overheads = self.plan.overheads;
        self.cpus[sender].hold_up(self.now, overheads.ipi_send);
        self.now + overheads.ipi_delivery
    }

    /// Puts into a channel, and wakes those whose wish is then fulfilled, in the order they came.
    pub(super) fn post(
        &mut self,
        channel: usize,
        count: u64,
        by: usize,
        event: Instant,
        sync: bool,
    ) {
        self.channels[channel].held += count;
        loop {
            let state = &mut self.channels[channel];
            let Some(&first) = state.waiters.front() else { return };
            let State::Blocked(Blocked::Channel { count, .. }) = self.tasks[first as usize].state
            else {
                unreachable!("who waits on a channel is blocked on it");
            };
            if state.held < count {
                return;
            }
            state.held -= count;
            state.waiters.pop_front();
            self.wake(first, Some(by), event, sync);
        }
    }

    /// Wakes who waits on a channel, the first or all; nothing is kept for others.
    pub(super) fn notify(&mut self, channel: usize, all: bool, by: usize) {
        let waiting = self.channels[channel].waiters.len();
        for _ in 0..if all { waiting } else { waiting.min(1) } {
            let first = self.channels[channel].waiters.pop_front().expect("so many wait");
            self.wake(first, Some(by), self.now, false);
        }
    }

    /// Starts tasks of a kind, on behalf of CPU `by` or of nobody.
    pub(super) fn spawn(&mut self, kind: usize, count: u32, by: Option<usize>) -> Result<(), Halt> {
        for _ in 0..count {
            let workload = self.plan.workload;
            let near = by.unwrap_or(self.next_instance[kind] as usize % self.cpus.len());
            let target = self.select_cpu_for_new(kind, near);
            self.touch(target);
            let load = pelt::Task::forked(target, &mut self.cpus[target].load);
            let instance = self.next_instance[kind];
            self.next_instance[kind] += 1;
            self.next_pid = self.next_pid.checked_add(1).unwrap_or(100);
            let mut task = Task::new(
                &workload.tasks,
                kind,
                instance,
                self.next_pid,
                self.plan.seed,
                load,
                self.now,
            );
            task.woken_by = Some(self.now);
            for (flow, session) in workload.flows.iter().zip(&self.sessions) {
                if flow.hint.as_ref().is_some_and(|hint| hint.tasks.contains(&kind)) {
                    task.uclamp.min = session.min().min(task.uclamp.max);
                }
            }
            self.kinds[kind].started += 1;
            let id = match self.free.pop() {
                Some(id) => {
                    self.tasks[id as usize] = task;
                    id
                }
                None => {
                    self.tasks.push(task);
                    (self.tasks.len() - 1) as u32
                }
            };
            self.live += 1;
            self.under_way += 1;
            if self.live > workload.tasks_max {
                let reason =
                    format!("more than {} tasks alive: a fork that runs away", workload.tasks_max);
                return Err(self.stuck(id, reason).into());
            }
            self.boost.begin(id, workload.tasks[kind].clamp.max);
            if S::RECORDS {
                self.record_waking(by.unwrap_or(target), id, target);
            }
            self.enqueue(id, target, Arrival::New);
            self.tell(id, target, by);
        }
        Ok(())
    }

    /// A task has ended; its place is free for another.
    pub(super) fn bury(&mut self, id: u32) {
        let task = &self.tasks[id as usize];
        let totals = &mut self.kinds[task.kind];
        totals.ended += 1;
        totals.cpu_time += task.cpu_time;
        self.live -= 1;
        self.under_way -= 1;
        self.free.push(id);
    }
}
