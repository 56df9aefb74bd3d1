// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Times before which no event follows.
//!
//! A recorder reads the CPUs' buffers one after the other, and a file may hold one data source after
//! the other, so a packet may have events of any time. The events of a long recording are passed on
//! as they are read: this pass over the packets to come finds how early their events are.

use super::wire::{Fault, Fields, Value};
use super::{Reader, bundle, clock, packet};
use crate::builder::Builder;
use std::ops::Range;

/// The earliest times of a file's packets.
pub(super) struct Ahead {
    /// Start of each block of packets, and the earliest time of its events and all later ones.
    blocks: Vec<(usize, u64)>,
}

/// Length of a block of packets.
const BLOCK_BYTES: usize = 64 << 10;

impl Ahead {
    /// Returns a time before which no packet at `pos` or behind has an event.
    pub(super) fn earliest_ns(&self, pos: usize) -> u64 {
        let behind = self.blocks.partition_point(|(start, _)| *start <= pos);
        let block = behind.checked_sub(1).and_then(|index| self.blocks.get(index));
        block.map_or(0, |(_, earliest_ns)| *earliest_ns)
    }
}

impl Reader<'_> {
    /// Reads the times of the packets of `file` from `pos` on, and what else describes the events
    /// of all packets.
    pub(super) fn look_ahead(&mut self, file: &[u8], pos: usize, out: &mut Builder) -> Ahead {
        let mut blocks = vec![(pos, u64::MAX)];
        self.each_packet(&file[pos..], true, out, &mut |at, earliest_ns| {
            let at = pos.saturating_add(at.start);
            if let Some((start, block_ns)) = blocks.last_mut() {
                if at.saturating_sub(*start) < BLOCK_BYTES {
                    *block_ns = earliest_ns.min(*block_ns);
                } else {
                    blocks.push((at, earliest_ns));
                }
            }
        });
        let mut earliest_ns = u64::MAX;
        for (_, block_ns) in blocks.iter_mut().rev() {
            earliest_ns = earliest_ns.min(*block_ns);
            *block_ns = earliest_ns;
        }
        Ahead { blocks }
    }

    /// Calls `found` with the place and the earliest time of each packet, of a cut one, too.
    fn each_packet(
        &mut self,
        bytes: &[u8],
        is_file: bool,
        out: &mut Builder,
        found: &mut dyn FnMut(Range<usize>, u64),
    ) {
        let mut fields = Fields::new(bytes);
        let mut start = 0;
        while let Some((number, value)) = fields.next_field() {
            if let (1, Value::Bytes(packet)) = (number, value) {
                found(start..fields.pos(), self.earliest_of_packet(packet, is_file, out));
            }
            start = fields.pos();
            if out.is_stopped() {
                return;
            }
        }
        let cut = (fields.fault(), fields.cut_field());
        if let (Some(Fault::LengthBeyondEnd { .. }), Some((1, packet))) = cut {
            found(start..bytes.len(), self.earliest_of_packet(packet, is_file, out));
        }
    }

    fn earliest_of_packet(&mut self, bytes: &[u8], is_file: bool, out: &mut Builder) -> u64 {
        let mut earliest_ns = u64::MAX;
        let mut fields = Fields::new(bytes);
        while let Some((number, value)) = fields.next_field() {
            match (number, value) {
                (packet::FTRACE_EVENTS, Value::Bytes(bundle)) => {
                    earliest_ns = earliest_ns.min(self.earliest_of_bundle(bundle));
                }
                (packet::INTERNED_DATA, Value::Bytes(data)) => self.interned(data, out),
                (packet::CLOCK_SNAPSHOT, Value::Bytes(snapshot)) => {
                    self.boot_minus_mono_ns =
                        self.boot_minus_mono_ns.or_else(|| clock::boot_minus_mono_ns(snapshot));
                }
                (packet::COMPRESSED | packet::ZSTD_COMPRESSED, Value::Bytes(block)) if is_file => {
                    let unpacked = super::unpacked(number, block).bytes;
                    self.each_packet(&unpacked, false, out, &mut |_, packet_ns| {
                        earliest_ns = earliest_ns.min(packet_ns);
                    });
                }
                _ => {}
            }
        }
        if let (Some(_), Some((packet::FTRACE_EVENTS, rest))) = (fields.fault(), fields.cut_field())
        {
            earliest_ns = earliest_ns.min(self.earliest_of_bundle(rest));
        }
        earliest_ns
    }

    /// Returns 0 for a bundle in another clock, whose times are converted.
    fn earliest_of_bundle(&self, bundle: &[u8]) -> u64 {
        let (earliest_ns, clock) = bundle::earliest_ns(bundle);
        if self.bundles.clock.number().is_none_or(|first| first == clock) { earliest_ns } else { 0 }
    }
}

#[cfg(test)]
#[allow(unreachable_pub)]
#[path = "../../tests/support/proto.rs"]
mod proto;

#[cfg(test)]
mod tests {
    use super::proto::{Message, bundle, cpu_idle, event, message, trace};
    use crate::builder::Builder;
    use crate::model::{Event, EventKind, Names, Trace};
    use crate::stop::Stop;
    use std::io::Write;

    const ROUND_NS: u64 = 10_000;

