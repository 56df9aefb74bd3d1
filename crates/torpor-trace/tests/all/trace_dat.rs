// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! trace.dat in all forms of trace-cmd, written field by field.

use crate::support::dat::{Dat, Machine, Page, X86_64};
use crate::support::dat_sample::{dat, hrtimer, idle, unknown};
use crate::support::{losses, spelled};
use torpor_machine::units::StateIdx;
use torpor_trace::{EventKind, Probe, Trace, read_bytes};

fn read(dat: &Dat) -> Trace {
    read_bytes("made", &dat.bytes()).unwrap()
}

/// Time and state of each idle event of a CPU.
fn idles(trace: &Trace, cpu: u32) -> Vec<(i64, i32)> {
    let of_cpu = trace.events.iter().filter(|event| event.cpu.0 == cpu);
    of_cpu
        .filter_map(|event| match event.kind {
            EventKind::CpuIdle { state } => Some((event.time.0, state.0)),
            _ => None,
        })
        .collect()
}

fn refused(dat: &Dat) -> String {
    read_bytes("made", &dat.bytes()).unwrap_err().to_string()
}

/// Compares a trace with the sample's source.
fn assert_is_sample(trace: &Trace, form: &str) {
    let first_cpu = spelled(trace).into_iter().filter(|line| line.split(' ').nth(1) == Some("0"));
    let seen: Vec<String> = first_cpu.collect();
    let expected = [
        "1000 0 Marker { text: Name(0) } None Some(\"BEGIN\")".to_owned(),
        "1500 0 CpuIdle { state: StateIdx(-1) } None None".to_owned(),
        "2000 0 HrtimerStart { timer: Timer(0), function: FunctionId(0), expires: Instant(5000000), \
         softexpires: Instant(5000000) } Some(ab) Some(\"tick_nohz_handler\")"
            .to_owned(),
        "3000 0 SchedSwitch { prev_pid: 0, prev_state: DiskSleep, next_pid: 77, next_comm: None } \
         None Some(\"worker\")"
            .to_owned(),
        "4000 0 IpiSend { target_cpu: CpuId(1), cause: Reschedule } None None".to_owned(),
        "4000 0 IpiSend { target_cpu: CpuId(33), cause: Reschedule } None None".to_owned(),
        "5000 0 Probed { probe: Select, value: -22 } None None".to_owned(),
        "6000 0 Probed { probe: StopTick, value: 0 } None None".to_owned(),
    ];
    assert_eq!(seen, expected, "{form}");
    assert_eq!(idles(trace, 1), [(1_200, 2), (4_500_000_000, -1), (6_000_000_001, 1)], "{form}");
    assert_eq!(trace.event_counts["sched_process_wait"], 1, "{form}");
    assert_eq!(trace.meta.clock, "mono", "{form}");
    assert_eq!(trace.meta.kernel_release.as_deref(), Some("6.12.1"), "{form}");
    assert_eq!(trace.meta.arch.as_deref(), Some("aarch64"), "{form}");
    // The IPI goes to CPU 33.
    assert_eq!(trace.meta.cpu_count, 34, "{form}");
    assert_eq!(losses(trace), [], "{form}");
}

#[test]
fn every_form_has_the_same_events() {
    for (version, compression) in [(6, "none"), (7, "none"), (7, "zlib"), (7, "zstd")] {
        for is_big_endian in [false, true] {
            for (long_bytes, page_bytes) in [(8, 4096), (4, 4096), (8, 65_536)] {
                let machine = Machine { is_big_endian, long_bytes, page_bytes };
                let form = format!("version {version}, {compression}, {machine:?}");
                assert_is_sample(&read(&dat(version, compression, machine)), &form);
            }
        }
    }
}

#[test]
fn given_kallsyms_replace_the_recorders() {
    let bytes = dat(7, "zstd", X86_64).bytes();
    let kallsyms = b"c0101000 T rcu_needs_cpu\nc0102000 T other\nc0100000 t own_name\n";
    let trace = torpor_trace::read_with_kallsyms("made", &bytes, Some(kallsyms)).unwrap();
    let probes: Vec<Probe> = trace
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Probed { probe, .. } => Some(probe),
            _ => None,
        })
        .collect();
    assert_eq!(probes, [Probe::RcuNeedsCpu]);
}

