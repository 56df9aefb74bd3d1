// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The records of the data section, plain or compressed.

use super::attr::{Attr, Layouts};
use super::features;
use crate::builder::Builder;
use crate::cursor::{Cursor, offset};
use crate::ftrace::{Formats, Preamble};
use crate::inflate;
use crate::loss;
use crate::tracepoint::Context;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

const LOST: u32 = 2;
const THROTTLE: u32 = 5;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
const HEADER_ATTR: u32 = 64;
const HEADER_TRACING_DATA: u32 = 66;
const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
const HEADER_FEATURE: u32 = 80;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

/// type u32, misc u16, size u16
const HEADER_SIZE: u64 = 8;

#[derive(Default)]
pub(crate) struct Records {
    pub layouts: Layouts,
    /// Set by the tracing data.
    formats: Option<Formats>,
    clock_id: Option<u32>,
    zstd: Option<Decoder<'static>>,
    /// Start of a record that continues in the next compressed one.
    unpacked: Vec<u8>,
    is_zstd_broken: bool,
    /// A record of the file states an impossible size: nothing after it can be read.
    pub is_broken: bool,
    unknown_samples: u64,
    /// Samples of hardware and software counters: cycles, page faults, a PMU's raw data.
    counter_samples: u64,
    latest_ns: u64,
    /// `latest_ns` at the end of the last round.
    round_latest_ns: u64,
}

/// Returns the number of bytes that the first record of `bytes` lacks, as far as it shows.
pub(crate) fn missing_bytes(bytes: &[u8]) -> usize {
    let mut cursor = Cursor::new(bytes);
    let (Some(kind), Some(_misc), Some(size)) = (cursor.u32(), cursor.u16(), cursor.u16()) else {
        return (HEADER_SIZE as usize).saturating_sub(bytes.len());
    };
    let more = match kind {
        HEADER_TRACING_DATA => cursor.u32().map(u64::from),
        AUXTRACE => cursor.u64(),
        _ => None,
    };
    let whole = u64::from(size).saturating_add(more.unwrap_or(0));
    usize::try_from(whole).unwrap_or(usize::MAX).saturating_sub(bytes.len())
}

impl Records {
    pub(crate) fn add_attr(
        &mut self,
        attr: &Attr,
        ids: impl Iterator<Item = u64>,
        out: &mut Builder,
    ) {
        self.layouts.add(attr.layout, ids);
        if self.clock_id.is_none() && attr.clock_id.is_some() {
            self.clock_id = attr.clock_id;
            out.meta.clock = features::clock_name(attr.clock_id).to_owned();
        }
    }

    pub(crate) fn add_formats(&mut self, bytes: &[u8], out: &mut Builder) {
        let Some((preamble, mut rest)) = Preamble::parse(bytes) else {
            return out.lose(&loss::MALFORMED_RECORDS, 1);
        };
        let mut formats = Formats::new(preamble.endian, preamble.long_bytes);
        if formats.description(&mut rest).is_none() {
            out.lose(&loss::TRUNCATED, 1);
        }
        formats.find_probed();
        if out.symbols.is_empty() {
            out.symbols = std::mem::take(&mut formats.symbols);
        }
        self.formats = Some(formats);
    }

