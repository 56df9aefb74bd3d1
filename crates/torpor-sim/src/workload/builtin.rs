// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The workloads that ship with Torpor, and how a name on the command line becomes one.

use super::command::{is_command, job_file_to_toml, to_toml};
use super::{Workload, from_rtapp, from_toml};
use crate::error::SimError;
use std::path::Path;
use torpor_units::UnknownName;

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

/// Every workload that ships with Torpor, ordered by name.
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

/// The workload called `name_or_path`: a built-in name; a command line, such as
/// `perf bench sched pipe -l 1000`; or the path of a file, which is recognised by a `/` or its
/// ending: `.toml`, `.json` for rt-app's, or `.fio`.
pub fn resolve(name_or_path: &str) -> Result<Workload, SimError> {
    let is_file = Path::new(name_or_path).is_file();
    if !is_file && is_command(name_or_path) {
        return from_toml(name_or_path, &to_toml(name_or_path)?);
    }
    let (is_rtapp, is_fio) = (name_or_path.ends_with(".json"), name_or_path.ends_with(".fio"));
    if name_or_path.contains('/') || name_or_path.ends_with(".toml") || is_rtapp || is_fio {
        let path = Path::new(name_or_path);
        let text = torpor_units::open_input(path)
            .and_then(std::io::read_to_string)
            .map_err(|source| SimError::Read { path: path.to_owned(), source })?;
        return if is_fio {
            from_toml(name_or_path, &job_file_to_toml(name_or_path, &text)?)
        } else if is_rtapp {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            from_rtapp(name_or_path, &name, &text)
        } else {
            from_toml(name_or_path, &text)
        };
    }
    match FILES.iter().find(|(name, _)| *name == name_or_path) {
        Some((name, text)) => from_toml(&origin_of(name), text),
        None => {
            let known = FILES.iter().map(|(name, _)| *name);
            let otherwise = "for a file of your own, give its path, ending in `.toml` or `.json`";
            let unknown = UnknownName::new("workload", name_or_path, known, otherwise);
            Err(SimError::UnknownWorkload(unknown))
        }
    }
}

fn origin_of(name: &str) -> String {
    format!("workloads/{name}.toml")
}
