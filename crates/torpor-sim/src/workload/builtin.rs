// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The workloads that ship with Torpor, and the lookup of a name on the command line.

use super::command::{is_command, of_command, of_job_file};
use super::keys::WORKLOAD;
use super::read::parse;
use super::rtapp::of_rtapp;
use super::{Workload, from_document, from_toml};
use crate::error::SimError;
use std::path::Path;
use torpor_machine::toml::{Builtins, Document, Typed, read_text};

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
    let (document, given) = read(typed)?;
    let mut workload = from_document(&document)?;
    workload.name += given;
    Ok(workload)
}

/// Returns what [`resolve`] reads.
pub fn document(typed: &str) -> Result<Document, SimError> {
    read(typed).map(|(document, _)| document)
}

/// Returns the document, and the parameters after its name.
fn read(typed: &str) -> Result<(Document, &str), SimError> {
    let path = Path::new(typed);
    if !path.is_file() && is_command(typed) {
        return Ok((of_command(typed)?, ""));
    }
    let open = |path: &Path| {
        read_text(path).map_err(|source| SimError::Read { path: path.to_owned(), source })
    };
    if typed.ends_with(".json") {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        return Ok((of_rtapp(typed, &name, &open(path)?)?, ""));
    }
    if typed.ends_with(".fio") {
        return Ok((of_job_file(typed, &open(path)?)?, ""));
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
    let mut document = parse(&origin, &text)?;
    parts.fill(&mut document, &WORKLOAD).map_err(wrong)?;
    Ok((document, parts.suffix))
}
