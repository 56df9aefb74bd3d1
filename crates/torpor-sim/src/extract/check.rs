// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compares an extracted workload with its recording: simulates it, and analyzes the simulation's
//! recording like the original one.

use super::{Autocorrelation, Story, document, folded, follow, workload};
use crate::cpufreq::Cpufreq;
use crate::error::{Halt, SimError};
use crate::machine::Counted;
use crate::options::{Options, Request};
use crate::record::Recorder;
use crate::session::Session;
use crate::workload::from_document;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use torpor_engine::input::{Draft, Recording};
use torpor_engine::{EngineError, Progress, Unwatched};
use torpor_governor::{Catalog, GovernorSpec};
use torpor_machine::platform::{CpufreqGovernor, Overheads, Platform};
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_trace::Trace;

/// Comparison of a recording with its simulation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Check {
    pub governor: String,
    pub duration_ns: i64,
    pub tasks: Vec<TaskCheck>,
    pub idle: IdleDistance,
    pub recorded_autocorrelation: Autocorrelation,
    pub simulated_autocorrelation: Autocorrelation,
}

/// CPU times are at full capacity: ns of the biggest CPU at its highest frequency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskCheck {
    pub name: String,
    pub recorded_cpu_ns: f64,
    pub simulated_cpu_ns: f64,
    pub recorded_wakeups: u64,
    pub simulated_wakeups: u64,
}

impl TaskCheck {
    /// Whether the CPU times differ by at most this share.
    pub fn cpu_is_within(&self, share: f64) -> bool {
        let (recorded, simulated) = (self.recorded_cpu_ns, self.simulated_cpu_ns);
        (simulated - recorded).abs() <= share * recorded
    }

    /// Whether the wake-ups differ by at most this share.
    pub fn wakeups_are_within(&self, share: f64) -> bool {
        let (recorded, simulated) = (self.recorded_wakeups as f64, self.simulated_wakeups as f64);
        (simulated - recorded).abs() <= share * recorded
    }
}

/// Distance between the distributions of idle lengths, over all recorded CPUs. A length is the time
/// from the last task or interrupt to the next event, other than a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleDistance {
    pub recorded: usize,
    pub simulated: usize,
    pub recorded_idle_ns: i64,
    pub simulated_idle_ns: i64,
    /// Kolmogorov-Smirnov distance: the largest difference between the two distribution functions.
    pub ks: f64,
    /// Wasserstein distance of the decimal logarithms: the mean error of a length in decades.
    pub decades: f64,
}

/// Simulates the recording on `platform`, the machine it came from, for as long as it lasts.
pub fn check(
    trace: &Trace,
    platform: &Platform,
    governor: &str,
    progress: &dyn Progress,
) -> Result<Check, SimError> {
    let story = Story::of(trace, Some(platform), progress)?;
    let content = workload::write(&story, trace, Some(platform), "recording", progress)?;
    let (start, end) = story.followed.window;
    let duration = end.since(start);
    // The work of tasks includes the time of interrupts and IPIs.
    let without_overheads = Platform {
        overheads: Overheads::default(),
        tick_handling: Duration::ZERO,
        timer_start: Duration::ZERO,
        ..platform.clone()
    };
    let request = Request {
        workload: from_document(&document(content))?,
        platform: without_overheads,
        governors: vec![governor.parse::<GovernorSpec>()?],
        options: Options {
            duration,
            seed: 1,
            seeds: 1,
            threads: Some(1),
            // Work is in units of the highest frequency, so the run is fixed at it.
            is_kernel_free: true,
            cpufreq: vec![Cpufreq::from(CpufreqGovernor::Performance)],
            ..Options::default()
        },
    };
    let session = Session::new(&request, &Catalog::new(Default::default()))?;
    let goes_on = &mut |_| !progress.cancelled();
    // The lock of the progress report is not shared between processes.
    let is_apart = session.runs_apart(0);
    let progress: &dyn Progress = if is_apart { &Unwatched } else { progress };
    let run = session.where_it_runs(0, goes_on, |goes_on| {
        let run = session.simulate(0, 1, Recorder::default(), goes_on)?;
        Ok(run.and_then(|(counted, recorder)| {
            let simulated = recorder.into_trace(&session.plan(1));
            compare(&story, trace, &request, &counted, simulated, progress)
                .map_err(|error| error.to_string())
        }))
    });
    match run {
        Ok(Ok(check)) => Ok(check),
        Ok(Err(reason)) => Err(failed(governor, reason)),
        Err(Halt::Interrupted) => Err(EngineError::Interrupted.into()),
        Err(halt) => Err(failed(governor, halt.to_string())),
    }
}

