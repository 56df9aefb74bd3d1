// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A whole request: every column (a governor under a frequency policy with an IO boost) with every
//! seed, on all cores.

use crate::check::check;
use crate::columns::{self, Column, Decider, KernelBoost};
use crate::error::{Halt, SimError};
use crate::machine::hosted::{self, Verdict};
use crate::machine::{Counted, Machine, Plan, Sink, govern};
use crate::options::{Options, Overheads, Request};
use crate::oracle::Idleness;
use crate::outcome::{OptionsInfo, Outcome, WorkloadInfo};
use crate::record::{self, Recorder, Sleeps};
use crate::sched::Topology;
use crate::summary::{self, SeedRun};
use crate::workload::{Device, DeviceRef, Workload};
use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use torpor_engine::decision::Unobserved;
use torpor_engine::input::TickGrid;
use torpor_engine::model::CpuModel;
use torpor_engine::strip::{self, Slept};
use torpor_engine::{EngineError, Progress, Unwatched, state_descs};
use torpor_governor::{
    Catalog, CpuSetup, CpufreqInstance, Governor, GovernorError, Instance, IoBoostInstance,
    IoBoostSetup, NoAnswer, Policy, Pulse, Setup, StateDesc,
};
use torpor_kernel::Kernel;
use torpor_platform::format_cpu_list;
use torpor_result::metric;
use torpor_result::record::{Head, Strip};
use torpor_units::{CpuId, Duration, Hz, Instant};

/// Runs a request. Governors that cannot be had at all are an error; one that fails on the way
/// has its error in its own result.
pub fn run(
    request: &Request,
    catalog: &Catalog,
    progress: &dyn Progress,
) -> Result<Outcome, SimError> {
    let threads = threads(request)?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|e| EngineError::Threads { threads, reason: e.to_string() })?;
    let request = request.resolved()?;
    let session = Session::watched(&request, catalog, progress)?;
    pool.install(|| session.run(progress))
}

/// More than there are runs would only wait; 0 is one a core.
fn threads(request: &Request) -> Result<usize, SimError> {
    check(request)?;
    let Options { threads, seeds, cpufreq, io_boosts, kernels, .. } = &request.options;
    let policies = cpufreq.len().max(1) * io_boosts.len().max(1) * kernels.len().max(1);
    let runs = *seeds as usize * request.governors.len().max(1) * policies;
    Ok(torpor_engine::worker_threads(*threads).min(runs))
}

/// What all runs share.
pub struct Session<'a> {
    pub(crate) request: &'a Request,
    pub(crate) hz: Hz,
    pub(crate) columns: Vec<Column>,
    topology: Topology,
    models: Vec<CpuModel>,
    states: Vec<Vec<StateDesc>>,
    /// With what each CPU has of its own.
    workload: Workload,
    devices: Vec<Device>,
    overheads: Overheads,
}

