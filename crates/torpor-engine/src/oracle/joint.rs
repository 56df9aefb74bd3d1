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
//! and [`together`] finds the cheapest way through all lists at once. It gives up where that is too
//! much. Then each CPU in turn replans for the plans of the others, once from the relaxed plans and
//! once from all CPUs always in the same state, so that no such policy is cheaper; and the split,
//! which first follows what resting costs each CPU, is fitted to the plans found, so that no CPU is
//! credited where not all rest, and corrected along the subgradient: from CPUs that rest to those
//! that do not.
//!
//! Only times in which all CPUs may rest matter. A CPU may rest while it is idle, and after its
//! event for as long as the deepest state takes to enter and leave.
//!
//! [`graph`]: super::graph
//! [`together`]: super::together

use super::graph::Builder;
use super::split::{Members, Segments};
use super::together::Together;
use super::{Credit, Plan, Terms, constants, plan};
use crate::cluster::{rests, static_energy, static_powers};
use crate::decision::Unobserved;
use crate::idle_loop::CpuRun;
use crate::input::CpuInput;
use crate::options::Others;
use crate::policy::{Choices, Script};
use torpor_machine::units::{Energy, Power};
use torpor_result::DeepTimes;

/// Most spans of all CPUs that are searched together: each takes up to 3 KB.
const SPANS_MAX: usize = 500_000;

/// Most states of all CPUs at a time: the recording that needs most of those that are planned exactly
/// has 3,658. The search gives up at more. FIDELITY(oracle-clusters): the bound leaves a gap then.
const STATES_MAX: usize = 4_096;

/// Most rounds that fit or correct the split. FIDELITY(oracle-clusters): if a gap is left then, the
/// bound is below what is possible.
const ROUNDS_MAX: usize = 10;

/// A gap below this share of the cost is not corrected further.
const GAP_SHARE: i128 = 100_000;

/// Most rounds in which each CPU replans for the others' plans.
const SWEEPS_MAX: usize = 2;

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

struct Solver<'a> {
    members: &'a Members<'a>,
    price: Power,
    segments: Segments,
    /// The cheapest plans so far, and their cost with the cluster's.
    best: Vec<Planned>,
    cost: Energy,
    /// The highest lower bound so far.
    bound: Energy,
}

