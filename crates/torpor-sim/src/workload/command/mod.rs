// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Makes workload files of command lines of benchmarks, and of fio's job files.
//!
//! Values that a command line lacks, such as CPU time, are chosen, and named in the workload's
//! `source`; `torpor workload show` prints it.

mod fio;
mod options;
mod perf;
mod threads;
mod toml;

use super::builtin::is_builtin;
use crate::error::SimError;
use options::{Line, Setting};
use std::path::Path;
use toml::File;
use torpor_machine::toml::Report;

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

/// Returns the workload file of a command line.
///
/// # Errors
/// If there is no such command, an option is unknown or its value is wrong, or a job file that it
/// names cannot be read.
pub fn to_toml(command: &str) -> Result<String, SimError> {
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

/// Returns the workload file of a fio job file.
///
/// # Errors
/// If an option is unknown or its value is wrong.
pub fn job_file_to_toml(path: &str, text: &str) -> Result<String, SimError> {
    let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
    build(path, text, |report| fio::of_file(report, &name, text))
}

fn build(
    origin: &str,
    text: &str,
    read: impl FnOnce(&mut Report<'_>) -> Option<File>,
) -> Result<String, SimError> {
    let mut report = Report::new(text);
    let file = read(&mut report);
    let problems = report.finish();
    match file {
        Some(file) if problems.is_empty() => Ok(file.text()),
        _ => Err(SimError::Workload { origin: origin.to_owned(), problems }),
    }
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
    let number = setting.value.as_ref().and_then(|value| value.parse().ok());
    let number = number.filter(|n: &f64| *n > 0.0 && *n <= most);
    if number.is_none() {
        report.push(setting.finding("not such a number", Some(format!("above 0, to {most}"))));
    }
    number
}
