// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Moving tasks that wait to CPUs that could run them.
//!
//! FIDELITY(sched-balance): the kernel balances by load, domain by domain, and an idle CPU is asked
//! to come and pull. Here a CPU that falls idle pulls from the fullest queue near it, else of the
//! machine; a tick pushes a task that waits to an idle CPU, or pulls from a queue that is longer
//! by two or more.
//! None of it happens while tasks are placed by energy (`sched_balance_find_src_group()`).
//! FIDELITY(sched-misfit): a task too big for its CPU is moved to a bigger idle one at a tick; the
//! kernel's bigger CPU comes and pulls it.

use super::boost::Arrival;
use super::task::{State, Task};
use super::{Machine, Sink};
use crate::error::Halt;
use crate::sched::{CpuMask, Fit, fit};
use torpor_engine::policy::Policy;
use torpor_trace::PrevState;
use torpor_units::Duration;

/// `sysctl_sched_nr_migrate` limits how far a queue is searched for a task that may go.
const SEARCHED_MAX: usize = 32;
/// `sysctl_sched_migration_cost`: what a task left in a cache so lately is worth more than its turn.
const HOT: Duration = Duration(500_000);
/// `busy_factor` of a scheduling domain: a busy CPU balances this much less often than once a
/// millisecond for each CPU.
const BUSY_FACTOR: i64 = 16;

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// A CPU falls idle: takes a task that waits elsewhere, and returns it, picked.
    pub(super) fn pull_when_idle(&mut self, number: usize) -> Option<u32> {
        if self.crowded.is_empty() || self.places_by_energy() {
            return None;
        }
        let topology = self.world.plan.topology;
        let near = topology.cache_mask(number);
        let fullest = self.counts.greatest();
        let from = if near.contains(fullest) {
            Some(fullest)
        } else {
            self.crowded.first_common(&[near], number).or(Some(fullest))
        };
        let task = from.filter(|&from| from != number).and_then(|from| {
            let task = self.movable(from, number)?;
            self.move_waiting(task, from, number);
            Some(task)
        })?;
        let picked = self.cpus[number].queue.pick();
        assert_eq!(picked, Some(task), "what was pulled is all there is");
        Some(task)
    }

    /// A task that waits on `from` and may run on `to`, the last in turn first.
    fn movable(&self, from: usize, to: usize) -> Option<u32> {
        let queue = &self.cpus[from].queue;
        let is_cold = |id: u32| self.world.now.since(self.world.tasks[id as usize].ran_at) >= HOT;
        let mut tasks = queue.waiting_last_first().take(SEARCHED_MAX);
        tasks.find(|&id| is_cold(id) && self.may_run(id, to))
    }

    fn may_run(&self, id: u32, cpu: usize) -> bool {
        let kind = self.world.tasks[id as usize].kind;
        self.affinity[kind].as_ref().is_none_or(|mask: &CpuMask| mask.contains(cpu))
    }

    fn move_waiting(&mut self, id: u32, from: usize, to: usize) {
        assert_eq!(self.world.tasks[id as usize].state, State::Runnable);
        self.account(from);
        self.account(to);
        let now_ns = self.world.now.0 as u64;
        let task = &mut self.world.tasks[id as usize];
        let tunables = &self.tunables;
        self.cpus[from].queue.drop_waiting(id, &mut task.entity, tunables);
        self.cpus[from].util_est -= task.util_est;
        self.cpus[from].load.update(now_ns);
        self.cpus[to].load.update(now_ns);
        self.migrate(id, from, to);
        let task = &mut self.world.tasks[id as usize];
        self.cpus[to].queue.place(&mut task.entity, false, false, &self.tunables);
        self.cpus[to].queue.add(id, &task.entity);
        self.cpus[to].util_est += task.util_est;
        self.publish_util(from);
        self.publish_util(to);
        self.publish_count(from);
        self.publish_count(to);
        self.idle_cpus.remove(to);
        self.dequeued(id, from, true);
        self.enqueued(id, to, Arrival::Move, true);
    }

    /// What a tick does for balance on a CPU that runs `running`; returns where that should go.
    pub(super) fn balance_at_tick(&mut self, number: usize, running: u32) -> Option<usize> {
        if self.places_by_energy() {
            return None;
        }
        let tick = self.world.plan.models[number].tick.hz.tick();
        let online = self.world.plan.topology.online_count as i64;
        let every = (BUSY_FACTOR * 1_000_000 * online / tick.0).max(1);
        // CPUs take turns.
        if (self.world.now.0 / tick.0 + number as i64) % every == 0 {
            self.pull_when_busy(number);
        }
        if self.cpus[number].queue.waiting() > 0 {
            self.push_to_idle(number);
            return None;
        }
        self.bigger_cpu(number, running)
    }

    fn push_to_idle(&mut self, number: usize) {
        let topology = self.world.plan.topology;
        let near = self.idle_cpus.first_common(&[topology.cache_mask(number)], number);
        let Some(idle) = near.or_else(|| self.idle_cpus.first_common(&[], number)) else { return };
        if let Some(task) = self.movable(number, idle) {
            self.move_waiting(task, number, idle);
            self.tell(task, idle, Some(number));
        }
    }

    fn pull_when_busy(&mut self, number: usize) {
        let fullest = self.counts.greatest();
        if self.counts.get(fullest) < self.counts.get(number) + 2 {
            return;
        }
        if let Some(task) = self.movable(fullest, number) {
            self.move_waiting(task, fullest, number);
        }
    }

    /// Where the running task fits, if it is too big for its CPU and a bigger one idles.
    fn bigger_cpu(&self, number: usize, running: u32) -> Option<usize> {
        let topology = self.world.plan.topology;
        let (task, own) = (&self.world.tasks[running as usize], topology.capacity[number]);
        let is_fine = |task: &Task| fit(task.util(), task.clamp, own.into()) == Fit::Full;
        if !topology.is_asymmetric || is_fine(task) {
            return None;
        }
        let allowed = self.affinity[task.kind].as_ref().unwrap_or(&topology.online);
        topology.by_capacity.iter().rev().find_map(|&cluster| {
            let mask = &topology.cluster_masks[cluster];
            let cpu = self.idle_cpus.first_common(&[mask, allowed], number)?;
            (topology.capacity[cpu] > own).then_some(cpu)
        })
    }

    /// The running task goes to another CPU as it is.
    pub(super) fn move_running(&mut self, number: usize, target: usize) -> Result<(), Halt> {
        let id = self.cpus[number].running.take().expect("a running CPU has a task");
        let cpu = &mut self.cpus[number];
        cpu.load.update(self.world.now.0 as u64);
        let task = &mut self.world.tasks[id as usize];
        task.load.update(&cpu.load, true);
        task.load.is_runnable = true;
        cpu.queue.drop_running(&mut task.entity, &self.tunables);
        cpu.util_est -= task.util_est;
        let leaver = (task.pid, PrevState::Runnable);
        self.publish_util(number);
        self.publish_count(number);
        self.dequeued(id, number, true);
        self.enqueue(id, target, Arrival::Move);
        self.tell(id, target, Some(number));
        self.pick_next(number, Some(leaver))
    }
}
