// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Recorded actions as a workload.

use super::{Act, Cause, Story, go_on, own_cpu};
use crate::error::SimError;
use crate::workload::LICENSE;
use std::collections::BTreeMap;
use torpor_engine::Progress;
use torpor_machine::platform::Platform;
use torpor_machine::toml::{Content, Item, Value};
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_trace::Trace;

/// Longest wait for another task's answer, which takes its time even if it begins late. A longer
/// wait is for the next request, which a late task finds pending.
const ANSWER_MAX: Duration = Duration(1_000_000);

pub(super) fn write(
    story: &Story,
    trace: &Trace,
    recorded_on: Option<&Platform>,
    name: &str,
    progress: &dyn Progress,
) -> Result<Content, SimError> {
    let (start, end) = story.followed.window;
    let machine = recorded_on.map_or("an unknown machine", |platform| platform.name.as_str());
    let meta = &trace.meta;
    let title = "What the tasks of a recording did, once";
    let source =
        format!("extracted from a {} recording of {machine}, SHA-256 {}", meta.format, meta.sha256);
    let mut content = head(name, title, end.since(start), source);
    for (index, thread) in story.followed.threads.iter().enumerate() {
        go_on(progress)?;
        let phases = phases(story, index);
        if phases.is_empty() {
            continue;
        }
        let begins = (thread.start > start).then(|| us(thread.start.since(start)));
        let task = Content::default()
            .with("name", &*story.names[index])
            .maybe("cpus", own_cpu(thread, trace).map(|cpu| cpu.0.to_string()))
            .maybe("start_us", begins)
            .with("repeat", 1u32)
            // Recorded times have it in them.
            .with("timer_slack_us", 0u32)
            .with("phase", phases);
        content.push("task", task);
    }
    for ((cpu, wakee), times) in interrupts(story) {
        let wakee = wakee.map(|wakee| story.names[wakee].as_str());
        let name = wakee.map_or(String::new(), |wakee| format!("-{wakee}"));
        let interrupt = Content::default()
            .with("name", format!("cpu{}{name}", cpu.0))
            .with("cpus", cpu.0.to_string())
            .maybe("wake", wakee)
            .with("at_us", times.iter().map(|at| us(at.since(start))).collect::<Vec<_>>());
        content.push("interrupt", interrupt);
    }
    if let Some(activity) = story.autocorrelation.activity() {
        // Nothing refers to it: recorded lengths already include the activity.
        content.push("activity", activity.table());
    }
    Ok(content)
}

/// Begins the workload of a recording of this length.
pub(super) fn head(name: &str, title: &str, length: Duration, source: String) -> Content {
    Content::default()
        .comment(LICENSE)
        .with("name", name)
        .with("title", format!("{title}: {:.3} s", length.0 as f64 / 1e9))
        .with("source", source)
}

fn phases(story: &Story, thread: usize) -> Vec<Content> {
    let mut phases = Vec::new();
    let start = story.followed.window.0;
    let phase = |key: &str, item: Item| Content::default().with(key, item);
    for act in &story.followed.threads[thread].acts {
        match act {
            Act::Run(ns) => phases.push(phase("run_us", us(Duration(ns.round() as i64)))),
            Act::Sleep { until, .. } => phases.push(phase("until_us", us(until.since(start)))),
            Act::Wait { number, length } => {
                let at = story.followed.wake_ups[*number].at;
                let wait = phase("wait", story.names[thread].as_str().into())
                    .with("not_before_us", us(at.since(start)))
                    .maybe("at_least_us", (*length <= ANSWER_MAX).then(|| us(*length)));
                phases.push(wait);
            }
            Act::Wake(number) => {
                let wake_up = story.followed.wake_ups[*number];
                if wake_up.is_used {
                    let channel = story.names[wake_up.wakee].as_str();
                    phases.push(phase("wake", channel.into()));
                }
            }
        }
    }
    phases
}

/// Events from outside, by CPU and by the task that they wake, if any.
fn interrupts(story: &Story) -> BTreeMap<(CpuId, Option<usize>), Vec<Instant>> {
    let mut found: BTreeMap<_, Vec<Instant>> = BTreeMap::new();
    for wake_up in story.followed.wake_ups.iter().filter(|w| w.is_used) {
        if matches!(wake_up.cause, Cause::Interrupt | Cause::Unseen) {
            found.entry((wake_up.cpu, Some(wake_up.wakee))).or_default().push(wake_up.at);
        }
    }
    for (cpu, at) in &story.idle_interrupts {
        found.entry((*cpu, None)).or_default().push(*at);
    }
    for times in found.values_mut() {
        times.sort_unstable();
    }
    found
}

/// Returns a length in us, to the ns.
pub(super) fn us(length: Duration) -> Item {
    let ns = length.0.max(0);
    let text = format!("{}.{:03}", ns / 1000, ns % 1000);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    Value::Number(text.to_owned()).into()
}
