// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! rt-app's workload files (`doc/tutorial.txt` of rt-app 1.0): the same tasks, simulated.
//!
//! Refuses by name what a simulation cannot do. Accepts and ignores keys that only control how
//! rt-app runs and logs, and `duration`, for which `torpor simulate` has an option.
//! FIDELITY(rt-app-run): `run` takes its time on the biggest CPU at its highest frequency, where
//! rt-app should be calibrated but may not have been.

mod events;
mod json;
mod object;

use super::{Barrier, TaskKind, Workload};
use crate::error::SimError;
use crate::workload::Clamp;
use crate::workload::attributes::{POLICIES, is_realtime, policy_of};
use events::{Names, Program};
use json::Value;
use object::Object;
use sha2::{Digest, Sha256};
use torpor_machine::toml::{Finding, Report};
use torpor_machine::units::{CpuId, Duration};

const HOUR_US: f64 = 3.6e9;

const FILE_KEYS: &[&str] = &["tasks", "global", "resources"];
const GLOBAL_KEYS: &[&str] = &[
    "duration",
    "calibration",
    "default_policy",
    "pi_enabled",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "frag",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
];
const TASK_KEYS: &[&str] = &["instance", "loop", "policy", "priority", "cpus", "delay", "phases"];
const DEADLINE_KEYS: &[&str] = &["dl-runtime", "dl-period", "dl-deadline"];
const NO_DEADLINES: &str = "SCHED_DEADLINE is not simulated";
/// rt-app's names of scheduling policies.
const PREFIX: &str = "SCHED_";
/// rt-app's `DEFAULT_THREAD_PRIORITY`, of realtime threads without one.
const PRIORITY_DEFAULT: f64 = 10.0;

/// Reads the text of an rt-app file. `origin` names it in errors, `name` the workload.
pub fn from_rtapp(origin: &str, name: &str, text: &str) -> Result<Workload, SimError> {
    let mut report = Report::new(text);
    let workload = match json::parse(text) {
        Ok(json) => Object::of(&mut report, String::new(), &json)
            .and_then(|file| build(&mut report, &file, name, text)),
        Err(error) => {
            report.push(Finding {
                span: error.at..error.at + 1,
                key: "syntax".to_owned(),
                message: error.message.to_owned(),
                ..Finding::default()
            });
            None
        }
    };
    let problems = report.finish();
    match workload {
        Some(workload) if problems.is_empty() => Ok(workload),
        _ => Err(SimError::Workload { origin: origin.to_owned(), problems }),
    }
}

fn build(report: &mut Report, file: &Object, name: &str, text: &str) -> Option<Workload> {
    for entry in file.entries.iter().filter(|e| !FILE_KEYS.contains(&e.key.as_str())) {
        file.unknown(report, entry, FILE_KEYS, None);
    }
    let mut policy = "normal";
    if let Some(entry) = file.find("global") {
        let global = Object::of(report, file.key(entry), &entry.json)?;
        check_global(report, &global);
        policy =
            global.find("default_policy").map_or(policy, |at| policy_name(report, &global, at));
    }
    let Some(entry) = file.find("tasks") else {
        report.push(Finding {
            key: "tasks".to_owned(),
            message: "this key is missing".to_owned(),
            allowed: Some("an object with a thread a key".to_owned()),
            ..Finding::default()
        });
        return None;
    };
    let threads = Object::of(report, file.key(entry), &entry.json)?;
    if threads.entries.is_empty() {
        let finding = file.finding(report, entry, "a workload has at least one task");
        report.push(finding);
    }
    let mut names = Names::default();
    let mut tasks = Vec::new();
    for entry in threads.entries {
        let thread = Object::of(report, threads.key(entry), &entry.json)?;
        tasks.push(task(report, &thread, &entry.key, policy, &mut names));
    }
    names.check_timers(report);
    names.check_channels(report);
    let tasks: Vec<TaskKind> = tasks.into_iter().collect::<Option<_>>()?;
    Some(Workload {
        name: name.to_owned(),
        title: format!("rt-app: {} threads", tasks.iter().map(|t| t.count).sum::<u32>()),
        sources: vec!["an rt-app file".to_owned()],
        sha256: Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect(),
        barriers: Barrier::all(&names.barriers, &tasks),
        channels: names.channels(),
        tasks,
        interrupts: Vec::new(),
        devices: Vec::new(),
        flows: Vec::new(),
        activities: Vec::new(),
        notes: Vec::new(),
    })
}

fn check_global(report: &mut Report, global: &Object) {
    for entry in global.entries {
        match (entry.key.as_str(), &entry.json.value) {
            ("pi_enabled", Value::Bool(true)) => {
                let mut finding = global.finding(report, entry, "mutexes lend no priority here");
                finding.allowed = Some("false".to_owned());
                report.push(finding);
            }
            (key, _) if GLOBAL_KEYS.contains(&key) => {}
            _ => global.unknown(report, entry, GLOBAL_KEYS, None),
        }
    }
}

