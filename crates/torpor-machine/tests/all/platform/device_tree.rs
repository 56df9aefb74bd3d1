// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Import from device trees: a made board as source and as blob, errors in it, damage to it,
//! and the kernel's own trees against the platforms that ship.

#[path = "../../../../../tests/upstream.rs"]
mod upstream;

use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use torpor_machine::platform::{
    Cluster, IdleState, ImportOptions, Imported, Platform, PlatformError, Scope, StatePower,
    from_toml, import, import_device_tree, resolve,
};
use torpor_machine::units::{CpuId, Duration, Hz, Power};

const BOARD: &[u8] = include_bytes!("../../data/board.dtb");

fn options() -> ImportOptions {
    ImportOptions { hz: Some(Hz::H250), ..ImportOptions::named("board") }
}

fn platform(imported: Result<Imported, PlatformError>) -> Platform {
    let imported = imported.unwrap_or_else(|error| panic!("{error}"));
    from_toml("imported", &imported.document.to_toml()).unwrap_or_else(|error| panic!("{error}"))
}

fn capacities(machine: &Platform) -> Vec<u32> {
    machine.clusters.iter().map(|cluster| cluster.capacity).collect()
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Returns `None`, with a message, if the tools are missing.
fn is_there(tool: &str, test: &str) -> bool {
    let is_there = Command::new(tool).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("not run: {test}: `{tool}` is not on this machine");
    }
    is_there
}

/// The board's source with one text replaced, imported as a file of its own.
fn edited(from: &str, to: &str) -> Result<Imported, PlatformError> {
    let source = std::fs::read_to_string(data("board.dts")).unwrap();
    assert!(source.contains(from), "nothing to replace: {from}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board.dts");
    std::fs::write(&path, source.replacen(from, to, 1)).unwrap();
    import(&path, &options())
}

#[test]
fn imported_board_matches_its_device_tree() {
    let imported = import_device_tree("board.dtb", BOARD, &options()).unwrap();
    let notes = imported.notes.join("\n");
    let board = platform(Ok(imported));
    assert_eq!(board.title, "A made-up board");
    let [little, big] = &board.clusters[..] else { panic!("two clusters") };
    assert_eq!(
        (&little.cpus[..], &big.cpus[..]),
        (&[CpuId(0), CpuId(1)][..], &[CpuId(2), CpuId(3)][..])
    );
    // 512 dmips/MHz at 1 GHz against 1024 at 2 GHz: a quarter. The turbo mode does not count.
    assert_eq!((little.capacity, big.capacity), (256, 1024));
    assert!(notes.contains("/opp-table-1/opp-2200000000` is a turbo mode"), "{notes}");

    let opps = |cluster: &Cluster| -> Vec<(u32, Option<Power>)> {
        cluster.opps.iter().map(|opp| (opp.freq_khz, opp.active_power)).collect()
    };
    // 100 uW/MHz/V^2: 0.8 V and 500 MHz make 32 mW, 1 V and 1 GHz make 100 mW. The tree has the
    // faster one first.
    let mw = |mw: f64| Some(Power::from_mw(mw));
    assert_eq!(opps(little), [(500_000, mw(32.0)), (1_000_000, mw(100.0))]);
    assert_eq!(opps(big), [(1_000_000, mw(450.5)), (2_000_000, mw(1700.0))]);

    let states = |cluster: &Cluster| -> Vec<(String, i64, i64, i64, Scope)> {
        let us = |time: Duration| time.ns() / 1000;
        let row = |s: &IdleState| {
            (s.name.clone(), us(s.entry_latency), us(s.latency), us(s.target_residency), s.scope)
        };
        cluster.idle_states.iter().map(row).collect()
    };
    let row = |name: &str, entry, latency, residency, scope| {
        (name.to_owned(), entry, latency, residency, scope)
    };
    let wfi = row("WFI", 0, 1, 1, Scope::Cpu);
    assert_eq!(
        states(little),
        [
            wfi.clone(),
            row("cpu-sleep", 70, 230, 2000, Scope::Cpu),
            row("cluster-sleep", 200, 700, 4000, Scope::Cluster),
        ]
    );
    // big-off gives its worst case itself, 1000 us, which is less than 300 + 900.
    assert_eq!(
        states(big),
        [
            wfi,
            row("big-sleep", 150, 340, 2500, Scope::Cpu),
            row("big-off", 300, 1000, 6000, Scope::Cluster),
        ]
    );
    // No governor chooses a domain's state.
    let off = |cluster: &Cluster| -> Vec<bool> {
        cluster.idle_states.iter().map(|state| state.is_disabled).collect()
    };
    assert_eq!((off(little), off(big)), (vec![false; 3], vec![false, false, true]));
    assert_eq!((little.deepest(), big.deepest()), (2, 1));
    assert!(notes.contains("`big-off` belongs to a power domain"), "{notes}");
    assert!(notes.contains("within 6000 us; a wake-up from it takes up to 1000 us"), "{notes}");
    assert!(!board.has_power());
}

