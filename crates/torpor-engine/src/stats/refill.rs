// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Refill after idle states: how much longer a task's burst takes if its CPU comes from a deep state.
//!
//! Sleeps in a deep state are longer, and longer sleeps have other work after them. So each burst
//! after a deep state is matched with one after a shallow state: of the same task, on the same
//! cluster, at the same frequency, after about the same idle time, and as near in time as there is.
//! That leaves the governor's choice as the difference. Bursts before those show whether that is
//! so: a state cannot change what came before it.
//!
//! While a CPU leaves a deep state, requests can pile up, for which one burst works; no event shows a
//! wake-up of a task that is awake. A burst counts only if at most one interrupt of the CPU's own
//! came before it, and none in it. Unless its own interrupt woke the CPU, the interval includes
//! what could have come in the meantime at the rate of the pair's own idle times.

use super::{RefillStats, RefillVerdict};
use crate::timeline::{Change, Fold, Moment, Run};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use torpor_machine::platform::{Cluster, Platform};
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_result::interval::shift;
use torpor_trace::{EventKind, PrevState};

/// The capacity of the biggest CPU (`SCHED_CAPACITY_SCALE`).
const CAPACITY_SCALE: f64 = 1024.0;

/// Longest burst and idle time to match: a refill is lost in a longer burst.
const LONGEST: Duration = Duration(1_000_000_000);

/// Shallow bursts to look at on each side of a deep one.
const CANDIDATES_MAX: usize = 200;

/// A task's time on a CPU from its first switch after the CPU's idle time until it waits again.
#[derive(Clone, Copy, Debug)]
struct Burst {
    kind: Kind,
    /// The deepest state since the CPU's last task.
    state: usize,
    since: Instant,
    idle: Duration,
    length: Duration,
    before: Option<Before>,
}

/// What bursts have in common that may be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    pid: i32,
    cluster: usize,
    freq_khz: u32,
    /// The task came from another CPU.
    has_moved: bool,
    /// The CPU's own interrupt woke it, and nothing else did.
    is_own: bool,
}

/// The task's burst before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Before {
    cluster: usize,
    freq_khz: u32,
    state: Option<usize>,
    length: Duration,
}

#[derive(Clone, Copy, Default)]
struct Cpu {
    /// In kHz; 0 before the first event.
    freq_khz: u32,
    deepest: Option<usize>,
    /// Interrupts since the last sleep's begin; one within another does not count.
    interrupts: u32,
    /// Handlers that have not returned.
    nested: u32,
    /// The task's burst so far, if nothing has disturbed it.
    burst: Option<Open>,
}

#[derive(Clone, Copy)]
struct Open {
    pid: i32,
    since: Instant,
    /// State and idle time of the sleep before it, and whether the CPU's own interrupt ended it.
    sleep: Option<(usize, Duration, bool)>,
}

#[derive(Clone, Copy)]
struct Task {
    cpu: CpuId,
    before: Option<Before>,
}

/// Bursts of a recording of a known machine.
#[derive(Default)]
pub struct Bursts<'a> {
    platform: Option<&'a Platform>,
    cpus: Vec<Cpu>,
    tasks: HashMap<i32, Task>,
    found: Vec<Burst>,
}

/// A burst after a deep state, less one after a shallow state.
#[derive(Clone, Copy, Debug)]
struct Pair {
    refill_ns: i64,
    before_ns: Option<i64>,
    speed: f64,
    /// Work of the shallow burst for each ns of time between the begins of two bursts; 0 if no
    /// request can have come unseen.
    load: f64,
}

