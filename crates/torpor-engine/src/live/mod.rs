// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A replay of a recording that grows: governors in the shadow of a running machine.

use crate::error::EngineError;
use crate::options::{Options, Request, Unwatched};
use crate::outcome::Outcome;
use crate::reading::Loaded;
use crate::session;
use serde::Serialize;
use torpor_governor::{Catalog, GovernorSpec};
use torpor_machine::platform::Platform;
use torpor_trace::{Event, Feed, Trace};

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
    feed: Feed,
    head: Vec<Event>,
    events: u64,
    lost_events: u64,
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
    /// The same in units of the shallowest state's power times seconds, if it is not known.
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
    /// Starts a shadow. Governors are compiled when the recording's tick is known.
    ///
    /// # Errors
    /// If an option has no meaning for a recording that grows, or as for a replay.
    pub fn new(plan: Plan, catalog: Catalog) -> Result<Shadow, EngineError> {
        let Plan { name, platform, governors, options } = plan;
        let request = Request { traces: Vec::new(), platform, governors, options };
        Ok(Shadow {
            feed: Feed::new(&name),
            name,
            request,
            catalog,
            head: Vec::new(),
            events: 0,
            lost_events: 0,
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
        self.feed.push(bytes)?;
        let events = self.feed.take_events();
        self.events += events.len() as u64;
        self.head.extend(events);
        Ok(self.events)
    }

    /// Replays what is settled; `until_end`: the recording has ended.
    ///
    /// # Errors
    /// As for a replay.
    pub fn advance(&mut self, until_end: bool) -> Result<Report, EngineError> {
        let _ = until_end;
        Ok(Report {
            events: self.events,
            lost_events: self.lost_events.max(self.feed.lost_events()),
            settled_ns: None,
            cpus: 0,
            windows: Vec::new(),
        })
    }

    /// Ends the recording and returns the result, as a replay of the same events has it.
    ///
    /// # Errors
    /// As for a replay.
    pub fn result(&mut self) -> Result<Outcome, EngineError> {
        let feed = std::mem::replace(&mut self.feed, Feed::new(&self.name));
        let mut trace = feed.finish()?;
        let mut events = std::mem::take(&mut self.head);
        events.append(&mut trace.events);
        let loaded = Loaded::of(&self.name, Trace { events, ..trace }, 0);
        session::run_on(&self.request, &[&loaded], &self.catalog, &Unwatched)
    }
}
