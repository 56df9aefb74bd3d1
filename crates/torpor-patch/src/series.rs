// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A series of patches, in order.

use crate::diff::FileDiff;
use crate::error::{Located, PatchError};
use crate::letter::Letter;
use crate::order::{self, Chosen};
use crate::{mailbox, patch_id, source};
use std::ops::RangeInclusive;
use std::path::Path;

/// A series of patches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// The cover letter's title, or else the first patch's.
    pub subject: String,
    /// `1`, `2`, `1.1`.
    pub version: String,
    /// The cover letter's, or else the first patch's.
    pub message_id: Option<String>,
    /// The text of the cover letter.
    pub cover: Option<String>,
    /// From a trailer `base-commit:`.
    pub base_commit: Option<String>,
    /// From trailers `prerequisite-patch-id:`, in their order.
    pub prerequisites: Vec<String>,
    /// Numbers of earlier patches of the series that are not there.
    pub missing: Vec<u32>,
    /// What was decided in reading, for people.
    pub notes: Vec<String>,
    /// By number.
    pub patches: Vec<Patch>,
}

/// One patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Its number in the series, from 1.
    pub number: u32,
    pub total: u32,
    /// The title, without `[PATCH ...]`.
    pub subject: String,
    pub message_id: Option<String>,
    /// `Name <address>`.
    pub author: Option<String>,
    /// RFC 3339.
    pub date: Option<String>,
    /// The text above the diff.
    pub message: String,
    /// In the order of the diff; a path can occur twice.
    pub files: Vec<FileDiff>,
}

impl Patch {
    /// Returns git's stable patch id.
    pub fn patch_id(&self) -> String {
        patch_id::of_patch(&self.files)
    }
}

impl Series {
    /// Reads a file of mails, a mail, a diff, a maildir, or a folder of patches; `-` is standard
    /// input.
    ///
    /// # Errors
    /// Fails if the path cannot be read, if it holds no patch or more than one series, and for a
    /// patch that is damaged or leaves the tree.
    pub fn read(path: &Path) -> Result<Series, PatchError> {
        source::read(path)
    }

    /// Reads the content of a file of mails, a mail or a diff. `name` is for messages.
    ///
    /// # Errors
    /// Fails as [`Series::read`] does.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Series, PatchError> {
        let mut letters = Vec::new();
        add_mails(name, name, bytes, &mut letters)?;
        Series::from_chosen(name, order::choose(letters))
    }

    /// Returns the patches of a range of numbers.
    pub fn range(&self, range: RangeInclusive<u32>) -> impl Iterator<Item = &Patch> {
        self.patches.iter().filter(move |patch| range.contains(&patch.number))
    }

    /// Returns the id of the patches of a range: one patch has git's stable id, several have the
    /// SHA-1 of their ids, each with a line end.
    pub fn patch_id(&self, range: RangeInclusive<u32>) -> String {
        patch_id::of_series(self.range(range).map(Patch::patch_id))
    }

    pub(crate) fn from_chosen(
        name: &str,
        chosen: Result<Chosen, Located>,
    ) -> Result<Series, PatchError> {
        let chosen = chosen.map_err(|located| located.within(name, None))?;
        let letters = || chosen.cover.iter().chain(chosen.patches.values());
        let first = letters().next().expect("a series has a patch");
        let last = chosen.patches.keys().next_back().copied().unwrap_or_default();
        let trailers = |trailer: &str| -> Vec<String> {
            letters().flat_map(|letter| letter.trailers(trailer)).collect()
        };
        let mut notes = chosen.notes.clone();
        notes.extend(letters().flat_map(|letter| letter.notes.iter().cloned()));
        let mut series = Series {
            subject: first.title(),
            version: chosen.version.to_string(),
            message_id: first.fields.message_id.clone(),
            cover: chosen.cover.as_ref().map(Letter::message),
            base_commit: trailers("base-commit").into_iter().next(),
            prerequisites: trailers("prerequisite-patch-id"),
            missing: (1..last).filter(|number| !chosen.patches.contains_key(number)).collect(),
            notes,
            patches: Vec::new(),
        };
        let total = chosen.total.unwrap_or(last);
        for (number, letter) in chosen.patches {
            series.patches.push(patch(name, number, total, letter)?);
        }
        series.notes.extend(series.patches.iter().flat_map(lost_tabs));
        Ok(series)
    }
}

fn patch(name: &str, number: u32, total: u32, letter: Letter) -> Result<Patch, PatchError> {
    let (subject, message, author) = (letter.title(), letter.message(), letter.author());
    let mail = letter.subject();
    let diff = letter.diff.map_err(|located| located.within(name, Some(mail)))?;
    Ok(Patch {
        number,
        total,
        subject,
        message_id: letter.fields.message_id,
        author,
        date: letter.fields.date,
        message,
        files: diff.files,
    })
}

/// Reads the mails of one file. `label` names a mail without a subject.
pub(crate) fn add_mails(
    name: &str,
    label: &str,
    bytes: &[u8],
    letters: &mut Vec<Letter>,
) -> Result<(), PatchError> {
    use crate::error::Fault;
    use crate::limits;
    for mail in mailbox::split(bytes) {
        let label_of = || Some(label.to_owned()).filter(|_| label != name);
        let read = Letter::read(&mail, label).map_err(|at| at.within(name, label_of()))?;
        letters.extend(read);
        if letters.len() > limits::MAILS {
            let fault = Fault::TooMany { unit: "mails", max: limits::MAILS };
            return Err(Located::from(fault).within(name, None));
        }
    }
    Ok(())
}

/// Lines with a depth of two levels, below which a file without a tab proves nothing.
const INDENTED_MIN: usize = 3;

/// Notes C files whose lines are all indented by blanks. Applying is what proves the loss.
fn lost_tabs(patch: &Patch) -> Vec<String> {
    let is_c = |path: &str| [".c", ".h", ".S"].iter().any(|end| path.ends_with(end));
    let files = patch.files.iter().filter(|file| is_c(&file.path));
    let lost = files.filter(|file| {
        let lines = || file.hunks.iter().flat_map(|hunk| &hunk.lines);
        let indented = lines().filter(|line| line.text.starts_with(b"    ")).count();
        indented >= INDENTED_MIN && !lines().any(|line| line.text.contains(&b'\t'))
    });
    lost.map(|file| {
        format!(
            "patch {}: no line of `{}` has a tab: the mail may have lost its white space",
            patch.number, file.path
        )
    })
    .collect()
}
