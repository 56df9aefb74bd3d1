// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Where in a file a hunk goes, or why nowhere.
//!
//! Every line must be equal; no context is dropped (`patch` calls that fuzz). An offset is fine as
//! long as the place is certain. A place that is taken here is also the one that `git apply` takes.

use crate::apply::Reason;
use crate::diff::{Hunk, Op};
use std::ops::Range;

/// A file while the hunks of one diff are applied to it.
pub(crate) struct Image<'a> {
    /// The lines before the patch.
    original: Vec<&'a [u8]>,
    /// With the hunks so far. Lines have their line end.
    lines: Vec<&'a [u8]>,
    /// The lines of the latest hunk; no hunk goes above or into them.
    latest: Range<usize>,
    /// Position in `lines` less position in `original`, below the latest hunk.
    growth: i64,
    /// Distance of the latest hunk from where its header says.
    offset: i64,
    path: &'a str,
}

/// A hunk without a place.
#[derive(Debug)]
pub(crate) struct Misplaced {
    pub(crate) reason: Reason,
    /// Position of the first line that differs.
    pub(crate) at: usize,
    pub(crate) expected: Option<Vec<u8>>,
    pub(crate) found: Option<Vec<u8>>,
}

impl<'a> Image<'a> {
    pub(crate) fn new(path: &'a str, content: &'a [u8]) -> Image<'a> {
        let lines: Vec<&[u8]> = content.split_inclusive(|&byte| byte == b'\n').collect();
        Image { original: lines.clone(), lines, latest: 0..0, growth: 0, offset: 0, path }
    }

    /// The lines to look at for one hunk.
    pub(crate) fn line_count(&self) -> usize {
        self.lines.len()
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        self.lines.concat()
    }

    /// Applies a hunk. Returns how many lines below the place of its header it is.
    pub(crate) fn apply(&mut self, hunk: &'a Hunk) -> Result<i64, Misplaced> {
        let old: Vec<&[u8]> = hunk.old().collect();
        let new: Vec<&[u8]> = hunk.new_lines().collect();
        let place = self.find(hunk, &old, &new)?;
        let original = place as i64 - self.growth;
        self.offset = original - (i64::from(hunk.old_start.max(1)) - 1);
        self.growth += new.len() as i64 - old.len() as i64;
        self.latest = place..place + new.len();
        self.lines.splice(place..place + old.len(), new);
        Ok(self.offset)
    }

    fn find(&self, hunk: &Hunk, old: &[&[u8]], new: &[&[u8]]) -> Result<usize, Misplaced> {
        let misplaced = |reason, at| Misplaced { reason, at, expected: None, found: None };
        let (first, last) = (hunk.lines.first(), hunk.lines.last());
        let is_context =
            |line: Option<&crate::diff::Line>| line.is_some_and(|l| l.op == Op::Context);
        // Git's rules: a hunk without lines below it ends the file, one at line 1 begins it.
        let (begins, ends) = (hunk.old_start <= 1, !is_context(last));
        let expected = self.expected(hunk);
        if old.is_empty() {
            return match self.lines.is_empty() {
                true => Ok(0),
                false => Err(misplaced(Reason::NoContext, expected)),
            };
        }
        let end = self.lines.len().checked_sub(old.len());
        let places = matches(&self.lines, old);
        let allowed: Vec<usize> = places
            .iter()
            .copied()
            .filter(|&place| (!begins || place == 0) && (!ends || Some(place) == end))
            .filter(|&place| !overlaps(place..place + old.len(), &self.latest))
            .collect();
        let Some((place, tied)) = nearest(&allowed, expected) else {
            return Err(match places.first() {
                Some(&at) if ends && !begins && !is_context(first) => {
                    misplaced(Reason::NoContext, at)
                }
                Some(&at) if ends => misplaced(Reason::NotAtEnd, at + old.len()),
                Some(&at) if begins => misplaced(Reason::NotAtStart, at),
                Some(&at) => misplaced(Reason::OutOfOrder, at),
                None => self.diagnose(hunk, old, new, expected),
            });
        };
        // Git searches from here, whatever the offset of earlier hunks was.
        let by_header = hunk.new_start.saturating_sub(1) as usize;
        let (other, other_tied) = nearest(&allowed, by_header).expect("there is a place");
        if let Some(second) = tied.or(other_tied).or(Some(other).filter(|&other| other != place)) {
            let second = second as u32 + 1;
            return Err(misplaced(Reason::SeveralPlaces { second }, place));
        }
        if place < self.latest.end {
            return Err(misplaced(Reason::OutOfOrder, place));
        }
        self.check_heading(hunk, place)?;
        Ok(place)
    }

    /// The position by the header and the offset of the hunk before.
    fn expected(&self, hunk: &Hunk) -> usize {
        let original = i64::from(hunk.old_start.max(1)) - 1 + self.offset;
        usize::try_from(original + self.growth).unwrap_or(0).min(self.lines.len())
    }

    /// Checks that the line named by `@@ ... @@ heading` is the last of its kind above the hunk.
    fn check_heading(&self, hunk: &Hunk, place: usize) -> Result<(), Misplaced> {
        if hunk.heading.is_empty() {
            return Ok(());
        }
        let original = usize::try_from(place as i64 - self.growth).unwrap_or(0);
        let above = &self.original[..original.min(self.original.len())];
        if !is_c(self.path) {
            // Each language has its own rule.
            let is_heading = |line: &&[u8]| line.trim_ascii_start().starts_with(&hunk.heading);
            if above.iter().any(is_heading) {
                return Ok(());
            }
        }
        let heads =
            || above.iter().rev().filter(|line| is_head(line)).map(|line| line.trim_ascii_end());
        // The rules of `diff -p`, of git for C, and of git for C before 1.9.
        let rules: [fn(&[u8]) -> bool; 3] = [|_| true, |line| !is_label(line), is_definition];
        let found = rules.map(|rule| heads().find(|line| rule(line)));
        if found.iter().flatten().any(|line| is_same(line, &hunk.heading)) {
            return Ok(());
        }
        Err(Misplaced {
            reason: Reason::OtherFunction,
            at: place,
            expected: Some(hunk.heading.clone()),
            found: found[1].map(<[u8]>::to_vec),
        })
    }

    /// Says what is there instead of a hunk that is nowhere.
    fn diagnose(&self, hunk: &Hunk, old: &[&[u8]], new: &[&[u8]], expected: usize) -> Misplaced {
        let done = nearest(&matches(&self.lines, new), expected).map(|(place, _)| place);
        let adds =
            hunk.lines.iter().any(|line| line.op == Op::Add && !line.text.trim_ascii().is_empty());
        // Context alone proves a removal only where it was.
        if let Some(at) =
            done.filter(|at| !new.is_empty() && (adds || at.abs_diff(expected) <= NEAR_LINES))
        {
            return Misplaced { reason: Reason::AlreadyApplied, at, expected: None, found: None };
        }
        let black = |lines: &[&[u8]]| -> Vec<Vec<u8>> {
            let of_line =
                |line: &&[u8]| line.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
            lines.iter().map(of_line).collect()
        };
        let (black_lines, black_old) = (black(&self.lines), black(old));
        let without_space = nearest(&matches(&black_lines, &black_old), expected);
        let (reason, place) = match without_space {
            Some((place, _)) => (Reason::LostSpace, place),
            None => (Reason::Differs, self.most_similar(old, expected)),
        };
        let differs = |index: &usize| self.lines.get(place + index).copied() != Some(old[*index]);
        let first = (0..old.len()).find(differs).unwrap_or(0);
        Misplaced {
            reason,
            at: place + first,
            expected: Some(old[first].to_vec()),
            found: self.lines.get(place + first).map(|line| line.to_vec()),
        }
    }

    /// The position at which most lines are equal, the nearest of them.
    fn most_similar(&self, old: &[&[u8]], expected: usize) -> usize {
        if self.lines.len().saturating_mul(old.len()) > SIMILAR_WORK_MAX {
            return expected;
        }
        let equal = |place: usize| {
            let pairs = self.lines[place..].iter().zip(old);
            // Blank lines and braces are everywhere.
            pairs.filter(|(line, old)| line == old && old.trim_ascii().len() > 1).count()
        };
        let places = 0..self.lines.len();
        let best =
            places.max_by_key(|&place| (equal(place), usize::MAX - place.abs_diff(expected)));
        best.filter(|&place| equal(place) > 0).unwrap_or(expected)
    }
}

