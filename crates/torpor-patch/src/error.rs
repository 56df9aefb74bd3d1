// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Why patches cannot be read.

use std::fmt;

/// A file or mail that cannot be read as a series of patches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchError {
    /// The file or folder as it was named.
    pub name: String,
    /// The subject of the mail, or the file in a folder.
    pub mail: Option<String>,
    /// The line of the mail's decoded text, from 1.
    pub line: Option<usize>,
    pub fault: Fault,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{0}")]
    Unreadable(String),
    #[error("there are more than {max} {unit}")]
    TooMany { unit: &'static str, max: usize },
    #[error("there is no patch")]
    NoPatch,
    #[error("there is a cover letter, and no patch of its series")]
    OnlyCover,
    #[error("there is more than one series: {}", .0.join(", "))]
    SeveralSeries(Vec<String>),
    #[error("its {0} is damaged")]
    Encoding(&'static str),
    /// Lines were wrapped, or blanks and tabs were changed on the way.
    #[error("the mail lost white space: {0}")]
    LostSpace(&'static str),
    #[error("the hunk ends after {old} of {old_count} old lines and {new} of {new_count} new ones")]
    ShortHunk { old: u32, old_count: u32, new: u32, new_count: u32 },
    #[error("the hunk has more lines than its header says (-{old_count} +{new_count})")]
    LongHunk { old_count: u32, new_count: u32 },
    #[error("a hunk does not follow its file's names or the hunk before it")]
    StrayHunk,
    #[error("`{0}` is not the header of a hunk")]
    HunkHeader(String),
    #[error("the path `{path}` {why}")]
    Path { path: String, why: &'static str },
    #[error("`{path}` has mode {mode}: expected 100644 or 100755")]
    Mode { path: String, mode: String },
    #[error("the diff has no file name")]
    NoName,
    #[error("`{0}` is in `series`, and not in the folder")]
    NotInFolder(String),
    #[error("`{0}` has options in `series`: expected none, or `-p1`")]
    SeriesOption(String),
}

impl Fault {
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Fault::LostSpace(_)
            | Fault::ShortHunk { .. }
            | Fault::LongHunk { .. }
            | Fault::StrayHunk
            | Fault::HunkHeader(_)
            | Fault::Encoding(_) => {
                "fetch the raw mail: `b4 am MESSAGE-ID`, or https://lore.kernel.org/r/MESSAGE-ID/raw"
            }
            Fault::NoPatch => {
                "expected a mailbox, a mail, a diff, or a folder with `*.patch` files or a maildir"
            }
            Fault::OnlyCover => "`b4 am MESSAGE-ID` fetches the whole series",
            Fault::SeveralSeries(_) => "`b4 am MESSAGE-ID` writes one of them",
            _ => return None,
        })
    }
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use torpor_machine::units::shown::line;
        write!(f, "read patch `{}`: ", line(&self.name))?;
        if let Some(mail) = &self.mail {
            write!(f, "`{}`: ", line(mail))?;
        }
        if let Some(at) = self.line {
            write!(f, "line {at}: ")?;
        }
        match &self.fault {
            // Has lines of its own, with a hint.
            Fault::Unreadable(said) => f.write_str(said)?,
            fault => f.write_str(&line(&fault.to_string()))?,
        }
        match self.fault.hint() {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PatchError {}

/// A fault and its line, until the mail is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) line: Option<usize>,
    pub(crate) fault: Fault,
}

impl Located {
    /// `index`: of the line, from 0.
    pub(crate) fn at(index: usize, fault: Fault) -> Located {
        Located { line: Some(index + 1), fault }
    }

    pub(crate) fn within(self, name: &str, mail: Option<String>) -> PatchError {
        PatchError { name: name.to_owned(), mail, line: self.line, fault: self.fault }
    }
}

impl From<Fault> for Located {
    fn from(fault: Fault) -> Located {
        Located { line: None, fault }
    }
}
