// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Holds Torpor's own scheduler against a hosted kernel, decision by decision: the kernel decides,
//! and our code is asked the same question of the same machine, as the kernel saw it. So one
//! difference does not bring about the next.

use super::super::{Machine, Plan};
use crate::machine::task::Task;
use crate::sched::{Entity, FairQueue};
use std::collections::{BTreeMap, BTreeSet};
use torpor_engine::decision::Unobserved;
use torpor_engine::policy::Script;
use torpor_governor::CpufreqInstance;
use torpor_kernel::{Contest, Decided, SeenCpu};
use torpor_units::{Duration, Instant};

/// Times nearer than this are the same, and so are all beyond: no idle state needs to know.
const NEAR_US: f64 = 1.0;
const FAR: Duration = Duration(100_000_000);

/// What two deciders make of the same questions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    pub asked: u64,
    pub equal: u64,
    /// Of the rest: how far Torpor's is from the kernel's, in the kind's own unit, sorted.
    pub off: Vec<f64>,
}

impl Score {
    fn count(&mut self, is_equal: bool, off: f64) {
        self.asked += 1;
        if is_equal {
            self.equal += 1;
        } else {
            self.off.push(off);
        }
    }

    pub fn equal_pct(&self) -> f64 {
        100.0 * self.equal as f64 / self.asked.max(1) as f64
    }

    /// The median of those that are not equal.
    pub fn typical_off(&self) -> Option<f64> {
        let mut off = self.off.clone();
        off.sort_by(f64::total_cmp);
        off.get(off.len() / 2).copied()
    }
}

/// By kind of decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The CPU of a task that wakes and is placed; off by capacity.
    pub placement: Score,
    /// The same, by the first choice that differs: cluster for cluster.
    pub cluster: Score,
    /// Whether it is placed at all: 6.12 leaves some on their queue. Torpor's places all; off is 1
    /// where it would have chosen another CPU.
    pub kept: Score,
    /// Whether a woken task preempts; 1 if the kernel alone does, -1 if Torpor's alone does.
    pub preemption: Score,
    /// Whether the machine counts as overutilized; 1 if for the kernel alone.
    pub overutilized: Score,
    /// The frequency that schedutil goes to; Torpor's over the kernel's.
    pub frequency: Score,
    /// The next timer of a sleep without tick; Torpor's less the kernel's, in µs.
    pub next_timer: Score,
    /// Sleeps as the kernel counts them, and as the hardware has seen them: not where a CPU wakes and
    /// sleeps again within one call.
    pub sleeps: u64,
    pub seen_sleeps: u64,
}

pub(super) struct Judge<'a> {
    machine: Machine<'a, Script, Unobserved>,
    /// What Torpor's has chosen for a task that wakes.
    waking: BTreeMap<usize, Asked>,
    /// When the timers of tasks that sleep expire, by the CPU that they were set on.
    timers: Vec<BTreeSet<(Instant, usize)>>,
    set_on: BTreeMap<usize, (usize, Instant)>,
    /// What Torpor's expects of the sleep that each CPU is in.
    next: Vec<Option<Instant>>,
    pub verdict: Verdict,
}

