// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A replay of a recording that grows: governors in the shadow of a running machine.

mod column;
mod foresight;
mod running;
#[cfg(test)]
mod tests;

use crate::error::EngineError;
use crate::options::{Options, Request, Unwatched};
use crate::outcome::Outcome;
use crate::reading::Loaded;
use crate::session::{self, Session};
use running::Running;
use serde::Serialize;
use torpor_governor::{Catalog, GovernorSpec};
use torpor_machine::platform::Platform;
use torpor_trace::{Event, Feed, Names, Part, SoFar, Trace};

/// Machine, governors and options of a shadow, as its caller gives them.
pub struct Plan {
    /// Name of the recording in results and errors.
    pub name: String,
    pub platform: Platform,
    pub governors: Vec<GovernorSpec>,
    pub options: Options,
}

/// A shadow: events come in, and every governor decides on its own.
pub struct Shadow {
    name: String,
    request: Request,
    catalog: Catalog,
    feed: Option<Feed>,
    parts: Vec<Part>,
    events: u64,
    lost_events: u64,
    running: Option<Running>,
    windows: Vec<Window>,
    outcome: Option<Outcome>,
}

/// State of a shadow, and the windows closed since the last report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Events decoded so far.
    pub events: u64,
    /// Events that the recorder could not keep.
    pub lost_events: u64,
    /// Time up to which the events were replayed; absent while the recording's head is read.
    pub settled_ns: Option<i64>,
    /// CPUs that slept so far.
    pub cpus: usize,
    pub windows: Vec<Window>,
}

/// A minute of the recording's time.
#[derive(Clone, Debug, Serialize)]
pub struct Window {
    pub start_ns: i64,
    pub duration_ns: i64,
    /// Events lost in it: its figures are not those of all sleeps.
    pub lost: u64,
    pub runs: Vec<WindowRun>,
}

/// One governor's sleeps that ended in a window.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WindowRun {
    pub governor: String,
    pub sleeps: u64,
    /// Sleeps in a state that was too deep, and too shallow.
    pub above: u64,
    pub below: u64,
    /// Energy of CPUs and clusters; absent if the machine's power is not known.
    pub idle_energy_uj: Option<f64>,
    /// If power is not known: the seconds in the shallowest state that take as much energy. The
    /// power of states falls by equal steps, including states for which no sleep is long enough.
    pub relative_energy: Option<f64>,
    /// Latency of wake-ups by events, and their number.
    pub latency_sum_ns: i64,
    pub latency_count: u64,
    /// Delay of events' work relative to the recording.
    pub delay_sum_ns: i64,
    pub clusters: Vec<WindowCluster>,
    /// Reason for which the governor's column ended.
    pub error: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct WindowCluster {
    pub name: String,
    pub idle_energy_uj: Option<f64>,
}

impl Shadow {
    /// Starts a shadow. Governors are loaded when the recording's tick is known.
    ///
    /// # Errors
    /// If an option has no meaning for a recording that grows, and as for a replay.
    pub fn new(plan: Plan, catalog: Catalog) -> Result<Shadow, EngineError> {
        let Plan { name, platform, governors, mut options } = plan;
        check(&options)?;
        // Strips belong to a page of one recording.
        options.strip = false;
        let request = Request { traces: Vec::new(), platform, governors, options }.resolved()?;
        session::check_disabled_states(&request.platform, &request.options.disabled_states)?;
        session::check_latency_limits(&request.platform, &request.options.latency_limit)?;
        // Wrong names are errors now, not when events have come.
        session::deciders(&request, &catalog, request.platform.hz)?;
        Ok(Shadow {
            feed: Some(Feed::new(&name)),
            name,
            request,
            catalog,
            parts: Vec::new(),
            events: 0,
            lost_events: 0,
            running: None,
            windows: Vec::new(),
            outcome: None,
        })
    }

