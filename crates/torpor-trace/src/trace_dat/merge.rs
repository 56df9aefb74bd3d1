// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! All CPUs of all instances by time, a page at a time.

use super::head::Head;
use super::options::Tsc;
use super::page::{self, Missed, Page};
use super::source::Source;
use crate::builder::Builder;
use crate::cursor::{Cursor, Endian};
use crate::ftrace::PageLayout;
use crate::loss;
use crate::tracepoint::Context;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// One CPU of one instance.
struct Stream<'a> {
    cpu: u32,
    buffer: usize,
    page_bytes: usize,
    /// False if this instance's times are in another clock than the recording's.
    is_in_clock: bool,
    source: Source<'a>,
}

struct Times {
    endian: Endian,
    tsc: Option<Tsc>,
    offset_ns: i64,
}

/// Reads every page, the one that starts first first, and settles what lies before the next one.
/// Gives the events that pages say were missed.
pub(crate) fn merge(head: &mut Head<'_>, clock: &str, out: &mut Builder) -> u64 {
    let layout = head.formats.page;
    let times =
        Times { endian: head.endian, tsc: head.options.tsc, offset_ns: head.options.offset_ns };
    let mut homes = Homes::of(head.buffers.len());
    let mut streams = Vec::new();
    for (buffer, of_buffer) in std::mem::take(&mut head.buffers).into_iter().enumerate() {
        let is_in_clock = of_buffer.clock.is_none_or(|own| own == clock);
        streams.extend(of_buffer.cpus.into_iter().map(|(cpu, source)| Stream {
            cpu,
            buffer,
            page_bytes: of_buffer.page_bytes,
            is_in_clock,
            source,
        }));
    }
    // By time, then by place in the file.
    let mut next: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (index, stream) in streams.iter_mut().enumerate() {
        next.extend(stream.start(&times, out).map(|start| Reverse((start, index))));
    }
    let mut missed = 0;
    while let Some(Reverse((start, index))) = next.pop() {
        out.settle(start);
        let stream = &mut streams[index];
        missed += stream.page(head, layout, &times, &mut homes, out);
        next.extend(stream.start(&times, out).map(|start| Reverse((start, index))));
    }
    missed
}

impl Stream<'_> {
    /// When the next page starts; `None` if there is no page left.
    fn start(&mut self, times: &Times, out: &mut Builder) -> Option<u64> {
        let page = self.source.page(self.page_bytes, out)?;
        // A page that is cut in its first word is the last one; reading it will tell.
        Some(times.ns(page::start(page, times.endian).unwrap_or(0)))
    }

    /// Reads the next page. Gives the events that were missed before it.
    fn page(
        &mut self,
        head: &mut Head<'_>,
        layout: PageLayout,
        times: &Times,
        homes: &mut Homes,
        out: &mut Builder,
    ) -> u64 {
        let bytes = self.source.page(self.page_bytes, out).unwrap_or_default();
        let Some(mut page) = Page::parse(bytes, layout, times.endian) else {
            out.lose(&loss::MALFORMED_RECORDS, 1);
            self.source.advance(self.page_bytes, out);
            return 0;
        };
        while let Some((time, event)) = page.next_event() {
            if !self.is_in_clock {
                out.lose(&loss::CLOCK_MIXED, 1);
            } else if !homes.is_home(event, self.buffer, times.endian) {
                out.lose(&loss::RECORDED_TWICE, 1);
            } else {
                match head.formats.decode(event) {
                    Some(Some(decoded)) => {
                        let (time_ns, cpu) = (times.ns(time), self.cpu);
                        decoded.record(&mut Context { builder: out, time_ns, cpu });
                    }
                    Some(None) => {}
                    None => out.lose(&loss::EVENT_UNDESCRIBED, 1),
                }
            }
        }
        if page.is_broken {
            out.lose(&loss::MALFORMED_RECORDS, 1);
        }
        let missed = match page.missed {
            Missed::Nothing => 0,
            Missed::Count(count) => count,
            Missed::Unknown => {
                out.lose(&loss::FTRACE_GAPS, 1);
                0
            }
        };
        self.source.advance(self.page_bytes, out);
        missed
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

/// Several instances may have recorded the same event. Each kind of event is taken from the one
/// that had it first.
struct Homes(Option<HashMap<u16, usize>>);

impl Homes {
    fn of(buffers: usize) -> Homes {
        Homes((buffers > 1).then(HashMap::new))
    }

    #[inline]
    fn is_home(&mut self, event: &[u8], buffer: usize, endian: Endian) -> bool {
        let Some(homes) = &mut self.0 else { return true };
        match Cursor::ordered(event, endian).u16() {
            Some(id) => *homes.entry(id).or_insert(buffer) == buffer,
            None => true,
        }
    }
}
