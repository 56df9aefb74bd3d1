// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Makes workloads of command lines of benchmarks, and of fio's job files.
//!
//! Values that a command line lacks, such as CPU time, are chosen, and named in the workload's
//! `source`; `torpor workload show` prints it.

mod fio;
mod options;
mod perf;
mod threads;

use super::builtin::is_builtin;
use super::read::reported;
use super::{LICENSE, fit};
use crate::error::SimError;
use options::{Line, Setting};
use std::path::Path;
use torpor_machine::toml::{Content, Document, Item, Report};

/// Programs that can be the first word.
const PROGRAMS: [&str; 5] = ["fio", "perf", "turbostat", "idle_predict", "periodic"];

/// Whether a workload's name is a command line: several words that are not a file's name, or the
/// name of a program that is not also a workload's.
pub fn is_command(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let is_program = words.next().is_some_and(|first| PROGRAMS.contains(&first));
    let is_file = [".toml", ".json"].iter().any(|ending| text.ends_with(ending));
    match words.next() {
        Some(_) => is_program || !is_file,
        None => is_program && !is_builtin(text.trim()),
    }
}

/// Returns the workload of a command line.
///
/// # Errors
/// If there is no such command, an option is unknown or its value is wrong, or a job file that it
/// names cannot be read.
pub(super) fn of_command(command: &str) -> Result<Document, SimError> {
    let job_file = reported(command, command, |report| {
        let line = Line::split(report, command)?;
        Some(fio::job_file(report, &line))
    })?;
    if let Some((path, text)) = job_file {
        return build(&path, &text, |report| fio::of_file(report, "fio", &text));
    }
    build(command, command, |report| {
        let line = Line::split(report, command)?;
        let Some(program) = line.words.first() else {
            report.push(line.finding(None, "there is no command", &PROGRAMS));
            return None;
        };
        match program.text.as_str() {
            "fio" => fio::of_line(report, &line),
            "perf" => perf::read(report, &line),
            "turbostat" => threads::turbostat(report, &line),
            "idle_predict" => threads::idle_predict(report, &line),
            "periodic" => threads::periodic(report, &line),
            _ => {
                report.push(line.finding(Some(program), "there is no such command", &PROGRAMS));
                None
            }
        }
    })
}

/// Returns the workload of a fio job file.
///
/// # Errors
/// If an option is unknown or its value is wrong.
pub fn of_job_file(path: &str, text: &str) -> Result<Document, SimError> {
    let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
    build(path, text, |report| fio::of_file(report, &name, text))
}

fn build(
    origin: &str,
    text: &str,
    read: impl FnOnce(&mut Report<'_>) -> Option<Content>,
) -> Result<Document, SimError> {
    reported(origin, text, read).map(|content| Document::of(origin, text, content))
}

/// Begins a workload with its sources. `name` may be any text.
fn workload(name: &str, title: &str, sources: &[&str]) -> Content {
    Content::default()
        .comment(LICENSE)
        .with("name", fit(name))
        .with("title", title)
        .with("source", sources.to_vec())
}

/// Begins a task.
fn task(name: &str) -> Content {
    Content::default().with("name", name)
}

/// Returns a phase with one key.
fn phase(key: &str, item: impl Into<Item>) -> Content {
    Content::default().with(key, item)
}

/// Reads a whole number from `least` to `most`.
fn count(report: &mut Report<'_>, setting: &Setting, least: u64, most: u64) -> Option<u64> {
    let number = setting.value.as_ref().and_then(|value| value.parse().ok());
    let number = number.filter(|n| (least..=most).contains(n));
    if number.is_none() {
        let allowed = format!("a whole number from {least} to {most}");
        report.push(setting.finding("not such a number", Some(allowed)));
    }
    number
}

/// Reads a number above 0.
fn positive(report: &mut Report<'_>, setting: &Setting, most: f64) -> Option<f64> {
    within(report, setting, f64::MIN_POSITIVE, most)
}

/// Reads a number from `least` to `most`.
fn within(report: &mut Report<'_>, setting: &Setting, least: f64, most: f64) -> Option<f64> {
    let number = setting.value.as_ref().and_then(|value| value.parse().ok());
    let number = number.filter(|n: &f64| (least..=most).contains(n));
    if number.is_none() {
        let from = if least > 0.0 { "above" } else { "from" };
        report.push(setting.finding("not such a number", Some(format!("{from} 0, to {most}"))));
    }
    number
}
