// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A whole request: every column (a governor under a frequency policy with an IO boost) with every
//! seed, on all cores.

use crate::catalogue;
use crate::columns::{self, Column};
use crate::cpufreq::Cpufreq;
use crate::error::{Halt, SimError};
use crate::machine::{Counted, Machine, Plan};
use crate::options::{Options, Overheads, Request};
use crate::oracle::Idleness;
use crate::outcome::{OptionsInfo, Outcome, SimulationOutcome, WorkloadInfo};
use crate::record::{self, OneCpu, Recorder, Sink};
use crate::sched::Topology;
use crate::summary::{self, SeedRun};
use crate::workload::Device;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use torpor_engine::decision::{Decision, Unobserved};
use torpor_engine::input::{SleepSource, TickGrid};
use torpor_engine::model::CpuModel;
use torpor_engine::outcome::{DisabledInfo, InputsInfo, Strip, StripRow, TraceInfo, Version};
use torpor_engine::{EngineError, ORACLE, Progress, check_disabled_states, state_descs};
use torpor_governor::{
    Catalog, CpuSetup, GovernorError, Instance, IoBoostInstance, IoBoostSetup, Setup, StateDesc,
};
use torpor_trace::Carries;
use torpor_units::{CpuId, Duration, Hz, Instant};

/// The report's strip holds at most this many sleeps a governor.
const STRIP_SLEEPS: usize = 20_000;

/// Shorter runs hold less than a tick of the slowest kernel.
const DURATION_MIN: Duration = Duration(10_000_000);
/// A month, in which i64 ns and every sum have room.
const DURATION_MAX: Duration = Duration(2_592_000_000_000_000);

/// Runs a request. Governors that cannot be had at all are an error; one that fails on the way
/// has its error in its own result.
pub fn run(
    request: &Request,
    catalog: &Catalog,
    progress: &dyn Progress,
) -> Result<Outcome, SimError> {
    let threads = request.options.threads.unwrap_or(0);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|e| EngineError::Threads { threads, reason: e.to_string() })?;
    let request = without_oracle(request);
    let session = Session::new(&request, catalog)?;
    pool.install(|| session.run(progress))
}

/// The oracle is no governor here: with it, each governor is held against an oracle of its own.
fn without_oracle(request: &Request) -> Request {
    let mut request = request.clone();
    let asked = request.governors.len();
    request.governors.retain(|governor| governor.to_string() != ORACLE);
    request.options.against_oracle |= request.governors.len() < asked;
    request
}

/// What all runs share.
pub struct Session<'a> {
    request: &'a Request,
    hz: Hz,
    columns: Vec<Column>,
    topology: Topology,
    models: Vec<CpuModel>,
    states: Vec<Vec<StateDesc>>,
    devices: Vec<Device>,
    overheads: Overheads,
}

impl<'a> Session<'a> {
    pub fn new(request: &'a Request, catalog: &Catalog) -> Result<Session<'a>, SimError> {
        let Request { workload, platform, options, .. } = request;
        check(request)?;
        let hz = options.hz.unwrap_or(platform.hz);
        let limit = options.latency_limit.unwrap_or(Duration::MAX);
        let grid = TickGrid::new(hz, Duration::ZERO);
        let cpus = (0..platform.cpu_count() as u32).map(CpuId);
        let models: Vec<CpuModel> = cpus
            .map(|cpu| {
                let cluster = platform.cluster_of(cpu).expect("every CPU is in a cluster");
                let is_disabled = |state: usize| {
                    let mut all = options.disabled_states.iter();
                    all.any(|d| d.state == state && d.cpu.is_none_or(|c| c == cpu))
                };
                let table = &platform.clusters[cluster];
                let mut model = CpuModel::new(platform, table, grid, limit, is_disabled);
                // Power that hangs on several CPUs is summed up as time goes by, not kept.
                model.watches_deepest = false;
                model
            })
            .collect();
        let topology = Topology::new(platform);
        let states = models
            .iter()
            .zip(&topology.cluster_of)
            .map(|(model, (cluster, _))| {
                state_descs(&platform.clusters[*cluster].idle_states, model)
            })
            .collect();
        if let Some(last) = workload.last_cpu().filter(|cpu| cpu.index() >= topology.cpus) {
            return Err(SimError::NoSuchCpu {
                workload: workload.name.clone(),
                cpu: last,
                platform: platform.name.clone(),
                last: topology.cpus - 1,
            });
        }
        let devices: Result<Vec<Device>, SimError> =
            workload.devices.iter().map(|device| device.resolve(platform)).collect();
        Ok(Session {
            request,
            hz,
            columns: columns::columns(request, catalog, hz)?,
            topology,
            models,
            states,
            devices: devices?,
            overheads: Overheads::of(platform),
        })
    }

    /// The plan of a column's run with one seed.
    pub fn plan(&self, column: usize, seed: u64) -> Plan<'_> {
        Plan {
            platform: &self.request.platform,
            topology: &self.topology,
            models: &self.models,
            workload: &self.request.workload,
            devices: &self.devices,
            overheads: self.overheads,
            cpufreq: self.columns[column].cpufreq,
            seed,
        }
    }

