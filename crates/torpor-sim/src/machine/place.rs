// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Where a task runs that becomes runnable (`select_task_rq_fair()`).
//!
//! FIDELITY(sched-wake-affine): between the waker's CPU and the task's last one, only idleness and
//! a waker about to sleep decide; the kernel also weighs the loads of both.
//! FIDELITY(sched-idle-search): the kernel limits its search for an idle CPU on big machines; here
//! the whole of those that share a cache is searched, 64 at a time. CPUs are cores: nothing here
//! knows of hardware threads.

use super::{Machine, Sink};
use crate::cpufreq::{CpuDemand, Release, with_headroom};
use crate::sched::{Clamp, CpuMask, Fit, Tournament, fit};
use std::cmp::{Ordering, Reverse};
use torpor_engine::policy::Policy;

/// What placement takes a task for.
struct Wish {
    /// Its own, and its boost if that is more.
    util: u64,
    boost: u64,
    clamp: Clamp,
}

/// A CPU that the task fits, and by how much the energy rises with it there.
#[derive(Clone, Copy)]
struct Candidate {
    cpu: usize,
    fit: Fit,
    rise: u64,
    capacity: u32,
}

impl Candidate {
    fn is_better(&self, best: &Candidate, prev: usize) -> bool {
        // On a tie the last CPU stays: its caches are warm.
        let stays = self.cpu == prev;
        match self.fit.cmp(&best.fit) {
            Ordering::Greater => true,
            Ordering::Less => false,
            _ if self.fit == Fit::Full => {
                self.rise < best.rise || (self.rise == best.rise && stays && best.cpu != prev)
            }
            // None is as fast as asked for: the fastest comes nearest.
            _ => self.capacity > best.capacity || (self.capacity == best.capacity && stays),
        }
    }
}

/// Utilizations of a domain's CPUs, less what one task has left on one of them.
struct View<'a> {
    cluster: usize,
    utils: &'a Tournament,
    left: Option<(usize, u64)>,
}

