// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `FtraceEventBundle`: events read at once from one CPU's ring buffer.

use super::clock::{BundleClock, FtraceClock};
use super::generic::Generic;
use super::schema::{self, Decoder};
use super::wire::{Fault, Fields, Packed, Value, length, long_varint, varint};
use crate::builder::{Builder, CPUS_MAX};
use crate::loss;
use crate::model::{EventKind, Name, UNKNOWN_PID};
use crate::tracepoint::{self, Context};
use torpor_machine::units::CpuId;

/// State across bundles.
pub(crate) struct Bundles {
    decoders: Vec<Option<Decoder>>,
    counts: Vec<u64>,
    generic: Generic,
    pub(super) clock: FtraceClock,
    /// The task running on each CPU after the last compact switch, if no gap followed.
    running: Vec<Option<i32>>,
    table: Vec<Name>,
}

/// The fields of a bundle other than its events.
#[derive(Default)]
struct Head<'a> {
    cpu: Option<u64>,
    lost_events: bool,
    compact: Option<&'a [u8]>,
    clock: BundleClock,
}

impl Default for Bundles {
    fn default() -> Bundles {
        Bundles {
            decoders: schema::decoders(),
            counts: vec![0; schema::EVENT_NUMBERS],
            generic: Generic::default(),
            clock: FtraceClock::default(),
            running: Vec::new(),
            table: Vec::new(),
        }
    }
}

impl Bundles {
    /// Reads one bundle. `is_cut` is set if the end of the file may have cut it.
    pub(crate) fn read(&mut self, bytes: &[u8], is_cut: bool, out: &mut Builder) {
        let head = self.head(bytes, out);
        let Some(cpu) = head.cpu.filter(|&cpu| cpu < u64::from(CPUS_MAX)) else {
            return out.lose(&loss::CPU_OUT_OF_RANGE, 1);
        };
        let cpu = cpu as u32;
        let running = self.running_slot(cpu);
        if head.lost_events {
            out.lose(&loss::FTRACE_GAPS, 1);
            self.running[running] = None;
        }
        let compact = head.compact.map(Compact::new);
        let first_switch = compact.as_ref().and_then(Compact::first_switch_ns);
        let Some(offset_ns) = self.clock.offset_ns(&head.clock) else {
            return out.lose(&loss::CLOCK_MIXED, 1);
        };

        let mut before_switch = None;
        let mut fields = Fields::new(bytes);
        loop {
            let event = match fields.take_bytes(EVENT_TAG) {
                Some(event) => event,
                None => match fields.next_field() {
                    Some((2, Value::Bytes(event))) => event,
                    Some(_) => continue,
                    None => break,
                },
            };
            match self.event(event, cpu, offset_ns, out) {
                Some((time_ns, pid)) if Some(time_ns) < first_switch => before_switch = Some(pid),
                Some(_) => {}
                None => out.lose(&loss::MALFORMED_EVENTS, 1),
            }
        }
        match fields.fault() {
            Some(_) if is_cut => {}
            Some(_) => out.lose(&loss::MALFORMED_RECORDS, 1),
            None => {}
        }
        if let Some(compact) = compact {
            // Every event names the task it interrupted: the last one before the first switch names
            // the previous task.
            let slot = &mut self.running[running];
            *slot = slot.or(before_switch);
            compact.read(cpu, offset_ns, slot, &mut self.table, &mut self.counts, out);
        }
    }

