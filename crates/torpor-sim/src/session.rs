// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Runs a whole request: every column with every seed, on all cores.

use crate::check::check;
use crate::columns::{self, Column, IoBoost};
use crate::error::{Halt, SimError};
use crate::kernel::Hardware;
use crate::machine::{self, Counted, Plan, Sink, Topology};
use crate::options::{Options, Overheads, Request};
use crate::oracle::Idleness;
use crate::outcome::{OptionsInfo, Outcome, WorkloadInfo};
use crate::record::{self, Recorder, Sleeps};
use crate::summary::{self, SeedRun};
use crate::workload::{Cgroup, Device, DeviceRef, Workload};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use torpor_engine::decision::Unobserved;
use torpor_engine::input::TickGrid;
use torpor_engine::model::CpuModel;
use torpor_engine::strip::{self, Slept};
use torpor_engine::{EngineError, Progress, Unwatched, pool};
use torpor_governor::{Catalog, GovernorError, Isolation, NoAnswer, Pulse};
use torpor_machine::toml::format_cpu_list;
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_result::record::{Head, Strip};
use torpor_result::{Values, metric};

/// Most sleeps that the first runs keep, of 32 bytes each.
const SLEEPS_MAX: usize = 2 << 20;

/// Finished runs that the caller keeps, by column and seed. Called from any thread, once a request
/// is known to be valid.
pub trait Finished: Sync {
    /// Returns a run that is not to be repeated.
    fn get(&self, column: usize, seed: u64) -> Option<Counted>;
    /// Takes a run that has just finished without an error.
    fn put(&self, column: usize, seed: u64, counted: &Counted, metrics: &Values);
}

/// Runs a request. A governor that cannot be loaded is an error; one that fails during a run has
/// the error in its own result.
pub fn run(
    request: &Request,
    catalog: &Catalog,
    progress: &dyn Progress,
) -> Result<Outcome, SimError> {
    run_unfinished(request, catalog, progress, None)
}

/// As [`run`], without the runs that are finished.
pub fn run_unfinished(
    request: &Request,
    catalog: &Catalog,
    progress: &dyn Progress,
    finished: Option<&dyn Finished>,
) -> Result<Outcome, SimError> {
    let threads = threads(request)?;
    let request = request.resolved()?;
    let session = Session { finished, ..Session::watched(&request, catalog, progress)? };
    pool::on_threads(threads, || session.run(progress))?
}

/// Returns the number of worker threads, at most one per run; 0 means one per core.
fn threads(request: &Request) -> Result<usize, SimError> {
    check(request)?;
    let Options { threads, seeds, cpufreq, io_boosts, schedulers, kernels, .. } = &request.options;
    let policies = [cpufreq.len(), io_boosts.len(), schedulers.len(), kernels.len()];
    let policies: usize = policies.iter().map(|count| (*count).max(1)).product();
    let runs = *seeds as usize * request.governors.len().max(1) * policies;
    Ok(torpor_engine::worker_threads(*threads).min(runs))
}

/// State shared by all runs.
pub struct Session<'a> {
    pub(crate) request: &'a Request,
    pub(crate) columns: Vec<Column>,
    topology: Topology,
    models: Vec<CpuModel>,
    isolation: Isolation,
    /// With the tasks and interrupts of each CPU.
    workload: Workload,
    devices: Vec<Device>,
    overheads: Overheads,
    /// Sleeps of the first seed in each column, until the strips are made.
    sleeps: Vec<Mutex<Option<Vec<Slept>>>>,
    finished: Option<&'a dyn Finished>,
}

