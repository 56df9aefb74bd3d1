// SPDX-License-Identifier: MIT OR GPL-2.0-only
use crate::guard::LastCall;
use crate::{Fault, Label};
use std::path::PathBuf;
use torpor_machine::units::{UnknownName, unreadable};

/// Error in finding, compiling, loading or setting up a governor or another policy.
#[derive(Debug, thiserror::Error)]
pub enum GovernorError {
    #[error("{policy}: {reason}; expected {}", crate::spec::forms(policy.kind))]
    Spec { policy: Label, reason: String },

    #[error(transparent)]
    Unknown(#[from] UnknownName),

    #[error("{policy}: read {}: {}", path.display(), unreadable(path, source))]
    Read { policy: Label, path: PathBuf, source: std::io::Error },

    #[error("{policy}: {} has no {wanted}{}", tree.display(), hint_line(hint))]
    NotInTree { policy: Label, tree: PathBuf, wanted: String, hint: String },

    #[error("{policy}: {message}")]
    Patch { policy: Label, message: String },

    #[error("{policy}: git in {}: {message}", tree.display())]
    Git { policy: Label, tree: PathBuf, message: String },

    #[error("{policy} does not compile: {summary}{}\n{message}", hint_line(hint))]
    Compile { policy: Label, summary: String, hint: String, message: String },

    #[error(
        "no C compiler: `{compiler}` could not be started: {source}\n\
         hint: install gcc or clang, or name one in $CC"
    )]
    NoCompiler { compiler: String, source: std::io::Error },

    #[error("no program can be made with the sanitizers: {summary}{}\n{message}", hint_line(hint))]
    NoSanitizer { summary: String, hint: String, message: String },

    #[error("{policy} is not compiled after {limit_s} s; its compiler was killed")]
    CompileTime { policy: Label, limit_s: u64 },

    #[error("interrupted")]
    Interrupted,

    #[error("the cache {} cannot be used: {source}", path.display())]
    Cache { path: PathBuf, source: std::io::Error },

    #[error(
        "the built-in policy {} cannot be used: {reason}\nhint: reinstall Torpor", path.display()
    )]
    Shipped { path: PathBuf, reason: String },

    #[error("{policy}: its image cannot be loaded: {reason}")]
    Image { policy: Label, reason: String },

    #[error("{policy} has no parameter `{param}`; {known}")]
    UnknownParam { policy: Label, param: String, known: String },

    #[error("{policy}: `{value}` is not a value for {param}: expected {expected}")]
    ParamValue { policy: Label, param: String, value: String, expected: String },

    #[error("{policy}: {reason}")]
    Setup { policy: Label, reason: String },

    #[error("{policy}: {call} refused with error {code}")]
    Refused { policy: Label, call: &'static str, code: i32 },

    #[error(
        "no memory for an instance of {policy}: {source}\n\
         hint: each CPU takes four mappings; raise the sysctl vm.max_map_count for very many"
    )]
    Memory { policy: Label, source: std::io::Error },

    /// The process of one or several policies has ended before its work.
    #[error(
        "{} has ended its process{}: {how}{}",
        any_of(policies), when(call.as_deref()), inputs(call.as_deref())
    )]
    Died { policies: Vec<Label>, call: Option<Box<LastCall>>, how: String },

    #[error("{}: no separate process can be started: {source}", any_of(policies))]
    Process { policies: Vec<Label>, source: std::io::Error },

    /// A message, for example from another process.
    #[error("{0}")]
    Other(String),

    #[error(transparent)]
    Fault(#[from] Fault),
}

fn any_of(policies: &[Label]) -> String {
    policies.iter().map(Label::to_string).collect::<Vec<_>>().join(" or ")
}

/// Names the last call, if it is known: a hosted kernel calls its policies itself.
fn when(call: Option<&LastCall>) -> String {
    match call {
        Some(LastCall { cpu, call, is_in_flight: true }) => format!(" in {}", call.at(*cpu)),
        Some(LastCall { cpu, call, .. }) => format!(" after {}", call.at(*cpu)),
        None => String::new(),
    }
}

fn inputs(call: Option<&LastCall>) -> String {
    call.map(|last| last.call.inputs().to_string()).unwrap_or_default()
}

fn hint_line(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("\nhint: {hint}") }
}
