// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Recordings of real machines: too long for memory, or damaged.

use std::path::{Path, PathBuf};
use torpor_engine::input::{Draft, Follower, Recording, Span, WakeStamp};
use torpor_engine::outcome::TraceOutcome;
use torpor_engine::timeline::Folding;
use torpor_engine::{Loaded, Options, RecordedUsage, Request, Unwatched, run, run_on};
use torpor_governor::Catalog;
use torpor_trace::{Event, Sink, SoFar, Trace};

fn demo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/web-server.perf.data")
}

fn saved(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("torpor-engine-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary directory is writable");
    path
}

fn replayed(path: &Path) -> TraceOutcome {
    let request = Request {
        traces: vec![path.to_owned()],
        platform: torpor_machine::platform::resolve("pixel6").unwrap(),
        governors: vec!["menu".parse().unwrap(), "teo".parse().unwrap()],
        options: Options::default(),
    };
    let mut outcome = run(&request, &Catalog::new(Default::default()), &Unwatched).unwrap();
    outcome.traces.remove(0)
}

/// Reconstructs the recording's inputs from its events in parts.
fn in_parts<'a>(trace: &Trace, parts: impl Iterator<Item = &'a [Event]> + Clone) -> Recording {
    let mut draft = Folding::new(Draft::new(None));
    parts.clone().for_each(|part| draft.observe(part, &SoFar::whole(trace)));
    let mut recording = draft.finish().finish();
    let mut follower = Follower::new(&mut recording, trace, |_| (1024, None));
    parts.for_each(|part| follower.observe(part));
    follower.finish();
    recording
}

fn in_one(trace: &Trace) -> Recording {
    in_parts(trace, std::iter::once(&trace.events[..]))
}

/// Returns the spans, with or without the timers that a long recording's head may not show.
fn spans(recording: &Recording, with_timers: bool) -> Vec<Span> {
    let spans = recording.cpus.iter().flat_map(|input| &input.spans);
    let known = |span: &Span| {
        let nothing = torpor_machine::units::Instant::NEVER;
        // An unknown timer gives no wake-up time either.
        let stamp = WakeStamp::TimerExpiry;
        Span { next_hrtimer: nothing, next_wheel: nothing, stamp, wake: span.resume, ..*span }
    };
    spans.map(|span| if with_timers { *span } else { known(span) }).collect()
}

