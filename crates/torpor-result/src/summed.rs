// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Counters that are summed over CPUs, tasks or runs.

use crate::deep::DeepTimes;
use crate::idle::StateTotals;
use crate::latency::Latencies;
use torpor_machine::units::{Duration, Energy};

/// Defines a struct of counters with a sum.
macro_rules! summed {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
        pub struct $name { $($(#[$doc])* pub $field: $kind,)* }

        impl $name {
            /// Adds another one's counts.
            pub fn add(&mut self, other: &$name) {
                $($crate::summed::Summed::add(&mut self.$field, &other.$field);)*
            }
        }
    };
}
pub(crate) use summed;

/// Types that [`summed!`] accepts.
pub(crate) trait Summed {
    fn add(&mut self, other: &Self);
}

impl Summed for u64 {
    fn add(&mut self, other: &u64) {
        *self += other;
    }
}

impl Summed for Duration {
    fn add(&mut self, other: &Duration) {
        *self += *other;
    }
}

impl Summed for Energy {
    fn add(&mut self, other: &Energy) {
        *self += *other;
    }
}

impl Summed for Latencies {
    fn add(&mut self, other: &Latencies) {
        Latencies::add(self, other);
    }
}

impl<const N: usize> Summed for [u64; N] {
    fn add(&mut self, other: &[u64; N]) {
        self.iter_mut().zip(other).for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// Adds by index, so both must have the same table of states.
impl Summed for Vec<StateTotals> {
    fn add(&mut self, other: &Vec<StateTotals>) {
        if self.len() < other.len() {
            self.resize(other.len(), StateTotals::default());
        }
        for (mine, theirs) in self.iter_mut().zip(other) {
            mine.usage += theirs.usage;
            mine.above += theirs.above;
            mine.below += theirs.below;
            mine.rejected += theirs.rejected;
            mine.time += theirs.time;
            mine.demoted += theirs.demoted;
            mine.got_time += theirs.got_time;
        }
    }
}

/// Ignores sums: belongs to one CPU.
impl Summed for Option<DeepTimes> {
    fn add(&mut self, _: &Self) {}
}
