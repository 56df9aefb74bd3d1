// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Applies patches to a tree in memory.

use crate::base::Base;
use crate::diff::{FileDiff, Hunk, Kind};
use crate::place::{Image, Misplaced};
use crate::series::{Patch, Series};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;

/// What patches make of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlay {
    /// The content of each changed file; None if it is deleted.
    pub files: BTreeMap<String, Option<Vec<u8>>>,
    pub applied: Vec<Applied>,
    /// The files outside the scope, whose changes were not applied.
    pub skipped: BTreeSet<String>,
}

/// The change of one file by one patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub patch: u32,
    pub path: String,
    /// Lines of the base below those that the hunks' headers name.
    pub offsets: Vec<i64>,
}

/// All that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejects(pub Vec<Reject>);

/// A hunk, or a file as a whole, that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    pub patch: u32,
    pub subject: String,
    pub path: String,
    /// From 1; None if the whole file is rejected.
    pub hunk: Option<usize>,
    pub hunk_count: usize,
    /// The text after the hunk's second `@@`.
    pub heading: String,
    /// The line in the file with the patches before this one, from 1.
    pub line: Option<usize>,
    /// The patch's line; with [`Reason::OtherFunction`], the heading.
    pub expected: Option<String>,
    /// The file's line; None at its end.
    pub found: Option<String>,
    pub reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("the base has no such file")]
    NoFile,
    #[error("the base has this file, and the patch creates it")]
    Exists,
    #[error("the base has other lines")]
    Differs,
    #[error("it fits at line {second} as well")]
    SeveralPlaces { second: u32 },
    #[error("it fits only in another function")]
    OtherFunction,
    #[error("the base has this change")]
    AlreadyApplied,
    #[error("only the white space differs: the mail may have lost it")]
    LostSpace,
    #[error("a binary patch is not applied")]
    Binary,
    #[error("it has no context, so its place is not certain")]
    NoContext,
    #[error("it must begin the file")]
    NotAtStart,
    #[error("it must end the file")]
    NotAtEnd,
    #[error("it fits only above or within the hunk before it")]
    OutOfOrder,
    #[error("the file has more lines than the patch deletes")]
    NotEmpty,
    #[error("the patches take too long to apply")]
    TooLong,
    #[error("the base's file cannot be read: {0}")]
    Unreadable(String),
}

impl Reason {
    /// A word for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Reason::NoFile => "no-file",
            Reason::Exists => "exists",
            Reason::Differs => "differs",
            Reason::SeveralPlaces { .. } => "several-places",
            Reason::OtherFunction => "other-function",
            Reason::AlreadyApplied => "already-applied",
            Reason::LostSpace => "lost-space",
            Reason::Binary => "binary",
            Reason::NoContext => "no-context",
            Reason::NotAtStart => "not-at-start",
            Reason::NotAtEnd => "not-at-end",
            Reason::OutOfOrder => "out-of-order",
            Reason::NotEmpty => "not-empty",
            Reason::TooLong => "too-long",
            Reason::Unreadable(_) => "unreadable",
        }
    }
}

/// Applies the patches of a range of numbers, one after the other.
///
/// # Errors
/// Fails with every hunk that does not apply. A file keeps the hunks that do, so that a later patch
/// is not rejected for lines that an earlier one brought.
pub fn apply(
    series: &Series,
    range: RangeInclusive<u32>,
    base: &dyn Base,
) -> Result<Overlay, Rejects> {
    apply_within(series, range, base, |_| true)
}

/// Applies what changes files in a scope. Other files are not read.
///
/// # Errors
/// Fails as [`apply()`] does.
pub fn apply_within(
    series: &Series,
    range: RangeInclusive<u32>,
    base: &dyn Base,
    is_within: impl Fn(&str) -> bool,
) -> Result<Overlay, Rejects> {
    let mut tree = Tree { base, overlay: Overlay::default(), rejects: Vec::new(), work: 0 };
    for patch in series.range(range) {
        for file in &patch.files {
            let paths = file.old_path.iter().chain([&file.path]);
            if paths.clone().any(|path| is_within(path)) {
                tree.apply(patch, file);
            } else {
                tree.overlay.skipped.insert(file.path.clone());
            }
        }
    }
    match tree.rejects.is_empty() {
        true => Ok(tree.overlay),
        false => Err(Rejects(tree.rejects)),
    }
}

/// Lines looked at for one series.
const WORK_MAX: usize = 1 << 31;

struct Tree<'a> {
    base: &'a dyn Base,
    overlay: Overlay,
    rejects: Vec<Reject>,
    /// Lines looked at so far.
    work: usize,
}

