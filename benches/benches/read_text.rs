// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures the reading of ftrace text against the cheapest way to read lines, and against a regular
//! expression of Python that finds a line's columns; and a second reading, from the cache, against
//! the first.
//!
//! `cargo bench -p torpor-benches --bench read_text`. Exits with status 1 below 300 MB/s on one core.
//!
//! The input repeats one tick of a kernel's `trace` file, with every kind of event of a busy
//! recording and shifted times.

use std::fmt::Write;
use std::hint::black_box;
use std::process::Command;
use std::time::Duration;
use torpor_benches::{Limit, aim, best_cpu, process_cpu_s, require};
use torpor_trace::{Cache, Event, Sink, SoFar, Source};

/// Multiple of the speed of Python's `re`.
const AIM: f64 = 6.0;
const GOAL_MB_PER_S: f64 = 300.0;
/// CPU time of a second reading, as a part of the first's, and of the first, as a multiple of one
/// that fills no cache.
const AGAIN_AIM: f64 = 0.3;
const FILLING_AIM: f64 = 1.5;
const INPUT_BYTES: usize = 64 << 20;
const ROUNDS: usize = 7;
const TICK_US: u64 = 4_000;

/// Events: time in the tick in us, text before the time, text after it.
const TICK: [(u64, &str, &str); 16] = [
    (
        0,
        "<idle>-0       [000] d.h1.",
        "hrtimer_expire_entry: hrtimer=00000000a1b2c3d4 function=tick_nohz_handler now=4180000365",
    ),
    (2, "<idle>-0       [000] d.h1.", "softirq_raise: vec=7 [action=SCHED]"),
    (4, "<idle>-0       [000] d.h1.", "hrtimer_expire_exit: hrtimer=00000000a1b2c3d4"),
    (
        5,
        "<idle>-0       [000] d.h2.",
        "hrtimer_start: hrtimer=00000000a1b2c3d4 function=tick_nohz_handler expires=4184000000 softexpires=4184000000 mode=ABS was_armed=0",
    ),
    (6, "<idle>-0       [000] .Ns1.", "softirq_entry: vec=7 [action=SCHED]"),
    (9, "<idle>-0       [000] .Ns1.", "softirq_exit: vec=7 [action=SCHED]"),
    (40, "<idle>-0       [000] dN.1.", "cpu_idle: state=4294967295 cpu_id=0"),
    (41, "<idle>-0       [000] .N.1.", "cpu_idle_miss: cpu_id=0 state=1 type=below"),
    (
        44,
        "<idle>-0       [001] d.s4.",
        "sched_waking: comm=rcu_preempt pid=18 prio=120 target_cpu=000",
    ),
    (
        46,
        "<idle>-0       [000] d..2.",
        "sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=rcu_preempt next_pid=18 next_prio=120",
    ),
    (
        50,
        "rcu_preempt-18      [000] d..1.",
        "timer_start: timer=00000000433b23bd function=process_timeout expires=4294893310 [timeout=1] bucket_expiry=4294893311 cpu=0 idx=63 flags=",
    ),
    (
        54,
        "rcu_preempt-18      [000] d..2.",
        "sched_switch: prev_comm=rcu_preempt prev_pid=18 prev_prio=120 prev_state=I ==> next_comm=swapper/0 next_pid=0 next_prio=120",
    ),
    (
        55,
        "<idle>-0       [000] d..1.",
        "nxt: (tick_nohz_get_sleep_length+0x72/0xa0 <- tick_nohz_next_event) ret=0",
    ),
    (56, "<idle>-0       [000] d..1.", "sel: (do_idle+0x11a/0x2a0 <- cpuidle_select) ret=1"),
    (
        58,
        "kworker/u8:1-34      [001] d..3.",
        "sched_stat_runtime: comm=kworker/u8:1 pid=34 runtime=20120 [ns]",
    ),
    (60, "<idle>-0       [000] d..1.", "cpu_idle: state=1 cpu_id=0"),
];

fn input() -> String {
    let mut text = String::with_capacity(INPUT_BYTES + 4_096);
    let mut tick = 0;
    text.push_str("# tracer: nop\n#\n");
    while text.len() < INPUT_BYTES {
        for (at, start, event) in TICK {
            let us = 1_000_000 + tick * TICK_US + at;
            let (seconds, us) = (us / 1_000_000, us % 1_000_000);
            writeln!(text, "{start:>31} {seconds:>5}.{us:06}: {event}")
                .expect("memory is writable");
        }
        tick += 1;
    }
    text
}

