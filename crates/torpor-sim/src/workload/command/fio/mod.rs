// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! fio's command lines and job files.
//!
//! An option is simulated, or has no meaning here because it is about running, measuring or
//! printing, or would change a run but is not simulated. A result names the last two kinds.

mod job;
mod names;

use super::options::{Line, Setting, Word};
use super::workload;
use job::Job;
use torpor_machine::toml::{Content, Finding, Report};
use torpor_machine::units::open_input;

/// A job, or the global section.
struct Section {
    name: String,
    settings: Vec<Setting>,
}

/// `fio --name=job --rw=randread …`, or `fio job.fio`.
pub(super) fn of_line(report: &mut Report<'_>, line: &Line) -> Option<Content> {
    let (mut sections, mut files) = (vec![section("global")], Vec::new());
    let mut words = line.words.iter().skip(1).peekable();
    while let Some(word) = words.next() {
        let Some(option) = word.text.strip_prefix("--") else {
            files.push(word);
            continue;
        };
        let mut span = word.span.clone();
        let (key, mut value) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (option, None),
        };
        let is_flag = |next: &Word| ["0", "1"].contains(&next.text.as_str());
        let takes_next =
            |next: &&Word| !next.text.starts_with("--") && (has_value(key) || is_flag(next));
        if value.is_none() {
            if let Some(next) = words.next_if(takes_next) {
                (value, span.end) = (Some(next.text.clone()), next.span.end);
            }
        }
        match (key, value) {
            ("name", Some(name)) => sections.push(section(&name)),
            (key, value) => {
                let latest = sections.last_mut().expect("there is the global one");
                latest.settings.push(Setting { key: key.to_owned(), value, span });
            }
        }
    }
    if let Some(file) = files.first() {
        report.push(line.finding(
            Some(file),
            "a job file must be the only argument: `fio job.fio`",
            &[],
        ));
        return None;
    }
    if sections.len() == 1 {
        // Here a command line without a name is one job; fio runs none.
        sections[0].name = "fio".to_owned();
        sections.insert(0, section("global"));
    }
    build(report, "fio", &line.whole, &sections)
}

/// Returns the path and the text of the job file of `fio job.fio`; a file that cannot be read is
/// reported. `None` for any other line.
pub(super) fn job_file(report: &mut Report<'_>, line: &Line) -> Option<(String, String)> {
    let [program, file] = &line.words[..] else { return None };
    if program.text != "fio" || file.text.starts_with("--") {
        return None;
    }
    let text = open_input(file.text.as_ref()).and_then(std::io::read_to_string);
    let error = match text {
        Ok(text) => return Some((file.text.clone(), text)),
        Err(error) => error,
    };
    let message = format!("this job file cannot be read: {error}");
    report.push(line.finding(Some(file), &message, &[]));
    None
}

/// Reads a job file: `[global]`, then one section per job.
pub(super) fn of_file(report: &mut Report<'_>, name: &str, text: &str) -> Option<Content> {
    let (mut sections, mut at) = (vec![section("global")], 0);
    for line in text.split_inclusive('\n') {
        let begin = at;
        at += line.len();
        let content = line.split([';', '#']).next().unwrap_or("").trim();
        let start = begin + line.find(content).unwrap_or(0);
        let span = start..start + content.len();
        if content.is_empty() {
            continue;
        }
        if let Some(title) = content.strip_prefix('[').and_then(|c| c.strip_suffix(']')) {
            if title.trim() != "global" {
                sections.push(section(title.trim()));
            } else if sections.len() > 1 {
                sections.push(section("global"));
            }
            continue;
        }
        let (key, value) = match content.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim().to_owned())),
            None => (content, None),
        };
        let latest = sections.last_mut().expect("there is the global one");
        latest.settings.push(Setting { key: key.to_owned(), value, span });
    }
    build(report, name, "a job file of fio's", &sections)
}

fn section(name: &str) -> Section {
    Section { name: name.to_owned(), settings: Vec::new() }
}

/// Whether an option takes the next word as its value; flags take only 0 or 1.
fn has_value(key: &str) -> bool {
    !["direct", "time_based", "group_reporting", "stonewall", "thread", "norandommap", "minimal"]
        .contains(&key)
}

fn build(
    report: &mut Report<'_>,
    name: &str,
    given: &str,
    sections: &[Section],
) -> Option<Content> {
    let title = "fio: jobs as given on its command line or in its file";
    let work =
        "work of submitting a request and of taking its result: the engine's, which is chosen";
    let mut content = workload(name, title, &[&format!("`{given}`"), work]);
    let (mut shared, mut jobs, mut begin_s) = (Vec::new(), Vec::new(), Some(0.0));
    let mut notes: Vec<String> = Vec::new();
    let (mut idle, mut missing) = (Vec::new(), Vec::new());
    let mut latest_end_s: Option<f64> = Some(0.0);
    for section in sections {
        if section.name == "global" {
            shared.extend(section.settings.clone());
            continue;
        }
        let settings: Vec<Setting> = shared.iter().chain(&section.settings).cloned().collect();
        let mut job = Job::of(report, &section.name, &settings)?;
        for (list, all) in [(&mut idle, &job.without_meaning), (&mut missing, &job.not_simulated)] {
            for key in all {
                if !list.contains(key) {
                    list.push(key.clone());
                }
            }
        }
        if job.waits_for_previous && !jobs.is_empty() {
            begin_s = latest_end_s;
            if begin_s.is_none() {
                missing.push("stonewall (after a job without a runtime)".to_owned());
            }
        }
        job.start_s += begin_s.unwrap_or(0.0);
        let end_s = job.runtime_s.map(|runtime| job.start_s + runtime);
        latest_end_s = latest_end_s.zip(end_s).map(|(latest, end)| latest.max(end));
        notes.append(&mut job.notes);
        jobs.push(job.table(jobs.len() + 1));
    }
    if jobs.is_empty() {
        report.push(Finding {
            key: "fio".to_owned(),
            message: "there is no job".to_owned(),
            allowed: Some("`--name=JOB` with its options, or a section `[JOB]`".to_owned()),
            ..Finding::default()
        });
        return None;
    }
    if !idle.is_empty() {
        notes.push(format!("fio's options without meaning here: {}", idle.join(", ")));
    }
    if !missing.is_empty() {
        notes.push(format!("fio's options that are not simulated: {}", missing.join(", ")));
    }
    if !notes.is_empty() {
        content.set("note", notes);
    }
    Some(content.with("fio", jobs))
}
