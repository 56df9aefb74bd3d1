// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Text of the kernel's `trace` file, of `trace-cmd report` and `perf script`. The lines are those of
//! real machines.

mod babeltrace;
mod pages;

use crate::support::{kinds, loss, losses};
use torpor_machine::units::{CpuId, Instant, StateIdx};
use torpor_trace::{EventKind, InterruptCause, PrevState, Probe, Slim, Trace, read_bytes};

fn read(text: &str) -> Trace {
    read_bytes("text", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns events as the kernel prints them, all on CPU 1.
fn kernel_text(events: &[&str]) -> String {
    let lines = events.iter().enumerate().map(|(index, event)| {
        format!("          <idle>-0       [001] d..2.   {:>6}.000000: {event}\n", index + 1)
    });
    lines.collect()
}

/// Reads events as `trace-cmd report` prints them, all on CPU 1.
fn trace_cmd(events: &[&str]) -> Trace {
    let lines = events.iter().enumerate().map(|(index, event)| {
        format!("          <idle>-0     [001]   {:>6}.000000000: {event}\n", index + 1)
    });
    read(&(String::from("cpus=2\n") + &lines.collect::<String>()))
}

fn switches(trace: &Trace) -> Vec<(i32, PrevState, i32, Option<&str>)> {
    let switches = trace.events.iter().filter_map(|event| match event.kind {
        EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm } => {
            Some((prev_pid, prev_state, next_pid, next_comm.map(|name| trace.names.text(name))))
        }
        _ => None,
    });
    switches.collect()
}

/// Each text with its events. The mask 00000001,00000002 has bit 1 and bit 32.
#[test]
fn each_kernel_text_becomes_its_event() {
    let idle = |state| EventKind::CpuIdle { state: StateIdx(state) };
    let miss = |state, below| EventKind::CpuIdleMiss { state: StateIdx(state), below };
    let irq = |irq, name| EventKind::IrqEntry { irq, name: Some(torpor_trace::Name(name)) };
    let entry = |cause| EventKind::InterruptEntry { cause };
    let exit = |cause| EventKind::InterruptExit { cause };
    let waking = |cpu| EventKind::SchedWaking { pid: 51, target_cpu: CpuId(cpu) };
    let blocked = |io_wait| EventKind::BlockedReason { pid: 4, io_wait };
    let sent = |cpu, cause| EventKind::IpiSend { target_cpu: CpuId(cpu), cause };
    let probed = |probe, value| EventKind::Probed { probe, value: Slim::new(value) };
    let (call, reschedule) = (InterruptCause::CallFunction, InterruptCause::Reschedule);
    let cases: &[(&str, &[EventKind])] = &[
        ("cpu_idle: state=4294967295 cpu_id=1", &[idle(-1)]),
        ("cpu_idle: state=2 cpu_id=0", &[idle(2)]),
        ("cpu_idle_miss: cpu_id=1 state=2 type=below", &[miss(2, true)]),
        ("cpu_idle_miss: cpu_id=1 state=3 type=above", &[miss(3, false)]),
        (
            "cpu_frequency: state=1200000 cpu_id=1",
            &[EventKind::CpuFrequency { freq_khz: 1_200_000 }],
        ),
        ("tick_stop: success=1 dependency=NONE", &[EventKind::TickStop { success: true }]),
        ("tick_stop: success=no msg=more than 1 task", &[EventKind::TickStop { success: false }]),
        ("irq_handler_entry: irq=11 name=virtio2-req.0", &[irq(11, 0)]),
        ("irq_handler_entry: irq=12 name=PCIe PME, aerdrv", &[irq(12, 1)]),
        ("irq_handler_exit: irq=11 ret=handled", &[EventKind::IrqExit { irq: 11 }]),
        ("softirq_raise: vec=9 [action=RCU]", &[EventKind::SoftirqRaise { vec: 9 }]),
        ("softirq_entry: vec=1 [action=TIMER]", &[EventKind::SoftirqEntry { vec: 1 }]),
        ("softirq_exit: vec=1 [action=TIMER]", &[EventKind::SoftirqExit { vec: 1 }]),
        ("local_timer_entry: vector=236", &[entry(InterruptCause::LocalTimer)]),
        ("local_timer_exit: vector=236", &[exit(InterruptCause::LocalTimer)]),
        ("reschedule_entry: vector=253", &[entry(reschedule)]),
        ("ipi_entry: (Rescheduling interrupts)", &[entry(reschedule)]),
        ("ipi_exit: (IRQ work interrupts)", &[exit(InterruptCause::IrqWork)]),
        (
            "ipi_raise: target_mask=00000001,00000002 (Function call interrupts)",
            &[sent(1, call), sent(32, call)],
        ),
        ("ipi_send_cpu: cpu=1 callsite=a+0x54/0x98 callback=0x0", &[sent(1, reschedule)]),
        ("ipi_send_cpu: cpu=0 callsite=a+0x2/0x4 callback=f+0x0/0x2", &[sent(0, call)]),
        (
            "ipi_send_cpumask: cpumask=5 callsite=a+0x1/0x2 callback=0x0",
            &[sent(0, reschedule), sent(2, reschedule)],
        ),
        ("sched_waking: comm=a pid=3 b pid=51 prio=-1 target_cpu=002", &[waking(2)]),
        ("sched_waking: comm=a pid=51 prio=120 success=1 target_cpu=000", &[waking(0)]),
        ("sched_blocked_reason: pid=4 iowait=1 caller=msleep+0x18/0x24", &[blocked(true)]),
        ("sched_blocked_reason: pid=4 caller=msleep+0x18/0x24 io_wait=0", &[blocked(false)]),
        (
            "rcu: (tick_nohz_next_event+0x4a/0x130 <- rcu_needs_cpu) ret=1",
            &[probed(Probe::RcuNeedsCpu, 1)],
        ),
        (
            "sl: (menu_select+0x2f0/0x5d0 <- tick_nohz_get_sleep_length) ret=-5",
            &[probed(Probe::SleepLength, -5)],
        ),
        ("stop: (tick_nohz_idle_stop_tick+0x4/0xd0)", &[probed(Probe::StopTick, 0)]),
        ("any_name: (cpuidle_reflect+0x4/0x30) idx=3 other=7", &[probed(Probe::Reflect, 3)]),
        ("inside: (cpuidle_reflect+0x24/0x30) idx=3", &[]),
        ("other: (schedule+0x0/0x30)", &[]),
        (
            "sel: (do_idle+0x11a/0x2a0 <- cpuidle_select) ret=0xffffffffffffffff",
            &[probed(Probe::Select, -1)],
        ),
    ];
    let texts: Vec<&str> = cases.iter().map(|(text, _)| *text).collect();
    let expected: Vec<EventKind> = cases.iter().flat_map(|(_, kinds)| *kinds).copied().collect();
    let trace = read(&kernel_text(&texts));
    assert_eq!((kinds(&trace), losses(&trace)), (expected, Vec::new()));
}

#[test]
fn tasks_may_have_any_name() {
    let trace = read(&kernel_text(&[
        "sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> \
         next_comm=Binder:1 [x] next_pid=7 next_prio=120",
        "sched_switch: prev_comm=a prev_pid=9 b prev_pid=7 prev_prio=120 prev_state=R+ ==> \
         next_comm=x next_pid=2 next_pid=8 next_prio=-1",
        "sched_switch: prev_comm=a==b c prev_pid=8 prev_prio=120 prev_state=D|K ==> \
         next_comm= ==>  next_pid=9 next_prio=97",
        "sched_switch: prev_comm=z prev_pid=9 prev_prio=120 prev_state=Z ==> \
         next_comm=<...> next_pid=10 next_prio=97",
    ]));
    assert_eq!(losses(&trace), []);
    let expected = [
        (0, PrevState::Runnable, 7, Some("Binder:1 [x]")),
        (7, PrevState::Runnable, 8, Some("x next_pid=2")),
        (8, PrevState::DiskSleep, 9, Some(" ==> ")),
        (9, PrevState::Dead, 10, None),
    ];
    assert_eq!(switches(&trace), expected);
}

/// Letters of kernels before and after 4.14, and numbers of `trace-cmd report -R`.
#[test]
fn letters_and_numbers_of_states_are_read() {
    let cases = [
        ("R", PrevState::Runnable),
        ("R+", PrevState::Runnable),
        ("S", PrevState::Sleeping),
        ("I", PrevState::Sleeping),
        ("P", PrevState::Sleeping),
        ("T", PrevState::Sleeping),
        ("D", PrevState::DiskSleep),
        ("D|W", PrevState::DiskSleep),
        ("X", PrevState::Dead),
        ("x", PrevState::Dead),
        ("Z", PrevState::Dead),
        ("64", PrevState::Sleeping),
        ("256", PrevState::Runnable),
        ("2", PrevState::DiskSleep),
    ];
    for (state, expected) in cases {
        let trace = read(&kernel_text(&[&format!(
            "sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state={state} ==> \
             next_comm=b next_pid=2 next_prio=120"
        )]));
        assert_eq!(switches(&trace)[0].1, expected, "{state}");
    }
}

/// trace-cmd 3.1.6 prints I as `W` and Z as `X`.
#[test]
fn switches_of_trace_cmd_are_read() {
    let trace = trace_cmd(&[
        "sched_switch:         swapper/0:0 [120] R ==> sugov:1:51 [4294967295]",
        "sched_switch:         sugov:1:51 [4294967295] W ==> a b:12 [120]",
        "sched_switch:         a b:12 [120] X ==> kworker/2:1:2923 [120]",
        "sched_switch:         kworker/2:1:2923 [120] D ==> swapper/0:0 [120]",
        "sched_waking:         sugov:1:51 [98] CPU:001",
        "sched_waking:         bash:51 [120]<CANT FIND FIELD success> CPU:000",
    ]);
    let expected = [
        (0, PrevState::Runnable, 51, Some("sugov:1")),
        (51, PrevState::Sleeping, 12, Some("a b")),
        (12, PrevState::Dead, 2923, Some("kworker/2:1")),
        (2923, PrevState::DiskSleep, 0, Some("swapper/0")),
    ];
    assert_eq!(switches(&trace), expected);
    let expected = [1, 0].map(|cpu| EventKind::SchedWaking { pid: 51, target_cpu: CpuId(cpu) });
    assert_eq!(kinds(&trace)[4..], expected);
}

/// Text of Linux 3.18, which has `success`, and of today, by the kernel and by trace-cmd.
#[test]
fn wakeups_without_wakings_are_reported() {
    let kernel = [
        "sched_wakeup: comm=a b pid=51 prio=120 success=1 target_cpu=002",
        "sched_wakeup: comm=a b pid=52 prio=120 success=0 target_cpu=002",
        "sched_wakeup: comm=bash pid=53 prio=120 target_cpu=000",
    ];
    let report = [
        "sched_wakeup:         a b:51 [120] success=1 CPU:002",
        "sched_wakeup:         bash:53 [120]<CANT FIND FIELD success> CPU:000",
    ];
    let expected =
        [(51, 2), (53, 0)].map(|(pid, cpu)| EventKind::SchedWakeup { pid, target_cpu: CpuId(cpu) });
    for trace in [read(&kernel_text(&kernel)), trace_cmd(&report)] {
        assert_eq!(kinds(&trace), expected);
        assert!(trace.carries.wakings);
        assert_eq!(loss(&trace, "wakeups_for_wakings"), 2);
    }
}

#[test]
fn wakings_and_wakeups_are_both_events() {
    let up = "sched_wakeup: comm=a pid=51 prio=120 target_cpu=002";
    let new = "sched_wakeup_new: comm=a pid=53 prio=120 target_cpu=003";
    let waking = "sched_waking: comm=a pid=51 prio=120 target_cpu=001";
    let expected = [
        EventKind::SchedWaking { pid: 51, target_cpu: CpuId(1) },
        EventKind::SchedWakeup { pid: 51, target_cpu: CpuId(2) },
        EventKind::SchedWakeupNew { pid: 53, target_cpu: CpuId(3) },
    ];
    let trace = read(&kernel_text(&[waking, up, new]));
    assert_eq!((kinds(&trace), losses(&trace)), (expected.to_vec(), Vec::new()));
}

/// Numbers around 2^63.
#[test]
fn extreme_numbers_are_read() {
    for now in ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "-1"] {
        let trace = read(&kernel_text(&[
            &format!("hrtimer_expire_entry: hrtimer=00000000abcd1234 function=tick now={now}"),
            "cpu_idle: state=1 cpu_id=1",
        ]));
        assert_eq!(trace.events.len(), 2, "{now}");
    }
}

