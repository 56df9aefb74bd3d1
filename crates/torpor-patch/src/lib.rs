// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Patch mails: a series is read from a mailbox, a folder or a diff, and applied to a tree in
//! memory.
//!
//! [`Series::read`] decodes and orders the mails. [`apply()`] changes the files of a [`Base`] into an
//! [`Overlay`]; no context line may differ. Nothing of a mail is run and nothing is written.

#![warn(unreachable_pub)]

mod apply;
mod base;
mod diff;
mod error;
mod letter;
mod mailbox;
mod mime;
mod order;
mod patch_id;
mod place;
mod series;
mod source;
mod subject;

pub use apply::{Applied, Overlay, Reason, Reject, Rejects, apply, apply_within};
pub use base::{Base, Folder};
pub use diff::{FileDiff, Hunk, Kind, Line, Op};
pub use error::{Fault, PatchError};
pub use series::{Patch, Series};

/// The size limits of what is read.
pub mod limits {
    /// The bytes of a file of mails, and of all files of a folder together.
    pub const FILE_BYTES: usize = 64 << 20;
    /// Nested multipart bodies of a mail.
    pub const MIME_DEPTH: usize = 8;
    /// MIME parts of a mail.
    pub const MIME_PARTS: usize = 200;
    /// Mails of a file or folder.
    pub const MAILS: usize = 20_000;
    /// Patches of a series.
    pub const PATCHES: usize = 1000;
    /// Files that a patch changes.
    pub const FILES: usize = 10_000;
    /// Hunks of a patch.
    pub const HUNKS: usize = 100_000;
}
