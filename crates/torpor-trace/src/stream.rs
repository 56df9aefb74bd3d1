// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Streaming: events are passed on while the file is being read, so it may exceed memory.

use crate::builder::{Batch, Builder, EVENT_HELD_BYTES};
use crate::bytes::{Bytes, HELD_MAX_BYTES, STEP_BYTES};
use crate::cached::{Cache, Place};
use crate::error::TraceError;
use crate::model::{Carries, Event, Names, Trace};
use crate::stop::{GoOn, Stop};
use crate::{Input, format, head_format, kallsyms_beside, parse, perf_data};
use blake3::Hasher;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Batches by which the reader may be ahead of the consumer.
const BATCHES_AHEAD: usize = 2;
/// Interval of checks for cancellation.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Properties of the part of a recording that has been read.
#[derive(Clone, Copy, Debug)]
pub struct SoFar<'a> {
    pub names: &'a Names,
    pub carries: Carries,
    pub cpu_count: u32,
    /// The recorded machine's name.
    pub machine: Option<&'a str>,
}

impl<'a> SoFar<'a> {
    /// Returns the properties of a whole recording.
    pub fn whole(trace: &'a Trace) -> SoFar<'a> {
        let Trace { names, carries, meta, .. } = trace;
        let machine = meta.machine.as_deref();
        SoFar { names, carries: *carries, cpu_count: meta.cpu_count, machine }
    }
}

/// Takes the events of a recording as they are read.
pub trait Sink {
    /// Takes the next events, in order of time. The first call passes about a million, or all if
    /// there are fewer: enough to estimate properties of the whole recording.
    fn events(&mut self, events: Vec<Event>, so_far: &SoFar<'_>);

    /// Takes the progress in bytes of the file. It stays 0 for formats that do not report it.
    fn progress(&mut self, read_bytes: u64, total_bytes: u64) {
        let _ = (read_bytes, total_bytes);
    }

    /// Returns the memory that the sink holds, in bytes.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// True to cancel. Reading then ends with [`TraceError::Stopped`].
    fn is_stopped(&self) -> bool {
        false
    }
}

/// An open recording, which can be read more than once.
pub struct Source {
    name: String,
    bytes: Bytes,
    max_bytes: u64,
    kallsyms: Option<Bytes>,
    /// Set by the first complete read.
    sha256: OnceLock<String>,
    cache: Option<Cache>,
    /// Name of its file in the cache.
    cached_name: OnceLock<String>,
}

impl Source {
    /// Opens a recording. Reading a pipe takes until its end, or until `go_on` returns false.
    ///
    /// # Errors
    /// If the file, or the copy of `/proc/kallsyms` next to it, cannot be opened, and
    /// [`TraceError::Stopped`] on cancellation.
    pub fn open_while(path: &Path, go_on: GoOn<'_>) -> Result<Source, TraceError> {
        Source::open_within(path, *HELD_MAX_BYTES, go_on)
    }

    /// As [`Source::open_while`]. `max_bytes` limits the memory of the bytes that are not mapped (of
    /// a pipe, or unpacked), the events and the sink together.
    ///
    /// # Errors
    /// As [`Source::open_while`], and [`TraceError::TooLarge`].
    pub fn open_within(path: &Path, max_bytes: u64, go_on: GoOn<'_>) -> Result<Source, TraceError> {
        Ok(Source {
            name: path.display().to_string(),
            bytes: Bytes::load(path, Some(format::check_head), max_bytes, go_on)?,
            max_bytes,
            kallsyms: kallsyms_beside(path, go_on)?,
            sha256: OnceLock::new(),
            cache: None,
            cached_name: OnceLock::new(),
        })
    }

    /// Uses a cache of parsed recordings, for as long as its folder can be used. The events do not
    /// depend on it.
    pub fn cached(self, cache: Option<Cache>) -> Source {
        Source { cache, ..self }
    }

    /// Reads the recording into memory, until `go_on` returns false.
    ///
    /// # Errors
    /// As [`read`](crate::read), [`TraceError::Stopped`] on cancellation, and
    /// [`TraceError::OverMemory`].
    pub fn read(&self, go_on: GoOn<'_>) -> Result<Trace, TraceError> {
        let mut kept = Kept { events: Vec::new(), go_on };
        let trace = self.stream(&mut kept)?;
        Ok(Trace { events: kept.events, ..trace })
    }

