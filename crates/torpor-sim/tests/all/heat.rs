// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Machines that get hot, and what that takes of their speed.

use crate::support::{count, load, one_cluster, platform, request};
use torpor_platform::Platform;
use torpor_sim::Cpufreq;
use torpor_sim::machine::Counted;
use torpor_units::Duration;

/// One CPU of 1 W at 1 GHz and 4 W at 2 GHz.
fn machine(zone: &str) -> Platform {
    let cluster = format!(
        r#"
opp = [
    {{ freq_khz = 1000000, active_power_mw = 1000 }},
    {{ freq_khz = 1500000, active_power_mw = 2000 }},
    {{ freq_khz = 2000000, active_power_mw = 4000 }},
]
idle_state = [{{ name = "C1", exit_latency_us = 2, target_residency_us = 2, power_mw = 0 }}]
{zone}
"#
    );
    platform(&one_cluster(1, "", &cluster))
}

/// 10 K/W and 0.5 J/K: 5 s to 63 % of the way.
const ZONE: &str = r#"
[[thermal_zone]]
name = "soc"
source = "made up"
resistance_c_per_w = 10
capacity_j_per_c = 0.5
ambient_mc = 25000
"#;

fn run(platform: Platform, ms: i64) -> Counted {
    let busy = load("[[task]]\nname = \"t\"\nphase = [{ run_us = 1000 }]\n");
    count(&request(platform, busy, &["shallowest"], ms)).unwrap()
}

#[test]
fn a_busy_cpu_heats_its_zone_as_one_resistance_and_one_capacity_do() {
    let counted = run(machine(ZONE), 5_000);
    let zone = &counted.zones[0];
    // 4 W: 40 K more in the end, of which 1 - 1/e in 5 s.
    let expected = 25_000.0 + 40_000.0 * (1.0 - (-1.0_f64).exp());
    assert!((zone.end_mc - expected).abs() < 5.0, "{zone:?}");
    assert!((zone.mean_mc - 25_000.0 - 40_000.0 * (-1.0_f64).exp()).abs() < 5.0, "{zone:?}");
    assert_eq!(zone.limited, Duration::ZERO);
    assert!(run(machine(""), 100).zones.is_empty());
}

#[test]
fn a_trip_takes_speed_and_holds_the_temperature() {
    let trip = "trip = [{ temperature_mc = 50000, hysteresis_mc = 1000 }]\n";
    let hot = |ms| run(machine(&format!("{ZONE}{trip}")), ms);
    let passes = |counted: &Counted| counted.kinds[0].passes;
    // 40 K in all, 25 of which take 4.9 s: until then as without.
    assert_eq!(passes(&hot(4_000)), passes(&run(machine(""), 4_000)));
    let (first, whole) = (hot(4_000), hot(60_000));
    // A millisecond of work each; later at 1.5 GHz or less: 2 W would heat to 45 degrees alone.
    let later = (passes(&whole) - passes(&first)) as f64 / 56_000.0;
    assert!((0.6..0.95).contains(&later), "{later}");
    let zone = &whole.zones[0];
    // At 4 W it gets 0.3 K hotter between two looks, and one step may not be enough.
    assert!((50_000.0..52_000.0).contains(&zone.max_mc), "{zone:?}");
    assert!(zone.limited > Duration(10_000_000_000), "{zone:?}");
}

/// Two clusters of a CPU each: the first cheap, the second dear.
fn pair(zone: &str) -> Platform {
    let cluster = |name: &str, cpu: u32, capacity: u32, power: (u32, u32)| {
        format!(
            r#"
[[cluster]]
name = "{name}"
cpus = "{cpu}"
capacity = {capacity}
idle_state_source = "made up"
opp_source = "made up"
power_source = "made up"
opp = [
    {{ freq_khz = 1000000, active_power_mw = {} }},
    {{ freq_khz = 2000000, active_power_mw = {} }},
]
idle_state = [{{ name = "C1", exit_latency_us = 1, target_residency_us = 1, power_mw = 0 }}]
"#,
            power.0, power.1
        )
    };
    let (cheap, dear) =
        (cluster("cheap", 0, 1024, (100, 300)), cluster("dear", 1, 1000, (1000, 3000)));
    let head = "name = \"p\"\ntitle = \"p\"\nsource = \"made up\"\nhz = 250\n";
    platform(&format!("{head}{cheap}{dear}{zone}"))
}

/// A task of 470 of 1024 goes where energy rises least: the cheap CPU. With half of that taken off
/// by heat, which is 512, it does not fit there any more.
#[test]
fn a_task_leaves_a_cpu_that_heat_has_made_small() {
    let zone = ZONE.replace("ambient_mc = 25000", "ambient_mc = 60000\nclusters = [\"cheap\"]");
    let hot = format!("{zone}trip = [{{ temperature_mc = 50000 }}]\n");
    let of = |zone: &str| {
        let task =
            load("[[task]]\nname = \"t\"\nphase = [{ run_us = 4600 }, { period_us = 10000 }]\n");
        let mut asked = request(pair(zone), task, &["shallowest"], 4_000);
        asked.options.cpufreq = vec!["schedutil".parse::<Cpufreq>().unwrap()];
        count(&asked).unwrap()
    };
    let share = |counted: &Counted| {
        let time = |cpu: usize| counted.cpus[cpu].task_time.0 as f64;
        time(0) / (time(0) + time(1))
    };
    let (cold, warm, hot) = (of(""), of(&zone), of(&hot));
    assert!(share(&cold) > 0.95 && share(&warm) > 0.95, "{} {}", share(&cold), share(&warm));
    assert!(share(&hot) < 0.1, "{}", share(&hot));
    assert_eq!(hot.domains[0].time_at[1], Duration::ZERO);
    assert_eq!(hot.zones[0].limited, Duration(4_000_000_000));
}
