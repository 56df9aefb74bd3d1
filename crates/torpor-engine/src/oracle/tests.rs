// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The oracle against exhaustive search, and against random governors.

use super::stretch::Alike;
use super::{NO_STEP, Plan, REPEAT, Repeat, Search, Step, Terms};
use crate::decision::Unobserved;
use crate::idle_loop::{CpuRun, gives_up, next_events};
use crate::input::{Span, TickGrid};
use crate::model::{Alarms, CpuModel, SleepEnd};
use crate::policy::{Choice, Policy, Script};
use crate::testing;
use crate::totals::CpuTotals;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::HashMap;
use std::rc::Rc;
use torpor_governor::{Fault, Inputs, Selection};
use torpor_machine::platform::{Cluster, StatePower};
use torpor_machine::units::{Duration, Energy, Hz, Instant, Power};

/// Plans without a limit on paths.
fn plan(model: &CpuModel, spans: &[Span]) -> Plan {
    plan_at(model, spans, Terms::default())
}

pub(super) fn plan_at(model: &CpuModel, spans: &[Span], terms: Terms<'_>) -> Plan {
    super::plan_among((usize::MAX, model.allowed()), model, spans, terms, &mut |_| true)
        .expect("not cancelled")
}

/// Returns the least energy over all sequences of decisions.
fn exhaustive(model: &CpuModel, spans: &[Span], k: usize, now: Instant, stopped: bool) -> Energy {
    cheapest(model, spans, Terms::default(), k, now, stopped)
}

/// Returns the least energy over all sequences, with these terms.
pub(super) fn cheapest(
    model: &CpuModel,
    spans: &[Span],
    terms: Terms<'_>,
    k: usize,
    now: Instant,
    stopped: bool,
) -> Energy {
    All { model, spans, terms, known: HashMap::new() }.cheapest(k, now, stopped)
}

/// All sequences of decisions. Those from one point of the loop on cost the same whatever came
/// before: each point is searched once.
struct All<'a> {
    model: &'a CpuModel,
    spans: &'a [Span],
    terms: Terms<'a>,
    known: HashMap<(usize, i64, bool), Energy>,
}

impl All<'_> {
    fn cheapest(&mut self, k: usize, now: Instant, stopped: bool) -> Energy {
        if k == self.spans.len() {
            return Energy::ZERO;
        }
        if let Some(known) = self.known.get(&(k, now.0, stopped)) {
            return *known;
        }
        let found = self.search(k, now, stopped);
        self.known.insert((k, now.0, stopped), found);
        found
    }

    /// Adds the delay of a span's end to what comes after it.
    fn after(&mut self, k: usize, resume: Instant, stopped: bool) -> Energy {
        let span = &self.spans[k];
        let work = self.spans.get(k + 1).map_or(Duration::ZERO, |s| s.start.since(span.resume));
        let late = self.terms.price.over(resume.since(span.resume).max(Duration::ZERO));
        late + self.cheapest(k + 1, resume + work, stopped && !span.ends_visit)
    }

    fn search(&mut self, k: usize, now: Instant, stopped: bool) -> Energy {
        let (model, span) = (self.model, &self.spans[k]);
        if now > span.wake || gives_up(span, now) {
            return self.after(k, now, stopped);
        }
        let tick = &model.tick;
        let must_keep =
            next_events(span, tick.hz.tick(), tick.floor(now), now, stopped).must_keep_tick;
        let choices = model.allowed().into_iter().flat_map(|state| [(state, false), (state, true)]);
        let costs = choices
            .map(|(state, stop)| self.choice(k, now, state, stopped || (stop && !must_keep)));
        costs.min().expect("a state is allowed")
    }

    fn choice(&mut self, k: usize, now: Instant, state: usize, stopped: bool) -> Energy {
        let (model, span) = (self.model, &self.spans[k]);
        let tick_at = if stopped { Instant::NEVER } else { model.tick.next(now) };
        let alarms = Alarms::tick(tick_at);
        let sleep = if model.states[state].is_polling {
            let timeout = model.poll_timeout(now, model.default_poll_limit);
            model.poll(now, span.wake, alarms, timeout)
        } else {
            model.sleep(state, now, span.wake, alarms)
        };
        let credit = self.terms.credit.filter(|_| state == model.deepest);
        let credited = credit.map_or(Energy::ZERO, |c| c.between(now, sleep.resume));
        let own = model.costs.sleep(span.opp, state, sleep.resume.since(now)) - credited;
        own + match sleep.end {
            SleepEnd::Event => self.after(k, sleep.resume, stopped),
            SleepEnd::PollTimeout => self.cheapest(k, sleep.resume, stopped),
            SleepEnd::Tick | SleepEnd::GovernorTimer => {
                let awake = model.costs.awake(span.opp, model.tick_handling);
                awake + self.cheapest(k, sleep.resume + model.tick_handling, stopped)
            }
        }
    }
}