/// The hrtimer's expiry is recorded 0.6 us after its time: the clock is monotonic.
#[test]
fn hrtimers_show_the_clock() {
    let trace = read(
        "          <idle>-0       [001] d.h1.     4.196001: hrtimer_expire_entry: \
         hrtimer=00000000a1 function=tick_nohz_handler now=4196000365\n\
         \x20         <idle>-0       [001] d.h2.     4.196002: hrtimer_start: hrtimer=00000000a1 \
         function=tick_nohz_handler expires=4200000000 softexpires=4200000000 mode=ABS\n\
         \x20         <idle>-0       [001] d.h2.     4.196003: hrtimer_cancel: \
         hrtimer=00000000a1\n",
    );
    assert_eq!(trace.losses, []);
    assert_eq!(trace.meta.clock, "mono");
    let EventKind::HrtimerExpireEntry { timer, function, now } = trace.events[0].kind else {
        panic!("{:?}", trace.events[0]);
    };
    assert_eq!(trace.names.timer_address(timer), 0xa1);
    assert_eq!(now.get(), Instant(4_196_000_365));
    assert_eq!(trace.names.symbol(function), Some("tick_nohz_handler"));
    let expires = Slim::new(Instant(4_200_000_000));
    let start = EventKind::HrtimerStart { timer, function, expires, softexpires: expires };
    assert_eq!(trace.events[1].kind, start);
    assert_eq!(trace.events[2].kind, EventKind::HrtimerCancel { timer });
}

