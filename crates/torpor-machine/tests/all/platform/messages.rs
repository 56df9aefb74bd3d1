// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Every error of a platform file: the message names the place and the allowed values.

use proptest::prelude::*;
use torpor_machine::platform::{PlatformError, from_toml};
use torpor_machine::toml::Problem;

/// Two clusters, OPPs, power, all three ways to write a latency.
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

[[cluster.opp]]
freq_khz = 300000
active_power_mw = 20

[[cluster.opp]]
freq_khz = 600000
active_power_mw = 50.5

[[cluster.idle_state]]
name = "POLL"
polling = true
latency_us = 0
target_residency_us = 0
power_mw = 15

[[cluster.idle_state]]
name = "WFI"
exit_latency_us = 1
target_residency_us = 1
power_per_opp_mw = [1, 2]

[[cluster.idle_state]]
name = "sleep"
entry_latency_us = 100
exit_latency_us = 200
wakeup_latency_us = 250
target_residency_us = 1000
power_mw = 0.5

[[cluster]]
name = "big"
cpus = "2,3"
capacity = 1024
idle_state_source = ["made up", "twice"]

[[cluster.idle_state]]
name = "C1"
latency_us = 2
target_residency_us = 2
"#;

fn problems(text: &str) -> Vec<Problem> {
    match from_toml("test.toml", text) {
        Err(PlatformError::Invalid { problems, .. }) => problems,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it is taken:\n{text}"),
    }
}

/// The one problem that replacing `from` by `to` in [`GOOD`] makes.
fn problem(from: &str, to: &str) -> Problem {
    let text = GOOD.replacen(from, to, 1);
    assert_ne!(text, GOOD, "nothing to replace: {from}");
    let problems = problems(&text);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    problems.into_iter().next().unwrap()
}

#[test]
fn the_good_file_is_good() {
    let machine = from_toml("test.toml", GOOD).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(machine.clusters[0].idle_states[2].latency.ns(), 250_000);
    assert_eq!(machine.clusters[0].opps[1].freq_khz, 600_000);
    assert_eq!(machine.sha256.len(), 64);
    assert!(machine.sources.contains(&"little power: made up".to_owned()));
}

#[test]
fn a_message_reads_like_a_compilers() {
    let text = GOOD.replacen("exit_latency_us = 1", "exit_latencyus = 1", 1);
    let error = from_toml("test.toml", &text).unwrap_err().to_string();
    let expected = "\
read platform `test.toml`: 2 problems
cluster[0].idle_state[1].exit_latency_us: this key is missing
  --> test.toml:29:1
   |
29 | [[cluster.idle_state]]
   | ^^^^^^^^^^^^^^^^^^^^^^
   = allowed: either `exit_latency_us` (device tree) or `latency_us` (sysfs)
cluster[0].idle_state[1].exit_latencyus: unknown key
  --> test.toml:31:1
   |
31 | exit_latencyus = 1
   | ^^^^^^^^^^^^^^
   = allowed: name, desc, entry_latency_us, exit_latency_us, wakeup_latency_us, latency_us, \
measured_entry_latency_us, measured_exit_latency_us, measured_latency_source, \
target_residency_us, polling, driver, relax_ns, event_stream_us, wfet, poll_limit_us, \
default_status, scope, own_entry_latency_us, own_exit_latency_us, power_mw, power_per_opp_mw, \
energy_per_entry_uj, power_source, refill_us, refill_source, reject_pct, reject_us, reject_source, \
demote_to, demote_after, demote_below_us, undemote_us, demote_source, promote_to, promote_source
   = hint: did you mean `exit_latency_us`?";
    assert_eq!(error, expected);
}

