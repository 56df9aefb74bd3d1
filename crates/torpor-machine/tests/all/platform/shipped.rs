// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Checks every machine that ships, and the numbers of the two that results rest on.

use std::path::PathBuf;
use torpor_machine::platform::{Platform, PollLoop, StatePower, builtins, json_schema, resolve};
use torpor_machine::units::{CpuId, Duration, Hz, Power};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn platform(name: &str) -> Platform {
    resolve(name).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn ten_x86_machines_ship_without_invented_power() {
    let measured = [
        "i5-10600k",
        "jasperlake-n6000",
        "juno",
        "mt6858",
        "mt6897",
        "pixel-watch-2",
        "pixel10",
        "pixel6",
        "pixel9",
        "rk3399",
        "rome-7502",
        "sm8750",
    ];
    let (with_power, without): (Vec<_>, Vec<_>) =
        builtins().into_iter().partition(|b| b.platform.has_power());
    assert_eq!(with_power.iter().map(|b| b.name).collect::<Vec<_>>(), measured);
    assert!(without.len() >= 10);
    for builtin in without {
        assert!(!measured.contains(&builtin.name));
        let states = builtin.platform.clusters.iter().flat_map(|c| &c.idle_states);
        assert!(states.into_iter().all(|s| s.power == StatePower::Unknown), "{}", builtin.name);
    }
}

#[test]
fn known_power_lists_included_and_missing_parts() {
    for builtin in builtins() {
        let machine = &builtin.platform;
        let said = [&machine.power_includes, &machine.power_missing].map(|lines| !lines.is_empty());
        assert_eq!(said, [machine.has_power(); 2], "{}", builtin.name);
    }
}

/// Each figure of the paper's section VI-A, in W.
#[test]
fn rome_7502_sums_to_measured_server_powers() {
    let rome = platform("rome-7502");
    let [cluster] = &rome.clusters[..] else { panic!("one cluster") };
    let mw = |state: usize| {
        let StatePower::Constant(power) = &cluster.idle_states[state].power else { panic!("OPPs") };
        power.as_mw_f64()
    };
    let awake = rome.floor_power.as_mw_f64() + cluster.opps[0].static_power.as_mw_f64();
    let watts = |cpus: f64, state: usize| (awake + cpus * mw(state)) / 1e3;
    assert_eq!((rome.cpu_count(), cluster.smt.threads, cluster.smt.stride), (128, 2, 64));
    assert!((rome.floor_power.as_mw_f64() - 99_100.0).abs() < 1.0);
    // A core is in C1 with both its threads.
    for (measured, cpus, state) in [
        (180.3, 2.0, 1),
        (180.3 + 63.0 * 0.09, 128.0, 1),
        (180.4, 1.0, 0),
        (180.4 + 63.0 * 0.33 + 64.0 * 0.05, 128.0, 0),
    ] {
        let found = watts(cpus, state);
        assert!((found - measured).abs() < 0.35, "{cpus} CPUs in {state}: {found} for {measured}");
    }
}

/// Ends of Wattson's curves, and capacities by the kernel's rule.
#[test]
fn phones_have_device_tree_and_measured_power() {
    for (name, capacities, residencies, ends_mw) in [
        ("pixel9", vec![281, 711, 1024], vec![2000, 2500, 3500], (134.04, 3327.56)),
        ("pixel10", vec![153, 719, 719, 1024], vec![3610, 2720, 2720, 3950], (7.88, 2220.4)),
        ("sm8750", vec![781, 1024], vec![560, 686], (62.91, 2116.72)),
        ("mt6858", vec![288, 1024], vec![35_200, 35_200], (33.0095, 429.4358)),
        ("mt6897", vec![220, 1024, 1016], vec![35_200; 3], (33.54, 1300.78)),
    ] {
        let phone = platform(name);
        let (clusters, last) = (&phone.clusters, phone.clusters.last().unwrap());
        let found: Vec<u32> = clusters.iter().map(|c| c.capacity).collect();
        assert_eq!(found, capacities, "{name}");
        let deepest = clusters.iter().map(|c| c.idle_states.last().unwrap().target_residency);
        let found: Vec<i64> = deepest.map(|residency| residency.0 / 1000).collect();
        assert_eq!(found, residencies, "{name}");
        let mw = |opp: &torpor_machine::platform::Opp| opp.active_power.unwrap().as_mw_f64();
        let found = (mw(&clusters[0].opps[0]), mw(last.opps.last().unwrap()));
        assert!(
            (found.0 - ends_mw.0).abs() + (found.1 - ends_mw.1).abs() < 1e-3,
            "{name}: {found:?}"
        );
        assert_eq!(phone.cpu_count(), 8);
    }
}

/// Qualcomm's device tree's numbers, and Wattson's.
#[test]
fn pixel_watch_2_has_measured_power() {
    let watch = platform("pixel-watch-2");
    let [cluster] = &watch.clusters[..] else { panic!("one cluster") };
    let [wfi, pc] = &cluster.idle_states[..] else { panic!("two states") };
    assert_eq!(pc.latency, Duration::from_us(297 + 324));
    assert_eq!(pc.target_residency, Duration::from_us(1_110));
    let mw = [0.76, 0.83, 1.1, 1.34].map(Power::from_mw);
    assert_eq!(wfi.power, StatePower::PerOpp(mw.to_vec()));
    let static_mw: Vec<f64> = cluster.opps.iter().map(|o| o.static_power.as_mw_f64()).collect();
    assert_eq!(static_mw, [4.8, 6.68, 12.6, 18.39]);
}

/// The device tree's numbers, and Wattson's at the lowest and the highest OPP.
#[test]
fn pixel6_has_device_tree_and_measured_power() {
    let pixel6 = platform("pixel6");
    assert_eq!(pixel6.hz, Hz::H250);
    assert_eq!(pixel6.cpu_count(), 8);
    assert_eq!(pixel6.cluster_of(CpuId(5)), Some(1));
    let [little, mid, big] = &pixel6.clusters[..] else { panic!("three clusters") };
    // 250 * 1803000 / (1024 * 2802000) of 1024, and 620 * 2253000 / (1024 * 2802000) of 1024.
    assert_eq!([little.capacity, mid.capacity, big.capacity], [160, 498, 1024]);

    for (cluster, entry, exit, residency) in
        [(little, 70, 160, 2000), (mid, 150, 190, 2500), (big, 235, 220, 3500)]
    {
        let [wfi, c2] = &cluster.idle_states[..] else { panic!("two states") };
        assert_eq!((wfi.latency, wfi.target_residency), (Duration(1_000), Duration(1_000)));
        assert_eq!(c2.entry_latency, Duration::from_us(entry));
        assert_eq!(c2.exit_latency, Duration::from_us(exit));
        // cpuidle takes entry plus exit where the device tree gives no wakeup-latency-us.
        assert_eq!(c2.latency, Duration::from_us(entry + exit));
        assert_eq!(c2.target_residency, Duration::from_us(residency));
        assert_eq!(c2.power, StatePower::Constant(Power::ZERO));
        let StatePower::PerOpp(wfi) = &wfi.power else { panic!("WFI has power for each OPP") };
        assert_eq!(wfi.len(), cluster.opps.len());
    }
    let ends = |cluster: &torpor_machine::platform::Cluster| {
        let mw = |opp: &torpor_machine::platform::Opp| opp.active_power.unwrap().as_mw_f64();
        (mw(&cluster.opps[0]), mw(cluster.opps.last().unwrap()))
    };
    assert_eq!(ends(little), (21.84, 342.95));
    assert_eq!(ends(mid), (28.51, 527.05));
    assert_eq!(ends(big), (87.31, 1942.89));
    assert_eq!(little.opps[0].static_power, Power::from_mw(3.73));
    assert_eq!(big.opps[0].static_power, Power::ZERO);
}

/// The four measurements come back when all twelve CPUs do what they did then.
#[test]
fn i5_10600k_sums_to_measured_package_powers() {
    let i5 = platform("i5-10600k");
    assert_eq!((i5.cpu_count(), i5.hz), (12, Hz::H1000));
    let states = &i5.clusters[0].idle_states;
    let package_mw = |cpus: f64, state: usize| {
        let StatePower::Constant(power) = &states[state].power else { panic!("no OPPs") };
        let awake = if state == 0 { i5.awake_power.as_mw_f64() } else { 0.0 };
        cpus * power.as_mw_f64() + i5.floor_power.as_mw_f64() + awake
    };
    assert!((package_mw(12.0, 0) - 46_000.0).abs() < 1.0);
    assert!((package_mw(1.0, 0) - 19_000.0).abs() < 1.0);
    assert!((package_mw(12.0, 1) - 2_600.0).abs() < 1.0);
    assert!((package_mw(12.0, 3) - 1_400.0).abs() < 1.0);
    assert!(states[0].is_polling());
    assert_eq!(states[3].target_residency, Duration::from_us(3102));
    // The interpolated power must say that it is a guess.
    let c2 = i5.sources.iter().find(|line| line.contains("C2_ACPI power")).unwrap();
    assert!(c2.contains("interpolated, not measured"), "{c2}");
}

/// The driver as posted: governors see its limit as WFI's latency and residency, which cost and
/// wake-up do not change by.
#[test]
fn arm_poll_idle_tells_governors_its_limit() {
    let i5 = builtins().into_iter().find(|b| b.name == "i5-10600k").unwrap();
    let end = i5.text.find("[[cluster.idle_state]]\nname = \"C2_ACPI\"").unwrap();
    let text = &i5.text[..end];
    let wfe = "driver = \"arm_poll_idle\"\npoll_limit_us = 60";
    let states = |text: &str| {
        let machine =
            torpor_machine::platform::from_toml("t", text).unwrap_or_else(|e| panic!("{e}"));
        machine.clusters[0].idle_states.clone()
    };
    let (posted, plain) = (states(&text.replace("polling = true", wfe)), states(text));
    let limit = Duration::from_us(60);
    let event_stream = Some(Duration::from_us(100));
    assert_eq!(posted[0].poll_loop, Some(PollLoop::ArmPollIdle { event_stream }));
    assert_eq!((posted[1].latency, posted[1].target_residency), (limit, limit));
    let exact = states(&text.replace("polling = true", &format!("{wfe}\nwfet = true")));
    assert_eq!(exact[0].poll_loop, Some(PollLoop::ArmPollIdle { event_stream: None }));
    assert_eq!(posted[1].exit_latency, plain[1].exit_latency);
    assert_eq!((posted[1].break_even, plain[1].break_even), (Duration(1000), Duration(1000)));
    assert!(matches!(plain[0].poll_loop, Some(PollLoop::PollIdle { .. })));
}

/// With a number replaced it is another machine, in name and in hash; without, the very file.
#[test]
fn machine_hash_does_not_depend_on_its_name() {
    let pixel6 = builtins().into_iter().find(|b| b.name == "pixel6").unwrap().platform;
    let path = root().join("platforms").join("pixel6.toml");
    assert_eq!(platform("pixel6").sha256, pixel6.sha256);
    assert_eq!(platform(path.to_str().unwrap()).sha256, pixel6.sha256);
    let faster = platform("pixel6,hz=1000");
    assert_eq!((faster.name.as_str(), faster.hz), ("pixel6,hz=1000", Hz::H1000));
    assert_ne!(faster.sha256, pixel6.sha256);
}

#[test]
fn states_off_by_default_stay_off() {
    let denverton = platform("denverton-c3850");
    let off: Vec<&str> = denverton.clusters[0]
        .idle_states
        .iter()
        .filter(|state| state.is_disabled)
        .map(|state| state.name.as_str())
        .collect();
    assert_eq!(off, ["C1", "C6"]);
}

#[test]
fn the_guides_example_is_a_platform() {
    let guide = std::fs::read_to_string(root().join("platforms").join("README.md")).unwrap();
    let (_, rest) = guide.split_once("```toml\n").expect("the guide has an example");
    let (example, _) = rest.split_once("```").unwrap();
    let machine = torpor_machine::platform::from_toml("platforms/README.md", example);
    let machine = machine.unwrap_or_else(|error| panic!("{error}"));
    assert!(machine.has_power());
}

#[test]
fn io_devices_have_their_drivers_queues() {
    let devices = torpor_machine::platform::io_devices();
    let names: Vec<&str> = devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["emmc", "nvme", "sd", "ufs"]);
    // The host sends a card one command at a time; a queue's interrupt goes to one CPU.
    assert_eq!((devices[2].nr_hw_queues, devices[2].queue_depth), (Some(1), 1));
    assert_eq!(devices[1].nr_hw_queues, None);
    assert!(devices.iter().all(|d| d.irq_cpu.is_some() == d.nr_hw_queues.is_some()));
}

/// The reference of keys is made of the schema.
#[test]
fn schema_describes_every_key() {
    let schema: serde_json::Value = serde_json::from_str(&json_schema()).unwrap();
    let cluster = &schema["properties"]["cluster"]["items"];
    let below = |table: &str| cluster["properties"][table]["items"].clone();
    let [io_device, limit] =
        ["io_device", "power_limit"].map(|table| &schema["properties"][table]["items"]);
    for shape in [&schema, cluster, &below("opp"), &below("idle_state"), io_device, limit] {
        for (key, value) in shape["properties"].as_object().unwrap() {
            let description = value["description"].as_str().unwrap_or_default();
            assert!(description.len() > key.len(), "{key}: {description}");
        }
    }
}
