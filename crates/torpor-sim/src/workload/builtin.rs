// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The workloads that ship with Torpor, and the lookup of a name on the command line.

use super::command::{is_command, job_file_to_toml, to_toml};
use super::keys::WORKLOAD;
use super::{Workload, from_rtapp, from_toml};
use crate::error::SimError;
use std::path::Path;
use torpor_machine::toml::{Builtins, Typed, read_text};

static WORKLOADS: Builtins = Builtins {
    kind: "workload",
    folder: "workloads",
    files: include!(concat!(env!("OUT_DIR"), "/builtins.rs")),
};

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
    let all = WORKLOADS.read_all(from_toml);
    all.map(|(name, text, workload)| Builtin { name, text, workload }).collect()
}

pub(super) fn is_builtin(name: &str) -> bool {
    WORKLOADS.contains(name)
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
        read_text(path).map_err(|source| SimError::Read { path: path.to_owned(), source })
    };
    if typed.ends_with(".json") {
        return Ok(Text::RtApp(open(path)?));
    }
    if typed.ends_with(".fio") {
        return Ok(toml(job_file_to_toml(typed, &open(path)?)?));
    }
    let wrong = |reason| SimError::Param { typed: typed.to_owned(), reason };
    let parts = Typed::new(typed).map_err(wrong)?;
    let (origin, text) = if parts.is_path() {
        (parts.name.to_owned(), open(Path::new(parts.name))?)
    } else {
        let hint = "for a file of your own, give its path, ending in `.toml` or `.json`";
        let (origin, text) = WORKLOADS.find(parts.name, hint).map_err(SimError::UnknownWorkload)?;
        (origin, text.to_owned())
    };
    let text = parts.fill(&text, &WORKLOAD).map_err(wrong)?;
    Ok(Text::Toml { origin, text, given: parts.suffix })
}
