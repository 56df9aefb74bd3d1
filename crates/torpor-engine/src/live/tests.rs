// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A recording in pieces against the same in one piece, and against a replay of the file.

use super::*;
use std::path::{Path, PathBuf};
use torpor_governor::{CatalogOptions, Isolation};
use torpor_machine::units::{Duration, Instant};

#[allow(unreachable_pub)]
#[path = "../../../torpor-trace/tests/support/perf.rs"]
mod perf;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns perf's stream of the demo's recording.
fn demo() -> Vec<u8> {
    let file = std::fs::read(root().join("demo/web-server.perf.data")).unwrap();
    perf::as_stream(&file, <[u8]>::to_vec)
}

fn shadow(platform: &str, governors: &[&str], options: &str) -> Shadow {
    let plan = Plan {
        name: "stream".to_owned(),
        platform: torpor_machine::platform::resolve(platform).unwrap(),
        governors: governors.iter().map(|name| name.parse().unwrap()).collect(),
        options: serde_json::from_str(options).unwrap(),
    };
    let catalog = CatalogOptions { isolation: Isolation::None, ..Default::default() };
    Shadow::new(plan, Catalog::new(catalog)).unwrap()
}

/// Returns the result of a recording whose parts begin at `cuts`, and its windows; the first part
/// is its head.
fn grown(
    trace: &Trace,
    platform: &str,
    governors: &[&str],
    cuts: &[usize],
) -> (String, Vec<Window>) {
    let mut shadow = shadow(platform, governors, "{}");
    let mut from = 0;
    for &to in cuts.iter().chain([&trace.events.len()]) {
        let to = to.clamp(from, trace.events.len());
        if to > from {
            shadow.replay(&trace.events[from..to], &SoFar::whole(trace), 0).unwrap();
        }
        from = to;
    }
    let Shadow { name, request, catalog, running, windows, .. } = &mut shadow;
    let session = Session::bare(request, catalog);
    let bare = Trace { events: Vec::new(), ..trace.clone() };
    let outcome = running.as_mut().unwrap().finish(&session, name, &bare, windows).unwrap();
    (serde_json::to_string(&outcome.unwrap()).unwrap(), std::mem::take(windows))
}

fn replayed(trace: &Trace, platform: &str, governors: &[&str]) -> String {
    let shadow = shadow(platform, governors, "{}");
    let loaded = Loaded::of("stream", trace.clone(), 0);
    let outcome = session::run_on(&shadow.request, &[&loaded], &shadow.catalog, &Unwatched);
    serde_json::to_string(&outcome.unwrap()).unwrap()
}

/// Feeds bytes in pieces that end at `cuts`, and returns the result and the windows.
fn fed(bytes: &[u8], cuts: &[usize], advances: bool) -> (String, String) {
    let mut shadow = shadow("pixel6", &["menu", "teo"], "{}");
    let mut windows = Vec::new();
    let mut from = 0;
    for &to in cuts.iter().chain([&bytes.len()]) {
        let to = to.clamp(from, bytes.len());
        shadow.push(&bytes[from..to]).unwrap();
        if advances {
            windows.extend(shadow.advance(false).unwrap().windows);
        }
        from = to;
    }
    windows.extend(shadow.advance(true).unwrap().windows);
    let result = serde_json::to_string(shadow.result().unwrap()).unwrap();
    (result, serde_json::to_string(&windows).unwrap())
}

/// Returns cuts between `from` and `to` at random distances of up to `most`.
fn cuts(seed: u64, from: usize, to: usize, most: u64) -> Vec<usize> {
    let mut state = seed;
    let next = |&at: &usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Some(at + 1 + ((state >> 33) % most) as usize).filter(|at| *at < to)
    };
    std::iter::successors(Some(from), next).collect()
}

