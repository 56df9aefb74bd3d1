// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Import from sysfs trees that the tests build: sound ones, odd ones, and damaged ones.

use proptest::prelude::*;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use torpor_machine::platform::{
    ImportOptions, Imported, Platform, from_toml, import_snapshot, import_sysfs,
};
use torpor_machine::units::{Duration, Hz, Power};

/// name, desc, latency, residency, default_status: rows as `x86` machines show them.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str);

const SKYLAKE_SP: [Row; 4] = [
    ("POLL", "CPUIDLE CORE POLL IDLE", "0", "0", "enabled"),
    ("C1", "MWAIT 0x00", "2", "2", "enabled"),
    ("C1E", "MWAIT 0x01", "10", "20", "enabled"),
    ("C6", "MWAIT 0x20", "133", "600", "disabled"),
];

const CORTEX: [Row; 2] =
    [("WFI", "ARM WFI", "1", "1", "enabled"), ("c2", "c2", "230", "2000", "enabled")];

fn put(root: &Path, path: &str, text: impl AsRef<[u8]>) {
    let full = root.join(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    fs::write(full, text).unwrap();
}

fn put_cpu(root: &Path, cpu: u32, rows: &[Row]) {
    for (state, (name, desc, latency, residency, status)) in rows.iter().enumerate() {
        let folder = format!("cpu{cpu}/cpuidle/state{state}");
        put(root, &format!("{folder}/name"), format!("{name}\n"));
        put(root, &format!("{folder}/desc"), format!("{desc}\n"));
        put(root, &format!("{folder}/latency"), format!("{latency}\n"));
        put(root, &format!("{folder}/residency"), format!("{residency}\n"));
        put(root, &format!("{folder}/default_status"), format!("{status}\n"));
        put(root, &format!("{folder}/disable"), if *status == "disabled" { "1\n" } else { "0\n" });
        // All of these are there on real machines, and none of them may matter.
        put(root, &format!("{folder}/power"), "4294967295\n");
        put(root, &format!("{folder}/s2idle/usage"), "0\n");
        put(root, &format!("cpu{cpu}/cpuidle/driver/name"), "intel_idle\n");
    }
}

/// A tree of `cpus` like CPUs.
fn tree(cpus: u32, rows: &[Row]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "cpuidle/current_driver", "intel_idle\n");
    put(root.path(), "online", format!("0-{}\n", cpus - 1));
    for cpu in 0..cpus {
        put_cpu(root.path(), cpu, rows);
    }
    root
}

fn options() -> ImportOptions {
    ImportOptions { hz: Some(Hz::H1000), ..ImportOptions::named("mine") }
}

fn imported(root: &Path) -> (Platform, Imported) {
    let imported = import_sysfs(root, &options()).unwrap_or_else(|error| panic!("{error}"));
    let platform = from_toml("imported", &imported.document.to_toml())
        .unwrap_or_else(|error| panic!("{error}"));
    (platform, imported)
}

fn refusal(root: &Path) -> String {
    import_sysfs(root, &options()).expect_err("it is taken").to_string()
}

#[test]
fn a_server_comes_out_as_sysfs_shows_it() {
    let root = tree(4, &SKYLAKE_SP);
    let (platform, imported) = imported(root.path());
    assert_eq!((platform.name.as_str(), platform.hz), ("mine", Hz::H1000));
    let [cluster] = &platform.clusters[..] else { panic!("one cluster") };
    assert_eq!((cluster.cpus.len(), cluster.capacity), (4, 1024));
    let names: Vec<&str> = cluster.idle_states.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["POLL", "C1", "C1E", "C6"]);
    let c6 = &cluster.idle_states[3];
    assert_eq!((c6.entry_latency, c6.exit_latency), (Duration::ZERO, Duration::from_us(133)));
    assert_eq!(c6.target_residency, Duration::from_us(600));
    assert!(c6.is_disabled && cluster.idle_states[0].is_polling());
    assert!(!platform.has_power());
    assert!(platform.sources.iter().any(|s| s.contains("driver intel_idle")));
    assert!(imported.notes.iter().any(|note| note.contains("because its name is POLL")));
}

