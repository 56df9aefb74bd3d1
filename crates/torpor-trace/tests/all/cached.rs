// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A recording from the cache is the recording.

use crate::input::GUARDS;
use crate::stream::long;
use crate::support::dat::X86_64;
use crate::support::dat_sample::dat;
use crate::support::{own_trace, spelled};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use torpor_trace::{Cache, Event, Names, Sink, SoFar, Source, Trace, TraceError};

/// A cache of recordings of any length, and recordings beside it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn cache(&self) -> Cache {
        let folder = self.path("cache");
        Cache { folder, recording_min_bytes: 0, all_max_bytes: 1 << 30 }
    }

    fn source(&self, path: &Path) -> Source {
        Source::open_while(path, &|| true).unwrap().cached(Some(self.cache()))
    }

    fn saved(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// Returns the cached files, by name.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("cache/recordings")).into_iter().flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Returns true if the file was used since it was made old.
    fn is_used(file: &Path) -> bool {
        fs::metadata(file).unwrap().modified().unwrap() > SystemTime::UNIX_EPOCH
    }

    fn make_old(file: &Path) {
        File::open(file).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }

    /// Checks that nothing unfinished is left.
    fn assert_tidy(&self) {
        assert_eq!(fs::read_dir(self.path("cache/scratch")).unwrap().count(), 0);
    }
}

/// Everything that a reading passes on.
#[derive(Default, PartialEq)]
struct Passed {
    parts: Vec<Vec<Event>>,
    so_far: Vec<String>,
    /// The first events of each part, by the names so far and by those of the whole recording.
    spelled: [Vec<Vec<String>>; 2],
    rest: String,
}

const SPELLED: usize = 10_000;

fn spelled_part(part: &[Event], names: &Names) -> Vec<String> {
    let events = part.iter().take(SPELLED).copied().collect();
    spelled(&Trace { events, names: names.clone(), ..Trace::default() })
}

impl Sink for Passed {
    fn events(&mut self, events: Vec<Event>, so_far: &SoFar<'_>) {
        let &SoFar { names, carries, cpu_count, machine } = so_far;
        self.so_far.push(format!("{carries:?} {cpu_count} {machine:?}"));
        self.spelled[0].push(spelled_part(&events, names));
        self.parts.push(events);
    }
}

fn passed(source: &Source) -> Passed {
    let mut passed = Passed::default();
    let rest = source.stream(&mut passed).unwrap();
    let Trace { meta, events, window, names, carries, event_counts, losses } = rest;
    assert!(events.is_empty());
    let spell = |part: &Vec<Event>| spelled_part(part, &names);
    passed.spelled[1] = passed.parts.iter().map(spell).collect();
    passed.rest = format!("{meta:?} {window:?} {carries:?} {event_counts:?} {losses:?}");
    passed
}

#[test]
fn every_reading_passes_the_same_on() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/web-server.perf.data");
    let own = ["plain.data", "plain.perf-script.txt", "babeltrace.txt", "latency-format.txt"];
    let folder = Folder::new();
    let made = [
        folder.saved("short.dat", &dat(6, "none", X86_64).bytes()),
        folder.saved("long.dat", &long(800_000, "zstd").bytes()),
    ];
    for path in own.map(own_trace).into_iter().chain([demo]).chain(made) {
        let folder = Folder::new();
        let parsed = passed(&Source::open_while(&path, &|| true).unwrap());
        let source = folder.source(&path);
        for _ in 0..2 {
            assert!(passed(&source) == parsed, "{path:?}");
        }
        let [file] = &folder.files()[..] else { panic!("{path:?} is not cached once") };
        Folder::make_old(file);
        assert!(passed(&folder.source(&path)) == parsed, "{path:?}");
        assert!(Folder::is_used(file), "{path:?}");
        folder.assert_tidy();
        let read = folder.source(&path).read(&|| true).unwrap();
        assert!(read.events == torpor_trace::read(&path).unwrap().events);
    }
}

#[test]
fn symbols_beside_a_recording_make_another() {
    let folder = Folder::new();
    let path = folder.saved("plain.data", &fs::read(own_trace("plain.data")).unwrap());
    let without = passed(&folder.source(&path));
    let symbols = fs::read(own_trace("plain.data.kallsyms")).unwrap();
    folder.saved("plain.data.kallsyms", &symbols);
    let with = passed(&folder.source(&path));
    assert!(with != without && passed(&folder.source(&path)) == with);
    assert_eq!(folder.files().len(), 2);
}

#[test]
fn a_damaged_file_is_not_read() {
    let folder = Folder::new();
    let path = own_trace("babeltrace.txt");
    let intact = passed(&folder.source(&path));
    let file = folder.files().pop().unwrap();
    let bytes = fs::read(&file).unwrap();
    let flips = (0..bytes.len()).map(|at| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        bytes
    });
    let cuts = (0..bytes.len()).step_by(97).map(|at| bytes[..at].to_vec());
    let longer = [bytes.repeat(2), [&bytes[..], b"\0"].concat()];
    for damaged in flips.chain(cuts).chain(longer) {
        fs::write(&file, damaged).unwrap();
        assert!(passed(&folder.source(&path)) == intact);
        assert!(fs::read(&file).unwrap() == bytes, "it was written again");
    }
}

