// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Random traces with events of every kind.

use proptest::prelude::*;
use std::num::NonZeroU64;
use torpor_machine::units::{CpuId, Instant, StateIdx};
use torpor_trace::{
    Event, EventKind, Function, FunctionId, InterruptCause, Meta, Name, Names, PrevState, Probe,
    Slim, Timer, Trace,
};

/// Uptime of a hundred years.
const BOOTED_NS: i64 = 100 * 365 * 86_400 * 1_000_000_000;
/// Range of the times; a gap of 30 days is damage.
const DAYS_NS: i64 = 29 * 86_400 * 1_000_000_000;

pub const SYMBOLS: [&str; 3] = ["tick_nohz_handler", "hrtimer_wakeup", "process_timeout"];
const COMMS: [&str; 6] =
    ["a", "kworker/u8:1", "a b=c d", " [1] 2.5: x: y", "==> next_pid=3", "<x>"];
/// The last name of [`names`].
const MARK: Name = Name((SYMBOLS.len() + COMMS.len()) as u32);

/// Timers and functions of a trace.
const TIMERS: usize = 8;
const FUNCTIONS: usize = 6;

pub fn names() -> Names {
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
    let named =
        (0..SYMBOLS.len() as u32).prop_map(|name| (0x10 + u64::from(name), Some(Name(name))));
    let unnamed = (0x1000u64..).prop_map(|address| (address, None));
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
            .prop_map(|(probe, value)| EventKind::Probed { probe, value: value.into() }),
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

/// Hrtimers expire at their event's time, as in a monotonic clock.
fn timers(time_ns: i64) -> impl Strategy<Value = EventKind> {
    let timer = || (0..TIMERS as u32).prop_map(Timer);
    let function = || (0..FUNCTIONS as u16).prop_map(FunctionId);
    let at =
        || prop_oneof![Just(Instant::NEVER), (0..i64::MAX).prop_map(Instant)].prop_map(Slim::new);
    let jiffies = || any::<u64>().prop_map(Slim::new);
    let bucket = prop::option::of((1u64..).prop_map(|at| Slim::new(NonZeroU64::new(at).unwrap())));
    prop_oneof![
        (timer(), function(), at(), at()).prop_map(|(timer, function, expires, softexpires)| {
            EventKind::HrtimerStart { timer, function, expires, softexpires }
        }),
        timer().prop_map(|timer| EventKind::HrtimerCancel { timer }),
        (timer(), function()).prop_map(move |(timer, function)| {
            EventKind::HrtimerExpireEntry { timer, function, now: Instant(time_ns).into() }
        }),
        timer().prop_map(|timer| EventKind::HrtimerExpireExit { timer }),
        (timer(), function(), jiffies(), bucket, any::<u32>()).prop_map(
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
        (timer(), function(), jiffies()).prop_map(|(timer, function, now_jiffies)| {
            EventKind::TimerExpireEntry { timer, function, now_jiffies }
        }),
    ]
}

/// Number of kinds of events.
#[allow(dead_code)]
pub const KINDS: usize = 26;

/// Returns the number of an event's kind.
#[allow(dead_code)]
pub fn number(kind: &EventKind) -> usize {
    match kind {
        EventKind::CpuIdle { .. } => 0,
        EventKind::CpuIdleMiss { .. } => 1,
        EventKind::CpuFrequency { .. } => 2,
        EventKind::SchedSwitch { .. } => 3,
        EventKind::SchedWaking { .. } => 4,
        EventKind::SchedWakeup { .. } => 5,
        EventKind::SchedWakeupNew { .. } => 6,
        EventKind::BlockedReason { .. } => 7,
        EventKind::Probed { .. } => 8,
        EventKind::IrqEntry { .. } => 9,
        EventKind::IrqExit { .. } => 10,
        EventKind::SoftirqRaise { .. } => 11,
        EventKind::SoftirqEntry { .. } => 12,
        EventKind::SoftirqExit { .. } => 13,
        EventKind::InterruptEntry { .. } => 14,
        EventKind::InterruptExit { .. } => 15,
        EventKind::IpiSend { .. } => 16,
        EventKind::HrtimerStart { .. } => 17,
        EventKind::HrtimerCancel { .. } => 18,
        EventKind::HrtimerExpireEntry { .. } => 19,
        EventKind::HrtimerExpireExit { .. } => 20,
        EventKind::TimerStart { .. } => 21,
        EventKind::TimerCancel { .. } => 22,
        EventKind::TimerExpireEntry { .. } => 23,
        EventKind::TickStop { .. } => 24,
        EventKind::Marker { .. } => 25,
    }
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
    pub fn trace()(
        mut events in prop::collection::vec(event(), 1..40),
        timers in prop::collection::vec(any::<u64>(), TIMERS),
        functions in prop::collection::vec(function(), FUNCTIONS),
    ) -> Trace {
        events.sort_by_key(|event| (event.time, event.cpu));
        let mut names = names();
        for event in &mut events {
            if let Some(timer) = event.kind.timer_mut() {
                *timer = names.timer(timers[timer.0 as usize]);
            }
            if let Some(function) = event.kind.function_mut() {
                *function = names.function(functions[usize::from(function.0)]).unwrap();
            }
        }
        let meta = Meta {
            clock: "mono".to_owned(),
            kernel_release: Some("6.12.1 #1 SMP".to_owned()),
            arch: Some("aarch64".to_owned()),
            ..Meta::default()
        };
        Trace { meta, events, names, ..Trace::default() }
    }
}
