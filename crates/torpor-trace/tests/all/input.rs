// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Pipes, packed files, and files that are endless, damaged or change while they are read.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use torpor_trace::{
    Event, Sink, SoFar, Source, TraceError, read, read_bytes, read_while, read_within,
};

const LINE: &str =
    "          <idle>-0       [001] d..2.     4.194179: cpu_idle: state=3 cpu_id=1\n";

/// A temporary folder.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("torpor-input-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn fifo(&self) -> PathBuf {
        let path = self.0.join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    fn text(&self, lines: usize) -> PathBuf {
        let path = self.0.join("trace.txt");
        std::fs::write(&path, LINE.repeat(lines)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn endless_device_is_refused_early() {
    let error = read(Path::new("/dev/zero")).unwrap_err();
    assert!(matches!(error, TraceError::UnknownFormat { .. }), "{error}");
}

#[test]
fn a_pipe_is_read_to_its_end() {
    let folder = Folder::new();
    let path = folder.fifo();
    let trace = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pipe = OpenOptions::new().write(true).open(&path).unwrap();
            for _ in 0..2_000 {
                pipe.write_all(LINE.as_bytes()).unwrap();
            }
        });
        read(&path).unwrap()
    });
    assert_eq!((trace.events.len(), trace.losses.len()), (2_000, 0));
}

/// As in `zcat trace.gz | torpor replay -`.
#[test]
fn a_dash_is_standard_input() {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors. No other test reads standard input, which the
    // first one replaces.
    let mut writer = unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        assert_eq!(libc::dup2(ends[0], 0), 0);
        File::from_raw_fd(ends[1])
    };
    writer.write_all(LINE.repeat(3).as_bytes()).unwrap();
    drop(writer);
    assert_eq!(read(Path::new("-")).unwrap().events.len(), 3);
}

/// The pipe has no writer.
#[test]
fn waiting_for_a_pipe_can_be_cancelled() {
    let folder = Folder::new();
    let start = Instant::now();
    let error =
        read_while(&folder.fifo(), &|| start.elapsed() < Duration::from_millis(200)).unwrap_err();
    assert!(matches!(error, TraceError::Stopped { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

fn gzip(path: &Path, parts: impl Iterator<Item = Vec<u8>>) {
    let mut gzip =
        flate2::write::GzEncoder::new(File::create(path).unwrap(), flate2::Compression::fast());
    for part in parts {
        gzip.write_all(&part).unwrap();
    }
    gzip.finish().unwrap();
}

/// Counts events (0), and claims memory for each (1).
struct Holding(u64, u64);

impl Sink for Holding {
    fn events(&mut self, events: Vec<Event>, _: &SoFar<'_>) {
        self.0 += events.len() as u64;
    }

    fn held_bytes(&self) -> u64 {
        self.0 * self.1
    }
}

#[test]
fn memory_is_bounded_by_events_not_only_bytes() {
    let folder = Folder::new();
    let path = folder.0.join("a.gz");
    let text = LINE.repeat(20_000);
    gzip(&path, std::iter::once(text.clone().into_bytes()));
    let (text_bytes, events_bytes) = (text.len() as u64, 20_000 * 200);
    for (max_bytes, fits) in [
        (text_bytes - 1, false),
        (text_bytes + events_bytes / 2, false),
        (text_bytes + events_bytes, true),
    ] {
        match read_within(&path, max_bytes, &|| true) {
            Ok(trace) => assert!(fits && trace.events.len() == 20_000, "{max_bytes}"),
            Err(error) => {
                assert!(!fits && matches!(error, TraceError::OverMemory { .. }), "{error}");
                assert!(error.to_string().contains("--memory"), "{error}");
            }
        }
    }
    for (held_bytes, fits) in [(10, true), (1_000, false)] {
        let source = Source::open_within(&path, text_bytes + events_bytes, &|| true).unwrap();
        assert_eq!(source.stream(&mut Holding(0, held_bytes)).is_ok(), fits, "{held_bytes}");
    }
}

#[test]
fn bytes_of_a_pipe_count_for_the_bound() {
    let folder = Folder::new();
    let path = folder.fifo();
    let text = LINE.repeat(20_000);
    let (text_bytes, events_bytes) = (text.len() as u64, 20_000 * 200);
    let read = |max_bytes| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut pipe = OpenOptions::new().write(true).open(&path).unwrap();
                // The reader may leave before the end.
                let _ = pipe.write_all(text.as_bytes());
            });
            read_within(&path, max_bytes, &|| true)
        })
    };
    assert!(matches!(read(text_bytes / 2), Err(TraceError::TooLarge { .. })));
    let between = text_bytes + events_bytes / 2;
    assert!(matches!(read(between), Err(TraceError::OverMemory { .. })));
    assert_eq!(read(text_bytes + events_bytes).unwrap().events.len(), 20_000);
}

