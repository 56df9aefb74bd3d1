// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures how costs grow with the machine: CPUs in one cluster, idle states, tasks.
//!
//! `cargo bench -p torpor-benches --bench scale [-- NAME...]`, in one thread. In recordings that
//! are made up, each CPU sleeps for exponential times of its own. Ratios are of CPU time within one
//! run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;
use torpor_benches::{Limit, Temporary, aim, process_cpu_s, replayed, shared_trace};
use torpor_engine::{Loaded, Outcome, Unwatched};
use torpor_machine::platform::Platform;

#[path = "../../crates/torpor-trace/tests/support/dat_long.rs"]
mod dat_long;

const ROUNDS: usize = 5;
const LONG_BYTES: u64 = 104 << 20;

/// A server of one cluster with 81 W of its own, of its data file.
const ROME: &str = "rome-7502";

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let rows: [(&str, fn()); 5] = [
        ("oracle", oracle_of_one_cluster),
        ("long", oracle_of_a_long_recording),
        ("cluster", teo_of_one_cluster),
        ("states", ten_states),
        ("tasks", many_tasks),
    ];
    for (name, row) in rows {
        if named.is_empty() || named.iter().any(|other| other == name) {
            row();
        }
    }
}

/// The joint plan of a cluster, against a governor's replay. With sleeps of 1 ms it is exact, as
/// all CPUs hardly ever rest at once; with sleeps of 5 ms a gap is left.
fn oracle_of_one_cluster() {
    let platform = torpor_machine::platform::resolve(ROME).unwrap_or_else(|e| panic!("{e}"));
    for (idle_us, most, gap_max_pct) in [(1_000, 6.0, 0.0), (5_000, 150.0, 0.5)] {
        let work = Work { cpus: 128, sleeps: 200, idle_us, busy_us: 100, tasks: 0 };
        let loaded = recording(&work);
        let (teo_s, _) = cost(&loaded, &platform, "teo");
        let (oracle_s, outcome) = cost(&loaded, &platform, "oracle");
        println!("128 CPUs, sleeps of {idle_us} us: teo {teo_s:.3} s, oracle {oracle_s:.3} s");
        let what = format!("oracle to teo, 128 CPUs in one cluster, {} ms", idle_us / 1_000);
        aim(&what, oracle_s / teo_s, Limit::NotAbove(most));
        let gap_pct = outcome.traces[0].oracle.as_ref().and_then(|oracle| oracle.gap_pct);
        aim(
            &format!("its gap, %, {} ms", idle_us / 1_000),
            gap_pct.unwrap_or(f64::MAX),
            Limit::NotAbove(gap_max_pct),
        );
    }
}

/// The oracle on a long recording of clusters with power of their own, against the other columns
/// of a default replay.
fn oracle_of_a_long_recording() {
    let Some(path) = shared_trace("juno-sched-load.v6.dat") else { return };
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut long = Vec::new();
    let copies = dat_long::copies_for(&bytes, 6, LONG_BYTES);
    dat_long::repeat(&bytes, 6, copies, 2_000_000_000, &mut long).expect("memory is writable");
    let file = Temporary::new("dat", &long);
    drop(long);
    let platform = torpor_machine::platform::resolve("juno").unwrap_or_else(|e| panic!("{e}"));
    let replay = |governors: &[&str]| replayed(vec![file.0.clone()], &[], &platform, governors).0;
    let without_s = replay(&["menu", "teo", "shallowest", "deepest"]);
    let with_s = replay(&["menu", "teo", "shallowest", "deepest", "oracle"]);
    println!("104 MB on juno: without the oracle {without_s:.3} s, with it {with_s:.3} s");
    aim("replay of 104 MB with the oracle to without", with_s / without_s, Limit::NotAbove(15.0));
}

/// A governor on 1,024 CPUs of one cluster, against clusters of four.
fn teo_of_one_cluster() {
    let loaded =
        recording(&Work { cpus: 1_024, sleeps: 50, idle_us: 1_000, busy_us: 100, tasks: 0 });
    let [one, many] = [1_024, 4].map(|size| machine(1_024, size, 2));
    let (one_s, _) = cost(&loaded, &one, "teo");
    let (many_s, _) = cost(&loaded, &many, "teo");
    println!("1,024 CPUs: in one cluster {one_s:.3} s, in clusters of four {many_s:.3} s");
    aim("1,024 CPUs in one cluster to clusters of four", one_s / many_s, Limit::NotAbove(1.3));
}

/// A governor and the oracle with ten states, against two.
fn ten_states() {
    let loaded =
        recording(&Work { cpus: 4, sleeps: 20_000, idle_us: 1_000, busy_us: 100, tasks: 0 });
    let [two, ten] = [2, 10].map(|states| machine(4, 1, states));
    for (governor, most) in [("teo", 2.5), ("menu", 2.0), ("oracle", 8.0)] {
        let (two_s, _) = cost(&loaded, &two, governor);
        let (ten_s, _) = cost(&loaded, &ten, governor);
        println!("{governor}: two states {two_s:.3} s, ten states {ten_s:.3} s");
        aim(&format!("{governor}, ten states to two"), ten_s / two_s, Limit::NotAbove(most));
    }
}

