// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The oracle where delay has a price, against exhaustive search.

use super::Terms;
use super::tests::{cheapest, clusters, crowded_recordings, plan_at, recordings};
use crate::decision::Unobserved;
use crate::idle_loop::CpuRun;
use crate::policy::Script;
use crate::testing;
use proptest::prelude::*;
use torpor_machine::units::{Duration, Power};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn equals_exhaustive_search_where_delay_has_a_price(
        cluster in clusters(),
        spans in prop_oneof![recordings(4, 2_500), crowded_recordings()],
        price_uw in prop_oneof![1i64..100_000, 1i64..10_000_000_000],
    ) {
        let mut model = testing::model(&cluster);
        model.default_poll_limit = Duration::from_us(1_000);
        let price = Power(price_uw);
        let terms = Terms { price, credit: None };
        let found = plan_at(&model, &spans, terms);
        let least = cheapest(&model, &spans, terms, 0, spans[0].start, false);
        prop_assert_eq!(found.energy + price.over(found.delay), least);
        // The decisions cost the same in the idle loop.
        let mut run = CpuRun::new(&model, &spans, 0);
        run.run(&mut Script::of(found.choices), &mut Unobserved).expect("a script does not fail");
        let totals = run.close();
        prop_assert_eq!((totals.energy, totals.delays.total()), (found.energy, found.delay));
    }

    #[test]
    fn a_higher_price_buys_less_delay_with_no_less_energy(
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
