// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Limits of power and of active cores.

use super::{POWER, TIME, from_us, missing_source, need_source};
use crate::platform::{Cluster, Limits, Opp, PowerLimit, StatePower, Turbo};
use crate::shape;
use crate::toml::{Kind, Report, Shape, Table};
use crate::units::{Duration, Power};

/// RAPL's own unit of time (`MSR_RAPL_POWER_UNIT`) is 0.977 ms on processors since Sandy Bridge.
const INTERVAL_DEFAULT: Duration = Duration::from_us(1_000);

pub(crate) static POWER_LIMIT: Shape = shape! {
    required name: Kind::Word, "Name in powercap's sysfs: `long_term` (PL1), `short_term` (PL2).";
    required power_limit_mw: POWER, "Highest running average of the package's power \
        (`constraint_0_power_limit_uw`).";
    required time_window_us: TIME, "Time constant of that average (`constraint_0_time_window_us`).";
};

/// Returns the limits of a machine; none if nothing limits it.
pub(super) fn build(report: &mut Report, file: &Table, clusters: &[Cluster]) -> Option<Limits> {
    let tables = file.tables("power_limit");
    if let Some(first) = tables.first() {
        if !file.has("power_limit_source") {
            report.push(missing_source(first, "power_limit_mw", "power_limit_source"));
        }
        check_power_is_known(report, first, clusters);
    }
    let mut power = Vec::new();
    for table in tables {
        for key in ["power_limit_mw", "time_window_us"] {
            if table.number(key) == Some(0.0) {
                report.reject(table, key, "this is 0", "a value above 0");
            }
        }
        power.push(PowerLimit {
            name: table.text("name")?.to_owned(),
            power: Power::from_mw(table.number("power_limit_mw")?),
            window: from_us(table.number("time_window_us")?),
        });
    }
    let is_limited = !power.is_empty() || clusters.iter().any(|cluster| cluster.turbo.is_some());
    if file.has("limit_interval_us") && !is_limited {
        let allowed = "together with `[[power_limit]]` or `turbo_khz`";
        report.reject(file, "limit_interval_us", "the machine has no limits", allowed);
    }
    let interval = file.number("limit_interval_us").map_or(INTERVAL_DEFAULT, from_us);
    if interval < Duration::from_us(10) {
        let allowed = "10 or more";
        report.reject(file, "limit_interval_us", "the hardware would do nothing else", allowed);
    }
    is_limited.then_some(Limits { interval, power })
}

/// A limit of power applies only where the power is known.
fn check_power_is_known(report: &mut Report, limit: &Table, clusters: &[Cluster]) {
    let lacks = |cluster: &&Cluster| {
        cluster.opps.is_empty()
            || cluster.opps.iter().any(|opp| opp.active_power.is_none())
            || cluster.idle_states.iter().any(|state| state.power == StatePower::Unknown)
    };
    if let Some(cluster) = clusters.iter().find(lacks) {
        report.reject(
            limit,
            "power_limit_mw",
            format!("the power of cluster `{}` is not known", cluster.name),
            "a machine with `active_power_mw` of all OPPs and the power of all idle states",
        );
    }
}

/// Reads the highest frequencies by the number of active cores.
pub(super) fn turbo(report: &mut Report, cluster: &Table, opps: Option<&[Opp]>) -> Option<Turbo> {
    need_source(report, cluster, "turbo_khz", "turbo_source");
    let states = cluster.tables("idle_state");
    let inactive_from = match cluster.text("turbo_idle_state") {
        Some(name) => states.iter().position(|state| state.text("name") == Some(name)),
        None => states.len().checked_sub(1),
    };
    if inactive_from.is_none() && cluster.has("turbo_idle_state") {
        let names: Vec<&str> = states.iter().filter_map(|state| state.text("name")).collect();
        let message = "no idle state of the cluster has this name";
        report.reject(cluster, "turbo_idle_state", message, names.join(", "));
    }
    if !cluster.has("turbo_khz") {
        if cluster.has("turbo_idle_state") {
            let message = "no frequency depends on active cores";
            report.reject(cluster, "turbo_idle_state", message, "together with `turbo_khz`");
        }
        return None;
    }
    let (khz, opps) = (cluster.numbers("turbo_khz")?, opps?);
    let of = |khz: &f64| opps.iter().position(|opp| f64::from(opp.freq_khz) == *khz);
    let bins: Vec<Option<usize>> = khz.iter().map(of).collect();
    let falls = bins.windows(2).all(|pair| pair[1] <= pair[0]);
    if bins.is_empty() || bins.contains(&None) || !falls {
        let known: Vec<String> = opps.iter().map(|opp| opp.freq_khz.to_string()).collect();
        report.reject(
            cluster,
            "turbo_khz",
            "a frequency for 1 active core, for 2 and so on, none above the one before",
            format!("frequencies of `opp`: {}", known.join(", ")),
        );
        return None;
    }
    let opps = bins.into_iter().flatten().map(|opp| opp as u16).collect();
    Some(Turbo { opps, inactive_from: inactive_from? })
}