/// Each row: what to replace => by what | the key and line to be named | part of the message.
const ERRORS: &str = r#"
hz = 250 => hz = 200 | hz:4 | no kernel ticks at this rate
capacity = 512 => capacity = 512↵threads_per_core = 3 | cluster[0].threads_per_core:10 | CPUs are no whole number of such cores
capacity = 512 => capacity = 512↵smt_speed_pct = 60↵smt_source = "x" | cluster[0].smt_speed_pct:10 | a core here has one thread
exit_latency_us = 1 => exit_latency_us = 1↵measured_exit_latency_us = 2 | cluster[0].idle_state[1].measured_exit_latency_us:32 | `measured_latency_source` is missing
latency_us = 0 => latency_us = 0↵measured_exit_latency_us = 2↵measured_latency_source = "x" | cluster[0].idle_state[0].measured_exit_latency_us:26 | a polling CPU has nothing to leave
exit_latency_us = 1 => exit_latency_us = 1↵own_exit_latency_us = 1 | cluster[0].idle_state[1].own_exit_latency_us:32 | the state is the CPU's alone
exit_latency_us = 1 => exit_latency_us = 1↵scope = "cluster"↵own_exit_latency_us = 2 | cluster[0].idle_state[1].own_exit_latency_us:33 | the state's own is 1 us in all
polling = true => polling = true↵driver = "wfe" | cluster[0].idle_state[0].driver:25 | unknown value
polling = true => polling = false↵driver = "poll_idle" | cluster[0].idle_state[0].driver:25 | `polling` is false
power_mw = 0.5 => power_mw = 0.5↵reject_pct = 5 | cluster[0].idle_state[2].reject_pct:42 | `reject_source` is missing
polling = true => polling = true↵reject_pct = 5↵reject_source = "made up" | cluster[0].idle_state[0].reject_pct:25 | the state polls
power_mw = 0.5 => power_mw = 0.5↵demote_to = "C9"↵demote_source = "made up" | cluster[0].idle_state[2].demote_to:42 | no shallower state has this name
power_mw = 0.5 => power_mw = 0.5↵demote_after = 2 | cluster[0].idle_state[2].demote_after:42 | there is no `demote_to`
exit_latency_us = 1 => exit_latency_us = 1↵promote_to = "C9"↵promote_source = "x" | cluster[0].idle_state[1].promote_to:32 | no deeper state has this name
exit_latency_us = 1 => exit_latency_us = 1↵promote_to = "sleep" | cluster[0].idle_state[1].promote_to:32 | `promote_source` is missing
hz = 250 => hz = 250↵limit_interval_us = 500 | limit_interval_us:5 | the machine has no limits
hz = 250 => hz = 250↵power_limit_source = "x"↵[[power_limit]]↵name = "long_term"↵power_limit_mw = 10↵time_window_us = 1000 | power_limit[0].power_limit_mw:8 | the power of cluster `big` is not known
capacity = 512 => capacity = 512↵turbo_khz = [300000, 600000]↵turbo_source = "x" | cluster[0].turbo_khz:10 | none above the one before
capacity = 512 => capacity = 512↵turbo_khz = [600000] | cluster[0].turbo_khz:10 | `turbo_source` is missing
capacity = 512 => capacity = 512↵turbo_khz = [600000]↵turbo_source = "x"↵turbo_idle_state = "C9" | cluster[0].turbo_idle_state:12 | no idle state of the cluster has this name
power_mw = 0.5 => energy_per_entry_uj = 5 | cluster[0].idle_state[2].energy_per_entry_uj:41 | the power of the state is not given
polling = true => polling = true↵poll_limit_us = 50 | cluster[0].idle_state[0].poll_limit_us:25 | `poll_idle` has no such key
polling = true => relax_ns = 40 | cluster[0].idle_state[0].relax_ns:24 | the state does not poll
polling = true => driver = "arm_poll_idle"↵poll_limit_us = 500 | cluster[0].idle_state[0].poll_limit_us:25 | a polling limit of 500 us makes state 1 deeper than `sleep`
polling = true => driver = "arm_poll_idle"↵event_stream_us = 0 | cluster[0].idle_state[0].event_stream_us:25 | a CPU could wait for ever
polling = true => driver = "arm_poll_idle"↵wfet = true↵event_stream_us = 50 | cluster[0].idle_state[0].event_stream_us:26 | `wfet` ends each wait
polling = true => polling = true↵wfet = true | cluster[0].idle_state[0].wfet:25 | `poll_idle` has no such key
latency_us = 2↵target_residency_us = 2↵ => latency_us = 2↵target_residency_us = 2↵driver = "arm_poll_idle"↵ | cluster[1].idle_state[0].driver:53 | no state follows
hz = 250 => hz = "250" | hz:4 | a string, not a number
hz = 250 => hz = 250↵cpufreq_governor = "ondemand" | cpufreq_governor:5 | unknown value
capacity = 1024 => capacity = 1024↵clock_latency_ns = 500000 | cluster[1].clock_latency_ns:47 | there is no OPP to change to
capacity = 512 => capacity = 512↵clock_latency_ns = -1 | cluster[0].clock_latency_ns:10 | negative
hz = 250 => hz = 250.5 | hz:4 | no kernel ticks
name = "good" => name = "not good" | name:1 | ` ` is not allowed
capacity = 512 => capacity = -512 | cluster[0].capacity:9 | negative
capacity = 512 => capacity = 5000 | cluster[0].capacity:9 | too large
capacity = 512 => capacity = 0 | cluster[0].capacity:9 | without capacity
capacity = 1024 => capacity = 1000 | cluster[1].capacity:46 | no cluster has
capacity = 512↵ =>  | cluster[0].capacity:6 | missing
cpus = "2,3" => cpus = "3" | cluster[1].cpus:45 | no cluster holds cpu2
cpus = "2,3" => cpus = "1-3" | cluster[1].cpus:45 | cpu1 is already in
cpus = "2,3" => cpus = "2,x" | cluster[1].cpus:45 | `x` is not a CPU
source = "made up"↵hz => hz | source:1 | missing
power_mw = 15 => power_mw = nan | cluster[0].idle_state[0].power_mw:27 | not a number
power_mw = 15 => power_mw = inf | cluster[0].idle_state[0].power_mw:27 | too large
power_mw = 15 => power_mw = 1.5 | cluster[0].idle_state[1].power_per_opp_mw:33 | 2 mW is more than the 1.5 mW of the shallower `POLL`
[1, 2] => [1, 2, 3] | cluster[0].idle_state[1].power_per_opp_mw:33 | 3 values for 2 OPPs
power_mw = 0.5 => power_mw = 1.5 | cluster[0].idle_state[2].power_mw:41 | 1.5 mW is more
exit_latency_us = 1 => exit_latency_us = true | cluster[0].idle_state[1].exit_latency_us:31 | a truth value, not a number
latency_us = 2↵target => latency_us = 2↵exit_latency_us = 2↵target | cluster[1].idle_state[0].exit_latency_us:52 | `latency_us` is given too
target_residency_us = 1000 => target_residency_us = 0.5 | cluster[0].idle_state[2].target_residency_us:40 | below the shallower `WFI`'s 1 us
exit_latency_us = 1 => exit_latency_us = 999 | cluster[0].idle_state[2].exit_latency_us:38 | a latency of 250 us is below
wakeup_latency_us = 250 => wakeup_latency_us = 301 | cluster[0].idle_state[2].wakeup_latency_us:39 | at most one entry
name = "WFI" => name = "WFI"↵polling = true | cluster[0].idle_state[1].polling:31 | state 1 polls
freq_khz = 300000 => freq_khz = 700000 | cluster[0].opp[1].freq_khz:19 | the OPP before has 700000 kHz
freq_khz = 300000 => freq_khz = 600000 | cluster[0].opp[1].freq_khz:19 | the OPP before has 600000 kHz
freq_khz = 600000 => freq_khz = 0 | cluster[0].opp[1].freq_khz:19 | the clock would stand still
freq_khz = 600000 => freq_khz = 600000.5 | cluster[0].opp[1].freq_khz:19 | not a whole number
hz = 250 => hz = 250↵timer_start_us = 2 | timer_start_us:5 | `timer_start_source` is missing
hz = 250 => hz = 250↵tick_handling_us = 2 | tick_handling_us:5 | `tick_handling_source` is missing
hz = 250 => hz = 250↵package_floor_power_mw = 2 | package_floor_power_mw:5 | `package_floor_power_source` is missing
hz = 250 => hz = 250↵power_includes = ["cpu", "gpu"] | power_includes:5 | there is no choice `gpu` here
hz = 250 => hz = 250↵power_includes = ["cpu", "cpu"] | power_includes:5 | `cpu` is there twice
opp_source = "made up"↵ =>  | cluster[0].opp:13 | `opp_source` is missing
hz = 250 => hz =  | syntax:4 | string values must be quoted
"#;