    /// Returns what one CPU recorded in a round: sleeps, and switches in arrays.
    fn of_cpu(cpu: u64, round: u64) -> Message {
        let at = (round + 1) * ROUND_NS + cpu;
        let sleeps = (0..6).fold(message().number(1, cpu), |bundle, index| {
            bundle.message(2, cpu_idle(at + index * 1_500, cpu, index as u32 % 2))
        });
        let compact = message()
            .packed(1, &[at + 700, 900, 3_000])
            .packed(2, &[0, 1, 0])
            .packed(3, &[7 + round, 0, 8])
            .packed(4, &[120; 3])
            .bytes(5, format!("task-{round}"))
            .packed(6, &[0; 3]);
        sleeps.message(4, compact)
    }

    fn packed(packets: &[u8]) -> Message {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(packets).unwrap();
        message().bytes(50, encoder.finish().unwrap())
    }

    /// Returns a recording of four CPUs, whose buffers were read one after the other, and of timers
    /// by a second source behind them. What describes its events comes last.
    fn sample(rounds: u64, other_clock: bool) -> Vec<u8> {
        let mut packets = Vec::new();
        for round in 0..rounds {
            let cpus = (0..4).map(|cpu| bundle(of_cpu(cpu, round)));
            if round % 5 == 4 {
                packets.push(packed(&trace(cpus)));
            } else {
                packets.extend(cpus);
            }
        }
        if other_clock {
            let late = of_cpu(1, 3).number(5, 3).number(6, 500).number(7, 900);
            packets.push(bundle(late));
        }
        for round in 0..rounds {
            let start = message().number(1, 9).number(2, 77).number(3, 5_000_000).number(4, 1);
            let timer = event((round + 1) * ROUND_NS + 50, 0, 551, start);
            packets.push(bundle(message().number(1, 2).message(2, timer)));
        }
        let symbol = message().number(1, 77).bytes(2, "tick_nohz_handler");
        packets.push(message().message(12, message().message(26, symbol)));
        let clock = |id, time| message().number(1, id).number(2, time);
        let snapshot = message().message(1, clock(6, 9_000_000)).message(1, clock(3, 2_000_000));
        packets.push(message().message(6, snapshot));
        trace(packets)
    }

    fn read(bytes: &[u8], passing_at: Option<usize>) -> Option<Trace> {
        let out = Builder::new("perfetto", Stop::default());
        let mut out = match passing_at {
            Some(count) => out.passing_at(count),
            None => out,
        };
        super::super::read(bytes, None, &mut out).ok()?;
        Some(out.finish())
    }

    /// Returns the events with the texts of their names, which may have other numbers.
    fn spelt(trace: &Trace) -> Vec<String> {
        let text = |names: &Names, name| names.text(name).to_owned();
        let spelt = |event: &Event| {
            let mut kind = event.kind;
            let mut name = None;
            if let EventKind::SchedSwitch { next_comm, .. } = &mut kind {
                name = next_comm.take().map(|name| text(&trace.names, name));
            }
            let timer = kind.timer_mut().map(std::mem::take);
            let timer = timer.map(|timer| trace.names.timer_address(timer));
            let function = kind.function_mut().map(std::mem::take);
            if let Some(symbol) = function.and_then(|id| trace.names.symbol(id)) {
                name = Some(symbol.to_owned());
            }
            let address = function.map(|id| trace.names.function_of(id).address);
            let Event { time, cpu, .. } = event;
            format!("{time:?} {cpu:?} {kind:?} {timer:?} {address:?} {name:?}")
        };
        trace.events.iter().map(spelt).collect()
    }

    #[track_caller]
    fn check(bytes: &[u8], passing_at: usize, what: &str) {
        let (whole, parts) = (read(bytes, None), read(bytes, Some(passing_at)));
        let (Some(whole), Some(parts)) = (whole, parts) else { return };
        // Which of two distant runs of events stays depends on the first batch.
        if whole.losses.iter().any(|loss| loss.key == crate::loss::IMPLAUSIBLE_GAP.key) {
            return;
        }
        let (expected, found) = (spelt(&whole), spelt(&parts));
        let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        assert_eq!((differs, found.len()), (None, expected.len()), "{what}");
        assert_eq!((parts.losses, parts.meta), (whole.losses, whole.meta), "{what}");
        assert_eq!((parts.window, parts.event_counts), (whole.window, whole.event_counts));
    }

    #[test]
    fn events_passed_on_early_are_the_same() {
        for other_clock in [false, true] {
            let bytes = sample(30, other_clock);
            let whole = read(&bytes, None).unwrap();
            assert_eq!(whole.events.len(), 30 * (4 * 9 + 1) + 9 * usize::from(other_clock));
            let timer = spelt(&whole).into_iter().find(|event| event.contains("HrtimerStart"));
            assert!(timer.is_some_and(|timer| timer.ends_with("Some(\"tick_nohz_handler\")")));
            for passing_at in [1, 7, 40, 400] {
                check(&bytes, passing_at, "sound");
            }
        }
    }

    #[test]
    fn early_events_of_damaged_recordings_are_the_same() {
        let sound = sample(7, true);
        for at in (0..sound.len()).step_by(23) {
            check(&sound[..at], 1, &format!("cut at {at}"));
            let mut bytes = sound.clone();
            for bit in [0x01, 0x10, 0x80] {
                bytes[at] ^= bit;
                check(&bytes, 5, &format!("{bit:#x} at {at}"));
                bytes[at] ^= bit;
            }
        }
    }
}