/// trace-cmd has its own order and form of the fields.
#[test]
fn hrtimers_of_trace_cmd_are_read() {
    let trace = trace_cmd(&[
        "hrtimer_expire_entry: hrtimer=0xff1100001ef26418 now=999999000 function=f/0x0",
        "hrtimer_expire_entry: hrtimer=0xff1100001ef26418 now=1999999000 function=f",
    ]);
    let functions: Vec<_> = trace
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::HrtimerExpireEntry { timer, function, .. } => {
                assert_eq!(trace.names.timer_address(timer), 0xff11_0000_1ef2_6418);
                Some(function)
            }
            _ => None,
        })
        .collect();
    assert_eq!(functions.len(), 2);
    assert_eq!(functions[0], functions[1], "one symbol is one function");
}

/// CPU 2, index 63 (0x0fc00000), deferrable (0x80000), pinned (0x100000).
#[test]
fn wheel_timers_have_their_flags() {
    let event = |flags: &str| {
        format!(
            "timer_start: timer=00000000433b23bd function=process_timeout expires=4294893310 \
             [timeout=1] bucket_expiry=4294893311 cpu=2 idx=63 flags={flags}"
        )
    };
    let flags_of = |trace: &Trace| -> Vec<u32> {
        let flags = trace.events.iter().filter_map(|event| match event.kind {
            EventKind::TimerStart { expires_jiffies, flags, .. } => {
                assert_eq!(expires_jiffies.get(), 4_294_893_310);
                Some(flags)
            }
            _ => None,
        });
        flags.collect()
    };
    let (none, two, all) = (event(""), event("D|P"), event("D|P|I"));
    let trace = read(&kernel_text(&[&none, &two, &all, &event("0x180002")]));
    assert_eq!(flags_of(&trace), [0x0fc0_0002, 0x0fd8_0002, 0x0ff8_0002, 0x0018_0002]);
    assert_eq!(trace.losses, []);
    // An old trace-cmd always prints all flags, a new one only those set.
    let trace = trace_cmd(&[&all, &all]);
    assert_eq!(flags_of(&trace), [0x0fc0_0002, 0x0fc0_0002]);
    assert_eq!(loss(&trace, "timers_without_flags"), 2);
    let perf = format!("swapper 0 [001] 1.000000: timer:{all}\n");
    assert_eq!(flags_of(&read(&perf)), [0x0fc0_0002]);
    let trace = trace_cmd(&[&none, &all]);
    assert_eq!(flags_of(&trace), [0x0fc0_0002, 0x0ff8_0002]);
    assert_eq!(trace.losses, []);
}

