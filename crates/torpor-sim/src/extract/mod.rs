// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Makes a workload from a recording: the work and sleeps of each task, its wakers, and events from
//! outside.
//!
//! A task's recorded actions become a list of phases with one pass. Wake-ups by tasks stay
//! closed-loop: a wait ends when the waker reaches the same point of its own list, so a late waker
//! delays the task. Events from outside, including timers, keep their recorded times. Every wake-up
//! that ended a wait goes into the channel of the waiting task. In the recorded order each wait
//! comes after its wake-up, so the lists cannot deadlock on any machine.
//!
//! FIDELITY(extracted): a request to a task that was awake left no event, so in a simulation the
//! answer can come first. The task then takes it at the recorded time. A task repeats its recorded
//! actions, however late it is. Every task is SCHED_NORMAL and may run on every CPU.

mod background;
mod check;
mod context;
mod follow;
mod runs;
mod sections;
mod speed;
mod workload;

pub use check::{Check, IdleDistance, TaskCheck, check};
pub use runs::{Autocorrelation, Lag, Measured};
pub use sections::Section;

use crate::error::SimError;
use follow::{Act, Cause, Followed, Thread};
use serde::Serialize;
use std::collections::BTreeSet;
use torpor_engine::input::{Draft, Recording};
use torpor_engine::timeline::{Fold, Folding};
use torpor_engine::{EngineError, Progress};
use torpor_machine::platform::Platform;
use torpor_machine::toml::{Content, Document};
use torpor_machine::units::{CpuId, Instant};
use torpor_trace::{SoFar, Trace};

/// A workload made from a recording.
pub struct Extracted {
    pub document: Document,
    pub summary: Summary,
}

/// Contents of an extracted workload, and what is inferred in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub duration_ns: i64,
    pub tasks: usize,
    /// Waits that another task ended.
    pub woken_by_tasks: u64,
    /// Sleeps that a timer ended, and the number of those whose timer no event shows.
    pub woken_by_timers: u64,
    pub timers_guessed: u64,
    /// Waits that an interrupt ended, and interrupts that woke no task.
    pub woken_by_interrupts: u64,
    pub idle_interrupts: u64,
    /// Waits that ended without a recorded waking, from CPUs that were not recorded.
    pub wakings_unseen: u64,
    /// Activity that nearby sleeps share, if any.
    pub activity: Option<Measured>,
    /// Parts of the recording with a load of their own; at least one.
    pub sections: Vec<Section>,
}

/// Extracts a workload called `name`. `recorded_on` is the machine of the recording; without it all
/// CPUs are assumed to be equal.
///
/// # Errors
/// If the recording holds no task switches, or more CPUs than the machine; or if `progress` is
/// cancelled.
pub fn extract(
    trace: &Trace,
    recorded_on: Option<&Platform>,
    name: &str,
    progress: &dyn Progress,
) -> Result<Extracted, SimError> {
    let story = Story::of(trace, recorded_on, progress)?;
    let content = workload::write(&story, trace, recorded_on, &fit_name(name), progress)?;
    Ok(Extracted { document: document(content), summary: story.summary() })
}

/// As [`extract`], of the tasks whose names match `patterns`, as a background.
///
/// # Errors
/// As [`extract`]; or if no task's name matches.
pub fn extract_background(
    trace: &Trace,
    recorded_on: Option<&Platform>,
    name: &str,
    patterns: &[String],
    progress: &dyn Progress,
) -> Result<Extracted, SimError> {
    let story = Story::of(trace, recorded_on, progress)?;
    let content = background::write(&story, trace, &fit_name(name), patterns, progress)?;
    Ok(Extracted { document: document(content), summary: story.summary() })
}

fn document(content: Content) -> Document {
    Document::of("the extracted workload", "", content)
}

/// Events between two checks of `progress`. The first chunk also shows the constants of a
/// recording, as when one is streamed.
const EVENTS_A_LOOK: usize = 1 << 20;

fn go_on(progress: &dyn Progress) -> Result<(), SimError> {
    if progress.cancelled() { Err(EngineError::Interrupted.into()) } else { Ok(()) }
}

/// Folds the recording's timeline.
fn folded<F: Fold>(trace: &Trace, fold: F, progress: &dyn Progress) -> Result<F, SimError> {
    let mut folding = Folding::new(fold);
    for events in trace.events.chunks(EVENTS_A_LOOK) {
        go_on(progress)?;
        folding.observe(events, &SoFar::whole(trace));
    }
    go_on(progress)?;
    Ok(folding.finish())
}