/// As on an RK3308: only the first CPU has a coefficient, and the kernel asks no other. In a blob,
/// a property is a token, its length and the place of its name.
#[test]
fn first_cpu_describes_its_frequency_domain() {
    let coefficient = |from: usize| {
        let name = BOARD.windows(26).position(|w| w == b"dynamic-power-coefficient\0").unwrap();
        let strings = u32::from_be_bytes(BOARD[12..16].try_into().unwrap()) as usize;
        let token = [3, 4, (name - strings) as u32].map(u32::to_be_bytes).concat();
        from + BOARD[from..].windows(12).position(|w| w == token).unwrap()
    };
    let mut bytes = BOARD.to_vec();
    let second = coefficient(coefficient(0) + 1);
    // FDT_NOP
    (0..4).for_each(|word| bytes[second + 4 * word..][..4].copy_from_slice(&[0, 0, 0, 4]));
    let board = platform(import_device_tree("board.dtb", &bytes, &options()));
    assert_eq!(
        board.clusters,
        platform(import_device_tree("board.dtb", BOARD, &options())).clusters
    );
    // A table that is not shared is each CPU's own, unless one clock drives them.
    let shared = bytes.windows(11).position(|w| w == b"opp-shared\0").unwrap();
    bytes[shared..shared + 10].copy_from_slice(b"opp-shured");
    let apart = platform(import_device_tree("board.dtb", &bytes, &options()));
    assert_eq!(apart.clusters.len(), 3);
}

#[test]
fn dts_and_dtb_give_the_same_platform() {
    if !is_there("dtc", "a .dts against its .dtb") {
        return;
    }
    let from_source = platform(import(&data("board.dts"), &options()));
    let from_blob = platform(import(&data("board.dtb"), &options()));
    assert_eq!(from_source.clusters, from_blob.clusters);
    // By its path alone, as `--platform` takes it.
    let resolved = resolve(data("board.dts").to_str().unwrap()).unwrap();
    assert_eq!((resolved.name.as_str(), resolved.cpu_count()), ("board", 4));
}

#[test]
fn a_source_may_include_in_either_way() {
    if !is_there("dtc", "includes of a .dts") {
        return;
    }
    let board = std::fs::read_to_string(data("board.dts")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("name.dtsi"), "/ { model = \"Another\"; };\n").unwrap();
    for include in ["#include", "/include/"] {
        let source = folder.path().join("board.dts");
        std::fs::write(&source, format!("{board}\n{include} \"name.dtsi\"\n")).unwrap();
        assert_eq!(platform(import(&source, &options())).title, "Another", "{include}");
    }
}