/// Returns the recording `times` times, one after the other.
fn repeated(trace: &Trace, times: i64) -> Trace {
    let (first, last) = trace.window.unwrap();
    let length = last.since(first) + Duration(1_000_000);
    let mut events = Vec::new();
    for lap in 0..times {
        let later =
            |at: Instant| if at == Instant::NEVER { at } else { at + Duration(length.0 * lap) };
        for event in &trace.events {
            use torpor_trace::EventKind::*;
            let mut event = *event;
            event.time = later(event.time);
            match &mut event.kind {
                HrtimerStart { expires, softexpires, .. } => {
                    (*expires, *softexpires) =
                        (later(expires.get()).into(), later(softexpires.get()).into());
                }
                HrtimerExpireEntry { now, .. } => *now = later(now.get()).into(),
                _ => {}
            }
            events.push(event);
        }
    }
    let window = Some((first, events[events.len() - 1].time));
    Trace { events, window, ..trace.clone() }
}

#[test]
fn pieces_of_any_size_give_the_same_bytes() {
    let bytes = demo();
    let whole = fed(&bytes, &[], false);
    let trace = torpor_trace::read_bytes("stream", &bytes).unwrap();
    assert!(whole.0 == replayed(&trace, "pixel6", &["menu", "teo"]), "a replay differs");
    for (advances, most) in [(false, 30_000), (true, 3_000)] {
        let cuts = cuts(most, 0, bytes.len(), most);
        assert!(fed(&bytes, &cuts, advances) == whole, "pieces differ");
    }
}

/// Compares a growing recording with a replay of it, and with itself in other parts.
fn compare(what: &str, trace: &Trace, platform: &str, governors: &[&str]) {
    let count = trace.events.len();
    let (whole, _) = grown(trace, platform, governors, &[]);
    assert!(whole == replayed(trace, platform, governors), "{what}, {platform}: a replay differs");
    let one = grown(trace, platform, governors, &[count / 2]);
    let many = grown(trace, platform, governors, &cuts(count as u64, count / 2, count, 1_000));
    assert!(one.0 == many.0, "{what}, {platform}: parts differ");
    let windows = |windows| serde_json::to_string(windows).unwrap();
    assert_eq!(windows(&one.1), windows(&many.1), "{what}, {platform}");
}

#[test]
fn growing_recording_is_replayed_as_a_whole_one() {
    let trace = torpor_trace::read_bytes("stream", &demo()).unwrap();
    compare("demo", &trace, "pixel6", &["menu", "teo"]);
}

#[test]
#[ignore = "slow: every recording"]
fn growing_recording_replays_like_a_complete_one() {
    let data = root().join("tests/data");
    let guests = std::fs::read_dir(data.join("guest")).unwrap().flatten();
    let mut paths: Vec<PathBuf> = guests.map(|at| at.path().join("trace.dat.gz")).collect();
    let simulated = std::fs::read_dir(data.join("simulated")).unwrap().flatten();
    paths.extend(
        simulated.map(|at| at.path()).filter(|at| at.extension().is_some_and(|e| e == "gz")),
    );
    paths.retain(|path| path.is_file());
    paths.sort();
    assert!(paths.len() > 20, "{paths:?}");
    let (mut compared, mut differing) = (0, Vec::new());
    for path in paths {
        let trace = torpor_trace::read(&path).unwrap();
        for platform in ["pixel6", "rk3399", "rome-7742"] {
            let machine = torpor_machine::platform::resolve(platform).unwrap();
            if machine.cpu_count() < trace.meta.cpu_count as usize {
                continue;
            }
            compared += 1;
            let what = path.display().to_string();
            let is_equal = std::panic::catch_unwind(|| {
                compare(&what, &trace, platform, &["menu", "teo", "ladder"]);
            });
            differing.extend(is_equal.is_err().then(|| format!("{what} {platform}")));
        }
    }
    assert!(differing.is_empty() && compared > 100, "{compared}: {differing:#?}");
}

