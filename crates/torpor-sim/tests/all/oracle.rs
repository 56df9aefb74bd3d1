// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Each governor against an oracle of its own run.

use crate::support::{big_little, load, machine, polling_machine, request, run};
use torpor_governor::Catalog;
use torpor_machine::platform::Platform;

const PERIODIC: &str =
    "[[task]]\nname = \"t\"\nphase = [{ run_us = 100 }, { period_us = 10000 }]\n";

fn over_oracle(platform: Platform, governor: &str, ms: i64) -> [f64; 3] {
    let outcome = run(&request(platform, load(PERIODIC), &[governor, "oracle"], ms));
    let metrics = &outcome.runs[0].run.metrics;
    let keys = ["over_oracle_pct", "lost_too_deep_mw", "lost_too_shallow_mw"];
    keys.map(|key| metrics[key].expect("power is known"))
}

#[test]
fn oracle_of_long_sleeps_is_deepest() {
    // Sleeps of 9.8 ms: deepest is what the oracle does, but for the first decision, when nothing
    // has run yet. The watchdog's 4 s are beyond the second.
    let [over, deep, shallow] = over_oracle(machine(1, ""), "deepest", 1_000);
    assert!(over.abs() < 0.5, "{over}");
    assert!(deep < 0.5 && shallow == 0.0, "{deep} {shallow}");
    // 100 mW for 9.9 ms, against 10 mW and an overhead of (100 - 10) mW for 200 us: 990 uJ to
    // 99 + 18. `shallowest` keeps the tick, whose sleeps of 4 ms and 1.9 ms are too shallow each:
    // 990 uJ - 99 uJ - 3 * 18 uJ, a hundred times a second, are 84 mW.
    let [over, deep, shallow] = over_oracle(machine(1, ""), "shallowest", 1_000);
    assert!((over - 100.0 * (990.0 / 117.0 - 1.0)).abs() < 10.0, "{over}");
    assert!(deep == 0.0 && (shallow - 84.0).abs() < 2.0, "{deep} {shallow}");
}

#[test]
fn oracle_has_no_column_of_its_own() {
    let asked = request(machine(1, ""), load(PERIODIC), &["oracle", "menu", "teo"], 100);
    let outcome = run(&asked);
    let names: Vec<&str> = outcome.runs.iter().map(|r| r.run.name.as_str()).collect();
    assert_eq!(names, ["menu", "teo"]);
    let without = run(&request(machine(1, ""), load(PERIODIC), &["menu"], 100));
    assert_eq!(without.runs[0].run.metrics["over_oracle_pct"], None);
}

#[test]
fn oracle_with_unknown_parameters_is_refused() {
    let asked = request(machine(1, ""), load(PERIODIC), &["oracle,x=1", "menu"], 100);
    let error =
        torpor_sim::run(&asked, &Catalog::new(Default::default()), &torpor_engine::Unwatched)
            .unwrap_err();
    assert!(error.to_string().contains("no parameter `x`"), "{error}");
    let asked =
        request(machine(1, ""), load(PERIODIC), &["oracle", "oracle,price=1mW", "menu"], 100);
    let error =
        torpor_sim::run(&asked, &Catalog::new(Default::default()), &torpor_engine::Unwatched)
            .unwrap_err();
    assert!(error.to_string().contains("`oracle,price=1mW` is a second"), "{error}");
}

#[test]
fn delay_weighing_oracle_takes_more_energy() {
    let over = |oracle| {
        let asked = request(machine(1, ""), load(PERIODIC), &["shallowest", oracle], 200);
        run(&asked).runs[0].run.metrics["over_oracle_pct"].unwrap()
    };
    let [free, priced, within] = ["oracle", "oracle,price=10W", "oracle,latency<=1us"].map(over);
    assert!(priced < free && within < free, "{free} {priced} {within}");
}

#[test]
fn oracle_alone_is_refused() {
    let asked = request(machine(1, ""), load(PERIODIC), &["oracle"], 100);
    let error =
        torpor_sim::run(&asked, &Catalog::new(Default::default()), &torpor_engine::Unwatched)
            .unwrap_err();
    assert!(error.to_string().contains("needs a governor"), "{error}");
}

/// Waits, interrupts with and without tasks, timers, pings, on CPUs that also poll.
const MIXED: &str = r#"
[[task]]
name = "timer"
count = 3
start_us = 30
phase = [{ run_us = 20 }, { sleep_us = { dist = "exponential", mean = 700 } }]

[[task]]
name = "ping"
start_us = 10
phase = [{ run_us = 10 }, { wake = "pong" }, { wait = "ping" }, { sleep_us = 90 }]

[[task]]
name = "pong"
start_us = 10
phase = [{ wait = "pong" }, { run_us = 10 }, { wake = "ping" }]

[[task]]
name = "worker"
count = 2
start_us = 20
phase = [{ wait = "work" }, { run_us = { dist = "exponential", mean = 50 } }]

[[interrupt]]
name = "work"
interval_us = { dist = "exponential", mean = 400 }
wake = "work"

[[interrupt]]
name = "nothing"
cpus = "0-1"
interval_us = { dist = "exponential", mean = 150 }
handling_us = 5
"#;

#[test]
fn no_governor_is_cheaper_than_the_oracle() {
    let governors = ["menu", "teo", "haltpoll", "ladder", "shallowest", "deepest", "oracle"];
    for platform in [machine(2, ""), polling_machine(2, ""), big_little()] {
        let mut request = request(platform, load(MIXED), &governors, 60);
        request.options.seeds = 2;
        for run in &run(&request).runs {
            for seed in &run.seeds {
                let over = seed.metrics["over_oracle_pct"].expect("power is known");
                // The oracle leaves the state that the run's end finds it in.
                assert!(over > -0.2, "{} on {}: {over}", run.run.name, request.platform.name);
            }
        }
    }
}
