// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Best governor with limited knowledge.
//!
//! Knowledge at the start of a span is divided into cells: the time to the next timer by half
//! octaves,
//! the time to the tick and the last length by octaves, and so on. In each cell every plan is
//! priced on every span: its energy, plus its delay at a price. The cheapest plan of a cell is the
//! best that a governor can do that knows no more than the cell; the price is raised until the mean
//! delay is as required. Trained on all spans, the bound is optimistic: a cell with one span knows
//! its future. So the same is done with each fifth of every CPU's recording left out of the
//! training and evaluated; a cell with few other spans then takes the plan of a coarser one.
//!
//! Plans are trained on each span alone, as if none began late; their cost is measured along the
//! recording, where some do.
//!
//! FIDELITY(bound-spans): the tick runs when a span begins, and may always be stopped; a plan has
//! one alarm.

use super::{Cost, Known, SpannedCpu};
use crate::input::Span;
use crate::model::Alarms;
use crate::oracle::price_within;
use std::collections::BTreeMap;
use torpor_machine::units::{Duration, Energy, Instant, Power};

/// Parts of each CPU's recording that are left out of the training in turn.
const FOLDS: usize = 5;

/// Least number of spans to train a plan on that is used for others.
const SPANS_MIN: u64 = 32;

/// Ages at which a governor's own timer may expire: octaves from 32 us to 16 ms.
const AGES_US: [i64; 10] = [32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384];

/// Levels of knowledge, each including those before it: nothing; timers; the tick; the last length;
/// utilization and tasks waiting for IO.
const LEVELS: usize = 5;

/// The classes that have a bound, by their level.
const CLASSES: [(&str, usize); 3] =
    [("timer, tick", 2), ("+ last length", 3), ("+ util, nr_iowait", 4)];

/// Plan for a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Sleeps in one state.
    Stay(usize),
    /// Sleeps in the first state until the tick, if it comes, then in the second.
    Tick(usize, usize),
    /// Sleeps in the first state until a timer of its own at this age, then in the second.
    Timer(usize, Duration, usize),
    /// Sleeps in the first state until its latency before the known timer, then in the second.
    Prewake(usize, usize),
}

/// Cost of the best governor of a class.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Bound {
    pub knows: &'static str,
    pub own_timers: bool,
    /// Number of cells.
    pub cells: usize,
    /// Trained and evaluated on all spans: energy in uJ and mean delay in us. None if no plans have
    /// so little delay.
    pub in_sample: Option<[f64; 2]>,
    /// Trained on the other parts of the recording.
    pub cross_validated: Option<[f64; 2]>,
}

/// The cluster, and the knowledge.
type Key = [u16; LEVELS + 1];

/// Sums over one fold's spans in one cell: their number, and energy (fJ) and delay (ns) by plan.
#[derive(Clone, Default)]
struct Sums {
    spans: u64,
    costs: Vec<(i128, i64)>,
}

impl Sums {
    fn add(&mut self, costs: &[Cost]) {
        self.spans += 1;
        self.costs.resize(costs.len(), (0, 0));
        for (sum, cost) in self.costs.iter_mut().zip(costs) {
            sum.0 += cost.energy.0;
            sum.1 += cost.delay.0;
        }
    }

    /// Returns the sum of all folds but one.
    fn without(all: &[Sums; FOLDS], left_out: Option<usize>) -> Sums {
        let mut sum = Sums::default();
        for (_, part) in all.iter().enumerate().filter(|(fold, _)| Some(*fold) != left_out) {
            sum.spans += part.spans;
            sum.costs.resize(sum.costs.len().max(part.costs.len()), (0, 0));
            for (sum, cost) in sum.costs.iter_mut().zip(&part.costs) {
                *sum = (sum.0 + cost.0, sum.1 + cost.1);
            }
        }
        sum
    }

    /// Returns the cheapest plan among the first `plans`.
    fn best(&self, plans: usize, price: Power) -> usize {
        let cost = |&(energy, delay): &(i128, i64)| energy + price.over(Duration(delay)).0;
        let each = self.costs.iter().take(plans).map(cost).enumerate();
        each.min_by_key(|&(plan, cost)| (cost, plan)).map_or(0, |(plan, _)| plan)
    }
}

