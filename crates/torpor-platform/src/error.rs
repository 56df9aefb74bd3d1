// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What went wrong, told so that the reader can mend it without opening this source.

use std::path::PathBuf;
use torpor_toml::{Problem, render};

#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    #[error(
        "`{name}` is not a known platform\n  = known: {}\n  = hint: {}",
        known.join(", "),
        match suggestion {
            Some(suggestion) => format!("did you mean `{suggestion}`?"),
            None => "for a file of your own, give its path, ending in `.toml`".to_owned(),
        }
    )]
    UnknownName { name: String, suggestion: Option<String>, known: Vec<&'static str> },

    #[error("platform `{typed}`: {reason}")]
    Param { typed: String, reason: String },

    #[error("{action} `{}`: {source}", path.display())]
    Io { path: PathBuf, action: &'static str, source: std::io::Error },

    #[error("read platform `{origin}`: {}", render(origin, problems))]
    Invalid { origin: String, problems: Vec<Problem> },

    #[error("import platform from `{}`: {reason}\n  = hint: {hint}", root.display())]
    Import { root: PathBuf, reason: String, hint: String },
}