    /// Reads the recording like [`read`](crate::read), passes its events to the sink, and returns
    /// the trace without them.
    ///
    /// Memory use does not grow with the length of a file whose events are in order, or in the order
    /// in which a recorder reads the CPUs' buffers. Packed files and pipes are held as a whole, and
    /// so are the events of a text that is out of order.
    ///
    /// # Errors
    /// As [`read`](crate::read). The sink may have received events before.
    pub fn stream(&self, sink: &mut dyn Sink) -> Result<Trace, TraceError> {
        let bytes = &self.bytes;
        let total_bytes = bytes.len() as u64;
        let (sender, batches) = sync_channel(BATCHES_AHEAD);
        let stop = Stop::default();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| self.pass(sender, &stop));
            let mut names = Names::default();
            let mut released_bytes = 0;
            let mut is_over_memory = false;
            loop {
                if sink.is_stopped() {
                    stop.set();
                }
                let batch = match batches.recv_timeout(LOOK_EVERY) {
                    Ok(batch) => batch,
                    Err(RecvTimeoutError::Timeout) => {
                        // The reader may be looking ahead.
                        bytes.release();
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if stop.is_set() {
                    continue;
                }
                let Batch { carries, cpu_count, read_bytes, held_bytes, .. } = batch;
                names.extend(batch.names);
                if !batch.events.is_empty() {
                    let machine = batch.machine.as_deref();
                    let so_far = SoFar { names: &names, carries, cpu_count, machine };
                    sink.events(batch.events, &so_far);
                }
                if sink.held_bytes().saturating_add(held_bytes) > self.max_bytes {
                    is_over_memory = true;
                    stop.set();
                }
                sink.progress(read_bytes.min(total_bytes), total_bytes);
                if read_bytes.saturating_sub(released_bytes) >= STEP_BYTES as u64 {
                    released_bytes = read_bytes;
                    bytes.release();
                }
            }
            let outcome = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // First, as events or errors may come from the guard's zeros.
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

    /// Passes the events on from the cache, or else from the recording.
    fn pass(&self, batches: SyncSender<Batch>, stop: &Stop) -> Result<Trace, TraceError> {
        let bytes = &self.bytes;
        let place = || self.cache.as_ref()?.open(bytes, self.kallsyms.as_deref());
        let Some(place) = place() else { return self.parse(batches, stop, &|_| ()) };
        if self.cached_name.get().is_none() && place.is_likely() {
            let mut hash = place.hash();
            for part in bytes.chunks(STEP_BYTES).take_while(|_| !stop.is_set()) {
                hash.update(part);
                bytes.release();
            }
            self.note_name(&place, &hash);
        }
        match self.cached_name.get().and_then(|name| place.find(name)) {
            _ if stop.is_set() => Err(TraceError::Stopped { name: self.name.clone() }),
            Some(cached) => cached.send(&self.input(stop), &batches),
            None => self.parse_and_keep(&place, batches, stop),
        }
    }

    /// Notes the recording's name in the cache if all of it was hashed.
    fn note_name(&self, place: &Place, hash: &Hasher) {
        if let Some(name) = place.name(hash) {
            self.cached_name.get_or_init(|| name);
        }
    }

    fn input<'a>(&'a self, stop: &'a Stop) -> Input<'a> {
        Input {
            name: &self.name,
            bytes: &self.bytes,
            kallsyms: self.kallsyms.as_deref(),
            sha256: self.sha256.get().map(String::as_str),
            stop,
            held_bytes: self.bytes.held_bytes(),
            max_bytes: self.max_bytes,
        }
    }

    /// Parses the recording. `on_hashed` takes its parts, unless its SHA-256 is known.
    fn parse(
        &self,
        batches: SyncSender<Batch>,
        stop: &Stop,
        on_hashed: &(dyn Fn(&[u8]) + Sync),
    ) -> Result<Trace, TraceError> {
        let builder = |format| Builder::sending(format, stop.clone(), batches);
        parse(self.input(stop), builder, &|part| {
            on_hashed(part);
            self.bytes.release();
        })
    }

    /// Parses the recording, and writes its events to the cache. If that fails, a later reading
    /// parses it again.
    fn parse_and_keep(
        &self,
        place: &Place,
        batches: SyncSender<Batch>,
        stop: &Stop,
    ) -> Result<Trace, TraceError> {
        let (sender, parsed) = sync_channel(BATCHES_AHEAD);
        let hash = Mutex::new(place.hash());
        let on_hashed = |part: &[u8]| {
            if self.cached_name.get().is_none() {
                hash.lock().unwrap_or_else(PoisonError::into_inner).update(part);
            }
        };
        let (trace, writing) = std::thread::scope(|scope| {
            let parser = scope.spawn(|| self.parse(sender, stop, &on_hashed));
            let mut writing = place.create().ok();
            for batch in parsed {
                if !batch.events.is_empty() {
                    writing = writing
                        .take()
                        .and_then(|mut writing| writing.add(&batch).is_ok().then_some(writing));
                }
                // As the builder does.
                let _ = batches.send(batch);
            }
            let parsed = parser.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            parsed.map(|trace| (trace, writing))
        })?;
        self.note_name(place, &hash.into_inner().unwrap_or_else(PoisonError::into_inner));
        let whole = writing.filter(|_| self.bytes.are_unchanged());
        if let Some((writing, name)) = whole.zip(self.cached_name.get()) {
            let _ = writing.finish(&trace, place, name);
        }
        Ok(trace)
    }
}

/// Reads a recording once; see [`Source::stream`].
///
/// # Errors
/// As [`read`](crate::read). The sink may have received events before.
pub fn stream(path: &Path, sink: &mut dyn Sink) -> Result<Trace, TraceError> {
    Source::open_while(path, &|| true)?.stream(sink)
}

/// Reads a recording into memory like [`read`](crate::read), until `go_on` returns false.
///
/// # Errors
/// As [`read`](crate::read), and [`TraceError::Stopped`] on cancellation.
pub fn read_while(path: &Path, go_on: GoOn<'_>) -> Result<Trace, TraceError> {
    read_within(path, *HELD_MAX_BYTES, go_on)
}

/// Reads like [`read_while`], with a memory limit.
///
/// # Errors
/// As [`read_while`], and [`TraceError::OverMemory`].
pub fn read_within(path: &Path, max_bytes: u64, go_on: GoOn<'_>) -> Result<Trace, TraceError> {
    Source::open_within(path, max_bytes, go_on)?.read(go_on)
}

/// Returns the name that a recording has for its machine, and the machine's number of CPUs, without
/// reading more than the first part.
///
/// # Errors
/// As [`read`](crate::read).
pub fn machine_named(path: &Path) -> Result<Option<(String, u32)>, TraceError> {
    let source = Source::open_while(path, &|| true)?;
    let format = head_format(&source.name, &source.bytes)?;
    if format.is_some_and(|format| !format.names_machine) {
        return Ok(None);
    }
    if let Some(named) = perf_data::machine_named(&source.bytes) {
        return Ok(Some(named));
    }
    // Nobody sees the hash.
    let source = Source { sha256: OnceLock::from(String::new()), ..source };
    let mut named = Named::default();
    let read = source.stream(&mut named);
    let (name, cpu_count) = match (named.0, read) {
        (_, Ok(Trace { meta, .. })) => (meta.machine, meta.cpu_count),
        (Some(found), Err(TraceError::Stopped { .. })) => found,
        (_, Err(error)) => return Err(error),
    };
    Ok(name.map(|name| (name, cpu_count)))
}

/// Finds a recording's machine in its first part.
#[derive(Default)]
struct Named(Option<(Option<String>, u32)>);

impl Sink for Named {
    fn events(&mut self, _: Vec<Event>, so_far: &SoFar<'_>) {
        self.0.get_or_insert((so_far.machine.map(str::to_owned), so_far.cpu_count));
    }

    fn is_stopped(&self) -> bool {
        self.0.is_some()
    }
}

/// Keeps all events.
struct Kept<'a> {
    events: Vec<Event>,
    go_on: GoOn<'a>,
}

impl Sink for Kept<'_> {
    fn events(&mut self, mut events: Vec<Event>, _: &SoFar<'_>) {
        if self.events.is_empty() {
            self.events = events;
        } else {
            self.events.append(&mut events);
        }
    }

    fn held_bytes(&self) -> u64 {
        (self.events.len() as u64).saturating_mul(EVENT_HELD_BYTES)
    }

    fn is_stopped(&self) -> bool {
        !(self.go_on)()
    }
}
