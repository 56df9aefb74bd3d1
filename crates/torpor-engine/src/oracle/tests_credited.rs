// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The oracle where rests in the deepest state are credited, against exhaustive search.

use super::tests::{
    as_spans, cheapest, clusters, clusters_left_within, clusters_of_two_opps, crowded_recordings,
    dense_recordings, long_recordings, plan_at, recordings, tied_clusters, tied_lead_us,
    tied_model, tied_spans, tied_terms,
};
use super::{Credit, Search, Terms};
use crate::decision::Unobserved;
use crate::idle_loop::CpuRun;
use crate::input::Span;
use crate::model::CpuModel;
use crate::policy::{Choices, Script};
use crate::testing;
use proptest::prelude::*;
use torpor_machine::units::{Duration, Energy, Instant, Power};

/// Pieces of up to `longest_us` with gaps between, from before the first span on.
pub(super) fn credits(longest_us: i64) -> impl Strategy<Value = Credit> {
    let piece = (0..longest_us, 0..longest_us, 1i64..80_000);
    (0..longest_us, prop::collection::vec(piece, 1..8)).prop_map(|(lead, pieces)| {
        let (mut credit, mut at) = (Credit::default(), Instant(0) + Duration::from_us(lead / 2));
        for (length, gap, uw) in pieces {
            let to = at + Duration::from_us(length);
            credit.push(at, to, Power(uw));
            at = to + Duration::from_us(gap * (gap % 2));
        }
        credit
    })
}

/// One power all the time.
pub(super) fn constant_credits() -> impl Strategy<Value = Credit> {
    (1i64..80_000).prop_map(|uw| {
        let mut credit = Credit::default();
        credit.push(Instant(-1_000_000_000), Instant(1_000_000_000_000), Power(uw));
        credit
    })
}

/// Returns the cost of the choices in the idle loop, without the credit.
fn cost_of(model: &CpuModel, spans: &[Span], choices: Choices, credit: &Credit) -> Energy {
    let mut run = CpuRun::new(model, spans, 0);
    run.run(&mut Script::of(choices), &mut Unobserved).expect("a script does not fail");
    let totals = run.close();
    let deep = totals.deep.expect("the model watches it");
    totals.energy - deep.iter().map(|(from, to)| credit.between(from, to)).sum()
}

pub(super) fn watching(cluster: &torpor_machine::platform::Cluster) -> CpuModel {
    CpuModel { watches_deepest: true, ..testing::model(cluster) }
}

/// Returns the least energy that the search finds, and the least of one that drops nothing.
fn with_and_without_drops(
    model: &CpuModel,
    spans: &[Span],
    credit: &Credit,
    leaps: bool,
) -> (Energy, Energy) {
    let found = plan_at(model, spans, Terms { price: Power::ZERO, credit: Some(credit) });
    let all = Search {
        bounds: false,
        trip: None,
        leaps,
        keeps_all: true,
        ways_max: usize::MAX,
        credit: Some(credit),
        ..Search::new(model)
    };
    let all = all.plan(spans, &mut |_| true).expect("not cancelled");
    (found.energy, all.energy)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn equals_exhaustive_search_where_rests_are_credited(
        cluster in clusters(),
        spans in prop_oneof![recordings(4, 2_500), crowded_recordings()],
        credit in prop_oneof![credits(100), credits(2_500), credits(10_000), constant_credits()],
        price_uw in prop_oneof![3 => Just(0), 1 => 1i64..100_000],
    ) {
        let mut model = watching(&cluster);
        model.default_poll_limit = Duration::from_us(1_000);
        let price = Power(price_uw);
        let terms = Terms { price, credit: Some(&credit) };
        let found = plan_at(&model, &spans, terms);
        let least = cheapest(&model, &spans, terms, 0, spans[0].start, false);
        prop_assert_eq!(found.energy + price.over(found.delay), least);
        prop_assert_eq!(cost_of(&model, &spans, found.choices, &credit), found.energy);
    }

    #[test]
    fn credited_paths_that_meet_cost_the_least(
        cluster in tied_clusters(),
        (handling, limit, price) in tied_terms(),
        lead in tied_lead_us(),
        raw in tied_spans(5),
        credit in prop_oneof![credits(100), credits(2_500), constant_credits()],
    ) {
        let model = tied_model(watching(&cluster), handling, limit);
        let spans = as_spans([vec![(0, lead, [true, false])], raw].concat());
        let terms = Terms { price, credit: Some(&credit) };
        let found = plan_at(&model, &spans, terms);
        let least = cheapest(&model, &spans, terms, 0, spans[0].start, false);
        prop_assert_eq!(found.energy + price.over(found.delay), least);
    }

    #[test]
    fn dense_credited_search_equals_exhaustive_search(
        cluster in clusters_of_two_opps(),
        spans in dense_recordings(7),
        credit in prop_oneof![credits(50), credits(2_500), constant_credits()],
    ) {
        let model = watching(&cluster);
        let terms = Terms { price: Power::ZERO, credit: Some(&credit) };
        let found = plan_at(&model, &spans, terms);
        let least = cheapest(&model, &spans, terms, 0, spans[0].start, false);
        prop_assert_eq!(found.energy, least);
        prop_assert_eq!(cost_of(&model, &spans, found.choices, &credit), found.energy);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn dropping_credited_paths_loses_nothing(
        (cluster, spans) in prop_oneof![
            (clusters(), recordings(40, 12_000)),
            (clusters_left_within(9_000), long_recordings()),
        ],
        credit in prop_oneof![credits(1_000), credits(100_000), constant_credits()],
    ) {
        let model = watching(&cluster);
        let (found, all) = with_and_without_drops(&model, &spans, &credit, false);
        prop_assert_eq!(found, all);
    }

    #[test]
    fn leaping_over_rounds_of_polling_loses_nothing(
        cluster in clusters(),
        spans in recordings(6, 9_000),
        credit in prop_oneof![credits(1_000), credits(10_000), constant_credits()],
        poll_us in 60i64..400,
        price_uw in prop_oneof![2 => Just(0), 1 => 1i64..100_000],
    ) {
        let mut model = watching(&cluster);
        model.default_poll_limit = Duration::from_us(poll_us);
        let price = Power(price_uw);
        let cost = |skips: bool| {
            let search = Search { skips, price, credit: Some(&credit), ..Search::new(&model) };
            let plan = search.plan(&spans, &mut |_| true).expect("not cancelled");
            (plan.crowded_spans == 0).then(|| plan.energy + price.over(plan.delay))
        };
        if let (Some(found), Some(all)) = (cost(true), cost(false)) {
            prop_assert_eq!(found, all);
        }
    }

    #[test]
    fn dropping_dense_credited_paths_loses_nothing(
        cluster in clusters_of_two_opps(),
        spans in dense_recordings(40),
        credit in prop_oneof![credits(50), credits(2_500), constant_credits()],
    ) {
        let model = watching(&cluster);
        let (found, all) = with_and_without_drops(&model, &spans, &credit, true);
        prop_assert_eq!(found, all);
    }
}