#[test]
fn failing_governor_ends_its_own_column() {
    let trace = torpor_trace::read_bytes("stream", &demo()).unwrap();
    let hostile = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/governors/hostile.c");
    let half = [trace.events.len() / 2];
    let column = |outcome: &str, index: usize| {
        let outcome: serde_json::Value = serde_json::from_str(outcome).unwrap();
        outcome["traces"][0]["runs"][index].clone()
    };
    let (alone, _) = grown(&trace, "i5-10600k", &["teo", "menu"], &half);
    // A fault, and an endless loop.
    for how in [1, 2] {
        let hostile = format!("{},how={how},from=100", hostile.display());
        let (outcome, windows) = grown(&trace, "i5-10600k", &["teo", &hostile, "menu"], &half);
        let error = column(&outcome, 1)["error"].as_str().unwrap().to_owned();
        assert!(error.contains("select() on cpu"), "{error}");
        assert_eq!(windows[0].runs[1].error.as_ref(), Some(&error));
        for (index, other) in [(0, 0), (1, 2)] {
            assert_eq!(column(&alone, index)["metrics"], column(&outcome, other)["metrics"]);
        }
    }
}

#[test]
fn memory_does_not_grow_with_the_recording() {
    let once = torpor_trace::read_bytes("stream", &demo()).unwrap();
    let (times, count) = (14, once.events.len());
    let trace = repeated(&once, times);
    let mut shadow = shadow("pixel6", &["menu", "teo"], "{}");
    let mut held = Vec::new();
    for part in trace.events.chunks(count / 4) {
        shadow.replay(part, &SoFar::whole(&trace), 0).unwrap();
        held.push(shadow.running.as_ref().unwrap().held_spans());
    }
    let (early, late) = held.split_at(held.len() / 2);
    let most = |held: &[usize]| held.iter().copied().max().unwrap();
    assert!(most(late) <= most(early) + most(early) / 4, "{held:?}");
}

#[test]
#[ignore = "slow: the oracle"]
fn oracle_is_below_governors_in_each_window() {
    let trace = repeated(&torpor_trace::read_bytes("stream", &demo()).unwrap(), 20);
    let mut shadow = shadow("pixel6", &["menu", "teo", "oracle"], "{}");
    for part in trace.events.chunks(10_000) {
        shadow.replay(part, &SoFar::whole(&trace), 0).unwrap();
    }
    assert!(shadow.windows.len() >= 3, "{}", shadow.windows.len());
    for window in &shadow.windows {
        let oracle = window.runs[2].idle_energy_uj.unwrap();
        assert!(window.runs.iter().all(|run| run.idle_energy_uj.unwrap() >= oracle), "{window:?}");
    }
}

#[test]
fn windows_with_losses_are_marked() {
    let trace = torpor_trace::read_bytes("stream", &demo()).unwrap();
    let trace = repeated(&trace, 14);
    let mut shadow = shadow("pixel6", &["menu"], "{}");
    for (index, part) in trace.events.chunks(trace.events.len() / 20).enumerate() {
        let lost = if index < 3 { 0 } else { 7 };
        shadow.replay(part, &SoFar::whole(&trace), lost).unwrap();
    }
    let lost: Vec<u64> = shadow.windows.iter().map(|window| window.lost).collect();
    assert!(lost.contains(&7) && lost.iter().filter(|lost| **lost > 0).count() <= 2, "{lost:?}");
}

#[test]
fn relative_energy_tells_depths_apart() {
    let mut shadow = shadow("rome-7742", &["shallowest", "deepest"], "{}");
    shadow.push(&demo()).unwrap();
    let windows = shadow.advance(true).unwrap().windows;
    let sum = |run: usize| -> f64 {
        windows.iter().map(|window| window.runs[run].relative_energy.unwrap()).sum()
    };
    let (shallowest, deepest) = (sum(0), sum(1));
    assert!(deepest < 0.9 * shallowest, "{deepest} of {shallowest} s");
    let seconds: f64 = windows.iter().map(|window| window.duration_ns as f64 / 1e9).sum();
    assert!(shallowest <= seconds, "one CPU sleeps: {shallowest} of {seconds} s");
}
