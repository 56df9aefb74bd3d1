// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reads a recording for a replay; memory holds its spans, not its events.
//!
//! The first pass gives the spans and what ended the sleeps, a second one the task information of
//! each span, which depends on the highest frequency of the whole recording. A recording of one part
//! stays in memory for the second pass; a longer one is read again. Both use the user's cache.

use crate::causes::Causes;
use crate::error::EngineError;
use crate::input::{Draft, Follower, Recording};
use crate::options::{By, Progress};
use crate::prepared::Kept;
use crate::stats::Stats;
use crate::timeline::Folding;
use crate::trace_info::TraceInfo;
use std::path::Path;
use torpor_machine::platform::Platform;
use torpor_trace::{Cache, Event, Sink, SoFar, Source, Trace, TraceError};

/// The first events of a recording.
#[derive(Default)]
pub(crate) struct Head {
    /// Empty for a recording in several parts, unless its head is kept.
    pub events: Vec<Event>,
    /// These are all events of the recording.
    pub is_all: bool,
}

/// A recording in memory.
pub struct Loaded {
    pub(crate) path: String,
    pub(crate) trace: Trace,
    /// The same without its events.
    pub(crate) bare: Trace,
    /// Inputs of the replays so far.
    pub(crate) inputs: Kept,
}

impl Loaded {
    /// Reads a recording. `max_bytes` bounds its memory, the inputs of replays included; by default
    /// it is half of the machine's, and at most 8 GiB.
    ///
    /// # Errors
    /// See [`torpor_trace::read`].
    pub fn read(
        path: &Path,
        max_bytes: Option<u64>,
        progress: &dyn Progress,
    ) -> Result<Loaded, EngineError> {
        let go_on = || !progress.cancelled();
        let max_bytes = max_bytes.unwrap_or(torpor_trace::held_max_bytes());
        let source = Source::open_within(path, max_bytes, &go_on).map_err(error)?;
        let trace = source.cached(Cache::of_user()).read(&go_on).map_err(error)?;
        let rest_bytes = max_bytes.saturating_sub(bytes_of(&trace.events) as u64);
        Ok(Loaded::of(&path.display().to_string(), trace, rest_bytes))
    }

    /// Takes a recording of this name; `rest_bytes` bounds the memory of replays' inputs.
    pub(crate) fn of(path: &str, mut trace: Trace, rest_bytes: u64) -> Loaded {
        let events = std::mem::take(&mut trace.events);
        let bare = trace.clone();
        let inputs = Kept::new(rest_bytes.try_into().unwrap_or(usize::MAX));
        Loaded { path: path.to_owned(), trace: Trace { events, ..trace }, bare, inputs }
    }

    /// Returns the memory of its events and of the inputs kept from replays, in bytes.
    pub fn held_bytes(&self) -> usize {
        bytes_of(&self.trace.events).saturating_add(self.inputs.held_bytes())
    }

    pub fn info(&self) -> TraceInfo {
        TraceInfo::new(&self.path, &self.bare)
    }
}

fn bytes_of(events: &Vec<Event>) -> usize {
    events.capacity().saturating_mul(size_of::<Event>())
}

/// Opens a recording; a pipe is waited for.
pub(crate) fn open(path: &Path, progress: &dyn Progress) -> Result<Source, EngineError> {
    let source = Source::open_while(path, &|| !progress.cancelled()).map_err(error)?;
    Ok(source.cached(Cache::of_user()))
}

/// Reads a recording with all its events.
///
/// # Errors
/// See [`torpor_trace::read`].
pub fn whole(path: &Path, progress: &dyn Progress) -> Result<Trace, EngineError> {
    open(path, progress)?.read(&|| !progress.cancelled()).map_err(error)
}

/// Reads a recording into a sink, in parts.
pub fn stream<S: Sink>(
    path: &Path,
    sink: &mut S,
    progress: &dyn Progress,
) -> Result<Trace, EngineError> {
    let what = format!("reading {}, MiB", path.display());
    watched(&open(path, progress)?, sink, what, progress)
}

