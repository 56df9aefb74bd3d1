// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The events of an rt-app thread, as steps of a program.

use super::json::Entry;
use super::object::Object;
use crate::random::Dist;
use crate::workload::{Channel, Draw, Op, Step};
use std::collections::BTreeMap;
use torpor_machine::toml::{Finding, Report};
use torpor_machine::units::closest;
use torpor_machine::units::{Duration, Instant};

const LOOPS_MAX: f64 = 1e9;
const HOUR_US: f64 = 3.6e9;

pub(super) const NAMES: &[&str] = &[
    "run", "sleep", "timer", "suspend", "resume", "lock", "unlock", "wait", "signal", "broad",
    "sync", "barrier",
];

/// Events of rt-app that are not simulated, with a hint for each.
const REFUSED: [(&str, &str); 6] = [
    ("runtime", "`run` is work, which takes longer on a smaller CPU"),
    ("mem", "use `run`, or a workload in TOML"),
    ("iorun", "a workload in TOML has `io`"),
    ("yield", "leave it out: a task gives way when its slice is over"),
    ("fork", "use `instance`, or `spawn` in a workload in TOML"),
    ("cpus", "give `cpus` to the thread; a task that moves about is two threads"),
];

/// First use of a name.
struct Use {
    name: String,
    is_mutex: bool,
    waited: Option<Finding>,
    woken: Option<Finding>,
}

/// Names that threads share.
#[derive(Default)]
pub(super) struct Names {
    uses: Vec<Use>,
    pub barriers: Vec<String>,
    /// For each shared timer: the threads that use it, and the place of the last use.
    timers: BTreeMap<String, (Vec<String>, u32, Option<Finding>)>,
}

impl Names {
    fn named(&mut self, name: &str, is_mutex: bool) -> usize {
        let found = self.uses.iter().position(|u| u.name == name && u.is_mutex == is_mutex);
        found.unwrap_or_else(|| {
            self.uses.push(Use { name: name.to_owned(), is_mutex, waited: None, woken: None });
            self.uses.len() - 1
        })
    }

    /// Reports names that are waited for but never signalled, or signalled but never waited for.
    pub(super) fn check_channels(&mut self, report: &mut Report) {
        let known: Vec<String> = self.uses.iter().map(|u| u.name.clone()).collect();
        for one in &mut self.uses {
            let finding = match (&one.waited, &one.woken) {
                (Some(_), None) => one.waited.take(),
                (None, Some(_)) => one.woken.take(),
                _ => None,
            };
            let others = known.iter().filter(|name| **name != one.name).map(String::as_str);
            if let Some(finding) = finding {
                let hint = closest(&one.name, others).map(|near| format!("did you mean `{near}`?"));
                report.push(Finding { hint, ..finding });
            }
        }
    }

    /// A timer that several threads take turns with is not simulated.
    pub(super) fn check_timers(&mut self, report: &mut Report) {
        for (users, instances, place) in self.timers.values_mut() {
            if users.len() > 1 || *instances > 1 {
                if let Some(finding) = place.take() {
                    report.push(finding);
                }
            }
        }
    }

    /// A mutex is a channel that holds one from the beginning.
    pub(super) fn channels(&self) -> Vec<Channel> {
        let channel = |u: &Use| Channel { name: u.name.clone(), held: u64::from(u.is_mutex) };
        self.uses.iter().map(channel).collect()
    }
}

fn lock(mutex: usize) -> Op {
    let (not_before, at_least) = (Instant(0), Duration::ZERO);
    Op::Wait { channel: mutex, count: 1, not_before, at_least }
}

pub(super) struct Program {
    pub steps: Vec<Step>,
    pub draws: usize,
    pub depth: usize,
    pub timers: Vec<String>,
    thread: String,
    instances: u32,
}

impl Program {
    pub(super) fn new(thread: &str, instances: u32) -> Program {
        Program {
            steps: Vec::new(),
            draws: 0,
            depth: 0,
            timers: Vec::new(),
            thread: thread.to_owned(),
            instances,
        }
    }