#[test]
fn a_slip_is_named_with_node_and_property() {
    if !is_there("dtc", "slips in a .dts") {
        return;
    }
    let rows: [(&str, &str, &[&str]); 11] = [
        (
            "capacity-dmips-mhz = <512>",
            "capacity-dmips-mhz = <0>",
            &["`/cpus/cpu@0`: `capacity-dmips-mhz` is 0", "1 to 4294967295"],
        ),
        (
            "/bits/ 64 <500000000>",
            "/bits/ 64 <1000000000>",
            &[
                "`/opp-table-0/opp-500000000`: `opp-hz` is 1000000 kHz",
                "as is that of `/opp-table-0/opp-1000000000`",
            ],
        ),
        ("/bits/ 64 <500000000>", "/bits/ 64 <0>", &["`opp-hz` is 0 Hz", "1000 Hz"]),
        ("/bits/ 64 <500000000>", "<5>", &["`opp-hz` is too short", "/bits/ 64"]),
        ("opp-hz = /bits/ 64 <500000000>;", "", &["`opp-hz` is not there"]),
        (
            "operating-points-v2 = <&little_opp>",
            "operating-points-v2 = <999>",
            &["`/cpus/cpu@0`: `operating-points-v2` holds 0x3e7", "the phandle of a node"],
        ),
        (
            "0x0010000, 70, 160, 2000",
            "0x0010000, 70, 160, 5000",
            &[
                "`/cpus/cpu@0`: `cpu-idle-states` has `cluster-sleep` with a min-residency-us of 4000 us",
            ],
        ),
        (
            "min-residency-us = <RESIDENCY_US>;",
            "",
            &["cpu-sleep`: `min-residency-us` is not there"],
        ),
        (
            "compatible = \"arm,idle-state\"",
            "compatible = \"arm,idle\"",
            &["`compatible` is `arm,idle`", "`arm,idle-state` or `riscv,idle-state`"],
        ),
        ("cpus {", "cpuz {", &["it has no node `/cpus`"]),
        ("/dts-v1/;", "/dts-v1/;\n#include <nowhere.h>", &["`cpp` refuses it", "nowhere.h"]),
    ];
    for (from, to, parts) in rows {
        let error = edited(from, to).expect_err(to).to_string();
        for part in parts {
            assert!(error.contains(part), "{to}: {error}");
        }
        assert!(error.contains("hint: "), "{to}: {error}");
    }
}

#[test]
fn gaps_in_tree_are_filled_as_linux_does() {
    if !is_there("dtc", "what a .dts leaves open") {
        return;
    }
    // With partial information, all CPUs are alike to the scheduler.
    let partial = edited("capacity-dmips-mhz = <512>;", "").unwrap();
    assert!(partial.notes.iter().any(|note| note.contains("treats all as equal")));
    assert_eq!(capacities(&platform(Ok(partial))), [1024, 1024]);
    // Without a voltage there is no energy model.
    let dark = edited("opp-microvolt = <800000>;", "").unwrap();
    assert!(dark.notes.iter().any(|note| note.contains("without `opp-microvolt`")));
    assert_eq!(platform(Ok(dark)).clusters[0].opps[0].active_power, None);
    // A CPU that is switched off is none, and the others move up.
    let fewer = platform(edited("reg = <1>;", "reg = <1>; status = \"disabled\";"));
    assert_eq!(fewer.clusters[0].cpus, [CpuId(0)]);
    // A domain's state is no shallower than what its CPUs need to be in.
    let early = edited("min-residency-us = <6000>", "min-residency-us = <600>").unwrap();
    let early = platform(Ok(early));
    assert_eq!(early.clusters[1].idle_states[2].target_residency, Duration::from_us(2500));
}

#[test]
fn energy_model_replaces_implied_powers() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let model = "cpu0/cpus:0-1\ncpu0/flags:0x1\n\
                 cpu0/ps:500000/frequency:500000\ncpu0/ps:500000/power:41000\n";
    std::fs::write(file.path(), model).unwrap();
    let options = ImportOptions { energy_model: Some(file.path().into()), ..options() };
    let board = platform(import_device_tree("board.dtb", BOARD, &options));
    let powers = board.clusters[0].opps.iter().map(|opp| opp.active_power);
    let mw = [41.0, 100.0].map(|mw| Some(Power::from_mw(mw)));
    assert_eq!(powers.collect::<Vec<_>>(), mw);
}

