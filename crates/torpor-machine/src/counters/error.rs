// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Errors of reading a snapshot.

/// Nothing could be read, or what was read contradicts itself.
#[derive(Debug, thiserror::Error)]
#[error("read counters `{name}`: {reason}\nhint: {hint}")]
pub struct CountersError {
    pub name: String,
    pub reason: String,
    pub hint: String,
}

/// Failure of a reader; [`Failure::named`] adds the file's name.
#[derive(Debug)]
pub(crate) struct Failure {
    pub reason: String,
    pub hint: String,
}

impl Failure {
    pub(crate) fn new(reason: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), hint: hint.into() }
    }

    pub(crate) fn named(self, name: &str) -> CountersError {
        CountersError { name: name.to_owned(), reason: self.reason, hint: self.hint }
    }
}
