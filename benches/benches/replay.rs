// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures a replay (the whole idle loop with accounting and costs) against the bare select +
//! reflect loop of the same shared object on the same inputs, on one core.
//!
//! `cargo bench -p torpor-benches --bench replay -- GOVERNOR... [TRACE]`, with governors of a kernel
//! tree as `teo@TREE`. Rounds alternate and the fastest of each counts.

use std::path::{Path, PathBuf};
use std::time::Instant as Clock;
use torpor_benches::bare::{Bare, Step, add};
use torpor_benches::{Limit, require};
use torpor_engine::decision::Unobserved;
use torpor_engine::idle_loop::CpuRun;
use torpor_engine::input::{Follower, Recording, TickGrid};
use torpor_engine::model::CpuModel;
use torpor_engine::policy::{Policy, Reflection};
use torpor_governor::{
    Catalog, CpuSetup, Fault, Governor, GovernorSpec, Inputs, Instance, Selection, Setup, StateDesc,
};
use torpor_machine::units::{CpuId, Duration};

const ROUNDS: usize = 80;
const AIM: f64 = 1.85;
/// The demo's, and those of stock kernels in guests.
const TRACES: [&str; 3] = [
    "demo/web-server.perf.data",
    "tests/data/guest/amd64-6.12-menu-mix/trace.dat.gz",
    "tests/data/guest/arm64-6.12-menu-mix/trace.dat.gz",
];

fn main() {
    let named = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let (traces, mut governors): (Vec<String>, Vec<String>) =
        named.partition(|n| Path::new(n).is_file() && !n.ends_with(".c"));
    if governors.is_empty() {
        governors = ["menu", "teo"].map(str::to_owned).to_vec();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut traces: Vec<PathBuf> = traces.iter().map(PathBuf::from).collect();
    if traces.is_empty() {
        traces = TRACES.map(|name| root.join(name)).to_vec();
    }
    let catalog = Catalog::new(Default::default());
    println!("{:<40} {:<12} {:>8} {:>8} {:>6}  ns a decision", "", "", "bare", "replay", "ratio");
    let mut worst: f64 = 0.0;
    for path in traces {
        println!("{}", path.display());
        let trace = torpor_trace::read(&path).unwrap_or_else(|e| panic!("{e}"));
        let mut recording = Recording::new(&trace, None);
        let mut follower = Follower::new(&mut recording, &trace, |_| (1024, None));
        follower.observe(&trace.events);
        follower.finish();
        for name in &governors {
            let spec: GovernorSpec = name.parse().unwrap_or_else(|e| panic!("{e}"));
            for platform in ["pixel6", "i5-10600k", "icelake-8360y"] {
                worst = worst.max(compare(&catalog, &spec, platform, &recording));
            }
        }
    }
    require("replay to bare governor, worst recording", worst, Limit::NotAbove(AIM));
}

fn compare(catalog: &Catalog, spec: &GovernorSpec, platform: &str, recording: &Recording) -> f64 {
    let machine = torpor_machine::platform::resolve(platform).unwrap_or_else(|e| panic!("{e}"));
    let cluster = &machine.clusters[0];
    let grid = recording.tick.unwrap_or(TickGrid::new(machine.hz, Duration::ZERO));
    let model = CpuModel::new(&machine, cluster, grid, Duration::MAX, |_| false);
    let governor = catalog.resolve(spec, grid.hz).unwrap_or_else(|e| panic!("{e}"));
    let states: Vec<StateDesc> = cluster
        .idle_states
        .iter()
        .map(|s| StateDesc {
            name: s.name.clone(),
            exit_latency: s.latency,
            target_residency: s.target_residency,
            is_polling: s.is_polling(),
            is_disabled: false,
        })
        .collect();
    let longest = recording.cpus.iter().max_by_key(|c| c.spans.len()).expect("a CPU was idle");
    let replay =
        |policy: &mut dyn FnMut(&mut Instance) -> u64| policy(&mut instance(&governor, &states));

    let mut steps = Vec::new();
    let logged = replay(&mut |instance| {
        let mut log = Log { instance, steps: &mut steps, sum: 0 };
        CpuRun::new(&model, &longest.spans, 0).run(&mut log, &mut Unobserved).expect("it runs");
        log.sum
    });
    let (mut bare_ns, mut replay_ns) = (f64::MAX, f64::MAX);
    let count = steps.len() as f64;
    for _ in 0..ROUNDS {
        let mut bare = Bare::open(&governor, &states);
        let started = Clock::now();
        let sum = bare.run(&steps);
        bare_ns = bare_ns.min(started.elapsed().as_nanos() as f64 / count);
        assert_eq!(sum, logged, "the bare loop must decide as the replay did");

        replay(&mut |instance| {
            let mut run = CpuRun::new(&model, &longest.spans, 0);
            let started = Clock::now();
            run.run(instance, &mut Unobserved).expect("it runs");
            replay_ns = replay_ns.min(started.elapsed().as_nanos() as f64 / count);
            assert_eq!(run.close().decisions as usize, steps.len());
            0
        });
    }
    let ratio = replay_ns / bare_ns;
    println!("{:<40} {platform:<12} {bare_ns:>8.1} {replay_ns:>8.1} {ratio:>6.2}", short(spec));
    ratio
}

fn short(spec: &GovernorSpec) -> String {
    let text = spec.to_string();
    let skip = text.chars().count().saturating_sub(40);
    text.chars().skip(skip).collect()
}

fn instance(governor: &Governor, states: &[StateDesc]) -> Instance {
    let setup = Setup { cpus: &[CpuSetup::new(CpuId(0), states)] };
    governor.instantiate(&setup).unwrap_or_else(|e| panic!("{e}"))
}

/// Passes calls on and logs them.
struct Log<'a> {
    instance: &'a mut Instance,
    steps: &'a mut Vec<Step>,
    sum: u64,
}

impl Policy for Log<'_> {
    fn select(&mut self, slot: usize, inputs: &Inputs) -> Result<Selection, Fault> {
        let choice = Policy::select(self.instance, slot, inputs)?;
        self.sum = add(self.sum, choice.state, choice.stop_tick);
        self.steps.push(Step {
            inputs: *inputs,
            residency: Duration::ZERO,
            poll_timed_out: None,
            reflected: inputs.now,
            got_tick: false,
        });
        Ok(choice)
    }

    fn reflect(&mut self, slot: usize, reflection: &Reflection) -> Result<(), Fault> {
        let step = self.steps.last_mut().expect("select came first");
        step.residency = reflection.residency;
        step.poll_timed_out = reflection.poll_timed_out;
        step.reflected = reflection.now;
        step.got_tick = reflection.got_tick;
        Policy::reflect(self.instance, slot, reflection)
    }

    fn poll_limit(&mut self, slot: usize, default: Duration) -> Duration {
        self.instance.poll_limit(slot, default)
    }
}
