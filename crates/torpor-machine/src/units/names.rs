// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The error for an unknown name of any kind, with the valid ones and a hint.

use std::fmt;

/// An unknown name, and the valid ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// Kind of thing, such as `governor` or `platform`.
    pub kind: String,
    pub name: String,
    /// Known names.
    pub known: Vec<String>,
    /// Hint if no name is near: how a file is given.
    pub otherwise: String,
}

impl UnknownName {
    pub fn new<'a>(
        kind: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
        otherwise: impl Into<String>,
    ) -> UnknownName {
        UnknownName {
            kind: kind.to_owned(),
            name: name.to_owned(),
            known: known.into_iter().map(str::to_owned).collect(),
            otherwise: otherwise.into(),
        }
    }

    /// The known name that was most likely meant.
    pub fn suggestion(&self) -> Option<&str> {
        closest(&self.name, self.known.iter().map(String::as_str))
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownName { kind, name, known, otherwise } = self;
        write!(f, "no {kind} is called `{name}`: ")?;
        // A list may be long.
        if let Some(near) = self.suggestion() {
            writeln!(f, "did you mean `{near}`?")?;
        }
        write!(f, "expected one of {}", known.join(", "))?;
        match self.suggestion() {
            None if !otherwise.is_empty() => write!(f, "\nhint: {otherwise}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for UnknownName {}

/// The candidate most similar to `word`, if one is similar enough to suggest.
pub fn closest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_name_is_suggested() {
        let unknown = |name| UnknownName::new("governor", name, ["menu", "teo"], "give PATH.c");
        assert_eq!(
            unknown("meno").to_string(),
            "no governor is called `meno`: did you mean `menu`?\nexpected one of menu, teo"
        );
        assert_eq!(
            unknown("zzz").to_string(),
            "no governor is called `zzz`: expected one of menu, teo\nhint: give PATH.c"
        );
    }
}
