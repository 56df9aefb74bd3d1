// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The lower bound of merged paths against exhaustive search.

use super::relaxed::lower_bound_among;
use super::tests::{
    as_spans, cheapest, clusters, clusters_left_within, clusters_of_two_opps, crowded_recordings,
    dense_recordings, long_recordings, plan_at, recordings, tied_clusters, tied_lead_us,
    tied_model, tied_spans, tied_terms,
};
use super::tests_credited::{constant_credits, credits, watching};
use super::{Credit, Terms};
use crate::input::Span;
use crate::model::CpuModel;
use crate::testing;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::Cell;
use torpor_machine::units::{Duration, Energy, Power};

fn bound(ways_max: usize, model: &CpuModel, spans: &[Span], terms: Terms<'_>) -> Energy {
    lower_bound_among(ways_max, model, spans, terms, &mut |_| true).expect("not cancelled")
}

/// Checks bounds of many widths on cases from a fixed seed. Returns how many of all were tight.
fn bounded(
    count: u32,
    cases: impl Strategy<Value = (CpuModel, Vec<Span>, Option<Credit>, Power)>,
    least: impl Fn(&CpuModel, &[Span], Terms<'_>) -> Energy,
) -> [u32; 2] {
    let counts = [const { Cell::new(0u32) }; 2];
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, seed);
    let ran = runner.run(&cases, |(model, spans, credit, price)| {
        if model.allowed().len() < 2 {
            return Ok(());
        }
        let terms = Terms { price, credit: credit.as_ref() };
        let least = least(&model, &spans, terms);
        for ways_max in [1, 2, 3, 8] {
            let bound = bound(ways_max, &model, &spans, terms);
            prop_assert!(bound <= least, "{ways_max} ways: {bound:?} is above {least:?}");
            for (count, holds) in counts.iter().zip([bound == least, true]) {
                count.set(count.get() + u32::from(holds));
            }
        }
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
    counts.map(|count| count.get())
}

fn exhaustively(model: &CpuModel, spans: &[Span], terms: Terms<'_>) -> Energy {
    cheapest(model, spans, terms, 0, spans[0].start, false)
}

fn searched(model: &CpuModel, spans: &[Span], terms: Terms<'_>) -> Energy {
    let plan = plan_at(model, spans, terms);
    plan.energy + terms.price.over(plan.delay)
}

fn prices() -> impl Strategy<Value = Power> {
    prop_oneof![2 => Just(0), 1 => 1i64..100_000].prop_map(Power)
}

fn maybe_credits() -> impl Strategy<Value = Option<Credit>> {
    prop::option::of(prop_oneof![credits(100), credits(2_500), constant_credits()])
}

fn tied(count: u32) -> [u32; 2] {
    let cases = (tied_clusters(), tied_terms(), tied_lead_us(), tied_spans(5), maybe_credits());
    let cases = cases.prop_map(|(cluster, (handling, limit, price), lead, raw, credit)| {
        let model = tied_model(watching(&cluster), handling, limit);
        (model, as_spans([vec![(0, lead, [true, false])], raw].concat()), credit, price)
    });
    bounded(count, cases, exhaustively)
}

fn random(count: u32) -> [u32; 2] {
    let spans = prop_oneof![recordings(4, 2_500), crowded_recordings()];
    let cases = (clusters(), spans, maybe_credits(), prices());
    let cases = cases.prop_map(|(cluster, spans, credit, price)| {
        let model = watching(&cluster);
        (CpuModel { default_poll_limit: Duration::from_us(1_000), ..model }, spans, credit, price)
    });
    bounded(count, cases, exhaustively)
}

/// Merges rounds of polling.
fn polled(count: u32) -> [u32; 2] {
    let cases = (tied_clusters(), tied_terms(), tied_lead_us(), tied_spans(5), constant_credits());
    let cases = cases.prop_map(|(cluster, (handling, limit, price), lead, raw, credit)| {
        let mut model = tied_model(watching(&cluster), handling, limit);
        model.states.iter_mut().for_each(|state| state.entry_latency = Duration::ZERO);
        let spans = as_spans([vec![(0, lead, [true, false])], raw].concat());
        (model, spans, Some(credit), price)
    });
    bounded(count, cases, exhaustively)
}

#[test]
fn merged_rounds_of_polling_bound_tied_spans() {
    let [tight, all] = polled(1_500);
    assert!(tight > all / 2 && tight < all, "{tight} of {all}");
}

#[test]
fn merged_paths_bound_tied_spans() {
    let [tight, all] = tied(1_500);
    assert!(tight > all / 2 && tight < all, "{tight} of {all}");
}

#[test]
fn merged_paths_bound_random_spans() {
    let [tight, all] = random(600);
    assert!(tight > all / 2 && tight < all, "{tight} of {all}");
}

#[test]
#[ignore = "slow: 100,000 CPUs, searched exhaustively"]
fn merged_paths_bound_many_spans() {
    tied(70_000);
    random(30_000);
}

#[test]
fn merged_paths_bound_dense_spans() {
    let cases = (clusters_of_two_opps(), dense_recordings(30), maybe_credits(), prices());
    let cases = cases
        .prop_map(|(cluster, spans, credit, price)| (watching(&cluster), spans, credit, price));
    let [tight, all] = bounded(100, cases, searched);
    assert!(tight < all, "{tight} of {all}");
}

#[test]
fn merged_paths_bound_long_sleeps() {
    let of = prop_oneof![
        (clusters(), recordings(30, 12_000)),
        (clusters_left_within(9_000), long_recordings()),
    ];
    let cases = (of, maybe_credits(), prices());
    let cases = cases.prop_map(|((cluster, spans), credit, price)| {
        // Few credited paths that poll are redundant, so their number grows with the sleep.
        let model = watching(&cluster);
        let credit = credit.filter(|_| !model.states[0].is_polling);
        (model, spans, credit, price)
    });
    bounded(12, cases, searched);
}

#[test]
fn bound_without_merging_is_exact() {
    let mut runner = TestRunner::deterministic();
    let cases = (clusters(), recordings(30, 12_000), maybe_credits(), prices());
    let ran = runner.run(&cases, |(cluster, spans, credit, price)| {
        let model: CpuModel = testing::model(&cluster);
        let model = CpuModel { watches_deepest: true, ..model };
        let terms = Terms { price, credit: credit.as_ref() };
        prop_assert_eq!(bound(usize::MAX, &model, &spans, terms), searched(&model, &spans, terms));
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
}
