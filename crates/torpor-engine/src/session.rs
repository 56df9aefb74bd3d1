// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A whole request: read, reconstruct, replay, sum up.

use crate::causes::Causes;
use crate::error::EngineError;
use crate::input::{CpuInput, Draft, EventToExit, Follower, Recording, TickGrid};
use crate::model::CpuModel;
use crate::options::{DisabledState, Machine, ORACLE, Options, Progress, Request, worker_threads};
use crate::oracle::Aim;
use crate::outcome::*;
use crate::pool::{self, on_threads};
use crate::prepared::{Key, Prepared};
use crate::proof::{self, Claim, Column};
use crate::reading::{self, Head, Loaded};
use crate::replay::{self, Decider, PlacedCpu, Run};
use crate::spans::{Spanned, SpannedCpu};
use crate::stats::Stats;
use crate::strip::{self, Lane, Slept};
use crate::summary::{self, RunCounts};
use crate::timeline::Folding;
use crate::trace_info::TraceInfo;
use crate::verify::{self, Fidelity, VerifyOptions, VerifyRequest};
use std::collections::BTreeMap;
use std::path::Path;
use torpor_governor::{Catalog, Governor, GovernorSpec, Origin, Place};
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Hz, Instant};
use torpor_result::idle::power_mw;
use torpor_result::metric;
use torpor_result::options::LatencyLimits;
use torpor_result::record::{self, Described, compare_single};
use torpor_trace::Trace;

/// Runs a request. A governor that cannot be loaded is an error; one that fails later has its error
/// in its own [`RunOutcome`].
pub fn run(
    request: &Request,
    catalog: &Catalog,
    progress: &dyn Progress,
) -> Result<Outcome, EngineError> {
    run_on(request, &[], catalog, progress)
}

/// Runs a request on its own recordings, and then on the loaded ones.
pub fn run_on(
    request: &Request,
    loaded: &[&Loaded],
    catalog: &Catalog,
    progress: &dyn Progress,
) -> Result<Outcome, EngineError> {
    on_threads(worker_threads(request.options.threads), || {
        Session::new(&request.resolved()?, catalog)?.run(loaded, progress)
    })?
}

/// Returns the idle spans of the request's recordings on its machine, without governors.
pub fn spans_of(request: &Request, progress: &dyn Progress) -> Result<Vec<Spanned>, EngineError> {
    let catalog = Catalog::new(Default::default());
    let request = request.resolved()?;
    let session = Session::new(&request, &catalog)?;
    request.traces.iter().map(|path| session.spans(path, progress)).collect()
}

pub(crate) struct Session<'a> {
    request: &'a Request,
    /// Tick rate for recordings that do not show theirs.
    hz: Hz,
    /// Compiled for `hz`.
    deciders: Vec<Decider>,
    catalog: &'a Catalog,
}