    /// The private image of a column's governor for one run.
    pub fn instance(&self, column: usize) -> Result<Instance, String> {
        let cpus: Vec<CpuSetup<'_>> = self
            .states
            .iter()
            .zip(&self.models)
            .enumerate()
            .map(|(number, (states, model))| CpuSetup {
                cpu: CpuId(number as u32),
                states,
                capacity: u64::from(model.capacity),
            })
            .collect();
        self.columns[column].governor.instantiate(&Setup { cpus: &cpus }).map_err(|e| e.to_string())
    }

    /// The private image of a column's IO boost for one run, if it has one.
    fn io_boost(&self, column: usize) -> Option<Result<IoBoostInstance, GovernorError>> {
        let boost = self.columns[column].boost.as_ref()?;
        let cpus = self.models.iter().enumerate();
        let cpus: Vec<(CpuId, u64)> =
            cpus.map(|(number, model)| (CpuId(number as u32), model.capacity.into())).collect();
        let tasks = self.request.workload.tasks_max;
        Some(boost.policy.instantiate(&IoBoostSetup { cpus: &cpus, tasks }))
    }

    /// One column, one seed. Columns go through the governors for each IO boost of each frequency
    /// policy.
    pub fn simulate<S: Sink>(
        &self,
        column: usize,
        seed: u64,
        sink: S,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Result<(Counted, S), String>, Halt> {
        let instance = match self.instance(column) {
            Ok(instance) => instance,
            Err(error) => return Ok(Err(error)),
        };
        let plan = self.plan(column, seed);
        let mut machine = Machine::new(&plan, instance, sink);
        match self.io_boost(column) {
            Some(Ok(boost)) => machine = machine.with_io_boost(boost),
            Some(Err(error)) => return Ok(Err(error.to_string())),
            None => {}
        }
        match machine.run(Instant(0) + self.request.options.duration, goes_on) {
            Ok(()) => Ok(Ok(machine.finish())),
            Err(Halt::Interrupted) => Err(Halt::Interrupted),
            Err(halt) => Ok(Err(halt.to_string())),
        }
    }

    /// How long a run counts as: one that is held against its oracle, twice.
    fn work(&self) -> Duration {
        let Options { duration, against_oracle, .. } = self.request.options;
        if against_oracle { duration + duration } else { duration }
    }

    /// One column, one seed, against its oracle if that is asked for. The oracle's search goes on
    /// where the simulated time ends.
    fn seed_run(
        &self,
        column: usize,
        seed: u64,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<SeedRun, Halt> {
        if !self.request.options.against_oracle {
            let run = self.simulate(column, seed, Unobserved, goes_on)?;
            return Ok(run.map(|(counted, _)| counted));
        }
        let (counted, idleness) =
            match self.simulate(column, seed, Idleness::new(&self.models), goes_on)? {
                Ok(run) => run,
                Err(error) => return Ok(Err(error)),
            };
        let duration = self.request.options.duration.0;
        let searched = |done: usize, all: usize| {
            Instant(duration + (i128::from(duration) * done as i128 / all as i128) as i64)
        };
        let against = idleness.close(&mut |done, all| goes_on(searched(done, all)));
        let against_oracle = Some(against.ok_or(Halt::Interrupted)?);
        Ok(Ok(Counted { against_oracle, ..counted }))
    }

    fn run(&self, progress: &dyn Progress) -> Result<Outcome, SimError> {
        let Request { workload, platform, options, .. } = self.request;
        let seeds: Vec<u64> = (0..u64::from(options.seeds)).map(|n| options.seed + n).collect();
        // All columns of a seed before the next seed: what is done when the user stops it can be
        // compared.
        let jobs: Vec<(usize, usize)> = (0..seeds.len())
            .flat_map(|seed| (0..self.columns.len()).map(move |column| (seed, column)))
            .collect();
        let work = self.work();
        let total = jobs.len() as u64 * (work.0 / 1_000_000) as u64;
        let done_ms = AtomicU64::new(0);
        let runs: Vec<Option<SeedRun>> = jobs
            .par_iter()
            .map(|&(seed, column)| {
                let mut told = 0;
                let mut tell = |now_ns: i64| {
                    let now_ms = (now_ns / 1_000_000) as u64;
                    let all = done_ms.fetch_add(now_ms - told, Ordering::Relaxed) + now_ms - told;
                    told = now_ms;
                    progress.advance(&workload.name, all, total);
                };
                let mut goes_on = |now: Instant| {
                    tell(now.0);
                    !progress.cancelled()
                };
                if progress.cancelled() {
                    return None;
                }
                let run = self.seed_run(column, seeds[seed], &mut goes_on).ok()?;
                tell(work.0);
                Some(run)
            })
            .collect();
        // What can be compared: seeds that every column has finished.
        let mut by_column: Vec<Vec<(u64, SeedRun)>> =
            (0..self.columns.len()).map(|_| Vec::new()).collect();
        let mut runs = runs.into_iter();
        for seed in &seeds {
            let of_seed: Vec<Option<SeedRun>> = runs.by_ref().take(by_column.len()).collect();
            let of_seed: Option<Vec<SeedRun>> = of_seed.into_iter().collect();
            for (runs, run) in by_column.iter_mut().zip(of_seed.into_iter().flatten()) {
                runs.push((*seed, run));
            }
        }
        let finished = by_column[0].len();
        let interrupted = finished < seeds.len();
        if finished == 0 {
            return Err(EngineError::Interrupted.into());
        }
        let wants_strip = options.strip && !interrupted;
        let strip = wants_strip.then(|| self.strip(&by_column[0][0].1, progress)).flatten();
        let mut columns: Vec<_> = by_column
            .into_iter()
            .enumerate()
            .map(|(column, runs)| {
                let column = &self.columns[column];
                summary::column(column.describe(), column.policies(), self.request, runs)
            })
            .collect();
        summary::compare(&mut columns);
        if let Some(path) = options.trace.as_ref().filter(|_| !interrupted) {
            self.record(path, progress)?;
        }
        let cpufreq = columns::cpufreq(self.request);
        Ok(Outcome {
            torpor: Version { version: env!("CARGO_PKG_VERSION") },
            platform: torpor_engine::summary::platform_info(platform),
            workload: WorkloadInfo {
                name: workload.name.clone(),
                title: workload.title.clone(),
                sha256: workload.sha256.clone(),
                sources: workload.sources.clone(),
            },
            options: OptionsInfo {
                hz: self.hz.get(),
                cpufreq: cpufreq.iter().map(Cpufreq::to_string).collect(),
                io_boosts: columns::io_boosts(&self.columns),
                latency_limit_ns: options.latency_limit.map(Duration::ns),
                disabled_states: options
                    .disabled_states
                    .iter()
                    .map(|d| DisabledInfo { cpu: d.cpu.map(|c| c.0), state: d.state })
                    .collect(),
                duration_ns: options.duration.0,
                seed: options.seed,
                seeds: finished as u32,
            },
            catalogue: catalogue::metrics(),
            notes: summary::notes(self.request, &cpufreq),
            interrupted,
            traces: vec![SimulationOutcome {
                trace: self.in_place_of_recording(),
                inputs: no_inputs(),
                runs: columns,
                strip,
            }],
        })
    }

    /// The first seed once more in every column: what the CPU did that decided most often in
    /// `first`, for as long as every column's choices are kept.
    fn strip(&self, first: &SeedRun, progress: &dyn Progress) -> Option<Strip> {
        let counted = first.as_ref().ok()?;
        let cpu = (0..counted.cpus.len()).max_by_key(|&cpu| counted.cpus[cpu].totals.decisions)?;
        let options = &self.request.options;
        let kept: Vec<Option<Vec<Decision>>> = (0..self.columns.len())
            .into_par_iter()
            .map(|column| {
                let sink = OneCpu { cpu, most: STRIP_SLEEPS, decisions: Vec::new() };
                let goes_on = &mut |_| !progress.cancelled();
                let run = self.simulate(column, options.seed, sink, goes_on).ok()?;
                run.ok().map(|(_, sink)| sink.decisions)
            })
            .collect();
        let full = kept.iter().flatten().filter(|decisions| decisions.len() == STRIP_SLEEPS);
        let cut = full.filter_map(|decisions| decisions.last()).map(|last| last.resume.0).min();
        let end_ns = cut.unwrap_or(options.duration.0);
        let rows = kept.iter().enumerate().filter_map(|(column, decisions)| {
            let shown = decisions.as_ref()?.iter().filter(|d| d.from.0 < end_ns);
            let segments = shown.map(|d| (d.from.0, d.resume.0, d.state)).collect();
            Some(StripRow { governor: self.columns[column].label.clone(), segments })
        });
        let rows = rows.collect();
        Some(Strip { cpu: cpu as u32, start_ns: 0, end_ns, truncated: cut.is_some(), rows })
    }

    /// The first run once more, with its events; a governor that fails has its error elsewhere.
    fn record(&self, path: &Path, progress: &dyn Progress) -> Result<(), SimError> {
        let Request { workload, options, .. } = self.request;
        let goes_on = &mut |_| !progress.cancelled();
        match self.simulate(0, options.seed, Recorder::default(), goes_on) {
            Ok(Ok((_, recorder))) => {
                record::write(&recorder.into_trace(workload, self.topology.cpus), path)
            }
            Ok(Err(_)) => Ok(()),
            Err(_) => Err(EngineError::Interrupted.into()),
        }
    }

    fn in_place_of_recording(&self) -> TraceInfo {
        let Request { workload, options, .. } = self.request;
        TraceInfo {
            path: workload.name.clone(),
            sha256: workload.sha256.clone(),
            format: "simulation".to_owned(),
            clock: "simulated".to_owned(),
            kernel_release: None,
            machine: None,
            arch: None,
            cpu_count: self.topology.cpus as u32,
            duration_ns: options.duration.0,
            carries: Carries::default(),
            event_counts: BTreeMap::new(),
            losses: Vec::new(),
        }
    }
}

fn no_inputs() -> InputsInfo {
    InputsInfo {
        spans: 0,
        cut_sleeps: 0,
        unclosed_entries: 0,
        merged_ticks: 0,
        merged_poll_timeouts: 0,
        tick_hz_recorded: None,
        sleep_length_sources: SleepSource::ALL.iter().map(|s| (s.key(), 0)).collect(),
        wake_stamp_sources: BTreeMap::new(),
    }
}

fn check(request: &Request) -> Result<(), SimError> {
    let Request { platform, governors, options, .. } = request;
    check_disabled_states(platform, &options.disabled_states)?;
    if options.duration < DURATION_MIN || options.duration > DURATION_MAX {
        return Err(SimError::Option {
            what: "a simulation lasts 10 ms to 30 days",
            given: options.duration.to_string(),
            hint: "--duration 10s".to_owned(),
        });
    }
    if options.seeds == 0 || options.seed.checked_add(u64::from(options.seeds)).is_none() {
        return Err(SimError::Option {
            what: "one seed at least, and none beyond 64 bits",
            given: format!("{} from {}", options.seeds, options.seed),
            hint: "--seeds 10 --seed 1".to_owned(),
        });
    }
    if governors.is_empty() {
        return Err(SimError::Option {
            what: "a simulation needs a governor, whose run the oracle can replay",
            given: if options.against_oracle { ORACLE } else { "none" }.to_owned(),
            hint: "--governor menu".to_owned(),
        });
    }
    once(
        &options.cpufreq,
        "each frequency policy (--cpufreq) is given once",
        "two columns would be the same; leave one out, or change its rate_limit_us",
    )?;
    once(
        &options.io_boosts,
        "each IO boost (--io-boost) is given once",
        "two columns would be the same; leave one out, or change its parameters",
    )
}

/// What columns are called has to tell them apart.
fn once<T: Display>(all: &[T], what: &'static str, hint: &str) -> Result<(), SimError> {
    let texts: Vec<String> = all.iter().map(T::to_string).collect();
    match (1..texts.len()).find(|&number| texts[..number].contains(&texts[number])) {
        None => Ok(()),
        Some(second) => Err(SimError::Option {
            what,
            given: format!("`{}` twice", texts[second]),
            hint: hint.to_owned(),
        }),
    }
}
