// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Errors that a reader can fix without opening this source.

use std::fmt;

/// One thing wrong in a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// From 1; so is the column, in characters. 0 if no line of a text has it.
    pub line: usize,
    pub column: usize,
    /// The key in full, such as `cluster[0].idle_state[1].exit_latency_us`.
    pub key: String,
    /// The value as written; `None` when something is missing.
    pub value: Option<String>,
    pub message: String,
    /// Allowed values.
    pub allowed: Option<String>,
    pub hint: Option<String>,
    /// The line of the file, and how many characters of it are meant.
    pub(crate) snippet: String,
    pub(crate) width: usize,
}

impl Problem {
    fn write(&self, f: &mut fmt::Formatter<'_>, origin: &str) -> fmt::Result {
        let gutter = self.line.to_string().len();
        write!(f, "{}", self.key)?;
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        writeln!(f, ": {}", self.message)?;
        if self.line == 0 {
            write!(f, " --> {origin}")?;
        } else {
            writeln!(f, "{:gutter$}--> {origin}:{}:{}", "", self.line, self.column)?;
            writeln!(f, "{:gutter$} |", "")?;
            writeln!(f, "{} | {}", self.line, self.snippet)?;
            let (indent, marks) = (self.column.saturating_sub(1), "^".repeat(self.width.max(1)));
            write!(f, "{:gutter$} | {:indent$}{marks}", "", "")?;
        }
        if let Some(allowed) = &self.allowed {
            write!(f, "\n{:gutter$} = allowed: {allowed}", "")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n{:gutter$} = hint: {hint}", "")?;
        }
        Ok(())
    }
}

/// Each problem with the line of `origin` it is about, as a compiler would print it.
pub fn render(origin: &str, problems: &[Problem]) -> String {
    struct Shown<'a>(&'a Problem, &'a str);
    impl fmt::Display for Shown<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.write(f, self.1)
        }
    }
    let count = match problems.len() {
        1 => String::new(),
        count => format!("{count} problems\n"),
    };
    let shown: Vec<String> = problems.iter().map(|p| Shown(p, origin).to_string()).collect();
    count + &shown.join("\n")
}
