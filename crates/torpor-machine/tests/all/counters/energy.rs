// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The energy model, in the forms a dump of debugfs may have.

use std::fs;
use torpor_machine::counters::{
    PerfState, PowerUnit, Snapshot, read, read_bytes, read_energy_model, to_json,
};
use torpor_machine::units::CpuId;

/// As a kernel since 6.0 shows it, the faster OPP first, as a shell sorts them.
const FILES: [(&str, &str); 9] = [
    ("cpu0/cpus", "0-3"),
    ("cpu0/flags", "0x3"),
    ("cpu0/ps:1416000/cost", "9"),
    ("cpu0/ps:1416000/frequency", "1416000"),
    ("cpu0/ps:1416000/power", "179212"),
    ("cpu0/ps:408000/frequency", "408000"),
    ("cpu0/ps:408000/inefficient", "0"),
    ("cpu0/ps:408000/performance", "109"),
    ("cpu0/ps:408000/power", "27769"),
];
const STATE: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state0";

fn text(head: &str) -> String {
    FILES.iter().map(|(path, value)| format!("{head}{path}:{value}\n")).collect()
}

fn check(snapshot: &Snapshot) {
    let [domain] = &snapshot.energy_model[..] else { panic!("{:?}", snapshot.energy_model) };
    assert_eq!((domain.name.as_str(), domain.power_unit), ("cpu0", PowerUnit::Microwatt));
    assert_eq!(domain.cpus, [CpuId(0), CpuId(1), CpuId(2), CpuId(3)]);
    let states = [(408_000, 27_769), (1_416_000, 179_212)];
    assert_eq!(domain.states, states.map(|(freq_khz, power)| PerfState { freq_khz, power }));
    assert!(snapshot.problems.is_empty(), "{:?}", snapshot.problems);
}

#[test]
fn all_energy_model_formats_agree() {
    let folder = tempfile::tempdir().unwrap();
    for head in ["/sys/kernel/debug/energy_model/", "energy_model/", "./", ""] {
        let file = folder.path().join("em.txt");
        fs::write(&file, text(head)).unwrap();
        check(&read_energy_model(&file).unwrap_or_else(|error| panic!("{head}: {error}")));
    }
    for below in ["a", "b/energy_model", "c/sys/kernel/debug/energy_model"] {
        for (path, value) in FILES {
            let path = folder.path().join(below).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{value}\n")).unwrap();
        }
        let top = below.split('/').next().unwrap();
        check(&read_energy_model(&folder.path().join(top)).unwrap());
    }
}

#[test]
fn energy_model_in_a_sysfs_dump_is_kept() {
    let both =
        format!("{STATE}/name:WFI\n{STATE}/usage:1\n{}", text("/sys/kernel/debug/energy_model/"));
    let snapshot = read_bytes("both", both.as_bytes()).unwrap();
    check(&snapshot);
    assert_eq!(snapshot.cpus[0].states.len(), 1);
    assert_eq!(read_bytes("saved", to_json(&snapshot).as_bytes()).unwrap(), snapshot);

    let folder = tempfile::tempdir().unwrap();
    for (path, value) in FILES {
        let path = folder.path().join("sys/kernel/debug/energy_model").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value).unwrap();
    }
    let state = folder.path().join(STATE.trim_start_matches('/'));
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("name"), "WFI\n").unwrap();
    check(&read(folder.path()).unwrap());
    check(&read(&folder.path().join("sys/devices/system/cpu")).unwrap());
}

#[test]
fn units_match_the_kernel() {
    let unit = |line: &str| {
        let text = text("").replace("cpu0/flags:0x3\n", line);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        read_energy_model(file.path()).unwrap().energy_model[0].power_unit
    };
    assert_eq!(unit(""), PowerUnit::Milliwatt);
    assert_eq!(unit("cpu0/units:milliWatts\n"), PowerUnit::Milliwatt);
    assert_eq!(unit("cpu0/units:bogoWatts\n"), PowerUnit::Abstract);
    assert_eq!(unit("cpu0/flags:0x1\n"), PowerUnit::Microwatt);
    assert_eq!(unit("cpu0/flags:0x5\n"), PowerUnit::Abstract);
    assert_eq!(unit("cpu0/flags:0\n"), PowerUnit::Abstract);
}

#[test]
fn incomplete_energy_counters_are_reported() {
    let rows = [
        ("cpu0/cpus:0-3\n", "", "energy_model/cpu0/cpus", "is missing"),
        ("cpu0/cpus:0-3\n", "cpu0/cpus:3-0\n", "cpu0/cpus", "holds `3-0`"),
        ("cpu0/cpus:0-3\n", "cpu0/cpus:0,7-3\n", "cpu0/cpus", "holds `0,7-3`"),
        ("cpu0/ps:408000/power:27769\n", "", "energy_model/cpu0/ps:408000", "lacks"),
        ("power:27769", "power:0", "cpu0/ps:408000/power", "not a number from 1 to"),
        ("0x3", "3x0", "cpu0/flags", "not flags"),
    ];
    for (from, to, path, reason) in rows {
        let text = format!("{STATE}/name:WFI\n{}", text("")).replace(from, to);
        let snapshot = read_bytes("t", text.as_bytes()).unwrap();
        let found = snapshot.problems.iter().any(|p| p.path == path && p.reason.contains(reason));
        assert!(found, "{to}: {:?}", snapshot.problems);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), format!("{STATE}/name:WFI\n")).unwrap();
    let error = read_energy_model(file.path()).unwrap_err().to_string();
    assert!(error.contains("no energy model in it") && error.contains("hint: as root"), "{error}");
}
