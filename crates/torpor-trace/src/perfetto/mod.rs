// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Perfetto's protobuf traces.
//!
//! A trace is a sequence of `TracePacket`s. The kernel's events are in `FtraceEventBundle`s, the
//! frequent scheduling events there in parallel arrays. `wire` tokenizes, `bundle` parses, `ahead`
//! finds times before which no event follows, the
//! other modules keep state across packets. Unknown packets and fields are skipped.

mod ahead;
mod bundle;
mod clock;
mod generic;
mod schema;
mod stats;
mod tracks;
mod wire;
mod write;

pub use tracks::{Slice, Track, write_tracks};
pub use write::write_perfetto;

use crate::builder::Builder;
use crate::error::Malformed;
use crate::inflate::{self, Inflated};
use crate::kallsyms::Kallsyms;
use crate::loss;
use crate::model::Name;
use ahead::Ahead;
use bundle::Bundles;
use schema::packet;
use stats::Stats;
use std::collections::{HashMap, HashSet};
use wire::{Fault, Fields, Value, pick};

/// Returns whether `bytes` can be the start of a Perfetto trace: a packet with possible fields,
/// followed by another or by the end.
pub(crate) fn is_perfetto(bytes: &[u8]) -> bool {
    if bytes.first() != Some(&PACKET_TAG) {
        return false;
    }
    let mut rest = bytes.get(1..).unwrap_or_default();
    let Ok(length) = wire::varint(&mut rest) else {
        return false;
    };
    let (packet, is_cut, next) = match usize::try_from(length) {
        Ok(length) if length <= rest.len() => (&rest[..length], false, rest.get(length)),
        _ => (rest, true, None),
    };
    let mut fields = Fields::new(packet);
    let is_known = fields.by_ref().all(|(number, value)| packet::can_hold(number, value));
    match fields.fault() {
        None => is_known && next.is_none_or(|&tag| tag == PACKET_TAG),
        Some(Fault::LengthBeyondEnd { .. } | Fault::CutShort) => is_known && is_cut,
        Some(_) => false,
    }
}

/// Tag of a packet: field 1 of `Trace`, length-delimited.
const PACKET_TAG: u8 = 0x0a;

pub(crate) fn read(
    bytes: &[u8],
    kallsyms: Option<&[u8]>,
    out: &mut Builder,
) -> Result<(), Malformed> {
    let mut reader = Reader { kallsyms, ..Reader::default() };
    reader.packets(bytes, true, out);
    if reader.packet_count == 0 && out.is_empty() {
        let (offset, fault) = reader.fault.unwrap_or((0, Fault::CutShort));
        return Err(Malformed {
            offset,
            found: fault.describe(),
            expected: "a TracePacket (field 1 of Trace)".to_owned(),
            hint: "the recording was cut inside its first packet: copy it again",
        });
    }
    reader.finish(out);
    Ok(())
}

/// Unpacks the packets in a field of this number.
fn unpacked(number: u32, block: &[u8]) -> Inflated {
    if number == packet::COMPRESSED {
        inflate::zlib(block, inflate::BLOCK_MAX)
    } else {
        inflate::zstd(block, inflate::BLOCK_MAX)
    }
}

#[derive(Default)]
struct Reader<'a> {
    kallsyms: Option<&'a [u8]>,
    /// Times of the packets to come, since there are too many events to keep.
    ahead: Option<Ahead>,
    bundles: Bundles,
    stats: Stats,
    /// Symbols by their number; `None` if writers disagree about it.
    symbols: HashMap<u64, Option<Name>>,
    sequences: HashSet<u64>,
    boot_minus_mono_ns: Option<i64>,
    /// Packets that parsed to their end.
    packet_count: u64,
    /// The first fault between packets, and its offset in the file.
    fault: Option<(u64, Fault)>,
}

