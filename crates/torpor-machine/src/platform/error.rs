// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Errors that a reader can fix without opening this source.

use crate::toml::{Problem, render};
use crate::units::{UnknownName, unreadable};
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    #[error(transparent)]
    UnknownName(#[from] UnknownName),

    #[error("platform `{typed}`: {reason}")]
    Param { typed: String, reason: String },

    #[error("{action} `{}`: {}", path.display(), unreadable(path, source))]
    Io { path: PathBuf, action: &'static str, source: std::io::Error },

    #[error("read platform `{origin}`: {}", render(origin, problems))]
    Invalid { origin: String, problems: Vec<Problem> },

    #[error("import platform from `{}`: {reason}\nhint: {hint}", root.display())]
    Import { root: PathBuf, reason: String, hint: String },
}
