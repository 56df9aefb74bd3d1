// SPDX-License-Identifier: MIT OR GPL-2.0-only
use thiserror::Error;
use torpor_machine::units::{shown, unreadable};

/// The reason why a recording cannot be read at all.
///
/// A recording that can be read in part becomes a [`Trace`](crate::Trace) with a
/// [`Loss`](crate::Loss) of severity `Damage`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    #[error("read trace `{}`: {}", shown::line(name), unreadable(name.as_ref(), source))]
    Io {
        name: String,
        #[source]
        source: std::io::Error,
    },
    #[error("read trace `{}`: it is {found}\nhint: {hint}", shown::line(name))]
    Folder { name: String, found: &'static str, hint: String },
    #[error(
        "read trace `{}`: the file is empty (0 bytes)\n\
         hint: was the recorder stopped before it wrote anything, or the copy cut short?",
        shown::line(name)
    )]
    Empty { name: String },
    #[error(
        "read trace `{}`: offset 0: found {}, expected one of: {expected}\nhint: {hint}",
        shown::line(name),
        shown::line(found)
    )]
    UnknownFormat { name: String, found: String, expected: String, hint: String },
    #[error(
        "read trace `{}` as {format}: offset {offset}: found {}, expected {expected}\n\
         hint: {hint}",
        shown::line(name),
        shown::line(found)
    )]
    Malformed {
        name: String,
        format: &'static str,
        offset: u64,
        found: String,
        expected: String,
        hint: String,
    },
    #[error(
        "read trace `{}`: the file became shorter, or its disk failed, while it was being read\n\
         hint: wait until its recorder has finished, then read it again",
        shown::line(name)
    )]
    Shortened { name: String },
    #[error(
        "read trace `{}`: more than {max_bytes} bytes of input; a recording that is not a regular \
         file is held in memory\n\
         hint: write it to a file, which may have any size, and name that",
        shown::line(name)
    )]
    TooLarge { name: String, max_bytes: u64 },
    #[error(
        "read trace `{}`: its unpacked bytes and events take more than {:.3} GB of memory, which \
         is the bound\n\
         hint: the bound is half of the machine's memory and at most 8 GiB, or `--memory` of a \
         sweep; unpack the file first, or read a part of the recording",
        shown::line(name),
        *max_bytes as f64 / 1e9
    )]
    OverMemory { name: String, max_bytes: u64 },
    #[error("read trace `{}`: stopped before its end\nhint: read it again", shown::line(name))]
    Stopped { name: String },
}

/// An error of a format's reader, which does not know the file's name.
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
