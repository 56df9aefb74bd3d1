// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The CPUs of a cluster that takes power of its own unless all of them rest.
//!
//! Their decisions depend on each other only through what the cluster saves. A lower bound comes from
//! the Lagrangian dual. Split the power among the CPUs in any way at each moment. Let each CPU plan
//! alone, with its part credited while it rests: where all rest, the credits are what the cluster
//! saves; where only some rest, they are too much. So the summed costs of such plans are a bound, and
//! often their own cost: then no decisions cost less.
//!
//! If a gap is left, [`graph`] lists the decisions of each CPU that may pay whatever the others do,
//! and [`together`] finds the cheapest way through all lists at once, unless there are too many CPUs.
//! Where neither leaves anything out, no decisions cost less. Otherwise each CPU in turn replans for
//! the plans of the others: from the relaxed plans, from what was found, and from all CPUs always in
//! the same state, so that no such policy is cheaper. The split, which first follows what resting
//! costs each CPU, is then fitted to the plans found, so that no CPU is credited where not all rest,
//! and corrected along the subgradient: from CPUs that rest to those that do not.
//!
//! Rounds of polling of several lengths multiply the paths of a CPU. Once they are more than its
//! search follows, plans leave polling out, and bounds merge its rounds.
//!
//! Only times in which all CPUs may rest matter. A CPU may rest while it is idle, and after its
//! event for as long as the deepest state takes to enter and leave.
//!
//! [`graph`]: super::graph
//! [`together`]: super::together

use super::graph::Builder;
use super::relaxed::{self, lower_bound_among};
use super::split::{Members, Segments, Times, overlap};
use super::together::Together;
use super::{Credit, Plan, Terms, WAYS_MAX, constants, plan, plan_without_polling};
use crate::cluster::{rests, static_energy, static_powers};
use crate::decision::Unobserved;
use crate::idle_loop::CpuRun;
use crate::input::CpuInput;
use crate::model::CpuModel;
use crate::options::Others;
use crate::policy::{Choices, Script};
use crate::pool;
use std::sync::atomic::{AtomicBool, Ordering};
use torpor_machine::units::{Energy, Instant, Power};
use torpor_result::DeepTimes;

/// Most spans of all CPUs that are searched together: each takes up to 3 KB.
const SPANS_MAX: usize = 500_000;

/// Most CPUs that are searched together: of more, few are planned exactly.
const CPUS_MAX: usize = 16;

/// Most states of all CPUs if none is left out: the recording that needs most of those that are
/// planned exactly has 3,658 at a time. Of more, the most promising are kept.
/// FIDELITY(oracle-search): half as many lead to dearer plans for some recordings.
const STATES_MAX: usize = 4_096;
const STATES_KEPT: usize = 64;

/// Most rounds that fit or correct the split. FIDELITY(oracle-search): if a gap is left then, the
/// bound is below what is possible.
const ROUNDS_MAX: usize = 10;

/// A gap below this share of the cost is not corrected further.
const GAP_SHARE: i128 = 100_000;

/// Most rounds in which each CPU replans for the others' plans.
const SWEEPS_MAX: usize = 2;

/// Budget of replanning, in spans of all CPUs that each replanning looks at, and the number that any
/// cluster has. FIDELITY(oracle-search): in large clusters some CPUs keep their plans.
const LOOKS_MAX: usize = 8_000_000;
const REPLANS_MIN: usize = 128;

/// Budget of rounds, in spans, if CPUs have more paths than the search follows.
const CROWDED_MAX: usize = 250_000;

/// Spans of a long recording: CPUs do not replan from the first relaxed plans, and a search of all CPUs
/// that leaves a state out ends there.
const LONG: usize = 50_000;

/// Returns false once the work must end.
type GoesOn<'a> = &'a (dyn Fn() -> bool + Sync);

/// Plans of a cluster's CPUs.
pub struct Joint {
    /// In the order of the CPUs; their energy includes no credit.
    pub plans: Vec<Plan>,
    /// Upper bound of what these decisions cost above the cheapest; zero if they are optimal.
    pub slack: Energy,
}