fn one_instance(pages: Vec<Page>) -> Dat {
    Dat { instances: vec![("", "mono", vec![pages])], ..dat(7, "none", X86_64) }
}

/// Three events are missing before the first page, an unknown number before the second.
#[test]
fn missed_events_are_counted() {
    let mut pages =
        [1_000, 2_000].map(|at| Page::new(X86_64, at).event(at + 1, &idle(X86_64, 1, 0))).to_vec();
    pages[0].missed = Some(Some(3));
    pages[1].missed = Some(None);
    let mut recording = one_instance(pages);
    let trace = read(&recording);
    assert_eq!(losses(&trace), [("ftrace_gaps", 1), ("ftrace_overrun_events", 3)]);
    assert_eq!(idles(&trace, 0).len(), 2);
    // The kernel's count includes those three.
    recording.options = vec![(2, b"CPU: 0\noverrun: 9\ndropped events: 4\n\0".to_vec())];
    let expected = [("ftrace_dropped_events", 4), ("ftrace_gaps", 1), ("ftrace_overrun_events", 9)];
    assert_eq!(losses(&read(&recording)), expected);
}

/// Found by the fuzzer.
#[test]
fn counts_of_missed_events_do_not_overflow() {
    let pages = [1_000, 2_000].map(|at| {
        let mut page = Page::new(X86_64, at).event(at, &idle(X86_64, 1, 0));
        page.missed = Some(Some(u64::MAX));
        page
    });
    let trace = read(&one_instance(pages.to_vec()));
    assert_eq!(losses(&trace), [("ftrace_overrun_events", u64::MAX)]);
}

/// A CPU's clock may step back between pages.
#[test]
fn pages_that_step_back_in_time_are_sorted() {
    let pages = [5_000, 4_000, 6_000].map(|at| {
        Page::new(X86_64, at).event(at, &idle(X86_64, 1, 0)).event(at + 500, &idle(X86_64, -1, 0))
    });
    let trace = read(&one_instance(pages.to_vec()));
    let times: Vec<i64> = idles(&trace, 0).iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [4_000, 4_500, 5_000, 5_500, 6_000, 6_500]);
}

/// The upper five bits of the time come from the page.
#[test]
fn absolute_time_takes_upper_bits_from_the_page() {
    let start = (1 << 60) + 10;
    let page = Page::new(X86_64, start).stamp(start + 90).event(start + 95, &idle(X86_64, 1, 0));
    assert_eq!(idles(&read(&one_instance(vec![page])), 0), [(start as i64 + 95, 1)]);
}

#[test]
fn overlong_page_is_read_up_to_its_end() {
    let start = 0x0001_2345_6789_abcd;
    let page = Page::new(X86_64, start)
        .event(start + 10, &idle(X86_64, 1, 0))
        .event(start + 20, &unknown(X86_64));
    let mut bytes = one_instance(vec![page]).bytes();
    let at = bytes.windows(8).position(|word| word == start.to_le_bytes()).unwrap();
    // The commit counter, which follows the time.
    bytes[at + 8..at + 16].copy_from_slice(&5_000u64.to_le_bytes());
    let trace = read_bytes("made", &bytes).unwrap();
    assert_eq!(idles(&trace, 0), [(start as i64 + 10, 1)]);
    assert_eq!(losses(&trace), [("malformed_records", 1)]);
}

/// An instance adds the events that it alone recorded; others count once.
#[test]
fn instances_are_merged_event_by_event() {
    let page = |at, event: &[u8]| vec![Page::new(X86_64, at).event(at, event)];
    let idle_0 = idle(X86_64, 1, 0);
    for version in [6, 7] {
        let mut recording = dat(version, "none", X86_64);
        recording.instances = vec![
            ("", "mono", vec![page(1_000, &idle_0)]),
            ("timers", "mono", vec![page(900, &hrtimer(X86_64, 1, 50))]),
            ("again", "mono", vec![page(1_001, &idle_0)]),
        ];
        recording.options = vec![(8, X86_64.u32(1))];
        let trace = read(&recording);
        assert_eq!(idles(&trace, 0), [(1_000, 1)]);
        assert!(matches!(trace.events[0].kind, EventKind::HrtimerStart { .. }));
        assert_eq!(losses(&trace), [("events_recorded_twice", 1)]);
    }
}