impl<'a> Session<'a> {
    fn new(request: &'a Request, catalog: &'a Catalog) -> Result<Session<'a>, EngineError> {
        let hz = request.options.hz.unwrap_or(request.platform.hz);
        check_disabled_states(&request.platform, &request.options.disabled_states)?;
        check_latency_limits(&request.platform, &request.options.latency_limit)?;
        let deciders = deciders(request, catalog, hz)?;
        Ok(Session { request, hz, deciders, catalog })
    }

    /// Returns a session whose caller has the deciders.
    pub(crate) fn bare(request: &'a Request, catalog: &'a Catalog) -> Session<'a> {
        let hz = request.options.hz.unwrap_or(request.platform.hz);
        Session { request, hz, deciders: Vec::new(), catalog }
    }

    pub(crate) fn request(&self) -> &'a Request {
        self.request
    }

    pub(crate) fn catalog(&self) -> &'a Catalog {
        self.catalog
    }

    /// Returns the tick rate of a replay: the user's, the recording's, or the machine's.
    pub(crate) fn hz_of(&self, recording: &Recording) -> Hz {
        self.request.options.hz.or(recording.hz()).unwrap_or(self.hz)
    }

    fn run(&self, loaded: &[&Loaded], progress: &dyn Progress) -> Result<Outcome, EngineError> {
        let traces = &self.request.traces;
        let read = traces.iter().map(|path| self.read(path, progress));
        let traces = read
            .chain(loaded.iter().map(|loaded| self.take(loaded, progress)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(outcome(self.request, &self.deciders, traces))
    }

    fn read(&self, path: &Path, progress: &dyn Progress) -> Result<TraceOutcome, EngineError> {
        let shown = path.display().to_string();
        if progress.cancelled() {
            return Err(EngineError::Interrupted);
        }
        let prepared =
            self.on_recorded(&shown, |machine| self.prepare_read(path, machine, progress))?;
        self.replay(&prepared, progress)
    }

    /// Makes inputs of a recording that was made on `machine`.
    fn prepare_read(
        &self,
        path: &Path,
        machine: Option<&Platform>,
        progress: &dyn Progress,
    ) -> Result<Prepared, EngineError> {
        let shown = path.display().to_string();
        let source = reading::open(path, progress)?;
        let by = self.request.options.by;
        let (trace, recording, causes, head) =
            reading::draft(&source, &shown, machine, by, progress)?;
        // The source is closed after the task events.
        let follow = |follower: Follower<'_>, head: &Head| {
            let source = source;
            reading::follow(follower, &source, &shown, head, progress)
        };
        let mut prepared =
            self.prepare(&shown, machine, trace, recording, head, follow, progress)?;
        prepared.causes = causes;
        Ok(prepared)
    }

    fn take(&self, loaded: &Loaded, progress: &dyn Progress) -> Result<TraceOutcome, EngineError> {
        if progress.cancelled() {
            return Err(EngineError::Interrupted);
        }
        let Request { platform, options, .. } = self.request;
        let key = Key::new(platform, options, self.recorded_on(&loaded.path));
        let prepared = loaded.inputs.get(key, || {
            self.on_recorded(&loaded.path, |machine| self.prepare_loaded(loaded, machine, progress))
        })?;
        self.replay(&prepared, progress)
    }

    fn prepare_loaded(
        &self,
        loaded: &Loaded,
        machine: Option<&Platform>,
        progress: &dyn Progress,
    ) -> Result<Prepared, EngineError> {
        let by = self.request.options.by;
        let folds = (Draft::new(machine), by.map(|_| Stats::logging()));
        let (draft, stats) = Folding::whole(&loaded.trace, folds);
        let recording = draft.finish();
        let wanted = if machine.is_some() { loaded.trace.events.clone() } else { Vec::new() };
        let head = Head { events: wanted, is_all: true };
        let follow = |mut follower: Follower<'_>, _: &Head| {
            follower.observe(&loaded.trace.events);
            follower.finish();
            Ok(())
        };
        let bare = loaded.bare.clone();
        let mut prepared =
            self.prepare(&loaded.path, machine, bare, recording, head, follow, progress)?;
        let names = &loaded.trace.names;
        prepared.causes = by.zip(stats).map(|(by, s)| Causes::new(by, s.into_log(), names));
        Ok(prepared)
    }

    /// Makes inputs of a recording. `trace` has no events; `follow` feeds them to the follower.
    #[expect(clippy::too_many_arguments, reason = "a recording comes in parts")]
    fn prepare(
        &self,
        shown: &str,
        machine: Option<&Platform>,
        trace: Trace,
        mut recording: Recording,
        head: Head,
        follow: impl FnOnce(Follower<'_>, &Head) -> Result<(), EngineError>,
        progress: &dyn Progress,
    ) -> Result<Prepared, EngineError> {
        let info = TraceInfo::new(shown, &trace);
        self.lay_out(&info, machine, &trace, &mut recording, |f| follow(f, &head))?;
        let agreement = self.agreement(shown, machine, trace, head, progress)?;
        if progress.cancelled() {
            return Err(EngineError::Interrupted);
        }
        let recorded_on = machine.map(|machine| machine.name.clone());
        Ok(Prepared { info, recorded_on, recording, agreement, causes: None })
    }

    fn replay(
        &self,
        prepared: &Prepared,
        progress: &dyn Progress,
    ) -> Result<TraceOutcome, EngineError> {
        let Prepared { info, recorded_on, recording, agreement, causes } = prepared;
        let options = &self.request.options;
        let models = self.models(&info.path, recording)?;
        let placed = recording.cpus.iter().zip(&models);
        let placed = placed.map(|(input, (at, model))| self.placed(input, *at, model));
        let mut placed: Vec<PlacedCpu<'_>> = placed.collect();
        let lanes = self.keep_decisions(&mut placed, causes.is_some());
        let hz = self.hz_of(recording);
        let compiled = match hz == self.hz {
            true => None,
            false => Some(deciders(self.request, self.catalog, hz)?),
        };
        let deciders = compiled.as_ref().unwrap_or(&self.deciders);
        let shards = pool::thread_count();
        let span = recording.window();
        let times = options.time_decisions;
        let runs = replay::run(&placed, deciders, span, times, shards, progress, &info.path)?;
        let strips = if options.strip { self.strips(&lanes, &runs) } else { Vec::new() };
        let inputs = summary::inputs_info(recording, hz, recorded_on.clone());
        let mut outcome =
            self.trace_outcome(info.clone(), inputs, &placed, deciders, recording, runs)?;
        outcome.causes = causes.as_ref().map(|causes| {
            let runs = outcome.runs.iter().zip(&outcome.decisions);
            let runs = runs.filter(|(run, _)| run.error.is_none());
            runs.flat_map(|(run, own)| causes.of_run(&run.governor, &placed, own)).collect()
        });
        if !options.decisions {
            outcome.decisions.iter_mut().for_each(Vec::clear);
        }
        Ok(TraceOutcome { agreement: agreement.clone(), strips, ..outcome })
    }

    /// Places a recorded CPU on one of a cluster.
    pub(crate) fn placed<'b>(
        &self,
        input: &'b CpuInput,
        cluster: usize,
        model: &'b CpuModel,
    ) -> PlacedCpu<'b>
    where
        'a: 'b,
    {
        let Request { platform, options, .. } = self.request;
        let cluster = (cluster, &platform.clusters[cluster]);
        PlacedCpu { input, model, cluster, others: options.others.unwrap_or_default(), kept: 0 }
    }

    /// Sets how many decisions are kept of each CPU. Returns the lanes of the strips.
    fn keep_decisions(&self, placed: &mut [PlacedCpu<'_>], for_causes: bool) -> Vec<Lane> {
        let Request { options, governors, .. } = self.request;
        let cpus = placed
            .iter()
            .map(|cpu| (cpu.input.cpu, cpu.input.window(), cpu.input.spans.len() as u64));
        let lanes = strip::lanes(cpus, governors.len());
        for (cpu, lane) in placed.iter_mut().zip(&lanes) {
            cpu.kept = match (options.decisions || for_causes, options.strip) {
                (true, _) => usize::MAX,
                (false, true) => lane.most + 1,
                (false, false) => 0,
            };
        }
        lanes
    }

    fn strips(&self, lanes: &[Lane], runs: &[Result<Run, String>]) -> Vec<Strip> {
        let labels = self.request.governors.iter().map(ToString::to_string);
        let sleeps = runs.iter().map(|run| {
            let run = run.as_ref().ok()?;
            Some(run.decisions.iter().flatten().map(Slept::from))
        });
        strip::strips(lanes, labels.zip(sleeps))
    }

    /// Places a recording on the machine; `follow` feeds the events to the follower.
    fn lay_out(
        &self,
        info: &TraceInfo,
        machine: Option<&Platform>,
        trace: &Trace,
        recording: &mut Recording,
        follow: impl FnOnce(Follower<'_>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let Request { platform, options, .. } = self.request;
        let shown = &info.path;
        if recording.span_count() == 0 {
            let sleeps = info.event_counts.get("cpu_idle").copied().unwrap_or(0);
            let found = format!("{sleeps} cpu_idle events on {} CPUs", info.cpu_count);
            return Err(EngineError::NothingToReplay { path: shown.to_owned(), found });
        }
        check_named_cpus(options, shown, recording)?;
        if let Some(chosen) = &options.cpus {
            recording.cpus.retain(|c| chosen.contains(&c.cpu));
        }
        keep_part(options, shown, trace, recording)?;
        let places = self.places(shown, recording)?;
        recording.bind_opps(platform, |cpu| places[&cpu]);
        let scale = |cpu| self.scale(cpu, &places, machine);
        let follower = Follower::new(recording, trace, scale);
        follow(follower)
    }

    fn spans(&self, path: &Path, progress: &dyn Progress) -> Result<Spanned, EngineError> {
        let shown = path.display().to_string();
        let source = reading::open(path, progress)?;
        let machine = self.recorded_on(&shown);
        let (trace, mut recording, _, head) =
            reading::draft(&source, &shown, machine, None, progress)?;
        let info = TraceInfo::new(&shown, &trace);
        self.lay_out(&info, machine, &trace, &mut recording, |follower| {
            reading::follow(follower, &source, &shown, &head, progress)
        })?;
        let models = self.models(&shown, &recording)?;
        let cpus = recording.cpus.into_iter().zip(models);
        let cpus = cpus.map(|(input, (cluster, model))| SpannedCpu { input, cluster, model });
        let has_power = self.request.platform.has_power();
        Ok(Spanned { path: shown, has_power, cpus: cpus.collect() })
    }

    /// Verifies the recorded governor's decisions if the recorded machine is known. Returns `None`
    /// for a recording that lacks the required events, which is no error of a replay.
    ///
    /// # Errors
    ///
    /// The machine lacks a CPU or a state of the recording.
    fn agreement(
        &self,
        path: &str,
        machine: Option<&Platform>,
        trace: Trace,
        head: Head,
        progress: &dyn Progress,
    ) -> Result<Option<Agreement>, EngineError> {
        let Some(machine) = machine else { return Ok(None) };
        let request = VerifyRequest {
            trace: path.into(),
            platform: machine.clone(),
            governors: Vec::new(),
            counters: None,
            options: VerifyOptions { probes: true, ..VerifyOptions::default() },
        };
        let first_events = (!head.is_all).then_some(head.events.len() as u64);
        let trace = Trace { events: head.events, ..trace };
        // The replay states the delay of exits; the verification need not find it again.
        let exits = EventToExit::default;
        match verify::verify_trace(path, &trace, exits, &request, self.catalog, progress) {
            Ok(Fidelity { decisions, verdict, .. }) => {
                Ok(Some(Agreement { decisions, verdict, first_events }))
            }
            Err(error @ (EngineError::NotThisMachine { .. } | EngineError::NoSuchCpu { .. })) => {
                Err(error)
            }
            Err(_) => Ok(None),
        }
    }

    /// Returns the machine of a recording: the one that the user named, or that it identifies.
    pub(crate) fn recorded_on(&self, path: &str) -> Option<&'a Platform> {
        let options = &self.request.options;
        let machine = options.recorded_on.as_ref().or_else(|| options.identified.get(path));
        machine.and_then(Machine::known)
    }

    /// Calls `prepare` with the recorded machine; without one if that was not named and lacks a CPU
    /// or a state of the recording.
    fn on_recorded(
        &self,
        path: &str,
        prepare: impl Fn(Option<&Platform>) -> Result<Prepared, EngineError>,
    ) -> Result<Prepared, EngineError> {
        match prepare(self.recorded_on(path)) {
            Err(EngineError::NotThisMachine { .. } | EngineError::NoSuchCpu { .. })
                if self.request.options.recorded_on.is_none() =>
            {
                prepare(None)
            }
            prepared => prepared,
        }
    }

    /// Returns the platform's CPU for each CPU of the recording.
    pub(crate) fn places(
        &self,
        path: &str,
        recording: &Recording,
    ) -> Result<BTreeMap<CpuId, CpuId>, EngineError> {
        let Request { platform, options, .. } = self.request;
        let mut places = BTreeMap::new();
        for input in &recording.cpus {
            let place = options.cpu_map.get(&input.cpu).copied().unwrap_or(input.cpu);
            if platform.cluster_of(place).is_none() {
                return Err(EngineError::NoSuchCpu {
                    path: path.to_owned(),
                    cpu: input.cpu,
                    number: input.cpu.0,
                    platform: platform.name.clone(),
                    last: platform.cpu_count().saturating_sub(1),
                });
            }
            places.insert(input.cpu, place);
        }
        Ok(places)
    }

    /// Returns the capacity of the CPU's place, and the highest frequency of the recorded CPU.
    pub(crate) fn scale(
        &self,
        cpu: CpuId,
        places: &BTreeMap<CpuId, CpuId>,
        recorded_on: Option<&Platform>,
    ) -> (u32, Option<u32>) {
        let platform = &self.request.platform;
        let place = places.get(&cpu).and_then(|place| platform.cluster_of(*place));
        let capacity = place.map_or(1024, |cluster| platform.clusters[cluster].capacity);
        let freq_max = recorded_on.and_then(|machine| {
            machine.clusters[machine.cluster_of(cpu)?].opps.last().map(|opp| opp.freq_khz)
        });
        (capacity, freq_max)
    }

    /// Returns the cluster and model of every CPU of the recording.
    pub(crate) fn models(
        &self,
        path: &str,
        recording: &Recording,
    ) -> Result<Vec<(usize, CpuModel)>, EngineError> {
        let Request { platform, options, .. } = self.request;
        let places = self.places(path, recording)?;
        // At another tick rate the ticks come at other times, so any phase will do.
        let hz = self.hz_of(recording);
        let recorded = recording.tick.filter(|t| t.hz == hz);
        let grid = recorded.unwrap_or(TickGrid::new(hz, Duration::ZERO));
        let longest = recording.longest_idle();
        let models = recording
            .cpus
            .iter()
            .map(|input| {
                let place = places[&input.cpu];
                let cluster = platform.cluster_of(place).expect("places are on the platform");
                let is_disabled = |state: usize| {
                    options
                        .disabled_states
                        .iter()
                        .any(|d| d.state == state && d.cpu.is_none_or(|cpu| cpu == place))
                };
                let limit = options.latency_limit.of(place);
                let table = &platform.clusters[cluster];
                let model = CpuModel::new(platform, table, grid, limit, is_disabled);
                (cluster, model.within(table, longest))
            })
            .collect();
        Ok(models)
    }

    /// Returns the result of a recording's runs, with the decisions that were kept.
    ///
    /// # Errors
    /// If a governor costs less than an oracle proved possible.
    pub(crate) fn trace_outcome(
        &self,
        trace: TraceInfo,
        inputs: InputsInfo,
        placed: &[PlacedCpu<'_>],
        deciders: &[Decider],
        recording: &Recording,
        runs: Vec<Result<Run, String>>,
    ) -> Result<TraceOutcome, EngineError> {
        let platform = &self.request.platform;
        let specs = || self.request.governors.iter().zip(deciders);
        let (mut columns, mut counts, mut decisions) = (Vec::new(), Vec::new(), Vec::new());
        for ((spec, decider), run) in specs().zip(runs) {
            let claim = run.as_ref().ok().and_then(|run| claim(decider, run));
            let run = run.map(|run| RunCounts::of_replay(platform, placed, recording, run));
            if let Ok((own, _)) = &run {
                columns.push(Column::new(spec.to_string(), &own.sums(platform), claim));
            }
            let (own, kept) = run.map_or_else(|e| (Err(e), Vec::new()), |(own, d)| (Ok(own), d));
            counts.push(own);
            decisions.push(kept);
        }
        proof::check(&columns, &trace.path, platform.has_power())?;
        let least = proof::least(&columns);
        let power = |energy| power_mw(energy, recording.observed());
        let outcome = least.as_ref().filter(|_| platform.has_power()).map(|least| OracleOutcome {
            proof: least.proof,
            bound_mw: least.bound.map(power),
            found_mw: power(least.found),
            gap_pct: least.gap_pct(),
            found_by: least.found_by.map(str::to_owned),
        });
        let oracle = least.map(|least| least.bound.unwrap_or(least.found));
        let replayed = specs().zip(counts).map(|((spec, decider), counts)| {
            summary::replayed(describe(spec, decider), platform, counts, oracle)
        });
        let runs: Vec<RunOutcome> = replayed.collect();
        Ok(TraceOutcome {
            trace,
            inputs,
            agreement: None,
            comparison: compare_single(metric::of_replay(), &runs),
            runs,
            oracle: outcome,
            strips: Vec::new(),
            causes: None,
            decisions,
        })
    }
}

/// Returns the result of a request, given that of each recording.
pub(crate) fn outcome(
    request: &Request,
    deciders: &[Decider],
    traces: Vec<TraceOutcome>,
) -> Outcome {
    let Request { platform, options, .. } = request;
    Outcome {
        head: record::Head::of("replay"),
        platform: summary::platform_info(platform),
        options: Options {
            hz: traces.first().and_then(|trace| Hz::from_u32(trace.inputs.tick_hz)),
            ..options.clone()
        },
        catalogue: metric::of_replay(),
        notes: [
            summary::notes(platform, options, &traces),
            summary::short_sleeps_note(platform, traces.iter().flat_map(|trace| &trace.runs))
                .into_iter()
                .collect(),
            summary::config_notes(deciders.iter().filter_map(Decider::policy)),
        ]
        .concat(),
        traces,
    }
}

/// Returns what an oracle's run proves.
fn claim(decider: &Decider, run: &Run) -> Option<Claim> {
    let Decider::Oracle(aim) = *decider else { return None };
    Some(Claim { aim, proof: Proof::of(run.is_unproven, run.slack), slack: run.slack })
}

/// Compiles the deciders for a tick rate.
pub(crate) fn deciders(
    request: &Request,
    catalog: &Catalog,
    hz: Hz,
) -> Result<Vec<Decider>, EngineError> {
    let decider = |spec| {
        Ok(match asks_for_oracle(spec)? {
            Some(aim) => Decider::Oracle(aim),
            None => Decider::Governor(catalog.resolve(spec, hz)?),
        })
    };
    request.governors.iter().map(decider).collect()
}

fn describe(spec: &GovernorSpec, decider: &Decider) -> Described {
    match decider {
        Decider::Oracle(_) => Described {
            label: spec.to_string(),
            name: ORACLE.to_owned(),
            kind: "oracle",
            origin: "built in".to_owned(),
            source_sha256: None,
            params: spec.params().iter().cloned().collect(),
            config: BTreeMap::new(),
        },
        Decider::Governor(governor) => describe_governor(spec, governor),
    }
}

/// Describes a governor for the result.
pub fn describe_governor(spec: &GovernorSpec, governor: &Governor) -> Described {
    Described {
        label: spec.to_string(),
        name: governor.name().to_owned(),
        kind: "governor",
        origin: match governor.origin() {
            Origin::Builtin => "built in".to_owned(),
            Origin::File { path } => path.display().to_string(),
            Origin::Tree { tree } => tree.to_string(),
        },
        source_sha256: Some(governor.source_sha256().to_owned()),
        params: governor.param_settings().into_iter().collect(),
        config: governor.config().clone(),
    }
}

/// Returns the oracle's objective if the name is that of an oracle.
pub fn asks_for_oracle(spec: &GovernorSpec) -> Result<Option<Aim>, EngineError> {
    if !matches!(spec.place(), Place::Builtin { name } if name == ORACLE) {
        return Ok(None);
    }
    let aim = Aim::parse(spec.params());
    aim.map(Some).map_err(|reason| EngineError::Oracle { given: spec.to_string(), reason })
}

/// Keeps the part of the recording between `start` and `end`.
fn keep_part(
    options: &Options,
    path: &str,
    trace: &Trace,
    recording: &mut Recording,
) -> Result<(), EngineError> {
    let Some((begin, _)) =
        trace.window.filter(|_| options.start.is_some() || options.end.is_some())
    else {
        return Ok(());
    };
    let (first, last) = recording.window();
    let at = |offset: Duration| Instant(begin.0.saturating_add(offset.0));
    recording.keep_between(options.start.map_or(begin, at), options.end.map_or(Instant::NEVER, at));
    if recording.span_count() > 0 {
        return Ok(());
    }
    let (first, last) = (first.since(begin), last.since(begin));
    Err(EngineError::NothingBetween { path: path.to_owned(), first, last })
}

/// Checks that the CPUs that options name are in the recording.
fn check_named_cpus(
    options: &Options,
    path: &str,
    recording: &Recording,
) -> Result<(), EngineError> {
    let chosen = options.cpus.iter().flatten();
    let mut named = chosen.chain(options.cpu_map.keys());
    let is_shown = |cpu: CpuId| recording.cpus.iter().any(|c| c.cpu == cpu);
    let Some(missing) = named.find(|cpu| !is_shown(**cpu)) else { return Ok(()) };
    let shown: Vec<CpuId> = recording.cpus.iter().map(|c| c.cpu).collect();
    Err(EngineError::NotRecorded {
        cpu: missing.0,
        path: path.to_owned(),
        shown: format!("CPU {}", torpor_machine::toml::format_cpu_list(&shown)),
    })
}

/// Checks that the CPUs with a latency limit of their own exist.
pub fn check_latency_limits(
    platform: &Platform,
    limits: &LatencyLimits,
) -> Result<(), EngineError> {
    limits.beyond(platform.cpu_count()).map_or(Ok(()), |cpu| {
        Err(EngineError::NoSuchLimit {
            cpu: cpu.0,
            platform: platform.name.clone(),
            last: platform.cpu_count().saturating_sub(1),
        })
    })
}

/// Checks that the disabled states exist.
pub fn check_disabled_states(
    platform: &Platform,
    disabled_states: &[DisabledState],
) -> Result<(), EngineError> {
    for disabled in disabled_states {
        if let Some(cpu) = disabled.cpu.filter(|&cpu| platform.cluster_of(cpu).is_none()) {
            return Err(EngineError::NoSuchPlace {
                cpu: cpu.0,
                state: disabled.state,
                platform: platform.name.clone(),
                last: platform.cpu_count().saturating_sub(1),
            });
        }
        let mut clusters = platform
            .clusters
            .iter()
            .filter(|c| disabled.cpu.is_none_or(|cpu| c.cpus.contains(&cpu)));
        if let Some(short) = clusters.find(|c| c.idle_states.len() <= disabled.state) {
            return Err(EngineError::NoSuchState {
                state: disabled.state,
                platform: platform.name.clone(),
                cluster: short.name.clone(),
                last: short.idle_states.len() - 1,
            });
        }
    }
    Ok(())
}
