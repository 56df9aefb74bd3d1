// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Turns some tasks of a recording into a background workload that repeats with the recording's
//! length; each CPU starts at a different offset.
//!
//! A task's pauses and work keep their order, since the kernel's own work comes in bursts. A recording
//! with several sections becomes a workload with these, each with its own tasks and interrupts.
//! Per-CPU tasks are in all of them: their work starts at another place on each CPU.

use super::workload::{head, us};
use super::{Act, Section, Story, go_on, own_cpu, runs};
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
        let turns = turns(story, index);
        if turns.is_empty() || !patterns.iter().any(|pattern| matches(pattern, comm)) {
            continue;
        }
        let own = own_cpu(thread, trace);
        if own.is_some_and(|cpu| Some(&cpu) != recorded_cpu(story)) {
            // Per-CPU kernel threads exist on every CPU.
            continue;
        }
        is_empty = false;
        let name = story.names[index].as_str();
        if own.is_some() || story.sections.len() == 1 {
            let stagger = own.map(|_| Duration(span.0 / 7));
            content.push("task", task(name, stagger, rounds(&turns, start, end)));
            continue;
        }
        for (section, (from, to)) in windows(story) {
            let in_it = |turn: &&Turn| (from..to).contains(&turn.woken);
            let turns: Vec<_> = turns.iter().filter(in_it).copied().collect();
            if !turns.is_empty() {
                let name = format!("{name}-{section}");
                let task = task(&name, None, in_section(&turns, (from, to), span - to.since(from)));
                content.push("task", task.with("during", section));
            }
        }
    }
    if is_empty {
        return Err(SimError::Option {
            what: "a background needs tasks of these names in the recording",
            given: patterns.join(", "),
            hint: "--background 'kworker*' --background 'rcu*'".to_owned(),
        });
    }
    let recorded = trace.meta.cpu_count.max(1);
    if story.sections.len() == 1 {
        add_interrupt(&mut content, story, recorded, None, (start, end));
        return Ok(content);
    }
    for (name, (from, to)) in windows(story) {
        let length = to.since(from);
        content.push(
            "section",
            Content::default().with("name", &*name).with("duration_us", us(length)),
        );
        add_interrupt(&mut content, story, recorded, Some(&name), (from, to));
    }
    Ok(content)
}

/// Returns the name, the begin and the end of each section.
fn windows(story: &Story) -> Vec<(String, (Instant, Instant))> {
    let start = story.followed.window.0;
    let of = |(nth, section): (usize, &Section)| {
        let begin = start + Duration(section.begin_ns);
        (format!("part-{}", nth + 1), (begin, begin + Duration(section.duration_ns)))
    };
    story.sections.iter().enumerate().map(of).collect()
}

/// A phase of a background's task.
#[derive(Clone, Copy)]
enum Phase {
    Sleep(Duration),
    Run(Duration),
}

/// Returns the table of a task; with `stagger` every CPU has one.
fn task(name: &str, stagger: Option<Duration>, phases: Vec<Phase>) -> Content {
    let of = |phase: Phase| match phase {
        Phase::Sleep(length) => Content::default().with("sleep_us", us(length)),
        Phase::Run(length) => Content::default().with("run_us", us(length)),
    };
    Content::default()
        .with("name", name)
        .maybe("each_cpu", stagger.map(|_| true))
        .maybe("stagger_us", stagger.map(us))
        // Recorded times have it in them.
        .with("timer_slack_us", 0u32)
        .with("phase", phases.into_iter().map(of).collect::<Vec<_>>())
}

/// Adds the interrupts that woke no task, of one of `recorded` CPUs, of a section or of all.
fn add_interrupt(
    content: &mut Content,
    story: &Story,
    recorded: u32,
    section: Option<&str>,
    (start, end): (Instant, Instant),
) {
    let first = recorded_cpu(story).copied();
    let mut times: Vec<Instant> = (story.idle_interrupts.iter())
        .filter(|(cpu, at)| Some(*cpu) == first && (start..=end).contains(at))
        .map(|(_, at)| *at)
        .collect();
    times.sort_unstable();
    if times.len() < 2 {
        return;
    }
    // Sections explain what sleeps far apart have in common.
    let activity = story.autocorrelation.activity().filter(|_| section.is_none());
    let mut lengths = quantiles(&times);
    if let Some(activity) = activity {
        narrow(&mut lengths, activity.share);
    }
    let lengths: Vec<_> = lengths.into_iter().map(us).collect();
    let interrupt = Content::default()
        .comment(format!(
            "Timers of the kernel and IPIs on one CPU of {recorded}: they woke no task."
        ))
        .with("name", section.map_or("other".to_owned(), |section| format!("other-{section}")))
        .maybe("during", section)
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

/// A task's wait and the work after it.
#[derive(Clone, Copy)]
struct Turn {
    waited: Duration,
    woken: Instant,
    work: Duration,
}

fn turns(story: &Story, thread: usize) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for act in &story.followed.threads[thread].acts {
        let (waited, woken) = match act {
            Act::Run(ns) => {
                if let Some(turn) = turns.last_mut() {
                    turn.work += Duration(ns.round() as i64);
                }
                continue;
            }
            Act::Wake(_) => continue,
            Act::Sleep { until, length } => (*length, *until),
            Act::Wait { number, length } => (*length, story.followed.wake_ups[*number].at),
        };
        turns.push(Turn { waited, woken, work: Duration::ZERO });
    }
    turns
}

/// Returns the phases of a task that repeats without end. The first pause also has the rest of the
/// recording.
fn rounds(turns: &[Turn], start: Instant, end: Instant) -> Vec<Phase> {
    let mut from = start;
    let mut phases = Vec::new();
    for Turn { woken, work, .. } in turns {
        let gap = woken.since(from).max(Duration::ZERO);
        phases.extend([Phase::Sleep(gap), Phase::Run(*work)]);
        from = (*woken).max(from) + *work;
    }
    if let Some(Phase::Sleep(first)) = phases.first_mut() {
        *first += end.since(from).max(Duration::ZERO);
    }
    phases
}

/// Returns the phases of a section. Waits are as long as recorded, because what a wake-up takes is in
/// the section's length, too. The last pause ends amid the time of the others, so that neither an early
/// task begins another pass nor a late one misses the next.
fn in_section(turns: &[Turn], (start, end): (Instant, Instant), others: Duration) -> Vec<Phase> {
    let of = |Turn { waited, woken, work }: &Turn| {
        [Phase::Sleep((*waited).min(woken.since(start))), Phase::Run(*work)]
    };
    let mut phases: Vec<Phase> = turns.iter().flat_map(of).collect();
    let rest = turns.last().map_or(Duration::ZERO, |turn| end.since(turn.woken + turn.work));
    phases.push(Phase::Sleep(rest.max(Duration::ZERO) + Duration(others.0 / 2)));
    phases
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