#[test]
fn unlike_cpus_come_out_as_clusters() {
    let root = tree(8, &CORTEX);
    let deep: [Row; 2] = [CORTEX[0], ("c2", "c2", "455", "3500", "enabled")];
    for cpu in 0..8 {
        put(
            root.path(),
            &format!("cpu{cpu}/cpu_capacity"),
            if cpu < 4 { "160\n" } else { "1024\n" },
        );
    }
    for cpu in 4..8 {
        put_cpu(root.path(), cpu, &deep);
    }
    // A copy without links: the policies show which CPUs have these frequencies.
    put(root.path(), "cpufreq/policy0/related_cpus", "0 1 2 3\n");
    put(root.path(), "cpufreq/policy0/scaling_available_frequencies", "600000 300000 \n");
    put(root.path(), "cpu4/cpufreq/scaling_available_frequencies", "500000 2802000\n");
    let (platform, _) = imported(root.path());
    let shape: Vec<_> =
        platform.clusters.iter().map(|c| (c.name.as_str(), c.cpus.len(), c.opps.len())).collect();
    // CPU 4 alone has frequencies among 4..8, so it is not like the others.
    assert_eq!(shape, [("cluster0", 4, 2), ("cluster1", 1, 2), ("cluster2", 3, 0)]);
    assert_eq!(platform.clusters[0].opps[0].freq_khz, 300_000);

    fs::remove_dir_all(root.path().join("cpu4/cpufreq")).unwrap();
    let (platform, _) = imported(root.path());
    let names: Vec<_> = platform.clusters.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["little", "big"]);
}

/// Shapes of an i7-12700H, a Core Ultra and a laptop with favored cores: `highest_perf` and L2.
fn put_hybrid(root: &Path, cpus: &[(u32, Option<u32>, &str, u32)]) {
    for (cpu, perf, l2, khz) in cpus {
        if let Some(perf) = perf {
            put(root, &format!("cpu{cpu}/acpi_cppc/highest_perf"), format!("{perf}\n"));
        }
        put(root, &format!("cpu{cpu}/cache/index2/size"), format!("{l2}\n"));
        put(root, &format!("cpu{cpu}/cpufreq/cpuinfo_max_freq"), format!("{khz}\n"));
        put(root, &format!("cpu{cpu}/cpufreq/scaling_driver"), "intel_pstate\n");
    }
}

fn shape(platform: &Platform) -> Vec<(&str, usize, u32)> {
    platform.clusters.iter().map(|c| (&c.name[..], c.cpus.len(), c.capacity)).collect()
}

#[test]
fn hybrid_capacities_are_those_of_cppc() {
    // 1024 * 24 / 36, 1024 * 34 / 60 and 1024 * 35 / 52, rounded down.
    for (big, small, capacity) in [(36, 24, 682), (60, 34, 580), (52, 35, 689)] {
        let root = tree(4, &SKYLAKE_SP);
        let of = |cpu, perf, l2, khz| (cpu, Some(perf), l2, khz);
        let p = [of(0, big, "1280K", 4_700_000), of(1, big, "1280K", 4_700_000)];
        let e = [of(2, small, "2048K", 3_500_000), of(3, small, "2048K", 3_500_000)];
        put_hybrid(root.path(), &[p, e].concat());
        let (platform, imported) = imported(root.path());
        assert_eq!(shape(&platform), [("big", 2, 1024), ("little", 2, capacity)]);
        assert!(platform.sources.iter().any(|s| s.contains("acpi_cppc/highest_perf")));
        assert!(imported.notes.iter().any(|note| note.contains("intel_pstate")));
    }
}

#[test]
fn unknown_capacities_of_unlike_cores_are_noted() {
    let root = tree(2, &SKYLAKE_SP);
    let cpus = [(0, None, "1280K", 4_700_000), (1, Some(24), "2048K", 3_500_000)];
    put_hybrid(root.path(), &cpus);
    let (platform, imported) = imported(root.path());
    assert_eq!(shape(&platform), [("cpus", 2, 1024)]);
    let said = |part: &str| imported.notes.iter().any(|note| note.contains(part));
    assert!(said("nothing in it gives their capacities"));
    assert!(said("cpuinfo_max_freq and the size of L2"));
}