    /// A phase: its events, `loop` times.
    pub(super) fn phase(&mut self, report: &mut Report, phase: &Object, names: &mut Names) {
        let loops = phase.integer(report, "loop", -1.0, LOOPS_MAX).unwrap_or(1.0);
        let begin = self.steps.len();
        self.depth = 1;
        self.push(phase, Op::LoopBegin { times: 0, end: 0 });
        for entry in phase.entries.iter().filter(|e| e.key != "loop") {
            self.event(report, phase, entry, names);
        }
        self.push(phase, Op::LoopEnd { begin: begin + 1 });
        let times = if loops < 0.0 { u64::MAX } else { loops as u64 };
        self.steps[begin].op = Op::LoopBegin { times, end: self.steps.len() };
    }

    fn push(&mut self, object: &Object, op: Op) {
        self.steps.push(Step { op, place: object.path.clone() });
    }

    pub(super) fn event(
        &mut self,
        report: &mut Report,
        object: &Object,
        entry: &Entry,
        names: &mut Names,
    ) {
        // A number after it distinguishes events of a kind: `run0`, `run1`.
        let kind = entry.key.trim_end_matches(|c: char| c.is_ascii_digit());
        if let Some((_, instead)) = REFUSED.iter().find(|(name, _)| *name == kind) {
            return object.unknown(report, entry, NAMES, Some(instead));
        }
        if !NAMES.contains(&kind) {
            return object.unknown(report, entry, NAMES, None);
        }
        let first = self.steps.len();
        if self.add(report, object, entry, kind, names).is_some() {
            for step in &mut self.steps[first..] {
                step.place = object.key(entry);
            }
        }
    }

    fn add(
        &mut self,
        report: &mut Report,
        object: &Object,
        entry: &Entry,
        kind: &str,
        names: &mut Names,
    ) -> Option<()> {
        match kind {
            "run" | "sleep" => {
                let us = object.integer_of(report, entry, 0.0, HOUR_US)?;
                let dist = Dist::Constant(Duration((us * 1e3) as i64));
                let draw = Draw { dist, stream: self.draws };
                self.draws += 1;
                self.push(object, if kind == "run" { Op::Run(draw) } else { Op::Sleep(draw) });
            }
            "timer" => self.timer(report, object, entry, names)?,
            "barrier" => {
                let name = object.text_of(report, entry)?;
                let known = names.barriers.iter().position(|barrier| barrier == name);
                let barrier = known.unwrap_or_else(|| {
                    names.barriers.push(name.to_owned());
                    names.barriers.len() - 1
                });
                self.push(object, Op::Barrier(barrier));
            }
            "wait" | "sync" => {
                let parts = Object::of(report, object.key(entry), &entry.json)?;
                let name = self.part(report, &parts, "ref")?;
                let mutex = self.part(report, &parts, "mutex")?;
                let channel = self.wait_on(report, object, entry, &name, names);
                let mutex = self.mutex(report, object, entry, &mutex, names);
                if kind == "sync" {
                    self.wake(report, object, entry, channel, names);
                    self.push(object, Op::Notify { channel, all: false });
                }
                self.push(object, Op::Await { channel, release: Some(mutex) });
                self.push(object, lock(mutex));
            }
            _ => {
                let name = object.text_of(report, entry)?;
                // workgen uses the name of the thread, too.
                let name = if name.is_empty() { self.thread.clone() } else { name.to_owned() };
                match kind {
                    "lock" | "unlock" => {
                        let channel = self.mutex(report, object, entry, &name, names);
                        self.push(
                            object,
                            match kind {
                                "lock" => lock(channel),
                                _ => Op::Wake { channel, count: 1, sync: false },
                            },
                        );
                    }
                    "suspend" => {
                        let channel = self.wait_on(report, object, entry, &name, names);
                        self.push(object, Op::Await { channel, release: None });
                    }
                    _ => {
                        let channel = names.named(&name, false);
                        self.wake(report, object, entry, channel, names);
                        self.push(object, Op::Notify { channel, all: kind != "signal" });
                    }
                }
            }
        }
        Some(())
    }

