// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The keys of an idle state.

use super::keys::{ENERGY, POWER, POWER_MAX_MW, TIME};
use crate::shape;
use crate::toml::{Kind, LENGTH_OR_DISTRIBUTION, Shape};

pub(crate) static IDLE_STATE: Shape = shape! {
    required name: Kind::Text, "Name as in sysfs.";
    optional desc: Kind::Text, "Description as in sysfs.";
    optional entry_latency_us: TIME, "Time from the decision until the state is reached. Default: \
        0.";
    optional exit_latency_us: TIME, "Time from the wake-up event until the CPU runs again.";
    optional wakeup_latency_us: TIME, "Worst case from wake-up event to running. Default: entry \
        plus exit latency.";
    optional latency_us: TIME, "Instead of the other three latencies: the only one in sysfs. It is \
        the exit latency, and entry takes 0.";
    optional measured_entry_latency_us: LENGTH_OR_DISTRIBUTION, "Measured entry latency, if it \
        differs from the one that governors see. Default: the advertised one.";
    optional measured_exit_latency_us: LENGTH_OR_DISTRIBUTION, "Measured exit latency, if it \
        differs from the one that governors see. A simulation draws from a distribution; elsewhere \
        its mean counts. Default: the advertised one.";
    optional measured_latency_source: Kind::Texts, "Where the measured latencies come from.";
    required target_residency_us: TIME, "Shortest stay that pays off (sysfs `residency`, device \
        tree `min-residency-us`).";
    optional polling: Kind::Bool, "Whether the CPU spins (`CPUIDLE_FLAG_POLLING`). Without \
        `driver`, as `poll_idle` does.";
    optional driver: Kind::Choice(&["poll_idle", "arm_poll_idle"]), "The loop of a polling state: \
        the kernel's `poll_idle()`, or the `wfe` loop posted for arm64.";
    optional relax_ns: TIME, "With `poll_idle`: the time of one `cpu_relax()`. The polling limit \
        is noticed at every 201st. Default: 47.";
    optional event_stream_us: TIME, "With `arm_poll_idle`: period of the timer's event stream, at \
        which the polling limit is noticed. Default: 100.";
    optional wfet: Kind::Bool, "With `arm_poll_idle`: whether CPUs have `wfet` (FEAT_WFxT), which \
        ends each wait at the polling limit. Then there is no `event_stream_us`.";
    optional poll_limit_us: TIME, "With `arm_poll_idle`: its `poll_limit`, which governors see as \
        the latency and target residency of the next state. Default: 100.";
    optional default_status: Kind::Choice(&["enabled", "disabled"]), "As in sysfs: whether the \
        state is used by default.";
    optional scope: Kind::Choice(&["cpu", "core", "cluster", "package"]), "The CPUs that must all \
        be in the state before it saves energy. Default: `cpu`.";
    optional own_entry_latency_us: TIME, "With a wider `scope` than `cpu`: the entry latency of a \
        CPU that is not the last of them to enter. Simulations only. Default: the state's.";
    optional own_exit_latency_us: TIME, "With a wider `scope` than `cpu`: the exit latency of a \
        CPU that leaves while not all of them are in the state. Simulations only. Default: the \
        state's.";
    optional power_mw: POWER, "Power of one CPU resting in the state.";
    optional power_per_opp_mw: Kind::Numbers { max: POWER_MAX_MW }, "Power of one CPU resting in \
        the state, one value for each OPP, in their order. Instead of `power_mw`.";
    optional energy_per_entry_uj: ENERGY, "Energy of one entry and exit, in addition to `power_mw` \
        over the residency. Default: the energy with which the state breaks even with the next \
        shallower one at its target residency.";
    optional power_source: Kind::Texts, "Where this state's power comes from, if not from the \
        cluster's `power_source`.";
    optional refill_us: TIME, "Time that the first task after a sleep in the state loses to cold \
        caches, on the biggest CPU at its highest frequency. Simulations only. Default: 0.";
    optional refill_source: Kind::Texts, "Where `refill_us` comes from.";
    optional reject_pct: Kind::Number { max: 100.0 }, "Share of the entries that the driver \
        refuses (sysfs `rejected`). Simulations only. Default: 0.";
    optional reject_us: TIME, "With `reject_pct`: the time of a refused entry. Default: the entry \
        latency, and at least 1.";
    optional reject_source: Kind::Texts, "Where `reject_pct` comes from.";
    optional demote_to: Kind::Text, "Name of the shallower state that the hardware enters instead \
        after short sleeps. Default: it enters the requested state.";
    optional demote_after: Kind::Integer { max: 65536.0 }, "With `demote_to`: number of \
        consecutive short sleeps that demote the following requests, until a sleep is not short. \
        Default: 1.";
    optional demote_below_us: TIME, "With `demote_to`: a sleep is short below this residency. \
        Default: the target residency.";
    optional undemote_us: TIME, "With `demote_to`: a demoted CPU that is still idle after this \
        time enters the requested state. Default: never.";
    optional demote_source: Kind::Texts, "Where the demotion comes from.";
};
