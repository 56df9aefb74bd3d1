// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures the reading of a Perfetto trace against limits measured in the same run, and the memory
//! of passing on the events of a long one, and of keeping them.
//!
//! `cargo bench -p torpor-benches --bench read`. Exits with status 1 below 150 MB/s on one core.
//!
//! The input is a recording repeated with shifted times:
//! `../shared/traces/pixel6a-startup.perfetto-trace` if present, else a similar synthetic one.

use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use torpor_benches::{Limit, aim, best, best_cpu, require, shared_trace};
use torpor_trace::{Event, Sink, SoFar};

#[path = "../../crates/torpor-trace/tests/support/proto.rs"]
mod proto;

use proto::{bundle, cpu_idle, event, message, trace};

const REAL: &str = "pixel6a-startup.perfetto-trace";
/// Part of the bare walk.
const AIM: f64 = 0.4;
const GOAL_MB_PER_S: f64 = 150.0;
/// Part of the file.
const MEMORY_AIM: f64 = 0.6;
const INPUT_BYTES: usize = 64 << 20;
const LONG_BYTES: usize = 509_000_000;
const ROUNDS: usize = 7;

fn varint(bytes: &[u8], pos: &mut usize) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[*pos];
        *pos += 1;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

/// Calls `visit` with each field's number and the range of its value.
fn fields(bytes: &[u8], visit: &mut dyn FnMut(u64, usize, usize)) {
    let mut pos = 0;
    while pos < bytes.len() {
        let tag = varint(bytes, &mut pos);
        let start = pos;
        match tag & 7 {
            0 => {
                varint(bytes, &mut pos);
                visit(tag >> 3, start, pos);
            }
            2 => {
                let length = varint(bytes, &mut pos) as usize;
                visit(tag >> 3, pos, pos + length);
                pos += length;
            }
            1 => pos += 8,
            _ => pos += 4,
        }
    }
}

/// Returns the ranges of all absolute times.
fn time_offsets(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    fields(bytes, &mut |_, packet, packet_end| {
        fields(&bytes[packet..packet_end], &mut |number, start, end| {
            if number != 1 {
                return;
            }
            let (bundle, bundle_end) = (packet + start, packet + end);
            fields(&bytes[bundle..bundle_end], &mut |number, start, end| {
                let (inner, inner_end) = (bundle + start, bundle + end);
                match number {
                    2 => fields(&bytes[inner..inner_end], &mut |number, start, end| {
                        if number == 1 {
                            found.push((inner + start, inner + end));
                        }
                    }),
                    // The first number of an array of times; the others are differences.
                    4 => fields(&bytes[inner..inner_end], &mut |number, start, _| {
                        if number == 1 || number == 7 {
                            let mut end = inner + start;
                            varint(bytes, &mut end);
                            found.push((inner + start, end));
                        }
                    }),
                    _ => {}
                }
            });
        });
    });
    found
}

/// Returns a copy with shifted times, which must keep their lengths.
fn moved(bytes: &[u8], times: &[(usize, usize)], by_ns: u64) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    for &(start, end) in times {
        let mut pos = start;
        let time = proto::varint(varint(bytes, &mut pos) + by_ns);
        assert_eq!(time.len(), end - start, "a moved time needs the same bytes");
        copy[start..end].copy_from_slice(&time);
    }
    copy
}

/// Returns a trace of two CPUs that wake, switch twice and sleep every 100 us, and its length.
fn synthetic() -> (Vec<u8>, u64) {
    let begin = 1_000_000_000_000_000u64;
    let packets = (0..400u64).map(|index| {
        let at = begin + index * 3_000_000;
        let mut events = message().number(1, index % 2);
        for round in 0..30 {
            let at = at + round * 100_000;
            events = events
                .message(2, cpu_idle(at, index % 2, u32::MAX))
                .message(
                    2,
                    event(at + 9, 0, 3, message().bytes(2, "C|1858|Heap size (KB)|120790\n")),
                )
                .message(2, cpu_idle(at + 40_000, index % 2, 1));
        }
        let times: Vec<u64> =
            (0..60).map(|index| if index == 0 { at + 1_000 } else { 50_000 }).collect();
        let numbers = |even: u64, odd: u64| -> Vec<u64> {
            (0..60).map(|index| if index % 2 == 0 { even } else { odd }).collect()
        };
        let compact = message()
            .packed(1, &times)
            .packed(2, &numbers(0, 1))
            .packed(3, &numbers(1_234, 0))
            .packed(4, &numbers(120, 120))
            .bytes(5, "kworker/u8:3")
            .bytes(5, "swapper/1")
            .packed(6, &numbers(0, 1));
        bundle(events.message(4, compact))
    });
    (trace(packets), 400 * 3_000_000)
}

/// A recording to repeat.
struct Lap {
    name: &'static str,
    bytes: Vec<u8>,
    span_ns: u64,
    times: Vec<(usize, usize)>,
}

impl Lap {
    fn new() -> Lap {
        let (name, bytes, span_ns) = match shared_trace(REAL) {
            Some(path) => {
                let bytes = std::fs::read(path).expect("a recording is readable");
                (REAL, bytes, 2_000_000_000)
            }
            None => {
                let (bytes, span_ns) = synthetic();
                ("synthetic", bytes, span_ns)
            }
        };
        let times = time_offsets(&bytes);
        Lap { name, bytes, span_ns, times }
    }

