// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Thermal zones of platform files, and the error of each wrong one.

use torpor_platform::{PlatformError, from_toml};

/// A cluster whose power is known, and one whose is not.
const GOOD: &str = r#"name = "good"
title = "A machine for tests"
source = "made up"
hz = 250

[[cluster]]
name = "little"
cpus = "0-1"
capacity = 512
idle_state_source = "made up"
opp_source = "made up"
power_source = "made up"
opp = [{ freq_khz = 300000, active_power_mw = 20 }]
idle_state = [{ name = "WFI", exit_latency_us = 1, target_residency_us = 1, power_mw = 5 }]

[[cluster]]
name = "big"
cpus = "2"
capacity = 1024
idle_state_source = "made up"
idle_state = [{ name = "WFI", exit_latency_us = 1, target_residency_us = 1 }]
"#;

/// What follows the zone's first lines, and part of the message.
#[test]
fn each_error_in_a_thermal_zone_is_named() {
    let zone = |keys: &str| {
        format!(
            "{GOOD}\n[[thermal_zone]]\nname = \"soc\"\nsource = \"made up\"\nambient_mc = 25000\n\
             capacity_j_per_c = 2\n{keys}\n"
        )
    };
    let little = "resistance_c_per_w = 5\nclusters = [\"little\"]\n";
    let good = zone(&format!("{little}trip = [{{ temperature_mc = 60000 }}]"));
    let machine = from_toml("test.toml", &good).unwrap_or_else(|error| panic!("{error}"));
    let [soc] = &machine.thermal_zones[..] else { panic!("one zone") };
    assert_eq!(
        (soc.initial_mc, soc.trips[0].hysteresis_mc, &soc.clusters[..]),
        (25_000, 0, &[0][..])
    );
    for (keys, told) in [
        ("resistance_c_per_w = 0\nclusters = [\"little\"]", "never gets hotter"),
        ("resistance_c_per_w = 5", "the power of cluster `big` is not known"),
        ("resistance_c_per_w = 5\nclusters = [\"mid\"]", "no other cluster has the name `mid`"),
        (
            "resistance_c_per_w = 5\nclusters = [\"little\"]\n\
             trip = [{ temperature_mc = 60000 }, { temperature_mc = 50000 }]",
            "the one before is as hot",
        ),
    ] {
        let Err(PlatformError::Invalid { problems, .. }) = from_toml("test.toml", &zone(keys))
        else {
            panic!("it was taken: {keys}")
        };
        let [problem] = &problems[..] else { panic!("one problem: {keys}: {problems:?}") };
        assert!(problem.message.contains(told), "{problem:?}");
    }
}