/// As on a MediaTek MT8196. Governors must not select this state.
#[test]
fn unused_state_is_listed_as_off() {
    if !is_there("dtc", "a state for suspend-to-idle") {
        return;
    }
    for (name, residency) in [("cluster-sleep", "4294967295"), ("s2idle", "4000")] {
        let source = std::fs::read_to_string(data("board.dts")).unwrap();
        let source = source.replace("200, 500, 4000", &format!("200, 500, {residency}"));
        let source = source.replace("cluster-sleep", name);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("board.dts");
        std::fs::write(&path, source).unwrap();
        let imported = import(&path, &options()).unwrap();
        let said = format!("the idle loop never enters `{name}`");
        assert_eq!(imported.notes.iter().filter(|note| note.contains(&said)).count(), 1);
        assert!(imported.notes.iter().any(|n| n.contains(&format!("`--enable-state {name}`"))));
        let mut board = platform(Ok(imported));
        let states = |board: &Platform| -> Vec<bool> {
            board.clusters[0].idle_states.iter().map(|state| state.is_disabled).collect()
        };
        assert_eq!(states(&board), [false, false, true]);
        board.enable_state(name).unwrap();
        assert_eq!(states(&board), [false, false, false]);
        assert_eq!(board.name, format!("board,enable_state={name}"));
    }
}

#[test]
fn unknown_state_to_enable_is_an_error() {
    let mut board = platform(import_device_tree("board.dtb", BOARD, &options()));
    let error = board.enable_state("big-of").unwrap_err().to_string();
    assert!(error.contains("no idle state is called `big-of`"), "{error}");
    assert!(error.contains("expected one of WFI"), "{error}");
    assert!(error.contains("did you mean `big-off`?"), "{error}");
    assert!(board.enable_state("3").is_err());
    board.enable_state("2").unwrap();
    assert!(!board.clusters[1].idle_states[2].is_disabled);
}

/// A Qualcomm SM8250: the kernel asks `psci` for its cluster by itself.
#[test]
fn osi_cluster_state_is_not_a_governors() {
    let Some(imported) = imported_tree("qcom/sm8250.dtsi") else { return };
    for cluster in &imported.clusters {
        for state in &cluster.idle_states {
            assert_eq!(state.is_disabled, state.scope != Scope::Cpu, "{}", state.name);
        }
        let asked = cluster.idle_states.iter().filter(|state| !state.is_disabled);
        assert!(asked.map(|state| state.latency).max() < Some(Duration::from_us(2000)));
    }
}

/// A tree of Linux 6.12, imported, or word of why the test does not run.
fn imported_tree(source: &str) -> Option<Platform> {
    let test = format!("{source} of Linux 6.12 against the platform that ships");
    if !is_there("dtc", &test) {
        return None;
    }
    let path = upstream::kernel_sources("6.12", &test)?.join("arch/arm64/boot/dts").join(source);
    Some(platform(import(&path, &options())))
}

/// A cluster without what no device tree knows.
fn without_power(cluster: &Cluster) -> Cluster {
    let mut cluster = cluster.clone();
    cluster.idle_states.iter_mut().for_each(|state| state.power = StatePower::Unknown);
    cluster.opps.iter_mut().for_each(|opp| opp.static_power = Power::ZERO);
    cluster
}

#[test]
fn rk3399_matches_linux() {
    let Some(imported) = imported_tree("rockchip/rk3399.dtsi") else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../platforms/rk3399.toml");
    let text = std::fs::read_to_string(path).unwrap();
    // A board was measured; its device tree advertises.
    let advertised = text.lines().filter(|line| !line.starts_with("measured_"));
    let advertised: String = advertised.flat_map(|line| [line, "\n"]).collect();
    let shipped = from_toml("rk3399", &advertised).unwrap();
    let shipped: Vec<Cluster> = shipped.clusters.iter().map(without_power).collect();
    assert_eq!(imported.clusters, shipped);
}

#[test]
fn apple_m1_equals_linux_where_linux_knows() {
    let Some(imported) = imported_tree("apple/t8103.dtsi") else { return };
    let shipped = resolve("apple-m1").unwrap();
    assert_eq!(imported.clusters.len(), shipped.clusters.len());
    for (ours, theirs) in shipped.clusters.iter().zip(imported.clusters) {
        let mut ours = ours.clone();
        for opp in &mut ours.opps {
            (opp.active_power, opp.energy_model_power) = (None, None);
        }
        ours.clock.has_fast_switch = false;
        // Mainline has no idle driver for it: WFI alone.
        ours.idle_states.truncate(1);
        assert_eq!(ours, theirs);
    }
}

