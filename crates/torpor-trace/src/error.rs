// SPDX-License-Identifier: MIT OR GPL-2.0-only
use crate::format;
use thiserror::Error;

/// Why a recording could not be read at all.
///
/// A recording of which a part could be read is no error: it comes back as a
/// [`Trace`](crate::Trace) with a [`Loss`](crate::Loss) of severity `Damage`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    #[error("read trace `{name}`: {source}")]
    Io {
        name: String,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "read trace `{name}`: the file is empty (0 bytes)\n\
         hint: was the recorder stopped before it wrote anything, or the copy cut short?"
    )]
    Empty { name: String },
    #[error(
        "read trace `{name}`: offset 0: found {found}, expected one of: {}\nhint: {hint}",
        format::allowed()
    )]
    UnknownFormat { name: String, found: String, hint: String },
    #[error(
        "read trace `{name}` as {format}: offset {offset}: found {found}, expected {expected}\n\
         hint: {hint}"
    )]
    Malformed {
        name: String,
        format: &'static str,
        offset: u64,
        found: String,
        expected: String,
        hint: String,
    },
}

/// What a format's reader knows of its own failure; the file's name is added at the border.
#[derive(Debug)]
pub(crate) struct Malformed {
    pub offset: u64,
    pub found: String,
    pub expected: String,
    pub hint: &'static str,
}

impl Malformed {
    pub(crate) fn named(self, name: &str, format: &'static str) -> TraceError {
        TraceError::Malformed {
            name: name.to_owned(),
            format,
            offset: self.offset,
            found: self.found,
            expected: self.expected,
            hint: self.hint.to_owned(),
        }
    }
}
