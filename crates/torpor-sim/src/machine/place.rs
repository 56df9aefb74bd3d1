// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Where a task runs that becomes runnable (`select_task_rq_fair()`).
//!
//! FIDELITY(sched-wake-affine): between the waker's CPU and the task's last one, only idleness and
//! a waker about to sleep decide; the kernel also weighs the loads of both.
//! FIDELITY(sched-idle-search): the kernel limits its search for an idle CPU on big machines; here
//! the whole of those that share a cache is searched, 64 at a time.

use super::{Machine, Sink};
use crate::sched::{Clamp, CpuMask, Fit, fit};
use std::cmp::{Ordering, Reverse};
use torpor_engine::policy::Policy;
use torpor_governor::{CpufreqCpu, CpufreqInstance};

/// What placement takes a task for.
struct Wish {
    /// Its own, and its boost if that is more.
    util: u64,
    boost: u64,
    clamp: Clamp,
}

/// A CPU that energy-aware placement may choose.
#[derive(Clone, Copy)]
struct Candidate {
    cpu: usize,
    fit: Fit,
    /// By how much the energy of its domain rises with the task.
    rise: u64,
    capacity: u32,
}

impl Candidate {
    fn is_better(&self, than: &Candidate) -> bool {
        match self.fit.cmp(&than.fit) {
            Ordering::Greater => true,
            Ordering::Less => false,
            _ if self.fit == Fit::Full => self.rise < than.rise,
            // None is as fast as asked for: the fastest comes nearest.
            _ => self.capacity > than.capacity,
        }
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(super) fn select_cpu(&mut self, id: u32, by: Option<usize>, sync: bool) -> usize {
        let task = &self.world.tasks[id as usize];
        let allowed = self.affinity[task.kind].as_ref();
        let prev = match allowed {
            Some(mask) if !mask.contains(task.cpu) => {
                mask.first_common(&[], task.cpu).expect("a task may run somewhere")
            }
            _ => task.cpu,
        };
        if self.places_by_energy() {
            if let Some(best) = self.energy_aware(id, prev, allowed) {
                return best;
            }
        }
        let by = by.filter(|&cpu| allowed.is_none_or(|mask| mask.contains(cpu)));
        let target = by.map_or(prev, |waker| self.wake_affine(waker, prev, sync));
        let wish = self.wish(id);
        let recent = task.recent_cpu;
        let (placed, has_looked) = self.idle_sibling(&wish, prev, target, recent, allowed);
        if has_looked {
            self.world.tasks[id as usize].recent_cpu = prev;
        }
        placed
    }

    /// `sched_is_eas_possible()`: without schedutil, or a policy that predicts as it does, nothing
    /// makes the prediction come true. While a CPU is overutilized, speed comes first.
    pub(super) fn places_by_energy(&self) -> bool {
        self.overutilized == 0
            && self.governed.as_ref().is_some_and(CpufreqInstance::predicts)
            && self.world.plan.topology.energy_model.is_some()
    }

    fn is_idle(&self, cpu: usize) -> bool {
        self.idle_cpus.contains(cpu)
    }

    /// `wake_affine_idle()`.
    fn wake_affine(&self, waker: usize, prev: usize, sync: bool) -> usize {
        if self.is_idle(waker) && self.world.plan.topology.shares_cache(waker, prev) {
            return if self.is_idle(prev) { prev } else { waker };
        }
        if sync && self.cpus[waker].queue.count() == 1 { waker } else { prev }
    }

    /// `select_idle_sibling()`, and whether it got as far as to the CPU used before.
    fn idle_sibling(
        &self,
        wish: &Wish,
        prev: usize,
        target: usize,
        recent: usize,
        allowed: Option<&CpuMask>,
    ) -> (usize, bool) {
        let topology = self.world.plan.topology;
        let fits_on = |cpu: usize| {
            let capacity = self.cpus[cpu].available;
            !topology.is_asymmetric || fit(wish.util, wish.clamp, capacity) == Fit::Full
        };
        let is_good = |cpu: usize| self.is_idle(cpu) && fits_on(cpu);
        if is_good(target) {
            return (target, false);
        }
        if prev != target && topology.shares_cache(prev, target) && is_good(prev) {
            return (prev, false);
        }
        let allowed = allowed.unwrap_or(&topology.online);
        let is_other = recent != prev && recent != target;
        if is_other
            && topology.shares_cache(recent, target)
            && allowed.contains(recent)
            && is_good(recent)
        {
            return (recent, true);
        }
        if topology.is_asymmetric {
            return (self.idle_capacity(wish, target, allowed), true);
        }
        let near = topology.cache_mask(target);
        if let Some(siblings) = topology.siblings.get(target) {
            // With no idle core, a thread of its own core (`select_idle_smt()`).
            let thread =
                || siblings.iter().copied().find(|&c| self.is_idle(c) && allowed.contains(c));
            let core = self.idle_core(&[near, allowed], target);
            if let Some(cpu) = core.or_else(thread) {
                return (cpu, true);
            }
        }
        (self.idle_cpus.first_common(&[near, allowed], target).unwrap_or(target), true)
    }

    /// `select_idle_core()`: the first idle CPU from `start` on whose core has no other at work.
    fn idle_core(&self, masks: &[&CpuMask], start: usize) -> Option<usize> {
        let topology = self.world.plan.topology;
        let is_whole = |cpu: usize| topology.siblings[cpu].iter().all(|other| self.is_idle(*other));
        let mut cpus = (start..topology.cpus).chain(0..start);
        cpus.find(|&cpu| {
            self.is_idle(cpu) && masks.iter().all(|mask| mask.contains(cpu)) && is_whole(cpu)
        })
    }

    /// `select_idle_capacity()`: the next idle CPU that fits, else the biggest of the idle ones that
    /// come nearest to it.
    fn idle_capacity(&self, wish: &Wish, target: usize, allowed: &CpuMask) -> usize {
        let topology = self.world.plan.topology;
        let mut nearest = (target, Fit::None, 0);
        for cpu in (target..topology.cpus).chain(0..target) {
            if !self.is_idle(cpu) || !allowed.contains(cpu) {
                continue;
            }
            let capacity = self.cpus[cpu].available;
            let fit = fit(wish.util, wish.clamp, capacity);
            if fit == Fit::Full {
                return cpu;
            }
            if (fit, capacity) > (nearest.1, nearest.2) {
                nearest = (cpu, fit, capacity);
            }
        }
        nearest.0
    }

    /// `find_energy_efficient_cpu()`: the last CPU, or of each domain the one with most to spare if
    /// that has more, wherever energy rises least; the last CPU if the task fits none. `None` without
    /// an energy model.
    ///
    /// FIDELITY(sched-eas): the prediction uses 6.12's schedutil, whichever release's it is.
    fn energy_aware(&self, id: u32, prev: usize, allowed: Option<&CpuMask>) -> Option<usize> {
        let topology = self.world.plan.topology;
        let model = topology.energy_model.as_ref()?;
        let (own, wish) = (self.world.tasks[id as usize].util(), self.wish(id));
        if wish.util == 0 && wish.clamp.min == 0 {
            return Some(prev);
        }
        let mut at_home: Option<Candidate> = None;
        let mut best: Option<Candidate> = None;
        // The kernel's list of domains begins with the last one.
        for (cluster, domain) in model.iter().enumerate().rev() {
            let is_home = topology.cluster_of[prev].0 == cluster;
            let fit_at = |cpu: usize| {
                let util = self.util_with(cpu, id, Some(cpu), false);
                (self.fit_of(cpu, util, &wish), self.spare(cpu, util, &wish))
            };
            let home = is_home.then(|| fit_at(prev)).filter(|(fit, _)| *fit != Fit::None);
            let spare = self.most_to_spare(cluster, prev, allowed, &fit_at);
            let spare = spare.filter(|(_, _, spare)| home.is_none_or(|(_, at)| *spare > at));
            let sum = topology.clusters[cluster].iter();
            let sum: u64 = sum.map(|&cpu| self.util_with(cpu, id, None, false)).sum();
            let all = u64::from(topology.capacity[topology.clusters[cluster][0]])
                * topology.clusters[cluster].len() as u64;
            let before =
                domain.energy(self.performance_with(cluster, id, None, &wish), sum.min(all));
            let candidate = |cpu: usize, fit: Fit| {
                let performance = self.performance_with(cluster, id, Some(cpu), &wish);
                let after = domain.energy(performance, (sum + own).min(all));
                let capacity = topology.capacity[cpu];
                Candidate { cpu, fit, rise: after.saturating_sub(before), capacity }
            };
            at_home = at_home.or(home.map(|(fit, _)| candidate(prev, fit)));
            let Some((cpu, fit, _)) = spare else { continue };
            let candidate = candidate(cpu, fit);
            if best.is_none_or(|best| candidate.is_better(&best)) {
                best = Some(candidate);
            }
        }
        let goes = best.filter(|best| at_home.is_none_or(|home| best.is_better(&home)));
        Some(goes.map_or(prev, |best| best.cpu))
    }

    /// `cpu_util()`: of a CPU, were the task on CPU `on` or on none. A boosted one counts what waits.
    fn util_with(&self, cpu: usize, id: u32, on: Option<usize>, is_boosted: bool) -> u64 {
        let (task, it) = (&self.world.tasks[id as usize], &self.cpus[cpu]);
        let is_on = on == Some(cpu);
        let change = |all: u64, own: u64| match (task.cpu == cpu, is_on) {
            (true, false) => all.saturating_sub(own),
            (false, true) => all + own,
            _ => all,
        };
        let (util, runnable) = it.load.averages();
        let mut util = change(util, task.load.util());
        if is_boosted {
            util = util.max(change(runnable, task.load.runnable()));
        }
        let expected = it.util_est + if is_on { task.util_est } else { 0 };
        util.max(expected).min(it.capacity)
    }

    /// `eenv_pd_max_util()`: the greatest performance that a CPU of the domain asks for, were the
    /// task on one of them, or on none.
    fn performance_with(&self, cluster: usize, id: u32, on: Option<usize>, wish: &Wish) -> u64 {
        let topology = self.world.plan.topology;
        let policy = self.governed.as_ref().expect("without, tasks are not placed by energy");
        let mut available = 0;
        for (place, &cpu) in topology.clusters[cluster].iter().enumerate() {
            let util = self.util_with(cpu, id, on, true);
            let clamp =
                if on == Some(cpu) { self.clamp_with(cpu, wish) } else { self.clamps[cpu].get() };
            // The task's boost counts on every CPU, whichever it is tried on, and before
            // `effective_cpu_util()`: so the patch has it.
            let util = util.max(self.boost.rq_boost(cpu)).max(wish.boost);
            let shown = CpufreqCpu {
                util,
                perf_min: self.boost.perf_min(cpu),
                uclamp_min: clamp.min.into(),
                uclamp_max: clamp.max.into(),
                ..CpufreqCpu::idle(cpu as u32, topology.capacity[cpu].into())
            };
            policy.show(cluster, place, shown);
            available = self.cpus[cpu].available;
        }
        // A fault ends the run once the event is over.
        let performance = u64::from(policy.performance(cluster).unwrap_or(0));
        // Of OPPs that heat has taken off nothing is to be had (`em_cpu_energy()`).
        let capacity = u64::from(topology.capacity[topology.clusters[cluster][0]]);
        if available < capacity { performance.min(available) } else { performance }
    }

    /// What a CPU with this utilization has left. A boost takes capacity as utilization does.
    fn spare(&self, cpu: usize, util: u64, wish: &Wish) -> u64 {
        let taken = util.max(wish.boost).max(self.boost.rq_boost(cpu));
        self.cpus[cpu].available.saturating_sub(taken)
    }

    /// The CPU of a domain with most to spare, of those that fit best, and how much; not `prev`,
    /// which is looked at anyway.
    fn most_to_spare(
        &self,
        cluster: usize,
        prev: usize,
        allowed: Option<&CpuMask>,
        fit_at: &dyn Fn(usize) -> (Fit, u64),
    ) -> Option<(usize, Fit, u64)> {
        let online = &self.world.plan.topology.online;
        let allowed = allowed.unwrap_or(online);
        let members = self.world.plan.topology.clusters[cluster].iter().copied();
        let others = members.filter(|&cpu| cpu != prev && allowed.contains(cpu));
        let others = others.map(|cpu| (cpu, fit_at(cpu))).filter(|(_, (fit, _))| *fit != Fit::None);
        // Of equals the first.
        let best = others.min_by_key(|&(_, at)| Reverse(at));
        best.map(|(cpu, (fit, spare))| (cpu, fit, spare))
    }

    /// Whether clamps and boosts have to be looked at at all.
    fn has_wishes(&self) -> bool {
        self.has_uclamp || self.boost.counts_in_placement
    }

    fn wish(&self, id: u32) -> Wish {
        let task = &self.world.tasks[id as usize];
        let own = task.uclamp;
        let clamp = Clamp { min: own.min.max(self.boost.task_uclamp_min(id)), ..own };
        let boost = self.boost.task_boost(id);
        Wish { util: task.util().max(boost), boost, clamp }
    }

    /// Of a runqueue, were the task on it: a CPU without tasks has let its own go.
    fn clamp_with(&self, cpu: usize, wish: &Wish) -> Clamp {
        let clamp = &self.clamps[cpu];
        if clamp.is_idle() { wish.clamp } else { clamp.get().join(wish.clamp) }
    }

    /// Whether a CPU fits that has `util` with the task.
    fn fit_of(&self, cpu: usize, util: u64, wish: &Wish) -> Fit {
        let capacity = self.cpus[cpu].available;
        if !self.has_wishes() {
            return fit(util, Clamp::NONE, capacity);
        }
        let boost = self.boost.rq_boost(cpu);
        fit(util.max(wish.util).max(boost), self.clamp_with(cpu, wish), capacity)
    }

    /// `find_idlest_cpu()`: an idle CPU near the parent, else the one with the fewest tasks.
    pub(super) fn select_cpu_for_new(&self, kind: usize, near: usize) -> usize {
        let topology = self.world.plan.topology;
        let allowed = self.affinity[kind].as_ref();
        let mask = allowed.unwrap_or(&topology.online);
        let masks = [topology.cache_mask(near), mask];
        if !topology.siblings.is_empty() {
            if let Some(cpu) = self.idle_core(&masks, near) {
                return cpu;
            }
        }
        let idle = self.idle_cpus.first_common(&masks, near);
        if let Some(cpu) = idle.or_else(|| self.idle_cpus.first_common(&[mask], near)) {
            return cpu;
        }
        match allowed {
            None => self.counts.least(),
            Some(mask) => mask
                .iter()
                .min_by_key(|cpu| self.counts.get(*cpu))
                .expect("a task may run somewhere"),
        }
    }
}