/// One CPU's plan and its cost.
struct Planned {
    plan: Plan,
    /// Energy, and the price of the delay.
    cost: Energy,
    credited: Energy,
    deep: DeepTimes,
}

impl Planned {
    fn is_crowded(&self) -> bool {
        self.plan.crowded_spans > 0
    }

    /// Returns its cost, less what is credited.
    fn alone(&self) -> Energy {
        self.cost - self.credited
    }
}

/// A lower bound in parts: what no CPU is credited with, and for each CPU the least cost less what is
/// credited, or the credit if its search left something out.
struct Claim {
    unshared: Energy,
    cpus: Vec<Result<Energy, Credit>>,
}

struct Solver<'a> {
    members: &'a Members<'a>,
    price: Power,
    segments: Segments,
    /// The cheapest plans so far, and their cost with the cluster's.
    best: Vec<Planned>,
    cost: Energy,
    /// The highest lower bound so far.
    bound: Energy,
    /// The highest one if the searches left nothing out.
    estimate: Energy,
    /// What proves it, if that is not done.
    claim: Option<Claim>,
    /// Spans of all CPUs.
    spans: usize,
    /// Number of CPUs that may still replan.
    replans_left: usize,
    /// Plans poll, where a CPU may, until that leads to more paths than a search follows.
    polls: bool,
    /// A CPU had more paths than its search follows.
    is_crowded: bool,
}

/// Plans the decisions of a cluster's CPUs; delay costs `price`. Returns `None` if `goes_on`
/// returns false.
pub fn plan_together(members: &Members<'_>, price: Power, goes_on: GoesOn<'_>) -> Option<Joint> {
    plan_among([STATES_MAX, STATES_KEPT], members, price, goes_on)
}

/// `states` are the most states if none is left out, and then.
pub(super) fn plan_among(
    states: [usize; 2],
    members: &Members<'_>,
    price: Power,
    goes_on: GoesOn<'_>,
) -> Option<Joint> {
    let mut solver = Solver::new(members, price);
    let relaxed = solver.relax(goes_on)?;
    if solver.cost_of(&relaxed) <= solver.estimate {
        solver.prove(goes_on)?;
    }
    let is_long = solver.spans > LONG;
    let sweeps_max = if is_long { 0 } else { SWEEPS_MAX };
    solver.respond_in(sweeps_max, relaxed, goes_on)?;
    if solver.is_done() {
        return Some(solver.close(Energy::ZERO));
    }
    if solver.spans <= SPANS_MAX && members.cpus.len() <= CPUS_MAX {
        let states = if is_long { [states[0], 0] } else { states };
        let plans = draw(members, price, states, goes_on)?;
        if !plans.is_empty() {
            if plans.iter().all(|plan| plan.crowded_spans == 0) {
                return Some(Joint { plans, slack: Energy::ZERO });
            }
            let drawn = solver.all_ran(plans, goes_on)?;
            solver.respond(drawn, goes_on)?;
        }
    }
    let simplest = solver.cheapest_simple(goes_on)?;
    solver.respond(simplest, goes_on)?;
    if !solver.is_done() && price == Power::ZERO && solver.rounds_max() > 1 {
        solver.certify(goes_on)?;
    }
    solver.prove(goes_on)?;
    let slack = solver.gap();
    Some(solver.close(slack))
}

/// Returns plans found in one search, or none if it gave up. If no span is crowded, there are no
/// cheaper plans.
fn draw(
    members: &Members<'_>,
    price: Power,
    states: [usize; 2],
    goes_on: GoesOn<'_>,
) -> Option<Vec<Plan>> {
    let Members { cluster, ref cpus, span } = *members;
    let inputs: Vec<&CpuInput> = cpus.iter().map(|(_, input)| *input).collect();
    let powers = static_powers(cluster, &inputs, span);
    let most = Segments::most(members, &powers);
    let part = most.part(cpus.len());
    let mut saved = Credit::default();
    powers.iter().for_each(|&(from, to, power)| saved.push(from, to, power));
    let builder = |(cpu, number)| Builder::new(number, cpu, span, price, [&saved, &most, &part]);
    let builders = cpus.iter().copied().zip(0..).map(builder).collect();
    let margin = margin(members, &powers);
    Together::new(builders, &saved, margin, states).cheapest(span.0, price, &mut || goes_on())
}