fn compare(
    story: &Story,
    trace: &Trace,
    request: &Request,
    counted: &Counted,
    mut simulated: Trace,
    progress: &dyn Progress,
) -> Result<Check, SimError> {
    let Request { platform, options, governors, .. } = request;
    let duration = options.duration;
    simulated.window = Some((Instant(0), Instant(0) + duration));
    let recording = folded(&simulated, Draft::new(Some(platform)), progress)?.finish();
    let again = follow::follow(&simulated, Some(platform), &recording, progress)?;
    let mut worked: HashMap<&str, f64> = HashMap::new();
    for thread in &again.threads {
        if let Some(comm) = thread.comm {
            *worked.entry(simulated.names.text(comm)).or_default() += thread.work_ns();
        }
    }
    let wakeups: HashMap<&str, u64> = request
        .workload
        .tasks
        .iter()
        .zip(&counted.kinds)
        .map(|(task, totals)| (task.name.as_str(), totals.wakeups))
        .collect();
    let tasks = story.followed.threads.iter().zip(&story.names);
    let tasks = tasks.filter(|(thread, _)| !thread.acts.is_empty()).map(|(thread, name)| {
        let name = name.as_str();
        TaskCheck {
            name: name.to_owned(),
            recorded_cpu_ns: thread.work_ns(),
            simulated_cpu_ns: worked.get(name).copied().unwrap_or(0.0),
            recorded_wakeups: thread.wakeups,
            simulated_wakeups: wakeups.get(name).copied().unwrap_or(0),
        }
    });
    let recorded = folded(trace, Draft::new(Some(platform)), progress)?.finish();
    let was_recorded = |cpu: CpuId| recorded.cpus.iter().any(|input| input.cpu == cpu);
    let idle = IdleDistance::between(
        idle_lengths(&recorded, was_recorded),
        idle_lengths(&recording, was_recorded),
    );
    Ok(Check {
        governor: governors[0].to_string(),
        duration_ns: duration.0,
        tasks: tasks.collect(),
        idle,
        recorded_autocorrelation: story.autocorrelation.clone(),
        simulated_autocorrelation: Autocorrelation::of(
            &recording,
            |input| was_recorded(input.cpu),
            progress,
        )?,
    })
}

fn failed(governor: &str, reason: String) -> SimError {
    SimError::Option {
        what: "the extracted workload could not be simulated to its end",
        given: format!("{governor}: {reason}"),
        hint: "try another governor".to_owned(),
    }
}

fn idle_lengths(recording: &Recording, counts: impl Fn(CpuId) -> bool) -> Vec<Duration> {
    let cpus = recording.cpus.iter().filter(|input| counts(input.cpu));
    let spans = cpus.flat_map(|input| &input.spans);
    spans.map(|span| span.wake.since(span.start)).collect()
}

impl IdleDistance {
    fn between(mut recorded: Vec<Duration>, mut simulated: Vec<Duration>) -> IdleDistance {
        recorded.sort_unstable();
        simulated.sort_unstable();
        let sum = |lengths: &[Duration]| lengths.iter().map(|l| l.0).sum();
        let mut distance = IdleDistance {
            recorded: recorded.len(),
            simulated: simulated.len(),
            recorded_idle_ns: sum(&recorded),
            simulated_idle_ns: sum(&simulated),
            ..IdleDistance::default()
        };
        // Both distributions are constant between neighboring lengths, so the sums are exact.
        let log = |length: Duration| (length.0.max(1) as f64).log10();
        let mut all: Vec<Duration> = recorded.iter().chain(&simulated).copied().collect();
        all.sort_unstable();
        all.dedup();
        let share = |lengths: &[Duration], at: Duration| {
            lengths.partition_point(|l| *l <= at) as f64 / lengths.len().max(1) as f64
        };
        for (index, &at) in all.iter().enumerate() {
            let gap = (share(&recorded, at) - share(&simulated, at)).abs();
            distance.ks = distance.ks.max(gap);
            if let Some(&next) = all.get(index + 1) {
                distance.decades += gap * (log(next) - log(at));
            }
        }
        distance
    }
}