#[test]
fn an_instance_of_another_clock_is_skipped() {
    let page = |at| vec![Page::new(X86_64, at).event(at, &idle(X86_64, 1, 0))];
    let mut recording = dat(7, "zlib", X86_64);
    recording.instances =
        vec![("", "boot", vec![page(1_000)]), ("other", "mono", vec![page(7), Vec::new()])];
    let trace = read(&recording);
    assert_eq!(idles(&trace, 0), [(1_000, 1)]);
    assert_eq!(trace.meta.clock, "boot");
    assert_eq!(losses(&trace), [("events_in_other_clock", 1)]);
}

/// A cycle of 2.5 GHz is 0.4 ns, rounded down to 0x66666666 / 2^32.
#[test]
fn cycles_become_nanoseconds() {
    let at = 2_500_000_000;
    let page = Page::new(X86_64, at).event(at, &idle(X86_64, 1, 0));
    let mut recording = one_instance(vec![page]);
    recording.instances[0].1 = "x86-tsc";
    let text = refused(&recording);
    assert!(text.contains("clock `x86-tsc`") && text.contains("-C mono"), "{text}");
    let scale = [X86_64.u32(0x6666_6666), X86_64.u32(32), X86_64.u64(0)].concat();
    recording.options = vec![(14, scale)];
    assert_eq!(idles(&read(&recording), 0), [(999_999_999, 1)]);
}

/// An offset moves events and timers alike.
#[test]
fn an_offset_moves_all_times() {
    let page = Page::new(X86_64, 1_000)
        .event(1_000, &idle(X86_64, 1, 0))
        .event(1_001, &hrtimer(X86_64, 1, 2_000));
    let mut recording = one_instance(vec![page]);
    recording.options = vec![(7, b"500\0".to_vec())];
    let trace = read(&recording);
    assert_eq!(idles(&trace, 0), [(1_500, 1)]);
    let EventKind::HrtimerStart { expires, .. } = trace.events[1].kind else { panic!() };
    assert_eq!((trace.events[1].time.0, expires.get().0), (1_501, 2_500));
}

#[test]
fn unsupported_files_are_refused_with_a_hint() {
    let text = refused(&Dat { compression: "lzo", ..dat(7, "none", X86_64) });
    assert!(text.contains("`lzo`") && text.contains("`none`, `zlib` or `zstd`"), "{text}");
    let text = refused(&Dat { version: 5, ..dat(7, "none", X86_64) });
    assert!(text.contains("version `5`") && text.contains("6 or 7"), "{text}");
    let bytes = dat(6, "none", X86_64).bytes();
    let at = bytes.windows(9).position(|word| word == b"flyrecord").unwrap();
    let mut latency = bytes.clone();
    latency[at..at + 9].copy_from_slice(b"latency  ");
    let text = read_bytes("made", &latency).unwrap_err().to_string();
    assert!(text.contains("latency tracer") && text.contains("hint:"), "{text}");
    let mut recording = dat(7, "none", X86_64);
    recording.options.push((22, X86_64.u64(0)));
    assert!(refused(&recording).contains("latency tracer"));
}

/// Many CPUs that share their data would make a small file fill memory.
#[test]
fn data_shared_by_cpus_is_refused() {
    let mut recording = one_instance(vec![Page::new(X86_64, 1).event(1, &idle(X86_64, 1, 0))]);
    recording.options = vec![(8, X86_64.u32(400))];
    recording.version = 6;
    recording.instances[0].2.resize(400, Vec::new());
    let mut bytes = recording.bytes();
    let table = bytes.windows(10).rposition(|word| word == b"flyrecord\0").unwrap() + 10;
    let first = bytes[table..table + 16].to_vec();
    for cpu in 1..400 {
        bytes[table + 16 * cpu..][..16].copy_from_slice(&first);
    }
    let text = read_bytes("made", &bytes).unwrap_err().to_string();
    assert!(text.contains("a separate place"), "{text}");
}

#[test]
fn state_300_is_out_of_range() {
    let page = Page::new(X86_64, 1).event(1, &idle(X86_64, 300, 0)).event(2, &idle(X86_64, 9, 0));
    let trace = read(&one_instance(vec![page]));
    assert_eq!(trace.events.len(), 1);
    assert_eq!(trace.events[0].kind, EventKind::CpuIdle { state: StateIdx(9) });
    assert_eq!(losses(&trace), [("state_out_of_range_events", 1)]);
}