#[test]
fn favored_cores_are_of_equal_capacity() {
    for driver in ["intel_pstate", "amd-pstate-epp"] {
        let root = tree(2, &SKYLAKE_SP);
        let l2 = if driver == "intel_pstate" { "1280K" } else { "512K" };
        let cpus = [(0, Some(47), "1280K", 4_700_000), (1, Some(45), l2, 4_700_000)];
        put_hybrid(root.path(), &cpus);
        put(root.path(), "cpu1/cpufreq/scaling_driver", driver);
        assert_eq!(shape(&imported(root.path()).0), [("cpus", 2, 1024)], "{driver}");
    }
}

#[test]
fn driver_of_the_cpus_is_named() {
    let root = tree(2, &CORTEX);
    fs::remove_file(root.path().join("cpuidle/current_driver")).unwrap();
    let (platform, _) = imported(root.path());
    assert!(platform.sources.iter().any(|s| s.contains("driver intel_idle")));
}

#[test]
fn refused_state_is_noted() {
    let root = tree(2, &CORTEX);
    for cpu in 0..2 {
        put(root.path(), &format!("cpu{cpu}/cpuidle/state1/usage"), "0\n");
        put(root.path(), &format!("cpu{cpu}/cpuidle/state1/rejected"), "2000000\n");
        put(root.path(), &format!("cpu{cpu}/cpuidle/state0/usage"), "5\n");
        put(root.path(), &format!("cpu{cpu}/cpuidle/state0/rejected"), "7\n");
    }
    let notes = imported(root.path()).1.notes;
    let of = |name: &str| notes.iter().filter(|n| n.contains(&format!("refused `{name}`"))).count();
    assert_eq!((of("c2"), of("WFI")), (1, 0));
    assert!(notes.iter().any(|note| note.contains("4000000 times")));
}

#[test]
fn a_copy_of_all_of_sysfs_will_do() {
    let inner = tree(2, &CORTEX);
    let outer = tempfile::tempdir().unwrap();
    let below = outer.path().join("sys/devices/system");
    fs::create_dir_all(&below).unwrap();
    fs::rename(inner.path(), below.join("cpu")).unwrap();
    assert_eq!(imported(outer.path()).0.cpu_count(), 2);
}

#[test]
fn missing_driver_is_reported() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "cpuidle/current_driver", "none\n");
    put(root.path(), "cpu0/cpu_capacity", "1024\n");
    let text = refusal(root.path());
    assert!(text.contains("no CPU in it has idle states"), "{text}");
    assert!(text.contains("current_driver says `none`"), "{text}");
    assert!(text.contains("hint: most virtual machines have no cpuidle driver"), "{text}");
}

#[test]
fn offline_cpu_counts_as_its_neighbour() {
    let root = tree(4, &SKYLAKE_SP);
    fs::remove_dir_all(root.path().join("cpu2/cpuidle")).unwrap();
    put(root.path(), "cpu2/online", "0\n");
    let (platform, imported) = imported(root.path());
    assert_eq!(platform.cpu_count(), 4);
    assert!(imported.notes.iter().any(|n| n.starts_with("CPU 2 shows no idle states")));
    assert!(imported.document.to_toml().contains("# Note: CPU 2 shows no idle states"));
}

#[test]
fn manually_disabled_state_keeps_its_default() {
    let root = tree(2, &SKYLAKE_SP);
    for cpu in 0..2 {
        put(root.path(), &format!("cpu{cpu}/cpuidle/state2/disable"), "1\n");
    }
    let (platform, imported) = imported(root.path());
    assert!(!platform.clusters[0].idle_states[2].is_disabled);
    let notes: Vec<_> = imported.notes.iter().filter(|n| n.contains("C1E")).collect();
    assert_eq!(notes, ["C1E is switched off at the moment; its default, on, is kept"]);
}

#[test]
fn old_kernel_shows_which_states_are_enabled() {
    let root = tree(1, &SKYLAKE_SP);
    for state in 0..4 {
        fs::remove_file(root.path().join(format!("cpu0/cpuidle/state{state}/default_status")))
            .unwrap();
    }
    let (platform, _) = imported(root.path());
    let off: Vec<bool> = platform.clusters[0].idle_states.iter().map(|s| s.is_disabled).collect();
    assert_eq!(off, [false, false, false, true]);
}

