// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! All governors on a recording that grows: what is replayed by all is forgotten.

use super::Window;
use super::column::{Column, Shadowed};
use super::foresight;
use crate::drive::PlacedCpu;
use crate::error::EngineError;
use crate::input::{CpuInput, Growing, Recording, SleepSource, Span};
use crate::model::CpuModel;
use crate::outcome::{InputsInfo, Outcome};
use crate::replay::Decider;
use crate::session::{self, Session};
use crate::summary;
use crate::trace_info::TraceInfo;
use torpor_machine::units::{CpuId, Duration, Hz, Instant};
use torpor_trace::{Event, SoFar, Trace};

/// Length of a window, in the recording's time.
const WINDOW: Duration = Duration(60_000_000_000);
/// Time between two sums of clusters' own energy.
const STATIC_STEP: Duration = Duration(1_000_000_000);

/// A CPU that is replayed.
pub(super) struct Lane {
    /// The spans that not all governors have passed.
    pub input: CpuInput,
    cluster: usize,
    model: CpuModel,
    /// The first and last span of all.
    pub edges: Option<Edges>,
}

#[derive(Clone, Copy)]
pub(super) struct Edges {
    pub first: Span,
    pub last: Span,
}

/// Governors on a recording whose head is known.
pub(super) struct Running {
    growing: Growing,
    hz: Hz,
    deciders: Vec<Decider>,
    /// In the order of CPU numbers, as the governors' instances have them.
    lanes: Vec<Lane>,
    columns: Vec<Column>,
    /// Time of the last event.
    pub now: Instant,
    window: Window,
    lost_events: u64,
    /// Start of the replayed time, and the time of the last sums of the clusters' own energy.
    start: Option<Instant>,
    summed: Instant,
    longest_idle: Duration,
    spans: u64,
    sources: [u64; SleepSource::ALL.len()],
}

