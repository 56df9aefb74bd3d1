// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Written Perfetto traces are read back unchanged, as far as the format can hold the events.

use crate::support::events::trace;
use crate::support::{losses, spelled};
use proptest::prelude::*;
use std::num::NonZeroU64;
use torpor_machine::units::{CpuId, Instant, StateIdx};
use torpor_trace::{
    Event, EventKind, InterruptCause, Meta, Slim, Trace, read_bytes, write_perfetto,
};

fn read_back(trace: &Trace) -> Trace {
    let mut bytes = Vec::new();
    write_perfetto(trace, &mut bytes).expect("memory is writable");
    read_bytes("written", &bytes).expect("a Perfetto trace")
}

/// Removes what Perfetto's events cannot hold. Its `timer_start` always has a bucket, and its
/// `sched_switch` a name.
fn held(mut trace: Trace) -> Trace {
    trace.events.retain(|event| !matches!(event.kind, EventKind::Probed { .. }));
    let swapper = trace.names.intern("swapper");
    for event in &mut trace.events {
        match &mut event.kind {
            EventKind::SchedSwitch { next_comm, .. } => *next_comm = next_comm.or(Some(swapper)),
            EventKind::IpiSend { cause, .. } if *cause != InterruptCause::Reschedule => {
                *cause = InterruptCause::CallFunction;
            }
            EventKind::TimerStart { expires_jiffies, bucket_expiry_jiffies, .. } => {
                *bucket_expiry_jiffies =
                    bucket_expiry_jiffies.or(NonZeroU64::new(expires_jiffies.get()).map(Slim::new));
            }
            _ => {}
        }
    }
    trace
}

proptest! {
    #[test]
    fn written_events_are_read_back(trace in trace()) {
        let read = read_back(&trace);
        prop_assert_eq!(spelled(&read), spelled(&held(trace)));
        let lost = read.losses.iter().filter(|loss| loss.key != "wakeups_for_wakings");
        prop_assert_eq!(lost.count(), 0);
    }
}

/// 60,000 events are several rows of packets.
#[test]
fn a_long_trace_is_read_back() {
    let event = |index: i64| Event {
        time: Instant(7_000_000 + index),
        cpu: CpuId(index as u32 % 4),
        kind: EventKind::CpuIdle { state: StateIdx(index as i32 % 5 - 1) },
    };
    let meta = Meta { clock: "boot".to_owned(), cpu_count: 4, ..Meta::default() };
    let trace = Trace { meta, events: (0..60_000).map(event).collect(), ..Trace::default() };
    let read = read_back(&trace);
    assert!(read.events == trace.events);
    assert_eq!((read.meta.format.as_str(), losses(&read)), ("perfetto", Vec::new()));
}