#[test]
fn odd_capacities_are_scaled_to_1024() {
    let root = tree(2, &CORTEX);
    put(root.path(), "cpu0/cpu_capacity", "446\n");
    put(root.path(), "cpu1/cpu_capacity", "892\n");
    let (platform, imported) = imported(root.path());
    let capacities: Vec<u32> = platform.clusters.iter().map(|c| c.capacity).collect();
    assert_eq!(capacities, [512, 1024]);
    assert!(imported.notes.iter().any(|note| note.contains("892")));
}

/// Each row: what to damage and how, and what the error has to name.
#[test]
fn damaged_tree_error_names_the_file() {
    let rows: [(&str, Option<&str>, &[&str]); 8] = [
        ("cpu0/cpuidle/state1", None, &["cpu0/cpuidle", "has state3 but not state1"]),
        ("cpu0/cpuidle/state1/latency", None, &["state1/latency` is not there", "cp -rL"]),
        ("cpu0/cpuidle/state1/latency", Some("fast"), &["state1/latency` holds `fast`"]),
        ("cpu0/cpuidle/state3/residency", Some("99999999999"), &["`99999999999`", "4294967295"]),
        ("cpu0/cpuidle/state3/residency", Some("-5"), &["holds `-5`"]),
        ("cpu0/cpuidle/state2/name", Some(" \n"), &["state2/name` is empty"]),
        (
            "cpu0/cpuidle/state3/residency",
            Some("7"),
            &["7 us is below the shallower `C1E`'s 20 us"],
        ),
        ("cpu0/cpu_capacity", Some("0"), &["cpu0/cpu_capacity` holds 0"]),
    ];
    for (path, text, parts) in rows {
        let root = tree(1, &SKYLAKE_SP);
        match text {
            Some(text) => put(root.path(), path, text),
            None if root.path().join(path).is_dir() => {
                fs::remove_dir_all(root.path().join(path)).unwrap();
            }
            None => fs::remove_file(root.path().join(path)).unwrap(),
        }
        let error = refusal(root.path());
        for part in parts {
            assert!(error.contains(part), "{path}: {error}");
        }
        assert!(error.contains("hint: "), "{path}: {error}");
    }
}

#[test]
fn directory_instead_of_a_file_is_reported() {
    let root = tree(1, &SKYLAKE_SP);
    let path = root.path().join("cpu0/cpuidle/state1/latency");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(refusal(root.path()).contains("state1/latency` cannot be read: not a regular file"));
}

#[test]
fn empty_and_missing_directories_differ() {
    let root = tempfile::tempdir().unwrap();
    assert!(refusal(root.path()).contains("no directories cpu0, cpu1"));
    assert!(refusal(&root.path().join("nowhere")).contains("No such file or directory"));
}

#[test]
fn bad_platform_name_is_refused() {
    let root = tree(1, &CORTEX);
    let options = ImportOptions::named("my machine");
    let error = import_sysfs(root.path(), &options).unwrap_err().to_string();
    assert!(error.contains("` ` is not allowed in a name"), "{error}");
}

#[test]
fn import_without_hz_notes_250() {
    let root = tree(1, &CORTEX);
    let options = ImportOptions { title: Some("A \"B\"\n".into()), ..ImportOptions::named("a") };
    let imported = import_sysfs(root.path(), &options).unwrap();
    assert_eq!(from_toml("t", &imported.document.to_toml()).unwrap().hz, Hz::H250);
    assert!(imported.notes.iter().any(|note| note.contains("250 is assumed")));
}

/// A mail is as good as the tree, and a snapshot of a live machine better.
#[test]
fn all_dump_formats_give_the_same_platform() {
    let root = tree(2, &CORTEX);
    let file = root.path().join("mail.txt");
    let mut mail = String::from("Hi, here is what you asked for:\n");
    for (cpu, (state, row)) in (0..2).flat_map(|cpu| (0..).zip(CORTEX).map(move |s| (cpu, s))) {
        let (name, desc, latency, residency, status) = row;
        for (attr, value) in [
            ("name", name),
            ("desc", desc),
            ("latency", latency),
            ("residency", residency),
            ("default_status", status),
        ] {
            mail += &format!("> cpu{cpu}/cpuidle/state{state}/{attr}:{value}\n");
        }
    }
    fs::write(&file, &mail).unwrap();
    let (from_mail, found) = imported(&file);
    let (from_tree, _) = imported(root.path());
    assert_eq!(from_mail.clusters[0].idle_states, from_tree.clusters[0].idle_states);
    assert!(
        found.notes.iter().any(|note| note.contains("1 line is not a value")),
        "{:?}",
        found.notes
    );
    // By its path alone, as `--platform` takes it.
    let resolved = Platform::resolve(file.to_str().unwrap()).unwrap();
    assert_eq!((resolved.name.as_str(), resolved.cpu_count()), ("mail", 2));
    // A file that has changed since is read again.
    let third: String = mail.split_inclusive('\n').filter(|l| l.starts_with("> cpu1/")).collect();
    fs::write(&file, mail + &third.replace("cpu1", "cpu2")).unwrap();
    assert_eq!(Platform::resolve(file.to_str().unwrap()).unwrap().cpu_count(), 3);
}

