// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `perf_event_attr`, and the layout of samples that it defines (`perf_event_open(2)`).

use crate::cursor::Cursor;
use rustc_hash::FxHashMap;

const SAMPLE_IP: u64 = 1 << 0;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_ADDR: u64 = 1 << 3;
const SAMPLE_READ: u64 = 1 << 4;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_ID: u64 = 1 << 6;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_PERIOD: u64 = 1 << 8;
const SAMPLE_STREAM_ID: u64 = 1 << 9;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;

const FORMAT_TOTAL_TIME_ENABLED: u64 = 1 << 0;
const FORMAT_TOTAL_TIME_RUNNING: u64 = 1 << 1;
const FORMAT_ID: u64 = 1 << 2;
const FORMAT_GROUP: u64 = 1 << 3;
const FORMAT_LOST: u64 = 1 << 4;

const FLAG_USE_CLOCKID: u64 = 1 << 25;

/// `PERF_TYPE_TRACEPOINT`. Events of every other type count: hardware, software, a PMU.
const TYPE_TRACEPOINT: u32 = 2;

/// The first published size of the structure.
const ATTR_SIZE_MIN: usize = 64;

/// The layout of samples, and the meaning of their raw data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    sample_type: u64,
    read_format: u64,
    /// True if raw data are the fields of a tracepoint. Those of a PMU, such as AMD's IBS, are its
    /// own.
    pub is_tracepoint: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Attr {
    pub layout: Layout,
    /// The clock the user chose with `perf record -k`.
    pub clock_id: Option<u32>,
}

impl Attr {
    /// Parses an attribute, and returns it with its size.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Attr, usize)> {
        let mut cursor = Cursor::new(bytes);
        let is_tracepoint = cursor.u32()? == TYPE_TRACEPOINT;
        let size = cursor.u32()? as usize;
        if size < ATTR_SIZE_MIN || size > bytes.len() {
            return None;
        }
        cursor.bytes(16)?;
        let (sample_type, read_format) = (cursor.u64()?, cursor.u64()?);
        let layout = Layout { sample_type, read_format, is_tracepoint };
        let flags = cursor.u64()?;
        // clockid came with the 96-byte structure of Linux 4.1.
        let clock_id = match bytes[..size].get(92..96) {
            Some(clock) if flags & FLAG_USE_CLOCKID != 0 => Cursor::new(clock).u32(),
            _ => None,
        };
        Some((Attr { layout, clock_id }, size))
    }
}

/// The parts of a sample that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample<'a> {
    pub time_ns: Option<u64>,
    pub cpu: Option<u32>,
    pub raw: Option<&'a [u8]>,
}

impl Layout {
    /// Returns the place of the event's id in a sample, in words.
    fn id_at(&self) -> Option<u32> {
        let before = SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_ADDR;
        match self.sample_type {
            bits if bits & SAMPLE_IDENTIFIER != 0 => Some(0),
            bits if bits & SAMPLE_ID != 0 => Some((bits & before).count_ones()),
            _ => None,
        }
    }

    /// Reads a sample up to its raw data. Returns `None` if it is cut.
    #[inline]
    pub(crate) fn sample<'a>(&self, body: &'a [u8]) -> Option<Sample<'a>> {
        let mut cursor = Cursor::new(body);
        let has = |bit: u64| self.sample_type & bit != 0;
        // Each of these fields has eight bytes.
        let bytes = |bits: u64| u64::from((self.sample_type & bits).count_ones()) << 3;
        cursor.bytes(bytes(SAMPLE_IDENTIFIER | SAMPLE_IP | SAMPLE_TID))?;
        let time_ns = if has(SAMPLE_TIME) { Some(cursor.u64()?) } else { None };
        cursor.bytes(bytes(SAMPLE_ADDR | SAMPLE_ID | SAMPLE_STREAM_ID))?;
        let cpu = if has(SAMPLE_CPU) { Some(cursor.u64()? as u32) } else { None };
        cursor.bytes(bytes(SAMPLE_PERIOD))?;
        if has(SAMPLE_READ) {
            self.skip_read(&mut cursor)?;
        }
        if has(SAMPLE_CALLCHAIN) {
            let length = cursor.u64()?;
            cursor.bytes(length.checked_mul(8)?)?;
        }
        let raw = if has(SAMPLE_RAW) {
            let size = cursor.u32()?;
            Some(cursor.bytes(size.into())?)
        } else {
            None
        };
        Some(Sample { time_ns, cpu, raw })
    }

    fn skip_read(&self, cursor: &mut Cursor<'_>) -> Option<()> {
        let times = FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING;
        let words = |bits: u64| u64::from((self.read_format & bits).count_ones());
        let per_value = words(FORMAT_ID | FORMAT_LOST).saturating_add(1);
        let values = if self.read_format & FORMAT_GROUP != 0 { cursor.u64()? } else { 1 };
        let words = values.checked_mul(per_value)?.checked_add(words(times))?;
        cursor.bytes(words.checked_mul(8)?).map(|_| ())
    }
}