#[test]
fn kept_inputs_change_no_result() {
    let trace = demo();
    let kept = Loaded::read(&trace, None, &Unwatched).unwrap();
    let fresh = || Loaded::read(&trace, None, &Unwatched).unwrap();
    let events_bytes = kept.held_bytes();
    let replay = |loaded: &Loaded, platform: &str, options: &str| {
        let request = Request {
            traces: Vec::new(),
            platform: torpor_machine::platform::resolve(platform).unwrap(),
            governors: vec!["menu".parse().unwrap(), "teo,util_mode=v4".parse().unwrap()],
            options: serde_json::from_str(options).unwrap(),
        };
        let catalog = Catalog::new(Default::default());
        let outcome = run_on(&request, &[loaded], &catalog, &Unwatched).unwrap();
        serde_json::to_string(&outcome).unwrap()
    };
    let points = [
        ("pixel6", "{}"),
        ("pixel6,little.WFI.exit_latency_us=3", "{}"),
        ("rk3399", "{}"),
        ("pixel6", r#"{"cpu_map": {"0": 7}}"#),
        ("pixel6", r#"{"start": "1s", "end": "3s"}"#),
        ("pixel6", r#"{"by": "task"}"#),
        ("pixel6", r#"{"recorded_on": "rome-7742"}"#),
        ("pixel6", r#"{"hz": 1000}"#),
        ("pixel6", "{}"),
    ];
    for (platform, options) in points {
        let again = replay(&kept, platform, options);
        assert!(again == replay(&fresh(), platform, options), "{platform} {options}");
    }
    assert!(kept.held_bytes() > events_bytes);
}

#[test]
fn parts_make_the_same_recording() {
    let trace = torpor_trace::read(&demo()).unwrap();
    let whole = in_one(&trace);
    let (head, rest) = trace.events.split_at(trace.events.len() / 2);
    let parts = in_parts(&trace, std::iter::once(head).chain(rest.chunks(1_000)));
    assert_eq!(whole.tick, parts.tick);
    assert_eq!(whole.stats.merged_ticks, parts.stats.merged_ticks);
    assert_eq!(spans(&whole, false), spans(&parts, false));
    let pairs = spans(&whole, true).into_iter().zip(spans(&parts, true));
    let differing = pairs.filter(|(a, b)| a != b).count();
    // Few timers have their first event in the second half, as armed timers are armed again soon.
    assert!(differing <= whole.span_count() / 100, "{differing} of {}", whole.span_count());
}

#[test]
fn parts_are_equal_without_timer_events() {
    let mut trace = torpor_trace::read(&demo()).unwrap();
    trace.events.retain(|event| {
        use torpor_trace::EventKind::*;
        matches!(event.kind, CpuIdle { .. } | SchedSwitch { .. } | SchedWaking { .. })
    });
    trace.carries.hrtimers = false;
    let whole = in_one(&trace);
    let (head, rest) = trace.events.split_at(trace.events.len() / 2);
    let parts = in_parts(&trace, std::iter::once(head).chain(rest.chunks(777)));
    // The crowd after the tick is visible in half a recording, too.
    assert!(whole.tick.is_some() && whole.tick == parts.tick);
    assert_eq!(whole.stats, parts.stats);
    assert!(spans(&whole, true) == spans(&parts, true));
}

/// Returns tracefs text of a CPU that idles in state 1 for 600 of every 1,000 us and is woken by
/// CPU 2 for task 7.
fn text(cpu: u32, from_us: u64, cycles: u64) -> Vec<(u64, String)> {
    let cycle = |n: u64| {
        let at = |us: u64| from_us + n * 1_000 + us;
        let line = |us, who: &str, on: u32, what: &str| {
            let time = format!("{}.{:06}", at(us) / 1_000_000, at(us) % 1_000_000);
            (at(us), format!("{who} [{on:03}] d..1. {time}: {what}\n"))
        };
        let switch = |from: &str, pid: u32, to: &str, next: u32| {
            format!(
                "sched_switch: prev_comm={from} prev_pid={pid} prev_prio=120 prev_state=S ==> \
                 next_comm={to} next_pid={next} next_prio=120"
            )
        };
        [
            line(0, "<idle>-0", cpu, &format!("cpu_idle: state=1 cpu_id={cpu}")),
            line(
                590,
                "waker-9",
                2,
                &format!("sched_waking: comm=task pid=7 prio=120 target_cpu={cpu:03}"),
            ),
            line(600, "<idle>-0", cpu, &format!("cpu_idle: state=4294967295 cpu_id={cpu}")),
            line(610, "<idle>-0", cpu, &switch("swapper", 0, "task", 7)),
            line(900, "task-7", cpu, &switch("task", 7, "swapper", 0)),
        ]
    };
    (0..cycles).flat_map(cycle).collect()
}

fn outcome(name: &str, lines: impl IntoIterator<Item = String>) -> (TraceOutcome, RecordedUsage) {
    let header =
        "# tracer: nop\n#\n# entries-in-buffer/entries-written: 1/1   #P:4\n#\n".to_owned();
    let content: String = std::iter::once(header).chain(lines).collect();
    let path = saved(name, content.as_bytes());
    let mut usage = Folding::new(RecordedUsage::default());
    torpor_trace::stream(&path, &mut usage).unwrap();
    let replayed = replayed(&path);
    std::fs::remove_file(path).expect("it was written");
    for run in &replayed.runs {
        assert!(run.error.is_none(), "{:?}", run.error);
        assert!(run.metrics["wakeups"].unwrap() as u64 <= replayed.inputs.spans);
    }
    (replayed, usage.finish())
}

fn plain(lines: Vec<(u64, String)>) -> Vec<String> {
    lines.into_iter().map(|(_, line)| line).collect()
}

#[test]
fn clocks_wrap_at_32_bits_unnoticed() {
    // In nanoseconds 2^32 is 4.29 s; in microseconds 4,294.97 s; in milliseconds 49.7 days.
    for (name, seam_us) in [("ns", 4_294_967), ("us", 4_294_967_296), ("ms", 4_294_967_296_000)] {
        let (replayed, usage) = outcome(name, plain(text(0, seam_us - 50_000, 100)));
        assert_eq!(replayed.inputs.spans, 100, "{name}");
        let cpus = usage.finish();
        let [cpu] = cpus.iter().filter(|cpu| cpu.sleeps > 0).collect::<Vec<_>>()[..] else {
            panic!("one CPU sleeps")
        };
        assert_eq!((cpu.states[0].usage, cpu.states[0].time_ns), (100, 60_000_000), "{name}");
        assert_eq!(replayed.trace.duration_ns, 99_900_000, "{name}");
    }
}

#[test]
fn a_clock_that_jumps_backwards_ends_no_replay() {
    // Fifty cycles stand a second too late in the file: lines are sorted. In the other, the clock
    // was set back: overlapping events cannot be separated, and stay within bounds.
    let (sorted, _) = outcome(
        "unsorted",
        [plain(text(0, 2_000_000, 50)), plain(text(0, 1_000_000, 50))].concat(),
    );
    assert_eq!(sorted.inputs.spans, 100);
    let (overlapping, usage) = outcome(
        "set-back",
        [plain(text(0, 1_000_000, 50)), plain(text(0, 1_020_300, 50))].concat(),
    );
    let cut: u64 = usage.finish().iter().map(|cpu| cpu.cut_sleeps).sum();
    assert!(cut > 0 && overlapping.inputs.cut_sleeps + overlapping.inputs.unclosed_entries > 0);
    assert!(overlapping.inputs.spans <= 100);
}

#[test]
fn lost_events_are_reported_and_split_sleeps() {
    let mut lines = plain(text(0, 1_000_000, 100));
    // The buffer overran between an entry and the entry five cycles on.
    lines.splice(51..75, ["CPU:0 [LOST 24 EVENTS]\n".to_owned()]);
    let (replayed, usage) = outcome("lost", lines);
    assert!(replayed.trace.losses.iter().any(|loss| loss.severity == "loss"));
    assert_eq!(replayed.inputs.unclosed_entries, 1);
    let cpus = usage.finish();
    assert_eq!(cpus[0].cut_sleeps, 1);
    assert_eq!(cpus[0].states[0].usage, 95);
    assert_eq!(cpus[0].states[0].time_ns, 95 * 600_000);
}

#[test]
fn recording_may_cut_sleeps() {
    let mut lines = plain(text(0, 1_000_000, 10));
    lines.remove(0);
    lines.truncate(lines.len() - 3);
    let (replayed, usage) = outcome("mid-sleep", lines);
    assert_eq!((replayed.inputs.spans, replayed.inputs.cut_sleeps), (8, 2));
    assert_eq!(usage.finish()[0].cut_sleeps, 2);
}

#[test]
fn a_cpu_may_come_and_go() {
    // CPU 3 exists from 20 to 40 ms; it was unplugged asleep and never woken.
    let mut lines = text(0, 1_000_000, 100);
    let mut short = text(3, 1_020_300, 20);
    short.truncate(short.len() - 4);
    lines.extend(short);
    lines.sort();
    let (replayed, _) = outcome("hotplug", plain(lines));
    assert_eq!(replayed.inputs.spans, 119);
    assert_eq!(replayed.inputs.cut_sleeps, 1);
    assert!(replayed.runs.iter().all(|run| run.cpus.len() == 2));
}

#[path = "../../../torpor-trace/tests/support/dat.rs"]
mod dat;
#[path = "../../../torpor-trace/tests/support/dat_sample.rs"]
mod dat_sample;

struct Parts(usize);

impl Sink for Parts {
    fn events(&mut self, _: Vec<Event>, _: &SoFar<'_>) {
        self.0 += 1;
    }
}

/// Two CPUs with a task each; a timer of 700 us ends their sleeps of 600 us only now and then.
fn long() -> dat::Dat {
    use dat::{Page, X86_64};
    let cpus = (0..2u32).map(|cpu| {
        let mut pages = vec![Page::new(X86_64, 0)];
        let mut push = |at: u64, event: Vec<u8>| {
            if !pages.last().is_some_and(|page| page.has_room(event.len())) {
                pages.push(Page::new(X86_64, at));
            }
            let page = pages.pop().expect("there is one");
            pages.push(page.event(at, &event));
        };
        for n in 0..110_000u64 {
            let at = n * 1_000_000 + u64::from(cpu) * 300;
            push(at, dat_sample::hrtimer(X86_64, 0xa0 + u64::from(cpu), at as i64 + 700_000));
            push(at + 10, dat_sample::idle(X86_64, 1, cpu));
            push(at + 600_000 + n % 7 * 1_000, dat_sample::idle(X86_64, -1, cpu));
            push(at + 610_000, dat_sample::switch(X86_64, 0, 7 + cpu as i32, "task"));
            push(at + 900_000, dat_sample::switch(X86_64, 7 + cpu as i32, 0, "swapper"));
        }
        pages
    });
    let instances = vec![("", "mono", cpus.collect())];
    dat::Dat { instances, ..dat_sample::dat(6, "none", X86_64) }
}

#[test]
fn recording_larger_than_memory_replays_the_same() {
    let path = saved("long.dat", &long().bytes());
    let mut parts = Parts(0);
    torpor_trace::stream(&path, &mut parts).unwrap();
    let trace = torpor_trace::read(&path).unwrap();
    let replayed = replayed(&path);
    std::fs::remove_file(path).expect("it was written");
    assert!(parts.0 > 1 && trace.events.len() > 1 << 20, "{} parts", parts.0);
    let whole = in_one(&trace);
    assert_eq!(replayed.inputs.spans, whole.span_count() as u64);
    assert_eq!(replayed.inputs.merged_ticks, whole.stats.merged_ticks);
    assert_eq!(replayed.inputs.wake_stamp_sources, whole.stats.stamps);
    assert_eq!(whole.span_count(), 220_000);
}

/// Writes lines of ftrace text, by time in µs.
fn ftrace_text(name: &str, mut lines: Vec<(u64, String)>) -> PathBuf {
    lines.sort();
    let line = |(us, event): &(u64, String)| {
        format!("  <idle>-0  [000] d..2  {}.{:06}: {event}\n", us / 1_000_000, us % 1_000_000)
    };
    let lines: String = lines.iter().map(line).collect();
    saved(name, format!("# tracer: nop\n#\n{lines}").as_bytes())
}

/// Returns sleeps of 3 ms, each followed by one of `long_us` after RCU raised its softirq.
fn sleeps_after_rcu(long_us: u64) -> Vec<(u64, String)> {
    let state = |state: u32| format!("cpu_idle: state={state} cpu_id=0");
    let waking = "irq_handler_entry: irq=7 name=eth0".to_owned();
    let raised = "softirq_raise: vec=9 [action=RCU]".to_owned();
    let pair = |n: u64| {
        let at = n * 40_000;
        let long = at + 5_000;
        [
            (at, state(1)),
            (at + 2_990, waking.clone()),
            (at + 3_000, state(u32::MAX)),
            (at + 4_000, raised.clone()),
            (long, state(1)),
            (long + long_us - 10, waking.clone()),
            (long + long_us, state(u32::MAX)),
        ]
    };
    (0..30).flat_map(pair).collect()
}

#[test]
fn rcu_keeps_no_tick_that_was_stopped() {
    let held = |long_us| {
        let path = ftrace_text("rcu.txt", sleeps_after_rcu(long_us));
        let trace = torpor_trace::read(&path).expect("it is a recording");
        std::fs::remove_file(&path).expect("it was written");
        let recording = in_one(&trace);
        recording.cpus[0].spans.iter().filter(|span| span.rcu_holds_tick).count()
    };
    // No tick comes within these, so nothing contradicts RCU.
    assert_eq!(held(2_000), 30);
    // Sleeps of two of the slowest ticks: the tick was stopped.
    assert_eq!(held(20_000), 0);
}

/// Writes a recording whose CPU 200 ticks of 100 Hz wake, with an interrupt between any two.
fn at_100_hz() -> PathBuf {
    let state = |state: u32| format!("cpu_idle: state={state} cpu_id=0");
    let waking = "irq_handler_entry: irq=7 name=eth0".to_owned();
    let sleeps = |n: u64| {
        let (tick, interrupt) = (1_000 + n * 10_000, 1_000 + n * 10_000 + 2_000 + (n * 37) % 5_000);
        [
            (interrupt - 1, waking.clone()),
            (interrupt, state(u32::MAX)),
            (interrupt + 300, state(1)),
            (tick + 9_000 + 1_000 + n % 60, state(u32::MAX)),
            (tick + 9_000 + 1_200, state(1)),
        ]
    };
    let first = (500, state(1));
    ftrace_text("100hz.txt", std::iter::once(first).chain((0..200).flat_map(sleeps)).collect())
}

#[test]
fn a_recordings_own_tick_rate_is_the_replays() {
    let path = at_100_hz();
    let replayed_at = |hz: Option<u32>| {
        let request = Request {
            traces: vec![path.clone()],
            platform: torpor_machine::platform::resolve("pixel6").unwrap(),
            governors: vec!["menu".parse().unwrap()],
            options: Options {
                hz: hz.and_then(torpor_machine::units::Hz::from_u32),
                ..Options::default()
            },
        };
        let outcome = run(&request, &Catalog::new(Default::default()), &Unwatched).unwrap();
        let inputs = &outcome.traces[0].inputs;
        let notes: Vec<_> = outcome.notes.iter().filter(|note| note.contains(" Hz")).collect();
        assert_eq!(inputs.tick_hz_recorded, Some(100));
        assert_eq!(notes.len(), usize::from(hz != Some(100)), "{notes:?}");
        (inputs.tick_hz, outcome.traces[0].runs[0].metrics.clone())
    };
    let (own, asked, other) = (replayed_at(None), replayed_at(Some(100)), replayed_at(Some(250)));
    std::fs::remove_file(&path).expect("it was written");
    assert_eq!(own, asked);
    assert_eq!((own.0, other.0), (100, 250));
    assert_ne!(own.1, other.1);
}
