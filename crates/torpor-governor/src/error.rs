// SPDX-License-Identifier: MIT OR GPL-2.0-only
use crate::Fault;
use std::path::PathBuf;

/// Why a governor cannot be named, found, compiled, loaded or set up.
#[derive(Debug, thiserror::Error)]
pub enum GovernorError {
    #[error("governor `{text}`: {reason}; expected {}", crate::spec::FORMS)]
    Spec { text: String, reason: String },

    #[error(
        "no governor is called `{name}`; built in are {known}\n\
         hint: a file needs a path with `.c` (`./{name}.c`), a kernel tree an `@` (`{name}@TREE`)"
    )]
    Unknown { name: String, known: String },

    #[error("governor `{governor}`: read {}: {source}", path.display())]
    Read { governor: String, path: PathBuf, source: std::io::Error },

    #[error("governor `{governor}`: {} has no {wanted}{}", tree.display(), hint_line(hint))]
    NotInTree { governor: String, tree: PathBuf, wanted: String, hint: String },

    #[error("governor `{governor}`: git show in {}: {message}", tree.display())]
    Git { governor: String, tree: PathBuf, message: String },

    #[error("governor `{governor}` does not compile: {summary}{}\n{message}", hint_line(hint))]
    Compile { governor: String, summary: String, hint: String, message: String },

    #[error(
        "no C compiler: `{compiler}` could not be started: {source}\n\
         hint: install gcc or clang, or name one in $CC"
    )]
    NoCompiler { compiler: String, source: std::io::Error },

    #[error("no program can be made with the sanitizers: {summary}{}\n{message}", hint_line(hint))]
    NoSanitizer { summary: String, hint: String, message: String },

    #[error("write the cache directory {}: {source}", path.display())]
    Cache { path: PathBuf, source: std::io::Error },

    #[error("governor `{governor}`: its image cannot be loaded: {reason}")]
    Image { governor: String, reason: String },

    #[error("governor `{governor}` has no parameter `{param}`; {known}")]
    UnknownParam { governor: String, param: String, known: String },

    #[error("governor `{governor}`: `{value}` is no value for {param}: expected {expected}")]
    ParamValue { governor: String, param: String, value: String, expected: String },

    #[error("governor `{governor}`: {reason}")]
    Setup { governor: String, reason: String },

    #[error("governor `{governor}`: {call} refused with error {code}")]
    Refused { governor: String, call: &'static str, code: i32 },

    #[error(
        "no memory for an instance of governor `{governor}`: {source}\n\
         hint: each CPU takes four mappings; raise the sysctl vm.max_map_count for very many"
    )]
    Memory { governor: String, source: std::io::Error },

    #[error(transparent)]
    Fault(#[from] Fault),
}

fn hint_line(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("\nhint: {hint}") }
}
