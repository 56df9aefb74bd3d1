// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Changes of the workload's timeline, which the kernel's shell makes; and the sections of the run
//! between them.

use super::events::Source;
use super::{Counted, Cpu, CpuCounted, Machine, Outside, Sink};
use crate::error::Halt;
use crate::kernel::abi;
use crate::kernel::{Order, Trouble, WriteError};
use crate::workload::TaskChange;
use crate::workload::attributes::nice_of;
use torpor_machine::units::{CpuId, Duration, Instant};

impl<S: Sink> Machine<'_, S> {
    pub(super) fn arm_change(&mut self, index: usize) {
        let at = Instant(0) + self.world.plan.workload.changes[index].at;
        self.world.queue.set(Source::Change.nth(index), at);
    }

    pub(super) fn change_due(&mut self, index: usize) {
        let change = &self.world.plan.workload.changes[index];
        let next = change.every.map_or(Instant::NEVER, |every| self.world.now + every);
        self.world.queue.set(Source::Change.nth(index), next);
        self.outside.push(Outside::Change(index));
    }

    /// Makes the kernel's shell do what a change says, and begins a section of the run.
    pub(super) fn make_change(&mut self, index: usize) -> Result<(), Trouble> {
        self.end_section();
        let change = &self.world.plan.workload.changes[index];
        let mut orders: Vec<Order> = change.writes.iter().cloned().map(Order::Write).collect();
        if let Some(change) = &change.task {
            orders.extend(self.change_tasks(change));
        }
        let cpu = match self.instance.order(orders) {
            Ok(cpu) => cpu,
            Err(WriteError::Kernel(trouble)) => return Err(trouble),
            Err(WriteError::NoFile(reason)) => {
                self.fail(Halt::Change(format!("the change at {}: {reason}", self.world.now)));
                return Ok(());
            }
        };
        self.awaits_orders = true;
        self.follow();
        self.wake_for_itself(cpu)
    }

    /// Takes over the idle states that the kernel's files have enabled, and the latency limits.
    pub(super) fn learn_limits(&mut self) {
        self.awaits_orders = false;
        for cpu in 0..self.instance.cpu_count() {
            let abi::Cpu { states_off, latency_limit_ns, .. } = *self.instance.cpu(cpu);
            let limit = Duration(i64::try_from(latency_limit_ns).unwrap_or(i64::MAX));
            let Cpu { model, tally, asleep, .. } = &mut self.cpus[cpu];
            let is_off = |state: usize| states_off >> state & 1 == 1;
            let states = model.states.iter().enumerate();
            let is_same = states.into_iter().all(|(n, state)| state.is_enabled != is_off(n));
            if is_same && model.latency_limit == limit {
                continue;
            }
            let allowed: Vec<bool> = model.states.iter().map(|state| state.is_allowed).collect();
            model.to_mut().set_limits(is_off, limit);
            let inside = asleep.as_ref().map(|sleep| sleep.state);
            for (state, was_allowed) in allowed.into_iter().enumerate() {
                if was_allowed && !model.states[state].is_allowed {
                    tally.forbid(state, inside == Some(state));
                }
            }
        }
    }

    /// Gives new attributes to the tasks that are alive.
    fn change_tasks(&mut self, change: &TaskChange) -> Vec<Order> {
        let mut orders = Vec::new();
        for id in 0..self.world.tasks.len() {
            let task = &self.world.tasks[id];
            let Some(handle) = task.handle.filter(|_| change.kinds.contains(&task.kind)) else {
                continue;
            };
            let mut attributes = self.attributes(id as u32);
            let task = &mut self.world.tasks[id];
            task.uclamp.min = change.uclamp_min.unwrap_or(task.uclamp.min);
            task.uclamp.max = change.uclamp_max.unwrap_or(task.uclamp.max).max(task.uclamp.min);
            attributes.uclamp = (task.uclamp.min.into(), task.uclamp.max.into());
            if let Some(weight) = change.weight {
                attributes.nice = nice_of(weight);
            }
            if let Some(cpus) = &change.affinity {
                let cpus: Vec<CpuId> = cpus.clone();
                attributes.affinity = cpus.into_iter().collect();
            }
            task.changed = Some(Box::new(attributes));
            orders.push(Order::Change(handle, attributes));
        }
        orders
    }

    /// Ends the section under way, if it has a length: what is counted from now on belongs to the
    /// next.
    pub(super) fn end_section(&mut self) {
        let now = self.world.now;
        if now > self.world.counts_from && self.is_measured {
            let section = self.across_reset(Self::take_section);
            self.sections.push(section);
        }
    }

    /// Takes everything that has been counted, without what is under way.
    pub(super) fn take_section(&mut self) -> Counted {
        let now = self.world.now;
        self.world.timer_programmings = self.take_timer_programmings();
        for cpu in 0..self.cpus.len() {
            self.account(cpu);
            self.count_sleep_so_far(cpu);
        }
        self.world.devices.iter_mut().for_each(|device| device.count_to(now));
        let domains = self.domains.iter_mut().map(|domain| domain.take(now)).collect();
        let online = &self.world.plan.topology.online;
        let cpus = self.cpus.iter_mut().enumerate().map(|(number, cpu)| {
            let (tally, task_time, overhead, busy_at) = cpu.take(now);
            CpuCounted {
                is_online: online.contains(number),
                totals: tally.close(&cpu.model),
                task_time,
                overhead,
                busy_at,
            }
        });
        let cpus = cpus.collect();
        let rest = self.rest.take(now);
        self.world.take(cpus, rest, domains)
    }
}