struct Asked {
    choice: usize,
    is_queued: bool,
    is_pinned: bool,
    /// CPUs that were to look at their queues anyway.
    resched: Vec<bool>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(plan: &'a Plan<'a>, cpufreq: Option<CpufreqInstance>) -> Judge<'a> {
        let cpus = plan.topology.cpus;
        let mut machine = Machine::new(plan, Script::default(), Unobserved);
        if let Some(policy) = cpufreq {
            machine = machine.with_cpufreq(policy);
        }
        machine.keeps_utils = true;
        Judge {
            machine,
            waking: BTreeMap::new(),
            timers: vec![BTreeSet::new(); cpus],
            set_on: BTreeMap::new(),
            next: vec![None; cpus],
            verdict: Verdict::default(),
        }
    }

    /// The machine as the kernel sees it.
    fn show(&mut self, seen: &[SeenCpu]) {
        for (number, seen) in seen.iter().enumerate() {
            let cpu = &mut self.machine.cpus[number];
            cpu.load.assume(seen.util_avg.into(), seen.runnable_avg.into());
            cpu.util_est = seen.util_est.into();
            cpu.queue = FairQueue::default();
            for task in 0..seen.nr_running {
                cpu.queue.add(task, &Entity::new(1024));
            }
            if seen.is_idle != 0 {
                self.machine.idle_cpus.insert(number);
            } else {
                self.machine.idle_cpus.remove(number);
            }
            self.machine.publish_util(number);
            self.machine.publish_count(number);
        }
    }

    /// `task` is what the workload knows of it, and `id` its number there.
    pub(super) fn decided(&mut self, decided: &Decided, id: Option<u32>, task: Option<&Task>) {
        match decided {
            Decided::Waking {
                task: number,
                by,
                prev,
                recent,
                util_avg,
                runnable_avg,
                util_est,
                is_queued,
                is_overutilized,
                cpus,
            } => {
                let (Some(id), Some(task)) = (id, task) else { return };
                self.woke(number.0);
                self.show(cpus);
                let tasks = &mut self.machine.world.tasks;
                while tasks.len() <= id as usize {
                    tasks.push(task.clone());
                }
                let own = &mut tasks[id as usize];
                *own = task.clone();
                own.cpu = prev.index();
                own.recent_cpu = recent.index();
                own.load.assume((*util_avg).into(), (*runnable_avg).into());
                own.util_est = (*util_est).into();
                let ours = self.machine.overutilized > 0;
                let off = if *is_overutilized { 1.0 } else { -1.0 };
                if self.machine.governed.is_some()
                    && self.machine.world.plan.topology.energy_model.is_some()
                {
                    self.verdict.overutilized.count(ours == *is_overutilized, off);
                }
                let counted = self.machine.overutilized;
                self.machine.overutilized = usize::from(*is_overutilized);
                let choice = self.machine.select_cpu(id, Some(by.index()), false);
                self.machine.overutilized = counted;
                let pinned = self.machine.affinity[task.kind].as_ref();
                let asked = Asked {
                    choice,
                    is_queued: *is_queued,
                    is_pinned: pinned.is_some_and(|mask| mask.iter().nth(1).is_none()),
                    resched: cpus.iter().map(|cpu| cpu.needs_resched != 0).collect(),
                };
                self.waking.insert(number.0, asked);
            }
            Decided::Woken { task, on, contest } => {
                let Some(asked) = self.waking.remove(&task.0) else { return };
                self.woken(&asked, on.index(), *contest);
            }
            Decided::Frequency { cpu, khz, cpus } => self.frequency(cpu.index(), *khz, cpus),
        }
    }

    fn woken(&mut self, asked: &Asked, on: usize, contest: Option<Contest>) {
        let topology = self.machine.world.plan.topology;
        let verdict = &mut self.verdict;
        if !asked.is_pinned {
            let is_equal = asked.choice == on;
            verdict.kept.count(!asked.is_queued || is_equal, 1.0);
            if !asked.is_queued {
                let capacity = |cpu: usize| f64::from(topology.capacity[cpu]);
                verdict.placement.count(is_equal, capacity(asked.choice) - capacity(on));
                let cluster = |cpu: usize| topology.cluster_of[cpu].0;
                let is_near = cluster(asked.choice) == cluster(on);
                verdict.cluster.count(is_near, capacity(asked.choice) - capacity(on));
            }
        }
        if let Some(contest) = contest.filter(|_| !asked.resched[on]) {
            let ours = preempts(&contest);
            let off = if contest.preempts { 1.0 } else { -1.0 };
            self.verdict.preemption.count(ours == contest.preempts, off);
        }
    }

    fn frequency(&mut self, cpu: usize, khz: u32, cpus: &[SeenCpu]) {
        // schedutil's boost of what waits for IO is not shown.
        if !self.machine.world.devices.is_empty() {
            return;
        }
        self.show(cpus);
        let topology = self.machine.world.plan.topology;
        let cluster = topology.cluster_of[cpu].0;
        if self.machine.governed.is_none() || self.machine.domains[cluster].freqs_khz.is_empty() {
            return;
        }
        self.machine.show_domain(cluster);
        let Some(policy) = &mut self.machine.governed else { return };
        // It remembers nothing of the last question.
        policy.restart(cluster).expect("it has started before");
        let place = topology.cluster_of[cpu].1;
        let opp = policy.update(cluster, place, Instant(0), false);
        let opp = opp.unwrap_or_else(|fault| panic!("{fault}")).unwrap_or(0);
        let theirs = usize::from(self.machine.domains[cluster].opp_of(khz));
        let khz_of = |opp: usize| f64::from(self.machine.domains[cluster].freqs_khz[opp]);
        self.verdict.frequency.count(opp == theirs, khz_of(opp) / khz_of(theirs));
    }

    /// A task has set its timer on a CPU.
    pub(super) fn sleeps_until(&mut self, cpu: usize, number: usize, expires: Instant) {
        self.woke(number);
        self.timers[cpu].insert((expires, number));
        self.set_on.insert(number, (cpu, expires));
    }

    pub(super) fn woke(&mut self, number: usize) {
        if let Some((cpu, expires)) = self.set_on.remove(&number) {
            self.timers[cpu].remove(&(expires, number));
        }
    }

    /// A CPU has gone to sleep.
    pub(super) fn sleeps(&mut self, cpu: usize) {
        let first = self.timers[cpu].first().map_or(Instant::NEVER, |(at, _)| *at);
        self.next[cpu] = Some(first);
    }

    /// A sleep is over for which its timer was set so at `now`.
    pub(super) fn slept(&mut self, cpu: usize, now: Instant, timer: Instant, tick_stopped: bool) {
        let Some(ours) = self.next[cpu].take().filter(|_| tick_stopped) else { return };
        let [ours, theirs] =
            [ours, timer].map(|at| at.since(now).0.clamp(0, FAR.0) as f64 / 1_000.0);
        self.verdict.next_timer.count((ours - theirs).abs() <= NEAR_US, ours - theirs);
    }
}

