// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Recordings larger than memory: events are passed on while the file is being read.

use crate::builder::{Batch, Builder, EVENT_HELD_BYTES};
use crate::bytes::{Bytes, HELD_MAX_BYTES, STEP_BYTES};
use crate::error::TraceError;
use crate::model::{Carries, Event, Names, Trace};
use crate::stop::{GoOn, Stop};
use crate::{Input, format, kallsyms_beside, parse};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Batches that the reader may be ahead of the consumer.
const BATCHES_AHEAD: usize = 2;
/// Longest delay until a sink's refusal takes effect.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Knowledge about a recording after some of its events have been read.
#[derive(Clone, Copy, Debug)]
pub struct SoFar<'a> {
    /// The texts of all names so far.
    pub names: &'a Names,
    pub carries: Carries,
    pub cpu_count: u32,
}

impl<'a> SoFar<'a> {
    /// All of it.
    pub fn whole(trace: &'a Trace) -> SoFar<'a> {
        let Trace { names, carries, meta, .. } = trace;
        SoFar { names, carries: *carries, cpu_count: meta.cpu_count }
    }
}

/// Takes the events of a recording as they are read.
pub trait Sink {
    /// The next events, in order of time. The first call has a million of them, or all there are:
    /// enough to learn from it what is the same throughout a recording.
    fn events(&mut self, events: Vec<Event>, so_far: &SoFar<'_>);

    /// Reports how much of the file was read so far; 0 of a format that cannot tell.
    fn progress(&mut self, read_bytes: u64, total_bytes: u64) {
        let _ = (read_bytes, total_bytes);
    }

    /// Returns the memory that it holds, in bytes.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// True if it wants no more. Reading then ends with [`TraceError::Stopped`].
    fn is_stopped(&self) -> bool {
        false
    }
}

/// A recording that is open, to be read as often as needed.
pub struct Source {
    name: String,
    bytes: Bytes,
    max_bytes: u64,
    kallsyms: Option<Bytes>,
    /// Once it was read.
    sha256: OnceLock<String>,
}

impl Source {
    /// # Errors
    /// If the file, or the copy of `/proc/kallsyms` next to it, cannot be opened.
    pub fn open(path: &Path) -> Result<Source, TraceError> {
        Source::open_while(path, &|| true)
    }

    /// As [`Source::open`], which may take long of a pipe.
    ///
    /// # Errors
    /// As [`Source::open`], and [`TraceError::Stopped`] when `go_on` says no.
    pub fn open_while(path: &Path, go_on: GoOn<'_>) -> Result<Source, TraceError> {
        Ok(Source {
            name: path.display().to_string(),
            bytes: Bytes::load(path, Some(format::check_head), go_on)?,
            max_bytes: *HELD_MAX_BYTES,
            kallsyms: kallsyms_beside(path, go_on)?,
            sha256: OnceLock::new(),
        })
    }

    /// Bounds what is unpacked, the events and what a sink holds: together so many bytes.
    #[must_use]
    pub fn within(self, max_bytes: u64) -> Source {
        Source { max_bytes, ..self }
    }

