// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A recording in pieces against the same in one piece, and against a replay of the file.

use super::*;
use std::path::{Path, PathBuf};

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
    Shadow::new(plan, Catalog::new(Default::default())).unwrap()
}

/// Returns the result of a recording whose parts begin at `cuts`, and its windows; the first part
/// is its head.
fn grown(trace: &Trace, platform: &str, governors: &[&str], cuts: &[usize]) -> (String, Vec<Window>) {
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

#[test]
fn pieces_of_any_size_give_the_same_bytes() {
    let bytes = demo();
    let whole = fed(&bytes, &[], false);
    let trace = torpor_trace::read_bytes("stream", &bytes).unwrap();
    assert!(whole.0 == replayed(&trace, "pixel6", &["menu", "teo"]), "a replay differs");
    let cuts: Vec<usize> = (0..bytes.len()).step_by(9_973).flat_map(|at| [at, at + 1]).collect();
    for advances in [false, true] {
        assert!(fed(&bytes, &cuts, advances) == whole, "pieces differ");
    }
}

#[test]
fn growing_recording_is_replayed_as_a_whole_one() {
    let trace = torpor_trace::read_bytes("stream", &demo()).unwrap();
    let governors = ["menu", "teo", "ladder"];
    for platform in ["pixel6", "rk3399", "rome-7742"] {
        let count = trace.events.len();
        let (whole, windows) = grown(&trace, platform, &governors, &[]);
        let replayed = replayed(&trace, platform, &governors);
        if whole != replayed {
            std::fs::write("/tmp/h/shade-a.json", &whole).unwrap();
            std::fs::write("/tmp/h/shade-b.json", &replayed).unwrap();
        }
        assert!(whole == replayed, "{platform}: a replay differs");
        let cuts: Vec<usize> = (count / 2..count).step_by(777).collect();
        let one = grown(&trace, platform, &governors, &cuts[..1]);
        let many = grown(&trace, platform, &governors, &cuts);
        assert!(one.0 == many.0, "{platform}: parts differ");
        let sleeps = |windows: &[Window]| -> u64 { windows.iter().map(|w| w.runs[0].sleeps).sum() };
        assert_eq!(sleeps(&windows), sleeps(&many.1), "{platform}");
    }
}
