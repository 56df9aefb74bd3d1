// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Damages every recording: cuts it, flips single bits, and replaces numbers by extremes. The result
//! is an error or a trace with its losses; there is no panic and no hang, and memory is limited.
//!
//! `make test-long` cuts each file at every 1,000th byte, flips 10,000 bits and replaces 10,000
//! numbers, one at a time. The ordinary test does less than a hundredth of that.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use support::made;
use torpor_trace::{Severity, Trace, read_bytes};

/// Counts the memory of this thread, and its peak.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let held = HELD.get() + bytes;
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

// SAFETY: every call is passed on unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's guarantees are those of the callee.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory limit for a damaged file: a multiple of the intact file's, and a constant for tables.
const BYTES_PER_BYTE: isize = 3;
const BYTES_ANYWAY: isize = 8 << 20;
/// Time limit. Intact files take less than a hundredth of it.
const TOO_LONG: Duration = Duration::from_secs(20);

/// Outcomes of reading one file.
#[derive(Default)]
struct Ends {
    errors: u64,
    lossy: u64,
    /// All events are unchanged.
    same: u64,
    /// A value changed unnoticeably, or the cut was between two packets or lines.
    differs: u64,
    most_bytes: isize,
    longest: Duration,
}

impl Ends {
    fn reads(&self) -> u64 {
        self.errors + self.lossy + self.same + self.differs
    }

    fn read(&mut self, bytes: &[u8], intact: &Trace, limit_bytes: isize, what: &str) {
        let (before, start) = (HELD.get(), Instant::now());
        PEAK.set(before);
        let outcome = read_bytes("damaged", bytes);
        let (took, held) = (start.elapsed(), PEAK.get() - before);
        support::sound::check(&outcome);
        assert!(held <= limit_bytes, "{what}: {held} bytes, of {limit_bytes}");
        assert!(took < TOO_LONG, "{what}: {took:?}");
        self.most_bytes = self.most_bytes.max(held);
        self.longest = self.longest.max(took);
        match outcome {
            Err(_) => self.errors += 1,
            Ok(trace) if has_lost(&trace, intact) => self.lossy += 1,
            Ok(trace) if trace.events == intact.events => self.same += 1,
            Ok(_) => self.differs += 1,
        }
    }
}

/// True if the damage added a loss.
fn has_lost(trace: &Trace, intact: &Trace) -> bool {
    let mut losses = trace.losses.iter().filter(|loss| loss.severity > Severity::Info);
    losses.any(|loss| loss.count > support::loss(intact, &loss.key))
}

/// Returns pseudo-random places, the same in every run (SplitMix64).
fn places(seed: u64) -> impl Iterator<Item = u64> {
    (1u64..).map(move |index| {
        let mixed = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// Numbers at the limits of types.
const EXTREMES: [u64; 8] =
    [0, 1, i32::MAX as u64, u32::MAX as u64, i64::MAX as u64, 1 << 63, (1 << 63) + 1, u64::MAX];

/// Replaces the number at `at`: the digits of a text, with or without a sign, else eight bytes in
/// either byte order.
fn with_extreme(bytes: &[u8], at: usize, choice: u64) -> Vec<u8> {
    let number = EXTREMES[choice as usize % EXTREMES.len()];
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let digits_before = bytes[..at].iter().rev().take(20).take_while(|byte| is_digit(byte)).count();
    let digits_behind = bytes[at..].iter().take(20).take_while(|byte| is_digit(byte)).count();
    let is_odd = choice / 8 % 2 != 0;
    let (start, end, replacement) = if digits_behind > 0 {
        let sign = if is_odd { "-" } else { "" };
        (at - digits_before, at + digits_behind, format!("{sign}{number}").into_bytes())
    } else {
        let word = if is_odd { number.to_be_bytes() } else { number.to_le_bytes() };
        (at, (at + 8).min(bytes.len()), word.to_vec())
    };
    [&bytes[..start], &replacement, &bytes[end..]].concat()
}

fn damage(name: &str, original: &[u8], cut_every: usize, flips: usize) -> [Ends; 3] {
    let before = HELD.get();
    PEAK.set(before);
    let intact = read_bytes(name, original).expect("it is sound");
    let held = PEAK.get() - before;
    let limit_bytes = BYTES_PER_BYTE * held.max(original.len() as isize) + BYTES_ANYWAY;
    let mut ends = [Ends::default(), Ends::default(), Ends::default()];
    for cut in (0..original.len()).step_by(cut_every.min(original.len() / 20).max(1)) {
        ends[0].read(&original[..cut], &intact, limit_bytes, &format!("{name} cut at {cut}"));
    }
    let mut bytes = original.to_vec();
    for place in places(original.len() as u64).take(flips) {
        let (at, bit) = (place as usize / 8 % bytes.len(), place % 8);
        bytes[at] ^= 1 << bit;
        ends[1].read(&bytes, &intact, limit_bytes, &format!("{name}, bit {bit} of byte {at}"));
        bytes[at] ^= 1 << bit;
    }
    for place in places(!(original.len() as u64)).take(flips) {
        let (at, choice) = (place as usize / 16 % original.len(), place % 16);
        let bytes = with_extreme(original, at, choice);
        ends[2].read(&bytes, &intact, limit_bytes, &format!("{name}, number {choice} at {at}"));
    }
    ends
}

/// Collects the recordings of a folder and its subfolders.
fn recordings(folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    let entries = std::fs::read_dir(folder).expect("a folder is readable");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it is there").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            recordings(&path, found);
        } else if let Ok(bytes) = std::fs::read(&path) {
            if read_bytes("a file", &bytes).is_ok() {
                found.insert(path.display().to_string(), bytes);
            }
        }
    }
}

fn originals() -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    recordings(&support::own_trace(""), &mut found);
    found.extend(made::recordings());
    if let Some(shared) = support::shared_trace("") {
        recordings(&shared, &mut found);
    }
    found
}

fn damage_all(cut_every: usize, flips: usize) {
    let queue = Mutex::new(originals().into_iter());
    let next = || queue.lock().expect("no holder panics").next();
    let sums = Mutex::new([0u64; 5]);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |count| count.get()) {
            scope.spawn(|| {
                while let Some((name, bytes)) = next() {
                    let ends = damage(&name, &bytes, cut_every, flips);
                    for (what, end) in ["cut", "flipped", "with extremes"].into_iter().zip(&ends) {
                        let Ends { errors, lossy, same, differs, most_bytes, longest } = end;
                        let reads = end.reads();
                        println!(
                            "{name}: {what} {reads}: {errors} errors, {lossy} with losses, {same} same, \
                             {differs} differ; at most {most_bytes} bytes, {longest:?}"
                        );
                        let mut sums = sums.lock().expect("no holder panics");
                        let of_file = [reads, *errors, *lossy, *same, *differs];
                        sums.iter_mut().zip(of_file).for_each(|(sum, count)| *sum += count);
                    }
                }
            });
        }
    });
    let [reads, errors, lossy, same, differs] = sums.into_inner().expect("no holder panics");
    println!(
        "all: {reads} reads: {errors} errors, {lossy} with losses, {same} same, {differs} differ"
    );
    assert!(errors > 0 && lossy > 0 && same > 0);
}

#[test]
fn damaged_recording_is_refused_or_counted() {
    // A debug build is slow.
    if cfg!(debug_assertions) { damage_all(1_000_000, 3) } else { damage_all(100_000, 40) }
}

#[test]
#[ignore = "takes an hour of one core: `make test-long`"]
fn every_recording_is_damaged_ten_thousand_times() {
    damage_all(1_000, 10_000);
}