/// Plans the decisions of a cluster's CPUs; delay costs `price`. Returns `None` if `goes_on`
/// returns false.
pub fn plan_together(
    members: &Members<'_>,
    price: Power,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<Joint> {
    plan_among(STATES_MAX, members, price, goes_on)
}

/// `states_max` are the most states of the search among all CPUs.
pub(super) fn plan_among(
    states_max: usize,
    members: &Members<'_>,
    price: Power,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<Joint> {
    let mut solver = Solver::new(members, price);
    let relaxed = solver.relax(goes_on)?;
    let crowded: Vec<u64> = relaxed.iter().map(|planned| planned.plan.crowded_spans).collect();
    let is_crowded = crowded.iter().any(|&spans| spans > 0);
    if is_crowded {
        // What the relaxed plans cost is no bound.
        solver.bound = Energy(i128::MIN);
    }
    solver.respond(relaxed, goes_on)?;
    if solver.is_done() {
        return Some(solver.close(&crowded, Energy::ZERO));
    }
    let spans: usize = members.cpus.iter().map(|(_, input)| input.spans.len()).sum();
    if spans <= SPANS_MAX {
        if let Some(plans) = draw(members, price, states_max, goes_on)? {
            return Some(Joint { plans, slack: Energy::ZERO });
        }
    }
    let simplest = solver.cheapest_simple(goes_on)?;
    solver.respond(simplest, goes_on)?;
    if is_crowded {
        solver.bound = solver.cost;
    } else if !solver.is_done() && price == Power::ZERO {
        solver.certify(goes_on)?;
    }
    let slack = solver.gap();
    Some(solver.close(&crowded, slack))
}

/// Returns the cheapest plans, by one search, or `None` inside if that gives up.
fn draw(
    members: &Members<'_>,
    price: Power,
    states_max: usize,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<Option<Vec<Plan>>> {
    let Members { cluster, ref cpus, span } = *members;
    let inputs: Vec<&CpuInput> = cpus.iter().map(|(_, input)| *input).collect();
    let powers = static_powers(cluster, &inputs, span);
    let most = Segments::most(members, &powers);
    let mut saved = Credit::default();
    powers.iter().for_each(|&(from, to, power)| saved.push(from, to, power));
    let builder = |(cpu, number)| Builder::new(number, cpu, span, price, [&saved, &most]);
    let builders = cpus.iter().copied().zip(0..).map(builder).collect();
    Together::new(builders, &saved, states_max).cheapest(span.0, price, goes_on)
}

impl<'a> Solver<'a> {
    fn new(members: &'a Members<'a>, price: Power) -> Solver<'a> {
        Solver {
            members,
            price,
            segments: Segments::new(members),
            best: Vec::new(),
            cost: Energy(i128::MAX),
            bound: Energy(i128::MIN),
        }
    }

    /// Returns the best plans.
    fn close(self, crowded: &[u64], slack: Energy) -> Joint {
        let plans = self.best.into_iter().zip(crowded);
        let plans = plans.map(|(planned, &crowded_spans)| Plan { crowded_spans, ..planned.plan });
        Joint { plans: plans.collect(), slack }
    }

    fn gap(&self) -> Energy {
        (self.cost - self.bound).max(Energy::ZERO)
    }

    fn is_done(&self) -> bool {
        self.gap().0 <= 0
    }

    /// Plans each CPU with its part of the split, which gives a lower bound.
    fn relax(&mut self, goes_on: &mut dyn FnMut() -> bool) -> Option<Vec<Planned>> {
        let (mut all, mut bound) = (Vec::new(), self.segments.unshared());
        for cpu in 0..self.members.cpus.len() {
            let planned = self.plan(cpu, &self.segments.credit(cpu), goes_on)?;
            bound += planned.cost - planned.credited;
            all.push(planned);
        }
        self.bound = self.bound.max(bound);
        Some(all)
    }

    fn cost_of(&self, plans: &[Planned]) -> Energy {
        let Members { cluster, cpus, span } = self.members;
        let inputs: Vec<&CpuInput> = cpus.iter().map(|(_, input)| *input).collect();
        let deep: Vec<&DeepTimes> = plans.iter().map(|planned| &planned.deep).collect();
        let own: Energy = plans.iter().map(|planned| planned.cost).sum();
        own + static_energy(cluster, &inputs, &deep, Others::Idle, *span)
    }

    fn plan(
        &self,
        cpu: usize,
        credit: &Credit,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<Planned> {
        let (model, input) = self.members.cpus[cpu];
        let terms = Terms { price: self.price, credit: Some(credit) };
        let plan = plan(model, &input.spans, terms, &mut |_| goes_on())?;
        let credited_energy = plan.energy;
        let planned = self.ran(cpu, plan, credit, goes_on)?;
        let energy = planned.plan.energy - planned.credited;
        assert_eq!(energy, credited_energy, "the plan states its cost");
        Some(planned)
    }

    /// Runs a plan in the idle loop.
    fn ran(
        &self,
        cpu: usize,
        plan: Plan,
        credit: &Credit,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<Planned> {
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
        let plan = Plan { energy: totals.energy, ..plan };
        let cost = totals.energy + self.price.over(plan.delay);
        Some(Planned { plan, cost, credited, deep })
    }

    /// Runs one plan for each CPU.
    fn all_ran(&self, plans: Vec<Plan>, goes_on: &mut dyn FnMut() -> bool) -> Option<Vec<Planned>> {
        let plans = plans.into_iter().enumerate();
        plans.map(|(cpu, plan)| self.ran(cpu, plan, &Credit::default(), goes_on)).collect()
    }

    /// Returns the cheapest of the simplest policies, which all CPUs follow.
    fn cheapest_simple(&self, goes_on: &mut dyn FnMut() -> bool) -> Option<Vec<Planned>> {
        let (mut least, mut found) = (Energy(i128::MAX), Vec::new());
        let mut each: Vec<_> =
            self.members.cpus.iter().map(|(model, _)| constants(model)).collect();
        loop {
            let choices = each.iter_mut().map(Iterator::next).collect::<Option<Vec<Choices>>>();
            let Some(choices) = choices else { break };
            let cpus = self.members.cpus.iter().zip(choices);
            let plans = cpus.map(|((model, input), choices)| {
                Plan::without_search(model, &input.spans, None, choices, &mut |_| goes_on())
            });
            let plans = plans.collect::<Option<Vec<Plan>>>()?;
            let ran = self.all_ran(plans, goes_on)?;
            let cost = self.cost_of(&ran);
            if cost < least {
                (least, found) = (cost, ran);
            }
        }
        Some(found)
    }

    /// Replans each CPU in turn for the plans of the others, as long as that pays. Keeps the plans
    /// if they are the cheapest so far.
    fn respond(
        &mut self,
        mut plans: Vec<Planned>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<()> {
        let mut least = self.cost_of(&plans);
        for _ in 0..SWEEPS_MAX {
            let before = least;
            for cpu in 0..plans.len() {
                if least <= self.bound {
                    break;
                }
                let others = self.members.cpus.iter().zip(&plans).enumerate();
                let others = others.filter(|(other, _)| *other != cpu).map(|(_, (of, planned))| {
                    rests(of.1, &planned.deep, self.members.span).collect::<Vec<_>>()
                });
                let credit = self.segments.credit_beside(cpu, others);
                let planned = self.plan(cpu, &credit, goes_on)?;
                let former = std::mem::replace(&mut plans[cpu], planned);
                let cost = self.cost_of(&plans);
                if cost < least {
                    least = cost;
                } else {
                    plans[cpu] = former;
                }
            }
            if least == before {
                break;
            }
        }
        if least < self.cost {
            (self.cost, self.best) = (least, plans);
        }
        Some(())
    }

    /// Fits the split to the best plans, and corrects it.
    fn certify(&mut self, goes_on: &mut dyn FnMut() -> bool) -> Option<()> {
        let deep: Vec<DeepTimes> = self.best.iter().map(|planned| planned.deep.clone()).collect();
        self.segments.refine(&deep);
        self.segments.fit(&deep);
        for _ in 0..ROUNDS_MAX {
            let plans = self.relax(goes_on)?;
            let deep: Vec<DeepTimes> = plans.into_iter().map(|planned| planned.deep).collect();
            if self.gap().0 <= self.cost.0 / GAP_SHARE {
                break;
            }
            self.segments.correct(&deep, self.gap());
        }
        Some(())
    }
}
