// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Subjects of patch mails: `[PATCH RFT v2 3/7] cpuidle: ...`.

/// What a subject says about a mail's place in its series.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tags {
    pub(crate) is_reply: bool,
    /// One of the brackets says that this is a patch.
    pub(crate) is_patch: bool,
    pub(crate) version: Version,
    /// 0: the cover letter.
    pub(crate) number: Option<u32>,
    pub(crate) total: Option<u32>,
    /// The subject without brackets.
    pub(crate) title: String,
}

/// `v2`, `v1.1`; `[Update]` is later than the same version without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) is_update: bool,
}

impl Default for Version {
    fn default() -> Version {
        Version { major: 1, minor: 0, is_update: false }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.minor {
            0 => write!(f, "{}", self.major),
            minor => write!(f, "{}.{minor}", self.major),
        }
    }
}

const REPLIES: [&str; 8] = ["re:", "aw:", "sv:", "fw:", "fwd:", "vs:", "antw:", "forwarded:"];

impl Tags {
    pub(crate) fn parse(subject: &str) -> Tags {
        let mut tags = Tags::default();
        let mut rest = subject.trim();
        loop {
            if let Some(reply) = REPLIES.iter().find(|reply| has_prefix(rest, reply)) {
                tags.is_reply = true;
                rest = rest[reply.len()..].trim_start();
            } else if let Some((inside, after)) =
                rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
            {
                tags.read_bracket(inside);
                rest = after.trim_start();
            } else {
                tags.title = rest.to_owned();
                return tags;
            }
        }
    }

    fn read_bracket(&mut self, inside: &str) {
        let lower = inside.to_ascii_lowercase();
        let words: Vec<&str> =
            lower.split(|c: char| c.is_whitespace() || ",:;".contains(c)).collect();
        for (index, word) in words.iter().enumerate() {
            let pair = match words.get(index + 1) {
                Some(&"of") => words.get(index + 2).map(|total| (*word, *total)),
                _ => word.split_once('/'),
            };
            let numbers = pair.and_then(|(n, m)| Some((number(n)?, number(m)?)));
            if let Some((number, total)) = numbers {
                (self.number, self.total) = (Some(number), Some(total));
                self.is_patch = true;
            } else if let Some(version) = version(word) {
                (self.version.major, self.version.minor) = version;
            } else if let Some(after) = word.strip_prefix("patch") {
                self.is_patch = true;
                if let Some(version) = version(after.trim_start_matches(['-', '_'])) {
                    (self.version.major, self.version.minor) = version;
                }
            } else {
                self.is_patch |= *word == "rfc" || word.ends_with("/patch");
                self.version.is_update |= ["update", "updated"].contains(word);
            }
        }
    }
}

fn has_prefix(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Of at most six digits.
fn number(text: &str) -> Option<u32> {
    let is_number = (1..=6).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().expect("six digits"))
}

fn version(text: &str) -> Option<(u32, u32)> {
    let text = text.strip_prefix('v')?;
    match text.split_once('.') {
        Some((major, minor)) => Some((number(major)?, number(minor)?)),
        None => Some((number(text)?, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(subject: &str) -> (String, Option<u32>, Option<u32>) {
        let tags = Tags::parse(subject);
        assert!(tags.is_patch, "{subject}");
        assert_eq!(tags.title, "teo: x", "{subject}");
        (tags.version.to_string(), tags.number, tags.total)
    }

    #[test]
    fn subjects_give_version_and_place() {
        let of = |version: &str, number, total| (version.to_owned(), number, total);
        assert_eq!(place("[PATCH] teo: x"), of("1", None, None));
        assert_eq!(place("[PATCH RFT v2 3/7] teo: x"), of("2", Some(3), Some(7)));
        assert_eq!(place("[Update][PATCH v3 2/3] teo: x"), of("3", Some(2), Some(3)));
        assert_eq!(place("[PATCH v1.1 0/3] teo: x"), of("1.1", Some(0), Some(3)));
        assert_eq!(place("[list] [PATCHv4 RESEND 01/12] teo: x"), of("4", Some(1), Some(12)));
        assert_eq!(place("[RFC/PATCH V2,1/4] teo: x"), of("2", Some(1), Some(4)));
        assert_eq!(place("[PATCH 2 of 5 v6] teo: x"), of("6", Some(2), Some(5)));
        assert_eq!(place("[RFC][PATCH 0/2] teo: x"), of("1", Some(0), Some(2)));
    }

    #[test]
    fn replies_are_recognized() {
        for subject in ["Re: [PATCH] teo: x", "RE: Re: [PATCH] teo: x", "AW: [PATCH] teo: x"] {
            assert!(Tags::parse(subject).is_reply, "{subject}");
        }
        assert!(!Tags::parse("[PATCH] Re-enable x").is_reply);
        assert!(!Tags::parse("[open bracket").is_patch);
    }

    #[test]
    fn huge_numbers_are_no_places() {
        assert_eq!(Tags::parse("[PATCH 1/99999999999] x").total, None);
        assert_eq!(Tags::parse("[PATCH v99999999999] x").version, Version::default());
    }
}