/// Reading and replaying a recording of 100,000 tasks, against one of ten.
fn many_tasks() {
    let [few_s, many_s] = [10, 100_000].map(|tasks| {
        let work = Work { cpus: 4, sleeps: 50_000, idle_us: 1_000, busy_us: 100, tasks };
        let file = Temporary::new("txt", text(&work).as_bytes());
        let platform = machine(4, 4, 2);
        let read = || {
            let started_s = process_cpu_s();
            replayed(Vec::new(), &[&loaded(&file)], &platform, &["teo"]);
            process_cpu_s() - started_s
        };
        (0..ROUNDS).map(|_| read()).fold(f64::MAX, f64::min)
    });
    println!("200,000 sleeps: of ten tasks {few_s:.3} s, of 100,000 tasks {many_s:.3} s");
    aim("reading and replay, 100,000 tasks to ten", many_s / few_s, Limit::NotAbove(2.0));
}

/// Returns the least CPU time of a replay, in s, and its outcome.
fn cost(loaded: &Loaded, platform: &Platform, governor: &str) -> (f64, Outcome) {
    let round = |_| replayed(Vec::new(), &[loaded], platform, &[governor]);
    (0..ROUNDS).map(round).min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are rounds")
}

/// Returns a machine of equal clusters.
fn machine(cpus: u32, cluster_size: u32, states: u32) -> Platform {
    let mut text = "name = \"many\"\ntitle = \"Many\"\nsource = \"made up\"\nhz = 250\n".to_owned();
    for (number, first) in (0..cpus).step_by(cluster_size as usize).enumerate() {
        let last = first + cluster_size - 1;
        writeln!(
            text,
            "[[cluster]]\nname = \"c{number}\"\ncpus = \"{first}-{last}\"\ncapacity = 1024\n\
             idle_state_source = \"made up\"\nopp_source = \"made up\"\n\
             power_source = \"made up\"\n\
             opp = [{{ freq_khz = 1000000, static_power_mw = 50 }}]"
        )
        .expect("a text takes all");
        for state in 0..states {
            let (latency_us, power_mw) = (3 * state * state, 100.0 / f64::from(state + 1));
            let residency_us = 10 * state * state;
            writeln!(
                text,
                "[[cluster.idle_state]]\nname = \"S{state}\"\nexit_latency_us = {latency_us}\n\
                 target_residency_us = {residency_us}\npower_mw = {power_mw}"
            )
            .expect("a text takes all");
        }
    }
    torpor_machine::platform::from_toml("many.toml", &text).unwrap_or_else(|e| panic!("{e:?}"))
}

/// What the CPUs of a recording do.
struct Work {
    cpus: u32,
    /// Of each CPU.
    sleeps: u32,
    idle_us: u32,
    busy_us: u32,
    /// Tasks that run in turn; no task events if there are none.
    tasks: u32,
}

fn recording(work: &Work) -> Loaded {
    loaded(&Temporary::new("txt", text(work).as_bytes()))
}

fn loaded(file: &Temporary) -> Loaded {
    Loaded::read(&file.0, None, &Unwatched).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns a recording as ftrace text.
fn text(work: &Work) -> String {
    let mut random = 1_u64;
    let mut ns = |mean_us: u32| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = ((random >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        (-uniform.ln() * f64::from(mean_us) * 1e3) as u64
    };
    let mut text = "# tracer: nop\n#\n".to_owned();
    let mut next = BinaryHeap::new();
    for cpu in 0..work.cpus {
        next.push(Reverse((1_000_000_000 + ns(work.idle_us), cpu, 2 * work.sleeps)));
    }
    let mut turn = 0;
    while let Some(Reverse((at, cpu, left))) = next.pop() {
        let time = format!("[{cpu:03}] d..2. {}.{:09}:", at / 1_000_000_000, at % 1_000_000_000);
        let is_entry = left % 2 == 0;
        let state = if is_entry { 1 } else { u32::MAX };
        let mut lines = format!("<idle>-0 {time} cpu_idle: state={state} cpu_id={cpu}\n");
        if !is_entry && work.tasks > 0 {
            turn += 1;
            let pid = 1_000 + turn % work.tasks;
            lines += &format!(
                "<idle>-0 {time} sched_switch: prev_comm=swapper prev_pid=0 prev_prio=120 \
                 prev_state=R ==> next_comm=task{pid} next_pid={pid} next_prio=120\n"
            );
        }
        text += &lines;
        if left > 1 {
            let mean_us = if is_entry { work.idle_us } else { work.busy_us };
            next.push(Reverse((at + 2_000 + ns(mean_us), cpu, left - 1)));
        }
    }
    text
}