/// The frequencies came with a later kernel than 6.12, the idle states did not.
#[test]
fn pixel6_has_the_idle_states_of_linux() {
    let Some(imported) = imported_tree("exynos/google/gs101.dtsi") else { return };
    let shipped = resolve("pixel6").unwrap();
    for (ours, theirs) in shipped.clusters.iter().zip(&imported.clusters) {
        assert_eq!(ours.cpus, theirs.cpus);
        for (ours, theirs) in ours.idle_states.iter().zip(&theirs.idle_states) {
            let times = |s: &IdleState| (s.entry_latency, s.latency, s.target_residency);
            assert_eq!(times(ours), times(theirs), "{}", ours.name);
        }
    }
}

/// Its capacities are those at like frequencies, which the note says.
#[test]
fn firmware_frequencies_are_noted() {
    let test = "juno.dts of Linux 6.12";
    if !is_there("dtc", test) {
        return;
    }
    let Some(tree) = upstream::kernel_sources("6.12", test) else { return };
    let source = tree.join("arch/arm64/boot/dts/arm/juno.dts");
    let juno = import(&source, &options()).unwrap();
    assert!(juno.notes.iter().any(|note| note.contains("no OPPs (firmware may have them)")));
    let juno = platform(Ok(juno));
    assert_eq!(juno.title, "ARM Juno development board (r0)");
    assert_eq!(capacities(&juno), [1024, 578]);
    // The kernel that runs there knows them: 578 * 850 / (1024 * 1100) of 1024.
    let model = tempfile::NamedTempFile::new().unwrap();
    let state = |name: &str, khz: u32| {
        format!("{name}/ps:{khz}/frequency:{khz}\n{name}/ps:{khz}/power:{khz}\n")
    };
    let states = state("cpu0", 450_000) + &state("cpu0", 1_100_000) + &state("cpu2", 850_000);
    let text = format!("cpu0/cpus:0-1\ncpu0/flags:0x1\ncpu2/cpus:2-5\ncpu2/flags:0x1\n{states}");
    std::fs::write(model.path(), text).unwrap();
    let with_model = ImportOptions { energy_model: Some(model.path().into()), ..options() };
    assert_eq!(capacities(&platform(import(&source, &with_model))), [1024, 446]);
    let scopes: Vec<Scope> = juno.clusters[0].idle_states.iter().map(|s| s.scope).collect();
    assert_eq!(scopes, [Scope::Cpu, Scope::Cpu, Scope::Cluster]);
}

/// Allowed outcomes for a damaged blob.
fn is_platform_or_reason(bytes: &[u8]) -> bool {
    match import_device_tree("damaged", bytes, &options()) {
        Ok(imported) => from_toml("t", &imported.document.to_toml()).is_ok(),
        Err(error) => error.to_string().contains("hint: "),
    }
}

#[test]
fn a_blob_cut_off_anywhere_is_refused() {
    for length in 0..BOARD.len() {
        assert!(is_platform_or_reason(&BOARD[..length]), "{length}");
    }
    let error = import_device_tree("half", &BOARD[..1000], &options()).unwrap_err().to_string();
    assert!(error.contains("`half`: damaged device tree"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Header, structure and names, hit by single bytes and by words that are tokens or phandles.
    #[test]
    fn no_damage_makes_the_importer_panic(
        hits in prop::collection::vec((0..BOARD.len() / 4, any::<u32>(), 0..14u32), 1..6),
    ) {
        let mut bytes = BOARD.to_vec();
        for (word, any, small) in hits {
            let value = if any % 2 == 0 { small } else { any };
            bytes[4 * word..4 * word + 4].copy_from_slice(&value.to_be_bytes());
        }
        prop_assert!(is_platform_or_reason(&bytes));
    }
}