/// A function's hidden timers on a CPU are one timer.
#[test]
fn hidden_timers_are_known_by_function_and_cpu() {
    let line = |cpu: u32, us: u32, event: &str| {
        format!("  <idle>-0  [{cpu:03}] d.h1.  4.{us:06}: {event}\n")
    };
    let start = "hrtimer_start: hrtimer=(____ptrval____) function=f expires=1 softexpires=1";
    let expire = "hrtimer_expire_entry: hrtimer=(____ptrval____) function=f now=4000000000";
    let cancel = "hrtimer_cancel: hrtimer=(____ptrval____)";
    let trace = read(
        &[line(0, 0, start), line(0, 1, expire), line(1, 2, start), line(1, 3, cancel)].concat(),
    );
    let timers: Vec<_> = trace
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::HrtimerStart { timer, .. }
            | EventKind::HrtimerExpireEntry { timer, .. }
            | EventKind::HrtimerCancel { timer } => Some(timer),
            _ => None,
        })
        .collect();
    assert_eq!(timers.len(), 3, "{timers:x?}");
    assert_eq!(timers[0], timers[1]);
    assert_ne!(timers[0], timers[2]);
    assert_eq!(loss(&trace, "timers_without_address"), 4);
}

#[test]
fn probes_by_address_are_reported() {
    let trace = trace_cmd(&["rcu:  (ffffffff81188874 <- ffffffff811c18da) ret=1", IDLE_EVENT]);
    assert_eq!((trace.events.len(), loss(&trace, "probes_without_symbol")), (1, 1));
}