    /// Returns the governors' catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Takes the next bytes of the recording. Returns the number of events so far.
    ///
    /// # Errors
    /// If they are no recording.
    pub fn push(&mut self, bytes: &[u8]) -> Result<u64, EngineError> {
        let Some(feed) = &mut self.feed else { return Ok(self.events) };
        feed.push(bytes)?;
        for part in feed.take_parts() {
            self.events += part.events.len() as u64;
            self.parts.push(part);
        }
        self.lost_events = feed.lost_events();
        Ok(self.events)
    }

    /// Replays what is settled; `until_end`: the recording has ended.
    ///
    /// # Errors
    /// As for a replay.
    pub fn advance(&mut self, until_end: bool) -> Result<Report, EngineError> {
        let feed = self.feed.take();
        let names = feed.as_ref().and_then(Feed::names);
        let replayed = names.map_or(Ok(()), |names| self.replay_parts(names));
        self.feed = feed;
        replayed?;
        if until_end {
            self.end()?;
        }
        // Until there are more events, no governor runs.
        torpor_governor::unwatch_thread();
        Ok(Report {
            events: self.events,
            lost_events: self.lost_events,
            settled_ns: self.running.as_ref().map(|running| running.now.0),
            cpus: self.running.as_ref().map_or(0, Running::slept_cpus),
            windows: std::mem::take(&mut self.windows),
        })
    }

    /// Ends the recording. Returns the result: for one that ended within its head that of a replay,
    /// else of the same inputs, as far as the head shows what a replay learns from the whole.
    ///
    /// # Errors
    /// As for a replay.
    pub fn result(&mut self) -> Result<&Outcome, EngineError> {
        self.windows = self.advance(true)?.windows;
        Ok(self.outcome.as_ref().expect("the end has a result"))
    }

    fn replay_parts(&mut self, names: &Names) -> Result<(), EngineError> {
        for part in std::mem::take(&mut self.parts) {
            let Part { events, carries, cpu_count, lost_events } = part;
            let so_far = SoFar { names, carries, cpu_count, machine: None };
            self.replay(&events, &so_far, lost_events)?;
        }
        Ok(())
    }

    fn replay(
        &mut self,
        events: &[Event],
        so_far: &SoFar<'_>,
        lost_events: u64,
    ) -> Result<(), EngineError> {
        let Shadow { name, request, catalog, running, windows, .. } = self;
        let session = Session::bare(request, catalog);
        match running {
            Some(running) => running.push(&session, name, events, so_far, lost_events, windows),
            None => {
                *running = Some(Running::new(&session, name, events, so_far, lost_events)?);
                Ok(())
            }
        }
    }

    /// Ends the recording.
    fn end(&mut self) -> Result<(), EngineError> {
        let Some(feed) = self.feed.take() else { return Ok(()) };
        let trace = feed.finish()?;
        self.events += trace.events.len() as u64;
        let is_whole = self.running.is_none();
        if !trace.events.is_empty() {
            self.replay(&trace.events, &SoFar::whole(&trace), self.lost_events)?;
        }
        let Shadow { name, request, catalog, running, windows, .. } = self;
        let bare = Trace { events: Vec::new(), ..trace.clone() };
        let outcome = match running {
            Some(running) => {
                let session = Session::bare(request, catalog);
                running.finish(&session, name, &bare, windows)?
            }
            None => None,
        };
        self.outcome = Some(match outcome {
            Some(outcome) if !is_whole => outcome,
            _ => {
                let loaded = Loaded::of(name, trace, 0);
                session::run_on(request, &[&loaded], catalog, &Unwatched)?
            }
        });
        Ok(())
    }
}

/// Checks that the options have a meaning for a recording that grows.
fn check(options: &Options) -> Result<(), EngineError> {
    let given = [
        ("start", options.start.is_some()),
        ("end", options.end.is_some()),
        ("by", options.by.is_some()),
        ("decisions", options.decisions),
        ("time_decisions", options.time_decisions),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(EngineError::NotWhileGrowing { option }),
        None => Ok(()),
    }
}