/// Cells of each level, and the cell of each span.
struct Tables<'a> {
    cpus: &'a [SpannedCpu],
    levels: [BTreeMap<Key, [Sums; FOLDS]>; LEVELS],
    /// Spans of all CPUs, in order.
    known: Vec<(Known, Key)>,
    /// Plans of each cluster, and the number of those without own timers, which come first.
    plans: BTreeMap<usize, (Vec<Plan>, usize)>,
}

/// The plan of each cell, for each fold that it was not trained on.
type Choices = BTreeMap<Key, [usize; FOLDS]>;

/// Returns the best of each class with a mean delay of at most `delay`.
pub fn bounds(cpus: &[SpannedCpu], delay: Duration) -> Vec<Bound> {
    let tables = Tables::new(cpus);
    let mut found = Vec::new();
    for (knows, level) in CLASSES {
        for own_timers in [false, true] {
            let at = |is_learnt: bool| {
                let cost =
                    |price| tables.run(level, &tables.choices(level, own_timers, is_learnt, price));
                let price = price_within(delay, &mut |price| Some(cost(price)[1] * 1e3))?.ok()?;
                Some(cost(price))
            };
            let cells = tables.levels[level].len();
            let (in_sample, cross_validated) = (at(false), at(true));
            found.push(Bound { knows, own_timers, cells, in_sample, cross_validated });
        }
    }
    found
}

impl Tables<'_> {
    fn new(cpus: &[SpannedCpu]) -> Tables<'_> {
        let (known, plans) = (Vec::new(), BTreeMap::new());
        let mut tables = Tables { cpus, levels: Default::default(), known, plans };
        for cpu in cpus {
            let (plans, _) = tables.plans.entry(cpu.cluster).or_insert_with(|| plans_of(cpu));
            let spans = &cpu.input.spans;
            for (index, span) in spans.iter().enumerate() {
                let known = cpu.known(index);
                let cost = |&plan: &Plan| spend(cpu, span, span.start, &known, plan).0;
                let costs: Vec<Cost> = plans.iter().map(cost).collect();
                let full = key(cpu, span, &known);
                tables.known.push((known, full));
                for level in 0..LEVELS {
                    let cell = tables.levels[level].entry(coarse(full, level)).or_default();
                    cell[index * FOLDS / spans.len()].add(&costs);
                }
            }
        }
        tables
    }

    /// Returns the cheapest plans at a price, trained on the other folds or on all.
    fn choices(&self, level: usize, own_timers: bool, is_learnt: bool, price: Power) -> Choices {
        let of = |(key, folds): (&Key, &[Sums; FOLDS])| {
            let (plans, plain) = &self.plans[&usize::from(key[0])];
            let plans = if own_timers { plans.len() } else { *plain };
            let mut chosen = [Sums::without(folds, None).best(plans, price); FOLDS];
            for fold in (0..FOLDS).filter(|&fold| is_learnt && folds[fold].spans > 0) {
                chosen[fold] = self.learnt(*key, level, fold).best(plans, price);
            }
            (*key, chosen)
        };
        self.levels[level].iter().map(of).collect()
    }

    /// Returns the sums of a cell from the other folds, or else of the coarser cell that contains
    /// it.
    fn learnt(&self, key: Key, level: usize, left_out: usize) -> Sums {
        let at = |level: usize| {
            let cell = self.levels[level].get(&coarse(key, level));
            cell.map(|all| Sums::without(all, Some(left_out)))
        };
        let enough = |sums: &Sums| sums.spans >= SPANS_MIN;
        (0..=level).rev().filter_map(at).find(enough).or_else(|| at(0)).unwrap_or_default()
    }

    /// Returns the energy in uJ and the mean delay in us of these choices on all spans, in order: a
    /// CPU that is late begins its next sleep later, as in a replay.
    fn run(&self, level: usize, choices: &Choices) -> [f64; 2] {
        let (mut energy, mut delay) = (Energy::ZERO, 0i128);
        let mut known = self.known.iter();
        for cpu in self.cpus {
            let (plans, _) = &self.plans[&cpu.cluster];
            let spans = &cpu.input.spans;
            let mut now = spans.first().map_or(Instant(0), |span| span.start);
            for (index, (span, (known, key))) in spans.iter().zip(&mut known).enumerate() {
                if now <= span.wake {
                    let fold = index * FOLDS / spans.len();
                    let plan = plans[choices[&coarse(*key, level)][fold]];
                    let (cost, resume) = spend(cpu, span, now, known, plan);
                    energy += cost.energy;
                    now = resume;
                }
                delay += i128::from(now.since(span.resume).0.max(0));
                let work = spans.get(index + 1).map(|next| next.start.since(span.resume));
                now += work.unwrap_or(Duration::ZERO);
            }
        }
        [energy.as_uj_f64(), delay as f64 / 1e3 / self.known.len().max(1) as f64]
    }
}

