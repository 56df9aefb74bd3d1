// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Merges the events of all CPUs and instances by time.

use super::head::Head;
use super::options::Tsc;
use super::page::{Missed, Page};
use super::source::Source;
use crate::builder::Builder;
use crate::cursor::{Cursor, Endian};
use crate::ftrace::PageLayout;
use crate::loss;
use crate::tracepoint::Context;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

/// One CPU of one instance.
struct Stream<'a> {
    cpu: u32,
    buffer: usize,
    page_bytes: usize,
    /// False if this instance uses another clock than the recording.
    is_in_clock: bool,
    source: Source<'a>,
    page: Option<Page>,
    /// The next event's range in the page.
    event: Range<usize>,
    missed: u64,
}

struct Times {
    layout: PageLayout,
    endian: Endian,
    tsc: Option<Tsc>,
    offset_ns: i64,
}

/// Records every event, earliest first if each CPU's own are in order. Returns the number of missed
/// events that pages state.
pub(crate) fn merge(head: &mut Head<'_>, clock: &str, out: &mut Builder) -> u64 {
    let times = Times {
        layout: head.formats.page,
        endian: head.endian,
        tsc: head.options.tsc,
        offset_ns: head.options.offset_ns,
    };
    let mut owners = Owners::new(head.buffers.len());
    let mut streams = Vec::new();
    for (index, buffer) in std::mem::take(&mut head.buffers).into_iter().enumerate() {
        let is_in_clock = buffer.clock.is_none_or(|own| own == clock);
        streams.extend(buffer.cpus.into_iter().map(|(cpu, source)| Stream {
            cpu,
            buffer: index,
            page_bytes: buffer.page_bytes,
            is_in_clock,
            source,
            page: None,
            event: 0..0,
            missed: 0,
        }));
    }
    // By time, then by place in the file.
    let mut next: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (index, stream) in streams.iter_mut().enumerate() {
        next.extend(stream.advance(&times, out).map(|time| Reverse((time, index))));
    }
    while let Some(Reverse((time, index))) = next.pop() {
        out.settle(time);
        let stream = &mut streams[index];
        let until = next.peek().map_or((u64::MAX, usize::MAX), |Reverse(other)| *other);
        let mut of_stream = Some(time);
        while let Some(time) = of_stream.filter(|&time| (time, index) <= until) {
            stream.record(time, head, &mut owners, out);
            of_stream = stream.advance(&times, out);
        }
        next.extend(of_stream.map(|time| Reverse((time, index))));
    }
    streams.iter().fold(0, |sum, stream| sum.saturating_add(stream.missed))
}

impl Stream<'_> {
    /// Moves to the next event and returns its time; `None` after the last one.
    #[inline]
    fn advance(&mut self, times: &Times, out: &mut Builder) -> Option<u64> {
        loop {
            if let Some(page) = &mut self.page {
                if let Some((time, event)) = page.next_event(self.source.page(self.page_bytes)) {
                    self.event = event;
                    return Some(times.ns(time));
                }
                if page.is_broken {
                    out.lose(&loss::MALFORMED_RECORDS, 1);
                }
                self.source.advance(self.page_bytes, out);
            }
            self.open_page(times, out)?;
        }
    }

    /// Opens the next page; `None` if there is none.
    fn open_page(&mut self, times: &Times, out: &mut Builder) -> Option<()> {
        self.page = None;
        while self.page.is_none() && !out.is_stopped() && self.source.load(out) {
            let bytes = self.source.page(self.page_bytes);
            self.page = Page::parse(bytes, times.layout, times.endian);
            if self.page.is_none() {
                out.lose(&loss::MALFORMED_RECORDS, 1);
                self.source.advance(self.page_bytes, out);
            }
        }
        match self.page.as_ref()?.missed {
            Missed::Nothing => {}
            Missed::Count(count) => self.missed = self.missed.saturating_add(count),
            Missed::Unknown => out.lose(&loss::FTRACE_GAPS, 1),
        }
        Some(())
    }

    #[inline]
    fn record(&self, time_ns: u64, head: &mut Head<'_>, owners: &mut Owners, out: &mut Builder) {
        let event = &self.source.page(self.page_bytes)[self.event.clone()];
        if !self.is_in_clock {
            return out.lose(&loss::CLOCK_MIXED, 1);
        }
        if !owners.is_owner(event, self.buffer, head.endian) {
            return out.lose(&loss::RECORDED_TWICE, 1);
        }
        match head.formats.decode(event) {
            Some(Some(decoded)) => {
                decoded.record(&mut Context { builder: out, time_ns, cpu: self.cpu });
            }
            Some(None) => {}
            None => out.lose(&loss::EVENT_UNDESCRIBED, 1),
        }
    }
}

impl Times {
    #[inline]
    fn ns(&self, time: u64) -> u64 {
        let ns = match self.tsc {
            Some(tsc) => tsc.ns(time),
            None => time,
        };
        ns.wrapping_add_signed(self.offset_ns)
    }
}

/// The instance from which each kind of event is taken, the first that has it: several may have
/// recorded the same events.
struct Owners(Option<HashMap<u16, usize>>);

impl Owners {
    fn new(buffers: usize) -> Owners {
        Owners((buffers > 1).then(HashMap::new))
    }

    #[inline]
    fn is_owner(&mut self, event: &[u8], buffer: usize, endian: Endian) -> bool {
        let Some(owners) = &mut self.0 else { return true };
        match Cursor::ordered(event, endian).u16() {
            Some(id) => *owners.entry(id).or_insert(buffer) == buffer,
            None => true,
        }
    }
}