impl<'a> Bursts<'a> {
    pub fn new(platform: Option<&'a Platform>) -> Bursts<'a> {
        Bursts { platform, ..Bursts::default() }
    }

    fn cpu(&mut self, number: CpuId) -> &mut Cpu {
        if number.index() >= self.cpus.len() {
            self.cpus.resize(number.index() + 1, Cpu::default());
        }
        &mut self.cpus[number.index()]
    }

    /// Ends the burst of the task that leaves a CPU.
    fn leave(&mut self, number: CpuId, now: Instant, left: Run, why: PrevState) {
        let open = self.cpu(number).burst.take().filter(|open| open.pid == left.pid);
        let Some(cluster) = self.platform.and_then(|platform| platform.cluster_of(number)) else {
            return;
        };
        let freq_khz = self.cpu(number).freq_khz;
        let waits = matches!(why, PrevState::Sleeping | PrevState::DiskSleep);
        let last = self.tasks.get(&left.pid).copied();
        let before = open.filter(|_| waits).map(|open| {
            let (length, state) = (now.since(open.since), open.sleep.map(|(state, ..)| state));
            Before { cluster, freq_khz, state, length }
        });
        self.tasks.insert(left.pid, Task { cpu: number, before });
        if let (Some(Open { pid, since, sleep: Some((state, idle, is_own)) }), Some(own)) =
            (open, before)
        {
            if own.length > LONGEST || idle > LONGEST {
                return;
            }
            let has_moved = last.is_none_or(|task| task.cpu != number);
            let kind = Kind { pid, cluster, freq_khz, has_moved, is_own };
            let before = last.and_then(|task| task.before);
            self.found.push(Burst { kind, state, since, idle, length: own.length, before });
        }
    }

    /// Returns bursts by what they have in common, in order of time. Where frequencies are recorded,
    /// a burst at an unknown one is left out.
    fn by_kind(&self) -> BTreeMap<Kind, Vec<&Burst>> {
        let shown: BTreeSet<usize> = (self.found.iter())
            .filter(|burst| burst.kind.freq_khz > 0)
            .map(|burst| burst.kind.cluster)
            .collect();
        let mut kinds: BTreeMap<Kind, Vec<&Burst>> = BTreeMap::new();
        for burst in &self.found {
            if burst.kind.freq_khz > 0 || !shown.contains(&burst.kind.cluster) {
                kinds.entry(burst.kind).or_default().push(burst);
            }
        }
        kinds.values_mut().for_each(|bursts| bursts.sort_by_key(|burst| burst.since));
        kinds
    }

    /// Adds the pairs of this recording.
    fn add_pairs(&self, platform: &Platform, refills: &mut BTreeMap<(usize, usize), Refill>) {
        for (kind, bursts) in self.by_kind() {
            let cluster = &platform.clusters[kind.cluster];
            let speed = speed(cluster, kind.freq_khz);
            let (shallow, deep): (Vec<&Burst>, Vec<&Burst>) =
                bursts.into_iter().partition(|burst| is_shallow(cluster, burst.state));
            let mut by_state: BTreeMap<usize, Vec<&Burst>> = BTreeMap::new();
            deep.iter().for_each(|burst| by_state.entry(burst.state).or_default().push(burst));
            for (state, deep) in by_state {
                let refill = refills.entry((kind.cluster, state)).or_default();
                refill.bursts += deep.len() as u64;
                refill.lacks_frequency |= kind.freq_khz == 0;
                refill.pairs.extend(pairs(&deep, &shallow, speed));
            }
        }
    }
}

/// Returns true for states whose sleeps lose nothing: polling, and the shallowest other one.
fn is_shallow(cluster: &Cluster, state: usize) -> bool {
    state <= cluster.idle_states.iter().take_while(|state| state.is_polling()).count()
}

/// Returns the speed of a CPU, relative to the biggest one at its highest frequency.
fn speed(cluster: &Cluster, freq_khz: u32) -> f64 {
    let capacity = f64::from(cluster.capacity) / CAPACITY_SCALE;
    match (freq_khz, cluster.opps.last().map_or(0, |opp| opp.freq_khz)) {
        (0, _) | (_, 0) => capacity,
        (now, max) => capacity * (f64::from(now) / f64::from(max)).min(1.0),
    }
}

/// Matches each deep burst with the unmatched shallow one that is nearest in time, of those after a
/// similar idle time.
fn pairs(deep: &[&Burst], shallow: &[&Burst], speed: f64) -> Vec<Pair> {
    let mut is_free = vec![true; shallow.len()];
    let mut made = Vec::new();
    for burst in deep {
        let middle = shallow.partition_point(|other| other.since < burst.since);
        let near =
            middle.saturating_sub(CANDIDATES_MAX)..shallow.len().min(middle + CANDIDATES_MAX);
        let fits = |at: &usize| is_free[*at] && is_similar(burst.idle, shallow[*at].idle);
        let gap = |at: &usize| shallow[*at].since.since(burst.since).0.abs();
        let Some(at) = near.filter(fits).min_by_key(gap) else { continue };
        is_free[at] = false;
        let scaled = |ns: i64| libm::round(ns as f64 * speed) as i64;
        let before = burst
            .before
            .zip(shallow[at].before)
            .filter(|(ours, theirs)| Before { length: theirs.length, ..*ours } == *theirs);
        made.push(Pair {
            refill_ns: scaled((burst.length - shallow[at].length).0),
            before_ns: before.map(|(ours, theirs)| scaled((ours.length - theirs.length).0)),
            speed,
            load: match burst.kind.is_own {
                true => 0.0,
                false => {
                    let work = shallow[at].length.0 as f64 * speed;
                    work / (burst.idle + shallow[at].length).0.max(1) as f64
                }
            },
        });
    }
    made
}

/// Returns true for idle times within 25 %.
fn is_similar(one: Duration, other: Duration) -> bool {
    one.max(other).0 * 4 <= one.min(other).0 * 5
}

impl Fold for Bursts<'_> {
    fn take(&mut self, moment: &Moment<'_>) {
        let (event, number) = (moment.event, moment.event.cpu);
        match (event.kind, moment.change) {
            (EventKind::CpuFrequency { freq_khz }, _) => {
                let cpu = self.cpu(number);
                if std::mem::replace(&mut cpu.freq_khz, freq_khz) != freq_khz {
                    cpu.burst = None;
                }
            }
            (EventKind::CpuIdle { state }, Change::Slept { .. }) => {
                let cpu = self.cpu(number);
                (cpu.deepest, cpu.burst) = (cpu.deepest.max(state.index()), None);
                (cpu.interrupts, cpu.nested) = (0, 0);
            }
            (EventKind::IrqEntry { .. } | EventKind::InterruptEntry { .. }, _) => {
                let cpu = self.cpu(number);
                cpu.interrupts = cpu.interrupts.saturating_add(u32::from(cpu.nested == 0));
                (cpu.nested, cpu.burst) = (cpu.nested.saturating_add(1), None);
            }
            (EventKind::IrqExit { .. } | EventKind::InterruptExit { .. }, _) => {
                let cpu = self.cpu(number);
                cpu.nested = cpu.nested.saturating_sub(1);
            }
            (
                EventKind::SchedSwitch { prev_state, next_pid, .. },
                Change::Switched { left, before },
            ) => {
                if let Some(left) = left.filter(|run| run.pid != 0) {
                    self.leave(number, event.time, left, prev_state);
                }
                if next_pid == 0 {
                    return;
                }
                let cpu = self.cpu(number);
                // No task is switched in an interrupt: a handler's end was lost.
                cpu.nested = 0;
                let interrupts = cpu.interrupts;
                let deepest = cpu.deepest.take().filter(|_| interrupts <= 1);
                let sleep = before.zip(left).and_then(|(sleep, idle)| {
                    let is_own = interrupts == 1 && sleep.woken.is_none() && sleep.sent.is_none();
                    Some((deepest?, event.time.since(idle.since), is_own))
                });
                cpu.burst = Some(Open { pid: next_pid, since: event.time, sleep });
            }
            _ => {}
        }
    }

