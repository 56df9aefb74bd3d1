// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Logs of turbostat and output of cpupower, in the forms in which people post them.

use proptest::prelude::*;
use torpor_machine::counters::{Dump, Log, Snapshot, read_bytes, read_dump_bytes};

/// A log of two tables, each of two CPUs of one core. The second has no counters of the core.
const LOG: &str = "\
turbostat version 2025.06.08
/sys/devices/system/cpu/cpuidle/current_driver: intel_idle
/sys/devices/system/cpu/cpuidle/current_governor: menu
cpu0: EPB: 6 (balanced)
cpu0: POLL: CPUIDLE CORE POLL IDLE
cpu0: C1: MWAIT 0x00
cpu0: C10: MWAIT 0x60
usec\tTime_Of_Day_Seconds\tCPU\tBusy%\tBzy_MHz\tIPC\tC1-\tC1\tC1+\tC10\tC1%\tC10%\tCPU%c1\tCPU%c7\tPk%pc10
1632\t1000.500000\t-\t6.00\t2000\t-nan\t5\t300\t40\t100\t14.00\t80.00\t30.00\t65.00\t50.00
148\t1000.400000\t0\t4.00\t2000\t0.50\t3\t200\t10\t60\t16.00\t80.00\t30.00\t65.00\t50.00
94\t1000.450000\t1\t8.00\t2000\t0.50\t2\t100\t30\t40\t12.00\t80.00\t30.00
usec\tTime_Of_Day_Seconds\tCPU\tBusy%\tBzy_MHz\tIPC\tC1-\tC1\tC1+\tC10\tC1%\tC10%\tCPU%c1\tCPU%c7\tPk%pc10
1894\t1005.500000\t-\t6.00\t2000\t-nan\t5\t300\t40\t100\t14.00\t80.00\t30.00\t65.00\t40.00
142\t1005.400000\t0\t4.00\t2000\t0.50\t3\t200\t10\t60\t20.00\t80.00\t30.00\t65.00\t40.00
98\t1005.450000\t1\t8.00\t2000\t0.50\t2\t100\t30\t40\t12.00\t80.00\t30.00
";

fn log(text: &str) -> Log {
    match read_dump_bytes("log", text.as_bytes()).unwrap_or_else(|error| panic!("{error}")) {
        Dump::Turbostat(log) => log,
        Dump::Snapshot(read) => panic!("{read:?}"),
    }
}

fn refused(text: &str) -> String {
    let error = read_dump_bytes("log", text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("hint: "), "{error}");
    error
}

/// Two intervals of 5 s: the second is known, the first as long. `usec` counts the microseconds of
/// reading the counters.
#[test]
fn interval_is_between_times_of_day() {
    let log = log(LOG);
    assert_eq!((log.intervals, log.elapsed_ns), (2, Some(10_000_000_000)));
    assert!(log.is_first_assumed && log.notes.is_empty(), "{:?}", log.notes);
    let [cpu0, cpu1] = &log.cpus[..] else { panic!("{:?}", log.cpus) };
    let c1 = &cpu0.states[0];
    assert_eq!((c1.usage, c1.above, c1.below), (Some(400), Some(6), Some(20)));
    // 16 % and 20 % of 5 s.
    assert_eq!(c1.time_us, Some(1_800_000));
    assert_eq!(cpu0.shares, [Some(0.18), Some(0.80)]);
    assert_eq!(cpu1.states[1].usage, Some(80));
    assert_eq!((cpu0.got.len(), cpu1.got.len()), (2, 1));
    let got: Vec<(&str, f64)> =
        log.got.iter().map(|got| (got.counter.as_str(), got.percent)).collect();
    assert_eq!(got, [("CPU%c1", 30.0), ("CPU%c7", 65.0), ("Pk%pc10", 45.0)]);
    // A poster may have left out the lines of sums.
    let rows: String = LOG.split_inclusive('\n').filter(|line| !line.contains("\t-\t")).collect();
    let got = self::log(&rows).got;
    assert_eq!((got.len(), got[0].counter.as_str(), got[0].percent), (1, "Pk%pc10", 45.0));
}

