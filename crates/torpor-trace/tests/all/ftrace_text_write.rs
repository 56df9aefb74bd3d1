// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Text that is written is read back as it was.

use proptest::prelude::*;
use torpor_machine::units::{CpuId, Instant, StateIdx};
use torpor_trace::{
    Event, EventKind, Function, InterruptCause, Meta, Name, Names, PrevState, Probe, Trace,
    read_bytes, write_ftrace_text,
};

/// Uptime of a machine that runs for a hundred years.
const BOOTED_NS: i64 = 100 * 365 * 86_400 * 1_000_000_000;
/// A longer gap between two events is damage.
const DAYS_NS: i64 = 29 * 86_400 * 1_000_000_000;

const SYMBOLS: [&str; 3] = ["tick_nohz_handler", "hrtimer_wakeup", "process_timeout"];
const COMMS: [&str; 6] =
    ["a", "kworker/u8:1", "a b=c d", " [1] 2.5: x: y", "==> next_pid=3", "<x>"];
/// Each text's number is its place among the names of [`names`].
const MARK: Name = Name((SYMBOLS.len() + COMMS.len()) as u32);

fn names() -> Names {
    let mut names = Names::default();
    for text in SYMBOLS.iter().chain(&COMMS).chain(&["governor reset: all"]) {
        names.intern(text);
    }
    names
}

fn cause() -> impl Strategy<Value = InterruptCause> {
    prop::sample::select(vec![
        InterruptCause::LocalTimer,
        InterruptCause::Reschedule,
        InterruptCause::CallFunction,
        InterruptCause::IrqWork,
        InterruptCause::Other,
    ])
}

fn function() -> impl Strategy<Value = Function> {
    let named = (0..SYMBOLS.len() as u32).prop_map(|name| (0, Some(Name(name))));
    let unnamed = (1u64..).prop_map(|address| (address, None));
    prop_oneof![named, unnamed].prop_map(|(address, symbol)| Function { address, symbol })
}

fn comm() -> impl Strategy<Value = Option<Name>> {
    prop::option::of((0..COMMS.len()).prop_map(|comm| Name((SYMBOLS.len() + comm) as u32)))
}

fn sched() -> impl Strategy<Value = EventKind> {
    let states =
        vec![PrevState::Runnable, PrevState::Sleeping, PrevState::DiskSleep, PrevState::Dead];
    prop_oneof![
        (-1..4i32, prop::sample::select(states), 0..4i32, comm()).prop_map(
            |(prev_pid, prev_state, next_pid, next_comm)| EventKind::SchedSwitch {
                prev_pid,
                prev_state,
                next_pid,
                next_comm
            }
        ),
        (0..9i32, 0..8192u32)
            .prop_map(|(pid, cpu)| EventKind::SchedWaking { pid, target_cpu: CpuId(cpu) }),
        (any::<i32>(), 0u32..64)
            .prop_map(|(pid, cpu)| EventKind::SchedWakeup { pid, target_cpu: CpuId(cpu) }),
        (any::<i32>(), 0u32..64)
            .prop_map(|(pid, cpu)| EventKind::SchedWakeupNew { pid, target_cpu: CpuId(cpu) }),
        (0..9i32, any::<bool>())
            .prop_map(|(pid, io_wait)| EventKind::BlockedReason { pid, io_wait }),
    ]
}

fn idle() -> impl Strategy<Value = EventKind> {
    let probes = vec![
        Probe::Select,
        Probe::Reflect,
        Probe::SleepLength,
        Probe::NextEvent,
        Probe::RcuNeedsCpu,
        Probe::Util,
        Probe::StopTick,
        Probe::RetainTick,
        Probe::IdleEnter,
        Probe::IrqExit,
    ];
    prop_oneof![
        (-1..=255i32).prop_map(|state| EventKind::CpuIdle { state: StateIdx(state) }),
        (0..=255i32, any::<bool>())
            .prop_map(|(state, below)| EventKind::CpuIdleMiss { state: StateIdx(state), below }),
        any::<u32>().prop_map(|freq_khz| EventKind::CpuFrequency { freq_khz }),
        (prop::sample::select(probes), any::<i64>())
            .prop_map(|(probe, value)| EventKind::Probed { probe, value }),
        any::<bool>().prop_map(|success| EventKind::TickStop { success }),
        Just(EventKind::Marker { text: MARK }),
    ]
}

