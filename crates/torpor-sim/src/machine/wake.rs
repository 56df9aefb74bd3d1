// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Waking tasks, and telling the CPUs they go to.

use super::boost::Arrival;
use super::cpu::Mode;
use super::task::{Blocked, NEVER_RAN, State};
use super::{Machine, Sink};
use torpor_engine::pelt;
use torpor_engine::policy::Policy;
use torpor_units::Instant;

/// `LOAD_AVG_PERIOD` ms: how old the utilization of an idle CPU may get.
const REFRESH_NS: u64 = 32_000_000;

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// `try_to_wake_up()`: on CPU `by`, for an event at `event`.
    pub(super) fn wake_up(&mut self, id: u32, by: Option<usize>, event: Instant, sync: bool) {
        let task = &self.world.tasks[id as usize];
        if task.in_iowait && matches!(task.state, State::Blocked(Blocked::Io(_))) {
            self.cpus[task.cpu].iowait -= 1;
        }
        self.world.woken(id, event);
        self.refresh_an_idle_cpu();
        if self.world.plan.topology.is_asymmetric {
            let task = &mut self.world.tasks[id as usize];
            task.load.catch_up(&self.cpus[task.cpu].load);
        }
        let target = self.select_cpu(id, by, sync);
        if S::RECORDS {
            let waker = by.unwrap_or(target);
            self.record_waking(waker, id);
            self.record_wakeup(waker, id, target);
        }
        self.enqueue(id, target, Arrival::WakeUp);
        self.tell(id, target, by);
    }

    /// What placement knows of idle CPUs gets old: one after another is looked at again, as a busy
    /// CPU of the kernel's does it for the idle ones (`nohz_balance_enter_idle()`).
    fn refresh_an_idle_cpu(&mut self) {
        if !self.world.plan.topology.is_asymmetric {
            return;
        }
        if let Some(cpu) = self.idle_cpus.first_common(&[], self.refresh_next) {
            self.refresh_next = (cpu + 1) % self.cpus.len();
            if self.cpus[cpu].load.since_update_ns(self.world.now.0 as u64) >= REFRESH_NS {
                self.touch(cpu);
            }
        }
    }

    /// The task becomes runnable on a CPU.
    pub(super) fn enqueue(&mut self, id: u32, target: usize, arrival: Arrival) {
        let is_new = arrival == Arrival::New;
        self.account(target);
        let is_renewed = self.cpus[target].load.update(self.world.now.0 as u64);
        let home = self.world.tasks[id as usize].cpu;
        let is_attached = is_new || home != target;
        if home != target {
            self.migrate(id, home, target);
        } else {
            self.world.tasks[id as usize].load.update(&self.cpus[target].load, false);
        }
        let (cpu, task) = (&mut self.cpus[target], &mut self.world.tasks[id as usize]);
        cpu.queue.place(&mut task.entity, is_new, home == target, &self.tunables);
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
        let task = &mut self.world.tasks[id as usize];
        task.load.detach(&mut old.load, self.world.now.0 as u64);
        task.load.attach(&mut new.load, to);
        task.cpu = to;
        task.ran_at = NEVER_RAN;
        self.world.kinds[task.kind].migrations += 1;
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
                let polls = self.world.plan.models[target].states[pending.state()].is_polling;
                if self.cpus[target].span.is_resched {
                    // Somebody has woken it already.
                    return;
                }
                let at = if polls { self.world.now } else { self.send_ipi(target, by) };
                self.cpus[target].span.is_resched = by.is_some();
                self.rouse(target, at);
            }
            Mode::Running => {
                self.account(target);
                let cpu = &mut self.cpus[target];
                let running = cpu.running.expect("a running CPU has a task");
                let (running, woken) =
                    (&self.world.tasks[running as usize], &self.world.tasks[id as usize]);
                let ends_turn = cpu.queue.ends_turn(&running.entity);
                if !ends_turn && !cpu.queue.preempts(&running.entity, &woken.entity) {
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
        let Some(sender) = by else { return self.world.now };
        self.world.ipis += 1;
        if S::RECORDS {
            self.record_ipi(sender, target);
        }
        let overheads = self.world.plan.overheads;
        self.cpus[sender].hold_up(self.world.now, overheads.ipi_send);
        self.world.now + overheads.ipi_delivery
    }

    /// A task begins.
    pub(super) fn begin(&mut self, id: u32, by: Option<usize>, near: usize) {
        let kind = self.world.tasks[id as usize].kind;
        let target = self.select_cpu_for_new(kind, near);
        self.touch(target);
        let task = &mut self.world.tasks[id as usize];
        (task.cpu, task.recent_cpu) = (target, target);
        task.load = pelt::Task::forked(target, &mut self.cpus[target].load);
        self.boost.begin(id, self.world.plan.workload.tasks[kind].clamp.max);
        if S::RECORDS {
            self.record_wakeup_new(by.unwrap_or(target), id, target);
        }
        self.enqueue(id, target, Arrival::New);
        self.tell(id, target, by);
    }
}
