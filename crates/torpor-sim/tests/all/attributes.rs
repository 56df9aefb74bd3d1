// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Scheduling policies of tasks, and the energy model that places them.

use crate::support::{big_little, count, load, machine, platform, request};
use torpor_machine::platform::Platform;
use torpor_machine::units::Duration;
use torpor_sim::workload;

/// Returns how long a task waits for a CPU that another one keeps busy, on average.
fn waits(policy: &str) -> f64 {
    let text = format!(
        "[[task]]\nname = \"hog\"\nweight = 88761\nphase = [{{ run_us = 50000 }}]\n\
         [[task]]\nname = \"t\"\nweight = 15\n{policy}phase = [{{ run_us = 2500 }}, {{ period_us = 10000 }}]\n"
    );
    let counted = count(&request(machine(1, ""), load(&text), &["menu"], 1_000)).unwrap();
    counted.kinds[1].latency.latencies().quantile(0.5).unwrap().0 as f64
}

#[test]
fn realtime_task_preempts_at_once() {
    let (fair, fifo) = (waits(""), waits("policy = \"fifo\"\nrt_priority = 2\n"));
    assert!(fifo < 20_000.0, "{fifo}");
    assert!(fair > 20.0 * fifo, "{fair} against {fifo}");
}

#[test]
fn policy_and_priority_go_together() {
    let refused = |keys: &str| {
        let text = format!(
            "name = \"w\"\ntitle = \"w\"\nsource = \"made up\"\n\
             [[task]]\nname = \"t\"\n{keys}\nphase = [{{ run_us = 1 }}]\n"
        );
        workload::from_toml("test.toml", &text).map(|_| ()).map_err(|e| e.to_string())
    };
    for keys in ["policy = \"rr\"", "rt_priority = 3", "policy = \"idle\"\nrt_priority = 3"] {
        let told = refused(keys).expect_err(keys);
        assert!(told.contains("1 to 99 with the policies fifo and rr"), "{told}");
    }
    assert_eq!(refused("policy = \"rr\"\nrt_priority = 99"), Ok(()));
}

/// Share of the time of a small task that it runs on the little CPUs.
fn little_share(platform: Platform) -> f64 {
    let text = "[[task]]\nname = \"t\"\nphase = [{ run_us = 300 }, { period_us = 10000 }]\n";
    let mut request = request(platform, load(text), &["menu"], 1_000);
    request.options.cpufreq = vec!["schedutil".parse().unwrap()];
    let counted = count(&request).unwrap();
    let time = |cpu: usize| counted.cpus[cpu].task_time.0 as f64;
    let all: f64 = (0..4).map(time).sum();
    assert!(all > 0.0 && counted.span > Duration(0));
    (time(0) + time(1)) / all
}

#[test]
fn energy_model_places_small_tasks() {
    assert!(little_share(big_little()) > 0.9);
    let modelled = |little: u32, big: u32| {
        let cluster = |name: &str, cpus: &str, capacity: u32, power: u32, model: u32| {
            format!(
                "[[cluster]]\nname = \"{name}\"\ncpus = \"{cpus}\"\ncapacity = {capacity}\n\
                 idle_state_source = \"made up\"\nopp_source = \"made up\"\n\
                 power_source = \"made up\"\nenergy_model_source = \"made up\"\n\
                 opp = [{{ freq_khz = 1000000, active_power_mw = {power}, energy_model_power_mw = {model} }}]\n\
                 idle_state = [{{ name = \"WFI\", exit_latency_us = 1, target_residency_us = 1 }}]\n"
            )
        };
        let clusters = cluster("l", "0-1", 256, 10, little) + &cluster("b", "2-3", 1024, 200, big);
        platform(&format!(
            "name = \"m\"\ntitle = \"m\"\nsource = \"made up\"\nhz = 250\n{clusters}"
        ))
    };
    // What the CPUs really take is the same in both.
    assert!(little_share(modelled(10, 200)) > 0.9);
    assert!(little_share(modelled(100, 20)) < 0.1);
}
