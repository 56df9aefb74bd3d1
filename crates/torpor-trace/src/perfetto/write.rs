// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes a trace as Perfetto's protobuf, for this crate, ui.perfetto.dev and trace_processor. The
//! field numbers are the reader's (`schema`).

use super::schema::{self, packet};
use crate::model::{Event, EventKind, InterruptCause, Names, PrevState, Slim, Trace};
use crate::tracepoint::{spec, x86_interrupt};
use std::collections::BTreeMap;
use std::io::{self, Write};
use torpor_machine::units::Instant;

/// Events in a row of packets, one packet per CPU.
const EVENTS_A_ROW: usize = 1 << 14;
/// The only sequence; it starts with a cleared state.
const SEQUENCE: u64 = 1;
const SEQUENCE_FLAGS: u32 = 13;
/// `BuiltinClock` numbers.
pub(super) const BOOT_CLOCK: u64 = 6;
pub(super) const MONOTONIC_CLOCK: u64 = 3;
const INCREMENTAL_STATE_CLEARED: u64 = 1;

/// Writes a trace as a Perfetto trace, with a bundle of ftrace events per CPU and interval.
///
/// Omits what Perfetto's ftrace events cannot hold: probes, losses, and the causes of IPIs other
/// than rescheduling.
///
/// # Errors
/// Errors of `out`.
pub fn write_perfetto(trace: &Trace, out: impl Write) -> io::Result<()> {
    let mut out = Packets::new(out);
    out.packet(|packet| {
        packet.number(packet::SEQUENCE_ID, SEQUENCE);
        packet.number(SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
        packet.nested(packet::INTERNED_DATA, |interned| write_symbols(interned, trace));
    })?;
    out.packet(|packet| {
        packet.nested(packet::CLOCK_SNAPSHOT, |snapshot| write_same_clocks(snapshot, trace));
        packet.number(packet::SEQUENCE_ID, SEQUENCE);
    })?;
    // Task that runs on each CPU, as far as its switches show.
    let mut running: BTreeMap<u32, i32> = BTreeMap::new();
    for row in trace.events.chunks(EVENTS_A_ROW) {
        let mut bundles: BTreeMap<u32, Message> = BTreeMap::new();
        for event in row {
            let cpu = event.cpu.0;
            let Some(fields) = fields(trace, event) else { continue };
            let bundle = bundles.entry(cpu).or_insert_with(|| {
                let mut bundle = Message::default();
                bundle.number(1, u64::from(cpu));
                bundle
            });
            let pid = running.get(&cpu).copied().unwrap_or(0);
            bundle.nested(2, |message| write_event(message, event.time, pid, &fields));
            if let EventKind::SchedSwitch { next_pid, .. } = event.kind {
                running.insert(cpu, next_pid);
            }
        }
        for bundle in bundles.into_values() {
            out.packet(|packet| {
                packet.bytes(packet::FTRACE_EVENTS, &bundle.0);
                packet.number(packet::SEQUENCE_ID, SEQUENCE);
            })?;
        }
    }
    out.flush()
}

/// Writes a `ClockSnapshot` with equal boot time and `CLOCK_MONOTONIC`, as on a machine that was
/// never suspended. Perfetto's events use the first and their timers the second; a [`Trace`] has
/// one clock for both.
fn write_same_clocks(snapshot: &mut Message, trace: &Trace) {
    let now_ns = trace.events.first().map_or(0, |event| event.time.0 as u64);
    for id in [BOOT_CLOCK, MONOTONIC_CLOCK] {
        snapshot.nested(1, |clock| {
            clock.number(1, id);
            clock.number(2, now_ns);
        });
    }
}

/// Writes `InternedData.kernel_symbols`, numbered by address.
fn write_symbols(interned: &mut Message, trace: &Trace) {
    let functions = trace.events.iter().filter_map(|event| {
        let function = trace.names.function_of(*event.kind.clone().function_mut()?);
        Some((function.address, function.symbol?))
    });
    let named: BTreeMap<u64, _> = functions.collect();
    for (address, name) in named {
        interned.nested(26, |symbol| {
            symbol.number(1, address);
            symbol.bytes(2, trace.names.text(name).as_bytes());
        });
    }
}

/// Writes an `FtraceEvent`.
fn write_event(message: &mut Message, time: Instant, pid: i32, (name, values): &Fields<'_>) {
    message.number(1, time.0 as u64);
    message.number(2, pid as u64);
    if let Some((number, numbers)) = schema::number_of(name) {
        return message.nested(number, |payload| {
            for (&number, value) in numbers.iter().zip(values).filter(|(n, _)| **n != 0) {
                payload.value(u32::from(number), value);
            }
        });
    }
    let names = spec(name).expect("every event has a tracepoint").fields;
    message.nested(schema::GENERIC, |payload| {
        payload.bytes(1, name.as_bytes());
        for (name, value) in names.iter().zip(values) {
            payload.nested(2, |field| {
                field.bytes(1, name.as_bytes());
                field.value(if matches!(value, Value::Text(_)) { 3 } else { 5 }, value);
            });
        }
    });
}

enum Value<'a> {
    Number(u64),
    Text(&'a str),
}

/// A tracepoint and its values, in the order of its spec.
type Fields<'a> = (&'static str, Vec<Value<'a>>);

fn numbers<'a>(name: &'static str, values: &[u64]) -> Option<Fields<'a>> {
    Some((name, values.iter().map(|&value| Value::Number(value)).collect()))
}