/// The layouts of all events. If they differ, samples carry an id, at the same place in all.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    layouts: Vec<Layout>,
    /// The place of the id in all samples, in words.
    id_at: Option<u32>,
    by_id: FxHashMap<u64, usize>,
    /// The last id and its layout: bursts of one event are common.
    last: Option<(u64, Layout)>,
}

impl Layouts {
    pub(crate) fn add(&mut self, layout: Layout, ids: impl Iterator<Item = u64>) {
        let known = self.layouts.iter().position(|known| *known == layout);
        let index = known.unwrap_or(self.layouts.len());
        if known.is_none() {
            self.layouts.push(layout);
            let at = self.layouts.first().and_then(Layout::id_at);
            self.id_at = at.filter(|_| self.layouts.iter().all(|layout| layout.id_at() == at));
        }
        self.by_id.extend(ids.map(|id| (id, index)));
    }

    /// False if samples of different layouts cannot be distinguished.
    pub(crate) fn is_decidable(&self) -> bool {
        self.layouts.len() < 2 || self.id_at.is_some()
    }

    #[inline]
    pub(crate) fn of(&mut self, body: &[u8]) -> Option<Layout> {
        if let [only] = self.layouts[..] {
            return Some(only);
        }
        let mut cursor = Cursor::new(body);
        cursor.bytes(u64::from(self.id_at?) << 3)?;
        let id = cursor.u64()?;
        match self.last {
            Some((last, layout)) if last == id => Some(layout),
            _ => {
                let layout = self.layouts[*self.by_id.get(&id)?];
                self.last = Some((id, layout));
                Some(layout)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// identifier, ip, tid, time 7, cpu 3, period, raw: 4 bytes.
    #[test]
    fn sample_fields_come_in_the_manuals_order() {
        let layout = Layout { sample_type: 0x10587, read_format: 0, is_tracepoint: true };
        let mut body = words(&[1, 2, 3, 7, 3, 1]);
        body.extend(4u32.to_le_bytes());
        body.extend(b"abcd");
        let sample = layout.sample(&body).unwrap();
        assert_eq!(sample.time_ns, Some(7));
        assert_eq!(sample.cpu, Some(3));
        assert_eq!(sample.raw, Some(&b"abcd"[..]));
        assert_eq!(layout.sample(&body[..body.len() - 1]), None);
    }

    /// A group of 2 values with id and lost each, and both times: 1 + 2 * 3 + 2 words.
    #[test]
    fn a_group_of_counters_is_skipped() {
        let sample_type = SAMPLE_READ | SAMPLE_RAW;
        let layout = Layout { sample_type, read_format: 0b1_1111, is_tracepoint: true };
        let mut body = words(&[2, 0, 0, 1, 1, 1, 2, 2, 2]);
        body.extend(0u32.to_le_bytes());
        assert_eq!(layout.sample(&body).unwrap().raw, Some(&[][..]));
        let huge = words(&[u64::MAX, 0]);
        assert_eq!(layout.sample(&huge), None);
    }

    /// perf asks for an identifier only if sample types differ, and else for an id: here ip, tid
    /// and time precede it.
    #[test]
    fn id_distinguishes_events_of_one_layout() {
        let sample_type = SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_ID | SAMPLE_RAW;
        let of = |is_tracepoint| Layout { sample_type, read_format: 0, is_tracepoint };
        let mut layouts = Layouts::default();
        layouts.add(of(true), [7].into_iter());
        layouts.add(of(false), [9].into_iter());
        assert!(layouts.is_decidable());
        assert_eq!(layouts.of(&words(&[1, 2, 3, 9])), Some(of(false)));
        assert_eq!(layouts.of(&words(&[9, 9, 9, 7])), Some(of(true)));
        assert_eq!(layouts.of(&words(&[7, 7, 7, 8])), None);
        let other = Layout { sample_type: SAMPLE_IDENTIFIER | sample_type, ..of(true) };
        layouts.add(other, [11].into_iter());
        assert!(!layouts.is_decidable());
        assert_eq!(layouts.of(&words(&[7, 7, 7, 7])), None);
    }
}