fn interrupts() -> impl Strategy<Value = EventKind> {
    prop_oneof![
        (any::<u32>(), any::<bool>()).prop_map(|(irq, is_named)| EventKind::IrqEntry {
            irq,
            name: is_named.then_some(MARK)
        }),
        any::<u32>().prop_map(|irq| EventKind::IrqExit { irq }),
        (0..12u32).prop_map(|vec| EventKind::SoftirqRaise { vec }),
        (0..12u32).prop_map(|vec| EventKind::SoftirqEntry { vec }),
        (0..12u32).prop_map(|vec| EventKind::SoftirqExit { vec }),
        cause().prop_map(|cause| EventKind::InterruptEntry { cause }),
        cause().prop_map(|cause| EventKind::InterruptExit { cause }),
        (0..8192u32, cause())
            .prop_map(|(cpu, cause)| EventKind::IpiSend { target_cpu: CpuId(cpu), cause }),
    ]
}

/// An hrtimer that expires does so at its event's time, as in a monotonic clock.
fn timers(time_ns: i64) -> impl Strategy<Value = EventKind> {
    let timer = any::<u64>;
    let at = || prop_oneof![Just(Instant::NEVER), (0..i64::MAX).prop_map(Instant)];
    prop_oneof![
        (timer(), function(), at(), at()).prop_map(|(timer, function, expires, softexpires)| {
            EventKind::HrtimerStart { timer, function, expires, softexpires }
        }),
        timer().prop_map(|timer| EventKind::HrtimerCancel { timer }),
        (timer(), function()).prop_map(move |(timer, function)| {
            EventKind::HrtimerExpireEntry { timer, function, now: Instant(time_ns) }
        }),
        timer().prop_map(|timer| EventKind::HrtimerExpireExit { timer }),
        (timer(), function(), any::<u64>(), any::<Option<u64>>(), any::<u32>()).prop_map(
            |(timer, function, expires_jiffies, bucket_expiry_jiffies, flags)| {
                EventKind::TimerStart {
                    timer,
                    function,
                    expires_jiffies,
                    bucket_expiry_jiffies,
                    flags,
                }
            }
        ),
        timer().prop_map(|timer| EventKind::TimerCancel { timer }),
        (timer(), function(), any::<u64>()).prop_map(|(timer, function, now_jiffies)| {
            EventKind::TimerExpireEntry { timer, function, now_jiffies }
        }),
    ]
}

prop_compose! {
    fn event()(time_ns in BOOTED_NS..BOOTED_NS + DAYS_NS, cpu in 0..8192u32)(
        kind in prop_oneof![sched(), idle(), interrupts(), timers(time_ns)],
        time_ns in Just(time_ns),
        cpu in Just(cpu),
    ) -> Event {
        Event { time: Instant(time_ns), cpu: CpuId(cpu), kind }
    }
}

prop_compose! {
    fn trace()(mut events in prop::collection::vec(event(), 1..40)) -> Trace {
        events.sort_by_key(|event| event.time);
        let meta = Meta {
            clock: "mono".to_owned(),
            kernel_release: Some("6.12.1 #1 SMP".to_owned()),
            arch: Some("aarch64".to_owned()),
            ..Meta::default()
        };
        Trace { meta, events, names: names(), ..Trace::default() }
    }
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut text = Vec::new();
    write_ftrace_text(trace, &mut text).expect("memory is writable");
    text
}

/// Events with their names spelled out: two traces number theirs differently, and a function with
/// a symbol has no address in text.
fn spelled(trace: &Trace) -> Vec<String> {
    let spell = |name: Option<Name>| name.map(|name| trace.names.text(name));
    let spelled = trace.events.iter().map(|event| {
        let mut kind = event.kind;
        let name = match &mut kind {
            EventKind::SchedSwitch { next_comm: name, .. } | EventKind::IrqEntry { name, .. } => {
                spell(name.take())
            }
            EventKind::Marker { text } => spell(Some(std::mem::replace(text, Name(0)))),
            EventKind::HrtimerStart { function, .. }
            | EventKind::HrtimerExpireEntry { function, .. }
            | EventKind::TimerStart { function, .. }
            | EventKind::TimerExpireEntry { function, .. } => {
                let symbol = spell(function.symbol.take());
                function.address *= u64::from(symbol.is_none());
                symbol
            }
            _ => None,
        };
        format!("{} {} {kind:?} {name:?}", event.time.0, event.cpu.0)
    });
    spelled.collect()
}