impl Reader<'_> {
    /// Reads the packets of a file or of a compressed packet, which cannot hold another.
    fn packets(&mut self, bytes: &[u8], is_file: bool, out: &mut Builder) {
        let mut fields = Fields::new(bytes);
        while let Some((number, value)) = fields.next_field() {
            match (number, value) {
                (1, Value::Bytes(packet)) => self.packet(packet, is_file, false, out),
                _ => out.lose(&loss::MALFORMED_RECORDS, 1),
            }
            if out.is_stopped() {
                return;
            }
            if is_file {
                self.pass_on(bytes, fields.pos(), out);
            }
        }
        let Some(fault) = fields.fault() else {
            return;
        };
        if is_file {
            self.fault = Some((fields.pos() as u64, fault));
        }
        match (fault, fields.cut_field()) {
            (Fault::LengthBeyondEnd { .. }, Some((1, packet))) => {
                out.lose(&loss::TRUNCATED, 1);
                self.packet(packet, is_file, true, out);
            }
            (Fault::CutShort, _) => out.lose(&loss::TRUNCATED, 1),
            _ => out.lose(&loss::UNREADABLE_REST, bytes.len().saturating_sub(fields.pos()) as u64),
        }
    }

    fn packet(&mut self, bytes: &[u8], is_file: bool, is_cut: bool, out: &mut Builder) {
        let mut bundle = None;
        let mut sequence = None;
        let mut previous_dropped = false;
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            match (number, value) {
                (packet::TIMESTAMP, _) => {}
                // Read last: interned data may follow the bundle that needs it.
                (packet::FTRACE_EVENTS, Value::Bytes(bytes)) => bundle = Some((bytes, false)),
                (packet::SEQUENCE_ID, Value::Varint(id)) => sequence = Some(id),
                (packet::PREVIOUS_DROPPED, Value::Varint(dropped)) => {
                    previous_dropped = dropped != 0;
                }
                (packet::INTERNED_DATA, Value::Bytes(data)) => self.interned(data, out),
                (packet::CLOCK_SNAPSHOT, Value::Bytes(snapshot)) => {
                    self.boot_minus_mono_ns =
                        self.boot_minus_mono_ns.or_else(|| clock::boot_minus_mono_ns(snapshot));
                }
                (packet::FTRACE_STATS, Value::Bytes(message)) => self.stats.ftrace(message),
                (packet::TRACE_STATS, Value::Bytes(message)) => self.stats.trace(message),
                (packet::SYSTEM_INFO, Value::Bytes(message)) => {
                    stats::system_info(message, &mut out.meta);
                }
                (packet::CPU_INFO, Value::Bytes(message)) => {
                    stats::cpu_info(message, &mut out.meta);
                }
                (packet::COMPRESSED | packet::ZSTD_COMPRESSED, Value::Bytes(block)) => {
                    if is_file {
                        self.compressed(number, block, out);
                    } else {
                        out.lose(&loss::MALFORMED_RECORDS, 1);
                    }
                }
                _ => {}
            }
        }
        match (fields.fault(), fields.cut_field()) {
            (None, _) => self.packet_count = self.packet_count.saturating_add(1),
            (Some(Fault::LengthBeyondEnd { .. }), Some((packet::FTRACE_EVENTS, rest)))
                if is_cut =>
            {
                bundle = Some((rest, true));
            }
            (Some(_), _) if is_cut => {}
            (Some(_), _) => out.lose(&loss::MALFORMED_RECORDS, 1),
        }
        // The first packet of each sequence has the flag too, although nothing was lost.
        if let Some(sequence) = sequence {
            let is_first = self.sequences.insert(sequence);
            if previous_dropped && !is_first {
                out.lose(&loss::PACKETS_DROPPED, 1);
            }
        }
        if let Some((bundle, is_cut)) = bundle {
            self.bundles.read(bundle, is_cut, out);
        }
    }

    fn compressed(&mut self, number: u32, block: &[u8], out: &mut Builder) {
        let inflated = unpacked(number, block);
        if !inflated.is_whole {
            out.lose(&loss::INFLATE_FAILED, 1);
        }
        self.packets(&inflated.bytes, false, out);
    }

    /// Reads `InternedData.kernel_symbols` = 26: { iid = 1, str = 2 }.
    fn interned(&mut self, data: &[u8], out: &mut Builder) {
        for (number, value) in Fields::new(data) {
            let (26, Value::Bytes(symbol)) = (number, value) else {
                continue;
            };
            let [id, text] = pick(symbol, [1, 2]);
            let (id, text) = (id.and_then(Value::number), text.and_then(Value::bytes));
            if let (Some(id), Some(text)) = (id, text) {
                let name = out.names.intern(&String::from_utf8_lossy(text));
                let known = self.symbols.entry(id).or_insert(Some(name));
                if *known != Some(name) {
                    *known = None;
                }
            }
        }
    }

    /// Passes events on, after the packets of the file before `pos`, if there are many.
    fn pass_on(&mut self, file: &[u8], pos: usize, out: &mut Builder) {
        out.advance((pos as u64).saturating_sub(out.read_bytes()));
        if !out.is_full() {
            return;
        }
        if self.ahead.is_none() {
            self.ahead = Some(self.look_ahead(file, pos, out));
            self.describe(out);
        }
        out.settle(self.ahead.as_ref().map_or(0, |ahead| ahead.earliest_ns(pos)));
    }

    fn finish(mut self, out: &mut Builder) {
        if self.ahead.is_none() {
            self.describe(out);
        }
        self.bundles.finish(out);
        self.stats.finish(out);
    }

    /// States the clock and the functions' names.
    fn describe(&mut self, out: &mut Builder) {
        out.meta.clock = self.bundles.clock.name().to_owned();
        // A symbolizing recorder writes a symbol's number instead of the address.
        out.functions = std::mem::take(&mut self.symbols);
        out.symbols = self.kallsyms.map(Kallsyms::parse).unwrap_or_default();
        let offset_ns = match out.meta.clock.as_str() {
            "boot" => self.boot_minus_mono_ns,
            _ => None,
        };
        out.align_hrtimers(offset_ns);
    }
}