/// Prints the CPU time in which Python's `re` splits all lines into task, CPU, flags, time, event and
/// text, of which nothing is parsed any further.
const SCRIPT: &str = r"
import re, sys, time
text = open(sys.argv[1], 'rb').read()
line = re.compile(rb'^ *(.+?)-(\d+) +\[(\d+)\] +(\S+) +(\d+)\.(\d+): (\w+): (.*)$', re.M)
def columns():
    start, lines = time.process_time(), 0
    for match in line.finditer(text):
        match.groups()
        lines += 1
    return time.process_time() - start, lines
print(*min(columns() for _ in range(3)))
";

/// Returns the time that Python takes, if it is there and splits this many lines.
fn python(text: &str, lines: usize) -> Option<Duration> {
    let path = std::env::temp_dir().join(format!("torpor-bench-{}.txt", std::process::id()));
    std::fs::write(&path, text).expect("the temporary directory is writable");
    let output = Command::new("python3").arg("-c").arg(SCRIPT).arg(&path).output();
    std::fs::remove_file(&path).expect("it was written");
    let output = String::from_utf8(output.ok()?.stdout).ok()?;
    let (seconds, found) = output.trim().split_once(' ')?;
    assert_eq!(found.parse(), Ok(lines), "the expression matches every event");
    Some(Duration::from_secs_f64(seconds.parse().ok()?))
}

/// Takes events and forgets them.
struct Forget;

impl Sink for Forget {
    fn events(&mut self, events: Vec<Event>, _: &SoFar<'_>) {
        black_box(events);
    }
}

/// Returns the CPU time of reading the text without a cache, with an empty one, and again.
fn readings(text: &str) -> [f64; 3] {
    let folder = std::env::temp_dir().join(format!("torpor-bench-again-{}", std::process::id()));
    let cached = folder.join("cache");
    std::fs::create_dir(&folder).expect("the temporary directory is writable");
    let path = folder.join("trace.txt");
    std::fs::write(&path, text).expect("the temporary directory has room");
    let cache = Cache { folder: cached.clone(), recording_min_bytes: 0, all_max_bytes: u64::MAX };
    let read = |cache: Option<&Cache>| {
        let start = process_cpu_s();
        let source = Source::open_while(&path, &|| true).expect("it was written");
        source.cached(cache.cloned()).stream(&mut Forget).expect("it is a trace");
        process_cpu_s() - start
    };
    let rounds = (0..ROUNDS).map(|_| {
        let _ = std::fs::remove_dir_all(&cached);
        [read(None), read(Some(&cache)), read(Some(&cache))]
    });
    let least = |a: [f64; 3], b: [f64; 3]| [0, 1, 2].map(|index| a[index].min(b[index]));
    let took = rounds.reduce(least).expect("there are rounds");
    std::fs::remove_dir_all(&folder).expect("it was made");
    took
}

fn main() {
    let text = input();
    let bytes = text.as_bytes();
    let mb = bytes.len() as f64 / 1e6;
    let lines = memchr::memchr_iter(b'\n', bytes).count();
    println!("input: {lines} lines, {mb:.1} MB");
    let rate = |took: Duration| mb / took.as_secs_f64();
    // One call per line is the minimum.
    let walk = rate(best_cpu(ROUNDS, || {
        let (mut rest, mut sum) = (black_box(bytes), 0);
        while let Some(end) = memchr::memchr(b'\n', rest) {
            sum += end;
            rest = &rest[end + 1..];
        }
        black_box(sum);
    }));
    let mut events = 0;
    let parse = rate(best_cpu(ROUNDS, || {
        let trace = torpor_trace::bench_support::parse(black_box(bytes));
        events = trace.events.len();
        black_box(trace);
    }));
    println!("{events} events");
    println!("bare walk over the lines   {walk:8.0} MB/s   the limit");
    println!("events, one core           {parse:8.0} MB/s   {:.3} of the limit", parse / walk);
    // Two lines are comments.
    match python(&text, lines - 2).map(rate) {
        Some(python) => {
            println!("columns by Python's re     {python:8.0} MB/s");
            aim("ftrace text, of Python's re", parse / python, Limit::NotBelow(AIM));
        }
        None => println!("not run: the comparison with Python's re, as python3 is absent"),
    }
    let [plain, first, second] = readings(&text);
    println!(
        "readings: {plain:.3} s of CPU, {first:.3} s with an empty cache, {second:.3} s again"
    );
    aim("ftrace text, a second reading to the first", second / first, Limit::NotAbove(AGAIN_AIM));
    aim("ftrace text, a first to none cached", first / plain, Limit::NotAbove(FILLING_AIM));
    require("ftrace text, MB/s", parse, Limit::NotBelow(GOAL_MB_PER_S));
}