/// Searches spans of one CPU whose paths meet, exhaustively as well.
fn equals_exhaustive_search_in_tied_spans(count: u32) {
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let cases = (tied_clusters(), tied_terms(), tied_lead_us(), tied_spans(5));
    let ran = TestRunner::new_with_rng(config, seed).run(&cases, |(cluster, terms, lead, raw)| {
        let (handling, limit, price) = terms;
        let model = tied_model(testing::model(&cluster), handling, limit);
        let lead = (0, lead, [true, false]);
        let spans = as_spans([vec![lead], raw].concat());
        let terms = Terms { price, credit: None };
        let found = plan_at(&model, &spans, terms);
        let least = cheapest(&model, &spans, terms, 0, spans[0].start, false);
        prop_assert_eq!(found.energy + price.over(found.delay), least);
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn paths_that_meet_cost_the_least() {
    equals_exhaustive_search_in_tied_spans(2_000);
}

#[test]
#[ignore = "slow: 100,000 CPUs, searched exhaustively"]
fn many_paths_that_meet_cost_the_least() {
    equals_exhaustive_search_in_tied_spans(100_000);
}

/// Chooses an allowed state by random bytes.
struct Dice<'a> {
    model: &'a CpuModel,
    bytes: Vec<u8>,
    at: usize,
}

impl Policy for Dice<'_> {
    fn select(&mut self, _: usize, _: &Inputs) -> Result<Selection, Fault> {
        let byte = self.bytes[self.at % self.bytes.len()];
        self.at += 1;
        let allowed = self.model.allowed();
        let state = allowed[byte as usize / 2 % allowed.len()] as i32;
        Ok(Selection { state, stop_tick: byte & 1 == 1, asked_sleep_length: true })
    }
}

fn totals_of(model: &CpuModel, spans: &[Span], policy: &mut impl Policy) -> CpuTotals {
    let mut run = CpuRun::new(model, spans, 0);
    run.run(policy, &mut Unobserved).expect("no policy here fails");
    run.close()
}

/// Two to four states with random latencies, residencies and falling powers.
pub(super) fn clusters() -> impl Strategy<Value = Cluster> {
    clusters_left_within(300)
}

pub(super) fn clusters_left_within(exit_us: i64) -> impl Strategy<Value = Cluster> {
    let state = (0i64..80, 0..exit_us, 1i64..1_500, 0.0f64..50.0);
    (prop::collection::vec(state, 2..5), any::<bool>())
        .prop_map(|(raw, polls)| cluster_of(raw, polls))
}

/// States of entry, exit and target residency in us, and power in mW; the first one may poll.
fn cluster_of(mut raw: Vec<(i64, i64, i64, f64)>, polls: bool) -> Cluster {
    raw.sort_by_key(|r| r.2);
    let mut powers: Vec<f64> = raw.iter().map(|r| r.3).collect();
    powers.sort_by(|a, b| b.total_cmp(a));
    let mut cluster = testing::two_state_cluster();
    let states = raw.iter().zip(powers).enumerate().map(|(i, (r, mw))| {
        if i == 0 && polls {
            return testing::state("POLL", 0, 0, 0, mw);
        }
        testing::state(&format!("S{i}"), r.0, r.1, r.2, mw)
    });
    cluster.idle_states = states.collect();
    cluster
}

/// Times in us of which many are sums and differences of others, so that paths meet.
pub(super) fn tied_us() -> impl Strategy<Value = i64> {
    prop::sample::select(&[0, 5, 10, 15, 20, 30, 50, 100][..])
}

/// Like [`clusters`], of few values; energies tie as well. Some machines enter all states at once.
pub(super) fn tied_clusters() -> impl Strategy<Value = Cluster> {
    let powers = prop::sample::select(&[0.0, 1.0, 2.0, 5.0, 10.0][..]);
    let state = (tied_us(), tied_us(), tied_us(), powers);
    (prop::collection::vec(state, 2..4), prop::bool::weighted(0.2), prop::bool::weighted(0.3))
        .prop_map(|(mut raw, polls, at_once)| {
            raw.iter_mut().filter(|_| at_once).for_each(|state| state.0 = 0);
            cluster_of(raw, polls)
        })
}

/// A tick of 1 ms, its handling, a latency limit and a price of delay.
pub(super) fn tied_terms() -> impl Strategy<Value = (Duration, Duration, Power)> {
    let limit = prop_oneof![4 => Just(Duration::MAX), 1 => tied_us().prop_map(Duration::from_us)];
    let price = prop::sample::select(&[0, 0, 0, 1_000, 100_000][..]).prop_map(Power);
    (tied_us().prop_map(Duration::from_us), limit, price)
}

/// Returns the model of a tied case.
pub(super) fn tied_model(mut model: CpuModel, handling: Duration, limit: Duration) -> CpuModel {
    model.tick = TickGrid::new(Hz::H1000, Duration::ZERO);
    model.tick_handling = handling;
    model.default_poll_limit = Duration::from_us(250);
    model.set_latency_limit(limit);
    model
}

/// Idle and work in us of up to `count` spans, whose ends tie with each other and with ticks.
pub(super) fn tied_spans(count: usize) -> impl Strategy<Value = Vec<RawSpan>> {
    let longer = |more: i64| tied_us().prop_map(move |us| more + us);
    let idle = prop_oneof![3 => tied_us(), 3 => longer(500), 1 => longer(1_000)];
    let flags = [prop::bool::weighted(0.8), prop::bool::weighted(0.2)];
    prop::collection::vec((idle, tied_us(), flags), 1..=count)
}

/// Time before the first span, in us: often close before a tick.
pub(super) fn tied_lead_us() -> impl Strategy<Value = i64> {
    prop_oneof![tied_us(), tied_us().prop_map(|us| 1_000 - us)]
}

/// Spans of up to `idle_us` with little work between, some ending only in an interrupt.
pub(super) fn recordings(count: usize, idle_us: i64) -> impl Strategy<Value = Vec<Span>> {
    // Sometimes the event comes at once, and the entry is given up.
    let idle = prop_oneof![1 => Just(0), 7 => 0..idle_us];
    let one = (idle, 0i64..400, any::<[bool; 2]>());
    prop::collection::vec(one, 1..=count).prop_map(as_spans)
}

/// Spans so short that a trip makes a path late for several, about the tick that comes at 4 ms.
pub(super) fn crowded_recordings() -> impl Strategy<Value = Vec<Span>> {
    let lead = (0i64..50, 3_600i64..3_990, any::<[bool; 2]>());
    let one = (0i64..90, 0i64..40, any::<[bool; 2]>());
    (lead, prop::collection::vec(one, 1..=6)).prop_map(|(lead, mut raw)| {
        raw.insert(0, lead);
        as_spans(raw)
    })
}

/// Idle and work in us, then whether the event ends the visit and whether RCU holds the tick.
pub(super) type RawSpan = (i64, i64, [bool; 2]);

pub(super) fn as_spans(raw: Vec<RawSpan>) -> Vec<Span> {
    let pairs: Vec<(i64, i64)> = raw.iter().map(|r| (r.0, r.1)).collect();
    let mut spans = testing::spans(&pairs);
    for (span, (_, _, [ends_visit, holds])) in spans.iter_mut().zip(&raw) {
        span.ends_visit = *ends_visit;
        span.rcu_holds_tick = *holds;
    }
    spans
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn equals_exhaustive_search(
        cluster in clusters(),
        spans in prop_oneof![recordings(4, 2_500), crowded_recordings()],
        limit_us in prop::option::of(0i64..400),
        price_uw in prop_oneof![2 => Just(0), 1 => 1i64..100_000, 1 => 1i64..10_000_000_000],
    ) {
        let mut model = testing::model(&cluster);
        if let Some(us) = limit_us {
            model.set_latency_limit(Duration::from_us(us));
        }
        // Keep the exhaustive tree small: polling gives up after a quarter of the tick.
        model.default_poll_limit = Duration::from_us(1_000);
        let price = Power(price_uw);
        let terms = Terms { price, credit: None };
        let found = plan_at(&model, &spans, terms);
        let least = cheapest(&model, &spans, terms, 0, spans[0].start, false);
        prop_assert_eq!(found.energy + price.over(found.delay), least);
        let totals = totals_of(&model, &spans, &mut Script::of(found.choices));
        prop_assert_eq!((totals.energy, totals.delays.total()), (found.energy, found.delay));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_random_governor_costs_less(
        cluster in clusters(),
        spans in recordings(60, 12_000),
        bytes in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let model = testing::model(&cluster);
        let found = plan(&model, &spans);
        let mut dice = Dice { model: &model, bytes, at: 0 };
        prop_assert!(found.energy <= totals_of(&model, &spans, &mut dice).energy);
        let totals = totals_of(&model, &spans, &mut Script::of(found.choices));
        prop_assert_eq!(found.energy, totals.energy);
    }

    #[test]
    fn higher_price_trades_energy_for_delay(
        cluster in clusters(),
        spans in recordings(30, 12_000),
        price_uw in 1i64..1_000_000,
    ) {
        let model = testing::model(&cluster);
        let [free, low, high] = [0, price_uw, 4 * price_uw].map(|uw| {
            let found = plan_at(&model, &spans, Terms { price: Power(uw), credit: None });
            (found.energy, found.delay)
        });
        prop_assert!(free.0 <= low.0 && low.0 <= high.0);
        prop_assert!(high.1 <= low.1 && low.1 <= free.1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn skipped_sleeps_change_no_decision(
        cluster in clusters(),
        spans in recordings(12, 2_500),
        poll_us in 20i64..400,
        price_uw in prop_oneof![2 => Just(0), 1 => 1i64..100_000],
    ) {
        let mut model = testing::model(&cluster);
        model.default_poll_limit = Duration::from_us(poll_us);
        let search = |skips: bool| {
            let search = Search { skips, price: Power(price_uw), ..Search::new(&model) };
            search.plan(&spans, &mut |_| true).expect("not cancelled")
        };
        let [found, all] = [true, false].map(search);
        prop_assert_eq!((found.energy, found.delay), (all.energy, all.delay));
        // Rounds of polling are skipped, too, and where it makes no difference the tick stops later.
        if !Search::new(&model).polls() {
            prop_assert_eq!(format!("{:?}", found.choices), format!("{:?}", all.choices));
        }
    }
}

/// Sleeps of up to 0.6 s among short ones, by an RCU or a timer of the wheel that holds the tick.
pub(super) fn long_recordings() -> impl Strategy<Value = Vec<Span>> {
    let long = (30_000i64..600_000, 0i64..900, any::<[bool; 2]>(), prop::option::of(0i64..700_000));
    let short = (0i64..2_500, 0i64..900, any::<[bool; 2]>(), Just(None));
    prop::collection::vec(prop_oneof![long, short], 1..=5).prop_map(|raw| {
        let wheels: Vec<Option<i64>> = raw.iter().map(|r| r.3).collect();
        let mut spans = as_spans(raw.into_iter().map(|r| (r.0, r.1, r.2)).collect());
        for (span, wheel) in spans.iter_mut().zip(wheels) {
            let at = wheel.map(|us| span.start + Duration::from_us(us));
            span.next_wheel = at.unwrap_or(Instant::NEVER);
        }
        spans
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn leaps_lose_nothing(
        cluster in prop_oneof![clusters(), clusters_left_within(9_000)],
        spans in long_recordings(),
    ) {
        let model = testing::model(&cluster);
        let by_ticks = Search { leaps: false, ways_max: usize::MAX, ..Search::new(&model) };
        let by_ticks = by_ticks.plan(&spans, &mut |_| true).expect("not cancelled");
        let found = plan(&model, &spans);
        prop_assert_eq!(found.energy, by_ticks.energy);
        let mut script = Script::of(found.choices);
        prop_assert_eq!(found.energy, totals_of(&model, &spans, &mut script).energy);
    }
}

/// Like [`clusters`] without polling, with a power for each of two OPPs.
pub(super) fn clusters_of_two_opps() -> impl Strategy<Value = Cluster> {
    let state = (0i64..60, 0i64..120, 1i64..1_500);
    let power = prop::collection::vec(0.0f64..50.0, 2..=2);
    prop::collection::vec((state, power), 2..5).prop_map(|mut raw| {
        raw.sort_by_key(|(state, _)| state.2);
        let mut powers = [0, 1].map(|opp| raw.iter().map(|r| r.1[opp]).collect::<Vec<f64>>());
        powers.iter_mut().for_each(|p| p.sort_by(|a, b| b.total_cmp(a)));
        let mut cluster = testing::two_state_cluster();
        cluster.opps.push(cluster.opps[0].clone());
        cluster.idle_states = (0..raw.len())
            .map(|i| {
                // The shallowest is quick, as it is on machines.
                let (entry, exit, residency) =
                    if i == 0 { (0, raw[0].0.1 / 8, 1) } else { raw[i].0 };
                let mut state = testing::state(&format!("S{i}"), entry, exit, residency, 0.0);
                let of = |opp: usize| Power::from_mw(powers[opp][i]);
                state.power = StatePower::PerOpp(vec![of(0), of(1)]);
                state
            })
            .collect();
        cluster
    })
}

/// Runs of spans shorter than any trip, between some where all paths meet, at two OPPs, anywhere
/// about a tick.
pub(super) fn dense_recordings(count: usize) -> impl Strategy<Value = Vec<Span>> {
    let idle = prop_oneof![8 => 0i64..40, 1 => 0i64..3_000];
    let one = (idle, 0i64..30, any::<[bool; 2]>(), prop::bool::weighted(0.2));
    (0i64..4_000, prop::collection::vec(one, 1..=count)).prop_map(|(lead, raw)| {
        let mut spans = as_spans(
            [(0, lead, [true, false])]
                .into_iter()
                .chain(raw.iter().map(|&(idle, work, [ends, _], _)| (idle, work, [ends, false])))
                .collect(),
        );
        for (span, (_, _, [_, fast], holds)) in spans.iter_mut().skip(1).zip(&raw) {
            span.opp = u16::from(*fast);
            span.rcu_holds_tick = *holds;
        }
        spans
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn equals_exhaustive_search_in_dense_spans(
        cluster in clusters_of_two_opps(),
        spans in dense_recordings(7),
    ) {
        let model = testing::model(&cluster);
        let found = plan(&model, &spans);
        prop_assert_eq!(found.energy, exhaustive(&model, &spans, 0, spans[0].start, false));
    }

    #[test]
    fn dropping_dense_paths_loses_nothing(
        cluster in clusters_of_two_opps(),
        spans in dense_recordings(60),
        bytes in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let model = testing::model(&cluster);
        let found = plan(&model, &spans);
        let all =
            Search { bounds: false, trip: None, ways_max: usize::MAX, ..Search::new(&model) };
        let all = all.plan(&spans, &mut |_| true).expect("not cancelled");
        prop_assert_eq!(found.energy, all.energy);
        let mut dice = Dice { model: &model, bytes, at: 0 };
        prop_assert!(found.energy <= totals_of(&model, &spans, &mut dice).energy);
    }
}

/// A pipe's spans: some microseconds each, never the same twice.
#[test]
fn dense_decisions_are_linear_in_their_number() {
    let weighed = |count: usize, bounds: bool| {
        let mut spans = testing::spans(&vec![(0, 0); count]);
        let (mut at, mut draw) = (Instant(0), 1u64);
        for span in &mut spans {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (span.start, span.wake) = (at, at + Duration((draw >> 52) as i64 + 1_000));
            span.resume = span.wake;
            at = span.wake + Duration::from_us(3);
        }
        let model = testing::two_state_cpu();
        let mut search = Search { bounds, ways_max: usize::MAX, ..Search::new(&model) };
        search.decisions_per_check = 1;
        let mut looks = 0u64;
        search.plan(&spans, &mut |_| {
            looks += 1;
            looks < 10_000_000
        });
        looks
    };
    let (few, many) = (weighed(2_000, true), weighed(16_000, true));
    assert!(many <= 9 * few, "{few} decisions in 2,000 spans, {many} in 16,000");
    // Without these drops, the number grows at every turn.
    let (few, many) = (weighed(500, false), weighed(2_000, false));
    assert!(many > 8 * few, "{few} decisions in 500 spans, {many} in 2,000");
}

/// A pipe's spans on a machine whose deepest state takes longer to enter and leave than several of
/// them last.
#[test]
fn late_paths_are_bounded_and_counted() {
    let mut spans = testing::spans(&[(0, 0); 400]);
    let (mut at, mut draw) = (Instant(0), 1u64);
    for span in &mut spans {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (span.start, span.wake) = (at, at + Duration(180_000 + (draw >> 50) as i64));
        span.resume = span.wake;
        at = span.wake + Duration((draw << 14 >> 48) as i64);
    }
    let mut cluster = testing::two_state_cluster();
    cluster.idle_states = vec![
        testing::state("WFI", 0, 1, 1, 4.0),
        testing::state("cpu-sleep", 120, 250, 900, 0.0),
        testing::state("cluster-sleep", 400, 500, 2_000, 0.0),
    ];
    let model = testing::model(&cluster);
    let found = |ways_max| {
        let search = Search { ways_max, ..Search::new(&model) };
        search.plan(&spans, &mut |_| true).expect("not cancelled")
    };
    let [few, usual, many] = [2, super::WAYS_MAX, 16 * super::WAYS_MAX].map(found);
    assert!(few.crowded_spans >= usual.crowded_spans && usual.crowded_spans > 0);
    assert!(many.energy <= usual.energy && usual.energy <= few.energy);
    let lost = (usual.energy - many.energy).as_uj_f64() / many.energy.as_uj_f64();
    assert!(lost < 1e-4, "{lost}");
    assert_eq!(plan(&model, &spans[..12]).crowded_spans, 0);
}

/// A sleep of a week between short ones that hide the cost of being late; it takes as many
/// decisions as a sleep of a second.
#[test]
fn the_length_of_a_sleep_does_not_matter() {
    let weighed = |model: &CpuModel, idle_us: i64, drops: bool| {
        let mut spans = testing::spans(&[(2_100, 1_400), (idle_us, 100), (20, 100), (1_000, 0)]);
        spans[1].rcu_holds_tick = true;
        let mut looks = 0;
        let mut search = Search::new(model);
        search.decisions_per_check = 1;
        if !drops {
            search.trip = None;
        }
        let plan = search.plan(&spans, &mut |_| {
            looks += 1;
            looks < 100_000
        });
        (looks, plan.expect("it ends").energy)
    };
    // A desktop's C10 with a tick of 4 ms: it is left after the next tick, so the cheapest way to
    // keep the tick is to enter it at every second one.
    let mut slow = testing::x86_cluster();
    slow.idle_states.push(testing::state("C10", 0, 4_100, 5_000, 0.0));
    for model in [testing::two_state_cpu(), testing::x86_cpu(), testing::model(&slow)] {
        for drops in [false, true] {
            let (second, _) = weighed(&model, 1_000_000, drops);
            let (week, energy) = weighed(&model, 604_800_000_000, drops);
            assert!(week <= 2 * second, "{week} decisions, {second} of a second");
            let (again, whole) = weighed(&model, 604_800_000_000, !drops);
            assert_eq!(energy, whole, "{again} decisions");
        }
    }
}

/// One of two paths comes from the other by a deep sleep (1), that one from the first by two
/// shallow ones (0, 0): so the laps go 1, 00, 1, 00 backwards.
#[test]
fn laps_are_unrolled_without_being_written_out() {
    let model = testing::two_state_cpu();
    let mut search = Search::new(&model);
    let step = |before, state| Step { before, choice: Choice { state, stop_tick: false } };
    let (first, other) = (step(NO_STEP, 0), step(NO_STEP, 0));
    search.steps = vec![first, other, step(1, 1), step(0, 0), step(3, 0), step(0, REPEAT)];
    let alike = Rc::new(Alike { before: vec![0, 1], after: vec![2, 4] });
    search.repeats.push(Repeat { alike, index: 0, laps: 1_000_000_001 });
    let choices = search.choices(5);
    let found: Vec<(Vec<u8>, u64)> = choices
        .parts()
        .map(|(choices, times)| (choices.iter().map(|c| c.state).collect(), times))
        .collect();
    // The step before, with the lap that was searched; of the others two are met on the way to the
    // circle, and one is left over.
    let circle = (vec![0, 0, 1], 499_999_999);
    assert_eq!(found, [(vec![0], 3), (vec![1], 1), circle, (vec![0], 2), (vec![1], 1)]);
    // A script makes them in that order.
    let mut script = Script::of(choices);
    let inputs = Inputs::default();
    let made = (0..10).map(|_| script.select(0, &inputs).unwrap().state);
    assert_eq!(made.collect::<Vec<_>>(), [0, 0, 0, 1, 0, 0, 1, 0, 0, 1]);
}

#[test]
fn deep_state_starts_at_its_target_residency() {
    // WFI costs 10 mW, c2 20 uJ a trip. The CPU is 160 us late out of c2, which the 5 ms of work
    // after it do not absorb, but energy alone counts. Residency includes the exit: 1840 us of
    // sleep make the 2000 us at which c2 breaks even.
    let model = testing::two_state_cpu();
    let short = plan(&model, &testing::spans(&[(1_500, 5_000)]));
    let once = |plan: &Plan, state| {
        let choice = Choice { state, stop_tick: true };
        plan.choices.parts().eq([(&[choice][..], 1)])
    };
    assert!(once(&short, 0));
    let long = plan(&model, &testing::spans(&[(2_500, 5_000)]));
    assert!(once(&long, 1));
    assert_eq!(long.energy.as_uj_f64(), 20.0);
}

#[test]
fn the_latency_limit_is_kept() {
    let mut model = testing::two_state_cpu();
    model.set_latency_limit(Duration::from_us(100));
    let found = plan(&model, &testing::spans(&[(50_000, 100)]));
    let (choices, _) = found.choices.parts().next().unwrap();
    assert_eq!(choices[0].state, 0);
}

#[test]
fn a_search_can_be_cancelled() {
    let model = testing::two_state_cpu();
    let spans = testing::spans(&[(1_500, 100); 10_000]);
    let mut done = 0;
    let found = super::plan(&model, &spans, Terms::default(), &mut |spans| {
        done = spans;
        spans < 5_000
    });
    assert!(found.is_none());
    assert!((5_000..9_500).contains(&done), "called often enough: {done}");
    // The same inside a sleep that is searched tick by tick.
    let spans = testing::spans(&[(60_000_000_000, 100)]);
    let search = Search { leaps: false, trip: None, ..Search::new(&model) };
    let mut looks = 0;
    let found = search.plan(&spans, &mut |_| {
        looks += 1;
        looks < 3
    });
    assert!(found.is_none() && looks == 3);
}