    /// Reads the recording as [`read`](crate::read) does, and passes its events on. What comes
    /// back in the end is the trace without them.
    ///
    /// Memory does not grow with the length of a recording whose format allows it: `trace.dat`,
    /// and `perf.data`. Others, and files inside gzip, are held as a whole.
    ///
    /// # Errors
    /// As [`read`](crate::read). Events may have been passed on before.
    pub fn stream(&self, sink: &mut dyn Sink) -> Result<Trace, TraceError> {
        let bytes = &self.bytes;
        let total_bytes = bytes.len() as u64;
        let (sender, batches) = sync_channel(BATCHES_AHEAD);
        let stop = Stop::default();
        let input = Input {
            name: &self.name,
            bytes,
            kallsyms: self.kallsyms.as_deref(),
            sha256: self.sha256.get().map(String::as_str),
            stop: &stop,
            max_bytes: self.max_bytes,
        };
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let builder = |format| Builder::sending(format, stop.clone(), sender);
                parse(input, builder, &|| bytes.let_go())
            });
            let mut names = Names::default();
            let mut let_go_bytes = 0;
            let mut is_over_memory = false;
            loop {
                if sink.is_stopped() {
                    stop.set();
                }
                let batch = match batches.recv_timeout(LOOK_EVERY) {
                    Ok(batch) => batch,
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if stop.is_set() {
                    continue;
                }
                let Batch {
                    events,
                    names: new_names,
                    carries,
                    cpu_count,
                    read_bytes,
                    unpacked_bytes,
                } = batch;
                names.extend(new_names);
                if !events.is_empty() {
                    sink.events(events, &SoFar { names: &names, carries, cpu_count });
                }
                if sink.held_bytes().saturating_add(unpacked_bytes) > self.max_bytes {
                    is_over_memory = true;
                    stop.set();
                }
                sink.progress(read_bytes.min(total_bytes), total_bytes);
                if read_bytes.saturating_sub(let_go_bytes) >= STEP_BYTES as u64 {
                    let_go_bytes = read_bytes;
                    bytes.let_go();
                }
            }
            let outcome = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // Whatever was made of zeros, or not understood, is not the file's.
            bytes.check(&self.name)?;
            if is_over_memory {
                let (name, max_bytes) = (self.name.clone(), self.max_bytes);
                return Err(TraceError::OverMemory { name, max_bytes });
            }
            let trace = outcome?;
            self.sha256.get_or_init(|| trace.meta.sha256.clone());
            Ok(trace)
        })
    }
}

/// Reads a recording once; see [`Source::stream`].
///
/// # Errors
/// As [`read`](crate::read). Events may have been passed on before.
pub fn stream(path: &Path, sink: &mut dyn Sink) -> Result<Trace, TraceError> {
    Source::open(path)?.stream(sink)
}

/// As [`stream`], as long as `go_on` says so.
///
/// # Errors
/// As [`stream`], and [`TraceError::Stopped`] when `go_on` says no.
pub fn stream_while(
    path: &Path,
    sink: &mut dyn Sink,
    go_on: GoOn<'_>,
) -> Result<Trace, TraceError> {
    Source::open_while(path, go_on)?.stream(&mut While { sink, go_on })
}

/// A sink that also stops when asked to.
struct While<'a> {
    sink: &'a mut dyn Sink,
    go_on: GoOn<'a>,
}

impl Sink for While<'_> {
    fn events(&mut self, events: Vec<Event>, so_far: &SoFar<'_>) {
        self.sink.events(events, so_far);
    }

    fn progress(&mut self, read_bytes: u64, total_bytes: u64) {
        self.sink.progress(read_bytes, total_bytes);
    }

    fn held_bytes(&self) -> u64 {
        self.sink.held_bytes()
    }

    fn is_stopped(&self) -> bool {
        self.sink.is_stopped() || !(self.go_on)()
    }
}

/// Reads a recording into memory as [`read`](crate::read) does, as long as `go_on` says so.
///
/// # Errors
/// As [`read`](crate::read), and [`TraceError::Stopped`] when `go_on` says no.
pub fn read_while(path: &Path, go_on: GoOn<'_>) -> Result<Trace, TraceError> {
    read_within(path, *HELD_MAX_BYTES, go_on)
}

/// As [`read_while`], with a bound of its own on memory.
///
/// # Errors
/// As [`read_while`], and [`TraceError::OverMemory`].
pub fn read_within(path: &Path, max_bytes: u64, go_on: GoOn<'_>) -> Result<Trace, TraceError> {
    let mut kept = Kept::default();
    let source = Source::open_while(path, go_on)?.within(max_bytes);
    let trace = source.stream(&mut While { sink: &mut kept, go_on })?;
    Ok(Trace { events: kept.0, ..trace })
}

/// Keeps all events.
#[derive(Default)]
struct Kept(Vec<Event>);

impl Sink for Kept {
    fn events(&mut self, mut events: Vec<Event>, _: &SoFar<'_>) {
        if self.0.is_empty() {
            self.0 = events;
        } else {
            self.0.append(&mut events);
        }
    }

    fn held_bytes(&self) -> u64 {
        (self.0.len() as u64).saturating_mul(EVENT_HELD_BYTES)
    }
}