/// The random traces below rarely have a task of such a name twice on a CPU.
#[test]
fn a_task_named_as_a_cpu_and_a_time_is_read_back() {
    let comm = Name((SYMBOLS.len() + 3) as u32);
    let switch = |time, prev_pid, next_pid| Event {
        time: Instant(time),
        cpu: CpuId(124),
        kind: EventKind::SchedSwitch {
            prev_pid,
            prev_state: PrevState::Runnable,
            next_pid,
            next_comm: Some(comm),
        },
    };
    let events = vec![switch(1_000, 0, 1), switch(2_000, 1, 2), switch(3_000, 2, 1)];
    let trace = Trace { events, names: names(), ..Trace::default() };
    let read = read_bytes("written", &written(&trace)).unwrap();
    assert_eq!(spelled(&read), spelled(&trace));
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(trace in trace()) {
        let text = written(&trace);
        let read = read_bytes("written", &text).unwrap();
        prop_assert_eq!(spelled(&read), spelled(&trace), "{}", String::from_utf8_lossy(&text));
        let lost = read.losses.iter().filter(|loss| loss.key != "wakeups_for_wakings");
        prop_assert_eq!(lost.count(), 0);
        prop_assert_eq!(&read.meta.clock, &trace.meta.clock);
        prop_assert_eq!(&read.meta.kernel_release, &trace.meta.kernel_release);
        prop_assert_eq!(&read.meta.arch, &trace.meta.arch);
        // A second time there is nothing left to lose.
        let again = read_bytes("again", &written(&read)).unwrap();
        prop_assert_eq!(&again.events, &read.events);
    }

    /// The reader cuts at the end of a line, and says so.
    #[test]
    fn a_cut_text_has_the_events_of_its_whole_lines(
        trace in trace(),
        cut in any::<prop::sample::Index>(),
    ) {
        let text = written(&trace);
        let cut = &text[..cut.index(text.len())];
        let lines = cut.iter().filter(|byte| **byte == b'\n').count();
        match read_bytes("cut", cut) {
            Ok(read) => {
                let whole = lines - HEADER_LINES;
                let is_read = read.events.len() == whole + 1;
                prop_assert!(is_read || read.events.len() == whole);
                let is_cut = read.losses.iter().any(|loss| loss.key == "truncated_file");
                let rest = cut.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
                prop_assert_eq!(is_cut, !is_read && !rest.trim_ascii().is_empty());
            }
            Err(_) => prop_assert!(lines <= HEADER_LINES),
        }
    }
}

/// A header of nine lines, three of them about clock, kernel and machine.
const HEADER_LINES: usize = 9;

/// The committed recording, written as text, and as perf itself prints it (but for the flags of
/// timers, which perf prints all of).
#[test]
fn a_recording_is_the_same_as_text() {
    let recording = torpor_trace::read(&crate::support::own_trace("plain.data")).unwrap();
    let text = read_bytes("written", &written(&recording)).unwrap();
    assert_eq!(spelled(&text), spelled(&recording));
    assert_eq!(text.event_counts, recording.event_counts);
    let mut plain = recording;
    for event in &mut plain.events {
        if let EventKind::TimerStart { flags, .. } = &mut event.kind {
            *flags &= !ALL_LETTERS;
        }
    }
    let perf = torpor_trace::read(&crate::support::own_trace("plain.perf-script.txt")).unwrap();
    assert_eq!(spelled(&perf), spelled(&plain));
    assert_eq!(perf.event_counts, plain.event_counts);
}

/// Deferrable, pinned, irq-safe.
const ALL_LETTERS: u32 = 0x0038_0000;

/// The switch before names the task that the next event interrupted.
#[test]
fn a_text_looks_like_the_kernels() {
    let mut names = Names::default();
    let cat = names.intern("cat");
    let switch = EventKind::SchedSwitch {
        prev_pid: 0,
        prev_state: PrevState::Runnable,
        next_pid: 42,
        next_comm: Some(cat),
    };
    let at = |us: i64, kind| Event { time: Instant(1_000 * us), cpu: CpuId(3), kind };
    let wakeup = EventKind::SchedWaking { pid: 7, target_cpu: CpuId(1) };
    let ipi = EventKind::IpiSend { target_cpu: CpuId(33), cause: InterruptCause::Reschedule };
    let events = vec![at(5, switch), at(1_000_006, wakeup), at(1_000_007, ipi)];
    let text = written(&Trace { events, names, ..Trace::default() });
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let expected = [
        "           <...>-0       [003] .....     0.000005000: sched_switch: prev_comm=<...> \
         prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=cat next_pid=42 next_prio=120",
        "             cat-42      [003] .....     1.000006000: sched_waking: comm=<...> pid=7 \
         prio=120 target_cpu=001",
        "             cat-42      [003] .....     1.000007000: ipi_raise: \
         target_mask=00000002,00000000 (Rescheduling interrupts)",
    ];
    assert_eq!(lines, expected);
}