impl Running {
    /// Starts with a recording's head.
    pub(super) fn new(
        session: &Session<'_>,
        name: &str,
        head: &[Event],
        so_far: &SoFar<'_>,
        lost_events: u64,
    ) -> Result<Running, EngineError> {
        let request = session.request();
        let (platform, options) = (&request.platform, &request.options);
        let is_placed = |cpu: CpuId| {
            let place = options.cpu_map.get(&cpu).copied().unwrap_or(cpu);
            let is_chosen = options.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu));
            is_chosen && platform.cluster_of(place).is_some()
        };
        let cpus: Vec<CpuId> = (0..so_far.cpu_count).map(CpuId).filter(|c| is_placed(*c)).collect();
        let empty = |&cpu| CpuInput { cpu, spans: Vec::new(), cut: Default::default() };
        let mut recording =
            Recording { cpus: cpus.iter().map(empty).collect(), ..Recording::default() };
        let places = session.places(name, &recording)?;
        let recorded_on = session.recorded_on(name);
        let machine = |cpu| session.scale(cpu, &places, recorded_on);
        let growing = Growing::new(head, so_far, recorded_on, machine);
        recording.tick = growing.tick();
        let hz = session.hz_of(&recording);
        let deciders = session::deciders(request, session.catalog(), hz)?;
        let models = session.models(name, &recording)?;
        let lanes = recording.cpus.into_iter().zip(models).map(|(input, (cluster, model))| {
            // The longest sleep is not known yet, and a unit that changes gives windows that differ.
            let model = model.within(&platform.clusters[cluster], Duration::MAX);
            Lane { input, cluster, model, edges: None }
        });
        let lanes: Vec<Lane> = lanes.collect();
        let placed = placed(session, &lanes);
        let on: Vec<&PlacedCpu<'_>> = placed.iter().collect();
        let labels = request.governors.iter().map(ToString::to_string);
        let columns = labels.zip(deciders.iter().enumerate());
        let columns = columns.map(|(label, decider)| Column::new(label, decider, &on)).collect();
        let (first, last) = (head.first(), head.last());
        let at = |event: Option<&Event>| event.map_or(Instant(0), |event| event.time);
        let mut running = Running {
            growing,
            hz,
            deciders,
            lanes,
            columns,
            now: at(last),
            window: Window { start_ns: at(first).0, duration_ns: 0, lost: 0, runs: Vec::new() },
            lost_events: 0,
            start: None,
            summed: at(first),
            longest_idle: Duration::ZERO,
            spans: 0,
            sources: [0; SleepSource::ALL.len()],
        };
        running.note_losses(lost_events);
        running.replay(session, name)?;
        Ok(running)
    }

    /// Takes the next events. Windows that are over go to `windows`.
    pub(super) fn push(
        &mut self,
        session: &Session<'_>,
        name: &str,
        events: &[Event],
        so_far: &SoFar<'_>,
        lost_events: u64,
        windows: &mut Vec<Window>,
    ) -> Result<(), EngineError> {
        // Losses come between the events before and these, so they count in both windows.
        let lost = self.note_losses(lost_events);
        let mut rest = events;
        while !rest.is_empty() {
            let end = self.window_end();
            let (of_window, after) = rest.split_at(rest.partition_point(|event| event.time < end));
            if let Some(last) = of_window.last() {
                self.growing.push(of_window, so_far);
                self.now = last.time;
                self.replay(session, name)?;
            }
            if !after.is_empty() {
                windows.push(self.close_window(session, name, end));
                self.window.lost = lost;
            }
            rest = after;
        }
        Ok(())
    }

    fn note_losses(&mut self, lost_events: u64) -> u64 {
        let lost = lost_events.saturating_sub(self.lost_events);
        self.lost_events = lost_events;
        self.window.lost += lost;
        lost
    }

    /// Returns the first full minute after the window's beginning and all that was replayed before.
    fn window_end(&self) -> Instant {
        let started = self.window.start_ns.div_euclid(WINDOW.0).saturating_add(1);
        let passed = (self.now.0 - 1).div_euclid(WINDOW.0).saturating_add(1);
        Instant(started.max(passed).saturating_mul(WINDOW.0))
    }

    #[cfg(test)]
    pub(super) fn held_spans(&self) -> usize {
        let lanes = self.lanes.iter().map(|lane| lane.input.spans.len());
        lanes.sum::<usize>() + self.growing.held_spans()
    }

    /// Calls `work` with each column.
    fn each<T>(
        &mut self,
        session: &Session<'_>,
        name: &str,
        is_end: bool,
        work: impl FnMut(&mut Column, &Shadowed<'_>) -> T,
    ) -> Vec<T> {
        let Running { deciders, lanes, columns, start, now, .. } = self;
        let placed = placed(session, lanes);
        let on = Shadowed {
            platform: &session.request().platform,
            name,
            deciders,
            cpus: &placed.iter().collect::<Vec<_>>(),
            start: *start,
            now: *now,
            is_end,
        };
        let mut work = work;
        columns.iter_mut().map(|column| work(column, &on)).collect()
    }

    fn close_window(&mut self, session: &Session<'_>, name: &str, end: Instant) -> Window {
        let next = Window { start_ns: end.0, duration_ns: 0, lost: 0, runs: Vec::new() };
        let window = std::mem::replace(&mut self.window, next);
        let runs = self.each(session, name, false, Column::report);
        Window { duration_ns: end.0 - window.start_ns, runs, ..window }
    }

    pub(super) fn slept_cpus(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.edges.is_some()).count()
    }

    /// Replays the spans that are settled, and forgets those that all governors have passed.
    fn replay(&mut self, session: &Session<'_>, name: &str) -> Result<(), EngineError> {
        for number in 0..self.growing.cpu_count() {
            let spans = self.growing.release(number);
            self.take(session, name, number, spans)?;
        }
        if self.start.is_none() {
            let firsts = self.lanes.iter().filter_map(|lane| Some(lane.edges?.first.start));
            self.start = firsts.min();
        }
        self.each(session, name, false, Column::run);
        if self.now.since(self.summed) >= STATIC_STEP {
            self.summed = self.now;
            for lane in &mut self.lanes {
                lane.input.cut = self.growing.cut_at_start(lane.input.cpu.index());
            }
            self.each(session, name, false, |column, on| column.settle(on, None));
        }
        self.forget();
        Ok(())
    }

    /// Takes a CPU's next spans.
    fn take(
        &mut self,
        session: &Session<'_>,
        name: &str,
        number: usize,
        spans: Vec<Span>,
    ) -> Result<(), EngineError> {
        let (Some(&first), Some(&last)) = (spans.first(), spans.last()) else { return Ok(()) };
        let cpu = CpuId(number as u32);
        let request = session.request();
        if request.options.cpus.as_ref().is_some_and(|cpus| !cpus.contains(&cpu)) {
            return Ok(());
        }
        let input = CpuInput { cpu, spans, cut: Default::default() };
        let mut recording = Recording { cpus: vec![input], ..Recording::default() };
        let places = session.places(name, &recording)?;
        recording.bind_opps(&request.platform, |cpu| places[&cpu]);
        self.longest_idle = self.longest_idle.max(recording.longest_idle());
        let slot = self.lanes.binary_search_by_key(&cpu, |lane| lane.input.cpu);
        let lane = &mut self.lanes[slot.expect("CPUs with a place have a lane")];
        let first = lane.edges.map_or(first, |edges| edges.first);
        lane.edges = Some(Edges { first, last });
        for span in recording.cpus.into_iter().flat_map(|input| input.spans) {
            self.sources[span.source as usize] += 1;
            self.spans += 1;
            lane.input.spans.push(span);
        }
        Ok(())
    }

    /// Forgets the spans that all governors have passed, but for the last one before the time up to
    /// which the cluster's own energy is known: its frequency still counts.
    fn forget(&mut self) {
        for (slot, lane) in self.lanes.iter_mut().enumerate() {
            let spans = &mut lane.input.spans;
            let passed = self.columns.iter().map(|column| column.passed(slot)).min();
            let mut count = passed.unwrap_or(usize::MAX).min(spans.len().saturating_sub(1));
            if lane.model.watches_deepest {
                let since = |column: &Column| column.static_since(lane.cluster);
                let since = self.columns.iter().map(since).min().unwrap_or(Instant::NEVER);
                let begun = spans.partition_point(|span| span.start <= since);
                count = count.min(begun.saturating_sub(1));
            }
            spans.drain(..count);
            self.columns.iter_mut().for_each(|column| column.drop_spans(slot, count));
        }
    }

    /// Ends the recording; `trace` has no events. Returns the result, if there is anything to
    /// replay.
    pub(super) fn finish(
        &mut self,
        session: &Session<'_>,
        name: &str,
        trace: &Trace,
        windows: &mut Vec<Window>,
    ) -> Result<Option<Outcome>, EngineError> {
        let mut ended = self.growing.finish();
        for (number, input) in ended.iter_mut().enumerate() {
            self.take(session, name, number, std::mem::take(&mut input.spans))?;
        }
        if self.slept_cpus() == 0 {
            return Ok(None);
        }
        let firsts = self.lanes.iter().filter_map(|lane| Some(lane.edges?.first.start));
        self.start = self.start.or(firsts.min());
        self.each(session, name, true, Column::run);
        let recording = self.recording(&ended);
        let (_, end) = recording.window();
        for lane in &mut self.lanes {
            lane.input.cut = ended[lane.input.cpu.index()].cut;
        }
        self.each(session, name, false, |column, on| column.settle(on, Some(end)));
        windows.push(self.close_window(session, name, self.now));
        self.outcome(session, name, trace, recording).map(Some)
    }

    /// Returns the recording as results describe it: of its spans, each CPU's first and last.
    fn recording(&self, ended: &[CpuInput]) -> Recording {
        let cpus = self.lanes.iter().filter_map(|lane| {
            let Edges { first, last } = lane.edges?;
            let CpuInput { cpu, cut, .. } = ended[lane.input.cpu.index()];
            Some(CpuInput { cpu, spans: vec![first, last], cut })
        });
        Recording {
            cpus: cpus.collect(),
            tick: self.growing.tick(),
            freq_max_khz: self.growing.freq_max_khz().to_vec(),
            stats: self.growing.stats().clone(),
        }
    }

    fn outcome(
        &mut self,
        session: &Session<'_>,
        name: &str,
        trace: &Trace,
        recording: Recording,
    ) -> Result<Outcome, EngineError> {
        let request = session.request();
        let platform = &request.platform;
        let models = session.models(name, &recording)?.into_iter();
        // Sleeps are counted, so they are priced by what is known at the end.
        let models: Vec<(usize, CpuModel)> = models
            .map(|(at, model)| (at, model.within(&platform.clusters[at], self.longest_idle)))
            .collect();
        let placed = recording.cpus.iter().zip(&models);
        let placed = placed.map(|(input, (at, model))| session.placed(input, *at, model));
        let placed: Vec<PlacedCpu<'_>> = placed.collect();
        let columns = std::mem::take(&mut self.columns).into_iter();
        let runs = columns.map(|column| column.close(&placed)).collect();
        let inputs = InputsInfo {
            spans: self.spans,
            sleep_length_sources: summary::by_source(&self.sources),
            ..summary::inputs_info(
                &recording,
                self.hz,
                session.recorded_on(name).map(|machine| machine.name.clone()),
            )
        };
        let info = TraceInfo::new(name, trace);
        let outcome =
            session.trace_outcome(info, inputs, &placed, &self.deciders, &recording, runs)?;
        let mut outcome = session::outcome(request, &self.deciders, vec![outcome]);
        if self.deciders.iter().any(|decider| matches!(decider, Decider::Oracle(_))) {
            outcome.notes.push(foresight::note());
        }
        Ok(outcome)
    }
}

/// Returns the CPUs as governors run on them.
fn placed<'a>(session: &Session<'a>, lanes: &'a [Lane]) -> Vec<PlacedCpu<'a>> {
    let placed = |lane: &'a Lane| session.placed(&lane.input, lane.cluster, &lane.model);
    lanes.iter().map(placed).collect()
}
