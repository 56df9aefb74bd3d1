// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Names of kernel trees, with patches on top: `TREE`, `TREE:REV`, `TREE:REV+SERIES:N`.

use std::fmt;
use std::path::{Path, PathBuf};

/// A kernel tree as the user typed it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TreeSpec {
    text: String,
    /// A folder, a tarball, or the version of a packaged source.
    pub tree: PathBuf,
    /// Revision, if the tree is a git repository.
    pub rev: Option<String>,
    /// Patches to apply.
    pub series: Option<SeriesSpec>,
}

/// Some patches of a series, from the first to the last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeriesSpec {
    /// A mailbox, a mail, a diff, or a folder of patches.
    pub path: PathBuf,
    /// Number of the first patch, from 1.
    pub first: u32,
    /// Number of the last; all by default.
    pub last: Option<u32>,
}

impl TreeSpec {
    /// Parses a name. A path that exists is taken as it is, with any `:` or `+` in it.
    pub fn parse(text: &str) -> Result<TreeSpec, String> {
        if let Some((base, series)) = split_series(text) {
            let base = TreeSpec::parse(base)?;
            return Ok(TreeSpec { text: text.to_owned(), series: Some(series), ..base });
        }
        let (tree, rev) = match text.rsplit_once(':').filter(|_| !Path::new(text).exists()) {
            Some((_, "")) => return Err("the revision after `:` is empty".to_owned()),
            Some((tree, rev)) if rev.starts_with('-') => {
                return Err(format!("`{rev}` is not a revision of `{tree}`"));
            }
            Some((tree, rev)) => (tree, Some(rev.to_owned())),
            None => (text, None),
        };
        if tree.is_empty() {
            return Err("the tree is empty".to_owned());
        }
        Ok(TreeSpec { text: text.to_owned(), tree: tree.into(), rev, series: None })
    }

    /// Returns the name of a path, whatever is in it.
    pub fn whole(path: &str) -> TreeSpec {
        TreeSpec { text: path.to_owned(), tree: path.into(), rev: None, series: None }
    }
}

impl fmt::Display for TreeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Splits `BASE+SERIES` at a `+` after which there is a path. Without one, the last `+` counts if
/// the base is there: the error is then about the series.
fn split_series(text: &str) -> Option<(&str, SeriesSpec)> {
    if Path::new(text).exists() {
        return None;
    }
    let parts = || text.rmatch_indices('+').map(|(at, _)| (&text[..at], &text[at + 1..]));
    let parts = || parts().filter(|(base, series)| !base.is_empty() && !series.is_empty());
    let has_path = |series: &str| parse_series(series).path.exists();
    let (base, series) = parts().find(|(_, series)| has_path(series)).or_else(|| {
        let is_there = |base: &str| {
            let base = TreeSpec::parse(base).ok()?;
            crate::tree::locate(&base.tree)
        };
        parts().find(|(base, _)| is_there(base).is_some())
    })?;
    Some((base, parse_series(series)))
}

/// Parses `SERIES`, `SERIES:LAST` or `SERIES:FIRST-LAST`.
fn parse_series(text: &str) -> SeriesSpec {
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or(("1", text));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        (1 <= first && first <= last).then_some((first, last))
    };
    let split = text.rsplit_once(':').filter(|_| !Path::new(text).exists());
    match split.and_then(|(path, numbers)| Some((path, range(numbers)?))) {
        Some((path, (first, last))) => SeriesSpec { path: path.into(), first, last: Some(last) },
        None => SeriesSpec { path: text.into(), first: 1, last: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_follows_the_plus_before_a_path() {
        let dir = tempfile::tempdir().unwrap();
        let name = |name: &str| format!("{}/{name}", dir.path().display());
        std::fs::write(name("a+b.mbox"), "").unwrap();
        let parsed = |text: &str| {
            let spec = TreeSpec::parse(text).unwrap();
            let series = spec.series.map(|s| (s.path.display().to_string(), s.first, s.last));
            (spec.tree.display().to_string(), spec.rev, series)
        };
        let series = |last| Some((name("a+b.mbox"), 1, last));
        let rev = Some("v6.18".to_owned());
        let text = name("a+b.mbox");
        assert_eq!(parsed(&format!("6.12+{text}")), ("6.12".into(), None, series(None)));
        assert_eq!(
            parsed(&format!("~/linux:v6.18+{text}:2")),
            ("~/linux".into(), rev, series(Some(2)))
        );
        let second = Some((text.clone(), 2, Some(3)));
        assert_eq!(parsed(&format!("6.12+{text}:2-3")), ("6.12".into(), None, second));
        assert_eq!(parsed(&text), (text.clone(), None, None), "it exists as a whole");
        let missing = Some(("missing.mbox".to_owned(), 1, None));
        let tree = dir.path().display().to_string();
        assert_eq!(parsed(&format!("{tree}+missing.mbox")), (tree, None, missing));
        assert_eq!(parsed("no+where"), ("no+where".into(), None, None));
    }
}