    /// Returns copies of at least this length together, one after the other in time.
    fn repeated(&self, bytes: usize) -> impl Iterator<Item = Vec<u8>> {
        let copies = bytes.div_ceil(self.bytes.len()) as u64;
        (0..copies).map(|copy| moved(&self.bytes, &self.times, copy * self.span_ns))
    }
}

/// Takes events and forgets them.
struct Forget;

impl Sink for Forget {
    fn events(&mut self, events: Vec<Event>, _: &SoFar<'_>) {
        black_box(events);
    }
}

/// Returns the peak memory of this process.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok());
    peak.expect("it has the peak")
}

/// The options by which this program reads a file in a process of its own: passing its events on, and
/// keeping them.
const STREAM: &str = "--stream";
const KEEP: &str = "--keep";

/// Returns the peak memory of reading a long recording with each option, as a part of its length.
fn memory_of_long(lap: &Lap) -> [f64; 2] {
    let path = std::env::temp_dir().join(format!("torpor-bench-{}.pftrace", std::process::id()));
    let mut file = BufWriter::new(std::fs::File::create(&path).expect("it is writable"));
    let mut length = 0;
    for copy in lap.repeated(LONG_BYTES) {
        length += copy.len();
        file.write_all(&copy).expect("the temporary directory has room");
    }
    drop(file);
    let own = std::env::current_exe().expect("this program has a path");
    let shares = [STREAM, KEEP].map(|option| {
        let output = Command::new(&own).arg(option).arg(&path).output().expect("it can start");
        let peak_kb = String::from_utf8_lossy(&output.stdout).trim().parse::<f64>();
        let peak_kb = peak_kb.expect("the long recording is read");
        println!("{:.0} MB, {option}: {:.0} MB of memory", length as f64 / 1e6, peak_kb * 1.024e-3);
        peak_kb * 1024.0 / length as f64
    });
    std::fs::remove_file(&path).expect("it was written");
    shares
}

/// Steps over every field of every event, the minimum work of a reader.
fn bare_walk(bytes: &[u8]) -> u64 {
    fn walk(bytes: &[u8], depth: u32) -> u64 {
        let (mut pos, mut sum) = (0, 0);
        while pos < bytes.len() {
            let tag = varint(bytes, &mut pos);
            match tag & 7 {
                0 => sum += varint(bytes, &mut pos),
                2 => {
                    let length = varint(bytes, &mut pos) as usize;
                    // Trace, packet, bundle (1), event (2); payloads are skipped.
                    let inner = match (depth, tag >> 3) {
                        (0 | 1, 1) | (2, 2) => walk(&bytes[pos..pos + length], depth + 1),
                        _ => length as u64,
                    };
                    sum = sum.wrapping_add(inner);
                    pos += length;
                }
                1 => pos += 8,
                _ => pos += 4,
            }
        }
        sum
    }
    walk(bytes, 0)
}

fn sum_of_words(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    words.fold(0, |sum, word| {
        u64::wrapping_add(sum, u64::from_le_bytes(word.try_into().expect("eight bytes")))
    })
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let option = arguments.next();
    if let Some(STREAM | KEEP) = option.as_deref() {
        let path = arguments.next().expect("a recording follows the option");
        let path = Path::new(&path);
        let trace = match option.as_deref() {
            Some(STREAM) => torpor_trace::stream(path, &mut Forget),
            _ => torpor_trace::read(path),
        };
        black_box(trace.expect("it is a trace"));
        println!("{}", peak_kb());
        return;
    }
    let lap = Lap::new();
    let bytes: Vec<u8> = lap.repeated(INPUT_BYTES).flatten().collect();
    let mb = bytes.len() as f64 / 1e6;
    println!("input: {} repeated, {mb:.1} MB", lap.name);
    let rate = |took: Duration| mb / took.as_secs_f64();

    let memory = rate(best_cpu(ROUNDS, || {
        black_box(sum_of_words(black_box(&bytes)));
    }));
    let walk = rate(best_cpu(ROUNDS, || {
        black_box(bare_walk(black_box(&bytes)));
    }));
    let mut events = 0;
    let parse = rate(best_cpu(ROUNDS, || {
        let trace = torpor_trace::bench_support::parse(black_box(&bytes));
        events = trace.events.len();
        black_box(trace);
    }));
    let read = rate(best(ROUNDS, || {
        black_box(torpor_trace::read_bytes("bench", black_box(&bytes)).expect("it is a trace"));
    }));
    let size = size_of::<torpor_trace::Event>();
    println!("{events} events of {size} bytes");
    println!("memory, sum of words       {memory:8.0} MB/s");
    println!("bare walk over the fields  {walk:8.0} MB/s   the limit");
    println!("events, one core           {parse:8.0} MB/s   {:.2} of the limit", parse / walk);
    println!("events and SHA-256         {read:8.0} MB/s   the hash on a second core");
    // The synthetic events have nearly no payload to step over.
    if lap.name == REAL {
        aim("perfetto, of a walk over the payloads", parse / walk, Limit::NotBelow(AIM));
    }
    let [streamed, kept] = memory_of_long(&lap);
    aim("perfetto, memory of the file", streamed, Limit::NotAbove(MEMORY_AIM));
    aim("perfetto, memory with all events", kept, Limit::NotAbove(MEMORY_AIM));
    require("perfetto, MB/s", parse, Limit::NotBelow(GOAL_MB_PER_S));
}