/// Reads `source` into a sink. Reports progress as `what`, and stops when the user cancels.
fn watched<S: Sink>(
    source: &Source,
    sink: &mut S,
    what: String,
    progress: &dyn Progress,
) -> Result<Trace, EngineError> {
    let streamed = source.stream(&mut Watched { sink, what, progress });
    if progress.cancelled() { Err(EngineError::Interrupted) } else { streamed.map_err(error) }
}

/// Converts an error of the reader; one that the user stopped is [`EngineError::Interrupted`].
fn error(error: TraceError) -> EngineError {
    match error {
        TraceError::Stopped { .. } => EngineError::Interrupted,
        error => error.into(),
    }
}

/// Reads the recording and reconstructs its spans, and finds what ended its sleeps if `by` asks for
/// causes. `shown` names it in progress reports. With `recorded_on`, as for a [`Draft`], the first
/// events are kept to verify the recorded decisions.
pub(crate) fn draft(
    source: &Source,
    shown: &str,
    recorded_on: Option<&Platform>,
    by: Option<By>,
    progress: &dyn Progress,
) -> Result<(Trace, Recording, Option<Causes>, Head), EngineError> {
    let mut drafting = Drafting {
        folding: Folding::new((Draft::new(recorded_on), by.map(|_| Stats::logging()))),
        head: Head::default(),
        parts: 0,
        keeps_head: recorded_on.is_some(),
    };
    let trace = watched(source, &mut drafting, format!("reading {shown}, MiB"), progress)?;
    let (draft, stats) = drafting.folding.finish();
    let causes = by.zip(stats).map(|(by, stats)| Causes::new(by, stats.into_log(), &trace.names));
    Ok((trace, draft.finish(), causes, drafting.head))
}

/// Feeds all events to `follower`: those of `head`, if there are no others.
pub(crate) fn follow(
    mut follower: Follower<'_>,
    source: &Source,
    shown: &str,
    head: &Head,
    progress: &dyn Progress,
) -> Result<(), EngineError> {
    if head.is_all {
        follower.observe(&head.events);
    } else {
        let what = format!("following tasks of {shown}, MiB");
        watched(source, &mut Following(&mut follower), what, progress)?;
    }
    follower.finish();
    Ok(())
}

struct Drafting {
    folding: Folding<(Draft, Option<Stats<'static>>)>,
    head: Head,
    parts: usize,
    keeps_head: bool,
}

impl Sink for Drafting {
    fn events(&mut self, events: Vec<Event>, so_far: &SoFar<'_>) {
        self.folding.observe(&events, so_far);
        self.parts += 1;
        if self.parts == 1 {
            self.head = Head { events, is_all: true };
        } else if self.head.is_all {
            self.head.is_all = false;
            if !self.keeps_head {
                self.head.events = Vec::new();
            }
        }
    }

    fn held_bytes(&self) -> u64 {
        self.folding.held_bytes().saturating_add(bytes_of(&self.head.events) as u64)
    }
}

struct Following<'a, 'b>(&'a mut Follower<'b>);

impl Sink for Following<'_, '_> {
    fn events(&mut self, events: Vec<Event>, _: &SoFar<'_>) {
        self.0.observe(&events);
    }
}

/// A sink whose progress is reported and that the user can stop.
struct Watched<'a, S> {
    sink: &'a mut S,
    what: String,
    progress: &'a dyn Progress,
}

impl<S: Sink> Sink for Watched<'_, S> {
    fn events(&mut self, events: Vec<Event>, so_far: &SoFar<'_>) {
        if !self.progress.cancelled() {
            self.sink.events(events, so_far);
        }
    }

    fn held_bytes(&self) -> u64 {
        self.sink.held_bytes()
    }

    fn progress(&mut self, read_bytes: u64, total_bytes: u64) {
        self.progress.advance(&self.what, read_bytes >> 20, total_bytes >> 20);
    }

    fn is_stopped(&self) -> bool {
        self.progress.cancelled()
    }
}