#[test]
fn snapshot_has_tick_rate_and_cpu_name() {
    let root = tree(1, &CORTEX);
    let mut snapshot = torpor_machine::counters::read(root.path()).unwrap();
    snapshot.machine.hz = Some(300);
    snapshot.machine.title = Some("A CPU".to_owned());
    let options = ImportOptions { hz: None, ..options() };
    let imported = import_snapshot(root.path(), &snapshot, &options).unwrap();
    let platform = from_toml("t", &imported.document.to_toml()).unwrap();
    assert_eq!((platform.hz, platform.title.as_str()), (Hz::H300, "A CPU"));
    assert!(!imported.notes.iter().any(|note| note.contains("tick rate")));
}

#[test]
fn links_out_of_a_copy_are_not_followed() {
    let secret = TempDir::new().unwrap();
    put(secret.path(), "key", "hunter2\n");
    put(secret.path(), "cpuinfo", "model name : hunter2\n");
    let root = TempDir::new().unwrap();
    let cpus = root.path().join("sys/devices/system/cpu");
    put_cpu(&cpus, 0, &CORTEX);
    put_cpu(&cpus, 1, &CORTEX);
    fs::create_dir(root.path().join("proc")).unwrap();
    let link = |from: &str, to: &Path| std::os::unix::fs::symlink(to, from).unwrap();
    link(root.path().join("proc/cpuinfo").to_str().unwrap(), &secret.path().join("cpuinfo"));
    let desc = cpus.join("cpu0/cpuidle/state1/desc");
    fs::remove_file(&desc).unwrap();
    link(desc.to_str().unwrap(), &secret.path().join("key"));
    // A link within the copy is what sysfs itself is full of.
    fs::remove_dir_all(cpus.join("cpu1/cpuidle")).unwrap();
    link(cpus.join("cpu1/cpuidle").to_str().unwrap(), Path::new("../cpu0/cpuidle"));
    for given in [root.path(), cpus.as_path()] {
        let snapshot = torpor_machine::counters::read(given).unwrap();
        assert_eq!(snapshot.cpus.len(), 2);
        assert_eq!(snapshot.cpus[1].states.len(), 2);
        let found = format!("{snapshot:?}");
        assert!(!found.contains("hunter2"), "{found}");
        let reasons: Vec<_> = snapshot.problems.iter().map(|p| p.reason.as_str()).collect();
        assert!(reasons.iter().filter(|r| r.contains("link out of the copy")).count() >= 2);
    }
    let whole = import_sysfs(root.path(), &options()).unwrap();
    assert!(!whole.document.to_toml().contains("hunter2"));
    fs::remove_file(cpus.join("cpu0/cpuidle/state1/name")).unwrap();
    let name = cpus.join("cpu0/cpuidle/state1/name");
    link(name.to_str().unwrap(), &secret.path().join("key"));
    let refused = import_sysfs(root.path(), &options()).unwrap_err().to_string();
    assert!(refused.contains("link out of the copy"), "{refused}");
}