impl View<'_> {
    fn util(&self, place: usize) -> u64 {
        let util = u64::from(self.utils.get(place));
        match self.left {
            Some((home, left)) if home == place => util.saturating_sub(left),
            _ => util,
        }
    }

    fn sum(&self) -> u64 {
        self.utils.sum().saturating_sub(self.left.map_or(0, |(_, left)| left))
    }

    fn greatest(&self) -> u64 {
        let busiest = self.utils.greatest();
        match self.left {
            Some((home, _)) if home == busiest => {
                (0..self.utils.count()).map(|place| self.util(place)).max().unwrap_or(0)
            }
            _ => self.util(busiest),
        }
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(super) fn select_cpu(&self, id: u32, by: Option<usize>, sync: bool) -> usize {
        let task = &self.world.tasks[id as usize];
        let topology = self.world.plan.topology;
        let allowed = self.affinity[task.kind].as_ref();
        let prev = match allowed {
            Some(mask) if !mask.contains(task.cpu) => {
                mask.first_common(&[], task.cpu).expect("a task may run somewhere")
            }
            _ => task.cpu,
        };
        if topology.energy_model.is_some()
            && self.overutilized == 0
            && let Some(best) = self.energy_aware(id, prev, allowed)
        {
            return best;
        }
        let by = by.filter(|&cpu| allowed.is_none_or(|mask| mask.contains(cpu)));
        let target = by.map_or(prev, |waker| self.wake_affine(waker, prev, sync));
        self.idle_sibling(&self.wish(id), prev, target, allowed)
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

    /// `select_idle_sibling()`.
    fn idle_sibling(
        &self,
        wish: &Wish,
        prev: usize,
        target: usize,
        allowed: Option<&CpuMask>,
    ) -> usize {
        let topology = self.world.plan.topology;
        let fits_on = |cpu: usize| {
            let capacity = topology.capacity[cpu].into();
            !topology.is_asymmetric || fit(wish.util, wish.clamp, capacity) == Fit::Full
        };
        if self.is_idle(target) && fits_on(target) {
            return target;
        }
        if prev != target
            && topology.shares_cache(prev, target)
            && self.is_idle(prev)
            && fits_on(prev)
        {
            return prev;
        }
        let allowed = allowed.unwrap_or(&topology.online);
        if topology.is_asymmetric {
            return self.idle_capacity(wish, target, allowed);
        }
        let near = topology.cache_mask(target);
        self.idle_cpus.first_common(&[near, allowed], target).unwrap_or(target)
    }

    /// `select_idle_capacity()`: an idle CPU that fits, else the biggest of the idle ones that come
    /// nearest to it.
    fn idle_capacity(&self, wish: &Wish, target: usize, allowed: &CpuMask) -> usize {
        let topology = self.world.plan.topology;
        let (mut nearest, mut nearest_fit) = (target, Fit::None);
        for &cluster in &topology.by_capacity {
            let mask = &topology.cluster_masks[cluster];
            if let Some(cpu) = self.idle_cpus.first_common(&[mask, allowed], target) {
                let fit = fit(wish.util, wish.clamp, topology.capacity[cpu].into());
                if fit == Fit::Full {
                    return cpu;
                }
                if fit >= nearest_fit {
                    (nearest, nearest_fit) = (cpu, fit);
                }
            }
        }
        nearest
    }

    /// `find_energy_efficient_cpu()`: the last CPU, or the one with most to spare of each domain,
    /// wherever energy rises least. `None` if none fits.
    ///
    /// FIDELITY(sched-eas): the prediction goes by 6.12's schedutil whatever sets the frequencies;
    /// a domain's sum counts what idle CPUs were when last looked at, as in the kernel.
    fn energy_aware(&self, id: u32, prev: usize, allowed: Option<&CpuMask>) -> Option<usize> {
        let topology = self.world.plan.topology;
        let model = topology.energy_model.as_ref()?;
        let (own, wish) = (self.world.tasks[id as usize].util(), self.wish(id));
        if wish.util == 0 && wish.clamp.min == 0 {
            return Some(prev);
        }
        let mut best: Option<Candidate> = None;
        for (cluster, domain) in model.iter().enumerate() {
            let view = self.without(id, cluster);
            let sum = view.sum();
            let before = domain.energy(self.performance_with(&view, None, &wish), sum);
            let spare = self.most_to_spare(&view, prev, allowed, own, &wish);
            let at_home = (topology.cluster_of[prev].0 == cluster).then_some(prev);
            for cpu in [at_home, spare.filter(|cpu| *cpu != prev)].into_iter().flatten() {
                let util = view.util(topology.cluster_of[cpu].1) + own;
                let fit = self.fit_of(cpu, util, &wish);
                if fit == Fit::None {
                    continue;
                }
                let performance = self.performance_with(&view, Some((cpu, util)), &wish);
                let rise = domain.energy(performance, sum + own).saturating_sub(before);
                let candidate = Candidate { cpu, fit, rise, capacity: topology.capacity[cpu] };
                if best.is_none_or(|best| candidate.is_better(&best, prev)) {
                    best = Some(candidate);
                }
            }
        }
        best.map(|best| best.cpu)
    }

    /// Utilizations of a domain without those of a task that is about to be placed.
    fn without(&self, id: u32, cluster: usize) -> View<'_> {
        let task = &self.world.tasks[id as usize];
        let (home, place) = self.world.plan.topology.cluster_of[task.cpu];
        // What the sleeping task has left behind on its last CPU is not the others'.
        let left = (cluster == home).then(|| (place, task.load.util()));
        View { cluster, utils: &self.utils[cluster], left }
    }

    /// `eenv_pd_max_util()`: the greatest performance that a CPU of the domain asks for, with the
    /// task on one of them that has `util` then.
    fn performance_with(&self, view: &View<'_>, with: Option<(usize, u64)>, wish: &Wish) -> u64 {
        if !self.has_wishes() {
            return with_headroom(view.greatest().max(with.map_or(0, |(_, util)| util)));
        }
        let topology = self.world.plan.topology;
        let of_cpu = |(place, &cpu): (usize, &usize)| {
            let (mut util, mut clamp) = (view.util(place), self.clamps[cpu].get());
            if let Some((_, with)) = with.filter(|(at, _)| *at == cpu) {
                util = with;
                clamp = self.clamp_with(cpu, wish);
            }
            // The task's boost counts on every CPU, whichever it is tried on, and before
            // `effective_cpu_util()`: so the patch has it.
            let util = util.max(self.boost.rq_boost(cpu)).max(wish.boost);
            let perf_min = self.boost.perf_min(cpu);
            let capacity = topology.capacity[cpu].into();
            CpuDemand { util, boost: 0, perf_min, clamp, capacity }.performance(Release::V6_12)
        };
        topology.clusters[view.cluster].iter().enumerate().map(of_cpu).max().unwrap_or(0)
    }

    /// The CPU of a domain with most to spare, of those that fit best; not `prev`, which is looked
    /// at anyway, unless there is nothing to choose.
    fn most_to_spare(
        &self,
        view: &View<'_>,
        prev: usize,
        allowed: Option<&CpuMask>,
        own: u64,
        wish: &Wish,
    ) -> Option<usize> {
        let topology = self.world.plan.topology;
        let place_of = |cpu: usize| topology.cluster_of[cpu].1;
        let members = &topology.clusters[view.cluster];
        if !self.has_wishes() && allowed.is_none() {
            return Some(members[view.utils.least()]);
        }
        let may = |cpu: &usize| allowed.is_none_or(|mask| mask.contains(*cpu));
        if !self.has_wishes() {
            return members.iter().copied().filter(may).min_by_key(|cpu| view.util(place_of(*cpu)));
        }
        members.iter().copied().filter(|cpu| may(cpu) && *cpu != prev).min_by_key(|&cpu| {
            // A boost takes spare capacity as utilization does: below it CPUs are alike.
            let util = view.util(place_of(cpu)) + own;
            let taken = util.max(wish.boost).max(self.boost.rq_boost(cpu));
            (Reverse(self.fit_of(cpu, util, wish)), taken)
        })
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
        let capacity = self.world.plan.topology.capacity[cpu].into();
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
        let idle = self.idle_cpus.first_common(&[topology.cache_mask(near), mask], near);
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