#[test]
fn a_file_of_another_recording_is_not_read() {
    let folder = Folder::new();
    let (one, other) = (own_trace("babeltrace.txt"), own_trace("latency-format.txt"));
    let intact = passed(&folder.source(&one));
    let file = folder.files().pop().unwrap();
    passed(&folder.source(&other));
    let foreign = folder.files().into_iter().find(|path| *path != file).unwrap();
    fs::copy(foreign, &file).unwrap();
    assert!(passed(&folder.source(&one)) == intact);
}

#[test]
fn recordings_unused_for_longest_make_room() {
    let folder = Folder::new();
    let text = fs::read_to_string(own_trace("babeltrace.txt")).unwrap();
    let read = |copies: usize, all_max_bytes| {
        let path = folder.saved("trace.txt", text.repeat(copies).as_bytes());
        let cache = Cache { all_max_bytes, ..folder.cache() };
        passed(&Source::open_while(&path, &|| true).unwrap().cached(Some(cache)));
        // Names have the length.
        let start = format!("{}-", text.len() * copies);
        let is_it =
            |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().starts_with(&start);
        folder.files().into_iter().find(is_it)
    };
    let known = [20, 21, 22, 23, 24, 25].map(|copies| read(copies, 1 << 30).unwrap());
    for (file, age_s) in known.iter().zip([60, 50, 40, 30, 20, 10]) {
        let then = SystemTime::now() - Duration::from_secs(age_s);
        File::open(file).unwrap().set_modified(then).unwrap();
    }
    // Was used just now.
    read(20, 1 << 30);
    let limit = known.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    let last = read(26, limit).expect("there is room for one of six");
    assert_eq!([&known[0], &known[1], &known[2]].map(|file| file.exists()), [true, false, true]);
    assert!(last.exists() && folder.files().len() == 6);
    let one_bytes = fs::metadata(&last).unwrap().len();
    assert_eq!(read(27, 2 * one_bytes), None, "it takes more than a quarter");
    folder.assert_tidy();
}

#[test]
fn short_recordings_are_not_cached() {
    let folder = Folder::new();
    let path = own_trace("babeltrace.txt");
    let recording_min_bytes = fs::metadata(&path).unwrap().len() + 1;
    let cache = Cache { recording_min_bytes, ..folder.cache() };
    passed(&Source::open_while(&path, &|| true).unwrap().cached(Some(cache)));
    assert!(!folder.path("cache").exists());
}

#[test]
fn a_folder_of_no_use_is_no_error() {
    let folder = Folder::new();
    let path = own_trace("babeltrace.txt");
    folder.saved("cache", b"a file");
    let source = folder.source(&path);
    let parsed = passed(&source);
    fs::remove_file(folder.path("cache")).unwrap();
    // Its SHA-256 is known, its name in the cache is not.
    assert!(passed(&source) == parsed && folder.files().is_empty());
    folder.assert_tidy();
    fs::remove_dir(folder.path("cache/recordings")).unwrap();
    folder.saved("cache/recordings", b"a file");
    assert!(passed(&folder.source(&path)) == parsed);
}

/// A sink that stops at the first events, or changes the file then.
struct Spoiling<'a> {
    path: &'a Path,
    stops: bool,
    is_called: bool,
}

impl Sink for Spoiling<'_> {
    fn events(&mut self, _: Vec<Event>, _: &SoFar<'_>) {
        self.is_called = true;
        if !self.stops {
            File::options()
                .write(true)
                .open(self.path)
                .unwrap()
                .set_modified(SystemTime::UNIX_EPOCH)
                .unwrap();
        }
    }

    fn is_stopped(&self) -> bool {
        self.stops && self.is_called
    }
}

#[test]
fn only_whole_unchanged_recordings_are_cached() {
    let _guards = GUARDS.read();
    let folder = Folder::new();
    let path = folder.saved("long.dat", &long(1_600_000, "none").bytes());
    let is_stopped = |stops| {
        let mut sink = Spoiling { path: &path, stops, is_called: false };
        let streamed = folder.source(&path).stream(&mut sink);
        assert!(sink.is_called);
        folder.assert_tidy();
        matches!(streamed, Err(TraceError::Stopped { .. }))
    };
    assert!(is_stopped(true) && !is_stopped(false));
    assert_eq!(folder.files().len(), 0);
    // The file is as old as when it was opened.
    assert!(!is_stopped(false));
    assert_eq!(folder.files().len(), 1);
    assert!(is_stopped(true), "a reading from the cache");
}

#[test]
fn memory_is_bounded_as_in_parsing() {
    let folder = Folder::new();
    let path = own_trace("plain.data");
    let count = torpor_trace::read(&path).unwrap().events.len() as u64;
    passed(&folder.source(&path));
    for (max_bytes, fits) in [(100 * count, false), (400 * count, true)] {
        for cache in [None, Some(folder.cache())] {
            let source = Source::open_within(&path, max_bytes, &|| true).unwrap().cached(cache);
            let read = source.read(&|| true);
            let is_over = matches!(read, Err(TraceError::OverMemory { .. }));
            assert_eq!((read.is_ok(), is_over), (fits, !fits), "{max_bytes}");
        }
    }
}

#[test]
fn readings_at_once_share_the_cache() {
    let folder = Folder::new();
    let path = own_trace("plain.data");
    let parsed = passed(&Source::open_while(&path, &|| true).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..5).for_each(|_| assert!(passed(&folder.source(&path)) == parsed)));
        }
    });
    assert_eq!(folder.files().len(), 1);
    folder.assert_tidy();
}
