// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The oracle of a cluster against exhaustive search, through the idle loop itself.

use super::joint::draw;
use super::tests_credited::watching;
use super::{Joint, Members, plan_together};
use crate::cluster::static_energy;
use crate::decision::Unobserved;
use crate::idle_loop::CpuRun;
use crate::input::{CpuInput, CutSleeps, Span};
use crate::model::CpuModel;
use crate::options::Others;
use crate::policy::{Policy, Script};
use crate::testing;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::Cell;
use std::collections::BTreeMap;
use torpor_governor::{Fault, Inputs, Selection};
use torpor_machine::platform::Cluster;
use torpor_machine::units::{CpuId, Duration, Energy, Instant, Power};
use torpor_result::DeepTimes;

/// Makes every sequence of decisions, one after another.
struct Odometer {
    allowed: Vec<usize>,
    digits: Vec<usize>,
    at: usize,
}

impl Odometer {
    /// Moves to the next sequence; returns false after the last.
    fn advance(&mut self) -> bool {
        self.digits.truncate(self.at);
        self.at = 0;
        while let Some(digit) = self.digits.pop() {
            if digit + 1 < 2 * self.allowed.len() {
                self.digits.push(digit + 1);
                return true;
            }
        }
        false
    }
}

impl Policy for Odometer {
    fn select(&mut self, _: usize, _: &Inputs) -> Result<Selection, Fault> {
        if self.at == self.digits.len() {
            self.digits.push(0);
        }
        let digit = self.digits[self.at];
        self.at += 1;
        let state = self.allowed[digit / 2] as i32;
        Ok(Selection { state, stop_tick: digit % 2 == 1, asked_sleep_length: true })
    }
}

fn ran(model: &CpuModel, spans: &[Span], policy: &mut impl Policy) -> (Energy, DeepTimes) {
    let mut run = CpuRun::new(model, spans, 0);
    run.run(policy, &mut Unobserved).expect("no policy here fails");
    let totals = run.close();
    (totals.energy, totals.deep.expect("the model watches it"))
}

/// Returns the least own energy for each possible set of rests of a CPU; `None` if there are too
/// many sequences.
fn all_rests(model: &CpuModel, spans: &[Span]) -> Option<Vec<(Energy, DeepTimes)>> {
    let mut odometer = Odometer { allowed: model.allowed(), digits: Vec::new(), at: 0 };
    let mut found: BTreeMap<Vec<(Instant, Instant)>, (Energy, DeepTimes)> = BTreeMap::new();
    for _ in 0..20_000 {
        let (energy, deep) = ran(model, spans, &mut odometer);
        let times = deep.iter().collect();
        let kept = found.entry(times).or_insert((energy, deep));
        kept.0 = kept.0.min(energy);
        if !odometer.advance() {
            return Some(found.into_values().collect());
        }
    }
    None
}

/// Returns the least energy of CPUs and cluster over all their decisions.
fn exhaustive(members: &Members<'_>) -> Option<Energy> {
    let each: Option<Vec<_>> =
        members.cpus.iter().map(|(model, input)| all_rests(model, &input.spans)).collect();
    let each = each?;
    if each.iter().map(Vec::len).product::<usize>() > 60_000 {
        return None;
    }
    let inputs: Vec<&CpuInput> = members.cpus.iter().map(|(_, input)| *input).collect();
    let mut at = vec![0; each.len()];
    let mut best = Energy(i128::MAX);
    loop {
        let chosen = || each.iter().zip(&at).map(|(each, at)| &each[*at]);
        let deep: Vec<&DeepTimes> = chosen().map(|(_, deep)| deep).collect();
        let own: Energy = chosen().map(|(energy, _)| *energy).sum();
        best = best
            .min(own + static_energy(members.cluster, &inputs, &deep, Others::Idle, members.span));
        let Some(next) = (0..at.len()).find(|&cpu| at[cpu] + 1 < each[cpu].len()) else {
            return Some(best);
        };
        at[..next].fill(0);
        at[next] += 1;
    }
}

/// A cluster, and for each CPU its spans and whether its first or last sleep is cut.
#[derive(Clone, Debug)]
struct Case {
    cluster: Cluster,
    inputs: Vec<CpuInput>,
}

fn cases(cpus: usize, spans: usize) -> impl Strategy<Value = Case> {
    let state = (0i64..80, 0i64..300, 1i64..1_500, 0.0f64..30.0);
    let states = prop::collection::vec(state, 2..=3);
    let span = (20i64..2_600, 1i64..900, any::<[bool; 3]>());
    let cpu = (0i64..2_000, prop::collection::vec(span, 1..=spans), any::<[bool; 2]>());
    let powers = prop::collection::vec(0.0f64..30.0, 2..=2);
    (states, powers, prop::collection::vec(cpu, cpus..=cpus)).prop_map(|(mut raw, own, cpus)| {
        raw.sort_by_key(|state| state.2);
        let mut falling: Vec<f64> = raw.iter().map(|state| state.3).collect();
        falling.sort_by(|a, b| b.total_cmp(a));
        let mut cluster = testing::two_state_cluster();
        cluster.opps.push(cluster.opps[0].clone());
        for (opp, mw) in cluster.opps.iter_mut().zip(own) {
            opp.static_power = Power::from_mw(mw);
        }
        let states = raw.iter().zip(falling).enumerate();
        cluster.idle_states = states
            .map(|(n, (state, mw))| testing::state(&format!("S{n}"), state.0, state.1, state.2, mw))
            .collect();
        let inputs = cpus.into_iter().enumerate().map(|(n, cpu)| input(n, cpu)).collect();
        Case { cluster, inputs }
    })
}

