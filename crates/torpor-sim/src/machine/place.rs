// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Where a task runs that becomes runnable (`select_task_rq_fair()`).
//!
//! FIDELITY(sched-wake-affine): between the waker's CPU and the task's last one, only idleness and
//! a waker about to sleep decide; the kernel also weighs the loads of both.
//! FIDELITY(sched-idle-search): the kernel limits its search for an idle CPU on big machines; here
//! the whole of those that share a cache is searched, 64 at a time. CPUs are cores: nothing here
//! knows of hardware threads.

use super::Machine;
use crate::record::Sink;
use crate::sched::{CpuMask, fits};
use torpor_engine::policy::Policy;

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(super) fn select_cpu(&self, id: u32, by: Option<usize>, sync: bool) -> usize {
        let task = &self.tasks[id as usize];
        let topology = self.plan.topology;
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
        self.idle_sibling(task.util(), prev, target, allowed)
    }

    fn is_idle(&self, cpu: usize) -> bool {
        self.idle_cpus.contains(cpu)
    }

    /// `wake_affine_idle()`.
    fn wake_affine(&self, waker: usize, prev: usize, sync: bool) -> usize {
        if self.is_idle(waker) && self.plan.topology.shares_cache(waker, prev) {
            return if self.is_idle(prev) { prev } else { waker };
        }
        if sync && self.cpus[waker].queue.count() == 1 { waker } else { prev }
    }

    /// `select_idle_sibling()`.
    fn idle_sibling(
        &self,
        util: u64,
        prev: usize,
        target: usize,
        allowed: Option<&CpuMask>,
    ) -> usize {
        let topology = self.plan.topology;
        let fits_on =
            |cpu: usize| !topology.is_asymmetric || fits(util, u64::from(topology.capacity[cpu]));
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
        let allowed = allowed.unwrap_or(&topology.all);
        if topology.is_asymmetric {
            return self.idle_capacity(util, target, allowed);
        }
        let near = topology.cache_mask(target);
        self.idle_cpus.first_common(&[near, allowed], target).unwrap_or(target)
    }

    /// `select_idle_capacity()`: an idle CPU that fits, else the biggest idle one.
    fn idle_capacity(&self, util: u64, target: usize, allowed: &CpuMask) -> usize {
        let topology = self.plan.topology;
        let mut biggest = target;
        for &cluster in &topology.by_capacity {
            let mask = &topology.cluster_masks[cluster];
            if let Some(cpu) = self.idle_cpus.first_common(&[mask, allowed], target) {
                if fits(util, u64::from(topology.capacity[cpu])) {
                    return cpu;
                }
                biggest = cpu;
            }
        }
        biggest
    }

    /// `find_energy_efficient_cpu()`: the last CPU, or the one with most to spare of each domain,
    /// wherever energy rises least. `None` if none fits.
    ///
    /// FIDELITY(sched-eas): the prediction goes by schedutil's rule although frequencies are fixed;
    /// a domain's sum counts what idle CPUs were when last looked at, as in the kernel.
    fn energy_aware(&self, id: u32, prev: usize, allowed: Option<&CpuMask>) -> Option<usize> {
        let topology = self.plan.topology;
        let model = topology.energy_model.as_ref()?;
        let task = &self.tasks[id as usize];
        let own = task.util();
        if own == 0 {
            return Some(prev);
        }
        let (home, home_place) = topology.cluster_of[task.cpu];
        let mut best: Option<(u64, usize)> = None;
        for (cluster, domain) in model.iter().enumerate() {
            let utils = &self.utils[cluster];
            let capacity = u64::from(self.plan.platform.clusters[cluster].capacity);
            // What the sleeping task has left behind on its last CPU is not the others'.
            let left = if cluster == home { task.load.util() } else { 0 };
            let util_of = |place: usize| {
                let util = u64::from(utils.get(place));
                if cluster == home && place == home_place {
                    util.saturating_sub(left)
                } else {
                    util
                }
            };
            let sum = utils.sum().saturating_sub(left);
            let mut busiest = utils.greatest();
            if cluster == home && busiest == home_place {
                let places = 0..topology.clusters[cluster].len();
                busiest = places.max_by_key(|p| util_of(*p)).expect("a cluster has a CPU");
            }
            let busiest = util_of(busiest);
            let before = domain.energy(busiest, sum);
            let spare = match allowed {
                None => Some(topology.clusters[cluster][utils.least()]),
                Some(mask) => topology.clusters[cluster]
                    .iter()
                    .copied()
                    .filter(|cpu| mask.contains(*cpu))
                    .min_by_key(|cpu| util_of(topology.cluster_of[*cpu].1)),
            };
            let at_home = (topology.cluster_of[prev].0 == cluster).then_some(prev);
            for cpu in [at_home, spare.filter(|cpu| *cpu != prev)].into_iter().flatten() {
                let with = util_of(topology.cluster_of[cpu].1) + own;
                if !fits(with, capacity) {
                    continue;
                }
                let rise = domain.energy(busiest.max(with), sum + own).saturating_sub(before);
                // On a tie the last CPU stays: its caches are warm.
                let is_better = best.is_none_or(|(least, at)| {
                    rise < least || (rise == least && cpu == prev && at != prev)
                });
                if is_better {
                    best = Some((rise, cpu));
                }
            }
        }
        best.map(|(_, cpu)| cpu)
    }

    /// `find_idlest_cpu()`: an idle CPU near the parent, else the one with the fewest tasks.
    pub(super) fn select_cpu_for_new(&self, kind: usize, near: usize) -> usize {
        let topology = self.plan.topology;
        let allowed = self.affinity[kind].as_ref();
        let mask = allowed.unwrap_or(&topology.all);
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
