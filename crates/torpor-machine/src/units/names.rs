// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The error for an unknown name of any kind, with the valid ones and a hint.

use std::fmt;

/// Names up to which an error has all; of more it has the nearest ones.
const LISTED: usize = 24;
const NEAREST: usize = 6;

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

    /// The known names that contain the unknown one, then those most similar to it.
    fn nearest(&self) -> Vec<&str> {
        let mut known: Vec<&str> = self.known.iter().map(String::as_str).collect();
        let likeness = |known: &str| match known.contains(&self.name) {
            true => 1.0,
            false => strsim::jaro_winkler(&self.name, known),
        };
        known.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
        known.truncate(NEAREST);
        known
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownName { kind, name, known, otherwise } = self;
        write!(f, "no {kind} is called `{name}`: ")?;
        if let Some(near) = self.suggestion() {
            writeln!(f, "did you mean `{near}`?")?;
        }
        match known.len() {
            ..=LISTED => write!(f, "expected one of {}", known.join(", "))?,
            count => {
                let near = self.nearest().join(", ");
                write!(f, "expected one of {count}, such as {near}; `torpor {kind} list` has all")?;
            }
        }
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

    #[test]
    fn long_list_shows_the_nearest_names() {
        let known: Vec<String> = (0..42).map(|n| format!("machine-{n}")).collect();
        let known = known.iter().map(String::as_str).chain(["rome-7502"]);
        assert_eq!(
            UnknownName::new("platform", "7502", known, "").to_string(),
            "no platform is called `7502`: expected one of 43, such as rome-7502, machine-0, \
             machine-1, machine-2, machine-3, machine-4; `torpor platform list` has all"
        );
    }
}
