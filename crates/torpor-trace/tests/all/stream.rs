// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Streaming a recording gives the same as reading it.

use crate::support::dat::{Dat, Page, X86_64};
use crate::support::dat_sample::{dat, hrtimer, idle, switch};
use std::path::{Path, PathBuf};
use torpor_trace::{Event, EventKind, Sink, SoFar, Source, Trace};

#[derive(Default)]
struct Collected {
    events: Vec<Event>,
    /// Number of events per call.
    calls: Vec<usize>,
    tasks: Vec<String>,
    progress: Vec<u64>,
}

impl Sink for Collected {
    fn events(&mut self, events: Vec<Event>, so_far: &SoFar<'_>) {
        self.calls.push(events.len());
        for event in &events {
            if let EventKind::SchedSwitch { next_comm: Some(name), .. } = event.kind {
                self.tasks.push(so_far.names.text(name).to_owned());
            }
            assert!(event.cpu.0 < so_far.cpu_count);
        }
        self.events.extend(events);
    }

    fn progress(&mut self, read_bytes: u64, total_bytes: u64) {
        assert!(read_bytes <= total_bytes);
        self.progress.push(read_bytes);
    }
}

fn saved(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("torpor-stream-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary directory is writable");
    path
}

fn both(path: &Path) -> (Trace, Trace, Collected) {
    let mut collected = Collected::default();
    let rest = torpor_trace::stream(path, &mut collected).unwrap();
    (torpor_trace::read(path).unwrap(), rest, collected)
}

fn assert_same(whole: &Trace, rest: &Trace, collected: &Collected) {
    assert!(rest.events.is_empty());
    assert!(whole.events == collected.events);
    assert_eq!(whole.meta, rest.meta);
    assert_eq!(whole.carries, rest.carries);
    assert_eq!(whole.window, rest.window);
    assert_eq!(whole.event_counts, rest.event_counts);
    assert_eq!(whole.losses, rest.losses);
    assert!(collected.progress.is_sorted());
}

/// Returns a recording of four CPUs with different event rates, so that a page of the slowest spans
/// many of the fastest. The clock is 3 ms ahead of the timers'.
pub fn long(events_per_cpu: u64, compression: &'static str) -> Dat {
    let cpus = (0..4u64).map(|cpu| {
        let mut pages = vec![Page::new(X86_64, 1_000_000_000)];
        for index in 0..events_per_cpu >> (2 * cpu) {
            let at = 1_000_000_000 + ((index * 1_000) << (2 * cpu)) + cpu;
            let event = match index % 3 {
                0 => idle(X86_64, -1, cpu as u32),
                1 => hrtimer(X86_64, 7, at as i64 - 3_000_000),
                _ => switch(X86_64, 0, 1, &format!("task-{}", index % 1_000)),
            };
            if !pages.last().is_some_and(|page| page.has_room(event.len())) {
                pages.push(Page::new(X86_64, at));
            }
            let page = pages.pop().expect("there is one");
            pages.push(page.event(at, &event));
        }
        pages
    });
    let cpus = cpus.collect();
    Dat { instances: vec![("", "mono", cpus)], ..dat(7, compression, X86_64) }
}

#[test]
fn a_long_recording_comes_in_batches() {
    let mut recording = long(800_000, "zstd");
    // The event is a second late: later ones were passed on before.
    let late = Page::new(X86_64, 1_000_000_000).event(1_000_000_000, &idle(X86_64, 1, 3));
    recording.instances[0].2[3].push(late);
    let path = saved("long", &recording.bytes());
    let (whole, rest, collected) = both(&path);
    std::fs::remove_file(&path).expect("it was written");
    assert_same(&whole, &rest, &collected);
    assert!(whole.events.is_sorted_by_key(|event| event.time));
    // 1, 1/4, 1/16 and 1/64 of 800,000.
    assert_eq!(whole.events.len(), 800_000 + 200_000 + 50_000 + 12_500);
    assert_eq!(crate::support::losses(&whole), [("out_of_order_events", 1)]);
    assert_eq!(whole.window.map(|(first, _)| first.0), Some(1_000_000_000));
    // The head, then smaller batches.
    assert!(collected.calls.len() > 1, "{:?}", collected.calls);
    assert!(collected.calls[1..].iter().all(|&count| count < 80_000), "{:?}", collected.calls);
    assert!(collected.tasks.iter().all(|task| task.starts_with("task-")));
}

#[test]
fn short_recordings_are_one_batch() {
    let own = ["plain.data"].map(crate::support::own_trace);
    let made = saved("short", &dat(6, "none", X86_64).bytes());
    let shared = ["pixel6a-startup.perfetto-trace", "perf_cpu_idle_zstd.data"];
    let shared = shared.map(crate::support::shared_trace).into_iter().flatten();
    for path in own.into_iter().chain([made.clone()]).chain(shared) {
        let (whole, rest, collected) = both(&path);
        assert_same(&whole, &rest, &collected);
        assert_eq!(collected.calls.len(), 1, "{path:?}");
    }
    std::fs::remove_file(made).expect("it was written");
}

#[test]
fn streaming_and_reading_have_the_same_errors() {
    let path = saved("bad", b"no recording");
    let mut collected = Collected::default();
    let streamed = torpor_trace::stream(&path, &mut collected).unwrap_err();
    assert_eq!(streamed.to_string(), torpor_trace::read(&path).unwrap_err().to_string());
    assert!(collected.calls.is_empty());
    std::fs::remove_file(&path).expect("it was written");
}

#[test]
fn an_open_recording_can_be_read_again() {
    let path = saved("twice", &long(400_000, "none").bytes());
    let source = Source::open_while(&path, &|| true).unwrap();
    // The open file outlives its name.
    std::fs::remove_file(&path).expect("it was written");
    let [first, second] = [(), ()].map(|()| {
        let mut collected = Collected::default();
        (source.stream(&mut collected).unwrap(), collected)
    });
    assert!(first.1.events == second.1.events && !first.1.events.is_empty());
    assert_eq!(first.0.meta, second.0.meta);
    assert_eq!(first.0.losses, second.0.losses);
}

#[test]
fn a_recording_may_name_its_machine() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/web-server.perf.data");
    let named = torpor_trace::machine_named(&demo).unwrap();
    assert_eq!(named, Some(("AMD EPYC".to_owned(), 2)));
    let text = crate::support::own_trace("plain.perf-script.txt");
    assert_eq!(torpor_trace::machine_named(&text).unwrap(), None);
    for bad in [&b"no recording"[..], b""] {
        let path = saved("unnamed", bad);
        let error = torpor_trace::machine_named(&path).unwrap_err();
        assert_eq!(error.to_string(), torpor_trace::read(&path).unwrap_err().to_string());
        std::fs::remove_file(&path).expect("it was written");
    }
}