    fn part(&self, report: &mut Report, parts: &Object, key: &str) -> Option<String> {
        match parts.find(key) {
            Some(entry) => parts.text_of(report, entry).map(str::to_owned),
            None => {
                report.push(Finding {
                    span: parts.entries.first().map_or(0..0, |entry| entry.key_span.clone()),
                    key: format!("{}.{key}", parts.path),
                    message: "this key is missing".to_owned(),
                    allowed: Some("{ \"ref\": \"…\", \"mutex\": \"…\" }".to_owned()),
                    ..Finding::default()
                });
                None
            }
        }
    }

    fn mutex(
        &self,
        report: &Report,
        object: &Object,
        entry: &Entry,
        name: &str,
        names: &mut Names,
    ) -> usize {
        let mutex = names.named(name, true);
        let message = "this mutex is locked but never unlocked, or unlocked but never locked";
        let finding = || object.finding(report, entry, message);
        let uses = &mut names.uses[mutex];
        match entry.key.starts_with("unlock") {
            true => uses.woken.get_or_insert_with(finding),
            false => uses.waited.get_or_insert_with(finding),
        };
        if entry.key.starts_with("wait") || entry.key.starts_with("sync") {
            // Waiting unlocks the mutex, and locks it again.
            uses.woken.get_or_insert_with(finding);
        }
        mutex
    }

    fn wait_on(
        &self,
        report: &Report,
        object: &Object,
        entry: &Entry,
        name: &str,
        names: &mut Names,
    ) -> usize {
        let channel = names.named(name, false);
        let message = "no thread resumes or signals this";
        let finding = || object.finding(report, entry, message);
        names.uses[channel].waited.get_or_insert_with(finding);
        channel
    }

    fn wake(
        &self,
        report: &Report,
        object: &Object,
        entry: &Entry,
        channel: usize,
        names: &mut Names,
    ) {
        let finding = || object.finding(report, entry, "no thread waits for this");
        names.uses[channel].woken.get_or_insert_with(finding);
    }

    fn timer(
        &mut self,
        report: &mut Report,
        object: &Object,
        entry: &Entry,
        names: &mut Names,
    ) -> Option<()> {
        const KEYS: &[&str] = &["ref", "period", "mode"];
        let timer = Object::of(report, object.key(entry), &entry.json)?;
        for other in timer.entries.iter().filter(|e| !KEYS.contains(&e.key.as_str())) {
            timer.unknown(report, other, KEYS, None);
        }
        let reference = timer.find("ref").and_then(|e| timer.text_of(report, e));
        let period_us = timer.integer(report, "period", 1.0, HOUR_US);
        let mode = timer.find("mode").and_then(|e| timer.text_of(report, e)).unwrap_or("relative");
        let (Some(reference), Some(period_us), "relative" | "absolute") =
            (reference, period_us, mode)
        else {
            let mut finding = object.finding(report, entry, "this timer is not complete or wrong");
            finding.allowed = Some(
                "`ref`, `period` in us, and `mode`, which is \"relative\" or \"absolute\"".into(),
            );
            report.push(finding);
            return None;
        };
        if !reference.starts_with("unique") {
            let mut shared = object.finding(report, entry, "threads share this timer");
            shared.hint = Some("\"ref\": \"unique\" gives each thread its own".to_owned());
            let users = names.timers.entry(reference.to_owned()).or_default();
            if !users.0.contains(&self.thread) {
                users.0.push(self.thread.clone());
            }
            users.1 = users.1.max(self.instances);
            users.2 = Some(shared);
        }
        let known = self.timers.iter().position(|name| name == reference);
        let timer = known.unwrap_or_else(|| {
            self.timers.push(reference.to_owned());
            self.timers.len() - 1
        });
        let period = Duration((period_us * 1e3) as i64);
        self.push(object, Op::Timer { timer, period, is_absolute: mode == "absolute" });
        Some(())
    }
}
