// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Instances of a governor share nothing. The upstream governors load unedited.

use crate::support::{kernel_sources, resolve, server_states, state};
use std::path::{Path, PathBuf};
use torpor_governor::{CpuSetup, Governor, Inputs, Setup, StateDesc};
use torpor_machine::units::{CpuId, Duration, Hz, Instant};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/governors").join(name)
}

/// `shared.c` selects a state by a static counter, a per-CPU counter and a parameter.
fn shared() -> Governor {
    resolve(fixture("shared.c").to_str().expect("UTF-8"), Hz::H250)
}

fn one_cpu(states: &[StateDesc]) -> [CpuSetup<'_>; 1] {
    [CpuSetup::new(CpuId(0), states)]
}

#[test]
fn a_thousand_instances_share_nothing() {
    let states = server_states();
    let setup = Setup { cpus: &one_cpu(&states) };
    let governor = shared();
    let started = std::time::Instant::now();
    let mut instances: Vec<_> =
        (0..1_000).map(|_| governor.instantiate(&setup).expect("it loads")).collect();
    println!("{:?} per instance", started.elapsed() / 1_000);

    // One instance's static, per-CPU datum and parameter change.
    let inputs = Inputs::default();
    assert_eq!(instances[500].select(0, &inputs).expect("it answers").state, 0);
    assert_eq!(instances[500].select(0, &inputs).expect("it answers").state, 1);
    instances[500].set_param("offset", "2").expect("a number");
    assert_eq!(instances[500].select(0, &inputs).expect("it answers").state, (2 + 2) % 4);
    assert!(instances[500].statics_changed());

    for (i, instance) in instances.iter_mut().enumerate().filter(|(i, _)| *i != 500) {
        assert!(!instance.statics_changed(), "instance {i}");
        assert_eq!(instance.param("offset").as_deref(), Some("0"), "instance {i}");
        assert_eq!(instance.select(0, &inputs).expect("it answers").state, 0, "instance {i}");
    }
}

#[test]
fn each_cpu_has_its_own_data_and_table() {
    let big = server_states();
    let little = [state("WFI", 1, 1, false), state("off", 100, 500, false)];
    let cpus = [
        CpuSetup::new(CpuId(7), &big),
        CpuSetup::new(CpuId(2), &little),
        CpuSetup::new(CpuId(3), &little),
    ];
    let mut instance = resolve("deepest", Hz::H1000).instantiate(&Setup { cpus: &cpus }).unwrap();
    assert_eq!(instance.select(0, &Inputs::default()).unwrap().state, 3);
    assert_eq!(instance.select(1, &Inputs::default()).unwrap().state, 1);
    instance.set_state_disabled(1, 1, true);
    assert_eq!(instance.select(1, &Inputs::default()).unwrap().state, 0);
    assert_eq!(instance.select(2, &Inputs::default()).unwrap().state, 1);

    // menu's history is per CPU.
    let cpus = [CpuSetup::new(CpuId(7), &big), CpuSetup::new(CpuId(8), &big)];
    let mut menu = resolve("menu", Hz::H250).instantiate(&Setup { cpus: &cpus }).unwrap();
    let far = Inputs {
        sleep_length: Duration::from_us(50_000),
        delta_next: Duration::from_us(3_000),
        ..Inputs::default()
    };
    for i in 0..8 {
        let choice = menu.select(0, &far).unwrap();
        menu.set_last_residency(0, Duration::from_us(5));
        menu.reflect(0, choice.state, Instant(i), false).unwrap();
    }
    // Eight sleeps of 5 us (less the state's exit latency) are a pattern: C1E needs 20 us.
    assert_eq!(menu.select(0, &far).unwrap().state, 1);
    // Zeros are a pattern too: the kernel starts with eight of them and polls or takes C1 first.
    menu.enable(0).unwrap();
    let fresh = (menu.select(0, &far).unwrap(), menu.select(1, &far).unwrap());
    assert_eq!(fresh.0, fresh.1, "after enable, cpu 7 is as new as cpu 8");
    assert!(!menu.statics_changed());
}

#[test]
fn the_tick_rate_is_compiled_in() {
    // A timer in 5 ms is beyond a tick of 4 ms (250 Hz), but not of 10 ms (100 Hz).
    let states = [state("C1", 1, 1, false), state("C6", 100, 300, false)];
    let setup = Setup { cpus: &one_cpu(&states) };
    let five_ms = Duration::from_us(5_000);
    let inputs = Inputs { sleep_length: five_ms, delta_next: five_ms, ..Inputs::default() };
    let stops = |hz| {
        let mut teo = resolve("teo", hz).instantiate(&setup).unwrap();
        teo.select(0, &inputs).unwrap().stop_tick
    };
    assert_eq!(Hz::ALL.map(stops), [false, true, true, true]);
}

