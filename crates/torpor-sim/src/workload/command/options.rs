// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Words and options of a command line, with their places.

use std::ops::Range;
use torpor_machine::toml::{Finding, Report};
use torpor_machine::units::closest;

pub(super) struct Word {
    pub text: String,
    pub span: Range<usize>,
}

/// A command line, split into words as a shell does, without expansions.
pub(super) struct Line {
    pub whole: String,
    pub words: Vec<Word>,
}

/// An option with its value, if any.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub key: String,
    pub value: Option<String>,
    pub span: Range<usize>,
}

/// An option that a program has.
pub(super) struct Known {
    /// Names without dashes; short options are one letter.
    pub names: &'static [&'static str],
    pub takes_value: bool,
}

impl Line {
    pub(super) fn split(report: &mut Report<'_>, text: &str) -> Option<Line> {
        let mut line = Line { whole: text.trim().to_owned(), words: Vec::new() };
        let (mut word, mut quote) = (None::<Word>, None);
        for (at, c) in text.char_indices() {
            match quote {
                Some((mark, _)) if c == mark => quote = None,
                None if c == '"' || c == '\'' => {
                    quote = Some((c, at));
                    word.get_or_insert_with(|| Word { text: String::new(), span: at..at });
                }
                None if c.is_whitespace() => line.words.extend(word.take()),
                _ => {
                    let new = || Word { text: String::new(), span: at..at };
                    word.get_or_insert_with(new).text.push(c);
                }
            }
            if let Some(word) = &mut word {
                word.span.end = at + c.len_utf8();
            }
        }
        if let Some((_, at)) = quote {
            report.push(Finding {
                span: at..at + 1,
                key: "command".to_owned(),
                message: "this quote is not closed".to_owned(),
                ..Finding::default()
            });
            return None;
        }
        line.words.extend(word);
        Some(line)
    }

    pub(super) fn finding(&self, word: Option<&Word>, message: &str, allowed: &[&str]) -> Finding {
        let (span, value) = word.map_or((0..0, None), |w| (w.span.clone(), Some(w.text.clone())));
        let near = word.and_then(|w| closest(&w.text, allowed.iter().copied()));
        Finding {
            span,
            key: "command".to_owned(),
            value,
            message: message.to_owned(),
            allowed: Some(allowed.join(", ")),
            hint: near.map(|near| format!("did you mean `{near}`?")),
        }
    }

    /// Returns the options among the words from `first` on, `--name value`, `--name=value`, `-n value` or
    /// `-nvalue`, and the other words.
    pub(super) fn options(
        &self,
        report: &mut Report<'_>,
        first: usize,
        known: &[Known],
    ) -> (Vec<Setting>, Vec<&Word>) {
        let (mut settings, mut others) = (Vec::new(), Vec::new());
        let mut words = self.words.iter().skip(first).peekable();
        while let Some(word) = words.next() {
            let (name, mut value) =
                match (word.text.strip_prefix("--"), word.text.strip_prefix('-')) {
                    (Some(long), _) => match long.split_once('=') {
                        Some((name, value)) => (name, Some(value.to_owned())),
                        None => (long, None),
                    },
                    (None, Some(short)) if !short.is_empty() => {
                        let (name, rest) =
                            short.split_at(short.chars().next().map_or(0, char::len_utf8));
                        (name, (!rest.is_empty()).then(|| rest.to_owned()))
                    }
                    _ => {
                        others.push(word);
                        continue;
                    }
                };
            let Some(option) = known.iter().find(|k| k.names.contains(&name)) else {
                let all: Vec<String> =
                    known.iter().flat_map(|k| k.names).map(|name| dashed(name)).collect();
                let near = closest(name, known.iter().flat_map(|k| k.names).copied());
                report.push(Finding {
                    span: word.span.clone(),
                    key: "command".to_owned(),
                    value: Some(word.text.clone()),
                    message: "unknown option".to_owned(),
                    allowed: Some(all.join(", ")),
                    hint: near.map(|near| format!("did you mean `{}`?", dashed(near))),
                });
                // Skip its value, if one follows.
                words.next_if(|next| !next.text.starts_with('-'));
                continue;
            };
            let mut span = word.span.clone();
            if option.takes_value && value.is_none() {
                if let Some(next) = words.next() {
                    (value, span.end) = (Some(next.text.clone()), next.span.end);
                }
            }
            settings.push(Setting { key: option.names[0].to_owned(), value, span });
        }
        (settings, others)
    }
}

fn dashed(name: &str) -> String {
    if name.len() == 1 { format!("-{name}") } else { format!("--{name}") }
}

impl Setting {
    /// Returns the place of its value, which is last.
    pub(super) fn value_span(&self) -> Range<usize> {
        let length = self.value.as_ref().map_or(0, String::len);
        let start = if length > 0 { self.span.end.saturating_sub(length) } else { self.span.start };
        start..self.span.end
    }

    pub(super) fn finding(&self, message: &str, allowed: Option<String>) -> Finding {
        Finding {
            span: self.span.clone(),
            key: self.key.clone(),
            value: self.value.clone(),
            message: message.to_owned(),
            allowed,
            hint: None,
        }
    }
}
