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
                let input = Input { name, bytes: &bytes, kallsyms, sha256, stop: &stop, max_bytes };
                parse(input, |format| Builder::new(format, stop.clone()), &|| ())
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
        let hash = self.hash.finalize();
        self.out.meta.sha256 = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        self.out.finish()
    }
}