#[test]
fn banner_names_states_and_governor() {
    let log = log(LOG);
    assert_eq!(
        (log.driver.as_deref(), log.governor.as_deref()),
        (Some("intel_idle"), Some("menu"))
    );
    // POLL has no columns here, and stays state 0.
    let states: Vec<(u32, &str)> =
        log.cpus[0].states.iter().map(|state| (state.index, state.name.as_str())).collect();
    assert_eq!(states, [(1, "C1"), (2, "C10")]);
    assert_eq!(log.descs, [Some("MWAIT 0x00".to_owned()), Some("MWAIT 0x60".to_owned())]);
    let underscored = LOG.replace("cpu0: C10: MWAIT 0x60", "cpu0: C2_ACPI: ACPI FFH MWAIT 0x30");
    let log = self::log(&underscored.replace("C10\t", "C2ACPI\t").replace("C10%", "C2ACPI%"));
    assert_eq!(log.descs[1].as_deref(), Some("ACPI FFH MWAIT 0x30"));
}

#[test]
fn command_run_ends_with_its_length() {
    let one: Vec<&str> = LOG.lines().take(11).collect();
    let one = one.join("\n") + "\n";
    assert_eq!(log(&one).elapsed_ns, None);
    let timed = format!("{one}40.000000 sec\n");
    assert_eq!((log(&timed).elapsed_ns, log(&timed).intervals), (Some(40_000_000_000), 1));
    // Another run in the same file.
    let both = log(&format!("{timed}{LOG}"));
    assert_eq!((both.elapsed_ns, both.intervals), (Some(50_000_000_000), 3));
    // A clock that was set back.
    assert_eq!(log(&LOG.replace("\t1005.5", "\t900.5")).elapsed_ns, None);
    assert_eq!(log(&LOG.replace("Time_Of_Day_Seconds", "usec2")).elapsed_ns, None);
}

#[test]
fn few_columns_are_enough() {
    for (head, c1) in [("CPU C1 C2 CPU%c6", 0), ("CPU   POLL    C1 C2  CPU%c1  CPU%c6", 1)] {
        let cells = head.split_whitespace().count();
        let row = |cpu: &str| format!("{cpu}{}\n", "   7".repeat(cells - 1));
        let log = log(&format!("{head}\n{}{}", row("34"), row("3")));
        let cpus: Vec<u32> = log.cpus.iter().map(|cpu| cpu.cpu).collect();
        assert_eq!((cpus, log.intervals), (vec![3, 34], 1));
        assert_eq!(
            (log.cpus[0].states[c1].name.as_str(), log.cpus[0].states[c1].usage),
            ("C1", Some(7))
        );
    }
    assert!(refused("CPU Busy% Bzy_MHz\n0 1.0 2000\n").contains("without idle states"));
    assert!(refused("Busy% Bzy_MHz C1\n1.0 2000 5\n").contains("without a line of a CPU"));
}

/// A number in a sentence is no CPU.
#[test]
fn text_of_a_mail_is_no_row() {
    let table = "CPU C1 C6 C1% C6% CPU%c6\n0 20 10 1.00 90.00 70.00\n1 20 10 1.00 90.00\n";
    let mail = format!(
        "Hi,\n\n538 wake-ups, CPU 7 is the worst, see C6:\n\n{table}\n\
         538 is what I see in the column of C1\n538 99\n538\nOn 1 Dec 2025 at 10:00, R wrote:\n"
    );
    let quoted: String = mail.lines().map(|line| format!("> > {line}\r\n")).collect();
    for text in [&mail, &quoted] {
        let log = log(text);
        let cpus: Vec<u32> = log.cpus.iter().map(|cpu| cpu.cpu).collect();
        assert_eq!((cpus, log.intervals), (vec![0, 1], 1), "{text}");
        assert_eq!(log.notes.len(), 1, "{:?}", log.notes);
        assert!(log.notes[0].starts_with("4 lines"), "{:?}", log.notes);
    }
}

#[test]
fn wrapped_table_is_named() {
    let folded: String = LOG
        .lines()
        .flat_map(|line| {
            let at = line.match_indices('\t').nth(8).map_or(line.len(), |(at, _)| at);
            [&line[..at], "\n", line[at..].trim_start(), "\n"]
        })
        .collect();
    let error = refused(&folded);
    assert!(error.contains("a mail program broke its lines"), "{error}");
    let rows = LOG.replace("\t2000\t", "\t2000\n");
    assert!(refused(&rows).contains("of the table's 15 columns"));
}

#[test]
fn other_states_are_another_machine() {
    let (first, second) = LOG.split_at(LOG.rfind("usec").unwrap());
    let error = refused(&format!("{first}{}", second.replace("C10%", "C8%")));
    assert!(error.contains("line 12: other idle states"), "{error}");
}

#[test]
fn log_is_no_snapshot() {
    let error = read_bytes("log", LOG.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("torpor diff LOG"), "{error}");
}