#[test]
fn each_error_names_key_and_line() {
    for row in ERRORS.trim().lines() {
        let [change, place, message] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("three parts: {row}")
        };
        let change = change.replace('↵', "\n");
        let (from, to) = change.split_once(" => ").unwrap();
        let problem = problem(from, to);
        assert_eq!(format!("{}:{}", problem.key, problem.line), place, "{row}: {problem:#?}");
        assert!(problem.message.contains(message), "{row}: {}", problem.message);
    }
}

#[test]
fn io_device_errors_name_key_and_allowed_values() {
    let device = |keys: &str| {
        format!(
            "{GOOD}\n[[io_device]]\nname = \"d\"\nsource = \"made up\"\nread_us = 9\nwrite_us = 9\n{keys}"
        )
    };
    let sound = "queue_depth = 32\nnr_hw_queues = 2\nirq_cpu = \"3\"\n";
    assert_eq!(from_toml("test.toml", &device(sound)).unwrap().io_devices.len(), 1);
    let twice = "queue_depth = 1\n[[io_device]]\nname = \"d\"\nsource = \"x\"\nread_us = 1\nwrite_us = 1\nqueue_depth = 1\n";
    for (keys, key, value, allowed) in [
        ("queue_depth = 0\n", "queue_depth", "0", "1 or more"),
        ("queue_depth = 1\nparallelism = 0\n", "parallelism", "0", "1 or more"),
        ("queue_depth = 1\ndies = 0\n", "dies", "0", "1 or more"),
        ("queue_depth = 1\nchannels = 2\n", "channels", "2", ""),
        ("queue_depth = 1\ndies = 2\nparallelism = 2\n", "parallelism", "2", ""),
        ("queue_depth = 1\nnr_hw_queues = 0\n", "nr_hw_queues", "0", "1 or more"),
        ("queue_depth = 1\nirq_cpu = \"4\"\n", "irq_cpu", "\"4\"", "0 to 3"),
        ("queue_depth = 1\nirq_cpu = \"0-1\"\n", "irq_cpu", "\"0-1\"", "one CPU"),
        ("queue_depth = 1\ninterrupts_per_io = 0\n", "interrupts_per_io", "0", "1 or more"),
        ("queue_depth = 1\ncompletion = \"softirq\"\n", "completion", "\"softirq\"", "threaded"),
        ("command_queue = false\nqueue_depth = 8\n", "queue_depth", "8", "1: the host"),
        ("\n", "queue_depth", "", "or `command_queue = false`"),
        (twice, "name", "\"d\"", ""),
    ] {
        let [problem] = &problems(&device(keys))[..] else { panic!("one problem: {keys}") };
        let index = usize::from(keys == twice);
        assert_eq!(problem.key, format!("io_device[{index}].{key}"));
        assert_eq!(problem.value.as_deref().unwrap_or(""), value, "{keys}");
        assert!(problem.allowed.as_deref().unwrap_or("").contains(allowed), "{problem:?}");
    }
}