    /// Reads the records of `bytes`, from the file or unpacked. Returns the rest, a part of a
    /// record.
    pub(crate) fn walk<'a>(
        &mut self,
        bytes: &'a [u8],
        is_file: bool,
        out: &mut Builder,
    ) -> &'a [u8] {
        let mut cursor = Cursor::new(bytes);
        loop {
            let start = cursor.rest();
            let (Some(kind), Some(_misc), Some(size)) = (cursor.u32(), cursor.u16(), cursor.u16())
            else {
                return start;
            };
            let Some(body_size) = u64::from(size).checked_sub(HEADER_SIZE) else {
                out.lose(&loss::UNREADABLE_REST, start.len() as u64);
                self.is_broken |= is_file;
                return &[];
            };
            let Some(body) = cursor.bytes(body_size) else {
                return start;
            };
            match kind {
                SAMPLE => self.sample(body, out),
                // The sizes of these two records do not include the payload after them.
                AUXTRACE if is_file => {
                    let size = Cursor::new(body).u64().unwrap_or(0);
                    if cursor.bytes(size).is_none() {
                        return start;
                    }
                }
                HEADER_TRACING_DATA if is_file => {
                    let size = Cursor::new(body).u32().unwrap_or(0);
                    match cursor.bytes(size.into()) {
                        Some(data) => self.add_formats(data, out),
                        None => return start,
                    }
                }
                COMPRESSED | COMPRESSED2 if is_file => self.compressed(kind, body, out),
                _ => self.other(kind, body, out),
            }
            if out.is_stopped() {
                return &[];
            }
            if is_file {
                out.advance(offset(start, cursor.rest()) as u64);
            }
        }
    }

    #[inline]
    fn sample(&mut self, body: &[u8], out: &mut Builder) {
        let Some(layout) = self.layouts.of(body) else {
            return out.lose(&loss::MALFORMED_EVENTS, 1);
        };
        if !layout.is_tracepoint {
            self.counter_samples = self.counter_samples.saturating_add(1);
            return;
        }
        let Some(sample) = layout.sample(body) else {
            return out.lose(&loss::MALFORMED_EVENTS, 1);
        };
        let Some(raw) = sample.raw else {
            return out.lose(&loss::NO_RAW, 1);
        };
        let decoded = self.formats.as_mut().and_then(|formats| formats.decode(raw));
        match (decoded, sample.time_ns, sample.cpu) {
            (Some(Some(decoded)), Some(time_ns), Some(cpu)) => {
                self.latest_ns = self.latest_ns.max(time_ns);
                decoded.record(&mut Context { builder: out, time_ns, cpu });
            }
            (Some(Some(_)), ..) => out.lose(&loss::NO_TIME, 1),
            (Some(None), ..) => {}
            (None, ..) => self.unknown_samples = self.unknown_samples.saturating_add(1),
        }
    }

    fn other(&mut self, kind: u32, body: &[u8], out: &mut Builder) {
        let mut cursor = Cursor::new(body);
        match kind {
            LOST => {
                // id, lost
                let lost = cursor.u64().and_then(|_| cursor.u64());
                out.lose(&loss::PERF_LOST, lost.unwrap_or(1));
            }
            // perf has drained every CPU's buffer once. Whatever remained in them is later than all
            // that the round before this one had read.
            FINISHED_ROUND => {
                let latest_ns = std::mem::replace(&mut self.round_latest_ns, self.latest_ns);
                out.settle(latest_ns);
            }
            LOST_SAMPLES => out.lose(&loss::PERF_LOST_SAMPLES, cursor.u64().unwrap_or(1)),
            THROTTLE => out.lose(&loss::PERF_THROTTLED, 1),
            HEADER_ATTR => match Attr::parse(body) {
                Some((attr, size)) => {
                    let ids = body[size..].chunks_exact(8);
                    self.add_attr(&attr, ids.filter_map(|id| Cursor::new(id).u64()), out);
                }
                None => out.lose(&loss::MALFORMED_RECORDS, 1),
            },
            HEADER_FEATURE => {
                if let Some(feature) = cursor.u64() {
                    features::note(feature, cursor.rest(), &mut out.meta);
                }
            }
            _ => {}
        }
    }

    /// The compressed records of a file are one zstd stream, cut anywhere.
    fn compressed(&mut self, kind: u32, body: &[u8], out: &mut Builder) {
        let packed = if kind == COMPRESSED {
            Some(body)
        } else {
            // The newer record states its size without padding.
            let mut cursor = Cursor::new(body);
            cursor.u64().and_then(|size| cursor.bytes(size))
        };
        let mut unpacked = std::mem::take(&mut self.unpacked);
        let is_read = !self.is_zstd_broken
            && packed.is_some_and(|packed| self.unpack(packed, &mut unpacked).is_some());
        if !is_read {
            // Later parts of the stream refer back to this one.
            self.is_zstd_broken = true;
            out.lose(&loss::INFLATE_FAILED, 1);
        }
        let done = offset(&unpacked, self.walk(&unpacked, false, out));
        unpacked.drain(..done);
        self.unpacked = unpacked;
    }

    fn unpack(&mut self, packed: &[u8], unpacked: &mut Vec<u8>) -> Option<()> {
        if self.zstd.is_none() {
            self.zstd = Some(Decoder::new().ok()?);
        }
        let decoder = self.zstd.as_mut()?;
        let mut input = InBuffer::around(packed);
        let mut chunk = vec![0; 128 << 10];
        loop {
            let before = input.pos();
            let mut output = OutBuffer::around(&mut chunk[..]);
            decoder.run(&mut input, &mut output).ok()?;
            let written = output.as_slice();
            unpacked.extend_from_slice(written);
            if unpacked.len() as u64 > inflate::BLOCK_MAX {
                return None;
            }
            let is_full = written.len() == 128 << 10;
            if input.pos() == packed.len() && !is_full {
                return Some(());
            }
            if input.pos() == before && written.is_empty() {
                return None;
            }
        }
    }

    /// True if a compressed stream ended inside a record.
    pub(crate) fn is_cut(&self) -> bool {
        !self.unpacked.is_empty()
    }

    /// Adds the events' counts to the builder.
    pub(crate) fn finish(self, out: &mut Builder) {
        if let Some(formats) = self.formats {
            formats.finish(out);
        }
        for (name, count) in [
            ("perf_events_without_description", self.unknown_samples),
            ("perf_counter_samples", self.counter_samples),
        ] {
            if count > 0 {
                out.count(name.to_owned(), count);
            }
        }
    }
}
