// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The part of idle energy that no CPU consumes by itself.

use torpor_machine::units::Energy;

/// Energy that no single CPU consumes; `None` if the machine describes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// Clusters, while not all of their CPUs are in the deepest state.
    pub clusters: Option<Energy>,
    /// Energy that CPUs consume while others keep a shared state from being entered.
    pub shared: Option<Energy>,
    pub package: Option<Energy>,
}

impl Apart {
    pub fn energy(&self) -> Energy {
        [self.clusters, self.shared, self.package].into_iter().flatten().sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Apart::default()
    }
}
