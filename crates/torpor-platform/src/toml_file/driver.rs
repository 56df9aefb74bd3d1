// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What the driver and the hardware make of a state that a governor has selected.

use super::{from_us, missing_source};
use crate::Rejects;
use torpor_toml::{Report, Table};
use torpor_units::Duration;

pub(super) fn refill(report: &mut Report, state: &Table) -> Duration {
    if state.has("refill_us") && !state.has("refill_source") {
        report.push(missing_source(state, "refill_us", "refill_source"));
    }
    state.number("refill_us").map_or(Duration::ZERO, from_us)
}

/// What a driver refuses; the attempt takes as long as it does to enter the state, and never no time,
/// in which a CPU would try for ever.
pub(super) fn rejects(report: &mut Report, state: &Table, entry_us: f64) -> Option<Rejects> {
    for (key, needs) in [("reject_us", "reject_pct"), ("reject_source", "reject_pct")] {
        if state.has(key) && !state.has(needs) {
            let mut finding = state.finding(key, format!("there is no `{needs}`"));
            finding.allowed = Some(format!("together with `{needs}`"));
            report.push(finding);
        }
    }
    let pct = state.number("reject_pct").filter(|pct| *pct > 0.0)?;
    if !state.has("reject_source") {
        report.push(missing_source(state, "reject_pct", "reject_source"));
    }
    if state.bool("polling") == Some(true) || state.has("driver") {
        let mut finding = state.finding("reject_pct", "the state polls".to_owned());
        finding.allowed = Some("a state that a driver can refuse to enter".to_owned());
        report.push(finding);
    }
    let time_us = state.number("reject_us").unwrap_or(entry_us.max(1.0));
    if time_us <= 0.0 {
        let mut finding = state.finding("reject_us", "no attempt takes no time".to_owned());
        finding.allowed = Some("a time above 0".to_owned());
        report.push(finding);
    }
    Some(Rejects { pct, time: from_us(time_us) })
}
