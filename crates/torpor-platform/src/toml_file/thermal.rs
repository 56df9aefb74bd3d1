// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Thermal zones, in the terms of device tree's `thermal-zones`.

use super::cite;
use crate::{Cluster, ThermalZone, Trip};
use torpor_toml::{Report, Table};
use torpor_units::Duration;

const POLLING_DELAY_PASSIVE_MS: f64 = 100.0;
const POLLING_DELAY_MS: f64 = 1000.0;

pub(super) fn build(
    report: &mut Report,
    table: &Table,
    clusters: &[Cluster],
    sources: &mut Vec<String>,
) -> Option<ThermalZone> {
    let name = table.text("name")?;
    cite(sources, &format!("thermal zone {name}"), table.texts("source"));
    let known = || clusters.iter().map(|cluster| cluster.name.as_str()).collect::<Vec<_>>();
    let mut members: Vec<usize> = Vec::new();
    for named in table.texts("clusters") {
        match clusters.iter().position(|cluster| cluster.name == *named) {
            Some(number) if !members.contains(&number) => members.push(number),
            _ => {
                let message = format!("no other cluster has the name `{named}`");
                let mut finding = table.finding("clusters", message);
                finding.allowed = Some(format!("each once: {}", known().join(", ")));
                report.push(finding);
            }
        }
    }
    if !table.has("clusters") {
        members = (0..clusters.len()).collect();
    }
    let mut is_sound = true;
    let lowest = [
        ("resistance_c_per_w", "a zone without one never gets hotter than its surroundings"),
        ("capacity_j_per_c", "a zone without one has no temperature of its own"),
        ("polling_delay_passive_ms", "it would look all the time"),
        ("polling_delay_ms", "it would look all the time"),
    ];
    for (key, message) in lowest {
        if table.number(key) == Some(0.0) {
            let mut finding = table.finding(key, message.to_owned());
            finding.allowed = Some("more than 0".to_owned());
            report.push(finding);
            is_sound = false;
        }
    }
    for &number in &members {
        let cluster = &clusters[number];
        if cluster.opps.is_empty() || cluster.opps.iter().any(|opp| opp.active_power.is_none()) {
            let message = format!("the power of cluster `{}` is not known", cluster.name);
            let mut finding = table.finding("name", message);
            finding.allowed = Some("clusters with `active_power_mw` for each OPP".to_owned());
            report.push(finding);
            is_sound = false;
        }
    }
    let mut trips: Vec<Trip> = Vec::new();
    for trip in table.tables("trip") {
        let temperature_mc = trip.number("temperature_mc")? as i64;
        if trips.last().is_some_and(|before| before.temperature_mc >= temperature_mc) {
            let mut finding = trip.finding("temperature_mc", "the one before is as hot".to_owned());
            finding.allowed = Some("trips rising in temperature".to_owned());
            report.push(finding);
        }
        let hysteresis_mc = trip.number("hysteresis_mc").unwrap_or(0.0) as i64;
        trips.push(Trip { temperature_mc, hysteresis_mc });
    }
    let ms = |key: &str, default: f64| {
        Duration((table.number(key).unwrap_or(default) * 1e6).round() as i64)
    };
    let ambient_mc = table.number("ambient_mc")? as i64;
    is_sound.then_some(ThermalZone {
        name: name.to_owned(),
        clusters: members,
        resistance_c_per_w: table.number("resistance_c_per_w")?,
        capacity_j_per_c: table.number("capacity_j_per_c")?,
        ambient_mc,
        initial_mc: table.number("initial_mc").map_or(ambient_mc, |mc| mc as i64),
        polling_delay_passive: ms("polling_delay_passive_ms", POLLING_DELAY_PASSIVE_MS),
        polling_delay: ms("polling_delay_ms", POLLING_DELAY_MS),
        trips,
    })
}