    fn held_bytes(&self) -> u64 {
        self.found.capacity().saturating_mul(size_of::<Burst>()) as u64
    }
}

/// What is known of a state's refill.
#[derive(Default)]
struct Refill {
    bursts: u64,
    lacks_frequency: bool,
    pairs: Vec<Pair>,
}

/// Returns the refill of each state, all recordings together.
pub(super) fn refills(platform: Option<&Platform>, read: &[Bursts<'_>]) -> Vec<RefillStats> {
    let Some(platform) = platform else { return Vec::new() };
    let mut found: BTreeMap<(usize, usize), Refill> = BTreeMap::new();
    read.iter().for_each(|bursts| bursts.add_pairs(platform, &mut found));
    let tests = found.len();
    let of = |(&(cluster, state), refill): (&(usize, usize), &Refill)| {
        refill.stats(&platform.clusters[cluster], state, tests)
    };
    found.iter().map(of).collect()
}

impl Refill {
    fn stats(&self, cluster: &Cluster, state: usize, tests: usize) -> RefillStats {
        let all = |of: fn(&Pair) -> Option<i64>| self.pairs.iter().filter_map(of).collect();
        let lengths: Vec<i64> = all(|pair| Some(pair.refill_ns));
        let earlier: Vec<i64> = all(|pair| pair.before_ns);
        let before = shift(&earlier, 1);
        let of_state = cluster.idle_states.get(state);
        let refill = shift(&lengths, tests).map(|found| {
            let exit = of_state.map_or(Duration::ZERO, |state| state.latency);
            let low = found.low - self.piled_up_ns(exit, found.high);
            (found.difference, low, found.high)
        });
        let verdict = match refill {
            None => RefillVerdict::TooFew,
            Some((_, _, high)) if high < 0.0 => RefillVerdict::Confounded,
            Some((_, low, _)) if low <= 0.0 => RefillVerdict::NotSeparable,
            Some(_) if before.is_some_and(|found| found.low > 0.0) => RefillVerdict::Confounded,
            Some(_) => RefillVerdict::Measured,
        };
        let ns = |value: f64| libm::round(value) as i64;
        RefillStats {
            cluster: cluster.name.clone(),
            state,
            name: of_state.map(|state| state.name.clone()),
            bursts: self.bursts,
            pairs: self.pairs.len() as u64,
            refill_ns: refill.map(|(middle, ..)| ns(middle)),
            low_ns: refill.map(|(_, low, _)| ns(low)),
            high_ns: refill.map(|(.., high)| ns(high)),
            before_pairs: earlier.len() as u64,
            before_ns: before.map(|found| ns(found.difference)),
            before_low_ns: before.map(|found| ns(found.low)),
            before_high_ns: before.map(|found| ns(found.high)),
            has_frequency: !self.lacks_frequency,
            verdict,
        }
    }

    /// Returns the mean work for requests that can have come unseen while a CPU left the state and
    /// refilled.
    fn piled_up_ns(&self, exit: Duration, refill_ns: f64) -> f64 {
        let later = |pair: &Pair| exit.0 as f64 + refill_ns.max(0.0) / pair.speed;
        let sum: f64 = self.pairs.iter().map(|pair| pair.load * later(pair)).sum();
        sum / self.pairs.len().max(1) as f64
    }
}
