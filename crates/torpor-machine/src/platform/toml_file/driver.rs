// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Driver and hardware side of a state that a governor has selected.

use super::{from_us, need_source};
use crate::platform::{Demotion, Rejects};
use crate::toml::{Report, Table};
use crate::units::Duration;

pub(super) fn refill(report: &mut Report, state: &Table) -> Duration {
    need_source(report, state, "refill_us", "refill_source");
    state.number("refill_us").map_or(Duration::ZERO, from_us)
}

/// Reads how often the driver refuses the state. An attempt takes the entry latency by default, and
/// never 0: a CPU would retry for ever.
pub(super) fn rejects(report: &mut Report, state: &Table, entry_us: f64) -> Option<Rejects> {
    need_key(report, state, &["reject_us", "reject_source"], "reject_pct");
    let pct = state.number("reject_pct").filter(|pct| *pct > 0.0)?;
    need_source(report, state, "reject_pct", "reject_source");
    if state.bool("polling") == Some(true) || state.has("driver") {
        report.reject(
            state,
            "reject_pct",
            "the state polls",
            "a state that a driver can refuse to enter",
        );
    }
    let time_us = state.number("reject_us").unwrap_or(entry_us.max(1.0));
    if time_us <= 0.0 {
        report.reject(state, "reject_us", "no attempt takes no time", "a time above 0");
    }
    Some(Rejects { pct, time: from_us(time_us) })
}

/// Reads when the hardware enters one of the `shallower` states instead of this one.
pub(super) fn demotion(
    report: &mut Report,
    shallower: &[Table],
    state: &Table,
) -> Option<Demotion> {
    let others = ["demote_after", "demote_below_us", "undemote_us", "demote_source"];
    need_key(report, state, &others, "demote_to");
    need_key(report, state, &["promote_source"], "promote_to");
    let name = state.text("demote_to")?;
    need_source(report, state, "demote_to", "demote_source");
    let names = |table: &&Table| !polls(table) && table.text("name").is_some();
    let Some(to) = shallower.iter().position(|table| table.text("name") == Some(name)) else {
        let known: Vec<&str> =
            shallower.iter().filter(names).filter_map(|t| t.text("name")).collect();
        report.reject(
            state,
            "demote_to",
            "no shallower state has this name",
            match known.is_empty() {
                true => "nothing: no shallower state rests".to_owned(),
                false => known.join(", "),
            },
        );
        return None;
    };
    if polls(state) || polls(&shallower[to]) {
        report.reject(
            state,
            "demote_to",
            "a polling state is no demotion",
            "states in which the CPU rests",
        );
    }
    let residency = state.number("target_residency_us").unwrap_or(0.0);
    let below = state.number("demote_below_us").unwrap_or(residency);
    let after = state.number("demote_after").unwrap_or(1.0);
    for (key, value) in [("demote_below_us", below), ("demote_after", after)] {
        if value <= 0.0 && state.has(key) {
            report.reject(state, key, "no request would be demoted", "more than 0");
        }
    }
    // It is in the shallower state before it leaves that for the deeper one.
    let entry = shallower[to].number("entry_latency_us").unwrap_or(0.0);
    let undemote = state.number("undemote_us").map(|us| from_us(us.max(entry)));
    Some(Demotion { to, after: after as u32, short: from_us(below), undemote })
}

/// Reads which deeper state the hardware enters instead of the one at `index`.
pub(super) fn promotion(report: &mut Report, states: &[Table], index: usize) -> Option<Demotion> {
    let state = &states[index];
    need_source(report, state, "promote_to", "promote_source");
    let name = state.text("promote_to")?;
    if state.has("demote_to") {
        let message = "the state is demoted, too";
        report.reject(state, "promote_to", message, "one of the two in a state");
    }
    let deeper = states.iter().enumerate().filter(|(number, _)| *number > index);
    let to = deeper.clone().find(|(_, table)| table.text("name") == Some(name));
    if to.is_none() || polls(state) {
        let message = match polls(state) {
            true => "a polling state is no promotion",
            false => "no deeper state has this name",
        };
        let names: Vec<&str> = deeper.filter_map(|(_, table)| table.text("name")).collect();
        let allowed = match names.is_empty() || polls(state) {
            true => "in a state that rests, and has a deeper one".to_owned(),
            false => names.join(", "),
        };
        report.reject(state, "promote_to", message, allowed);
    }
    to.map(|(to, _)| Demotion::promotion(to))
}

fn polls(table: &Table) -> bool {
    table.bool("polling") == Some(true) || table.has("driver")
}

/// Reports `keys` without the key that they depend on.
fn need_key(report: &mut Report, state: &Table, keys: &[&str], needs: &str) {
    for key in keys.iter().filter(|key| state.has(key) && !state.has(needs)) {
        report.reject(
            state,
            key,
            format!("there is no `{needs}`"),
            format!("together with `{needs}`"),
        );
    }
}