/// Debugfs of a phone's kernel, readable by root, next to a dump of its sysfs or within it.
#[test]
fn the_energy_model_gives_power_and_perf_domains() {
    let root = tree(4, &CORTEX);
    let model: String = [("cpu0", "0-1", 100), ("cpu2", "2-3", 400)]
        .into_iter()
        .map(|(name, cpus, mw)| {
            let state = |khz: u32, mw: u32| {
                format!("{name}/ps:{khz}/frequency:{khz}\n{name}/ps:{khz}/power:{}\n", mw * 1000)
            };
            let states = state(500_000, mw) + &state(1_000_000, 3 * mw);
            format!("{name}/cpus:{cpus}\n{name}/flags:0x1\n{states}")
        })
        .collect();
    let file = root.path().join("em.txt");
    fs::write(&file, &model).unwrap();
    let beside = ImportOptions { energy_model: Some(file.clone()), ..options() };
    let beside = import_sysfs(root.path(), &beside).unwrap();
    for line in model.lines() {
        let (path, value) = line.rsplit_once(':').unwrap();
        put(root.path(), &format!("energy_model/{path}"), value);
    }
    for imported in [beside, import_sysfs(root.path(), &options()).unwrap()] {
        let platform = from_toml("t", &imported.document.to_toml()).unwrap();
        let rows: Vec<_> = platform
            .clusters
            .iter()
            .map(|c| (c.cpus.len(), c.opps.iter().map(|o| (o.freq_khz, o.active_power)).collect()))
            .collect();
        let mw = |mw: f64| Some(Power::from_mw(mw));
        let opps = |low, high| vec![(500_000, mw(low)), (1_000_000, mw(high))];
        // The CPUs differ only in the CPUs with which they share a frequency.
        assert_eq!(rows, [(2, opps(100.0, 300.0)), (2, opps(400.0, 1200.0))]);
        assert!(platform.sources.iter().any(|s| s.contains("energy_model")));
        assert!(!imported.notes.iter().any(|note| note.contains("no OPPs")));
    }

    fs::write(&file, model.replace("cpu2/cpus:2-3", "cpu2/cpus:2-7")).unwrap();
    let other = ImportOptions { energy_model: Some(file.clone()), ..options() };
    let error = import_sysfs(root.path(), &other).unwrap_err().to_string();
    assert!(error.contains("energy model of cpu2 is for CPU 2-7"), "{error}");
    fs::write(&file, model.replace("flags:0x1", "flags:0x5")).unwrap();
    fs::remove_dir_all(root.path().join("energy_model")).unwrap();
    let bogus = import_sysfs(root.path(), &other).unwrap();
    assert!(bogus.notes.iter().any(|note| note.contains("uses abstract units")));
}

/// The machine that runs the tests, whichever it is: a platform, or a reason.
#[test]
fn this_machine_imports_or_gives_a_reason() {
    let root = Path::new("/sys/devices/system/cpu");
    match import_sysfs(root, &options()) {
        Ok(imported) => drop(from_toml("t", &imported.document.to_toml()).unwrap()),
        Err(error) => assert!(error.to_string().contains("hint: "), "{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any file of a sound tree replaced by any bytes, or any stray path added.
    #[test]
    fn no_damage_makes_the_importer_panic(
        file in prop::sample::select(vec![
            "cpu0/cpuidle/state0/name", "cpu0/cpuidle/state1/desc", "cpu1/cpuidle/state2/latency",
            "cpu1/cpuidle/state3/residency", "cpu0/cpuidle/state3/default_status",
            "cpu0/cpuidle/state0/disable", "cpu0/cpu_capacity", "cpu1/cpu_capacity",
            "cpuidle/current_driver", "cpufreq/policy0/related_cpus",
            "cpufreq/policy0/scaling_available_frequencies", "cpu0/cpufreq",
            "cpu0/cpufreq/scaling_available_frequencies", "cpu7/cpuidle", "cpu8192/x",
            "cpu00/cpuidle/state0/name", "cpu1/cpuidle/state9/name", "cpu0/cpuidle/state01/x",
            "cpu99999999999999999999/x",
        ]),
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "[0-9]{1,12}".prop_map(String::into_bytes),
            "(0|1|0-1| [0-9]{1,7}){0,4}".prop_map(String::into_bytes),
        ],
    ) {
        let root = tree(2, &SKYLAKE_SP);
        put(root.path(), "cpufreq/policy0/related_cpus", "0 1");
        put(root.path(), "cpufreq/policy0/scaling_available_frequencies", "1 2");
        put(root.path(), file, bytes);
        match import_sysfs(root.path(), &options()) {
            Ok(imported) => prop_assert!(from_toml("t", &imported.document.to_toml()).is_ok()),
            Err(error) => prop_assert!(error.to_string().contains("hint: ")),
        }
    }
}