/// Our answer on a queue of four: the CPU's task, the woken one, the first of those that wait, and one
/// that stands for all others and comes last.
fn preempts(contest: &Contest) -> bool {
    let entity = |vruntime, deadline, weight| Entity { vruntime, deadline, ..Entity::new(weight) };
    let woken = entity(contest.vruntime, contest.deadline, contest.weight);
    let mut running = entity(contest.curr_vruntime, contest.curr_deadline, contest.curr_weight);
    running.slice_end = contest.curr_deadline - i64::from(!contest.is_protected);
    let mut queue = FairQueue::default();
    queue.add(0, &running);
    queue.pick();
    queue.add(1, &woken);
    let first = entity(contest.first_vruntime, contest.first_deadline, contest.first_weight);
    if first.weight > 0 {
        queue.add(2, &first);
    }
    let known = [&running, &woken, &first];
    let others = i128::from(contest.queue_weight)
        - known.iter().map(|of| i128::from(of.weight)).sum::<i128>();
    if others > 0 {
        let all = i128::from(contest.virtual_time) * i128::from(contest.queue_weight);
        let part = |of: &&Entity| i128::from(of.vruntime) * i128::from(of.weight);
        let vruntime = (all - known.iter().map(part).sum::<i128>()) / others;
        queue.add(3, &entity(vruntime as i64, i64::MAX, others as u32));
    }
    queue.preempts(&running, &woken)
}
