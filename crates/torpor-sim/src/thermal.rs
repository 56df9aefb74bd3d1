// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! How hot a machine got, from what was counted of its zones.

use crate::machine::{Counted, ZoneCounted};
use crate::outcome::ThermalZoneOutcome;
use torpor_platform::{Platform, ThermalZone};
use torpor_units::Duration;

/// Each over all seeds.
pub(crate) fn thermal_zones(
    platform: &Platform,
    runs: &[(u64, Counted)],
) -> Vec<ThermalZoneOutcome> {
    let zones = platform.thermal_zones.iter().enumerate();
    let outcome = |(number, zone): (usize, &ThermalZone)| {
        let all: Option<Vec<_>> =
            runs.iter().map(|(_, run)| Some((run.zones.get(number)?, run.span))).collect();
        let all = all.filter(|all| !all.is_empty())?;
        let mean = |of: fn(&ZoneCounted, Duration) -> f64| {
            all.iter().map(|(zone, span)| of(zone, *span)).sum::<f64>() / all.len() as f64
        };
        Some(ThermalZoneOutcome {
            name: zone.name.clone(),
            temperature_mean_c: mean(|zone, _| zone.mean_mc) / 1e3,
            temperature_max_c: all.iter().map(|(z, _)| z.max_mc).fold(f64::MIN, f64::max) / 1e3,
            temperature_end_c: mean(|zone, _| zone.end_mc) / 1e3,
            limited_pct: mean(|zone, span| 100.0 * zone.limited.0 as f64 / span.0.max(1) as f64),
        })
    };
    zones.filter_map(outcome).collect()
}
