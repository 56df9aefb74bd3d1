// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The keys of an idle state.

use super::keys::{ENERGY, POWER, POWER_MAX_MW, TIME};
use crate::shape;
use crate::toml::{Kind, LENGTH_OR_DISTRIBUTION, Shape};

pub(crate) static IDLE_STATE: Shape = shape! {
    required name: Kind::Text, "Name as in sysfs.";
    optional desc: Kind::Text, "Description as in sysfs.";
    optional entry_latency_us: TIME, "Time from the decision until the state is reached. Without \
        it, 0.";
    optional exit_latency_us: TIME, "Time from the wake-up event until the CPU runs again.";
    optional wakeup_latency_us: TIME, "Worst case from wake-up event to running. Without it, entry \
        plus exit latency.";
    optional latency_us: TIME, "sysfs has only one latency, which is the exit latency, and entry \
        takes 0. Instead of the three other latencies.";
    optional measured_entry_latency_us: LENGTH_OR_DISTRIBUTION, "Measured entry latency, where it \
        differs from what governors are shown. Without it, the advertised one.";
    optional measured_exit_latency_us: LENGTH_OR_DISTRIBUTION, "Measured exit latency, where it \
        differs from what governors are shown; a distribution is drawn from in a simulation, and \
        counts by its mean elsewhere. Without it, the advertised one.";
    optional measured_latency_source: Kind::Texts, "Where the measured latencies come from.";
    required target_residency_us: TIME, "Shortest stay that pays off (sysfs `residency`, device \
        tree `min-residency-us`).";
    optional polling: Kind::Bool, "Whether the CPU spins (`CPUIDLE_FLAG_POLLING`). Without \
        `driver`, as `poll_idle` does.";
    optional driver: Kind::Choice(&["poll_idle", "arm_poll_idle"]), "What runs a polling state: \
        the kernel's `poll_idle()`, or the `wfe` loop posted for arm64.";
    optional relax_ns: TIME, "With `poll_idle`: the time of one `cpu_relax()`. The polling limit \
        is noticed at every 201st. Without it, 47.";
    optional event_stream_us: TIME, "With `arm_poll_idle`: period of the timer's event stream, at \
        which the polling limit is noticed. Without it, 100.";
    optional wfet: Kind::Bool, "With `arm_poll_idle`: whether CPUs have `wfet` (FEAT_WFxT), which \
        ends each wait at the polling limit. Then there is no `event_stream_us`.";
    optional poll_limit_us: TIME, "With `arm_poll_idle`: its `poll_limit`, which governors see as \
        the latency and target residency of the next state. Without it, 100.";
    optional default_status: Kind::Choice(&["enabled", "disabled"]), "As in sysfs: whether the \
        state is used by default.";
    optional scope: Kind::Choice(&["cpu", "core", "cluster", "package"]), "The CPUs that must all \
        be in the state before it saves energy. Without it, `cpu`.";
    optional own_entry_latency_us: TIME, "With a wider `scope` than `cpu`: the entry latency of a \
        CPU that is not the last of them to enter. A simulation's; without it, the state's.";
    optional own_exit_latency_us: TIME, "With a wider `scope` than `cpu`: the exit latency of a \
        CPU that leaves while not all of them are in the state. A simulation's; without it, the \
        state's.";
    optional power_mw: POWER, "Power of one CPU resting in the state.";
    optional power_per_opp_mw: Kind::Numbers { max: POWER_MAX_MW }, "Power of one CPU resting in \
        the state, one value for each OPP, in their order. Instead of `power_mw`.";
    optional energy_per_entry_uj: ENERGY, "Energy of one entry and exit, in addition to `power_mw` \
        over the residency. Without it, what makes the state break even with the next shallower \
        one at its target residency.";
    optional power_source: Kind::Texts, "Where this state's power comes from, if not from the \
        cluster's `power_source`.";
    optional refill_us: TIME, "Time that the first task after a sleep in the state loses to cold \
        caches, on the biggest CPU at its highest frequency. A simulation's; without it, 0.";
    optional refill_source: Kind::Texts, "Where `refill_us` comes from.";
    optional reject_pct: Kind::Number { max: 100.0 }, "Share of the entries that the driver \
        refuses (sysfs `rejected`). A simulation's; without it, 0.";
    optional reject_us: TIME, "With `reject_pct`: the time of a refused entry. Without it, the \
        entry latency, and at least 1.";
    optional reject_source: Kind::Texts, "Where `reject_pct` comes from.";
    optional demote_to: Kind::Text, "Name of the shallower state that the hardware enters instead \
        after short sleeps. Without it, a requested state is entered.";
    optional demote_after: Kind::Integer { max: 65536.0 }, "With `demote_to`: so many short sleeps \
        in a row demote the requests that follow, until a sleep is not short. Without it, 1.";
    optional demote_below_us: TIME, "With `demote_to`: a sleep is short below this residency. \
        Without it, the target residency.";
    optional undemote_us: TIME, "With `demote_to`: a demoted CPU that is still idle after this \
        time enters the requested state. Without it, never.";
    optional demote_source: Kind::Texts, "Where the demotion comes from.";
};