#[test]
fn all_forms_of_marks_are_read() {
    let texts = [
        kernel_text(&["tracing_mark_write: SNAP BEGIN: 1"]),
        kernel_text(&["print: tracing_mark_write: SNAP BEGIN: 1"]),
        kernel_text(&["ftrace:print: ip=tracing_mark_write buf=SNAP BEGIN: 1"]),
    ];
    for text in texts {
        let trace = read(&text);
        let EventKind::Marker { text } = trace.events[0].kind else { panic!("{trace:?}") };
        assert_eq!(trace.names.text(text), "SNAP BEGIN: 1");
        assert_eq!(trace.event_counts["print"], 1);
    }
}

const IDLE_EVENT: &str = "cpu_idle: state=1 cpu_id=1";
const IDLE: &str = "  <idle>-0  [001]  5.000001: cpu_idle: state=1 cpu_id=1\n";

#[test]
fn lost_events_are_reported() {
    let header = "# tracer: nop\n# entries-in-buffer/entries-written: 140/150   #P:4\n";
    let trace =
        read(&[header, "CPU:3 [LOST 12 EVENTS]\nCPU:3 [7 EVENTS DROPPED]\n", IDLE].concat());
    assert_eq!(loss(&trace, "ftrace_overrun_events"), 10 + 12 + 7);
    assert_eq!(trace.meta.cpu_count, 4);
    let trace = read(&["CPU:3 [LOST EVENTS]\nCPU:12 [EVENTS DROPPED]\n", IDLE].concat());
    assert_eq!(loss(&trace, "ftrace_gaps"), 2);
}