#[test]
fn each_power_without_a_source_is_reported() {
    let problems = problems(&GOOD.replacen("power_source = \"made up\"\n", "", 1));
    // Two OPPs and three states.
    assert_eq!(problems.len(), 5, "{problems:#?}");
    assert!(problems.iter().all(|p| p.message == "`power_source` is missing"));
}

#[test]
fn an_eleventh_state_is_one_too_many() {
    let state = "[[cluster.idle_state]]\nname = \"C\"\nlatency_us = 2\ntarget_residency_us = 2\n";
    let problems = problems(&(GOOD.to_owned() + &state.repeat(10)));
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].message, "11 idle states");
}

#[test]
fn no_state_and_no_cluster_are_too_few() {
    let head = "name = \"a\"\ntitle = \"a\"\nsource = \"a\"\nhz = 100\n";
    let empty = problems(&format!("{head}cluster = []\n"));
    assert!(empty[0].message.contains("at least one cluster"), "{empty:#?}");
    let table = problems(&format!("{head}[cluster]\nname = \"a\"\n"));
    assert!(table[0].allowed.as_ref().unwrap().contains("double brackets"), "{table:#?}");
    let stateless = "[[cluster]]\nname = \"a\"\ncpus = \"0\"\ncapacity = 1024\n\
                     idle_state_source = \"a\"\nidle_state = []\n";
    let stateless = problems(&format!("{head}{stateless}"));
    assert_eq!(stateless[0].message, "0 idle states");
}

