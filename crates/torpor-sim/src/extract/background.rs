// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Turns some tasks of a recording into a background workload that repeats with the recording's
//! length; each CPU starts at a different offset.
//!
//! A task's pauses and work keep their order, since the kernel's own work comes in bursts.

use super::workload::{head, us};
use super::{Act, Story, go_on, own_cpu, runs};
use crate::error::SimError;
use torpor_engine::Progress;
use torpor_machine::toml::Content;
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_trace::Trace;

/// Most intervals to keep between interrupts that woke no task.
const LENGTHS_MAX: usize = 32;

/// `patterns` match names of tasks; a `*` at the end matches any rest.
pub(super) fn write(
    story: &Story,
    trace: &Trace,
    name: &str,
    patterns: &[String],
    progress: &dyn Progress,
) -> Result<Content, SimError> {
    let (start, end) = story.followed.window;
    let span = end.since(start);
    let title = "What a machine does apart from its work, again and again";
    let meta = &trace.meta;
    let source = format!("extracted from a {} recording, SHA-256 {}", meta.format, meta.sha256);
    let mut content = head(name, title, span, source);
    let mut is_empty = true;
    for (index, thread) in story.followed.threads.iter().enumerate() {
        go_on(progress)?;
        let comm = thread.comm.map_or("", |name| trace.names.text(name));
        let rounds = rounds(story, index);
        if rounds.is_empty() || !patterns.iter().any(|pattern| matches(pattern, comm)) {
            continue;
        }
        let own = own_cpu(thread, trace);
        if own.is_some_and(|cpu| Some(&cpu) != recorded_cpu(story)) {
            // Per-CPU kernel threads exist on every CPU.
            continue;
        }
        is_empty = false;
        let stagger = own.map(|_| Duration(span.0 / 7));
        content.push("task", task(&story.names[index], stagger, &rounds));
    }
    if is_empty {
        return Err(SimError::Option {
            what: "a background needs tasks of these names in the recording",
            given: patterns.join(", "),
            hint: "--background 'kworker*' --background 'rcu*'".to_owned(),
        });
    }
    add_interrupt(&mut content, story, trace.meta.cpu_count.max(1));
    Ok(content)
}

/// Returns the table of a task; with `stagger` every CPU has one.
fn task(name: &str, stagger: Option<Duration>, rounds: &[(Duration, Duration)]) -> Content {
    let phase = |key: &str, length| Content::default().with(key, us(length));
    let phases =
        rounds.iter().flat_map(|(gap, work)| [phase("sleep_us", *gap), phase("run_us", *work)]);
    Content::default()
        .with("name", name)
        .maybe("each_cpu", stagger.map(|_| true))
        .maybe("stagger_us", stagger.map(us))
        // Recorded times have it in them.
        .with("timer_slack_us", 0u32)
        .with("phase", phases.collect::<Vec<_>>())
}

/// Adds the interrupts that woke no task, of one of `recorded` CPUs.
fn add_interrupt(content: &mut Content, story: &Story, recorded: u32) {
    let (start, end) = story.followed.window;
    let first = recorded_cpu(story).copied();
    let mut times: Vec<Instant> = (story.idle_interrupts.iter())
        .filter(|(cpu, _)| Some(*cpu) == first)
        .map(|(_, at)| *at)
        .collect();
    times.sort_unstable();
    if times.len() < 2 {
        return;
    }
    let activity = story.autocorrelation.activity();
    let mut lengths = quantiles(&times);
    if let Some(activity) = activity {
        narrow(&mut lengths, activity.share);
    }
    let lengths: Vec<_> = lengths.into_iter().map(us).collect();
    let interrupt = Content::default()
        .comment(format!(
            "Timers of the kernel and IPIs on one CPU of {recorded}: they woke no task."
        ))
        .with("name", "other")
        .with("each_cpu_us", us(Duration(end.since(start).0 / 7)))
        .maybe("activity", activity.map(|_| runs::NAME))
        .with("interval_us", Content::default().with("dist", "empirical").with("values", lengths));
    content.push("interrupt", interrupt);
    if let Some(activity) = activity {
        content.push("activity", activity.table());
    }
}

/// Returns the first CPU whose idleness was recorded.
fn recorded_cpu(story: &Story) -> Option<&CpuId> {
    let cpus = story.followed.threads.iter().flat_map(|thread| &thread.cpus);
    let idle = story.idle_interrupts.iter().map(|(cpu, _)| cpu);
    idle.min().or(cpus.min())
}

fn matches(pattern: &str, comm: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => comm.starts_with(begin),
        None => comm == pattern,
    }
}

/// Returns each pause with the work after it. The first pause also has the rest of the recording.
fn rounds(story: &Story, thread: usize) -> Vec<(Duration, Duration)> {
    let (start, end) = story.followed.window;
    let (mut rounds, mut from) = (Vec::new(), start);
    for act in &story.followed.threads[thread].acts {
        let woken = match act {
            Act::Run(ns) => {
                let work = Duration(ns.round() as i64);
                if let Some((_, sum)) = rounds.last_mut() {
                    *sum += work;
                }
                from += work;
                continue;
            }
            Act::Wake(_) => continue,
            Act::Sleep { until } => *until,
            Act::Wait { number, .. } => story.followed.wake_ups[*number].at,
        };
        rounds.push((woken.since(from).max(Duration::ZERO), Duration::ZERO));
        from = woken.max(from);
    }
    if let Some((first, _)) = rounds.first_mut() {
        *first += end.since(from).max(Duration::ZERO);
    }
    rounds
}

/// Returns the intervals between these times, at most this many, at evenly spread quantiles.
fn quantiles(times: &[Instant]) -> Vec<Duration> {
    let mut lengths: Vec<Duration> =
        times.windows(2).map(|pair| pair[1].since(pair[0]).max(Duration(1_000))).collect();
    lengths.sort_unstable();
    let count = lengths.len();
    let kept = count.min(LENGTHS_MAX);
    (0..kept).map(|nth| lengths[(2 * nth + 1) * count / (2 * kept)]).collect()
}

/// Reduces the variance of lengths by the part that an activity will add. The mean, and so the
/// rate, stays the same.
fn narrow(lengths: &mut [Duration], share: f64) {
    let sum = |lengths: &[Duration]| lengths.iter().map(|length| length.0 as f64).sum::<f64>();
    let before = sum(lengths);
    let power = (1.0 - share).sqrt();
    for length in &mut *lengths {
        *length = Duration(libm::round(libm::pow(length.0 as f64, power)) as i64);
    }
    let scale = before / sum(lengths);
    for length in lengths {
        *length = Duration(libm::round(length.0 as f64 * scale) as i64);
    }
}
