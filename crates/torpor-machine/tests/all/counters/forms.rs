// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The same snapshot in every form that people send it in, and damage to each.

use super::support::{FORMS, bare, grep, machine, on_disk, tar_of};
use proptest::prelude::*;
use torpor_machine::counters::{Clock, Snapshot, read, read_bytes, take, to_json};

fn read_ok(bytes: &[u8]) -> Snapshot {
    read_bytes("test", bytes).unwrap_or_else(|error| panic!("{error}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn every_form_gives_the_same_snapshot(machine in machine()) {
        for form in FORMS {
            let read = read_ok(&(form.write)(&machine));
            prop_assert_eq!(&read, &machine, "{}", form.name);
        }
    }

    #[test]
    fn a_folder_gives_the_same_snapshot(machine in machine()) {
        let folder = on_disk(&machine);
        prop_assert_eq!(&read(folder.path()).unwrap(), &machine);
    }

    #[test]
    fn values_alone_give_the_same_snapshot(machine in machine()) {
        let mut bare = read_ok(bare(&machine).as_bytes());
        prop_assert_eq!(bare.notes.len(), 1);
        bare.notes.clear();
        // Missing files stay missing, and CPUs have no gap.
        let mut expected = machine.clone();
        expected.machine = Default::default();
        for (number, cpu) in expected.cpus.iter_mut().enumerate() {
            cpu.cpu.0 = number as u32;
            (cpu.driver, cpu.capacity, cpu.is_online) = (None, None, None);
            cpu.states.iter_mut().for_each(|s| (s.s2idle_usage, s.s2idle_time_us) = (None, None));
        }
        prop_assert_eq!(bare, expected);
    }

    #[test]
    fn snapshot_has_one_spelling(machine in machine()) {
        let text = to_json(&machine);
        let again = read_ok(text.as_bytes());
        prop_assert_eq!(&again, &machine);
        prop_assert_eq!(to_json(&again), text);
    }

    /// A loss is an error, a problem, a note, or a state or CPU that is not there.
    #[test]
    fn a_cut_loses_values_and_invents_none(machine in machine(), form in 0..FORMS.len(), at in 0.0..1.0) {
        let whole = (FORMS[form].write)(&machine);
        let cut = &whole[..(whole.len() as f64 * at) as usize];
        if let Ok(read) = read_bytes("cut", cut) {
            for cpu in &read.cpus {
                let original = machine.cpu(cpu.cpu).expect("this CPU is there");
                for state in &cpu.states {
                    let original = original.states.iter().find(|s| s.index == state.index).unwrap();
                    // The last number of a text may lose its end, which nothing shows.
                    let is_prefix = |cut: Option<u64>, whole: Option<u64>| cut.is_none_or(
                        |cut| whole.is_some_and(|n| n.to_string().starts_with(&cut.to_string()))
                    );
                    prop_assert!(is_prefix(state.usage, original.usage));
                    prop_assert!(is_prefix(state.time_us, original.time_us));
                }
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_no_panic(machine in machine(), form in 0..FORMS.len(), flips in prop::collection::vec((0.0..1.0, 0..8u8), 1..4)) {
        let mut bytes = (FORMS[form].write)(&machine);
        for (at, bit) in flips {
            let place = (bytes.len() as f64 * at) as usize;
            bytes[place] ^= 1 << bit;
        }
        if let Err(error) = read_bytes("flipped", &bytes) {
            prop_assert!(error.to_string().contains("hint: "), "{error}");
        }
    }

    #[test]
    fn any_text_is_no_panic(text in "(cpu[0-9]{1,2}/|cpuidle/|state[0-9]|/usage|:| |==> | <==|\n|[0-9]|POLL|=\n|> ){0,60}") {
        drop(read_bytes("any", text.as_bytes()));
    }
}

#[test]
fn a_cut_line_number_is_no_value() {
    let text = "cpu0/cpuidle/state0/name:1:POLL\ncpu0/cpuidle/state0/usage:1:57\n\
                cpu0/cpuidle/state0/time:1";
    let read = read_ok(text.as_bytes());
    let state = &read.cpus[0].states[0];
    assert_eq!((state.usage, state.time_us), (Some(57), None));
    assert!(!read.problems.is_empty() || !read.notes.is_empty());
}

#[test]
fn two_dumps_in_one_file_are_refused() {
    let one = "cpu0/cpuidle/state0/name:POLL\ncpu0/cpuidle/state0/usage:1\n";
    let two = one.to_owned() + &one.replace("usage:1", "usage:2");
    let error = read_bytes("mail", two.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("`cpu0/cpuidle/state0/usage` is given as 1 and as 2"), "{error}");
    assert!(error.contains("two dumps"), "{error}");
    // The same twice is a mail that quotes what it answers.
    assert_eq!(read_ok((one.to_owned() + one).as_bytes()).cpus.len(), 1);
}

#[test]
fn missing_dump_hints_at_a_command() {
    for (text, part) in [
        ("", "it is empty"),
        ("1\n2\n3\n", "3 numbers, but not what they count"),
        ("____\n * * * PowerTOP Report\n", "counts nothing"),
        ("menu is slow on my laptop\n", "begins with `menu is slow on my laptop`"),
    ] {
        let error = read_bytes("mail", text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("grep . /sys"), "{error}");
    }
}

#[test]
fn missing_driver_is_reported() {
    let text = "/sys/devices/system/cpu/cpuidle/current_driver:none\n";
    let error = read_bytes("mail", text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("current_driver says `none`"), "{error}");
}

#[test]
fn bad_value_is_reported_and_the_rest_kept() {
    let text = "cpu0/cpuidle/state0/usage:12\ncpu0/cpuidle/state0/time:-1\n\
                cpu0/cpuidle/state0/above:99999999999999999999\ncpu0/cpuidle/state0/foo:1\n\
                cpu9000/cpuidle/state0/usage:1\n";
    let snapshot = read_ok(text.as_bytes());
    assert_eq!(snapshot.cpus[0].states[0].usage, Some(12));
    let found: Vec<String> =
        snapshot.problems.iter().map(|p| format!("{} {}", p.path, p.reason)).collect();
    assert_eq!(
        found,
        [
            "cpu0/cpuidle/state0/above holds `99999999999999999999`, not a number from 0 to \
             18446744073709551615",
            "cpu0/cpuidle/state0/foo is not a file that this version of Torpor knows",
            "cpu0/cpuidle/state0/time holds `-1`, not a number from 0 to 18446744073709551615",
            "cpu9000/cpuidle/state0/usage is beyond what any kernel numbers",
        ]
    );
}

#[test]
fn padded_tar_of_sysfs_is_read() {
    let values = vec![("cpu0/cpuidle/state0/usage".to_owned(), "7".to_owned())];
    let snapshot = read_ok(&tar_of(&values, 4096));
    assert_eq!(snapshot.cpus[0].states[0].usage, Some(7));
}

#[test]
fn a_saved_snapshot_of_another_version_is_refused() {
    for text in [
        r#"{"format": "torpor snapshot", "version": 2, "more": 1}"#,
        r#"{"format": "something else", "version": 1}"#,
    ] {
        let error = read_bytes("new", text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("reads `torpor snapshot` version 1"), "{error}");
    }
}

#[test]
fn a_file_changed_by_hand_is_checked() {
    let two = read_ok(
        grep(&[
            ("cpu0/cpuidle/state0/usage".to_owned(), "1".to_owned()),
            ("cpu1/cpuidle/state0/usage".to_owned(), "1".to_owned()),
        ])
        .as_bytes(),
    );
    let text = to_json(&two);
    for (from, to, part) in [
        (r#""cpu": 1"#, r#""cpu": 0"#, "do not ascend"),
        (r#""cpu": 1"#, r#""cpu": 9000"#, "beyond"),
        (r#""index": 0"#, r#""index": 77"#, "beyond 9"),
        (r#""usage": 1"#, r#""usage": -1"#, "line"),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        let error = read_bytes("t", changed.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// A machine's whole filesystem, as far as it matters, or a copy of it.
#[test]
fn a_filesystem_tells_of_its_machine() {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("sys/devices/system/cpu/cpu0/cpuidle/state0/usage", "3\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/related_cpus", "0 1\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_available_frequencies", "800 400 \n"),
        ("proc/sys/kernel/osrelease", "6.12.1\n"),
        ("proc/sys/kernel/random/boot_id", "b1a8\n"),
        ("proc/uptime", "12.34 99.00\n"),
        ("proc/cpuinfo", "processor\t: 0\nmodel name\t: A CPU\n"),
        ("boot/config-6.12.1", "# CONFIG_HZ_100 is not set\nCONFIG_HZ=300\n"),
    ] {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    for below in ["", "sys/devices/system/cpu"] {
        let clock = Clock { taken_at_ns: 5, monotonic_ns: 6 };
        let machine = take(&root.path().join(below), clock).unwrap();
        assert_eq!(machine.cpus[0].freqs_khz, [400, 800]);
        let machine = machine.machine;
        assert_eq!(machine.kernel_release.as_deref(), Some("6.12.1"));
        assert_eq!(machine.boot_id.as_deref(), Some("b1a8"));
        assert_eq!(machine.title.as_deref(), Some("A CPU"));
        assert_eq!((machine.hz, machine.uptime_ns), (Some(300), Some(12_340_000_000)));
        assert_eq!((machine.taken_at_ns, machine.monotonic_ns), (Some(5), Some(6)));
    }
}

/// A device gives bytes for ever.
#[test]
fn endless_input_is_refused() {
    let error =
        torpor_machine::counters::read(std::path::Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("no dump has"), "{error}");
}

/// A pipe without a writer would block its reader, wherever it is.
#[test]
fn pipe_without_a_writer_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let pipe = |path: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    };
    let error = torpor_machine::counters::read(&pipe("dump")).unwrap_err().to_string();
    assert!(error.contains("dump") && error.contains("nothing comes through"), "{error}");
    let cpus = "sys/devices/system/cpu";
    let state = root.path().join(cpus).join("cpu0/cpuidle/state0");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("usage"), "3\n").unwrap();
    pipe("sys/devices/system/cpu/cpu0/cpuidle/state0/time");
    pipe("proc/cpuinfo");
    pipe("proc/config.gz");
    let read = torpor_machine::counters::read(root.path()).unwrap();
    assert_eq!(read.cpus[0].states[0].usage, Some(3));
    let found =
        read.problems.iter().any(|p| p.path.contains("time") && p.reason.contains("not a regular"));
    assert!(found, "{:?}", read.problems);
}
