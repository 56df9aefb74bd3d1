// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A cluster's power, split among its CPUs where all of them may rest.

use super::Credit;
use crate::cluster::static_powers;
use crate::input::{CpuInput, Span};
use crate::model::CpuModel;
use torpor_machine::platform::Cluster;
use torpor_machine::units::{Duration, Energy, Instant, Power};
use torpor_result::DeepTimes;

/// The CPUs of a cluster, over the replayed span.
pub struct Members<'a> {
    pub cluster: &'a Cluster,
    pub cpus: Vec<(&'a CpuModel, &'a CpuInput)>,
    pub span: (Instant, Instant),
}

pub(super) type Times = Vec<(Instant, Instant)>;

/// A time in which all CPUs may rest.
#[derive(Clone, Debug)]
struct Segment {
    from: Instant,
    to: Instant,
    power: Power,
    /// By CPU; the sum is the cluster's power. Zero for CPUs that rest anyway.
    parts: Vec<Power>,
    /// The least credit at which resting pays for each CPU, by its own idle time; `None` for CPUs
    /// that rest anyway.
    wants: Vec<Option<f64>>,
}

pub(super) struct Segments {
    /// In order of time.
    segments: Vec<Segment>,
    /// Energy that no CPU is credited with: the cluster's, without what it takes while all rest
    /// anyway.
    unshared: Energy,
    /// Time of each CPU without its cut sleeps.
    free: Times,
    powers: Vec<(Instant, Instant, Power)>,
}

