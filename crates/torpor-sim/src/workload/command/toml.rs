// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes the workload file that a command stands for.

use std::fmt::Write as _;

/// A workload file under construction.
pub(super) struct File {
    name: String,
    title: String,
    sources: Vec<String>,
    notes: Vec<String>,
    tables: String,
}

impl File {
    /// `name` may be any text; other characters than letters, digits, `-`, `_` and `.` become `-`.
    pub(super) fn new(name: &str, title: &str) -> File {
        File {
            name: fit(name),
            title: title.to_owned(),
            sources: Vec::new(),
            notes: Vec::new(),
            tables: String::new(),
        }
    }

    pub(super) fn source(mut self, text: impl Into<String>) -> File {
        self.sources.push(text.into());
        self
    }

    pub(super) fn note(mut self, text: impl Into<String>) -> File {
        self.notes.push(text.into());
        self
    }

    pub(super) fn table(mut self, text: &str) -> File {
        self.tables.push('\n');
        self.tables.push_str(text.trim_end());
        self.tables.push('\n');
        self
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::from("# SPDX-License-Identifier: MIT OR GPL-2.0-only\n");
        let takes_text = "strings take all text";
        writeln!(out, "name = {}", quoted(&self.name)).expect(takes_text);
        writeln!(out, "title = {}", quoted(&self.title)).expect(takes_text);
        for (key, texts) in [("source", &self.sources), ("note", &self.notes)] {
            if !texts.is_empty() {
                let texts: Vec<String> = texts.iter().map(|t| quoted(t)).collect();
                writeln!(out, "{key} = [\n    {},\n]", texts.join(",\n    ")).expect(takes_text);
            }
        }
        out + &self.tables
    }
}

/// Returns a valid name of a workload or a task.
pub(super) fn fit(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(fit).collect();
    if name.is_empty() { "job".to_owned() } else { name }
}

/// Returns a TOML basic string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => write!(out, "\\u{:04X}", u32::from(c)).expect("text is taken"),
            c => out.push(c),
        }
    }
    out + "\""
}
