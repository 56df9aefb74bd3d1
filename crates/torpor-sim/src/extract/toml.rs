// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes recorded actions as a workload file.

use super::{Act, Cause, Story, go_on, own_cpu};
use crate::error::SimError;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use torpor_engine::Progress;
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_trace::Trace;

/// Longest wait for another task's answer, which takes its time even if it begins late. A longer
/// wait is for the next request, which a late task finds pending.
const ANSWER_MAX: Duration = Duration(1_000_000);
/// Phases per line of the file.
const PHASES_A_LINE: usize = 4;

pub(super) fn write(
    story: &Story,
    trace: &Trace,
    recorded_on: Option<&Platform>,
    name: &str,
    progress: &dyn Progress,
) -> Result<String, SimError> {
    let (start, end) = story.followed.window;
    let machine = recorded_on.map_or("an unknown machine", |platform| platform.name.as_str());
    let mut out = format!(
        "# SPDX-License-Identifier: MIT OR GPL-2.0-only\n\
         name = \"{name}\"\n\
         title = \"What the tasks of a recording did, once: {:.3} s\"\n\
         source = \"extracted from a {} recording of {machine}, SHA-256 {}\"\n",
        end.since(start).0 as f64 / 1e9,
        trace.meta.format,
        trace.meta.sha256,
    );
    let takes_text = "strings take all text";
    for (index, thread) in story.followed.threads.iter().enumerate() {
        go_on(progress)?;
        let phases = phases(story, index);
        if phases.is_empty() {
            continue;
        }
        write!(out, "\n[[task]]\nname = \"{}\"\n", story.names[index]).expect(takes_text);
        if let Some(cpu) = own_cpu(thread, trace) {
            writeln!(out, "cpus = \"{}\"", cpu.0).expect(takes_text);
        }
        if thread.start > start {
            writeln!(out, "start_us = {}", us(thread.start.since(start))).expect(takes_text);
        }
        out.push_str("repeat = 1\nphase = [\n");
        for line in phases.chunks(PHASES_A_LINE) {
            writeln!(out, "    {},", line.join(", ")).expect(takes_text);
        }
        out.push_str("]\n");
    }
    for ((cpu, wakee), times) in interrupts(story) {
        let (name, wake) = match wakee {
            Some(wakee) => {
                let wakee = &story.names[wakee];
                (format!("cpu{}-{wakee}", cpu.0), format!("wake = \"{wakee}\"\n"))
            }
            None => (format!("cpu{}", cpu.0), String::new()),
        };
        let times: Vec<String> = times.iter().map(|at| us(at.since(start))).collect();
        write!(
            out,
            "\n[[interrupt]]\nname = \"{name}\"\ncpus = \"{}\"\n{wake}at_us = [{}]\n",
            cpu.0,
            times.join(", ")
        )
        .expect(takes_text);
    }
    if let Some(activity) = story.autocorrelation.activity() {
        // Nothing refers to it: recorded lengths already include the activity.
        out.push_str(&activity.toml());
    }
    Ok(out)
}

fn phases(story: &Story, thread: usize) -> Vec<String> {
    let mut phases = Vec::new();
    for act in &story.followed.threads[thread].acts {
        match act {
            Act::Run(ns) => {
                phases.push(format!("{{ run_us = {} }}", us(Duration(ns.round() as i64))))
            }
            Act::Sleep { until } => {
                let start = story.followed.window.0;
                phases.push(format!("{{ until_us = {} }}", us(until.since(start))));
            }
            Act::Wait { number, length } => {
                let wake_up = story.followed.wake_ups[*number];
                let channel = &story.names[thread];
                let at = us(wake_up.at.since(story.followed.window.0));
                let at_least = match *length {
                    length if length <= ANSWER_MAX => format!(", at_least_us = {}", us(length)),
                    _ => String::new(),
                };
                let wait = format!("{{ wait = \"{channel}\", not_before_us = {at}{at_least} }}");
                phases.push(wait);
            }
            Act::Wake(number) => {
                let wake_up = story.followed.wake_ups[*number];
                if wake_up.is_used {
                    let channel = &story.names[wake_up.wakee];
                    phases.push(format!("{{ wake = \"{channel}\" }}"));
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

pub(super) fn us(length: Duration) -> String {
    let ns = length.0.max(0);
    let text = format!("{}.{:03}", ns / 1000, ns % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