type RawSpan = (i64, i64, [bool; 3]);

fn input(number: usize, (lead, raw, cut): (i64, Vec<RawSpan>, [bool; 2])) -> CpuInput {
    let pairs: Vec<(i64, i64)> = raw.iter().map(|(idle, work, _)| (*idle, *work)).collect();
    let mut spans = testing::spans(&pairs);
    let lead = Duration::from_us(lead);
    for (span, (_, _, [ends_visit, holds, fast])) in spans.iter_mut().zip(&raw) {
        for at in [&mut span.start, &mut span.wake, &mut span.resume, &mut span.next_hrtimer] {
            *at += lead;
        }
        (span.ends_visit, span.rcu_holds_tick) = (*ends_visit, *holds);
        span.opp = u16::from(*fast);
    }
    let last = spans.last().expect("there is a span").resume + Duration::from_us(300);
    let cut =
        CutSleeps { until: cut[0].then_some(Instant(lead.0 / 2)), from: cut[1].then_some(last) };
    CpuInput { cpu: CpuId(number as u32), spans, cut }
}

fn with_members<T>(case: &Case, work: impl FnOnce(&Members<'_>) -> T) -> T {
    let model = watching(&case.cluster);
    let windows = || case.inputs.iter().map(CpuInput::window);
    let start = windows().map(|(start, _)| start).min().expect("there is a CPU");
    let end = windows().map(|(_, end)| end).max().expect("there is a CPU");
    let cpus = case.inputs.iter().map(|input| (&model, input)).collect();
    work(&Members { cluster: &case.cluster, cpus, span: (start, end) })
}

/// Returns the joint cost of the plans in the idle loop.
fn cost_of(members: &Members<'_>, joint: &Joint) -> Energy {
    let ran: Vec<(Energy, DeepTimes)> = members
        .cpus
        .iter()
        .zip(&joint.plans)
        .map(|((model, input), plan)| {
            let ran = ran(model, &input.spans, &mut Script::of(plan.choices.clone()));
            assert_eq!(ran.0, plan.energy, "the plan states its cost");
            ran
        })
        .collect();
    let inputs: Vec<&CpuInput> = members.cpus.iter().map(|(_, input)| *input).collect();
    let (own, deep): (Vec<Energy>, Vec<DeepTimes>) = ran.into_iter().unzip();
    let deep: Vec<&DeepTimes> = deep.iter().collect();
    let together = static_energy(members.cluster, &inputs, &deep, Others::Idle, members.span);
    own.into_iter().sum::<Energy>() + together
}

/// Compares cases from a fixed seed. Returns how often the plan was proven optimal, how often it
/// was optimal, and the number of cases.
fn compared(
    (cpus, spans, count): (usize, usize, u32),
    plan: impl Fn(&Members<'_>) -> Joint,
) -> [u32; 3] {
    let counts = [const { Cell::new(0u32) }; 3];
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, seed);
    let ran = runner.run(&cases(cpus, spans), |case| {
        with_members(&case, |members| {
            let Some(least) = exhaustive(members) else { return Ok(()) };
            let joint = plan(members);
            let cost = cost_of(members, &joint);
            prop_assert!(cost >= least, "{cost:?} is less than the least, {least:?}");
            let is_complete = joint.plans.iter().all(|plan| plan.crowded_spans == 0);
            let bound = cost - joint.slack;
            let is_bound = !is_complete || bound <= least;
            prop_assert!(is_bound, "the bound {bound:?} is above the least, {least:?}");
            let is_proven = is_complete && joint.slack == Energy::ZERO;
            for (count, holds) in counts.iter().zip([is_proven, cost == least, true]) {
                count.set(count.get() + u32::from(holds));
            }
            Ok(())
        })
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
    counts.map(|count| count.get())
}

fn exactly(members: &Members<'_>) -> Joint {
    plan_together(members, Power::ZERO, &mut || true).expect("not cancelled")
}

#[test]
fn a_few_states_lead_to_the_end() {
    let narrow = |members: &Members<'_>| {
        let plans = draw(members, Power::ZERO, [2, 1], &mut || true).expect("not cancelled");
        Joint { plans, slack: Energy::ZERO }
    };
    let [proven, least, all] = compared((2, 3, 400), narrow);
    assert!(proven < least && least < all && least > all / 2, "{proven} {least} {all}");
}

#[test]
fn one_cpu_is_always_planned_exactly() {
    let [proven, least, all] = compared((1, 4, 300), exactly);
    assert!(proven == all && least == all && all > 250, "{proven} {least} {all}");
}

#[test]
fn two_cpus_are_planned_exactly() {
    let [proven, least, all] = compared((2, 3, 400), exactly);
    assert!(proven == all && least == all && all > 300, "{proven} {least} {all}");
}

#[test]
fn three_cpus_are_planned_exactly() {
    let [proven, least, all] = compared((3, 2, 300), exactly);
    assert!(proven == all && least == all && all > 150, "{proven} {least} {all}");
}
