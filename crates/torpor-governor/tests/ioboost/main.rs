// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The IO boosts: worked examples, two of the kernel's against its files, and failing ones.

mod containment;
mod intel_pstate;
mod iowait;
mod per_task;
mod per_task_v2;
#[path = "../support/mod.rs"]
mod support;
mod upstream;

use support::catalog;
use torpor_governor::{Flags, GovernorError, IoBoost, IoBoostInstance, IoBoostSetup};
use torpor_units::{CpuId, Hz, Instant};

const MS: i64 = 1_000_000;
const WAITS: Flags = Flags::IOWAIT;

fn resolve(spec: &str, hz: Hz) -> Result<IoBoost, GovernorError> {
    catalog().resolve_ioboost(&spec.parse()?, hz)
}

/// Two CPUs, the second of them small, and four tasks.
fn instance(spec: &str) -> IoBoostInstance {
    let setup = IoBoostSetup { cpus: &[(CpuId(0), 1024), (CpuId(4), 160)], tasks: 4 };
    let boost = resolve(spec, Hz::H250).unwrap_or_else(|e| panic!("{e}"));
    boost.instantiate(&setup).unwrap_or_else(|e| panic!("{e}"))
}

/// A task that waits for IO again and again.
struct Waiter<'a> {
    boost: &'a mut IoBoostInstance,
    task: usize,
    slot: usize,
    now_ns: i64,
    /// When the interval began that [`Waiter::interval`] is to end.
    start_ns: i64,
}

impl<'a> Waiter<'a> {
    /// Runs at first, so that it can go to sleep. Time 0 would stand for "no interval".
    fn new(boost: &'a mut IoBoostInstance, task: usize) -> Waiter<'a> {
        boost.enqueue(0, task, Instant(MS), Flags::NONE).unwrap();
        Waiter { boost, task, slot: 0, now_ns: MS, start_ns: MS }
    }

    /// Goes to sleep for IO now, and wakes up `wait_ns` later.
    fn wait(&mut self, wait_ns: i64) {
        let (slot, task) = (self.slot, self.task);
        self.boost.dequeue(slot, task, Instant(self.now_ns), WAITS | Flags::SLEEP).unwrap();
        self.now_ns += wait_ns;
        self.boost.enqueue(slot, task, Instant(self.now_ns), WAITS | Flags::WAKEUP).unwrap();
    }

    /// The first wait, which begins an interval.
    fn begin(&mut self) {
        self.start_ns = self.now_ns;
        self.wait(1);
    }

    /// Exactly so many short waits in an interval of `level`, evenly: the one that began it, and
    /// the last of all ends it and begins the next.
    fn interval(&mut self, level: i64, waits: i64) {
        let length_ns = 25 * MS * (level + 1);
        for i in 1..waits {
            self.now_ns = self.start_ns + length_ns * i / (waits - 1);
            self.wait(1);
        }
        self.start_ns += length_ns;
    }
}

#[test]
fn each_ships_with_its_summary_and_parameters() {
    let known = torpor_governor::Catalog::ioboosts().unwrap();
    let names: Vec<&str> = known.iter().map(|b| b.name).collect();
    assert_eq!(names, ["intel-pstate", "iowait", "none", "per-task-v2", "per-task"]);
    for boost in &known {
        assert!(boost.summary.ends_with('.') && boost.rating.is_none(), "{boost:?}");
        let told = boost.params.iter().all(|p| p.description.contains("default"));
        assert!(told, "each parameter has a description: {:?}", boost.params);
    }
    let params: Vec<String> =
        known[1].params.iter().map(|p| format!("{}={}", p.name, p.default)).collect();
    let expected =
        ["boost_min=128", "boost_max=1024", "rise_shift=1", "fall_shift=1", "silence_ticks=1"];
    assert_eq!(params, expected);
}

#[test]
fn no_boost_boosts_nothing() {
    let mut none = instance("none");
    let mut waiter = Waiter::new(&mut none, 0);
    (0..10_000).for_each(|_| waiter.wait(20_000));
    let now = Instant(waiter.now_ns);
    none.update(0, now, WAITS).unwrap();
    assert_eq!(none.cpu_boost(0, now, 1024).unwrap(), 0);
    assert_eq!((none.task_boost(0).unwrap(), none.task_uclamp_min(0).unwrap()), (0, 0));
    assert_eq!(none.rq_boost(0).unwrap(), 0);
}

#[test]
fn a_wrong_name_or_parameter_is_told_what_there_is() {
    for (spec, parts) in [
        ("schedutil", ["no IO boost is called `schedutil`", "iowait, none, per-task-v2, per-task"]),
        ("none,x=1", ["IO boost `none,x=1` has no parameter `x`", "it has none"]),
        ("iowait,boost_min=-1", ["`-1` is not a value for boost_min", "uint from 0"]),
        ("iowait@6.12", ["kernel trees have no files of IO boosts", "NAME or PATH.c"]),
    ] {
        let error = resolve(spec, Hz::H250).expect_err(spec).to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let menu = concat!(env!("CARGO_MANIFEST_DIR"), "/../../governors/cpuidle/menu.c");
    let error = resolve(menu, Hz::H250).expect_err("a governor is no boost").to_string();
    assert!(error.contains("it registers no IO boost; an initcall must call"), "{error}");
}

#[test]
fn the_guides_example_does_what_the_guide_says() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/write-an-io-boost.md");
    let text = std::fs::read_to_string(guide).unwrap();
    let (_, after) = text.split_once("```c\n").expect("the guide has an example");
    let (example, _) = after.split_once("\n```").expect("it ends");
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("steady.c");
    std::fs::write(&path, example).unwrap();

    let mut boost = instance(&format!("{},waits=3", path.display()));
    let mut waiter = Waiter::new(&mut boost, 0);
    let told: Vec<u32> = (0..4)
        .map(|_| {
            waiter.wait(MS);
            waiter.boost.cpu_boost(0, Instant(waiter.now_ns), 1024).unwrap()
        })
        .collect();
    assert_eq!(told, [0, 0, 512, 512]);
    let now = Instant(waiter.now_ns);
    assert_eq!((boost.task_boost(0).unwrap(), boost.cpu_boost(1, now, 160).unwrap()), (512, 0));
    boost.dequeue(0, 0, now, Flags::SLEEP).unwrap();
    assert_eq!((boost.task_boost(0).unwrap(), boost.cpu_boost(0, now, 1024).unwrap()), (0, 0));
}
