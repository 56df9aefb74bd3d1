// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A page (sub-buffer) of the kernel's ring buffer: events in a row, each with the time since the
//! previous one (`include/linux/ring_buffer.h`, `events/header_event`).

use crate::cursor::{Cursor, Endian};
use crate::ftrace::PageLayout;
use std::ops::Range;

/// An event's header has 5 bits of type or length, and 27 of time.
const TIME_BITS: u32 = 27;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of an absolute time; the upper five are those of the page's time.
const TIME_STAMP_BITS: u32 = 59;

/// Bits of the commit counter with the bytes in use; the upper bits are flags.
const COMMIT_MASK: u64 = (1 << 27) - 1;
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// Events that were lost just before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    Nothing,
    Count(u64),
    Unknown,
}

/// A position in a page. Its bytes are passed to each call, as their buffer may be reused.
#[derive(Debug)]
pub(crate) struct Page {
    endian: Endian,
    time: u64,
    pos: usize,
    end: usize,
    pub missed: Missed,
    /// Set if the page is cut or damaged; no event follows.
    pub is_broken: bool,
}

impl Page {
    /// Parses a page's header. Returns `None` if the page ends in it.
    pub(crate) fn parse(page: &[u8], layout: PageLayout, endian: Endian) -> Option<Page> {
        let time = Cursor::ordered(page, endian).u64()?;
        let at = |offset: usize| page.get(offset..).map(|rest| Cursor::ordered(rest, endian));
        let commit = at(layout.commit_offset)?.number(layout.commit_bytes, false)?;
        let pos = layout.data_offset.min(page.len());
        let committed_end = pos.saturating_add((commit & COMMIT_MASK) as usize);
        let stored = || at(committed_end)?.number(layout.commit_bytes, false);
        let missed = match (commit & MISSED_EVENTS != 0, commit & MISSED_STORED != 0) {
            (false, _) => Missed::Nothing,
            (true, true) => stored().map_or(Missed::Unknown, Missed::Count),
            (true, false) => Missed::Unknown,
        };
        let end = committed_end.min(page.len());
        Some(Page { endian, time, pos, end, missed, is_broken: end < committed_end })
    }

    #[inline]
    pub(crate) fn next_event(&mut self, page: &[u8]) -> Option<(u64, Range<usize>)> {
        while self.pos < self.end {
            match self.step(page.get(self.pos..self.end)?) {
                Some(Step::Event(start, length)) => {
                    let start = self.pos.saturating_add(start);
                    self.pos = start.saturating_add(length);
                    return Some((self.time, start..self.pos));
                }
                Some(Step::Between(length)) => self.pos = self.pos.saturating_add(length),
                Some(Step::End) => self.pos = self.end,
                None => {
                    self.is_broken = true;
                    self.pos = self.end;
                }
            }
        }
        None
    }

    /// Returns the item at the start of `rest`; `None` if it is cut.
    #[inline]
    fn step(&mut self, rest: &[u8]) -> Option<Step> {
        let mut cursor = Cursor::ordered(rest, self.endian);
        let header = cursor.u32()?;
        let (kind, delta) = match self.endian {
            Endian::Little => (header & 31, header >> 5),
            Endian::Big => (header >> TIME_BITS, header & ((1 << TIME_BITS) - 1)),
        };
        let delta = u64::from(delta);
        let step = match kind {
            // A long event. Its length includes the length's own four bytes.
            0 => Step::Event(8, (cursor.u32()?.checked_sub(4)? as usize).next_multiple_of(4)),
            PADDING if delta == 0 => Step::End,
            // A discarded event. Its time still counts.
            PADDING => Step::Between((cursor.u32()? as usize).max(4).saturating_add(4)),
            TIME_EXTEND => {
                let time = u64::from(cursor.u32()?) << TIME_BITS | delta;
                self.time = self.time.wrapping_add(time);
                return Some(Step::Between(8));
            }
            TIME_STAMP => {
                let time = u64::from(cursor.u32()?) << TIME_BITS | delta;
                self.time = absolute(time, self.time);
                return Some(Step::Between(8));
            }
            words => Step::Event(4, (words as usize) << 2),
        };
        let length = match step {
            Step::Event(start, length) => start.saturating_add(length),
            Step::Between(length) => length,
            Step::End => 0,
        };
        self.time = self.time.wrapping_add(delta);
        (length <= rest.len()).then_some(step)
    }
}

enum Step {
    /// An event's offset and length.
    Event(usize, usize),
    /// Length of an item that is no event.
    Between(usize),
    End,
}

/// Completes an absolute time with the upper bits of the previous one, plus one if the result would
/// step back.
fn absolute(stamp: u64, before: u64) -> u64 {
    let low = (1 << TIME_STAMP_BITS) - 1;
    let high_bits = before & !low;
    let time = high_bits | (stamp & low);
    if high_bits != 0 && time < before { time.wrapping_add(1 << TIME_STAMP_BITS) } else { time }
}