/// Returns what Perfetto's event has; `None` if it cannot hold the event.
fn fields<'a>(trace: &'a Trace, event: &Event) -> Option<Fields<'a>> {
    let cpu = u64::from(event.cpu.0);
    let text = |name| Value::Text(trace.names.text(name));
    match event.kind {
        EventKind::CpuIdle { state } => numbers("cpu_idle", &[u64::from(state.0 as u32), cpu]),
        EventKind::CpuIdleMiss { state, below } => {
            numbers("cpu_idle_miss", &[cpu, u64::from(state.0 as u32), below.into()])
        }
        EventKind::CpuFrequency { freq_khz } => numbers("cpu_frequency", &[freq_khz.into(), cpu]),
        EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm } => {
            let prev_state = match prev_state {
                PrevState::Runnable => 0,
                PrevState::Sleeping => 1,
                PrevState::DiskSleep => 2,
                PrevState::Dead => 16,
            };
            let values = [prev_pid as u64, prev_state, next_pid as u64].map(Value::Number);
            let comm = next_comm.map_or(Value::Text("swapper"), text);
            Some(("sched_switch", values.into_iter().chain([comm]).collect()))
        }
        EventKind::SchedWaking { pid, target_cpu } => {
            numbers("sched_waking", &[pid as u64, target_cpu.0.into()])
        }
        EventKind::SchedWakeup { pid, target_cpu } => {
            numbers("sched_wakeup", &[pid as u64, target_cpu.0.into(), 1])
        }
        EventKind::SchedWakeupNew { pid, target_cpu } => {
            numbers("sched_wakeup_new", &[pid as u64, target_cpu.0.into()])
        }
        EventKind::BlockedReason { pid, io_wait } => {
            numbers("sched_blocked_reason", &[pid as u64, io_wait.into()])
        }
        EventKind::IrqEntry { irq, name } => {
            let name = name.map_or(Value::Text(""), text);
            Some(("irq_handler_entry", vec![Value::Number(irq.into()), name]))
        }
        EventKind::IrqExit { irq } => numbers("irq_handler_exit", &[irq.into()]),
        EventKind::SoftirqRaise { vec } => numbers("softirq_raise", &[vec.into()]),
        EventKind::SoftirqEntry { vec } => numbers("softirq_entry", &[vec.into()]),
        EventKind::SoftirqExit { vec } => numbers("softirq_exit", &[vec.into()]),
        EventKind::InterruptEntry { cause } => numbers(x86_interrupt(cause).0, &[]),
        EventKind::InterruptExit { cause } => numbers(x86_interrupt(cause).1, &[]),
        EventKind::IpiSend { target_cpu, cause } => {
            let callback = u64::from(cause != InterruptCause::Reschedule);
            numbers("ipi_send_cpu", &[target_cpu.0.into(), callback])
        }
        EventKind::TickStop { success } => numbers("tick_stop", &[success.into()]),
        EventKind::Marker { text: name } => Some(("print", vec![text(name)])),
        _ => timer_fields(&trace.names, &event.kind),
    }
}

fn timer_fields<'a>(names: &Names, kind: &EventKind) -> Option<Fields<'a>> {
    let at = |time: Slim<Instant>| time.get().0 as u64;
    let timer_of = |timer| names.timer_address(timer);
    let address = |function| names.function_of(function).address;
    match *kind {
        EventKind::HrtimerStart { timer, function, expires, softexpires } => numbers(
            "hrtimer_start",
            &[timer_of(timer), address(function), at(expires), at(softexpires)],
        ),
        EventKind::HrtimerCancel { timer } => numbers("hrtimer_cancel", &[timer_of(timer)]),
        EventKind::HrtimerExpireEntry { timer, function, now } => {
            numbers("hrtimer_expire_entry", &[timer_of(timer), address(function), at(now)])
        }
        EventKind::HrtimerExpireExit { timer } => {
            numbers("hrtimer_expire_exit", &[timer_of(timer)])
        }
        EventKind::TimerStart {
            timer,
            function,
            expires_jiffies,
            bucket_expiry_jiffies,
            flags,
        } => {
            let expires = expires_jiffies.get();
            let bucket = bucket_expiry_jiffies.map_or(expires, |bucket| bucket.get().get());
            let values = [timer_of(timer), address(function), expires, bucket, flags.into()];
            numbers("timer_start", &values)
        }
        EventKind::TimerCancel { timer } => numbers("timer_cancel", &[timer_of(timer)]),
        EventKind::TimerExpireEntry { timer, function, now_jiffies } => {
            let values = [timer_of(timer), address(function), now_jiffies.get()];
            numbers("timer_expire_entry", &values)
        }
        _ => None,
    }
}

/// Writes the packets of a trace.
pub(super) struct Packets<W> {
    out: W,
    /// The latest one, whose memory is used again.
    latest: Message,
}

impl<W: Write> Packets<W> {
    pub(super) fn new(out: W) -> Packets<W> {
        Packets { out, latest: Message::default() }
    }

    pub(super) fn packet(&mut self, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        self.latest.0.clear();
        self.latest.nested(1, fill);
        self.out.write_all(&self.latest.0)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A protobuf message under construction.
#[derive(Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(super) fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Adds a message that `fill` writes in place.
    pub(super) fn nested(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        self.varint(u64::from(field) << 3 | 2);
        let at = self.0.len();
        // Room for the length of most messages.
        self.0.push(0);
        let from = self.0.len();
        fill(self);
        let len = self.0[from..].len();
        if len < 0x80 {
            self.0[at] = len as u8;
        } else {
            let mut long = Message::default();
            long.varint(len as u64);
            self.0.splice(at..from, long.0);
        }
    }

    fn value(&mut self, field: u32, value: &Value<'_>) {
        match value {
            Value::Number(number) => self.number(field, *number),
            Value::Text(text) => self.bytes(field, text.as_bytes()),
        }
    }
}
