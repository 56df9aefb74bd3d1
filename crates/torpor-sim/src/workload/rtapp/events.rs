// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The events of an rt-app thread, as phases of a task.

use super::json::Entry;
use super::object::Object;
use crate::workload::fit;
use std::collections::BTreeMap;
use std::ops::Range;
use torpor_machine::toml::{Content, Finding, Item, Report};

const LOOPS_MAX: f64 = 1e9;
/// `loop` without end.
const ENDLESS: f64 = 1e12;
const HOUR_US: f64 = 3.6e9;

pub(super) const NAMES: &[&str] = &[
    "run", "sleep", "timer", "suspend", "resume", "lock", "unlock", "wait", "signal", "broad",
    "sync", "barrier", "fork",
];

/// Events of rt-app that are not simulated, with a hint for each.
const REFUSED: [(&str, &str); 5] = [
    ("runtime", "`run` is work, which takes longer on a smaller CPU"),
    ("mem", "use `run`, or a workload in TOML"),
    ("iorun", "a workload in TOML has `io`"),
    ("yield", "leave it out: a task gives way when its slice is over"),
    ("cpus", "give `cpus` to the thread; a task that moves about is two threads"),
];

/// For each shared timer: the threads that use it, and the place of the last use.
pub(super) type Timers = BTreeMap<String, (Vec<String>, u32, Option<Finding>)>;

/// Reports timers that several threads take turns with: they are not simulated.
pub(super) fn check_timers(report: &mut Report, timers: Timers) {
    for (users, instances, place) in timers.into_values() {
        if users.len() > 1 || instances > 1 {
            place.into_iter().for_each(|finding| report.push(finding));
        }
    }
}

/// A thread whose events are read.
pub(super) struct Thread<'a> {
    pub name: &'a str,
    /// The place of its name.
    pub span: Range<usize>,
    pub instances: u32,
    pub timers: &'a mut Timers,
}

impl Thread<'_> {
    /// Returns a phase: its events, `loop` times; nothing if it has none.
    pub(super) fn phase(
        &mut self,
        report: &mut Report,
        object: &Object,
        entry: &Entry,
    ) -> Option<Item> {
        let phase = Object::of(report, object.key(entry), &entry.json)?;
        let loops = phase.integer(report, "loop", -1.0, LOOPS_MAX).unwrap_or(1.0);
        let events = phase.entries.iter().filter(|e| e.key != "loop");
        let events: Vec<Item> =
            events.flat_map(|entry| self.event(report, &phase, entry)).collect();
        if events.is_empty() {
            return None;
        }
        let loops = if loops < 0.0 { ENDLESS } else { loops };
        Some(placed(&phase_of("repeat", loops).with("do", events), object, entry))
    }

    /// Returns the phases of an event; none if it is reported.
    pub(super) fn event(
        &mut self,
        report: &mut Report,
        object: &Object,
        entry: &Entry,
    ) -> Vec<Item> {
        // A number after it distinguishes events of a kind: `run0`, `run1`.
        let kind = entry.key.trim_end_matches(|c: char| c.is_ascii_digit());
        if let Some((_, instead)) = REFUSED.iter().find(|(name, _)| *name == kind) {
            object.unknown(report, entry, NAMES, Some(instead));
        } else if !NAMES.contains(&kind) {
            object.unknown(report, entry, NAMES, None);
        } else if let Some(phases) = self.phases(report, object, entry, kind) {
            return phases.iter().map(|phase| placed(phase, object, entry)).collect();
        }
        Vec::new()
    }

    fn phases(
        &mut self,
        report: &mut Report,
        object: &Object,
        entry: &Entry,
        kind: &str,
    ) -> Option<Vec<Content>> {
        Some(match kind {
            "run" | "sleep" => {
                let key = if kind == "run" { "run_us" } else { "sleep_us" };
                vec![phase_of(key, object.integer_of(report, entry, 0.0, HOUR_US)?)]
            }
            "timer" => vec![self.timer(report, object, entry)?],
            "wait" | "sync" => {
                let parts = Object::of(report, object.key(entry), &entry.json)?;
                let name = part(report, &parts, "ref")?;
                let mutex = part(report, &parts, "mutex")?;
                let wait = phase_of("await", &*name).with("release", mutex);
                match kind {
                    "sync" => vec![phase_of("notify", name), wait],
                    _ => vec![wait],
                }
            }
            _ => {
                let name = object.text_of(report, entry)?;
                // workgen uses the name of the thread, too.
                let name = fit(if name.is_empty() { self.name } else { name });
                vec![match kind {
                    "fork" => phase_of("spawn", name),
                    "suspend" => phase_of("await", name),
                    "signal" => phase_of("notify", name),
                    "resume" | "broad" => phase_of("notify", name).with("all", true),
                    _ => phase_of(kind, name),
                }]
            }
        })
    }

    fn timer(&mut self, report: &mut Report, object: &Object, entry: &Entry) -> Option<Content> {
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
            let users = self.timers.entry(reference.to_owned()).or_default();
            if !users.0.iter().any(|user| user == self.name) {
                users.0.push(self.name.to_owned());
            }
            users.1 = users.1.max(self.instances);
            users.2 = Some(shared);
        }
        let phase = phase_of("period_us", period_us).with("timer", fit(reference));
        Some(phase.maybe("absolute", (mode == "absolute").then_some(true)))
    }
}

fn phase_of(key: &str, item: impl Into<Item>) -> Content {
    Content::default().with(key, item)
}

/// Returns a phase whose keys are all at the place of the event.
fn placed(phase: &Content, object: &Object, entry: &Entry) -> Item {
    let (span, shown) = (entry.json.span.clone(), object.key(entry));
    let mut phase = phase.clone();
    for key in phase.entries.iter_mut().filter(|key| key.key != "do") {
        key.item = key.item.clone().at(span.clone(), &*shown);
    }
    Item::from(phase).at(span, shown)
}

fn part(report: &mut Report, parts: &Object, key: &str) -> Option<String> {
    match parts.find(key) {
        Some(entry) => parts.text_of(report, entry).map(fit),
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
