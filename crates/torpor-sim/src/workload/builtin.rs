// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The workloads that ship with Torpor, and how a name on the command line becomes one.

use super::command::{is_command, job_file_to_toml, to_toml};
use super::keys::WORKLOAD;
use super::{Workload, from_rtapp, from_toml};
use crate::error::SimError;
use std::path::Path;
use torpor_machine::toml::{fill_params, split_params};
use torpor_machine::units::UnknownName;

/// File stem and text of each `workloads/*.toml`, in the order of their names.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/builtins.rs"));

/// A workload that ships with Torpor.
#[derive(Clone, Debug)]
pub struct Builtin {
    pub name: &'static str,
    /// The TOML text, comments and all.
    pub text: &'static str,
    pub workload: Workload,
}

/// Returns every workload that ships with Torpor, ordered by name.
pub fn builtins() -> Vec<Builtin> {
    let read = |&(name, text): &(&'static str, &'static str)| {
        let workload = from_toml(&origin_of(name), text)
            .unwrap_or_else(|error| panic!("a shipped workload is broken: {error}"));
        Builtin { name, text, workload }
    };
    FILES.iter().map(read).collect()
}

pub(super) fn is_builtin(name: &str) -> bool {
    FILES.iter().any(|(known, _)| *known == name)
}

/// Returns the workload called `typed`: a built-in name; a command line, such as
/// `perf bench sched pipe -l 1000`; or the path of a file, which is recognised by a `/` or its
/// ending: `.toml`, `.json` for rt-app's, or `.fio`. After a built-in name and a TOML file,
/// `,path=number` replaces a number of the file.
pub fn resolve(typed: &str) -> Result<Workload, SimError> {
    match read(typed)? {
        Text::Toml { origin, text, given } => {
            let mut workload = from_toml(&origin, &text)?;
            workload.name += given;
            Ok(workload)
        }
        Text::RtApp(text) => {
            let name = Path::new(typed).file_stem().unwrap_or_default().to_string_lossy();
            from_rtapp(typed, &name, &text)
        }
    }
}

/// Returns the text of the workload called `typed`, as [`resolve`] reads it: TOML, or rt-app's JSON.
pub fn text(typed: &str) -> Result<String, SimError> {
    match read(typed)? {
        Text::Toml { text, .. } | Text::RtApp(text) => Ok(text),
    }
}

enum Text<'a> {
    /// Name in errors, the text, and parameters after its name.
    Toml {
        origin: String,
        text: String,
        given: &'a str,
    },
    RtApp(String),
}

fn read(typed: &str) -> Result<Text<'_>, SimError> {
    let toml = |text: String| Text::Toml { origin: typed.to_owned(), text, given: "" };
    let path = Path::new(typed);
    let is_file = path.is_file();
    if !is_file && is_command(typed) {
        return Ok(toml(to_toml(typed)?));
    }
    let open = |path: &Path| {
        torpor_machine::units::open_input(path)
            .and_then(std::io::read_to_string)
            .map_err(|source| SimError::Read { path: path.to_owned(), source })
    };
    if typed.ends_with(".json") {
        return Ok(Text::RtApp(open(path)?));
    }
    if typed.ends_with(".fio") {
        return Ok(toml(job_file_to_toml(typed, &open(path)?)?));
    }
    let wrong = |reason| SimError::Param { typed: typed.to_owned(), reason };
    let (name, params) = split_params(typed).map_err(wrong)?;
    let (origin, text) = if name.contains('/') || name.ends_with(".toml") {
        (name.to_owned(), open(Path::new(name))?)
    } else if let Some((_, text)) = FILES.iter().find(|(known, _)| *known == name) {
        (origin_of(name), (*text).to_owned())
    } else {
        let known = FILES.iter().map(|(name, _)| *name);
        let otherwise = "for a file of your own, give its path, ending in `.toml` or `.json`";
        let unknown = UnknownName::new("workload", name, known, otherwise);
        return Err(SimError::UnknownWorkload(unknown));
    };
    let text = fill_params(&text, &params, &WORKLOAD).map_err(wrong)?;
    Ok(Text::Toml { origin, text, given: &typed[name.len()..] })
}

fn origin_of(name: &str) -> String {
    format!("workloads/{name}.toml")
}
