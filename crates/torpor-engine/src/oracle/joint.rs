// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The CPUs of a cluster that takes power of its own unless all of them rest.
//!
//! Their decisions depend on each other only through what the cluster saves. Split its power among
//! the CPUs in any way at each moment. Let each CPU plan alone, with its part credited while it
//! rests: where all rest, the credits are what the cluster saves; where only some rest, they are
//! too much. So the summed costs of such plans are a lower bound for the cost of any decisions: the
//! Lagrangian dual of the joint problem. The real joint cost of the plans is an upper bound. Where
//! the two are equal, the plans are optimal.
//!
//! The split is made in three steps. First, each CPU gets what resting costs it, by its own idle
//! times. Then each CPU in turn replans for the plans of the others; the cost only falls. Then the
//! split is fitted to these plans, so that no CPU is credited where not all rest, and corrected
//! along the subgradient: from CPUs that rest to those that do not.
//!
//! Only times in which all CPUs may rest matter. A CPU may rest while it is idle, and after its
//! event for as long as the deepest state takes to enter and leave.

use super::split::{Members, Segments};
use super::{Credit, Plan, Terms, plan};
use crate::cluster::{rests, static_energy};
use crate::decision::Unobserved;
use crate::idle_loop::CpuRun;
use crate::input::CpuInput;
use crate::options::Others;
use crate::policy::Script;
use torpor_machine::units::{Energy, Power};
use torpor_result::DeepTimes;

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
    let mut solver = Solver {
        members,
        price,
        segments: Segments::new(members),
        best: Vec::new(),
        cost: Energy(i128::MAX),
        bound: Energy(i128::MIN),
    };
    let plans = solver.relax(goes_on)?;
    solver.respond(plans, goes_on)?;
    if !solver.is_done() {
        let plans = solver.presume(goes_on)?;
        solver.respond(plans, goes_on)?;
    }
    if !solver.is_done() && price == Power::ZERO {
        solver.certify(goes_on)?;
    }
    let slack = solver.gap();
    let plans = solver.best.into_iter().map(|planned| planned.plan);
    Some(Joint { plans: plans.collect(), slack })
}

impl Solver<'_> {
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

    /// Plans each CPU as if all others rested whenever they may.
    fn presume(&self, goes_on: &mut dyn FnMut() -> bool) -> Option<Vec<Planned>> {
        let cpus = 0..self.members.cpus.len();
        cpus.map(|cpu| self.plan(cpu, &self.segments.credit_of_all(cpu), goes_on)).collect()
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
        let mut plan = plan(model, &input.spans, terms, &mut |_| goes_on())?;
        let mut run = CpuRun::new(model, &input.spans, 0);
        let mut script = Script::of(plan.choices.clone());
        let ran = run.run_while(&mut script, &mut Unobserved, &mut |_| goes_on());
        if !ran.expect("a script does not fail") {
            return None;
        }
        let totals = run.close();
        let deep = totals.deep.unwrap_or_default();
        let credited: Energy = deep.iter().map(|(from, to)| credit.between(from, to)).sum();
        assert_eq!(totals.energy - credited, plan.energy, "the plan states its cost");
        plan.energy = totals.energy;
        let cost = totals.energy + self.price.over(plan.delay);
        Some(Planned { plan, cost, credited, deep })
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
            let deep: Vec<DeepTimes> = plans.iter().map(|planned| planned.deep.clone()).collect();
            self.respond(plans, goes_on)?;
            if self.gap().0 <= self.cost.0 / GAP_SHARE {
                break;
            }
            self.segments.correct(&deep, self.gap());
        }
        Some(())
    }
}