    /// Reads all fields but the events, which need them and may precede them.
    fn head<'a>(&mut self, bytes: &'a [u8], out: &mut Builder) -> Head<'a> {
        let mut head = Head::default();
        let mut fields = Fields::new(bytes);
        loop {
            while fields.take_bytes(EVENT_TAG).is_some() {}
            let Some((number, value)) = fields.next_field() else { break };
            match (number, value) {
                (2, _) => {}
                (1, Value::Varint(cpu)) => head.cpu = Some(cpu),
                (3, Value::Varint(lost)) => head.lost_events = lost != 0,
                (4, Value::Bytes(compact)) => head.compact = Some(compact),
                (5, Value::Varint(clock)) => head.clock.clock = clock,
                (6, Value::Varint(time)) => head.clock.ftrace_ns = Some(time as i64),
                (7, Value::Varint(time)) => head.clock.boot_ns = Some(time as i64),
                (8, Value::Bytes(_)) => out.lose(&loss::FTRACE_PARSE_ERRORS, 1),
                (11, Value::Bytes(descriptor)) => self.generic.describe(descriptor),
                _ => {}
            }
        }
        // A compact block that the end of the file cut still has its first arrays.
        if let (Some(Fault::LengthBeyondEnd { .. }), Some((4, rest))) =
            (fields.fault(), fields.cut_field())
        {
            head.compact = Some(rest);
        }
        head
    }

    fn running_slot(&mut self, cpu: u32) -> usize {
        let index = cpu as usize;
        if self.running.len() <= index {
            self.running.resize(index.saturating_add(1), None);
        }
        index
    }

    /// Reads one event, and returns its time and task; `None` if it does not parse.
    #[inline]
    fn event(
        &mut self,
        bytes: &[u8],
        cpu: u32,
        offset_ns: i64,
        out: &mut Builder,
    ) -> Option<(u64, i32)> {
        let Event { recorded_ns, pid, payload } =
            Event::usual(bytes).or_else(|| Event::any(bytes))?;
        let Some((number, payload)) = payload else {
            return Some((recorded_ns, pid));
        };
        let time_ns = shift(recorded_ns, offset_ns);
        let mut context = Context { builder: out, time_ns, cpu };
        if number == schema::GENERIC {
            self.generic.by_name(payload, &mut context)?;
        } else if let Some(count) = self.counts.get_mut(number as usize) {
            *count = count.saturating_add(1);
            if let Some(decoder) = &self.decoders[number as usize] {
                schema::record(decoder.spec, |n| decoder.slot(n), payload, &mut context)?;
            }
        } else {
            self.generic.by_number(number, payload, &mut context)?;
        }
        Some((recorded_ns, pid))
    }

    /// Adds the counts to the builder.
    pub(crate) fn finish(self, out: &mut Builder) {
        for (number, count) in (0..).zip(self.counts).filter(|&(_, count)| count > 0) {
            out.count(schema::event_name(number), count);
        }
        self.generic.finish(out);
    }
}

/// Returns a time before which a bundle has no event, in its clock, and the number of the clock.
pub(super) fn earliest_ns(bundle: &[u8]) -> (u64, u64) {
    let (mut earliest_ns, mut clock) = (u64::MAX, 0);
    let first_of = |bytes| {
        let compact = Compact::new(bytes);
        let first = [compact.switch_time, compact.waking_time].map(|mut times| times.next());
        first.into_iter().flatten().min().unwrap_or(u64::MAX)
    };
    let mut fields = Fields::new(bundle);
    loop {
        let event = fields.take_bytes(EVENT_TAG);
        let field = event.map(|event| (2, Value::Bytes(event))).or_else(|| fields.next_field());
        let Some((number, value)) = field else { break };
        match (number, value) {
            (2, Value::Bytes(event)) => {
                let event = Event::usual(event).or_else(|| Event::any(event));
                earliest_ns = earliest_ns.min(event.map_or(u64::MAX, |event| event.recorded_ns));
            }
            (4, Value::Bytes(compact)) => earliest_ns = earliest_ns.min(first_of(compact)),
            (5, Value::Varint(number)) => clock = number,
            _ => {}
        }
    }
    if let (Some(_), Some((4, rest))) = (fields.fault(), fields.cut_field()) {
        earliest_ns = earliest_ns.min(first_of(rest));
    }
    (earliest_ns, clock)
}

/// An `FtraceEvent`: its time, its task, and the tracepoint's number and fields.
struct Event<'a> {
    recorded_ns: u64,
    pid: i32,
    payload: Option<(u32, &'a [u8])>,
}

impl<'a> Event<'a> {
    /// Reads an event whose fields have the order in which recorders write them.
    #[inline(always)]
    fn usual(bytes: &'a [u8]) -> Option<Event<'a>> {
        let mut rest = bytes.strip_prefix(&[0x08])?;
        let recorded_ns = long_varint(&mut rest).ok()?;
        let mut rest = rest.strip_prefix(&[0x10])?;
        let pid = varint(&mut rest).ok()? as i32;
        let tag = varint(&mut rest).ok()?;
        let length = length(&mut rest).ok()?;
        let is_right = tag & 7 == 2 && (8..1 << 14).contains(&tag) && rest.len() as u64 == length;
        is_right.then_some(Event { recorded_ns, pid, payload: Some(((tag >> 3) as u32, rest)) })
    }

    /// Reads an event with any order of fields.
    #[cold]
    fn any(bytes: &'a [u8]) -> Option<Event<'a>> {
        let (mut time_ns, mut pid, mut payload) = (None, -1, None);
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            match (number, value) {
                (1, Value::Varint(time)) => time_ns = Some(time),
                (2, Value::Varint(task)) => pid = task as i32,
                (_, Value::Bytes(bytes)) => payload = Some((number, bytes)),
                _ => {}
            }
        }
        let is_whole = fields.fault().is_none();
        time_ns.filter(|_| is_whole).map(|recorded_ns| Event { recorded_ns, pid, payload })
    }
}

/// Tag of an event: field 2 of a bundle, length-delimited.
const EVENT_TAG: u8 = 0x12;

fn shift(time_ns: u64, offset_ns: i64) -> u64 {
    // A time that wraps below zero becomes huge, and the builder drops it.
    if offset_ns == 0 { time_ns } else { time_ns.wrapping_add_signed(offset_ns) }
}

/// `CompactSched`: switches and wakings in parallel arrays, with times as differences.
#[derive(Default)]
struct Compact<'a> {
    names: Vec<&'a [u8]>,
    switch_time: Packed<'a>,
    switch_prev_state: Packed<'a>,
    switch_next_pid: Packed<'a>,
    switch_next_comm: Packed<'a>,
    waking_time: Packed<'a>,
    waking_pid: Packed<'a>,
    waking_target_cpu: Packed<'a>,
    is_broken: bool,
}