fn packed(bytes: &[u8]) -> [Vec<u8>; 3] {
    let mut gz = flate2::bufread::GzEncoder::new(bytes, flate2::Compression::fast());
    let mut xz = liblzma::bufread::XzEncoder::new(bytes, 1);
    let read = |from: &mut dyn std::io::Read| {
        let mut into = Vec::new();
        from.read_to_end(&mut into).unwrap();
        into
    };
    [read(&mut gz), read(&mut xz), zstd::encode_all(bytes, 1).unwrap()]
}

#[test]
fn packed_log_is_read() {
    for bytes in packed(LOG.as_bytes()) {
        let Dump::Turbostat(read) = read_dump_bytes("log", &bytes).unwrap() else { panic!() };
        assert_eq!(read, log(LOG));
        assert!(read_dump_bytes("cut", &bytes[..bytes.len() / 2]).is_err());
    }
}

const IDLE_INFO: &str = "\
CPUidle driver: acpi_idle
CPUidle governor: menu
analyzing CPU 12:

Number of idle states: 3
Available idle states: POLL C1 C2
POLL:
Flags/Description: CPUIDLE CORE POLL IDLE
Latency: 0
Residency: 0
Usage: 946
Duration: 56142
C1:
Flags/Description: ACPI FFH MWAIT 0x0
Latency: 1
Residency: 2
Usage: 149
Duration: 483
C2 (DISABLED) :
Flags/Description: ACPI IOPORT 0x414
Latency: 350
Usage: 47
Duration: 430
";

#[test]
fn idle_info_of_cpupower_is_a_snapshot() {
    let quoted: String = IDLE_INFO.lines().map(|line| format!("> {line}\r\n")).collect();
    let both = format!("{IDLE_INFO}{}", IDLE_INFO.replace("CPU 12", "CPU 3"));
    for (text, cpus) in [(IDLE_INFO, &[12][..]), (&quoted, &[12]), (&both, &[3, 12])] {
        let read: Snapshot = read_bytes("mail", text.as_bytes()).unwrap();
        assert_eq!(read.cpus.iter().map(|cpu| cpu.cpu.0).collect::<Vec<u32>>(), cpus);
        assert_eq!(read.machine.driver.as_deref(), Some("acpi_idle"));
        assert_eq!(read.machine.governor.as_deref(), Some("menu"));
        let [poll, c1, c2] = &read.cpus[0].states[..] else { panic!("{:?}", read.cpus) };
        assert_eq!(poll.desc.as_deref(), Some("CPUIDLE CORE POLL IDLE"));
        assert_eq!(
            (c1.latency_us, c1.residency_us, c1.usage, c1.time_us),
            (Some(1), Some(2), Some(149), Some(483))
        );
        assert_eq!(
            (c1.above, c1.disable, c2.disable, c2.residency_us),
            (None, Some(0), Some(1), None)
        );
        assert!(read.problems.is_empty() && read.notes.is_empty(), "{:?}", read.notes);
    }
    let two = format!("{IDLE_INFO}{}", IDLE_INFO.replace("Usage: 47", "Usage: 48"));
    assert!(refused(&two).contains("two dumps"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn damage_is_an_error_or_a_log(
        is_log: bool,
        changes in prop::collection::vec((0.0..1.0, any::<u8>()), 0..4),
        cut in 0.0..1.0,
    ) {
        let mut bytes = if is_log { LOG } else { IDLE_INFO }.as_bytes().to_vec();
        for (at, byte) in changes {
            let place = (bytes.len() as f64 * at) as usize;
            bytes[place] = byte;
        }
        if cut < 0.5 {
            bytes.truncate((bytes.len() as f64 * 2.0 * cut) as usize);
        }
        match read_dump_bytes("damaged", &bytes) {
            Err(error) => prop_assert!(error.to_string().contains("hint: "), "{error}"),
            Ok(Dump::Snapshot(_)) => {}
            Ok(Dump::Turbostat(log)) => prop_assert!(log.elapsed_ns.is_none_or(|ns| ns >= 0)),
        }
    }

    /// Short tables of every order of columns and rows.
    #[test]
    fn any_table_is_no_panic(
        text in "(CPU|C1|C1%|C6-|CPU%c1|Pk%pc10|Time_Of_Day_Seconds|Busy%| |\t|\n|-|[0-9.]{1,4}|538 |cpu0: C1: M|> | sec\n){0,60}",
    ) {
        drop(read_dump_bytes("any", text.as_bytes()));
    }
}
