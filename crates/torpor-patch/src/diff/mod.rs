// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Unified diffs within the text of a mail: bytes → files → hunks.
//!
//! A file begins with `diff --git`, or with `---` and `+++` (quilt, Subversion, plain diff). A hunk
//! ends where its header's counts are used up; that is the only thing that tells its last line from
//! a signature or a list's footer.

mod file;
mod hunk;
mod path;

use crate::error::{Fault, Located};
use crate::limits;

pub(crate) use path::check as check_path;

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    /// The path in the tree after the patch; of a deleted file, before it.
    pub path: String,
    /// The source of a rename or copy.
    pub old_path: Option<String>,
    pub kind: Kind,
    /// Abbreviated ids of git's `index` line; zeros stand for no file.
    pub old_blob: Option<String>,
    pub new_blob: Option<String>,
    /// Git's extended header lines except `index`, in their order.
    pub headers: Vec<String>,
    pub hunks: Vec<Hunk>,
}

impl FileDiff {
    pub fn added(&self) -> usize {
        self.count(Op::Add)
    }

    pub fn removed(&self) -> usize {
        self.count(Op::Remove)
    }

    fn count(&self, op: Op) -> usize {
        self.hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.op == op).count()
    }

    /// The path to read before the patch, if there is one.
    pub fn source(&self) -> Option<&str> {
        match self.kind {
            Kind::Add => None,
            Kind::Rename | Kind::Copy => self.old_path.as_deref(),
            Kind::Modify | Kind::Delete | Kind::Binary => Some(&self.path),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Also a change of the mode alone.
    Modify,
    Add,
    Delete,
    Rename,
    Copy,
    /// Its content is not read, and it cannot be applied.
    Binary,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    pub old_start: u32,
    pub old_count: u32,
    pub new_start: u32,
    pub new_count: u32,
    /// The text after the second `@@`: a line above the hunk, often cut.
    pub heading: Vec<u8>,
    pub lines: Vec<Line>,
    /// The header's line in the decoded text of the mail, from 1.
    pub at_line: usize,
}

impl Hunk {
    /// The lines before the patch.
    pub fn old(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.side(Op::Add)
    }

    /// The lines after the patch.
    pub fn new_lines(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.side(Op::Remove)
    }

    fn side(&self, without: Op) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.lines.iter().filter(move |line| line.op != without).map(|line| line.text.as_slice())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub op: Op,
    /// With its line end, unless it is the last of a file without one.
    pub text: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Context,
    Add,
    Remove,
}

/// The lines of a text, and the next one to read.
struct Lines<'a> {
    lines: Vec<&'a [u8]>,
    at: usize,
}

impl<'a> Lines<'a> {
    fn get(&self, ahead: usize) -> Option<&'a [u8]> {
        self.lines.get(self.at + ahead).copied()
    }

    fn starts(&self, ahead: usize, prefix: &[u8]) -> bool {
        self.get(ahead).is_some_and(|line| line.starts_with(prefix))
    }

    fn fault<T>(&self, fault: Fault) -> Result<T, Located> {
        Err(Located::at(self.at, fault))
    }
}

/// The diff of a mail.
#[derive(Debug, Clone, Default)]
pub(crate) struct Diff {
    pub(crate) files: Vec<FileDiff>,
    /// The length in bytes of the text above it.
    pub(crate) text_bytes: usize,
}

/// Reads all files' diffs of a text; none is no error.
pub(crate) fn parse(text: &[u8]) -> Result<Diff, Located> {
    let mut lines = Lines { lines: text.split(|&byte| byte == b'\n').collect(), at: 0 };
    let mut diff = Diff { files: Vec::new(), text_bytes: text.len() };
    let (mut hunk_count, mut quoted) = (0, None);
    while let Some(line) = lines.get(0) {
        let start = lines.at;
        if let Some(file) = file::read(&mut lines)? {
            if diff.files.is_empty() {
                diff.text_bytes = lines.lines[..start].iter().map(|line| line.len() + 1).sum();
            }
            hunk_count += file.hunks.len();
            diff.files.push(file);
            too_many(diff.files.len(), limits::FILES, "files in a patch")?;
            too_many(hunk_count, limits::HUNKS, "hunks in a patch")?;
            continue;
        }
        if hunk::is_header(line) {
            // A message may quote one above its diff.
            if !diff.files.is_empty() {
                return lines.fault(Fault::StrayHunk);
            }
            quoted.get_or_insert(start);
        }
        lines.at += 1;
    }
    match quoted {
        Some(at) if diff.files.is_empty() => Err(Located::at(at, Fault::NoName)),
        _ => Ok(diff),
    }
}

fn too_many(count: usize, max: usize, unit: &'static str) -> Result<(), Located> {
    match count > max {
        true => Err(Fault::TooMany { unit, max }.into()),
        false => Ok(()),
    }
}