#[test]
fn unpacking_can_be_cancelled() {
    let folder = Folder::new();
    let path = folder.0.join("long.gz");
    gzip(&path, std::iter::once(LINE.into()).chain((0..4).map(|_| vec![b'x'; 64 << 20])));
    let is_open = AtomicBool::new(false);
    let go_on = || !is_open.swap(true, Ordering::SeqCst);
    let error = read_while(&path, &go_on).unwrap_err();
    assert!(matches!(error, TraceError::Stopped { .. }), "{error}");
}

/// Guards of maps are few: a test that takes all of them runs apart from those that need one.
pub static GUARDS: RwLock<()> = RwLock::new(());

/// Cuts the file after the first events.
struct Cutting<'a> {
    path: &'a Path,
    seen: usize,
}

impl Sink for Cutting<'_> {
    fn events(&mut self, events: Vec<Event>, _: &SoFar<'_>) {
        if self.seen == 0 {
            File::options().write(true).open(self.path).unwrap().set_len(5_000).unwrap();
        }
        self.seen += events.len();
    }
}

#[test]
fn file_cut_while_read_is_reported() {
    let _guards = GUARDS.read();
    let folder = Folder::new();
    let path = folder.text(1_500_000);
    let mut cutting = Cutting { path: &path, seen: 0 };
    let error = torpor_trace::stream(&path, &mut cutting).unwrap_err();
    assert!(matches!(error, TraceError::Shortened { .. }), "{error}");
}

/// Cut to nothing, inside a page (where the map has zeros without a fault), and by one byte.
#[test]
fn a_file_cut_before_reading_is_reported() {
    let _guards = GUARDS.read();
    let folder = Folder::new();
    for left in [0, 4_096, 5_000, LINE.len() as u64 * 1_000 - 1] {
        let path = folder.text(1_000);
        let source = Source::open_while(&path, &|| true).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(left).unwrap();
        let mut sink = Cutting { path: &path, seen: 1 };
        let error = source.stream(&mut sink).unwrap_err();
        assert!(matches!(error, TraceError::Shortened { .. }), "{left}: {error}");
    }
}

#[test]
fn more_maps_than_guards_are_read() {
    let _guards = GUARDS.write();
    let folder = Folder::new();
    let path = folder.text(10);
    let sources: Vec<Source> =
        (0..100).map(|_| Source::open_while(&path, &|| true).unwrap()).collect();
    for source in &sources {
        let mut sink = Cutting { path: &path, seen: 1 };
        source.stream(&mut sink).unwrap();
        assert_eq!(sink.seen, 11);
    }
}

/// Names must not reach the terminal as escape sequences.
#[test]
fn errors_escape_control_characters() {
    let mut dat = b"\x17\x08\x44tracing\x1b[31m\0".to_vec();
    dat.extend([0; 32]);
    let error = read_bytes("a\x1b]0;title\x07b", &dat).unwrap_err().to_string();
    assert!(error.contains(r"\u001b[31m") && error.contains(r"a\u001b]0;"), "{error}");
    assert!(error.chars().all(|c| c == '\n' || !c.is_control()), "{error:?}");
}

fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in members {
        let options = zip::write::SimpleFileOptions::default();
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut writer = liblzma::write::XzEncoder::new(Vec::new(), 6);
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut writer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

#[test]
fn packed_recordings_are_read_and_cuts_reported() {
    let text = LINE.repeat(5_000);
    let report = [("version.txt", &b"1.0"[..]), ("FS/data/systrace.txt", text.as_bytes())];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let streams = [
        gzip.finish().unwrap(),
        zstd::encode_all(text.as_bytes(), 3).unwrap(),
        xz(text.as_bytes()),
        bzip2(text.as_bytes()),
    ];
    let archive = zip(&report);
    let nested = zip(&[("trace.txt.xz", &streams[2])]);
    for bytes in streams.iter().chain([&archive, &nested]) {
        let trace = read_bytes("a", bytes).unwrap();
        assert_eq!((trace.events.len(), trace.losses.len()), (5_000, 0));
    }
    for bytes in &streams {
        assert_eq!(read_bytes("a", &bytes.repeat(2)).unwrap().events.len(), 10_000);
        let cut = read_bytes("a", &bytes[..bytes.len() - 3]).unwrap();
        assert_eq!(crate::support::loss(&cut, "undecompressed_blocks"), 1);
    }
    // An archive has its directory at its end.
    let error = read_bytes("a", &archive[..archive.len() - 30]).unwrap_err();
    assert!(error.to_string().contains("a ZIP archive that cannot be opened"), "{error}");
}

#[test]
fn archive_must_hold_exactly_one_recording() {
    let text = LINE.repeat(10);
    let error_of =
        |members: &[(&str, &[u8])]| read_bytes("a.zip", &zip(members)).unwrap_err().to_string();
    let several = error_of(&[("a/b.txt", text.as_bytes()), ("c.txt", text.as_bytes())]);
    assert!(several.contains("2 recordings: `a/b.txt`, `c.txt`"), "{several}");
    assert!(several.contains("hint: choose one: `unzip -p"), "{several}");
    let none = error_of(&[("notes.txt", b"hello"), ("empty.txt", b"")]);
    assert!(none.contains("2 files without a recording that can be read"), "{none}");
    assert!(error_of(&[]).contains("0 files without a recording"));
}

/// 1 GB of zeros, or members of zeros, are refused by their first bytes.
#[test]
fn bombs_are_refused_early() {
    let folder = Folder::new();
    let path = folder.0.join("zeros.gz");
    gzip(&path, (0..16).map(|_| vec![0; 64 << 20]));
    let start = Instant::now();
    let error = read(&path).unwrap_err();
    assert!(matches!(error, TraceError::UnknownFormat { .. }), "{error}");
    let zeros = vec![0; 32 << 20];
    let bomb = zip(&[("a", &zeros), ("b", &zeros), ("c", &zeros)]);
    assert!(bomb.len() < 1 << 20);
    let error = read_bytes("bomb", &bomb).unwrap_err();
    assert!(error.to_string().contains("3 files without a recording"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn reports_are_refused_by_name() {
    let refused = [
        (
            "usec\tTime_Of_Day_Seconds\tCPU\tAvg_MHz\tBusy%\tBzy_MHz\tTSC_MHz\n",
            "a log of turbostat",
        ),
        ("____________________\n * * * PowerTOP Report *\n", "a report of PowerTOP"),
        ("           time    cpu  task name   wait time  sch delay   run time\n", "sched timehist"),
        (" Performance counter stats for 'system wide':\n", "a report of `perf stat`"),
        ("Number of idle states: 1\nC1:\nUsage: 7\nDuration: 9\n", "`cpupower idle-info`"),
        ("/* CTF 1.8 */\n", "the metadata of a CTF trace"),
    ];
    for (text, what) in refused {
        let error = read_bytes("a", text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("hint: "), "{error}");
    }
    let error = read_bytes("a", b"\xc1\x1f\xfc\xc1\0\0\0\0").unwrap_err().to_string();
    assert!(error.contains("CTF") && error.contains("babeltrace2"), "{error}");
}

/// Every byte is changed, and every cut made.
#[test]
fn damaged_packings_are_errors_or_recordings() {
    let text = LINE.repeat(20);
    let members = [("notes", &b"none"[..]), ("trace", text.as_bytes())];
    for packed in [zip(&members), xz(text.as_bytes()), bzip2(text.as_bytes())] {
        for index in 0..packed.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut damaged = packed.clone();
                damaged[index] ^= change;
                if let Ok(trace) = read_bytes("a", &damaged) {
                    assert!(trace.events.len() <= 20, "byte {index}");
                }
            }
            if let Ok(trace) = read_bytes("a", &packed[..index]) {
                assert!(trace.events.len() <= 20, "cut at {index}");
            }
        }
    }
}

#[test]
fn a_folder_is_refused_with_a_hint() {
    let folder = Folder::new();
    let error = read(&folder.0).unwrap_err().to_string();
    assert!(error.contains("it is a folder\nhint: name a recording in it"), "{error}");
    let kernel = folder.0.join("kernel");
    std::fs::create_dir(&kernel).unwrap();
    std::fs::write(kernel.join("metadata"), b"\x57\x1d\xd1\x75").unwrap();
    for path in [&folder.0, &kernel] {
        let error = read(path).unwrap_err().to_string();
        let hint = format!("`babeltrace2 --clock-seconds {} >trace.txt`", path.display());
        assert!(error.contains(&hint), "{error}");
    }
}
