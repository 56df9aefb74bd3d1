// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What no event tells.

use torpor_units::Duration;

/// What no event tells and has to be assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumptions {
    /// From the switch to the idle task to the `idle_entrytime` that follows it.
    ///
    /// FIDELITY(entry-delay): one time for all entries, where each takes its own.
    pub entry_delay: Duration,
    /// RCU needed the CPU for a while after it raised its softirq there.
    pub rcu_stand_in: bool,
}

impl Assumptions {
    /// On hardware the idle entry's event comes within a microsecond of the switch, and bounds this.
    pub const DEFAULT: Assumptions = Assumptions { entry_delay: Duration(800), rcu_stand_in: true };

    /// What guests needed: 1.7 us where an instruction takes 1 ns, which a probe measured; 4 and 10
    /// us in two that an emulator ran in real time.
    pub const ALL: [Assumptions; 8] = {
        let delays = [800, 1_700, 4_000, 10_000];
        let mut all = [Assumptions::DEFAULT; 8];
        let mut i = 0;
        while i < all.len() {
            all[i] = Assumptions { entry_delay: Duration(delays[i / 2]), rcu_stand_in: i % 2 == 0 };
            i += 1;
        }
        all
    };
}
