// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reads a recording while it grows, from pieces of any size.

use crate::builder::{Batch, Builder};
use crate::bytes::{HEAD_BYTES, HELD_MAX_BYTES};
use crate::error::TraceError;
use crate::model::{Carries, Event, Names, Trace};
use crate::perf_data::{self, PIPE_HEADER_BYTES, Pipe};
use crate::stop::Stop;
use crate::{Input, format, parse};
use sha2::{Digest, Sha256};

/// A recording that arrives in pieces.
///
/// The stream of `perf record -o -` gives its events as it comes: the first ones after ten seconds
/// or 131,072 events, as properties of the whole are estimated from them. Other formats have
/// tables at their ends, or are packed: they are held, and give all events at the end. The events
/// do not depend on the sizes of the pieces.
pub struct Feed {
    name: String,
    state: State,
}

/// Events in order of time, after those of the part before.
pub struct Part {
    pub events: Vec<Event>,
    /// Kinds of events up to here, and the CPUs they name.
    pub carries: Carries,
    pub cpu_count: u32,
    /// Events up to here that the recorder could not keep.
    pub lost_events: u64,
}

enum State {
    /// The bytes so far of a recording that is read as a whole, or too few to know.
    Held(Vec<u8>),
    Pipe(Box<Streaming>),
}

struct Streaming {
    pipe: Pipe,
    out: Builder,
    hash: Sha256,
}

impl Feed {
    /// Starts a recording; errors name it `name`.
    pub fn new(name: &str) -> Feed {
        Feed { name: name.to_owned(), state: State::Held(Vec::new()) }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// If the format is unknown, or more bytes must be held than memory allows.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        match &mut self.state {
            State::Held(held) => {
                let known_bytes = held.len();
                held.extend_from_slice(bytes);
                if known_bytes < PIPE_HEADER_BYTES && perf_data::is_pipe(held) {
                    self.state = State::Pipe(Box::new(Streaming::new(held)));
                } else if known_bytes < HEAD_BYTES && held.len() >= HEAD_BYTES {
                    format::check_head(&self.name, held)?;
                }
            }
            State::Pipe(streaming) => streaming.push(bytes),
        }
        let held_bytes = match &self.state {
            State::Held(held) => held.len(),
            State::Pipe(streaming) => streaming.pipe.held_bytes(),
        };
        if held_bytes as u64 > *HELD_MAX_BYTES {
            let (name, max_bytes) = (self.name.clone(), *HELD_MAX_BYTES);
            return Err(TraceError::TooLarge { name, max_bytes });
        }
        Ok(())
    }

    /// Returns true if events come before the end.
    pub fn is_streamed(&self) -> bool {
        matches!(self.state, State::Pipe(_))
    }

    /// Takes the events that no earlier one can follow. The first part is the recording's head.
    pub fn take_parts(&mut self) -> Vec<Part> {
        let State::Pipe(streaming) = &mut self.state else { return Vec::new() };
        let batches = streaming.out.take_passed().into_iter();
        let part = |Batch { events, carries, cpu_count, lost_events, .. }| Part {
            events,
            carries,
            cpu_count,
            lost_events,
        };
        batches.map(part).filter(|part| !part.events.is_empty()).collect()
    }

    /// Returns the names so far of tasks and functions.
    pub fn names(&self) -> Option<&Names> {
        match &self.state {
            State::Held(_) => None,
            State::Pipe(streaming) => Some(&streaming.out.names),
        }
    }

    /// Returns the number of events that the recorder could not keep.
    pub fn lost_events(&self) -> u64 {
        match &self.state {
            State::Held(_) => 0,
            State::Pipe(streaming) => streaming.out.losses.lost_events(),
        }
    }

    /// Ends the recording. Returns it with the events that were not taken.
    ///
    /// # Errors
    /// As [`read`](crate::read).
    pub fn finish(self) -> Result<Trace, TraceError> {
        match self.state {
            State::Held(bytes) => {
                let (name, max_bytes, stop) = (&self.name, *HELD_MAX_BYTES, Stop::default());
                let (kallsyms, sha256) = (None, None);
                let (held_bytes, bytes) = (bytes.len() as u64, &bytes);
                let input =
                    Input { name, bytes, kallsyms, sha256, stop: &stop, held_bytes, max_bytes };
                parse(input, |format| Builder::new(format, stop.clone()), &|_| ())
            }
            State::Pipe(streaming) => Ok(streaming.finish()),
        }
    }
}