#[test]
fn unknown_lines_are_reported() {
    let remarks = "version = 6\ncpus=8\n\n##### CPU 2 buffer started ####\n => do_idle\n";
    let trace = read(&[remarks, IDLE].concat());
    assert_eq!((trace.losses.len(), trace.meta.cpu_count), (0, 8));
    let trace = read(&[IDLE, "second line of a mark\n", IDLE].concat());
    assert_eq!((loss(&trace, "text_lines_not_understood"), trace.events.len()), (1, 2));
}

#[test]
fn unsorted_lines_are_sorted() {
    let line = |us: u32| format!("  <idle>-0  [001]  5.{us:06}: cpu_idle: state=1 cpu_id=1\n");
    let text: String = [7, 3, 9, 1, 8].map(line).concat();
    let times: Vec<i64> = read(&text).events.iter().map(|event| event.time.0 % 1_000_000).collect();
    assert_eq!(times, [1_000, 3_000, 7_000, 8_000, 9_000]);
}

#[test]
fn times_without_a_unit_are_reported() {
    let trace =
        read(&[IDLE, "  a-1  [000] d...  812345678: cpu_idle: state=1 cpu_id=0\n"].concat());
    assert_eq!(trace.events[0].time, Instant(812_345_678));
    assert_eq!(loss(&trace, "times_without_unit"), 1);
}

/// Times of `latency-format` count from the buffer's start, so the clock is none that is known.
#[test]
fn latency_format_is_read() {
    let text = "# tracer: nop\n#\n  <idle>-0         1d..1.    0us+: cpu_idle: state=2 cpu_id=1\n\
                \x20 <idle>-0         1d..h1.  900us : softirq_raise: vec=1 [action=TIMER]\n\
                \x20 <idle>-0         1dN.1.  904us!: cpu_idle: state=4294967295 cpu_id=1\n\
                cyclicte-1213      1....... 2563694us : sys_exit: NR 230 = 0\n";
    let trace = read(text);
    let times: Vec<Instant> = trace.events.iter().map(|event| event.time).collect();
    assert_eq!(times, [Instant(0), Instant(900_000), Instant(904_000)]);
    assert!(trace.events.iter().all(|event| event.cpu == CpuId(1)));
    assert_eq!((trace.meta.clock.as_str(), losses(&trace)), ("unknown", vec![]));
    // A pasted part has no header.
    let part = text.split_once("#\n").unwrap().1;
    assert_eq!(read(part).events, trace.events);
}

#[test]
fn last_line_needs_no_newline() {
    let trace = read(&[IDLE, IDLE.trim_end()].concat());
    assert_eq!((trace.events.len(), losses(&trace)), (2, Vec::new()));
    let trace = read(&[IDLE, &IDLE[..12]].concat());
    assert_eq!((trace.events.len(), losses(&trace)), (1, vec![("truncated_file", 1)]));
}

#[test]
fn carriage_returns_and_perf_headers_are_read() {
    let text = "# os release : 6.1.0\r\n# arch : x86_64\r\n\
                \x20        swapper     0 [000]  2202.670828: power:cpu_idle: state=1 cpu_id=0\r\n";
    let trace = read(text);
    assert_eq!((trace.losses.len(), trace.events.len()), (0, 1));
    assert_eq!(trace.meta.kernel_release.as_deref(), Some("6.1.0"));
    assert_eq!(trace.meta.arch.as_deref(), Some("x86_64"));
    assert_eq!(trace.meta.clock, "local");
}

#[test]
fn text_without_events_is_refused_with_a_hint() {
    let error = read_bytes("t", b"# tracer: nop\n#\n").unwrap_err().to_string();
    assert!(error.contains("as ftrace-text") && error.contains("hint: "), "{error}");
}

#[test]
fn unknown_events_are_counted_by_name() {
    let trace = read(&kernel_text(&["clock_set_rate: perfcl_clk state=3", "do_idle <-start"]));
    assert_eq!(trace.events, []);
    assert_eq!(trace.event_counts["clock_set_rate"], 1);
    assert_eq!(trace.event_counts["function"], 1);
}
