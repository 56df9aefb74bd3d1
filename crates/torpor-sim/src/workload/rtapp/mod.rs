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

use super::read::{from_document, reported};
use super::{LICENSE, Workload, fit};
use crate::error::SimError;
use crate::workload::attributes::{NICE_WEIGHTS, POLICIES, is_realtime};
use events::{Thread, Timers};
use json::Value;
use object::Object;
use torpor_machine::toml::{Content, Document, Finding, Item, Report, format_cpu_list};
use torpor_machine::units::CpuId;

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
const TASK_KEYS: &[&str] = &[
    "instance",
    "loop",
    "policy",
    "priority",
    "cpus",
    "delay",
    "util_min",
    "util_max",
    "taskgroup",
    "phases",
];
const DEADLINE_KEYS: &[&str] = &["dl-runtime", "dl-period", "dl-deadline"];
const NO_DEADLINES: &str = "SCHED_DEADLINE is not simulated";
/// rt-app's names of scheduling policies.
const PREFIX: &str = "SCHED_";
/// rt-app's `DEFAULT_THREAD_PRIORITY`, of realtime threads without one.
const PRIORITY_DEFAULT: f64 = 10.0;

/// Reads the text of an rt-app file. `origin` names it in errors, `name` the workload.
pub fn from_rtapp(origin: &str, name: &str, text: &str) -> Result<Workload, SimError> {
    from_document(&of_rtapp(origin, name, text)?)
}

pub(super) fn of_rtapp(origin: &str, name: &str, text: &str) -> Result<Document, SimError> {
    let content = reported(origin, text, |report| match json::parse(text) {
        Ok(json) => {
            let file = Object::of(report, String::new(), &json)?;
            build(report, &file, name)
        }
        Err(error) => {
            report.push(Finding {
                span: error.at..error.at + 1,
                key: "syntax".to_owned(),
                message: error.message.to_owned(),
                ..Finding::default()
            });
            None
        }
    })?;
    Ok(Document::of(origin, text, content))
}

fn build(report: &mut Report, file: &Object, name: &str) -> Option<Content> {
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
    let (mut timers, mut count) = (Timers::new(), 0);
    let mut tasks = Vec::new();
    let mut cgroups: Vec<(String, Item)> = Vec::new();
    for entry in threads.entries {
        let thread = Object::of(report, threads.key(entry), &entry.json)?;
        let cgroup = taskgroup(report, &thread);
        if let Some(path) = cgroup.clone().filter(|path| cgroups.iter().all(|c| c.0 != *path)) {
            let name = thread.item("taskgroup", &*path);
            cgroups.push((path, Content::default().with("name", name).into()));
        }
        let instances = thread.integer(report, "instance", 0.0, 1e4).unwrap_or(1.0) as u32;
        count += instances;
        let span = entry.key_span.clone();
        let reader =
            Thread { name: &entry.key, span: span.clone(), instances, timers: &mut timers };
        let task = task(report, &thread, policy, reader);
        let task = task
            .map(|task| task.maybe("cgroup", cgroup.map(|path| thread.item("taskgroup", path))));
        tasks.extend(task.map(|task| Item::from(task).at(span.clone(), &*thread.path)));
    }
    events::check_timers(report, timers);
    let content = Content::default()
        .comment(LICENSE)
        .with("name", fit(name))
        .with("title", format!("rt-app: {count} threads"))
        .with("source", "an rt-app file");
    let cgroups: Vec<Item> = cgroups.into_iter().map(|(_, item)| item).collect();
    let cgroups = (!cgroups.is_empty()).then_some(cgroups);
    Some(content.maybe("cgroup", cgroups).with("task", tasks))
}

/// Returns a thread's control group, by its path from the root; none is the root.
fn taskgroup(report: &mut Report, thread: &Object) -> Option<String> {
    let path = thread.text_of(report, thread.find("taskgroup")?)?;
    let path = path.strip_prefix("/sys/fs/cgroup").unwrap_or(path).trim_matches('/').to_owned();
    (!path.is_empty()).then_some(path)
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

/// Returns a thread as a task, with each key at its place in the file.
fn task(
    report: &mut Report,
    thread: &Object,
    default_policy: &'static str,
    mut reader: Thread<'_>,
) -> Option<Content> {
    let number = |report: &mut Report, key, min, max| {
        let number = thread.integer(report, key, min, max);
        number.map(|number| thread.item(key, number))
    };
    let at = thread.find("policy");
    let policy = at.map_or(default_policy, |entry| policy_name(report, thread, entry));
    // rt-app's `priority` is a nice level, or a realtime priority.
    let priority = match is_realtime(policy) {
        true => {
            let priority = thread.integer(report, "priority", 1.0, 99.0);
            ("rt_priority", priority.unwrap_or(PRIORITY_DEFAULT))
        }
        false => {
            let nice = thread.integer(report, "priority", -20.0, 19.0).unwrap_or(0.0);
            ("weight", f64::from(NICE_WEIGHTS[(nice + 20.0) as usize]))
        }
    };
    let passes = thread.integer(report, "loop", -1.0, 1e9).filter(|passes| *passes >= 0.0);
    for entry in thread.entries.iter().filter(|e| DEADLINE_KEYS.contains(&e.key.as_str())) {
        thread.unknown(report, entry, TASK_KEYS, Some(NO_DEADLINES));
    }
    let task = Content::default()
        .with("name", Item::from(fit(reader.name)).at(reader.span.clone(), &*thread.path))
        .with("count", thread.item("instance", reader.instances))
        .maybe("cpus", thread.find("cpus").and_then(|entry| cpus(report, thread, entry)))
        .maybe("start_us", number(report, "delay", 0.0, HOUR_US))
        .with("policy", thread.item("policy", policy))
        .with(priority.0, thread.item("priority", priority.1))
        .maybe("uclamp_min", number(report, "util_min", 0.0, 1024.0))
        .maybe("uclamp_max", number(report, "util_max", 0.0, 1024.0))
        .maybe("repeat", passes.map(|passes| thread.item("loop", passes)));
    Some(task.with("phase", phases(report, thread, &mut reader)?))
}

fn phases(report: &mut Report, thread: &Object, reader: &mut Thread<'_>) -> Option<Vec<Item>> {
    let is_own = |key: &str| TASK_KEYS.contains(&key) || DEADLINE_KEYS.contains(&key);
    let events = thread.entries.iter().filter(|entry| !is_own(&entry.key));
    let mut found = Vec::new();
    match thread.find("phases") {
        Some(entry) => {
            for other in events {
                let why = "with `phases`, events must be in a phase";
                thread.unknown(report, other, TASK_KEYS, Some(why));
            }
            let phases = Object::of(report, thread.key(entry), &entry.json)?;
            for entry in phases.entries {
                found.extend(reader.phase(report, &phases, entry));
            }
        }
        None => {
            for entry in events {
                found.extend(reader.event(report, thread, entry));
            }
        }
    }
    if found.is_empty() && thread.entries.iter().all(|entry| is_own(&entry.key)) {
        report.push(Finding {
            span: reader.span.clone(),
            key: thread.path.clone(),
            message: "a thread does at least one thing".to_owned(),
            allowed: Some(events::NAMES.join(", ")),
            ..Finding::default()
        });
    }
    Some(found)
}

fn cpus(report: &mut Report, thread: &Object, entry: &json::Entry) -> Option<Item> {
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
    let mut cpus = cpus?;
    cpus.sort();
    cpus.dedup();
    Some(thread.item("cpus", format_cpu_list(&cpus)))
}