/// Contents of a workload.
struct Story {
    followed: Followed,
    /// By task; distinguished by the process number.
    names: Vec<String>,
    /// Interrupts that woke no task.
    idle_interrupts: Vec<(CpuId, Instant)>,
    autocorrelation: Autocorrelation,
    sections: Vec<Section>,
}

impl Story {
    fn of(
        trace: &Trace,
        recorded_on: Option<&Platform>,
        progress: &dyn Progress,
    ) -> Result<Story, SimError> {
        let refuse = |what: &'static str, given: String, hint: &str| {
            Err(SimError::Option { what, given, hint: hint.to_owned() })
        };
        if !trace.carries.switches {
            return refuse(
                "extracting a workload requires sched_switch, which this recording lacks",
                format!("a {} recording", trace.meta.format),
                "record with `torpor record`, or with the sched events on",
            );
        }
        if let Some(platform) = recorded_on {
            if trace.meta.cpu_count as usize > platform.cpu_count() {
                return refuse(
                    "the recording has more CPUs than the machine it is said to come from",
                    format!("{} on `{}`", trace.meta.cpu_count, platform.name),
                    "choose the machine with option `platform`, or leave it out",
                );
            }
        }
        let recording = folded(trace, Draft::new(recorded_on), progress)?.finish();
        let followed = follow::follow(trace, recorded_on, &recording, progress)?;
        let idle_interrupts = idle_interrupts(&recording, &followed);
        go_on(progress)?;
        let names = followed.threads.iter().map(|thread| unique_name(thread, trace)).collect();
        let autocorrelation = Autocorrelation::of(&recording, |_| true, progress)?;
        let sections = sections::find(trace, progress)?;
        Ok(Story { followed, names, idle_interrupts, autocorrelation, sections })
    }

    fn summary(&self) -> Summary {
        let (start, end) = self.followed.window;
        let threads = self.followed.threads.iter();
        let mut summary = Summary {
            duration_ns: end.since(start).0,
            tasks: threads.filter(|t| !t.acts.is_empty()).count(),
            idle_interrupts: self.idle_interrupts.len() as u64,
            activity: self.autocorrelation.activity(),
            sections: self.sections.clone(),
            ..Summary::default()
        };
        for wake_up in self.followed.wake_ups.iter().filter(|w| w.is_used) {
            match wake_up.cause {
                Cause::Task(_) => summary.woken_by_tasks += 1,
                Cause::Timer { is_guess } => {
                    summary.woken_by_timers += 1;
                    summary.timers_guessed += u64::from(is_guess);
                }
                Cause::Interrupt => summary.woken_by_interrupts += 1,
                Cause::Unseen => summary.wakings_unseen += 1,
            }
        }
        summary
    }
}

/// Returns interrupts of idle CPUs that woke no task.
///
/// FIDELITY(extracted): the kernel's own timers among them come unannounced.
fn idle_interrupts(recording: &Recording, followed: &Followed) -> Vec<(CpuId, Instant)> {
    let known: BTreeSet<(CpuId, Instant)> =
        followed.wake_ups.iter().filter(|w| w.is_used).map(|w| (w.cpu, w.at)).collect();
    let spans = recording.cpus.iter().flat_map(|input| {
        input.spans.iter().filter(|s| !s.ends_visit && !s.is_resched).map(|s| (input.cpu, s.wake))
    });
    spans.filter(|interrupt| !known.contains(interrupt)).collect()
}

/// Returns a valid name of a workload's task.
fn unique_name(thread: &Thread, trace: &Trace) -> String {
    let comm = thread.comm.map_or("task", |name| trace.names.text(name));
    format!("{}-{}", fit_name(comm), thread.pid)
}

fn fit_name(text: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    text.chars().map(fit).collect()
}

/// Returns the CPU of a per-CPU kernel thread, such as `ksoftirqd/3` or `kworker/3:1`.
fn own_cpu(thread: &Thread, trace: &Trace) -> Option<CpuId> {
    let comm = trace.names.text(thread.comm?);
    let (_, number) = comm.rsplit_once('/')?;
    let number = number.split(':').next()?;
    let cpu = CpuId(number.parse().ok()?);
    (thread.cpus.iter().eq([&cpu])).then_some(cpu)
}