impl Segments {
    /// Splits the power by what resting costs each CPU.
    pub(super) fn new(members: &Members<'_>) -> Segments {
        let (cpus, span) = (&members.cpus, members.span);
        let inputs: Vec<&CpuInput> = cpus.iter().map(|(_, input)| *input).collect();
        let powers = static_powers(members.cluster, &inputs, span);
        let windows: Vec<Vec<Window>> =
            cpus.iter().map(|(model, input)| windows(model, input, span)).collect();
        let mut moments: Vec<Instant> = powers.iter().flat_map(|p| [p.0, p.1]).collect();
        moments.extend(windows.iter().flatten().flat_map(|w| [w.from, w.to]));
        // Stable, as that merges runs that are in order already.
        moments.sort();
        moments.dedup();
        let all: Energy = powers.iter().map(|(from, to, power)| power.over(to.since(*from))).sum();
        let free = cpus.iter().map(|(_, input)| {
            let [(_, from), (to, _)] = input.cut.within(span);
            (from, to)
        });
        let mut found =
            Segments { segments: Vec::new(), unshared: all, free: free.collect(), powers };
        let mut at = vec![0; cpus.len()];
        let mut wants = Vec::with_capacity(cpus.len());
        let mut piece = 0;
        for pair in moments.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            while found.powers.get(piece).is_some_and(|(_, ends, _)| *ends <= from) {
                piece += 1;
            }
            let Some(&(begins, _, power)) = found.powers.get(piece) else { break };
            wants.clear();
            wants.extend(at.iter_mut().zip(&windows).map_while(|(at, windows)| {
                while windows.get(*at).is_some_and(|window| window.to <= from) {
                    *at += 1;
                }
                windows.get(*at).filter(|window| window.from <= from).map(|window| window.wants)
            }));
            if wants.len() < cpus.len() {
                continue;
            }
            if begins > from || power <= Power::ZERO {
                continue;
            }
            if wants.iter().all(Option::is_none) {
                found.unshared -= power.over(to.since(from));
                continue;
            }
            let parts = split(power, &wants);
            found.segments.push(Segment { from, to, power, parts, wants: wants.clone() });
        }
        found
    }

    /// Returns the power that is saved if all CPUs rest whenever they may.
    pub(super) fn most(members: &Members<'_>, powers: &[(Instant, Instant, Power)]) -> Credit {
        let mut all: Option<Times> = None;
        for (model, input) in &members.cpus {
            let windows = windows(model, input, members.span);
            let own: Times = windows.iter().map(|window| (window.from, window.to)).collect();
            all = Some(all.map_or_else(|| own.clone(), |all| overlap(&all, &own)));
        }
        whole(powers, &all.unwrap_or_default())
    }

    pub(super) fn unshared(&self) -> Energy {
        self.unshared
    }

    pub(super) fn credit(&self, cpu: usize) -> Credit {
        let mut credit = Credit::default();
        for segment in &self.segments {
            credit.push(segment.from, segment.to, segment.parts[cpu]);
        }
        credit
    }

    /// Returns a CPU's credit if it has the whole power, and the others rest at these times.
    pub(super) fn credit_during(&self, cpu: usize, times: &Times) -> Credit {
        whole(&self.powers, &overlap(&[self.free[cpu]], times))
    }

    /// Returns what the cluster saves while all CPUs rest, which they do at these times.
    pub(super) fn saved(&self, times: &Times) -> Energy {
        whole(&self.powers, times).upto(Instant::NEVER)
    }

    /// Divides segments where a rest begins or ends.
    pub(super) fn refine(&mut self, deep: &[DeepTimes]) {
        let mut moments: Vec<Instant> =
            deep.iter().flat_map(DeepTimes::iter).flat_map(|(from, to)| [from, to]).collect();
        moments.sort_unstable();
        moments.dedup();
        let mut fine = Vec::with_capacity(self.segments.len());
        for segment in self.segments.drain(..) {
            let first = moments.partition_point(|&at| at <= segment.from);
            let inside = moments[first..].iter().take_while(|&&at| at < segment.to);
            let mut from = segment.from;
            for &to in inside.chain([&segment.to]) {
                fine.push(Segment { from, to, ..segment.clone() });
                from = to;
            }
        }
        self.segments = fine;
    }

    /// Splits the power so that plans with these rests are credited only while all rest.
    pub(super) fn fit(&mut self, deep: &[DeepTimes]) {
        let shares = self.shares(deep);
        for (segment, shares) in self.segments.iter_mut().zip(shares) {
            let awake: Vec<Option<f64>> = segment
                .wants
                .iter()
                .zip(&shares)
                .map(|(wants, share)| wants.filter(|_| *share < 0.5))
                .collect();
            let all_rest = awake.iter().all(Option::is_none);
            segment.parts = split(segment.power, if all_rest { &segment.wants } else { &awake });
        }
    }

    /// Takes one step along the subgradient, with Polyak's length; `gap` is the difference of the
    /// bounds.
    pub(super) fn correct(&mut self, deep: &[DeepTimes], gap: Energy) {
        let shares = self.shares(deep);
        let mut squares = 0.0;
        let directions: Vec<Vec<f64>> = self
            .segments
            .iter()
            .zip(shares)
            .map(|(segment, shares)| {
                let free = || shares.iter().zip(&segment.wants).filter(|(_, w)| w.is_some());
                let mean = free().map(|(share, _)| share).sum::<f64>() / free().count() as f64;
                let length = segment.to.since(segment.from).0 as f64;
                let towards = |(share, wants): (&f64, &Option<f64>)| {
                    let towards = if wants.is_some() { mean - share } else { 0.0 };
                    squares += length * towards * towards;
                    towards
                };
                shares.iter().zip(&segment.wants).map(towards).collect()
            })
            .collect();
        if squares <= 0.0 {
            return;
        }
        let step = gap.0 as f64 / squares;
        for (segment, towards) in self.segments.iter_mut().zip(directions) {
            if towards.iter().all(|towards| *towards == 0.0) {
                continue;
            }
            let step = step.min(segment.power.0 as f64);
            let moved = segment.parts.iter().zip(&towards).zip(&segment.wants);
            let moved = moved.map(|((part, towards), wants)| {
                wants.map(|_| (part.0 as f64 + step * towards).max(0.0))
            });
            segment.parts = in_proportion(segment.power, &moved.collect::<Vec<_>>());
        }
    }

    /// Returns the share of each segment in which each CPU rests.
    fn shares(&self, deep: &[DeepTimes]) -> Vec<Vec<f64>> {
        let mut rests: Vec<_> = deep.iter().map(|deep| deep.iter().peekable()).collect();
        let share = |segment: &Segment| {
            let length = segment.to.since(segment.from).0 as f64;
            let of = |rests: &mut std::iter::Peekable<_>| {
                let mut time = Duration::ZERO;
                while let Some(&(from, to)) = rests.peek() {
                    let (from, until): (Instant, Instant) = (from, to);
                    let within = until.min(segment.to).since(from.max(segment.from));
                    time += within.max(Duration::ZERO);
                    if until > segment.to {
                        break;
                    }
                    rests.next();
                }
                time.0 as f64 / length
            };
            rests.iter_mut().map(of).collect()
        };
        self.segments.iter().map(share).collect()
    }
}