#[test]
fn sysfs_latency_is_the_exit_latency() {
    let machine = from_toml("test.toml", GOOD).unwrap_or_else(|error| panic!("{error}"));
    let state = &machine.clusters[1].idle_states[0];
    assert_eq!((state.entry_latency.ns(), state.exit_latency.ns()), (0, 2_000));
    assert_eq!((state.latency.ns(), state.target_residency.ns()), (2_000, 2_000));
}

#[test]
fn measured_latency_leaves_the_advertised_one() {
    let measured = "measured_entry_latency_us = 20\n\
                    measured_exit_latency_us = { dist = \"empirical\", values = [30, 50, 70] }\n\
                    measured_latency_source = \"made up\"\n";
    let text = GOOD.replacen("name = \"sleep\"\n", &format!("name = \"sleep\"\n{measured}"), 1);
    let machine = from_toml("test.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let state = &machine.clusters[0].idle_states[2];
    assert_eq!((state.entry_latency.ns(), state.exit_latency.ns()), (20_000, 50_000));
    assert_eq!((state.latency.ns(), state.target_residency.ns()), (250_000, 1_000_000));
    // 70 us of 300 advertised.
    assert_eq!(state.break_even.ns(), 233_333);
    assert_eq!(machine.states_by_latency(), (vec!["sleep"], vec!["WFI", "C1"]));
    assert!(machine.sources.contains(&"little sleep measured latency: made up".to_owned()));
}

#[test]
fn clusters_come_in_the_order_of_their_cpus() {
    let text = GOOD.replacen("\"0-1\"", "\"2-3\"", 1).replacen("\"2,3\"", "\"0,1\"", 1);
    let machine = from_toml("test.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(machine.clusters[0].name, "big");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        let _ = from_toml("p", &text).map_err(|error| error.to_string());
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = from_toml("p", &String::from_utf8_lossy(&bytes)).map_err(|e| e.to_string());
    }

    /// A good file with a piece cut out, or a line put elsewhere, or a value replaced.
    #[test]
    fn no_damage_makes_the_reader_panic(
        cut in 0..GOOD.len(),
        len in 0..80usize,
        at in 0..GOOD.len(),
        piece in prop::sample::select(vec![
            "", "\n", "-1", "1e308", "9223372036854775807", "0xffffffffffffffffff", "\"", "[[",
            "é\n\u{1F4A4}", "hz = 300\n", "= ", "[[cluster]]\n", "\r\n\t", "inf", "1979-05-27",
        ]),
    ) {
        let mut text = GOOD.to_owned();
        text.replace_range(cut..(cut + len).min(GOOD.len()), "");
        text.insert_str(at.min(text.len()), piece);
        if let Err(error) = from_toml("p", &text) {
            let shown = error.to_string();
            prop_assert!(shown.contains("--> p:"), "{}", shown);
        }
    }
}
