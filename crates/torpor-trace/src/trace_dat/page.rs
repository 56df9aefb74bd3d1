// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One page (sub-buffer) of the kernel's ring buffer: events behind each other, each with the
//! time since the one before (`include/linux/ring_buffer.h`, `events/header_event`).

use crate::cursor::{Cursor, Endian};
use crate::ftrace::PageLayout;

/// In 32 bits: 5 of type or length, 27 of time.
const TIME_BITS: u32 = 27;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// An absolute time has 59 bits; the page's own time has the five above.
const TIME_STAMP_BITS: u32 = 59;

/// The commit counter's low bits are the bytes in use; two bits above are flags.
const COMMIT_MASK: u64 = (1 << 27) - 1;
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// Events that did not make it into the buffer just before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    Nothing,
    Count(u64),
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Page<'a> {
    rest: Cursor<'a>,
    endian: Endian,
    time: u64,
    pub missed: Missed,
    /// Set where the page turns out to be cut or damaged; no event comes after that.
    pub is_broken: bool,
}

/// The time a page starts at.
#[inline]
pub(crate) fn start(page: &[u8], endian: Endian) -> Option<u64> {
    Cursor::ordered(page, endian).u64()
}

impl<'a> Page<'a> {
    /// `None` if the page ends in its header.
    pub(crate) fn parse(page: &'a [u8], layout: PageLayout, endian: Endian) -> Option<Page<'a>> {
        let time = start(page, endian)?;
        let at = |offset: usize| page.get(offset..).map(|rest| Cursor::ordered(rest, endian));
        let commit = at(layout.commit_offset)?.number(layout.commit_bytes, false)?;
        let data = page.get(layout.data_offset..)?;
        let length = (commit & COMMIT_MASK) as usize;
        let stored = || at(layout.data_offset + length)?.number(layout.commit_bytes, false);
        let missed = match (commit & MISSED_EVENTS != 0, commit & MISSED_STORED != 0) {
            (false, _) => Missed::Nothing,
            (true, true) => stored().map_or(Missed::Unknown, Missed::Count),
            (true, false) => Missed::Unknown,
        };
        let committed = data.get(..length);
        Some(Page {
            rest: Cursor::ordered(committed.unwrap_or(data), endian),
            endian,
            time,
            missed,
            is_broken: committed.is_none(),
        })
    }

    /// The next event: its time and its bytes.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<(u64, &'a [u8])> {
        while !self.rest.rest().is_empty() {
            match self.step() {
                Some(Step::Event(event)) => return Some((self.time, event)),
                Some(Step::Between) => {}
                Some(Step::End) => return None,
                None => {
                    self.is_broken = true;
                    return None;
                }
            }
        }
        None
    }

    #[inline]
    fn step(&mut self) -> Option<Step<'a>> {
        let header = self.rest.u32()?;
        let (kind, delta) = match self.endian {
            Endian::Little => (header & 31, header >> 5),
            Endian::Big => (header >> TIME_BITS, header & ((1 << TIME_BITS) - 1)),
        };
        let delta = u64::from(delta);
        match kind {
            // A longer event, whose length counts the word it stands in.
            0 => {
                let length = u64::from(self.rest.u32()?).checked_sub(4)?;
                self.time = self.time.wrapping_add(delta);
                Some(Step::Event(self.rest.bytes(length.next_multiple_of(4))?))
            }
            PADDING if delta == 0 => Some(Step::End),
            // An event that was discarded; its time still counts.
            PADDING => {
                let length = self.rest.u32()?.checked_sub(4)?;
                self.rest.bytes(length.into())?;
                self.time = self.time.wrapping_add(delta);
                Some(Step::Between)
            }
            TIME_EXTEND => {
                let high = u64::from(self.rest.u32()?);
                self.time = self.time.wrapping_add(high << TIME_BITS | delta);
                Some(Step::Between)
            }
            TIME_STAMP => {
                let high = u64::from(self.rest.u32()?);
                self.time = absolute(high << TIME_BITS | delta, self.time);
                Some(Step::Between)
            }
            words => {
                self.time = self.time.wrapping_add(delta);
                Some(Step::Event(self.rest.bytes(u64::from(words) * 4)?))
            }
        }
    }
}

enum Step<'a> {
    Event(&'a [u8]),
    Between,
    End,
}

/// The bits that an absolute time lacks are those of the time before it, or one more if that
/// would step back.
fn absolute(stamp: u64, before: u64) -> u64 {
    let low = (1 << TIME_STAMP_BITS) - 1;
    let high_bits = before & !low;
    let time = high_bits | (stamp & low);
    if high_bits != 0 && time < before { time.wrapping_add(1 << TIME_STAMP_BITS) } else { time }
}
