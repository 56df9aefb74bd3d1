// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Frequency policies: worked examples of schedutil, and failing ones. Whether schedutil decides as
//! the kernel's file does is tested in torpor-sim.

mod containment;
mod schedutil;
#[path = "../support/mod.rs"]
mod support;

use support::catalog;
use torpor_governor::{
    CpufreqCpu, CpufreqInstance, CpufreqPolicy, CpufreqSetup, CpufreqSpec, FreqDomain, FreqOpp,
    GovernorError,
};
use torpor_units::{CpuId, Duration, Hz, Instant};

const OPPS_KHZ: [u32; 4] = [250_000, 500_000, 750_000, 1_000_000];

fn resolve(spec: &str) -> Result<CpufreqPolicy, GovernorError> {
    catalog().resolve_cpufreq(&spec.parse()?, Hz::H250)
}

/// A clock with a driver that needs `latency` for a change, and wants `delay` between two.
struct Machine {
    opps: Vec<FreqOpp>,
    latency: Duration,
    delay: Option<Duration>,
}

impl Machine {
    fn new(opps_khz: &[u32]) -> Machine {
        let opp = |&freq_khz| FreqOpp { freq_khz, is_inefficient: false };
        let opps = opps_khz.iter().map(opp).collect();
        Machine { opps, latency: Duration::ZERO, delay: Some(Duration::ZERO) }
    }

    /// CPUs 0 and 4 share a clock, CPU 2 has one of its own.
    fn run(&self, spec: &str) -> Result<CpufreqInstance, GovernorError> {
        let domain = |cpus, capacity| FreqDomain {
            cpus,
            capacity,
            opps: &self.opps,
            transition_latency: self.latency,
            transition_delay: self.delay,
        };
        let domains = [domain(&[CpuId(0), CpuId(4)], 1024), domain(&[CpuId(2)], 512)];
        let release = spec.parse::<CpufreqSpec>()?.release();
        resolve(spec)?.instantiate(&CpufreqSetup { domains: &domains, release })
    }
}

fn instance(spec: &str) -> CpufreqInstance {
    Machine::new(&OPPS_KHZ).run(spec).unwrap_or_else(|e| panic!("{e}"))
}

fn busy(util: u64) -> CpufreqCpu {
    CpufreqCpu { util, ..CpufreqCpu::idle(0, 1024) }
}

#[test]
fn each_ships_with_its_summary_and_parameters() {
    let known = torpor_governor::Catalog::cpufreqs().unwrap();
    let names: Vec<&str> = known.iter().map(|b| b.name).collect();
    assert_eq!(names, ["schedutil"]);
    assert!(known[0].summary.ends_with('.') && known[0].rating.is_none(), "{known:?}");
    let [limit] = &known[0].params[..] else { panic!("{known:?}") };
    assert_eq!((&limit.name[..], &limit.default[..]), ("rate_limit_us", "-1"));
    assert!(limit.description.contains("default"), "{limit:?}");
}

#[test]
fn a_wrong_name_or_parameter_is_told_what_there_is() {
    for (spec, parts) in [
        ("ondemand", ["no frequency policy is called `ondemand`", "schedutil"]),
        (
            "schedutil,x=1",
            ["frequency policy `schedutil,x=1` has no parameter `x`", "rate_limit_us"],
        ),
        ("schedutil,rate_limit_us=fast", ["`fast` is not a value for rate_limit_us", "int from"]),
        ("schedutil@5.4", ["`5.4` is not a release", "`@6.1` or `@6.12`"]),
        ("schedutil@6.1x", ["`6.1x` is not a release", "`@6.1` or `@6.12`"]),
    ] {
        let error = resolve(spec).expect_err(spec).to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let iowait = concat!(env!("CARGO_MANIFEST_DIR"), "/../../governors/ioboost/iowait.c");
    let error = resolve(iowait).expect_err("a boost is no frequency policy").to_string();
    let expected = "it registers no frequency policy; an initcall must call cpufreq_register()";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_release_follows_the_name_or_the_file() {
    for (text, release, printed) in [
        ("schedutil", "6.12", "schedutil"),
        ("schedutil@6.12,rate_limit_us=5", "6.12", "schedutil,rate_limit_us=5"),
        ("schedutil@6.1,rate_limit_us=5", "6.1", "schedutil@6.1,rate_limit_us=5"),
        ("./a@b/mine.c", "6.12", "./a@b/mine.c"),
        ("./a@b/mine.c@6.1,x=1,y=2", "6.1", "./a@b/mine.c@6.1,x=1,y=2"),
    ] {
        let spec: CpufreqSpec = text.parse().unwrap();
        assert_eq!(
            (spec.release().to_string(), spec.to_string()),
            (release.into(), printed.into())
        );
    }
}

#[test]
fn the_guides_example_does_what_the_guide_says() {
    let guide =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/write-a-frequency-policy.md");
    let text = std::fs::read_to_string(guide).unwrap();
    let (_, after) = text.split_once("```c\n").expect("the guide has an example");
    let (example, _) = after.split_once("\n```").expect("it ends");
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("twostep.c");
    std::fs::write(&path, example).unwrap();

    let mut policy = instance(&format!("{},up_pct=60,hold_ms=10", path.display()));
    let mut step = |ms: i64, util: u64| {
        let now = Instant(ms * 1_000_000);
        policy.show(0, 0, busy(util));
        if !policy.is_due(0, now) {
            return None;
        }
        policy.update(0, 0, now, false).unwrap()
    };
    // 614 is the last below 60 % of 1024. 3 is the fastest OPP, 0 the slowest.
    assert_eq!([step(1, 614), step(2, 615)], [None, Some(3)]);
    assert_eq!([step(3, 10), step(11, 10), step(12, 10)], [None, None, Some(0)], "held for 10 ms");
    assert!(!policy.predicts());
}
