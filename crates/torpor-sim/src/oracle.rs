// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Distance of a governor from the oracle, in a run whose future depends on it.
//!
//! The oracle cannot be one of the governors: its decisions would have changed the run. But once a
//! run is over, the idle spans of each CPU are known and can be replayed: the oracle's cost is the
//! minimum for exactly these spans. So each governor has its own oracle, and the oracles differ as
//! the runs do.

pub use crate::machine::AgainstOracle;
use crate::machine::Sink;
use torpor_engine::decision::{Decision, Observer};
use torpor_engine::input::Span;
use torpor_engine::model::CpuModel;
use torpor_engine::oracle::{self, Aim};
use torpor_machine::units::{Duration, Energy, Instant, Power};
use torpor_trace::EventKind;

/// Takes a run's idleness as a replay would have it.
pub struct Idleness<'a> {
    models: &'a [CpuModel],
    cpus: Vec<Vec<Span>>,
    too_deep: Energy,
    too_shallow: Energy,
}

impl<'a> Idleness<'a> {
    pub fn new(models: &'a [CpuModel]) -> Idleness<'a> {
        let cpus = vec![Vec::new(); models.len()];
        Idleness { models, cpus, too_deep: Energy::ZERO, too_shallow: Energy::ZERO }
    }

    /// Calls `goes_on` from time to time with the number of finished and of all spans; returns
    /// `None` if it says stop.
    pub fn close(
        self,
        aim: Aim,
        goes_on: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Option<Result<AgainstOracle, String>> {
        let price = match aim {
            Aim::Energy => Power::ZERO,
            Aim::Price(price) => price,
            Aim::Within(latency) => {
                let events = self.cpus.iter().map(Vec::len).sum::<usize>().max(1) as f64;
                let mut delay_at = |price| {
                    let (_, delay, _) = self.plan(price, &mut |_, all| goes_on(0, all))?;
                    Some(delay.0 as f64 / events)
                };
                match oracle::price_within(latency, &mut delay_at)? {
                    Ok(price) => price,
                    Err(least) => return Some(Err(oracle::too_tight(latency, least))),
                }
            }
        };
        let (oracle, _, crowded_spans) = self.plan(price, goes_on)?;
        let Idleness { too_deep, too_shallow, .. } = self;
        Some(Ok(AgainstOracle { oracle, crowded_spans, too_deep, too_shallow }))
    }

    /// Energy and delay of all CPUs at a price of delay, and crowded spans.
    ///
    /// FIDELITY(sim-oracle): each CPU plans for itself, whatever its cluster takes.
    fn plan(
        &self,
        price: Power,
        goes_on: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Option<(Energy, Duration, u64)> {
        let total = self.cpus.iter().map(Vec::len).sum();
        let (mut done, mut sums) = (0, (Energy::ZERO, Duration::ZERO, 0));
        for (model, spans) in self.models.iter().zip(&self.cpus).filter(|(_, s)| !s.is_empty()) {
            let plan =
                oracle::plan(model, spans, oracle::Terms { price, credit: None }, &mut |now| {
                    goes_on(done + now, total)
                })?;
            sums.0 += plan.energy;
            sums.1 += plan.delay;
            sums.2 += plan.crowded_spans;
            done += spans.len();
        }
        Some(sums)
    }
}

impl Idleness<'_> {
    /// FIDELITY(sim-oracle): a sleep is priced at the OPP it ends at.
    fn slept(&mut self, cpu: usize, state: usize, opp: u16, length: Duration) {
        let model = &self.models[cpu];
        let cost = |state| model.costs.sleep(opp, state, length);
        let Some(best) = model.allowed().into_iter().min_by_key(|&s| cost(s)) else { return };
        let lost = cost(state) - cost(best);
        if state > best {
            self.too_deep += lost;
        } else {
            self.too_shallow += lost;
        }
    }
}

impl Observer for Idleness<'_> {
    fn wants(&self, _: usize) -> bool {
        true
    }

    fn decision(&mut self, decision: &Decision) {
        let length = decision.resume.since(decision.from);
        self.slept(decision.slot, usize::from(decision.state), decision.opp, length);
    }
}

impl Sink for Idleness<'_> {
    const RECORDS: bool = false;
    const TAKES_SPANS: bool = true;

    fn event(&mut self, _: Instant, _: usize, _: EventKind) {}

    fn span(&mut self, cpu: usize, span: Span) {
        self.cpus[cpu].push(span);
    }

    fn start_over(&mut self) {
        self.cpus.iter_mut().for_each(Vec::clear);
        (self.too_deep, self.too_shallow) = (Energy::ZERO, Energy::ZERO);
    }

    fn cut(&mut self, cpu: usize, state: usize, opp: u16, slept: Duration) {
        self.slept(cpu, state, opp, slept);
    }
}