impl Tree<'_> {
    fn apply(&mut self, patch: &Patch, file: &FileDiff) {
        if let Err(reason) = self.try_apply(patch, file) {
            self.rejects.push(Reject::of_file(patch, file, reason));
        }
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Reason> {
        match self.overlay.files.get(path) {
            Some(content) => Ok(content.clone()),
            None => self.base.read(path).map_err(|error| Reason::Unreadable(error.to_string())),
        }
    }

    /// Fails if the file is rejected as a whole; hunks are rejected one by one.
    fn try_apply(&mut self, patch: &Patch, file: &FileDiff) -> Result<(), Reason> {
        if file.kind == Kind::Binary {
            return Err(Reason::Binary);
        }
        let before = match file.source() {
            Some(source) => self.read(source)?.ok_or(Reason::NoFile)?,
            None => Vec::new(),
        };
        let (after, offsets) = self.hunks(patch, file, &before)?;
        if let Kind::Add | Kind::Rename | Kind::Copy = file.kind {
            match self.read(&file.path)? {
                Some(there) if there == after && file.kind == Kind::Add => {
                    return Err(Reason::AlreadyApplied);
                }
                Some(_) => return Err(Reason::Exists),
                None => {}
            }
        }
        if file.kind == Kind::Delete && !after.is_empty() && offsets.len() == file.hunks.len() {
            return Err(Reason::NotEmpty);
        }
        if let (Kind::Rename, Some(old)) = (file.kind, &file.old_path) {
            self.overlay.files.insert(old.clone(), None);
        }
        let after = if file.kind == Kind::Delete { None } else { Some(after) };
        self.overlay.files.insert(file.path.clone(), after);
        let applied = Applied { patch: patch.number, path: file.path.clone(), offsets };
        self.overlay.applied.push(applied);
        Ok(())
    }

    /// Returns the file after the hunks that apply, and their offsets.
    fn hunks(
        &mut self,
        patch: &Patch,
        file: &FileDiff,
        before: &[u8],
    ) -> Result<(Vec<u8>, Vec<i64>), Reason> {
        let mut image = Image::new(file.source().unwrap_or(&file.path), before);
        let mut offsets = Vec::new();
        for (index, hunk) in file.hunks.iter().enumerate() {
            self.work += image.line_count() + hunk.lines.len();
            if self.work > WORK_MAX {
                return Err(Reason::TooLong);
            }
            match image.apply(hunk) {
                Ok(offset) => offsets.push(offset),
                Err(misplaced) => {
                    self.rejects.push(Reject::of_hunk(patch, file, index, hunk, misplaced));
                }
            }
        }
        Ok((image.content(), offsets))
    }
}

impl Reject {
    fn of_file(patch: &Patch, file: &FileDiff, reason: Reason) -> Reject {
        let path = match reason {
            Reason::NoFile => file.source().unwrap_or(&file.path),
            _ => &file.path,
        };
        Reject {
            patch: patch.number,
            subject: patch.subject.clone(),
            path: path.to_owned(),
            hunk: None,
            hunk_count: file.hunks.len(),
            heading: String::new(),
            line: None,
            expected: None,
            found: None,
            reason,
        }
    }

    fn of_hunk(
        patch: &Patch,
        file: &FileDiff,
        index: usize,
        hunk: &Hunk,
        misplaced: Misplaced,
    ) -> Reject {
        let text = |line: Vec<u8>| String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        Reject {
            hunk: Some(index + 1),
            heading: String::from_utf8_lossy(&hunk.heading).into_owned(),
            line: Some(misplaced.at + 1),
            expected: misplaced.expected.map(text),
            found: misplaced.found.map(text),
            ..Reject::of_file(patch, file, misplaced.reason)
        }
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use torpor_machine::units::shown::line;
        write!(f, "patch {}: `{}`", self.patch, line(&self.path))?;
        if let Some(hunk) = self.hunk {
            write!(f, ", hunk {hunk} of {}", self.hunk_count)?;
        }
        if !self.heading.is_empty() {
            write!(f, " (`{}`)", line(&self.heading))?;
        }
        if let Some(at) = self.line {
            write!(f, ", line {at}")?;
        }
        write!(f, ": {}", line(&self.reason.to_string()))?;
        if let Some(expected) = &self.expected {
            write!(f, "\n  expected `{}`", line(expected))?;
            match &self.found {
                Some(found) => write!(f, "\n  found    `{}`", line(found))?,
                None => f.write_str("\n  found    the end of the file")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Rejects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, reject) in self.0.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{reject}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejects {}