/// Returns a policy's name in a workload file: `SCHED_OTHER` is `normal` there.
fn policy_name(report: &mut Report, object: &Object, entry: &json::Entry) -> &'static str {
    let theirs = |ours: &str| match ours {
        "normal" => format!("{PREFIX}OTHER"),
        _ => format!("{PREFIX}{}", ours.to_ascii_uppercase()),
    };
    let given = if let Value::Text(policy) = &entry.json.value { policy } else { "" };
    if let Some(known) = POLICIES.iter().find(|ours| theirs(ours) == *given) {
        return known;
    }
    let mut finding = object.finding(report, entry, "this policy is not simulated");
    finding.allowed = Some(POLICIES.iter().map(|ours| theirs(ours)).collect::<Vec<_>>().join(", "));
    report.push(finding);
    "normal"
}

fn task(
    report: &mut Report,
    thread: &Object,
    name: &str,
    default_policy: &'static str,
    names: &mut Names,
) -> Option<TaskKind> {
    let count = thread.integer(report, "instance", 1.0, 1e4).unwrap_or(1.0) as u32;
    let delay_us = thread.integer(report, "delay", 0.0, HOUR_US).unwrap_or(0.0);
    let passes = thread.integer(report, "loop", -1.0, 1e9).unwrap_or(-1.0);
    let at = thread.find("policy");
    let policy = at.map_or(default_policy, |entry| policy_name(report, thread, entry));
    // rt-app's `priority` is a nice level, or a realtime priority.
    let (nice, priority) = match is_realtime(policy) {
        true => (0.0, thread.integer(report, "priority", 1.0, 99.0).unwrap_or(PRIORITY_DEFAULT)),
        false => (thread.integer(report, "priority", -20.0, 19.0).unwrap_or(0.0), 0.0),
    };
    let cpus = thread.find("cpus").map(|entry| cpus(report, thread, entry));
    for entry in thread.entries.iter().filter(|e| DEADLINE_KEYS.contains(&e.key.as_str())) {
        thread.unknown(report, entry, TASK_KEYS, Some(NO_DEADLINES));
    }
    let mut program = Program::new(name, count);
    let is_own = |key: &str| TASK_KEYS.contains(&key) || DEADLINE_KEYS.contains(&key);
    match thread.find("phases") {
        Some(entry) => {
            for other in thread.entries.iter().filter(|e| !is_own(&e.key)) {
                let why = "with `phases`, events must be in a phase";
                thread.unknown(report, other, TASK_KEYS, Some(why));
            }
            let phases = Object::of(report, thread.key(entry), &entry.json)?;
            for entry in phases.entries {
                let phase = Object::of(report, phases.key(entry), &entry.json)?;
                program.phase(report, &phase, names);
            }
        }
        None => {
            let events = thread.entries.iter().filter(|e| !is_own(&e.key));
            for entry in events {
                program.event(report, thread, entry, names);
            }
        }
    }
    if program.steps.is_empty() && thread.entries.iter().all(|e| is_own(&e.key)) {
        report.push(Finding {
            key: thread.path.clone(),
            message: "a thread does at least one thing".to_owned(),
            allowed: Some(events::NAMES.join(", ")),
            ..Finding::default()
        });
    }
    Some(TaskKind {
        name: name.to_owned(),
        count,
        groups: 1,
        cpus: match cpus {
            Some(cpus) => Some(cpus?),
            None => None,
        },
        start: Duration((delay_us * 1e3) as i64),
        stagger: Duration::ZERO,
        policy: policy_of(policy, priority as u32),
        clamp: if is_realtime(policy) { Clamp::REALTIME } else { Clamp::NONE },
        each_cpu: false,
        activity: None,
        timer_slack: Duration::ZERO,
        slice: Duration::ZERO,
        weight: crate::workload::attributes::NICE_WEIGHTS[(nice + 20.0) as usize],
        repeat: (passes >= 0.0).then_some(passes as u64),
        draws: program.draws,
        depth: program.depth,
        timers: program.timers.len(),
        program: program.steps,
    })
}

fn cpus(report: &mut Report, thread: &Object, entry: &json::Entry) -> Option<Vec<CpuId>> {
    let number = |item: &json::Json| match item.value {
        Value::Number(cpu) if cpu.fract() == 0.0 && (0.0..=65_535.0).contains(&cpu) => {
            Some(CpuId(cpu as u32))
        }
        _ => None,
    };
    let cpus: Option<Vec<CpuId>> = match &entry.json.value {
        Value::Array(items) => items.iter().map(number).collect(),
        _ => None,
    };
    let cpus = cpus.filter(|cpus| !cpus.is_empty());
    if cpus.is_none() {
        let mut finding = thread.finding(report, entry, "this is not a list of CPUs");
        finding.allowed = Some("whole numbers in `[ ]`, such as [0, 1]".to_owned());
        report.push(finding);
    }
    cpus
}