impl<'a> Compact<'a> {
    fn new(bytes: &'a [u8]) -> Compact<'a> {
        let mut compact = Compact::default();
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            if let Value::Bytes(bytes) = value {
                match number {
                    5 => compact.names.push(bytes),
                    1 => compact.switch_time = Packed::new(bytes),
                    2 => compact.switch_prev_state = Packed::new(bytes),
                    3 => compact.switch_next_pid = Packed::new(bytes),
                    6 => compact.switch_next_comm = Packed::new(bytes),
                    7 => compact.waking_time = Packed::new(bytes),
                    8 => compact.waking_pid = Packed::new(bytes),
                    9 => compact.waking_target_cpu = Packed::new(bytes),
                    _ => {}
                }
            }
        }
        compact.is_broken = fields.fault().is_some();
        compact
    }

    fn first_switch_ns(&self) -> Option<u64> {
        self.switch_time.clone().next()
    }

    fn read(
        mut self,
        cpu: u32,
        offset_ns: i64,
        running: &mut Option<i32>,
        table: &mut Vec<Name>,
        counts: &mut [u64],
        out: &mut Builder,
    ) {
        table.clear();
        table.extend(self.names.iter().map(|name| out.comm(name)));
        self.switches(cpu, offset_ns, running, table, counts, out);
        self.wakings(cpu, offset_ns, counts, out);
        let arrays = [
            &self.switch_time,
            &self.switch_prev_state,
            &self.switch_next_pid,
            &self.switch_next_comm,
            &self.waking_time,
            &self.waking_pid,
            &self.waking_target_cpu,
        ];
        if self.is_broken || !arrays.into_iter().all(Packed::is_done) {
            out.lose(&loss::COMPACT_SHORT, 1);
        }
    }

    fn switches(
        &mut self,
        cpu: u32,
        offset_ns: i64,
        running: &mut Option<i32>,
        table: &[Name],
        counts: &mut [u64],
        out: &mut Builder,
    ) {
        let mut time_ns = 0u64;
        while let Some((delta, prev_state, next_pid, comm)) = self.next_switch() {
            time_ns = time_ns.saturating_add(delta);
            let next_pid = next_pid as i32;
            let prev_pid = running.replace(next_pid).unwrap_or_else(|| {
                out.lose(&loss::FIRST_PREV_UNKNOWN, 1);
                UNKNOWN_PID
            });
            let kind = EventKind::SchedSwitch {
                prev_pid,
                prev_state: tracepoint::prev_state(prev_state),
                next_pid,
                next_comm: usize::try_from(comm).ok().and_then(|comm| table.get(comm)).copied(),
            };
            counts[SCHED_SWITCH] = counts[SCHED_SWITCH].saturating_add(1);
            out.push(shift(time_ns, offset_ns), cpu, kind);
        }
    }

    #[inline(always)]
    fn next_switch(&mut self) -> Option<(u64, u64, u64, u64)> {
        let Compact { switch_time, switch_prev_state, switch_next_pid, switch_next_comm, .. } =
            self;
        let (delta, prev_state) = (switch_time.next()?, switch_prev_state.next()?);
        Some((delta, prev_state, switch_next_pid.next()?, switch_next_comm.next()?))
    }

    #[inline(always)]
    fn next_waking(&mut self) -> Option<(u64, u64, u64)> {
        let Compact { waking_time, waking_pid, waking_target_cpu, .. } = self;
        Some((waking_time.next()?, waking_pid.next()?, waking_target_cpu.next()?))
    }

    fn wakings(&mut self, cpu: u32, offset_ns: i64, counts: &mut [u64], out: &mut Builder) {
        let mut time_ns = 0u64;
        while let Some((delta, pid, target_cpu)) = self.next_waking() {
            time_ns = time_ns.saturating_add(delta);
            let target_cpu = CpuId(target_cpu as u32);
            counts[SCHED_WAKING] = counts[SCHED_WAKING].saturating_add(1);
            let kind = EventKind::SchedWaking { pid: pid as i32, target_cpu };
            out.push(shift(time_ns, offset_ns), cpu, kind);
        }
    }
}

const SCHED_SWITCH: usize = 4;
const SCHED_WAKING: usize = 20;
