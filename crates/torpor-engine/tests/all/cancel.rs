// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Cancelling takes effect at once, in every phase of the work.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use torpor_engine::{EngineError, Options, Progress, Request, run};
use torpor_governor::Catalog;

/// Writes a recording of three weeks asleep: 450 million ticks at 250 Hz, which take a governor
/// that keeps them a minute.
fn long_sleep(name: &str) -> PathBuf {
    let at = [(100, 1), (101, -1), (102, 1), (1_814_502, -1), (1_814_503, 1), (1_814_504, -1)];
    let line = |&(s, state): &(u64, i64)| {
        let state = state as u32;
        format!("  <idle>-0  [000] d..2  {s}.000500: cpu_idle: state={state} cpu_id=0\n")
    };
    let text: String = at.iter().map(line).collect();
    let path = std::env::temp_dir().join(format!("torpor-cancel-{}-{name}", std::process::id()));
    std::fs::write(&path, format!("# tracer: nop\n#\n{text}")).expect("it can be written");
    path
}

/// Cancels after a while.
struct Impatient {
    until: Instant,
}

impl Progress for Impatient {
    fn advance(&self, _: &str, _: u64, _: u64) {}

    fn cancelled(&self) -> bool {
        Instant::now() >= self.until
    }
}

/// Returns the time from cancelling to the end of the replay.
fn cancelled_after(name: &str, platform: &str, governor: &str, options: Options) -> Duration {
    let path = long_sleep(name);
    let request = Request {
        traces: vec![path.clone()],
        platform: torpor_machine::platform::resolve(platform).unwrap(),
        governors: vec![governor.parse().unwrap()],
        options: Options { threads: Some(1), ..options },
    };
    let catalog = Catalog::new(Default::default());
    // Compilation of the governor is not measured.
    catalog.resolve(&request.governors[0], request.platform.hz).ok();
    let until = Instant::now() + Duration::from_millis(200);
    let outcome = run(&request, &catalog, &Impatient { until });
    std::fs::remove_file(path).expect("it was written");
    assert!(matches!(outcome, Err(EngineError::Interrupted)), "{name} came to an end");
    Instant::now().saturating_duration_since(until)
}

#[test]
fn a_replay_can_be_cancelled_inside_a_sleep() {
    let polls = Options {
        latency_limit: Some(torpor_machine::units::Duration::ZERO).into(),
        ..Options::default()
    };
    for (name, platform, governor, options) in [
        ("governor", "pixel6", "shallowest", Options::default()),
        // Only polling is quick enough, and it times out every 250 us or sooner.
        ("oracle", "i5-10600k", "oracle", polls),
    ] {
        let after = cancelled_after(name, platform, governor, options);
        // People notice half a second, even on a busy machine.
        assert!(after < Duration::from_millis(500), "{name}: {after:?}");
    }
}

#[test]
fn the_oracle_passes_three_weeks_in_a_moment() {
    let path = long_sleep("weeks");
    for platform in ["pixel6", "i5-10600k"] {
        let request = Request {
            traces: vec![path.clone()],
            platform: torpor_machine::platform::resolve(platform).unwrap(),
            governors: vec!["oracle".parse().unwrap()],
            options: Options::default(),
        };
        let until = Instant::now() + Duration::from_secs(20);
        run(&request, &Catalog::new(Default::default()), &Impatient { until }).unwrap();
    }
    std::fs::remove_file(path).expect("it was written");
}