impl<'a> Session<'a> {
    pub fn new(request: &'a Request, catalog: &Catalog) -> Result<Session<'a>, SimError> {
        Session::watched(request, catalog, &Unwatched)
    }

    /// Tells how far the compiler is, where it has much to do.
    fn watched(
        request: &'a Request,
        catalog: &Catalog,
        progress: &dyn Progress,
    ) -> Result<Session<'a>, SimError> {
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
                let model = CpuModel::new(platform, table, grid, limit, is_disabled);
                let mut model = model.within(table, options.duration);
                // Power that depends on several CPUs is summed up as time goes by, not kept.
                model.watches_deepest = false;
                model
            })
            .collect();
        let topology = Topology::new(platform, options.cpus.as_deref());
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
        let of_machine = workload.on_machine(topology.cpus, options.cpus.as_deref());
        let of_machine = of_machine.map_err(|(task, own)| SimError::Option {
            what: "every task needs a CPU that is online",
            given: format!(
                "task `{task}` of workload `{}` runs on CPU {} alone",
                workload.name,
                format_cpu_list(&own)
            ),
            hint: "name one of them in --cpus, or change `cpus` in the workload".to_owned(),
        })?;
        let device = |device: &DeviceRef| {
            let mut device = device.resolve(platform)?;
            // Its interrupt has moved from a CPU that is offline.
            let online = &topology.online;
            device.irq_cpu = device
                .irq_cpu
                .and_then(|cpu| online.first_common(&[], cpu.index()).map(|cpu| CpuId(cpu as u32)));
            Ok(device)
        };
        let devices: Result<Vec<Device>, SimError> = workload.devices.iter().map(device).collect();
        Ok(Session {
            request,
            hz,
            columns: columns::columns(request, catalog, hz, progress)?,
            topology,
            models,
            states,
            workload: of_machine,
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
            workload: &self.workload,
            devices: &self.devices,
            overheads: self.overheads,
            cpufreq: &self.columns[column].cpufreq,
            seed,
        }
    }

    /// The private image of a governor for one run.
    fn instance(&self, governor: &Governor) -> Result<Instance, String> {
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
        governor.instantiate(&Setup { cpus: &cpus }).map_err(|e| e.to_string())
    }

    /// The machine as a kernel has it.
    fn machine(&self, column: &Column, io_boost: &KernelBoost) -> torpor_kernel::Machine {
        let mut machine = torpor_kernel::Machine::of_platform(&self.request.platform);
        machine.cpufreq = torpor_kernel::Cpufreq {
            hears_iowait: *io_boost != KernelBoost::Off,
            ..column.cpufreq.hosted(machine.clusters.len())
        };
        machine.latency_limit = self.request.options.latency_limit;
        let cpus = self.models.iter().enumerate();
        machine.is_online = cpus.map(|(number, _)| self.topology.online.contains(number)).collect();
        let off = |model: &CpuModel| {
            let states = model.states.iter().enumerate();
            states.filter(|(_, s)| !s.is_enabled).fold(0, |off, (n, _)| off | 1 << n)
        };
        machine.states_off = self.models.iter().map(off).collect();
        machine
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

    /// The private image of a column's frequency policy for one run, if it has one.
    fn cpufreq(&self, column: usize) -> Option<Result<CpufreqInstance, GovernorError>> {
        let Column { cpufreq, frequency, .. } = &self.columns[column];
        let platform = &self.request.platform;
        Some(govern(frequency.as_ref()?, platform, &self.topology, cpufreq.release()))
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
        let plan = self.plan(column, seed);
        let governor = match &self.columns[column].decider {
            Decider::Governor(governor) => governor,
            Decider::Kernel { kernel, io_boost } => {
                let machine = self.machine(&self.columns[column], io_boost);
                let run = self.host(&plan, kernel, machine, sink, goes_on);
                return match run {
                    Err(Halt::Interrupted) => Err(Halt::Interrupted),
                    run => Ok(run.map_err(|halt| halt.to_string())),
                };
            }
        };
        let instance = match self.instance(governor) {
            Ok(instance) => instance,
            Err(error) => return Ok(Err(error)),
        };
        let mut machine = Machine::new(&plan, instance, sink);
        match self.io_boost(column) {
            Some(Ok(boost)) => machine = machine.with_io_boost(boost),
            Some(Err(error)) => return Ok(Err(error.to_string())),
            None => {}
        }
        match self.cpufreq(column) {
            Some(Ok(policy)) => machine = machine.with_cpufreq(policy),
            Some(Err(error)) => return Ok(Err(error.to_string())),
            None => {}
        }
        match machine.run(Instant(0) + self.request.options.duration, goes_on) {
            Ok(()) => Ok(Ok(machine.finish())),
            Err(Halt::Interrupted) => Err(Halt::Interrupted),
            Err(halt) => Ok(Err(halt.to_string())),
        }
    }

    /// One run of a kernel.
    fn host<S: Sink>(
        &self,
        plan: &Plan<'_>,
        kernel: &Kernel,
        mut machine: torpor_kernel::Machine,
        sink: S,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<(Counted, S), Halt> {
        machine.records = S::RECORDS;
        let instance = kernel.boot(&machine).map_err(|error| Halt::Boot(error.to_string()))?;
        let end = Instant(0) + self.request.options.duration;
        hosted::run(plan, instance, machine, sink, end, goes_on)
    }

    /// One run of a kernel's column, with Torpor's own scheduler held against the kernel's
    /// decisions.
    pub fn judge(&self, column: usize, seed: u64) -> Result<Verdict, Halt> {
        let Decider::Kernel { kernel, io_boost } = &self.columns[column].decider else {
            panic!("the column is of a kernel");
        };
        let plan = self.plan(column, seed);
        let machine = self.machine(&self.columns[column], io_boost);
        let instance = kernel.boot(&machine).map_err(|error| Halt::Boot(error.to_string()))?;
        let cpufreq = self.cpufreq(column).transpose().map_err(|e| Halt::Boot(e.to_string()))?;
        hosted::judge(&plan, instance, machine, cpufreq, Instant(0) + self.request.options.duration)
    }

    /// How long a run counts as: one that is held against its oracle, twice.
    fn work(&self) -> Duration {
        let Options { duration, against_oracle, .. } = self.request.options;
        if against_oracle.is_some() { duration + duration } else { duration }
    }

    /// Whether the column's runs have a process of their own.
    pub fn runs_apart(&self, column: usize) -> bool {
        self.columns[column].foreign().any(Policy::runs_apart)
    }

    /// Does `work` here, or in a process of its own if one of the column's policies is to have
    /// one. It tells how far it is, in simulated time, and is answered whether to go on.
    pub fn where_it_runs<T: Serialize + DeserializeOwned>(
        &self,
        column: usize,
        goes_on: &mut dyn FnMut(Instant) -> bool,
        work: impl FnOnce(&mut dyn FnMut(Instant) -> bool) -> Result<Result<T, String>, Halt>,
    ) -> Result<Result<T, String>, Halt> {
        if !self.runs_apart(column) {
            return work(goes_on);
        }
        let labels: Vec<_> =
            self.columns[column].foreign().map(|policy| policy.policy_label()).collect();
        let there = |pulse: &Pulse| {
            let mut told = Instant(0);
            let mut tell = |now: Instant| {
                pulse.add(now.since(told).0.max(0) as u64);
                told = now;
                true
            };
            work(&mut tell).unwrap_or_else(|halt| Err(halt.to_string()))
        };
        let mut now = Instant(0);
        let mut tick = |done: u64| {
            now += Duration(done as i64);
            goes_on(now)
        };
        match torpor_governor::apart(&labels, &mut tick, there) {
            Ok(answer) => Ok(answer),
            Err(NoAnswer::Interrupted) => Err(Halt::Interrupted),
            Err(NoAnswer::Died(error)) => Ok(Err(error.to_string())),
        }
    }

    pub(crate) fn seed_run(
        &self,
        column: usize,
        seed: u64,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<SeedRun, Halt> {
        self.where_it_runs(column, goes_on, |goes_on| self.seed_run_here(column, seed, goes_on))
    }

    /// One column, one seed, against its oracle if that is asked for. The oracle's search goes on
    /// where the simulated time ends.
    fn seed_run_here(
        &self,
        column: usize,
        seed: u64,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<SeedRun, Halt> {
        let Some(aim) = self.request.options.against_oracle else {
            let run = self.simulate(column, seed, Unobserved, goes_on)?;
            return Ok(run.map(|(counted, _)| counted));
        };
        let (counted, idleness) =
            match self.simulate(column, seed, Idleness::new(&self.models), goes_on)? {
                Ok(run) => run,
                Err(error) => return Ok(Err(error)),
            };
        let duration = self.request.options.duration.0;
        let searched = |done: usize, all: usize| {
            Instant(duration + (i128::from(duration) * done as i128 / all as i128) as i64)
        };
        let against = idleness.close(aim, &mut |done, all| goes_on(searched(done, all)));
        let against = against.ok_or(Halt::Interrupted)?;
        Ok(against.map(|against| Counted { against_oracle: Some(against), ..counted }))
    }

    fn run(&self, progress: &dyn Progress) -> Result<Outcome, SimError> {
        let Request { workload, platform, options, .. } = self.request;
        let seeds: Vec<u64> = (0..u64::from(options.seeds)).map(|n| options.seed + n).collect();
        // All columns of a seed before the next seed: what is done when the user stops it can be
        // compared.
        let jobs: Vec<(usize, usize)> = (0..seeds.len())
            .flat_map(|seed| (0..self.columns.len()).map(move |column| (seed, column)))
            .collect();
        let keys = self.keys();
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
                let run = self.kept_run(&keys, column, seeds[seed], &mut goes_on).ok()?;
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
        let held = by_column.iter().flatten().filter_map(|(_, run)| run.as_ref().ok());
        let against = held.filter_map(|counted| counted.against_oracle);
        let crowded =
            torpor_engine::oracle::note(against.map(|against| against.crowded_spans).sum());
        let crowded = crowded.into_iter().collect();
        let kernels = columns::kernels(&self.columns);
        let notes = [summary::notes(self.request, &kernels), crowded, self.config_notes()].concat();
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
                cpufreq_policies: columns::cpufreq_policies(&self.columns),
                io_boosts: columns::io_boosts(&self.columns),
                kernels,
            },
            catalogue: metric::of_simulation(),
            notes,
            interrupted,
            comparison: summary::compare(&runs),
            task_comparisons: summary::compare_tasks(workload, &runs),
            flow_comparisons: summary::compare_flows(workload, &runs),
            runs,
            strips,
        })
    }

    /// The first seed once more in every column, for as long as every column's choices are kept;
    /// how often each CPU decided in `first` says how many.
    fn strips(&self, first: &SeedRun, progress: &dyn Progress) -> Vec<Strip> {
        let Ok(counted) = first else { return Vec::new() };
        let options = &self.request.options;
        let end = Instant(options.duration.0);
        let cpus = counted.cpus.iter().enumerate();
        let lanes = strip::lanes(
            cpus.map(|(cpu, of)| (CpuId(cpu as u32), (Instant(0), end), of.totals.decisions)),
            self.columns.len(),
        );
        let kept: Vec<Option<Vec<Slept>>> = (0..self.columns.len())
            .into_par_iter()
            .map(|column| {
                let most = lanes.iter().map(|lane| lane.most + 1).collect();
                let sink = Sleeps { most, end, kept: Vec::new() };
                let goes_on = &mut |_| !progress.cancelled();
                let run = self.where_it_runs(column, goes_on, |goes_on| {
                    let run = self.simulate(column, options.seed, sink, goes_on)?;
                    Ok(run.map(|(_, sink)| sink.kept))
                });
                run.ok()?.ok()
            })
            .collect();
        let labels = self.columns.iter().map(|column| column.label.clone());
        strip::strips(&lanes, labels.zip(kept))
    }

    fn config_notes(&self) -> Vec<String> {
        let policies = self.columns.iter().flat_map(Column::foreign);
        torpor_engine::summary::config_notes(policies)
    }

    /// The first run once more, with its events; a governor that fails has its error elsewhere.
    fn record(&self, path: &Path, progress: &dyn Progress) -> Result<(), SimError> {
        let options = &self.request.options;
        let goes_on = &mut |_| !progress.cancelled();
        let write = |recorder: Recorder| {
            record::write(&recorder.into_trace(&self.plan(0, options.seed)), path)
        };
        // Where the recorder lies in another process, that process writes.
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
            (Ok(Ok(Some(text))), None) => Err(GovernorError::Told(text).into()),
            (Ok(_), None) => Ok(()),
            (Err(_), _) => Err(EngineError::Interrupted.into()),
        }
    }
}