impl Streaming {
    /// Starts with the first bytes, the header at least.
    fn new(head: &[u8]) -> Streaming {
        let mut out = Builder::live("perf.data");
        let pipe = Pipe::new(&mut out);
        let mut streaming = Streaming { pipe, out, hash: Sha256::new() };
        let (header, rest) = head.split_at(PIPE_HEADER_BYTES.min(head.len()));
        streaming.hash.update(header);
        streaming.push(rest);
        streaming
    }

    fn push(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.pipe.push(bytes, &mut self.out);
    }

    fn finish(mut self) -> Trace {
        self.pipe.finish(&mut self.out);
        self.out.meta.sha256 = crate::hex(&self.hash.finalize());
        self.out.finish()
    }
}

#[cfg(test)]
#[allow(unreachable_pub)]
#[path = "../tests/support/perf.rs"]
mod perf;

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` in pieces of these sizes, again and again. Returns the head's events and all.
    fn fed(bytes: &[u8], sizes: &[usize]) -> (usize, Trace) {
        let mut feed = Feed::new("stream");
        let (mut rest, mut sizes, mut parts) = (bytes, sizes.iter().cycle(), Vec::new());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
            feed.push(piece).unwrap();
            parts.extend(feed.take_parts());
            rest = after;
        }
        let head = parts.first().map_or(0, |part| part.events.len());
        let mut events: Vec<Event> = parts.into_iter().flat_map(|part| part.events).collect();
        let mut trace = feed.finish().unwrap();
        events.append(&mut trace.events);
        (head, Trace { events, ..trace })
    }

    fn stream() -> Vec<u8> {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/plain.data");
        perf::as_stream(&std::fs::read(data).unwrap(), <[u8]>::to_vec)
    }

    #[test]
    fn pieces_of_any_size_are_one_recording() {
        let sound = stream();
        let cut = sound[..sound.len() - 5].to_vec();
        let mut broken = sound.clone();
        // A record of 0 bytes, and more after it.
        let last = broken.len();
        broken.extend(perf::record(68, &[]));
        broken[last + 6] = 0;
        broken.extend(&sound[sound.len() - 1000..]);
        for bytes in [&sound, &cut, &broken] {
            let whole = crate::read_bytes("stream", bytes).unwrap();
            for sizes in [&[usize::MAX][..], &[1], &[7, 64, 1, 4_096], &[16, 100_000]] {
                let (_, trace) = fed(bytes, sizes);
                assert_eq!(trace.events, whole.events);
                assert_eq!(trace.losses, whole.losses);
                assert_eq!(trace.meta, whole.meta);
                assert_eq!(trace.event_counts, whole.event_counts);
            }
        }
    }

    /// Returns the stream's samples, each `later_ns` later: after the identifier, address and task
    /// is the time.
    fn later(later_ns: u64) -> Vec<u8> {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/plain.data");
        let file = std::fs::read(data).unwrap();
        let (at, size) = (perf::u64_at(&file, 40), perf::u64_at(&file, 48));
        let mut records = file[at..at + size].to_vec();
        let mut at = 0;
        while at < records.len() {
            let size = u16::from_le_bytes([records[at + 6], records[at + 7]]) as usize;
            if records[at] == 9 {
                let time_ns = perf::u64_at(&records, at + 32) as u64 + later_ns;
                records[at + 32..at + 40].copy_from_slice(&time_ns.to_le_bytes());
            }
            at += size;
        }
        records
    }

    #[test]
    fn events_come_before_the_end() {
        let rounds = perf::record(68, &[]).repeat(2);
        let mut bytes = [stream(), rounds.clone()].concat();
        for lap in 1..5 {
            bytes.extend([later(lap * 6_000_000_000), rounds.clone()].concat());
        }
        let whole = crate::read_bytes("stream", &bytes).unwrap();
        let (head, trace) = fed(&bytes, &[usize::MAX]);
        assert!((1..whole.events.len()).contains(&head), "{head}");
        assert_eq!(trace.events, whole.events);
        for sizes in [&[1][..], &[64, 1, 4_096]] {
            let (same_head, trace) = fed(&bytes, sizes);
            assert_eq!((same_head, &trace.events), (head, &whole.events));
        }
    }

    #[test]
    fn other_formats_come_at_the_end() {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/plain.data");
        let bytes = std::fs::read(data).unwrap();
        let whole = crate::read_bytes("stream", &bytes).unwrap();
        let (head, trace) = fed(&bytes, &[1_000]);
        assert_eq!((head, trace.events), (0, whole.events));
        let mut feed = Feed::new("stream");
        assert!(feed.push(&vec![0; 1 << 17]).is_err());
    }
}