/// Lines from its place at which a removed text counts as removed before.
const NEAR_LINES: usize = 100;
/// Comparisons of lines for one message.
const SIMILAR_WORK_MAX: usize = 10_000_000;

fn overlaps(one: Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Returns the position nearest to another, and a second one that is as near.
fn nearest(places: &[usize], to: usize) -> Option<(usize, Option<usize>)> {
    let place = *places.iter().min_by_key(|place| place.abs_diff(to))?;
    let is_tied = |other: &&usize| **other != place && other.abs_diff(to) == place.abs_diff(to);
    Some((place, places.iter().find(is_tied).copied()))
}

/// Returns all positions of some lines within others, overlapping ones too, in linear time
/// (Knuth, Morris and Pratt).
fn matches<T: PartialEq>(lines: &[T], wanted: &[T]) -> Vec<usize> {
    if wanted.is_empty() || wanted.len() > lines.len() {
        return Vec::new();
    }
    let mut places = Vec::new();
    let mut borders = vec![0; wanted.len()];
    let mut matched = 0;
    for index in 1..wanted.len() {
        while matched > 0 && wanted[index] != wanted[matched] {
            matched = borders[matched - 1];
        }
        matched += usize::from(wanted[index] == wanted[matched]);
        borders[index] = matched;
    }
    matched = 0;
    for (index, line) in lines.iter().enumerate() {
        while matched > 0 && *line != wanted[matched] {
            matched = borders[matched - 1];
        }
        matched += usize::from(*line == wanted[matched]);
        if matched == wanted.len() {
            places.push(index + 1 - matched);
            matched = borders[matched - 1];
        }
    }
    places
}

fn is_c(path: &str) -> bool {
    [".c", ".h"].iter().any(|end| path.ends_with(end))
}

/// The default rule of git and of `diff -p` for the line after `@@`.
fn is_head(line: &[u8]) -> bool {
    line.first().is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$')
}

fn is_label(line: &[u8]) -> bool {
    let name =
        line.iter().take_while(|&&byte| byte.is_ascii_alphanumeric() || byte == b'_').count();
    line.get(name) == Some(&b':')
}

/// The first line of a function or type, and no variable.
fn is_definition(line: &[u8]) -> bool {
    let is_type =
        [b"struct ".as_slice(), b"union ", b"enum "].iter().any(|tag| line.starts_with(tag));
    (is_type || line.contains(&b'(')) && !line.contains(&b';')
}

/// The shortest heading that was cut: `diff -p` keeps 40 bytes, git 80.
const CUT_MIN: usize = 24;

/// Whether a line is the one that a heading was cut from, or declares the same name.
fn is_same(line: &[u8], heading: &[u8]) -> bool {
    line == heading
        || heading.len() >= CUT_MIN && line.starts_with(heading)
        || declared(line).is_some_and(|name| declared(heading) == Some(name))
}

/// The function of a line, or the type; none of a macro, which many functions can use.
fn declared(line: &[u8]) -> Option<&[u8]> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match line.iter().position(|&byte| byte == b'(') {
        Some(open) => {
            let before = line[..open].trim_ascii_end();
            let length = before.iter().rev().take_while(|byte| is_name(byte)).count();
            let name = &before[before.len() - length..];
            name.iter().any(u8::is_ascii_lowercase).then_some(name)
        }
        None => {
            let tags = [b"struct ".as_slice(), b"union ", b"enum "];
            let tag = tags.iter().position(|tag| line.starts_with(tag))?;
            let name = &line[tags[tag].len()..];
            let length = name.iter().take_while(|byte| is_name(byte)).count();
            (length > 0).then(|| &line[..tags[tag].len() + length])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_positions_are_found() {
        assert_eq!(matches(b"aabaabaa", b"aabaa"), [0, 3]);
        assert_eq!(matches(b"aaaa", b"aa"), [0, 1, 2]);
        assert!(matches(b"ab", b"abc").is_empty());
    }

    #[test]
    fn two_equally_near_places_are_tied() {
        assert_eq!(nearest(&[2, 8], 5), Some((2, Some(8))));
        assert_eq!(nearest(&[2, 8], 6), Some((8, None)));
        assert_eq!(nearest(&[], 6), None);
    }

    #[test]
    fn headings_may_be_cut_or_have_other_arguments() {
        let line =
            b"static int menu_select(struct cpuidle_driver *drv, struct cpuidle_device *dev,";
        assert!(is_same(line, b"static int menu_select(struct cpuidle_dr"));
        assert!(is_same(line, b"static int menu_select(void)"));
        assert!(!is_same(line, b"static int menu_enable_device(struct cpu"));
        assert!(!is_same(b"SYSCALL_DEFINE1(a)", b"SYSCALL_DEFINE1(b)"));
        assert!(is_same(b"struct menu_device {", b"struct menu_device"));
    }
}