#[test]
fn default_latency_limit_is_2000_s() {
    let states = [state("C1", 1, 1, false), state("slow", 1_999_999_999, 1_999_999_999, false)];
    let setup = Setup { cpus: &one_cpu(&states) };
    let mut deepest = resolve("deepest", Hz::H250).instantiate(&setup).unwrap();
    assert_eq!(deepest.select(0, &Inputs::default()).unwrap().state, 1);
    let states = [state("C1", 1, 1, false), state("slower", 2_000_000_001, 2_000_000_001, false)];
    let setup = Setup { cpus: &one_cpu(&states) };
    let mut deepest = resolve("deepest", Hz::H250).instantiate(&setup).unwrap();
    assert_eq!(deepest.select(0, &Inputs::default()).unwrap().state, 0);
}

#[test]
fn deepest_and_shallowest_select_by_depth() {
    let states = server_states();
    let setup = Setup { cpus: &one_cpu(&states) };
    let choose = |name: &str, limit_us: Option<i64>, disabled: &[usize]| {
        let mut instance = resolve(name, Hz::H250).instantiate(&setup).unwrap();
        disabled.iter().for_each(|s| instance.set_state_disabled(0, *s, true));
        let latency_req = limit_us.map_or(Duration::MAX, Duration::from_us);
        let choice = instance.select(0, &Inputs { latency_req, ..Inputs::default() }).unwrap();
        assert!(!choice.asked_sleep_length);
        (choice.state, choice.stop_tick)
    };
    assert_eq!(choose("shallowest", None, &[]), (0, false));
    assert_eq!(choose("shallowest", None, &[0]), (1, false));
    assert_eq!(choose("shallowest", None, &[0, 1, 2, 3]), (0, false));
    assert_eq!(choose("deepest", None, &[]), (3, true));
    assert_eq!(choose("deepest", Some(132), &[]), (2, true));
    assert_eq!(choose("deepest", Some(0), &[]), (0, false));
    assert_eq!(choose("deepest", Some(1), &[0]), (1, true));
    assert_eq!(choose("deepest", None, &[0, 1, 2, 3]), (0, false));
}

#[test]
fn an_instance_can_move_to_another_thread() {
    let states = server_states();
    let setup = Setup { cpus: &one_cpu(&states) };
    let mut instance = resolve("teo", Hz::H250).instantiate(&setup).unwrap();
    let moved = std::thread::spawn(move || {
        let choice = instance.select(0, &Inputs::default()).unwrap();
        (instance, choice)
    });
    let (mut instance, first) = moved.join().unwrap();
    assert_eq!(first.state, 3);
    instance.set_last_residency(0, Duration::from_us(1_000));
    instance.reflect(0, first.state, Instant(1_000_000), false).unwrap();
    assert_eq!(instance.last_state_idx(0), 3);
}

#[test]
fn governors_of_two_releases_load_unedited() {
    let states = server_states();
    let setup = Setup { cpus: &one_cpu(&states) };
    for version in ["6.1", "6.12"] {
        let Some(tree) = kernel_sources(version, &format!("governors of {version}")) else {
            continue;
        };
        for (name, rating) in [("ladder", 10), ("menu", 20), ("teo", 19), ("haltpoll", 9)] {
            for hz in Hz::ALL {
                let governor = resolve(&format!("{name}@{}", tree.display()), hz);
                assert_eq!((governor.name(), governor.rating()), (name, rating));
                let mut instance = governor.instantiate(&setup).unwrap();
                for i in 1..100 {
                    let choice = instance.select(0, &Inputs::default()).unwrap();
                    instance.set_last_residency(0, Duration::from_us(i * 10));
                    instance.reflect(0, choice.state, Instant(i * 10_000), i % 7 == 0).unwrap();
                }
                assert!(!instance.statics_changed(), "{name} of {version} keeps only per-CPU data");
                assert_eq!(instance.warnings(), None);
            }
        }
        let spec = format!("haltpoll@{},guest_halt_poll_ns=1000", tree.display());
        let haltpoll = resolve(&spec, Hz::H250);
        assert_eq!(haltpoll.params().len(), 5);
        assert_eq!(haltpoll.param_settings()[0], ("guest_halt_poll_ns".into(), "1000".into()));
        // Beyond the parameter, a halt does not grow the polling; within it, it does.
        let mut instance = haltpoll.instantiate(&setup).unwrap();
        for (residency_ns, limit_ns) in [(1_001, 0), (999, 1_000)] {
            instance.set_last_residency(0, Duration(residency_ns));
            instance.reflect(0, 1, Instant(0), false).unwrap();
            assert_eq!(instance.poll_limit_ns(0), limit_ns);
        }
    }
}