/// A time in which a CPU may rest.
struct Window {
    from: Instant,
    to: Instant,
    /// The least credit at which resting pays; `None` if the CPU rests anyway.
    wants: Option<f64>,
}

fn windows(model: &CpuModel, input: &CpuInput, span: (Instant, Instant)) -> Vec<Window> {
    let [before, after] = input.cut.within(span);
    let anyway = |(from, to)| Window { from, to, wants: None };
    let deepest = &model.states[model.deepest];
    let may_rest = deepest.is_allowed && !deepest.is_polling;
    let late = deepest.entry_latency + deepest.exit_latency;
    let mut others = model.allowed();
    others.retain(|&state| state != model.deepest);
    let mut windows = vec![anyway(before)];
    for (k, own) in input.spans.iter().enumerate().filter(|_| may_rest) {
        let last = k.checked_sub(1).map(|k| &input.spans[k]);
        let earliest = last.map_or(own.start, |b| b.wake + own.start.since(b.resume));
        let from = earliest.max(windows.last().map_or(span.0, |window| window.to));
        let to = (own.wake + late).min(after.0);
        if to > from {
            let idle = own.wake.since(earliest) + deepest.exit_latency;
            windows.push(Window { from, to, wants: Some(wants(model, &others, own, idle)) });
        }
    }
    windows.push(anyway(after));
    windows.retain(|window| window.to > window.from);
    windows
}

/// Returns the extra cost of resting for an idle time over the cheapest other state, in uW.
fn wants(model: &CpuModel, others: &[usize], span: &Span, idle: Duration) -> f64 {
    let cost = |state: usize| model.costs.sleep(span.opp, state, idle.max(Duration(1)));
    let cheapest = others.iter().copied().map(cost).min();
    let more = cheapest.map_or(0, |cheapest| (cost(model.deepest) - cheapest).0.max(0));
    more as f64 / idle.0.max(1) as f64
}

/// Gives each CPU what it wants and an equal part of the rest, or in proportion if that is too
/// much.
fn split(power: Power, wants: &[Option<f64>]) -> Vec<Power> {
    let total: f64 = wants.iter().flatten().sum();
    let left = (power.0 as f64 - total).max(0.0) / wants.iter().flatten().count().max(1) as f64;
    let parts: Vec<Option<f64>> = wants.iter().map(|wants| wants.map(|w| w + left)).collect();
    in_proportion(power, &parts)
}

/// Returns whole uW whose sum is the power.
fn in_proportion(power: Power, parts: &[Option<f64>]) -> Vec<Power> {
    let total: f64 = parts.iter().flatten().sum();
    let scale = if total > 0.0 { power.0 as f64 / total } else { 0.0 };
    let mut left = power.0;
    let mut split: Vec<Power> = parts
        .iter()
        .map(|part| {
            let part = (part.unwrap_or(0.0) * scale) as i64;
            let part = part.clamp(0, left);
            left -= part;
            Power(part)
        })
        .collect();
    if let Some(first) = parts.iter().position(Option::is_some) {
        split[first].0 += left;
    }
    split
}

/// Returns the times that are in both lists.
pub(super) fn overlap(a: &[(Instant, Instant)], b: &[(Instant, Instant)]) -> Times {
    let (mut i, mut k, mut both) = (0, 0, Vec::new());
    while let (Some(&(from, to)), Some(&(begins, ends))) = (a.get(i), b.get(k)) {
        let (first, last) = (from.max(begins), to.min(ends));
        if last > first {
            both.push((first, last));
        }
        if to <= ends {
            i += 1;
        } else {
            k += 1;
        }
    }
    both
}

/// Returns the credit of the whole power during `times`; both are in order.
fn whole(powers: &[(Instant, Instant, Power)], times: &[(Instant, Instant)]) -> Credit {
    let mut credit = Credit::default();
    let mut powers = powers.iter().peekable();
    for &(from, to) in times {
        while let Some(&&(begins, ends, power)) = powers.peek() {
            credit.push(begins.max(from), ends.min(to), power);
            if ends > to {
                break;
            }
            powers.next();
        }
    }
    credit
}
