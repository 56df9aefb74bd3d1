// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Collects what is wrong with a file, with the place in its text.

use crate::toml::document::NOWHERE;
use crate::toml::problem::Problem;
use crate::toml::table::Table;
use std::ops::Range;

/// The widest line and value worth showing whole.
const SHOWN_CHARS_MAX: usize = 100;
pub(super) const RAW_CHARS_MAX: usize = 40;

pub struct Report<'a> {
    text: &'a str,
    problems: Vec<Problem>,
}

/// A [`Problem`] before its place is turned into line and column.
#[derive(Default)]
pub struct Finding {
    pub span: Range<usize>,
    pub key: String,
    pub value: Option<String>,
    pub message: String,
    pub allowed: Option<String>,
    pub hint: Option<String>,
}

impl<'a> Report<'a> {
    pub fn new(text: &'a str) -> Report<'a> {
        Report { text, problems: Vec::new() }
    }

    pub fn push(&mut self, finding: Finding) {
        let start = self.floor(finding.span.start);
        let end = self.floor(finding.span.end).max(start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at.saturating_add(1));
        let shown = self.text[line_start..].lines().next().unwrap_or("").trim_end();
        let shown_end = line_start.saturating_add(shown.len());
        let before = self.text[line_start..start].chars().count();
        let width = self.text[start..end.min(shown_end).max(start)].chars().count();
        let room = SHOWN_CHARS_MAX.saturating_sub(before).max(1);
        self.problems.push(Problem {
            line: match finding.span == NOWHERE {
                true => 0,
                false => self.text[..start].matches('\n').count().saturating_add(1),
            },
            column: before.saturating_add(1),
            key: finding.key,
            value: finding.value,
            message: finding.message,
            allowed: finding.allowed,
            hint: finding.hint,
            snippet: clip(&shown.replace('\t', " "), before.saturating_add(room)),
            width: width.min(room),
        });
    }

    /// Reports a value of `table` that is not allowed, and what is.
    pub fn reject(
        &mut self,
        table: &Table,
        key: &str,
        message: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        let allowed = Some(allowed.into());
        self.push(Finding { allowed, ..table.finding(key, message.into()) });
    }

    /// The text of a value, shortened if it is long.
    pub fn raw(&self, span: Range<usize>) -> String {
        let (start, end) = (self.floor(span.start), self.floor(span.end));
        clip(self.text[start..end.max(start)].lines().next().unwrap_or(""), RAW_CHARS_MAX)
    }

    /// The problems in the order of the file.
    pub fn finish(mut self) -> Vec<Problem> {
        self.problems.sort_by_key(|problem| (problem.line, problem.column));
        self.problems
    }

    fn floor(&self, at: usize) -> usize {
        let at = at.min(self.text.len());
        (0..=at).rev().find(|&at| self.text.is_char_boundary(at)).unwrap_or(0)
    }
}

pub(super) fn clip(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