/// Returns the parts of a key that a level uses, after the cluster.
fn width(level: usize) -> usize {
    [0, 1, 2, 3, 5][level]
}

/// Returns the cell of a level that contains a cell.
fn coarse(mut key: Key, level: usize) -> Key {
    key[1 + width(level)..].fill(0);
    key
}

fn key(cpu: &SpannedCpu, span: &Span, known: &Known) -> Key {
    let octave = |time: Duration| time.0.max(1).ilog2() as u16 + 1;
    let half = |time: Duration| {
        let ns = time.0.max(2);
        2 * octave(time) + (ns >> (ns.ilog2() - 1) & 1) as u16
    };
    [
        cpu.cluster as u16,
        half(known.sleep_length),
        octave(known.to_tick),
        known.last[0].map_or(0, octave),
        (known.util / 128) as u16,
        span.nr_iowait.min(1),
    ]
}

/// Returns all plans of a CPU, and the number of those without own timers.
fn plans_of(cpu: &SpannedCpu) -> (Vec<Plan>, usize) {
    let states = cpu.model.allowed();
    let deeper = |from: usize| states.iter().copied().filter(move |&to| to > from);
    let pairs: Vec<(usize, usize)> =
        states.iter().flat_map(|&from| deeper(from).map(move |to| (from, to))).collect();
    let mut plans: Vec<Plan> = states.iter().map(|&state| Plan::Stay(state)).collect();
    plans.extend(pairs.iter().map(|&(from, to)| Plan::Tick(from, to)));
    let plain = plans.len();
    for us in AGES_US {
        let age = Duration::from_us(us);
        plans.extend(pairs.iter().map(|&(from, to)| Plan::Timer(from, age, to)));
    }
    plans.extend(pairs.iter().map(|&(shallow, deep)| Plan::Prewake(deep, shallow)));
    (plans, plain)
}

/// Returns the cost of a plan that begins at `start`, and the time at which the CPU has resumed.
fn spend(
    cpu: &SpannedCpu,
    span: &Span,
    start: Instant,
    known: &Known,
    plan: Plan,
) -> (Cost, Instant) {
    let model = &cpu.model;
    let never = Alarms::NONE;
    let (first, alarms, then) = match plan {
        Plan::Stay(state) => (state, never, state),
        Plan::Tick(from, to) => (from, Alarms::tick(model.tick.next(start)), to),
        Plan::Timer(from, age, to) => (from, Alarms { timer: start + age, ..never }, to),
        Plan::Prewake(from, to) => {
            let state = &model.states[from];
            let ahead = state.entry_latency + state.exit_latency + model.tick_handling;
            let at = span.start + known.sleep_length - ahead;
            let timer = if at > start { at } else { never.timer };
            (from, Alarms { timer, ..never }, to)
        }
    };
    let slept =
        |state, from, resume: Instant| model.costs.sleep(span.opp, state, resume.since(from));
    let (mut now, is_over) = cpu.sleep(span, first, start, alarms);
    let mut energy = slept(first, start, now);
    if matches!(plan, Plan::Timer(..) | Plan::Prewake(..)) {
        energy += model.costs.awake(span.opp, model.timer_start);
    }
    if !is_over {
        now += model.tick_handling;
        energy += model.costs.awake(span.opp, model.tick_handling);
        if now <= span.wake {
            let resume = cpu.sleep(span, then, now, never).0;
            energy += slept(then, now, resume);
            now = resume;
        }
    }
    let delay = now.since(span.resume).max(Duration::ZERO);
    (Cost { energy, delay }, now)
}
