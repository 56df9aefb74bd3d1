// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Traces written for Perfetto are read back as they were, but for what its events cannot hold.

use proptest::prelude::*;
use torpor_machine::units::{CpuId, Instant, StateIdx};
use torpor_trace::{
    Event, EventKind, Function, InterruptCause, Meta, Names, PrevState, Probe, Trace, read_bytes,
    write_perfetto,
};

const TEXTS: [&str; 3] = ["tick_nohz_handler", "render", "governor reset: all"];
/// Several rows of packets.
const REPEATS: i64 = 2_000;

/// One event of each kind, and where there are sides or causes, of each.
fn kinds(names: &mut Names) -> Vec<EventKind> {
    let [symbol, comm, mark] = TEXTS.map(|text| names.intern(text));
    let function = Function { address: 0xffff_ffff_8110_0000, symbol: Some(symbol) };
    let unnamed = Function { address: 0xffff_ffff_8120_0000, symbol: None };
    let (timer, at) = (0xffff_8880_0000_0040, Instant(7_000_000));
    let mut kinds = vec![
        EventKind::CpuIdle { state: StateIdx(2) },
        EventKind::CpuIdle { state: StateIdx(-1) },
        EventKind::CpuIdleMiss { state: StateIdx(1), below: false },
        EventKind::CpuIdleMiss { state: StateIdx(0), below: true },
        EventKind::CpuFrequency { freq_khz: 1_803_000 },
        EventKind::SchedWaking { pid: 7, target_cpu: CpuId(129) },
        EventKind::SchedWakeup { pid: 7, target_cpu: CpuId(128) },
        EventKind::SchedWakeupNew { pid: 8, target_cpu: CpuId(127) },
        EventKind::BlockedReason { pid: 7, io_wait: true },
        EventKind::IrqEntry { irq: 32, name: None },
        EventKind::IrqExit { irq: 32 },
        EventKind::SoftirqRaise { vec: 1 },
        EventKind::SoftirqEntry { vec: 1 },
        EventKind::SoftirqExit { vec: 1 },
        EventKind::IpiSend { target_cpu: CpuId(77), cause: InterruptCause::Reschedule },
        EventKind::IpiSend { target_cpu: CpuId(3), cause: InterruptCause::CallFunction },
        EventKind::HrtimerStart { timer, function, expires: at, softexpires: at },
        EventKind::HrtimerStart { timer, function: unnamed, expires: at, softexpires: at },
        EventKind::HrtimerCancel { timer },
        EventKind::HrtimerExpireEntry { timer, function, now: at },
        EventKind::HrtimerExpireExit { timer },
        EventKind::TimerStart {
            timer,
            function,
            expires_jiffies: 4_294_900_000,
            bucket_expiry_jiffies: Some(4_294_900_008),
            flags: 0x0440_0001,
        },
        EventKind::TimerCancel { timer },
        EventKind::TimerExpireEntry { timer, function, now_jiffies: 4_294_900_008 },
        EventKind::TickStop { success: true },
        EventKind::TickStop { success: false },
        EventKind::Marker { text: mark },
    ];
    let states = [PrevState::Runnable, PrevState::Sleeping, PrevState::DiskSleep, PrevState::Dead];
    kinds.extend(states.map(|prev_state| EventKind::SchedSwitch {
        prev_pid: 5,
        prev_state,
        next_pid: 7,
        next_comm: Some(comm),
    }));
    let causes = [
        InterruptCause::LocalTimer,
        InterruptCause::Reschedule,
        InterruptCause::CallFunction,
        InterruptCause::IrqWork,
        InterruptCause::Other,
    ];
    kinds.extend(causes.map(|cause| EventKind::InterruptEntry { cause }));
    kinds.extend(causes.map(|cause| EventKind::InterruptExit { cause }));
    kinds
}

/// An event with its names as texts: readers number names as they come.
fn told(trace: &Trace, event: &Event) -> String {
    let mut text = format!("{} {} {:?}", event.time.0, event.cpu, event.kind);
    for number in 0..TEXTS.len() as u32 + 8 {
        let name = format!("Name({number})");
        if text.contains(&name) {
            let means = trace.names.text(torpor_trace::Name(number));
            text = text.replace(&name, &format!("{means:?}"));
        }
    }
    text
}

fn write(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_perfetto(trace, &mut bytes).expect("a vector takes all");
    bytes
}

fn trace_of(events: Vec<Event>, names: Names) -> Trace {
    let meta = Meta { clock: "boot".to_owned(), cpu_count: 4, ..Meta::default() };
    Trace { meta, events, names, ..Trace::default() }
}

#[test]
fn every_kind_of_event_survives() {
    let mut names = Names::default();
    let kinds = kinds(&mut names);
    let mut events = Vec::new();
    for round in 0..REPEATS {
        for (place, kind) in (0..).zip(&kinds) {
            let time = Instant(7_000_000 + round * 1_000 + place);
            events.push(Event { time, cpu: CpuId((place % 4) as u32), kind: *kind });
        }
    }
    let trace = trace_of(events, names);
    let read = read_bytes("written", &write(&trace)).expect("a Perfetto trace");
    assert_eq!(read.meta.format, "perfetto");
    assert!(read.losses.is_empty(), "{:?}", read.losses);
    assert_eq!(read.events.len(), trace.events.len());
    for (ours, theirs) in trace.events.iter().zip(&read.events) {
        assert_eq!(told(&trace, ours), told(&read, theirs));
    }
}

#[test]
fn a_probe_is_left_out_and_nothing_else() {
    let at = |time, kind| Event { time: Instant(time), cpu: CpuId(0), kind };
    let probed = EventKind::Probed { probe: Probe::SleepLength, value: 5 };
    let idle = EventKind::CpuIdle { state: StateIdx(1) };
    let trace = trace_of(vec![at(1, probed), at(2, idle)], Names::default());
    let read = read_bytes("written", &write(&trace)).expect("a Perfetto trace");
    assert_eq!(read.events, [at(2, idle)]);
}

proptest! {
    #[test]
    fn times_and_cpus_survive(stamps in prop::collection::vec((0..1_000_000i64, 0..300u32), 1..200)) {
        let mut stamps = stamps;
        stamps.sort_by_key(|(time, _)| *time);
        let kind = EventKind::CpuIdle { state: StateIdx(1) };
        let events = stamps.iter().map(|&(time, cpu)| Event {
            time: Instant(time),
            cpu: CpuId(cpu),
            kind,
        });
        let trace = trace_of(events.collect(), Names::default());
        let read = read_bytes("written", &write(&trace)).expect("a Perfetto trace");
        let mut ours = trace.events.clone();
        let mut theirs = read.events.clone();
        // Bundles of one moment give the lower CPU first.
        ours.sort_by_key(|event| (event.time, event.cpu));
        theirs.sort_by_key(|event| (event.time, event.cpu));
        prop_assert_eq!(ours, theirs);
    }
}