/// Returns what the cluster saves in a shortest rest of each CPU.
fn margin(members: &Members<'_>, powers: &[(Instant, Instant, Power)]) -> Energy {
    let power = powers.iter().map(|(.., power)| *power).max().unwrap_or(Power::ZERO);
    let rest = |model: &CpuModel| {
        let deepest = &model.states[model.deepest];
        power.over(deepest.entry_latency + deepest.exit_latency)
    };
    members.cpus.iter().map(|(model, _)| rest(model)).sum()
}

impl<'a> Solver<'a> {
    fn new(members: &'a Members<'a>, price: Power) -> Solver<'a> {
        let spans = members.cpus.iter().map(|(_, input)| input.spans.len()).sum::<usize>();
        Solver {
            spans,
            replans_left: (LOOKS_MAX / spans.max(1)).max(REPLANS_MIN),
            polls: members.cpus.iter().any(|(model, _)| model.may_poll()),
            is_crowded: false,
            members,
            price,
            segments: Segments::new(members),
            best: Vec::new(),
            cost: Energy(i128::MAX),
            bound: Energy(i128::MIN),
            estimate: Energy(i128::MIN),
            claim: None,
        }
    }

    /// Returns the best plans.
    fn close(self, slack: Energy) -> Joint {
        Joint { plans: self.best.into_iter().map(|planned| planned.plan).collect(), slack }
    }

    fn gap(&self) -> Energy {
        (self.cost - self.bound).max(Energy::ZERO)
    }

    fn rounds_max(&self) -> usize {
        match self.is_crowded {
            true => (CROWDED_MAX / self.spans.max(1)).min(ROUNDS_MAX),
            false => ROUNDS_MAX,
        }
    }

    fn is_done(&self) -> bool {
        self.gap() == Energy::ZERO
    }

    /// Plans each CPU with its part of the split, which gives a lower bound.
    fn relax(&mut self, goes_on: GoesOn<'_>) -> Option<Vec<Planned>> {
        let mut all = self.plan_all(goes_on);
        let is_crowded = |all: &Vec<Planned>| all.iter().any(Planned::is_crowded);
        if self.polls && all.as_ref().is_none_or(is_crowded) && goes_on() {
            self.polls = false;
            all = self.plan_all(goes_on);
        }
        let all = all?;
        let part = |(cpu, planned): (usize, &Planned)| match self.is_incomplete(cpu, planned) {
            true => Err(self.segments.credit(cpu)),
            false => Ok(planned.alone()),
        };
        let unshared = self.segments.unshared();
        let estimate = unshared + all.iter().map(Planned::alone).sum();
        if estimate > self.estimate {
            let cpus: Vec<_> = all.iter().enumerate().map(part).collect();
            let is_proven = cpus.iter().all(Result::is_ok);
            self.estimate = estimate;
            self.claim = (!is_proven).then_some(Claim { unshared, cpus });
            if is_proven {
                self.bound = self.bound.max(estimate);
            }
        }
        self.is_crowded |= is_crowded(&all);
        Some(all)
    }

    /// Completes the searches of the highest estimate.
    fn prove(&mut self, goes_on: GoesOn<'_>) -> Option<()> {
        let Some(claim) = self.claim.take() else { return Some(()) };
        let part = |(cpu, part)| match part {
            Ok(least) => Some(least),
            Err(credit) => self.bound_of(cpu, &credit, goes_on),
        };
        let parts: Vec<_> = claim.cpus.into_iter().enumerate().collect();
        let least: Option<Energy> = pool::map(parts, part).into_iter().sum();
        self.bound = self.bound.max(claim.unshared + least?);
        Some(())
    }

    /// Plans each CPU. If plans poll, a crowded one ends all.
    fn plan_all(&self, goes_on: GoesOn<'_>) -> Option<Vec<Planned>> {
        let is_over = AtomicBool::new(false);
        let plan = |cpu| {
            let goes_on = || goes_on() && !is_over.load(Ordering::Relaxed);
            let planned = self.plan(cpu, &self.segments.credit(cpu), &goes_on)?;
            is_over.fetch_or(self.polls && planned.is_crowded(), Ordering::Relaxed);
            Some(planned)
        };
        pool::map(0..self.members.cpus.len(), plan).into_iter().collect()
    }

    /// Returns true if the search for a plan left something out.
    fn is_incomplete(&self, cpu: usize, planned: &Planned) -> bool {
        planned.is_crowded() || (!self.polls && self.members.cpus[cpu].0.may_poll())
    }

    /// Returns a lower bound of a CPU's own cost, less what is credited.
    fn bound_of(&self, cpu: usize, credit: &Credit, goes_on: GoesOn<'_>) -> Option<Energy> {
        let (model, input) = self.members.cpus[cpu];
        let terms = Terms { price: self.price, credit: Some(credit) };
        // Bounds of many CPUs would take minutes; with fewer paths the gap is a little wider.
        let ways_max = match self.members.cpus.len() > CPUS_MAX {
            true => WAYS_MAX,
            false => relaxed::WAYS_MAX,
        };
        lower_bound_among(ways_max, model, &input.spans, terms, &mut |_| goes_on())
    }

    fn cost_of(&self, plans: &[Planned]) -> Energy {
        let Members { cluster, cpus, span } = self.members;
        let inputs: Vec<&CpuInput> = cpus.iter().map(|(_, input)| *input).collect();
        let deep: Vec<&DeepTimes> = plans.iter().map(|planned| &planned.deep).collect();
        let own: Energy = plans.iter().map(|planned| planned.cost).sum();
        own + static_energy(cluster, &inputs, &deep, Others::Idle, *span)
    }

    fn plan(&self, cpu: usize, credit: &Credit, goes_on: GoesOn<'_>) -> Option<Planned> {
        let (model, input) = self.members.cpus[cpu];
        let terms = Terms { price: self.price, credit: Some(credit) };
        let plan = match self.polls {
            true => plan(model, &input.spans, terms, &mut |_| goes_on()),
            false => plan_without_polling(model, &input.spans, terms, &mut |_| goes_on()),
        }?;
        let credited_energy = plan.energy;
        let planned = self.ran(cpu, plan, credit, goes_on)?;
        let energy = planned.plan.energy - planned.credited;
        assert_eq!(energy, credited_energy, "the plan states its cost");
        Some(planned)
    }

    /// Runs a plan in the idle loop.
    fn ran(&self, cpu: usize, plan: Plan, credit: &Credit, goes_on: GoesOn<'_>) -> Option<Planned> {
        let (model, input) = self.members.cpus[cpu];
        let mut run = CpuRun::new(model, &input.spans, 0);
        let mut script = Script::of(plan.choices.clone());
        let ran = run.run_while(&mut script, &mut Unobserved, &mut |_| goes_on());
        if !ran.expect("a script does not fail") {
            return None;
        }
        let totals = run.close();
        let deep = totals.deep.unwrap_or_default();
        let credited: Energy = deep.iter().map(|(from, to)| credit.between(from, to)).sum();
        let plan = Plan { energy: totals.energy, delay: totals.delays.total(), ..plan };
        let cost = totals.energy + self.price.over(plan.delay);
        Some(Planned { plan, cost, credited, deep })
    }

    /// Runs one plan for each CPU.
    fn all_ran(&self, plans: Vec<Plan>, goes_on: GoesOn<'_>) -> Option<Vec<Planned>> {
        let plans = plans.into_iter().enumerate();
        plans.map(|(cpu, plan)| self.ran(cpu, plan, &Credit::default(), goes_on)).collect()
    }

    /// Returns the cheapest of the simplest policies, which all CPUs follow.
    fn cheapest_simple(&self, goes_on: GoesOn<'_>) -> Option<Vec<Planned>> {
        let (mut least, mut found) = (Energy(i128::MAX), Vec::new());
        let mut each: Vec<_> =
            self.members.cpus.iter().map(|(model, _)| constants(model)).collect();
        loop {
            let choices = each.iter_mut().map(Iterator::next).collect::<Option<Vec<Choices>>>();
            let Some(choices) = choices else { break };
            let ran = self.all_ran(choices.into_iter().map(Plan::of).collect(), goes_on)?;
            let cost = self.cost_of(&ran);
            if cost < least {
                (least, found) = (cost, ran);
            }
        }
        Some(found)
    }

    /// Replans each CPU in turn for the plans of the others, as long as that pays. Keeps the plans
    /// if they are the cheapest so far.
    fn respond(&mut self, plans: Vec<Planned>, goes_on: GoesOn<'_>) -> Option<()> {
        self.respond_in(SWEEPS_MAX, plans, goes_on)
    }

    /// Does the same in so many rounds.
    fn respond_in(
        &mut self,
        sweeps_max: usize,
        mut plans: Vec<Planned>,
        goes_on: GoesOn<'_>,
    ) -> Option<()> {
        let mut cost = self.cost_of(&plans);
        for _ in 0..sweeps_max {
            let before = cost;
            self.replan(&mut plans, 0, &vec![self.members.span], &mut cost, goes_on)?;
            if cost == before {
                break;
            }
        }
        if cost < self.cost {
            (self.cost, self.best) = (cost, plans);
        }
        Some(())
    }

    /// Replans the CPUs from `first` on, whose plans these are, while all others rest at the times
    /// `beside`. Halves share what their rests leave of these times.
    fn replan(
        &mut self,
        plans: &mut [Planned],
        first: usize,
        beside: &Times,
        cost: &mut Energy,
        goes_on: GoesOn<'_>,
    ) -> Option<()> {
        if *cost <= self.bound || self.replans_left == 0 {
            return Some(());
        }
        if let [own] = plans {
            self.replans_left -= 1;
            let credit = self.segments.credit_during(first, beside);
            let planned = self.plan(first, &credit, goes_on)?;
            let alone = |planned: &Planned| {
                planned.cost - self.segments.saved(&overlap(beside, &self.rests(first, planned)))
            };
            let change = alone(&planned) - alone(own);
            if change < Energy::ZERO {
                *cost += change;
                *own = planned;
            }
            return Some(());
        }
        let middle = first + plans.len() / 2;
        let (left, right) = plans.split_at_mut(middle - first);
        let others = self.beside(beside, middle, right);
        self.replan(left, first, &others, cost, goes_on)?;
        let others = self.beside(beside, first, left);
        self.replan(right, middle, &others, cost, goes_on)
    }

    /// Returns which of these times the CPUs from `first` on rest, too.
    fn beside(&self, times: &Times, first: usize, plans: &[Planned]) -> Times {
        let cpus = plans.iter().zip(first..);
        cpus.fold(times.clone(), |all, (planned, cpu)| overlap(&all, &self.rests(cpu, planned)))
    }

    fn rests(&self, cpu: usize, planned: &Planned) -> Times {
        rests(self.members.cpus[cpu].1, &planned.deep, self.members.span).collect()
    }

    /// Fits the split to the best plans, corrects it, and replans from the last relaxed plans.
    fn certify(&mut self, goes_on: GoesOn<'_>) -> Option<()> {
        let deep: Vec<DeepTimes> = self.best.iter().map(|planned| planned.deep.clone()).collect();
        self.segments.refine(&deep);
        self.segments.fit(&deep);
        let mut plans = self.relax(goes_on)?;
        for _ in 1..self.rounds_max() {
            let gap = (self.cost - self.estimate).max(Energy::ZERO);
            if gap.0 <= self.cost.0 / GAP_SHARE {
                break;
            }
            let deep: Vec<DeepTimes> = plans.into_iter().map(|planned| planned.deep).collect();
            self.segments.correct(&deep, gap);
            plans = self.relax(goes_on)?;
        }
        self.respond(plans, goes_on)
    }
}
