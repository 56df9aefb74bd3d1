// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures a call through `Instance` against the bare function of the same shared object.
//!
//! The bare loop opens the object with the system's loader, writes the inputs and calls `select` and
//! `reflect`. Both get the same inputs. Rounds alternate and the fastest of each counts, so that other
//! load hardly affects the ratio.
//!
//! `cargo bench -p torpor-benches --bench calls` measures the built-in governors, or those named with
//! `-- menu@TREE ...`, and the loading of an instance.

use std::hint::black_box;
use std::time::Instant as Clock;
use torpor_benches::bare::{Bare, Step, add};
use torpor_governor::{Catalog, CpuSetup, Governor, GovernorSpec, Inputs, Setup, StateDesc};
use torpor_machine::units::{CpuId, Duration, Hz, Instant};

const STEPS: usize = 20_000;
const ROUNDS: usize = 60;

fn main() {
    let named = torpor_benches::named_governors();
    let catalog = Catalog::new(Default::default());
    let steps = steps();
    println!("{:<40} {:>8} {:>8} {:>6}  ns per select + reflect", "", "bare", "hosted", "ratio");
    for name in named {
        let spec: GovernorSpec = name.parse().unwrap_or_else(|e| panic!("{e}"));
        let governor = catalog.resolve(&spec, Hz::H250).unwrap_or_else(|e| panic!("{e}"));
        compare(&governor, &steps);
    }
    loading(&catalog);
}

fn states() -> Vec<StateDesc> {
    [("POLL", 0, 0), ("C1", 2, 2), ("C1E", 10, 20), ("C6", 133, 600)]
        .map(|(name, exit_us, residency_us)| StateDesc {
            name: name.to_owned(),
            exit_latency: Duration::from_us(exit_us),
            target_residency: Duration::from_us(residency_us),
            is_polling: exit_us == 0,
            is_disabled: false,
        })
        .to_vec()
}

/// Sleeps of 1 us to 4 ms below timers of 1 us to 30 ms, the tick in between.
fn steps() -> Vec<Step> {
    let mut seed = 1_u64;
    let mut random = move |bits: u32| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) & ((1 << bits) - 1)) as i64
    };
    let mut now = 0;
    (0..STEPS)
        .map(|_| {
            let bits = 10 + random(4) as u32 % 15;
            let sleep_ns = 1_000 + random(bits);
            let tick_ns = random(22) % 4_000_000;
            let residency_ns = random(bits.min(22)).min(sleep_ns);
            now += residency_ns + 2_000;

            Step {
                inputs: Inputs {
                    now: Instant(now),
                    sleep_length: Duration(sleep_ns),
                    delta_next: Duration(sleep_ns.min(tick_ns)),
                    ..Inputs::default()
                },
                residency: Duration(residency_ns),
                poll_timed_out: None,
                reflected: Instant(now + residency_ns),
                got_tick: residency_ns > tick_ns,
            }
        })
        .collect()
}

fn compare(governor: &Governor, steps: &[Step]) {
    let states = states();
    let setup = Setup { cpus: &[CpuSetup::new(CpuId(0), &states)] };
    let mut hosted = governor.instantiate(&setup).unwrap_or_else(|e| panic!("{e}"));
    let mut bare = Bare::open(governor, &states);
    let (mut bare_ns, mut hosted_ns) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let started = Clock::now();
        let bare_sum = bare.run(steps);
        bare_ns = bare_ns.min(started.elapsed().as_nanos() as f64 / steps.len() as f64);

        let started = Clock::now();
        let mut hosted_sum = 0_u64;
        for step in steps {
            let choice = hosted.select(0, &step.inputs).unwrap_or_else(|e| panic!("{e}"));
            hosted_sum = add(hosted_sum, choice.state, choice.stop_tick);
            hosted.set_last_residency(0, step.residency);
            hosted
                .reflect(0, choice.state, step.reflected, step.got_tick)
                .unwrap_or_else(|e| panic!("{e}"));
        }
        hosted_ns = hosted_ns.min(started.elapsed().as_nanos() as f64 / steps.len() as f64);
        assert_eq!(bare_sum, hosted_sum, "both must decide alike to be compared");
    }
    let ratio = hosted_ns / bare_ns;
    println!("{:<40} {bare_ns:>8.1} {hosted_ns:>8.1} {ratio:>6.2}", governor.label());
}

fn loading(catalog: &Catalog) {
    let governor = catalog.resolve(&"menu".parse().expect("a name"), Hz::H250).expect("built in");
    for cpus in [1_u32, 8, 64] {
        let states = states();
        let cpus: Vec<_> = (0..cpus).map(|i| CpuSetup::new(CpuId(i), &states)).collect();
        let setup = Setup { cpus: &cpus };
        let started = Clock::now();
        const COUNT: u32 = 300;
        for _ in 0..COUNT {
            black_box(governor.instantiate(&setup).expect("it loads"));
        }
        println!("load, enable and drop, {:>2} CPUs: {:?}", cpus.len(), started.elapsed() / COUNT);
    }
}