impl<'a> Session<'a> {
    pub fn new(request: &'a Request, catalog: &Catalog) -> Result<Session<'a>, SimError> {
        Session::watched(request, catalog, &Unwatched)
    }

    /// As [`Session::new`], and reports the progress of compilations.
    fn watched(
        request: &'a Request,
        catalog: &Catalog,
        progress: &dyn Progress,
    ) -> Result<Session<'a>, SimError> {
        let Request { workload, platform, options, .. } = request;
        check(request)?;
        let hz = options.hz.unwrap_or(platform.hz);
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
                let model = CpuModel::new(
                    platform,
                    table,
                    grid,
                    options.latency_limit.of(cpu),
                    is_disabled,
                );
                let mut model = model.within(table, options.warm_up + options.duration);
                // Power that depends on several CPUs is summed up during the run.
                model.watches_deepest = false;
                model
            })
            .collect();
        let topology = Topology::new(platform, options.cpus.as_deref());
        if let Some(last) = workload.last_cpu().filter(|cpu| cpu.index() >= topology.cpus) {
            return Err(SimError::NoSuchCpu {
                workload: workload.name.clone(),
                cpu: last,
                platform: platform.name.clone(),
                last: topology.cpus - 1,
            });
        }
        let of_machine = workload.on_machine(topology.cpus, options.cpus.as_deref());
        let of_machine = of_machine.map_err(|(task, own)| SimError::Option {
            what: "every task needs a CPU that is online",
            given: format!(
                "task `{task}` of workload `{}` runs on CPU {} alone",
                workload.name,
                format_cpu_list(&own)
            ),
            hint: "name one of them in option `cpus`, or change `cpus` in the workload".to_owned(),
        })?;
        let device = |device: &DeviceRef| {
            let mut device = device.resolve(platform)?;
            // Interrupts of offline CPUs go to the next online one.
            let online = &topology.online;
            device.irq_cpu = device
                .irq_cpu
                .and_then(|cpu| online.first_from(cpu.index()).map(|cpu| CpuId(cpu as u32)));
            Ok(device)
        };
        let devices: Result<Vec<Device>, SimError> = workload.devices.iter().map(device).collect();
        let devices = devices?;
        let workload = of_machine.with_kthreads(&devices, &topology);
        let columns = columns::columns(request, catalog, hz, progress)?;
        Ok(Session {
            request,
            sleeps: columns.iter().map(|_| Mutex::default()).collect(),
            columns,
            topology,
            models,
            isolation: catalog.options().isolation,
            workload,
            devices,
            overheads: Overheads::of(platform),
            finished: None,
        })
    }

    pub fn plan(&self, seed: u64) -> Plan<'_> {
        Plan {
            platform: &self.request.platform,
            topology: &self.topology,
            models: &self.models,
            workload: &self.workload,
            devices: &self.devices,
            overheads: self.overheads,
            seed,
        }
    }

    fn hardware(&self, column: &Column) -> Hardware {
        let mut hardware = Hardware::of_platform(&self.request.platform);
        hardware.cpufreq = crate::kernel::Cpufreq {
            hears_iowait: column.io_boost != IoBoost::Off,
            ..column.cpufreq.settings(hardware.clusters.len())
        };
        hardware.arguments = self.request.options.kernel_args.clone().unwrap_or_default();
        let Options { latency_limit, writes, .. } = &self.request.options;
        hardware.latency_limit = latency_limit.all;
        let limits = latency_limit.of_cpus.iter().map(|(cpu, limit)| (*cpu, *limit));
        hardware.cpu_latency_limits = limits.collect();
        hardware.writes = self.workload.cgroups.iter().flat_map(Cgroup::writes).collect();
        hardware.writes.extend_from_slice(writes);
        hardware.has_later_writes = !self.workload.changes.is_empty();
        if self.request.options.is_kernel_free {
            (hardware.overheads.step_ps, hardware.overheads.remote_step_ps) = (0, 0);
        }
        let cpus = self.models.iter().enumerate();
        hardware.is_online =
            cpus.map(|(number, _)| self.topology.online.contains(number)).collect();
        let off = |model: &CpuModel| {
            let states = model.states.iter().enumerate();
            states.filter(|(_, s)| !s.is_enabled).fold(0, |off, (n, _)| off | 1 << n)
        };
        hardware.states_off = self.models.iter().map(off).collect();
        hardware.cgroups = self.workload.cgroups.iter().map(|group| group.path.clone()).collect();
        hardware
    }

    /// Runs one column with one seed. Columns go through the governors for each IO boost of each
    /// cpufreq governor.
    pub fn simulate<S: Sink>(
        &self,
        column: usize,
        seed: u64,
        sink: S,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Result<(Counted, S), String>, Halt> {
        let mut hardware = self.hardware(&self.columns[column]);
        hardware.records = S::RECORDS;
        hardware.seed = seed;
        let instance = match self.columns[column].kernel.boot(&hardware) {
            Ok(instance) => instance,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let times = self.request.options.times();
        match machine::run(&self.plan(seed), instance, hardware, sink, times, goes_on) {
            Err(Halt::Interrupted) => Err(Halt::Interrupted),
            run => Ok(run.map_err(|halt| self.columns[column].explains(&halt))),
        }
    }

    /// Returns the weight of a run for the progress: double with a comparison with the oracle.
    fn work(&self) -> Duration {
        let Options { duration, warm_up, against_oracle, .. } = self.request.options;
        let run = warm_up + duration;
        if against_oracle.is_some() { run + run } else { run }
    }

    /// Whether the column's runs have a separate process.
    pub fn runs_apart(&self, column: usize) -> bool {
        match self.isolation {
            Isolation::Foreign => !self.columns[column].foreign.is_empty(),
            Isolation::All => true,
            Isolation::None => false,
        }
    }

    /// Does `work` here, or in a separate process if one of the column's policies needs one. `work`
    /// reports its progress in simulated time.
    pub fn where_it_runs<T: Serialize + DeserializeOwned>(
        &self,
        column: usize,
        goes_on: &mut dyn FnMut(Instant) -> bool,
        work: impl FnOnce(&mut dyn FnMut(Instant) -> bool) -> Result<Result<T, String>, Halt>,
    ) -> Result<Result<T, String>, Halt> {
        if !self.runs_apart(column) {
            return work(goes_on);
        }
        let Column { spec, foreign, .. } = &self.columns[column];
        // The kernel calls all of them, so it is unknown which one ended the process.
        let policies = if foreign.is_empty() { vec![spec.label()] } else { foreign.clone() };
        let there = |pulse: &Pulse| {
            let mut last = Instant(0);
            let mut report = |now: Instant| {
                pulse.add(now.since(last).0.max(0) as u64);
                last = now;
                true
            };
            work(&mut report).unwrap_or_else(|halt| Err(halt.to_string()))
        };
        let mut now = Instant(0);
        let mut tick = |done: u64| {
            now += Duration(done as i64);
            goes_on(now)
        };
        match torpor_governor::apart(&policies, &mut tick, there) {
            Ok(answer) => Ok(answer),
            Err(NoAnswer::Interrupted) => Err(Halt::Interrupted),
            Err(NoAnswer::Died(error)) => Ok(Err(error.to_string())),
        }
    }

    /// Returns a run that was finished before, or runs it.
    fn seed_run(
        &self,
        column: usize,
        seed: u64,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<SeedRun, Halt> {
        if let Some(counted) = self.finished.and_then(|finished| finished.get(column, seed)) {
            return Ok(Ok(counted));
        }
        let here =
            |goes_on: &mut dyn FnMut(Instant) -> bool| self.seed_run_here(column, seed, goes_on);
        let run = self.where_it_runs(column, goes_on, here)?;
        if let (Some(finished), Ok(counted)) = (self.finished, &run) {
            finished.put(column, seed, counted, &summary::of_one(self.request, counted));
        }
        Ok(run)
    }

    /// Runs one column with one seed, and compares it with the oracle if requested. The progress of
    /// the oracle's search continues that of the simulated time.
    fn seed_run_here(
        &self,
        column: usize,
        seed: u64,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<SeedRun, Halt> {
        let Some(aim) = self.request.options.against_oracle else {
            if !self.keeps_sleeps(column, seed) {
                let run = self.simulate(column, seed, Unobserved, goes_on)?;
                return Ok(run.map(|(counted, _)| counted));
            }
            let most = vec![strip::most(self.columns.len()) + 1; self.models.len()];
            let (_, end) = self.request.options.times();
            let run =
                self.simulate(column, seed, Sleeps { most, end, kept: Vec::new() }, goes_on)?;
            return Ok(run.map(|(counted, sleeps)| {
                *self.sleeps_of(column) = Some(sleeps.kept);
                counted
            }));
        };
        let (counted, idleness) =
            match self.simulate(column, seed, Idleness::new(&self.models), goes_on)? {
                Ok(run) => run,
                Err(error) => return Ok(Err(error)),
            };
        let (_, Instant(duration)) = self.request.options.times();
        let searched = |done: usize, all: usize| {
            Instant(duration + (i128::from(duration) * done as i128 / all as i128) as i64)
        };
        let against = idleness.close(aim, &mut |done, all| goes_on(searched(done, all)));
        let against = against.ok_or(Halt::Interrupted)?;
        Ok(against.map(|against| Counted { against_oracle: Some(against), ..counted }))
    }

    /// Whether a run keeps its sleeps for the strips, which saves a second run. It does with the
    /// first seed, in this process, while the sleeps of all columns fit.
    fn keeps_sleeps(&self, column: usize, seed: u64) -> bool {
        let columns = self.columns.len();
        let all = (strip::most(columns) + 1) * self.models.len() * columns;
        let Options { strip, seed: first, .. } = self.request.options;
        strip && seed == first && all <= SLEEPS_MAX && !self.runs_apart(column)
    }

    fn sleeps_of(&self, column: usize) -> MutexGuard<'_, Option<Vec<Slept>>> {
        self.sleeps[column].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs every column with every seed, in this order; an interrupted run is none.
    fn run_jobs(&self, seeds: &[u64], progress: &dyn Progress) -> Vec<Option<SeedRun>> {
        // All columns of a seed come before the next seed, so that the runs that are finished when
        // the user interrupts can be compared.
        let jobs: Vec<(usize, usize)> = (0..seeds.len())
            .flat_map(|seed| (0..self.columns.len()).map(move |column| (seed, column)))
            .collect();
        let work = self.work();
        let total = jobs.len() as u64 * (work.0 / 1_000_000) as u64;
        let done_ms = AtomicU64::new(0);
        pool::map(jobs, |(seed, column)| {
            let mut reported_ms = 0;
            let mut report = |now_ns: i64| {
                // The last event of a run may be past its end, which is reported after it.
                let now_ms = ((now_ns / 1_000_000) as u64).max(reported_ms);
                let more_ms = now_ms - reported_ms;
                let all = done_ms.fetch_add(more_ms, Ordering::Relaxed) + more_ms;
                reported_ms = now_ms;
                progress.advance(&self.request.workload.name, all, total);
            };
            let mut goes_on = |now: Instant| {
                report(now.0);
                !progress.cancelled()
            };
            if progress.cancelled() {
                return None;
            }
            let run = self.seed_run(column, seeds[seed], &mut goes_on).ok()?;
            report(work.0);
            Some(run)
        })
    }

    /// Returns the runs of each column with the seeds that every column has finished.
    fn finished_runs(&self, seeds: &[u64], progress: &dyn Progress) -> Vec<Vec<(u64, SeedRun)>> {
        let mut by_column: Vec<Vec<(u64, SeedRun)>> =
            (0..self.columns.len()).map(|_| Vec::new()).collect();
        let mut runs = self.run_jobs(seeds, progress).into_iter();
        for seed in seeds {
            let of_seed: Vec<Option<SeedRun>> = runs.by_ref().take(by_column.len()).collect();
            let of_seed: Option<Vec<SeedRun>> = of_seed.into_iter().collect();
            for (runs, run) in by_column.iter_mut().zip(of_seed.into_iter().flatten()) {
                runs.push((*seed, run));
            }
        }
        by_column
    }

    fn run(&self, progress: &dyn Progress) -> Result<Outcome, SimError> {
        let Request { workload, platform, options, .. } = self.request;
        let seeds: Vec<u64> = (0..u64::from(options.seeds)).map(|n| options.seed + n).collect();
        let by_column = self.finished_runs(&seeds, progress);
        let finished = by_column[0].len();
        let interrupted = finished < seeds.len();
        if finished == 0 {
            return Err(EngineError::Interrupted.into());
        }
        let succeeded = by_column.iter().flatten().filter_map(|(_, run)| run.as_ref().ok());
        let against = succeeded.filter_map(|counted| counted.against_oracle);
        let crowded_spans = against.map(|against| against.crowded_spans).sum();
        let kernels = columns::kernels(&self.columns);
        let mut notes = summary::notes(self.request, &kernels);
        notes.extend(torpor_engine::oracle::note(crowded_spans));
        let labelled = self.columns.iter().map(|column| &column.label[..]).zip(&by_column);
        notes.extend(labelled.filter_map(|(label, runs)| summary::ejection_note(label, runs)));
        let wants_strip = options.strip && !interrupted;
        let strips = match &by_column[0][0].1 {
            first if wants_strip => self.strips(first, progress),
            _ => Vec::new(),
        };
        let runs: Vec<_> = by_column
            .into_iter()
            .enumerate()
            .map(|(column, runs)| {
                let column = &self.columns[column];
                summary::column(column.describe(), column.policies(), self.request, runs)
            })
            .collect();
        let shown = runs.iter().map(|column| &column.run);
        notes.extend(torpor_engine::summary::short_sleeps_note(platform, shown));
        notes.extend(summary::seed_notes(&runs));
        if let Some(path) = options.trace.as_ref().filter(|_| !interrupted) {
            self.record(path, progress)?;
        }
        Ok(Outcome {
            head: Head::of("simulation"),
            platform: torpor_engine::summary::platform_info(platform),
            workload: WorkloadInfo {
                name: workload.name.clone(),
                title: workload.title.clone(),
                sha256: workload.sha256.clone(),
                sources: workload.sources.clone(),
            },
            options: OptionsInfo {
                asked: Options { seeds: finished as u32, ..options.clone() },
                kernels,
            },
            catalogue: metric::of_simulation(),
            notes,
            interrupted,
            comparison: summary::compare(&runs),
            task_comparisons: summary::compare_tasks(workload, &runs),
            flow_comparisons: summary::compare_flows(workload, &runs),
            cgroup_comparisons: summary::compare_cgroups(workload, &runs),
            runs,
            strips,
        })
    }

    /// Returns the first sleeps of the first seed in every column, which runs again if they were
    /// not kept. The decisions of each CPU in `first` determine their number.
    fn strips(&self, first: &SeedRun, progress: &dyn Progress) -> Vec<Strip> {
        let Ok(counted) = first else { return Vec::new() };
        let options = &self.request.options;
        let (start, end) = options.times();
        let cpus = counted.cpus.iter().enumerate();
        let lanes = strip::lanes(
            cpus.map(|(cpu, of)| (CpuId(cpu as u32), (start, end), of.totals.decisions)),
            self.columns.len(),
        );
        let kept = pool::map(0..self.columns.len(), |column| {
            if let Some(kept) = self.sleeps_of(column).take() {
                return Some(kept);
            }
            let most = lanes.iter().map(|lane| lane.most + 1).collect();
            let sink = Sleeps { most, end, kept: Vec::new() };
            let goes_on = &mut |_| !progress.cancelled();
            let run = self.where_it_runs(column, goes_on, |goes_on| {
                let run = self.simulate(column, options.seed, sink, goes_on)?;
                Ok(run.map(|(_, sink)| sink.kept))
            });
            run.ok()?.ok()
        });
        let labels = self.columns.iter().map(|column| column.label.clone());
        strip::strips(&lanes, labels.zip(kept))
    }

    /// Repeats the first run and records its events. The error of a governor that fails is in its
    /// result.
    fn record(&self, path: &Path, progress: &dyn Progress) -> Result<(), SimError> {
        let options = &self.request.options;
        let goes_on = &mut |_| !progress.cancelled();
        let write = |recorder: Recorder| {
            record::write(&recorder.into_trace(&self.plan(options.seed)), path)
        };
        // In a separate process, that process writes the recording.
        let mut failed = None;
        let run = self.where_it_runs(0, goes_on, |goes_on| {
            let run = self.simulate(0, options.seed, Recorder::default(), goes_on)?;
            Ok(run.map(|(_, recorder)| match write(recorder) {
                Ok(()) => None,
                Err(error) => {
                    let text = error.to_string();
                    failed = Some(error);
                    Some(text)
                }
            }))
        });
        match (run, failed) {
            (Ok(_), Some(error)) => Err(error),
            (Ok(Ok(Some(text))), None) => Err(GovernorError::Other(text).into()),
            (Ok(_), None) => Ok(()),
            (Err(_), _) => Err(EngineError::Interrupted.into()),
        }
    }
}
