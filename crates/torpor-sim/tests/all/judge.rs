// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Torpor's own scheduler against Linux 6.12's, decision by decision; `examples/judge.rs` prints
//! all of it.

use crate::upstream;

use crate::support::request;
use std::path::Path;
use torpor_governor::{Catalog, CatalogOptions};
use torpor_platform::Platform;
use torpor_sim::machine::hosted::{Score, Verdict};
use torpor_sim::{Session, workload};

fn judge(test: &str, workload: &str, platform: &str) -> Option<Verdict> {
    let tree = upstream::kernel_sources("6.12", test)?;
    // Compiled kernels stay between runs.
    let cache_dir = Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
    let catalog = Catalog::new(CatalogOptions { cache_dir, ..Default::default() });
    let workload = workload::resolve(workload).unwrap_or_else(|e| panic!("{e}"));
    let platform = Platform::resolve(platform).unwrap_or_else(|e| panic!("{e}"));
    let mut request = request(platform, workload, &["menu"], 1_000);
    request.options.kernels = vec![tree.display().to_string().parse().unwrap()];
    request.options.cpufreq = vec!["schedutil".parse().unwrap()];
    let request = request.resolved().unwrap();
    let session = Session::new(&request, &catalog).unwrap_or_else(|e| panic!("{e}"));
    Some(session.judge(0, 1).unwrap_or_else(|e| panic!("{e}")))
}

/// At least so many were asked, and so much of them is equal.
#[track_caller]
fn agrees(what: &str, score: &Score, asked: u64, equal_pct: f64) {
    let (found, equal) = (score.asked, score.equal_pct());
    assert!(found >= asked && equal >= equal_pct, "{what}: {equal:.1} % of {found} are equal");
}

/// Three capacities and an energy model.
#[test]
fn frames_on_a_phone_are_placed_and_clocked_as_linux_does_it() {
    let Some(verdict) = judge("frames, judged by Linux 6.12", "frames", "pixel6") else { return };
    agrees("placement", &verdict.placement, 500, 99.0);
    agrees("overutilized", &verdict.overutilized, 500, 99.0);
    agrees("frequency", &verdict.frequency, 50, 95.0);
    agrees("next timer", &verdict.next_timer, 500, 90.0);
    agrees("preemption", &verdict.preemption, 50, 75.0);
    let (seen, all) = (verdict.seen_sleeps as f64, verdict.sleeps as f64);
    assert!(all > 500.0 && (seen / all - 1.0).abs() < 0.02, "{seen} of {all} sleeps are seen");
}

/// Like CPUs, more tasks than these: 10 % of the wake-ups depend on loads that we do not track.
#[test]
fn messages_between_many_tasks_preempt_as_in_linux() {
    let Some(verdict) = judge("messaging, judged by Linux 6.12", "messaging", "i5-10600k") else {
        return;
    };
    agrees("preemption", &verdict.preemption, 5_000, 99.0);
    agrees("placement", &verdict.placement, 5_000, 80.0);
    assert!(verdict.placement.equal_pct() < 100.0, "`wake_affine_weight()` is ours now?");
}
